# SPDX-License-Identifier: GPL-2.0-only
"""The points of an experiment as the simulator is told of them, for steps that change knobs as they go."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from tailgate.runs.histogram import Histogram, from_ns, merge
from tailgate.runs.statistics import interval
from tailgate.simulator import simulation
from tailgate.simulator.simulation import Outcome, Simulation
from tailgate.spec import experiment as experiments
from tailgate.spec.experiment import ModeName
from tailgate.targets import sim
from tailgate.targets.resolve import resolve
from tailgate.upkeep.claims.quantity import Quantity, exact, within

#: Label of the load (empty if it has none), label of the scheduler, rate of the background.
Key = tuple[str, str, float]


def of(
    name: str, drive: str, mode: ModeName = "full", seed: int = 1, **changes: object
) -> dict[Key, Simulation]:
    """What `tailgate run NAME --target sim --drive DRIVE` simulates; `changes` are of the mode."""
    path = experiments.find(name)
    run = resolve(path, mode, None, (seed,), "sim", drive=drive)
    run = replace(run, mode=run.mode.model_copy(update=changes))
    target = sim.SimTarget(run, path, str(run.spec.machine.simulated))
    return {
        (p.chunk.sweep.label or "", p.chunk.scheduler.label, p.background_rate): target.plan.simulation(p)
        for p in target.points
    }


def with_knobs(simulated: Simulation, knobs: Mapping[str, int]) -> Simulation:
    """The same with some knobs set otherwise."""
    return replace(simulated, knobs={**simulated.knobs, **knobs})


def mib_s(outcome: Outcome, *flows: str) -> float:
    """Throughput of these flows together (none named: all), MiB/s."""
    chosen = flows or tuple(outcome.flows)
    return sum(d.bytes * outcome.rate(name) for name in chosen for d in outcome.flows[name][1]) / 2**20


@dataclass(frozen=True)
class Reader:
    """Latencies of a real-time reader in us, and what the background got beside it, MiB/s."""

    latency: Histogram
    mib_s: float

    def us(self, p: float) -> Quantity:
        """A percentile, 0 < p < 1, with its interval."""
        return within(self.latency.percentile(p), *interval(self.latency, p), self.latency.n)

    @property
    def background(self) -> Quantity:
        """`mib_s`, the same in every run."""
        return exact(self.mib_s)


def reader(simulated: Simulation) -> Reader:
    """Simulate a point that has a flow `rt` of reads, and `background` or not."""
    outcome = simulation.simulate(simulated)
    reads = outcome.flows["rt"][1][0].latency
    latency = from_ns(reads.values_ns, reads.counts, reads.mean_ns, reads.max_ns, 1)
    return Reader(latency, mib_s(outcome, "background") if "background" in outcome.flows else 0.0)


def pooled(starts: Sequence[Simulation]) -> Reader:
    """The same point started with several seeds: the latencies of all, the mean background."""
    readers = [reader(start) for start in starts]
    return Reader(merge(each.latency for each in readers), fmean(each.mib_s for each in readers))
