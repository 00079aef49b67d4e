# SPDX-License-Identifier: GPL-2.0-only
"""The search for a setting, beside the whole grid of Kyber's targets."""

import shlex
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tailgate.base.errors import UsageError
from tailgate.simulator.executor import executor
from tailgate.spec import experiment as experiments
from tailgate.spec.experiment import Experiment
from tailgate.tune import answer, workload
from tailgate.tune.evaluate import WHOLE, SimulatedLoad, Wanted
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
#: A tenth of the grid's 90 cells.
TRIALS = 9
SEEDS = range(1, 21)
#: Settings that are tried where all schedulers are allowed.
ALL_TRIALS = 120
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
    """The search for Kyber's targets: 9 settings beside 90 cells, 20 seeds; then all schedulers."""
    del lab
    source = Source("tailgate claims tune_kyber", "sim", "virtual", (1,))
    with executor(CORES, None) as pool:
        of_cells = cells()
        none = Setting("none", {})
        wanted = [Wanted(s, 1, WHOLE) for s in (none, *of_cells)]
        of_grid = list(asked(SHARES[0]).load("full").evaluate(wanted, pool))
        for share in SHARES:
            start = f"tune/sim/r1-w256/keep-{share}"
            a = asked(share)
            values = [tuple(q.of(g.flows, a.members) for q in a.question.quantities) for g in of_grid]
            [keep] = a.question.keeps
            limit = share * values[0][1]
            best = min(p99 for p99, writes in values[1:] if keep.missed(writes, limit) <= 0)

            def at_length(settings: Sequence[Setting], a: Asked = a, limit: float = limit) -> list[float]:
                """p99 of settings, as long as the grid's cells; without end where the writes are not kept."""
                givens = a.load("full").evaluate([Wanted(s, 1, WHOLE) for s in settings], pool)
                pairs = [[q.of(g.flows, a.members) for q in a.question.quantities] for g in givens]
                missed = a.question.keeps[0].missed
                return [p99 if missed(writes, limit) <= 0 else float("inf") for p99, writes in pairs]

            found = []
            for seed in SEEDS:
                search = Search(
                    a.question, a.members, Space(["kyber"]), a.load("quick"), Budget(TRIALS, 1, seed)
                )
                found.append(answer.answer(search, search.run(pool)).front[0].setting)
            ratios = [p99 / best for p99 in at_length(found)]
            yield Figure(f"{start}/median-over-best-cell", exact(statistics.median(ratios)), source)
            yield Figure(f"{start}/worst-over-best-cell", exact(max(ratios)), source)
            yield Figure(f"{start}/settings-over-cells", exact(TRIALS / len(of_cells)), source)
            everything = Search(
                a.question, a.members, Space(list(SEARCHED)), a.load("full"), Budget(ALL_TRIALS, 3)
            )
            setting = answer.answer(everything, everything.run(pool)).front[0].setting
            ratio = at_length([setting])[0] / best
            yield Figure(f"{start}/all-schedulers-over-best-cell", exact(ratio), source)


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
        with tempfile.TemporaryDirectory() as folder:
            # Status 1 also says that a profile breaks the limit in the guest, which is a figure here.
            answers.append(lab.json("tune", *IN_GUEST, "--out", folder, statuses=(0, 1)))
        if fault := answers[-1].get("fault"):
            raise UsageError(f"tailgate tune {shlex.join(IN_GUEST)}: {fault}")

    minutes = seconds(ask) / 60
    command = f"tailgate tune {shlex.join(IN_GUEST)}"
    yield Figure("tune/vm/fig8/minutes", minutes, Source(command, "host", "wall"))
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
