# SPDX-License-Identifier: GPL-2.0-only
"""The search for a setting, beside the whole grid of Kyber's targets."""

import math
import shlex
import statistics
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tailgate.base.errors import UsageError
from tailgate.simulator.executor import executor
from tailgate.spec import experiment as experiments
from tailgate.spec.experiment import Experiment
from tailgate.tune import answer, workload
from tailgate.tune.evaluate import WHOLE, Given, SimulatedLoad, Wanted
from tailgate.tune.goal import Question, question
from tailgate.tune.search import Budget, Search
from tailgate.tune.space import SEARCHED, Setting, Space
from tailgate.upkeep.claims.lab import Lab, clock
from tailgate.upkeep.claims.quantity import exact, once, seconds
from tailgate.upkeep.claims.results import Figure, Source

LOAD = "kyber/r1-w256"
GOAL = "min read.lat_us.p99"
#: What writes must keep of their throughput without a scheduler. With the first a setting may cost them
#: something, with the second nothing.
SHARES = (0.8, 0.95)
#: A tenth of the grid's 90 cells, less `none`, which each search simulates as well.
TRIALS = 8
SEEDS = range(1, 21)
#: Settings that are tried where all schedulers are allowed, and the seeds of these searches.
ALL_TRIALS = 120
ALL_SEEDS = (1, 2, 3)
CORES = 2


@dataclass(frozen=True)
class Asked:
    """The load, its file, and what is asked of it."""

    spec: Experiment
    path: Path
    question: Question
    members: Mapping[str, Sequence[str]]

    def load(self, mode: experiments.ModeName) -> SimulatedLoad:
        """The load as a mode has it."""
        return SimulatedLoad(self.spec, mode, self.path)

    def values(self, given: Given) -> tuple[float, float]:
        """The reads' p99 in us, and the writes a second."""
        p99, writes = (q.of(given.flows, self.members) for q in self.question.quantities)
        return p99, writes

    def keeps(self, writes: float, limit: float) -> bool:
        """Whether enough is written."""
        [keep] = self.question.keeps
        return keep.missed(writes, limit) <= 0


def asked(share: float) -> Asked:
    """The question with this share of the writes to be kept."""
    spec, folder = workload.experiment_of(workload.Asked(LOAD))
    members = workload.members(spec, SimulatedLoad(spec, "quick", folder / workload.FILE).mixed)
    what = question([GOAL], [f"write.iops >= {share} * none"], list(members))
    return Asked(spec, folder / workload.FILE, what, members)


def cells() -> list[Setting]:
    """The cells of the grid."""
    spec = experiments.load(experiments.find(LOAD))
    return [Setting(s.name, s.knobs) for s in spec.schedulers if s.name == "kyber"]


def tune_kyber(lab: Lab) -> Iterator[Figure]:
    """The search for Kyber's targets: 8 settings beside 90 cells, 20 seeds; then all schedulers, 3 seeds."""
    del lab
    of_cells = cells()
    with executor(CORES, None) as pool:
        wanted = [Wanted(s, 1, WHOLE) for s in (Setting("none", {}), *of_cells)]
        of_grid = list(asked(SHARES[0]).load("full").evaluate(wanted, pool))
        for share in SHARES:
            yield from _beside(of_grid, asked(share), share, pool)


def _beside(of_grid: Sequence[Given], a: Asked, share: float, pool: Executor) -> Iterator[Figure]:
    """Searches beside the grid: `none` and then its cells."""
    start = f"tune/sim/r1-w256/keep-{share}"
    source = Source("tailgate claims tune_kyber", "sim", "virtual", (1,))
    values = [a.values(g) for g in of_grid]
    limit = share * values[0][1]
    best = min(p99 for p99, writes in values[1:] if a.keeps(writes, limit))

    def over_best(settings: Sequence[Setting]) -> list[float]:
        """p99 over the best cell's, as long as the grid's cells; infinite where the writes are not kept."""
        givens = a.load("full").evaluate([Wanted(s, 1, WHOLE) for s in settings], pool)
        pairs = [a.values(given) for given in givens]
        return [p99 / best if a.keeps(writes, limit) else math.inf for p99, writes in pairs]

    found, simulated = [], []
    for seed in SEEDS:
        search = Search(a.question, a.members, Space(["kyber"]), a.load("quick"), Budget(TRIALS, 1, seed))
        found.append(answer.answer(search, search.run(pool)).front[0].setting)
        simulated.append(search.simulated)
    ratios = over_best(found)
    yield Figure(f"{start}/median-over-best-cell", exact(statistics.median(ratios)), source)
    yield Figure(f"{start}/worst-over-best-cell", exact(max(ratios)), source)
    settings = exact(max(simulated) / (len(of_grid) - 1))
    yield Figure(f"{start}/settings-over-cells", settings, source)

    found, of_schedulers = [], dict[str, list[float]]()
    for seed in ALL_SEEDS:
        search = Search(
            a.question, a.members, Space(list(SEARCHED)), a.load("full"), Budget(ALL_TRIALS, 3, seed)
        )
        all_ = answer.answer(search, search.run(pool))
        found.append(all_.front[0].setting)
        for name, tried in all_.best.items():
            if tried:
                of_schedulers.setdefault(name, []).append(tried.values[0] / best)
    yield Figure(f"{start}/all-schedulers-over-best-cell", exact(max(over_best(found))), source)
    for name, some in of_schedulers.items():
        yield Figure(f"{start}/{name}/best-over-best-cell", exact(min(some), len(some)), source)


#: A search from end to end: the real-time reader of Figure 8 of the K2 paper beside its background.
KEPT = "background.iops"
IN_GUEST = (
    *("--workload", "k2/fig8", "--goal", "min rt.lat_us.p99", "--keep", f"{KEPT} >= 0.8 * none"),
    *("--target", "vm", "--quick"),
)


def tune_in_guest(lab: Lab) -> Iterator[Figure]:
    """`tailgate tune --target vm --quick`: minutes by the clock; a guest over the simulator."""
    answers: list[Mapping[str, Any]] = []

    def ask() -> None:
        # Status 1 also says that a profile breaks the limit in the guest, which is a figure here.
        answers.append(lab.anew("tune", *IN_GUEST, statuses=(0, 1)))
        if fault := answers[-1].get("fault"):
            raise UsageError(f"tailgate tune {shlex.join(IN_GUEST)}: {fault}")

    minutes = seconds(ask) / 60
    command = f"tailgate tune {shlex.join(IN_GUEST)}"
    yield Figure("tune/vm/fig8/minutes", minutes, Source(command, "host", "wall", (1,)))
    source = Source(command, "vm", clock("vm"), (1,))
    measured = once if source.clock == "wall" else exact
    [limit] = answers[-1]["confirmed_limits"]
    for name, profile in answers[-1]["profiles"].items():
        for figure, value in profile.get("confirmed", {}).items():
            over = measured(value / profile["values"][figure])
            yield Figure(f"tune/vm/fig8/{name}/{figure}-over-sim", over, source)
            if figure == KEPT:
                yield Figure(f"tune/vm/fig8/{name}/{figure}-over-limit", measured(value / limit), source)


STEPS = (tune_kyber, tune_in_guest)
