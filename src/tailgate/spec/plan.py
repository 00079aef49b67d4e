# SPDX-License-Identifier: GPL-2.0-only
"""The plan of a run: the experiment, one of its modes, and its chunks, each a boot or a group of
simulations.
"""

from dataclasses import dataclass

from tailgate.spec.experiment import Experiment, Mode, ModeName
from tailgate.spec.scheduler import Scheduler
from tailgate.spec.sweep import Sweep


@dataclass(frozen=True)
class Run:
    """The request: an experiment, one of its modes, and the choices of the command line."""

    name: str
    spec: Experiment
    mode_name: ModeName
    mode: Mode
    schedulers: tuple[Scheduler, ...]
    variants: tuple[int, ...]  # indices into spec.variants
    target: str = "vm"


@dataclass(frozen=True)
class Chunk:
    """One boot: one scheduler, load and seed, its rates in order. `variant` is an index, None the main run.

    A point ends when the first real-time flow has `rt_samples`, or after `duration_s` if `rt_samples` is 0.
    """

    scheduler: Scheduler
    sweep: Sweep
    seed: int
    background_rates: tuple[float, ...]
    rt_samples: int
    duration_s: float | None = None
    variant: int | None = None

    @property
    def name(self) -> str:
        """The chunk's folder."""
        load = f".{self.sweep.label}" if self.sweep.label else ""
        extra = "" if self.variant is None else f".variant{self.variant}"
        return f"{self.scheduler.label}{load}.seed{self.seed}{extra}"

    @property
    def points(self) -> tuple["PlannedPoint", ...]:
        """Its points, in order."""
        return tuple(PlannedPoint(self, i) for i in range(len(self.background_rates)))


@dataclass(frozen=True)
class PlannedPoint:
    """One point of a run: a chunk under one of its rates."""

    chunk: Chunk
    index: int

    @property
    def name(self) -> str:
        """The prefix of the point's files in the chunk's folder."""
        return f"p{self.index}"

    @property
    def background_rate(self) -> float:
        """The share of its full rate that the background asks for."""
        return self.chunk.background_rates[self.index]

    @property
    def words(self) -> str:
        """The point in words, as in "none.seed1 at 25% load"."""
        rate = self.background_rate
        load = "full load" if rate >= 1 else f"{rate:.0%} load" if rate > 0 else "no load"
        return f"{self.chunk.name} at {load}"


def chunks(run: Run) -> list[Chunk]:
    """The boots of a run, in the order of the experiment file: load by load, scheduler by scheduler."""
    mode = run.mode
    out = []
    for variant in (None, *run.variants):
        other = None if variant is None else run.spec.variants[variant]
        for sweep in run.spec.sweeps:
            for scheduler in run.schedulers:
                if sweep.schedulers and scheduler.label not in sweep.schedulers:
                    continue
                if other and scheduler.label not in other.schedulers:
                    continue
                rates = sweep.background_rates or mode.background_rates
                samples = mode.rt_samples
                if other:
                    rates, samples = other.background_rates, other.rt_samples or samples
                if not run.spec.real_time(sweep):
                    samples = 0
                out += [
                    Chunk(
                        scheduler,
                        sweep,
                        seed,
                        rates,
                        samples,
                        None if samples else mode.duration_s,
                        variant,
                    )
                    for seed in (mode.seeds[:1] if other else mode.seeds)
                ]
    return out
