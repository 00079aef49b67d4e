# SPDX-License-Identifier: GPL-2.0-only
"""Simulates the load of a search under a setting."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

from tailgate.runs.flow import Flow
from tailgate.simulator import simulation
from tailgate.simulator.simulation import DIRECTIONS, Outcome, Simulation
from tailgate.spec.experiment import Experiment, ModeName
from tailgate.spec.plan import Chunk, PlannedPoint, Run
from tailgate.targets import identity
from tailgate.targets.sim import SimTarget
from tailgate.tune import workload
from tailgate.tune.space import Setting

#: Simulated time of a short trial as a share of a whole one, without the lead. Short trials are used only if
#: one takes at most WORTH_WHILE of a whole one, the lead included.
SHORT, WHOLE = 0.25, 1.0
WORTH_WHILE = 0.5
#: Modules of the lab that decide which settings are tried and what they give.
CODE = ("tune/search.py",)


@dataclass(frozen=True)
class Wanted:
    """One simulation: a setting, a seed, and its length as a share of a whole one."""

    setting: Setting
    seed: int
    share: float


@dataclass(frozen=True)
class Given:
    """The result of a simulation. `seconds` were simulated, the lead included."""

    flows: tuple[Flow, ...]
    seconds: float


class SimulatedLoad:
    """The load of an experiment, simulated under any setting."""

    def __init__(self, spec: Experiment, mode: ModeName, path: Path, cpus: int | None = None) -> None:
        """`path` is the experiment's file, which need not exist; its job file lies beside it.

        `cpus` is the number of CPUs, if not the simulated machine's own.
        """
        run = Run("tune", spec, mode, spec.modes[mode].on("sim"), spec.schedulers, (), "sim")
        self._target = SimTarget(run, path, spec.machine.simulated, cpus=cpus)
        self.plan = self._target.plan
        self.mode = run.mode
        self.sweep = spec.sweeps[0]
        self.real_time = bool(spec.real_time(self.sweep))
        point = self._point(Wanted(Setting("none", {}), 1, WHOLE))
        #: Flows that both read and write.
        self.mixed = _mixed(spec, self.plan.simulation(point))
        lead, seconds = self.plan.loads.lead_s(self.sweep), self.plan.loads.estimate(point.chunk, 1.0)[1]
        short = lead + SHORT * seconds <= WORTH_WHILE * (lead + seconds)
        #: Lengths of the trials of a setting, one after the other, as shares of a whole simulation.
        self.shares = (SHORT, WHOLE) if short else (WHOLE,)

    @property
    def identity(self) -> dict[str, object]:
        """Everything that decides what a setting gives, the code of a search included."""
        return self._target.identity | {"code": identity.code(CODE)}

    def check(self, settings: Sequence[Setting]) -> None:
        """UsageError for a load or a setting that the simulator refuses."""
        for setting in settings:
            point = self._point(Wanted(setting, self.mode.seeds[0], SHORT))
            simulation.check(self.plan.simulation(point), str(self.plan.loads.path))

    def evaluate(self, wanted: Sequence[Wanted], pool: Executor) -> Iterator[Given]:
        """Simulate several settings in parallel; results in the order of `wanted`, each as soon as those
        before it are done.
        """
        points = [self._point(w) for w in wanted]
        outcomes = pool.map(simulation.simulate, [self.plan.simulation(p) for p in points])
        yield from (self._given(p, o) for p, o in zip(points, outcomes, strict=True))

    def _given(self, point: PlannedPoint, outcome: Outcome) -> Given:
        return Given(self.plan.measurement(point, outcome).flows, outcome.now_ns / 1e9)

    def _point(self, wanted: Wanted) -> PlannedPoint:
        mode, samples = self.mode, 0
        duration = (mode.duration_s or 0.0) * wanted.share
        if self.real_time and mode.rt_samples:
            samples = max(1, round(mode.rt_samples * wanted.share))
        rate = workload.rate_of(self.sweep, mode)
        chunk = Chunk(
            scheduler=wanted.setting.as_scheduler(),
            sweep=self.sweep,
            seed=wanted.seed,
            background_rates=(rate,),
            rt_samples=samples,
            duration_s=None if samples else duration,
        )
        return chunk.points[0]


def _mixed(spec: Experiment, told: Simulation) -> frozenset[str]:
    """The flows that both read and write, by their options or their traces. A flow that verifies its writes
    reads, too.
    """
    directions: dict[str, set[int]] = {section: set() for section in told.flows}
    for process in told.processes:
        shares = {i for i, share in enumerate(process.share) if share}
        directions[told.flows[process.flow]] |= {io.direction for io in process.trace} or shares
        if process.verifies:
            directions[told.flows[process.flow]].add(DIRECTIONS.index("read"))
    sections = [section for section, found in directions.items() if len(found) == len(DIRECTIONS)]
    return frozenset(name for name, flow in spec.flows.items() if flow.section in sections)
