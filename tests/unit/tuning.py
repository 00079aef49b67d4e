# SPDX-License-Identifier: GPL-2.0-only
"""For tests of `tailgate tune`: a question, settings with values, and a law in place of the simulator."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from pathlib import Path

import numpy as np

from tailgate.runs.flow import Flow
from tailgate.runs.histogram import Histogram
from tailgate.simulator.executor import executor
from tailgate.spec.experiment import Mode
from tailgate.tune.evaluate import SHORT, WHOLE, Given, SimulatedLoad, Wanted
from tailgate.tune.front import Candidate
from tailgate.tune.goal import Goal, Quantity, Question, question
from tailgate.tune.search import Budget, Search, Tried
from tailgate.tune.space import Setting, Space

FLOWS = ("rt", "background")
LATENCY = Goal(Quantity("rt", "lat_us.p99"), least=True)
RATE = Goal(Quantity("background", "iops"), least=False)
OBJECTIVES = (LATENCY, RATE)
ASKED = question(["min rt.lat_us.p99"], ["background.iops >= 0.8 * none"], FLOWS)
MEMBERS = {"rt": ["rt"], "background": ["a", "b"]}


def flow(name: str, latencies: Sequence[float], iops: float) -> Flow:
    values = np.array(sorted(latencies), dtype=float)
    histogram = Histogram(
        values, np.ones(len(values), dtype=np.int64), float(values.mean()), float(values.max())
    )
    return Flow(name=name, op="read", ios=len(latencies), iops=iops, mib_s=iops / 256, histogram=histogram)


def candidates(values: Sequence[tuple[float, ...]]) -> list[Candidate]:
    return [Candidate(Setting("k2", {"inflight_max": i}), [v]) for i, v in enumerate(values)]


def tried(read: int, write: int, values: tuple[float, float]) -> Tried:
    setting = Setting("kyber", {"read_lat_nsec": read, "write_lat_nsec": write})
    return Tried(setting, values, values, (0.0,), short=False)


class Law(SimulatedLoad):
    """In place of the simulator a law: a low target of reads helps them, unless that of writes is low too.

    Where p99 were to be `endless` us or more, no request completes.
    """

    def __init__(self, stop_after: int | None = None, endless: float = float("inf")) -> None:
        self.endless = endless
        self.mode = Mode(duration_s=1, background_rates=(1.0,), seeds=(1,), limit_s=1)
        self.shares = (SHORT, WHOLE)
        self.left = stop_after
        self.asked: list[Wanted] = []

    def evaluate(self, wanted: Sequence[Wanted], pool: Executor) -> Iterator[Given]:
        return map(self._one, wanted)

    def _one(self, wanted: Wanted) -> Given:
        if self.left is not None:
            if self.left == 0:
                raise KeyboardInterrupt
            self.left -= 1
        self.asked.append(wanted)
        knobs = wanted.setting.knobs
        read, write = int(knobs.get("read_lat_nsec", 10**9)), int(knobs.get("write_lat_nsec", 10**9))
        p99 = 100 + read / 1e5 if write > 20_000_000 else 10_000
        rate = 1000.0 if read > 200_000 or write <= 20_000_000 else 500.0
        noise = 1 + 0.001 * wanted.seed
        own = (flow("rt", [p99 * noise], 1),) if p99 < self.endless else ()
        return Given((*own, flow("a", [1], rate)), seconds=1.0)


def searched(
    law: Law, trials: int = 30, storage: Path | None = None, seed: int = 1, asked: Question = ASKED
) -> tuple[Search, list[Candidate]]:
    search = Search(asked, MEMBERS, Space(["kyber"]), law, Budget(trials, 4, seed), storage)
    with executor(1, None) as pool:
        return search, search.run(pool)
