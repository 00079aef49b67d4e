# SPDX-License-Identifier: GPL-2.0-only
"""The compiled programs of tests/unit/k2, K2 before simulated drives, and mutations that break K2."""

import heapq
import itertools
import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.unit.programs import GCC, ROOT, mutate
from tests.unit.scripts import Script, fails


def compile_program(name: str, out: Path, *flags: str, root: Path = ROOT) -> Path:
    """Compile tests/unit/k2/<name>.c of a tree into the folder `out`."""
    sources = root / "tests/unit/k2"
    program = out / name
    own = ["-I", str(root / "tests/unit/interleave")] if name == "interleave" else []
    includes = [*own, "-I", str(ROOT / "sim/include")]
    command = [*GCC, "-O1", "-pthread", *flags, *includes, str(sources / f"{name}.c"), "-o", str(program)]
    subprocess.run(command, check=True)
    return program


def compile_library(out: Path, *flags: str, root: Path = ROOT) -> Path:
    """Compile tests/unit/k2/script.c of a tree into the folder `out`."""
    return compile_program("script", out, "-shared", "-fPIC", *flags, root=root)


RT, BACKGROUND = 0, 8


class Drive:
    """K2 before a drive with one hardware queue, with numbered requests; times are in ms.

    `armed_ms` is when its timer is due; None: it is not armed.
    """

    def __init__(self, script: Script, **knobs: int) -> None:
        self.script = script
        self.now_ms = 10_000.0
        self.armed_ms: float | None = None
        self.count = 0
        self.ask("new 1")
        for name, value in knobs.items():
            self.set(name, value)

    @property
    def now(self) -> int:
        return round(self.now_ms * 1e6)

    def ask(self, line: str) -> list[str]:
        """The answer to a command, without the timer that it arms."""
        words = self.script.ask(line).split()
        for word in words:
            if word.startswith("arm:"):
                self.armed_ms = int(word.removeprefix("arm:")) / 1e6
        return [word for word in words if not word.startswith("arm:")]

    def set(self, name: str, value: int) -> None:
        assert self.ask(f"set {name} {value}")[0] == "0"

    def insert(self, level: int = BACKGROUND, sectors: int = 8, *marks: str, urgent: bool = False) -> int:
        """Insert a request; returns its number. `marks` are commands of the program, such as "whole"."""
        self.count += 1
        for mark in marks:
            self.ask(f"{mark} {self.count}")
        self.ask(f"insert 0 {self.now} {self.count}:{level}:{urgent:d}:{sectors}")
        return self.count

    def discard(self, level: int = BACKGROUND, *, urgent: bool = False) -> int:
        return self.insert(level, 0, "discards", urgent=urgent)

    def dispatch(self) -> int | None:
        words = self.ask(f"dispatch {self.now}")
        return None if words[0] == "-" else int(words[0])

    def works(self) -> bool:
        return self.ask(f"work {self.now}")[-1] == "1"

    def finish(self, number: int) -> bool:
        """End a request; returns whether a hardware queue should be run."""
        return bool(self.ask(f"finish {number} 0 {self.now}"))

    def serve(self, number: int) -> None:
        """Dispatch a request and end it."""
        assert self.dispatch() == number
        self.finish(number)

    def real_time(self) -> None:
        """Insert, dispatch and end a real-time request."""
        self.serve(self.insert(RT))

    def tick(self) -> bool:
        """Advance time to the timer's expiry; returns whether a hardware queue should be run."""
        assert self.armed_ms is not None
        assert self.armed_ms >= self.now_ms
        self.now_ms, self.armed_ms = self.armed_ms, None
        return bool(self.ask(f"tick {self.now}"))


class EventLoop(ABC):
    """K2 before a simulated drive, event by event; K2's timer is one of the events. Times are in us."""

    def __init__(self, script: Script, knobs: Mapping[str, int]) -> None:
        self.script = script
        self.origin = self.now_us = 10.0**6
        self.armed_us = self.ticked_us = float("inf")
        self.ticks = 0  # ticks since a request ended
        self.events: list[tuple[float, int, Callable[[], None]]] = []
        self.order = itertools.count()
        script.ask("new 1")
        for name, value in knobs.items():
            assert script.ask(f"set {name} {value}") == f"0 {value}"

    @property
    def ns(self) -> int:
        return round(self.now_us * 1000)

    def at(self, us: float, what: Callable[[], None]) -> None:
        heapq.heappush(self.events, (us, next(self.order), what))

    def ask(self, line: str) -> list[str]:
        """The answer to a command, without the timer that it arms."""
        words = self.script.ask(line).split()
        for word in words:
            if word.startswith("arm:"):
                self.armed_us = int(word[4:]) / 1000
                self.at(max(self.armed_us, self.now_us), self.tick)
        return [word for word in words if not word.startswith("arm:")]

    def tick(self) -> None:
        """Handle the timer's expiry, unless it was armed anew."""
        if self.armed_us <= self.now_us:
            self.ticks += 1
            assert self.ticked_us != self.now_us, "the timer fires again and again"
            assert self.ticks < 100, "nothing but the timer fires"
            self.ticked_us = self.now_us
            self.armed_us = float("inf")
            self.ask(f"tick {self.ns}")
            self.run()

    def finish(self, number: int) -> bool:
        """End a request; returns whether a hardware queue should be run."""
        self.ticks = 0
        return bool(self.ask(f"finish {number} 0 {self.ns}"))

    @abstractmethod
    def run(self) -> None:
        """blk_mq_run_hw_queue()."""

    def work(self) -> None:  # noqa: B027 - not every drive has something of its own to do
        """Update the drive up to now, besides its events."""

    def play(self, until_us: float) -> None:
        """Handle all events up to this time since the origin."""
        self.run()
        while self.events and self.events[0][0] < self.origin + until_us:
            self.now_us, _, what = heapq.heappop(self.events)
            self.work()
            what()
        self.now_us = self.origin + until_us


@dataclass(frozen=True)
class Mutation:
    """A change that breaks K2, and the check that must fail with it."""

    name: str
    noticed_by: str  # a check of the program `script`; or "interleave", the program
    old: str
    new: str


def mutated(root: Path, mutation: Mutation) -> Path:
    """A copy of the sources of a program, with the mutation in one of the files of sched/."""
    shutil.copytree(ROOT / "sched", root / "sched")
    for folder in ("interleave", "k2"):
        shutil.copytree(ROOT / "tests/unit" / folder, root / "tests/unit" / folder)
    shutil.copy(ROOT / "tests/unit/answer.h", root / "tests/unit")
    mutate(root / "sched", mutation.old, mutation.new)
    return root


def assert_noticed(mutation: Mutation, checks: Mapping[str, Callable[[Script], None]], root: Path) -> None:
    """Assert that one of these checks of `script` fails with the mutation; `root` gets the compiled files."""
    library = compile_library(root, "-O0", "-w", root=mutated(root, mutation))
    assert fails(checks[mutation.noticed_by], library), "the check does not notice it"
