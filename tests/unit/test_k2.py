# SPDX-License-Identifier: GPL-2.0-only
"""sched/k2.c in user space: its guarantees, by scripts and between threads; and that tests notice their loss.

Three programs in tests/unit/k2 compile it: `script` takes commands, so that a property can be checked after
every step; `interleave` runs threads as coroutines, with one schedule for each seed; `stress` runs real
threads under sanitizers.
"""

import itertools
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st
from tests.unit.k2_programs import Mutation, assert_noticed, compile_library, compile_program, mutated
from tests.unit.programs import (
    ROOT,
    SANITIZED,
    THREAD_SANITIZED,
    complains,
    fixed_addresses,
    run_program,
)
from tests.unit.scripts import Script

RT_LEVELS = 8
LEVELS = RT_LEVELS + 1
WAIT_BUCKETS = 26
EINVAL, ERANGE = -22, -34
#: A knob's value that stands for `auto`.
AUTO_VALUE = 2**32 - 1


@dataclass
class Entry:
    level: int
    ctx: int
    urgent: bool
    inserted_ns: int
    sectors: int = 8
    epoch: int | None = None  # number of the collection that took it; None: not collected

    @property
    def queue(self) -> int:
        return 0 if self.urgent else self.level + 1


@dataclass
class Machine:
    """A model of K2 with a small blk-mq: a ctx runs after an insertion, a change of a knob, and K2's
    request.
    """

    script: Script
    ctxs: int
    bound: int = 32
    kib_max: int = 0
    now: int = 10**12
    entries: dict[int, Entry] = field(default_factory=dict)
    queued: list[int] = field(default_factory=list)  # in order of insertion
    visited: set[int] = field(default_factory=set)
    in_flight: list[int] = field(default_factory=list)
    returned: list[int] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)
    to_run: list[int] = field(default_factory=list)
    blocked: bool = False  # lists may be marked as blocked: a dispatch found nothing, or took the last slot
    refused: bool = False  # a dispatch found nothing to send, and nothing was queued since
    held: int = 0
    epoch: int = 0
    inserted: list[int] = field(default_factory=lambda: [0] * LEVELS)
    dispatched: list[int] = field(default_factory=lambda: [0] * LEVELS)
    removed: list[int] = field(default_factory=lambda: [0] * LEVELS)
    wait: list[list[int]] = field(default_factory=lambda: [[0] * WAIT_BUCKETS for _ in range(LEVELS)])

    @property
    def sectors(self) -> int:
        """Sectors in flight."""
        return sum(self.entries[n].sectors for n in self.in_flight)

    def fits(self, number: int) -> bool:
        """Whether this entry may be dispatched now: the bound on bytes applies to the background only."""
        entry = self.entries[number]
        if len(self.in_flight) >= self.bound:
            return False
        if entry.urgent or entry.level < RT_LEVELS or not (self.kib_max and entry.sectors and self.sectors):
            return True
        return self.sectors + entry.sectors <= 2 * self.kib_max

    @property
    def room(self) -> bool | None:
        """Whether the next entry may be dispatched; None if that depends on which of several is next."""
        answers = {self.fits(number) for number in self.first()} if self.queued else {False}
        return answers.pop() if len(answers) == 1 else None

    def insert(self, ctx: int, new: Sequence[tuple[int, bool] | tuple[int, bool, int]]) -> None:
        """Insert entries, each given as level, whether it is urgent, and sectors (default 8)."""
        entries = [
            (len(self.entries) + i, Entry(level, ctx, urgent, self.now, *sectors))
            for i, (level, urgent, *sectors) in enumerate(new)
        ]
        self._insert(ctx, entries)

    def _insert(self, ctx: int, new: list[tuple[int, Entry]]) -> None:
        words = []
        for number, entry in new:
            self.entries[number] = entry
            self.queued.append(number)
            self.visited.discard(number)
            self.inserted[entry.level] += 1
            words.append(f"{number}:{entry.level}:{entry.urgent:d}:{entry.sectors}")
        self.script.ask(f"insert {ctx} {self.now} {' '.join(words)}")
        self.run_soon(ctx)

    def run_soon(self, ctx: int) -> None:
        """blk_mq_run_hw_queue(), asynchronous: checks has_work now, dispatches later."""
        if self.has_work() and ctx not in self.to_run:
            self.to_run.append(ctx)

    def has_work(self) -> bool:
        work = self.script.ask("work") == "1"
        if self.room:
            assert work
        if not self.queued or (self.refused and self.room is False):
            assert not work, "a hardware queue would run again and again"
        return work

    def run(self, which: int, most: int) -> None:
        if not self.to_run:
            return
        ctx = self.to_run.pop(which % len(self.to_run))
        for _ in range(most):
            if not self.has_work():
                return
            room = self.room
            if self.dispatch() is None:
                assert not room
                return
        self.run_soon(ctx)

    def collect(self) -> None:
        self.epoch += 1
        for number in self.queued:
            if self.entries[number].epoch is None:
                self.entries[number].epoch = self.epoch

    def first(self) -> set[int]:
        """The entries that may be next: for the first list and the earliest collection, the oldest of each
        ctx.
        """
        late = self.epoch + 1
        best = min((self.entries[n].queue, self.entries[n].epoch or late) for n in self.queued)
        of_ctx: dict[int, int] = {}
        for number in self.queued:
            entry = self.entries[number]
            if (entry.queue, entry.epoch or late) == best:
                of_ctx.setdefault(entry.ctx, number)
        return set(of_ctx.values())

    def dispatch(self) -> int | None:
        answer = self.script.ask(f"dispatch {self.now}")
        self.collect()
        if answer == "-":
            assert not self.queued or not self.room
            self.refused = self.blocked = bool(self.queued)
            return None
        number = int(answer)
        assert number in self.first()
        assert self.fits(number)
        entry = self.entries[number]
        self.queued.remove(number)
        self.in_flight.append(number)
        if len(self.in_flight) >= self.bound:
            self.refused = self.blocked = True
        self.dispatched[entry.level] += 1
        waited_us = max(self.now - entry.inserted_ns, 0) // 1000
        self.wait[entry.level][min(waited_us.bit_length(), WAIT_BUCKETS - 1)] += 1
        return number

    def leave(self, command: str, number: int, ctx: int, counts: bool) -> None:
        if counts:
            self.in_flight.remove(number)
        run = self.script.ask(command).split()
        assert not run or (counts and self.queued), "a run in vain"
        if counts:
            self.blocked = self.refused = False
        if run:
            assert run == [str(ctx)]
            self.held += 1
            self.run_soon(ctx)

    def finish(self, which: int) -> None:
        if self.in_flight:
            number = self.in_flight[which % len(self.in_flight)]
            ctx = self.entries[number].ctx
            self.leave(f"finish {number} {ctx}", number, ctx, counts=True)
            self.gone.append(number)

    def finish_other(self, which: int) -> None:
        """End a request that is not in flight: never inserted, merged, returned, or ended before."""
        others = [*self.gone, *self.returned, 4000]
        number = others[which % len(others)]
        self.leave(f"finish {number} 0", number, 0, counts=False)

    def requeue(self, which: int, again: bool) -> None:
        if self.in_flight:
            number = self.in_flight[which % len(self.in_flight)]
            ctx = self.entries[number].ctx
            self.leave(f"requeue {number} {ctx} {again:d}", number, ctx, counts=again)
            if again:
                self.returned.append(number)

    def insert_returned(self, urgent: bool) -> None:
        if self.returned:
            number = self.returned.pop(0)
            entry = self.entries[number]
            again = Entry(entry.level, entry.ctx, urgent, self.now, entry.sectors)
            self._insert(entry.ctx, [(number, again)])

    def merge(self, level: int, percent: int) -> None:
        words = self.script.ask(f"merge {level} {percent}").split()
        shown = [int(word) for word in words if word != "run"]
        self.collect()
        new = [n for n in self.queued if self.entries[n].queue == level + 1 and n not in self.visited]
        assert sorted(shown) == sorted(new)
        assert [self.entries[n].epoch for n in shown] == sorted(self.entries[n].epoch or 0 for n in new)
        for ctx in range(self.ctxs):
            assert [n for n in shown if self.entries[n].ctx == ctx] == [
                n for n in new if self.entries[n].ctx == ctx
            ]
        self.visited.update(shown)
        merged = [number for number in shown if number % 100 < percent]
        for number in merged:
            self.queued.remove(number)
            self.removed[level] += 1
            self.gone.append(number)
        if "run" in words:
            assert merged
            # the dispatch that used the last slot marked all lists as blocked, empty ones too
            assert self.blocked or len(self.in_flight) >= self.bound
            self.blocked = self.refused = False
            self.run_soon(0)
        for number in merged:
            self.finish_other(self.gone.index(number))

    def set_bound(self, value: int) -> None:
        valid = 1 <= value <= 65535
        if valid:
            self.bound = value
        assert self.script.ask(f"set inflight_max {value}") == f"{0 if valid else ERANGE} {self.bound}"
        if valid:
            self.unblocked()

    def unblocked(self) -> None:
        self.blocked = self.refused = False
        for ctx in range(self.ctxs):
            self.run_soon(ctx)

    def set_kib_max(self, value: int) -> None:
        self.kib_max = value
        assert self.script.ask(f"set inflight_kib_max {value}") == f"0 {value}"
        self.unblocked()

    def check(self) -> None:
        counters = [len(self.in_flight), self.sectors, self.held]
        for level in range(LEVELS):
            counters += [
                sum(self.entries[n].level == level for n in self.in_flight),
                self.inserted[level],
                self.dispatched[level],
                self.removed[level],
            ]
        assert [int(word) for word in self.script.ask("counters").split()] == counters
        assert not self.room or self.to_run, "nobody is going to run, and there is work and room"

    def drain(self) -> None:
        while self.queued or self.in_flight or self.returned:
            while self.to_run:
                self.run(0, 1000)
            self.check()
            self.finish(0)
            self.insert_returned(True)
        for level in range(LEVELS):
            assert [int(word) for word in self.script.ask(f"wait {level}").split()] == self.wait[level]
        assert self.script.ask("end") == "1", "something is left"


INDICES = st.integers(0, 99)
LEVEL = st.one_of(st.sampled_from([RT_LEVELS, RT_LEVELS, 7, 0]), st.integers(0, LEVELS - 1))
SECTORS = st.sampled_from([8, 8, 8, 0, 16, 128, 1024])
BOUNDS = st.one_of(st.integers(1, 6), st.sampled_from([0, 1, 32, 65535, 65536, 99999999999]))
STEPS = st.one_of(
    st.tuples(
        st.just("insert"),
        INDICES,
        st.lists(st.tuples(LEVEL, st.integers(0, 9), SECTORS), min_size=1, max_size=4),
    ),
    st.tuples(st.just("run"), INDICES, st.integers(1, 5)),
    st.tuples(st.just("finish"), INDICES),
    st.tuples(st.just("finish other"), INDICES),
    st.tuples(st.just("dispatch")),
    st.tuples(st.just("requeue"), INDICES, st.booleans()),
    st.tuples(st.just("insert returned"), st.booleans()),
    st.tuples(st.just("merge"), LEVEL, st.sampled_from([0, 30, 100])),
    st.tuples(st.just("bound"), BOUNDS),
    st.tuples(st.just("bytes"), st.sampled_from([0, 1, 4, 8, 64, 700])),
    st.tuples(st.just("time"), st.sampled_from([-700, 999, 1_000, 5_000, 1_000_000, 3_000_000_000, 2**35])),
)
PLAYS = st.tuples(st.integers(1, 70), st.integers(1, 6), st.lists(STEPS, min_size=20, max_size=80))


def play(script: Script, ctxs: int, bound: int, steps: list[tuple[object, ...]]) -> None:
    """Do the steps on the scheduler and on the model, compare after each step, and empty both."""
    machine = begin(script, ctxs, bound)
    try:
        for step in steps:
            match step:
                case ("insert", int(ctx), list(new)):
                    # use few ctxs, among them the first and the last, so that entries meet
                    where = (0, ctxs - 1, ctx % ctxs)[ctx % 3]
                    machine.insert(where, [(level, urgent == 9, n) for level, urgent, n in new])
                case ("run", int(which), int(most)):
                    machine.run(which, most)
                case ("finish", int(which)):
                    machine.finish(which)
                case ("finish other", int(which)):
                    machine.finish_other(which)
                case ("dispatch",):
                    machine.dispatch()
                case ("requeue", int(which), bool(again)):
                    machine.requeue(which, again)
                case ("insert returned", bool(urgent)):
                    machine.insert_returned(urgent)
                case ("merge", int(level), int(percent)):
                    machine.merge(level, percent)
                case ("bound", int(value)):
                    machine.set_bound(value)
                case ("bytes", int(value)):
                    machine.set_kib_max(value)
                case ("time", int(by)):
                    machine.now += by
                case _:
                    raise ValueError(step)
            machine.check()
        machine.drain()
    except AssertionError:
        note(f"replay: {script.replay()}")
        raise


@settings(
    max_examples=400,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(PLAYS)
def test_promises_hold_after_every_step(
    script: Script, plan: tuple[int, int, list[tuple[object, ...]]]
) -> None:
    play(script, *plan)


def test_real_time_overtakes_staged_background(script: Script) -> None:
    machine = begin(script, ctxs=2, bound=1)
    machine.insert(0, [(8, False)] * 5)
    first = machine.dispatch()
    assert first == 0
    machine.insert(1, [(7, False), (3, False)])
    machine.finish(0)
    assert machine.dispatch() == 6
    machine.finish(0)
    assert machine.dispatch() == 5
    machine.finish(0)
    assert machine.dispatch() == 1
    machine.drain()


def check_visits(script: Script) -> None:
    """An entry is visited once, and once more after the drive returned it."""
    machine = begin(script, ctxs=1, bound=2)
    machine.insert(0, [(8, False), (8, False), (8, True), (7, False)])
    machine.merge(8, 0)
    machine.merge(8, 0)
    machine.insert(0, [(8, False)])
    machine.merge(8, 0)
    for number in (2, 3):
        assert machine.dispatch() == number
        machine.finish(0)
    assert machine.dispatch() == 0
    machine.requeue(0, again=True)
    machine.insert_returned(urgent=False)
    machine.merge(8, 0)
    machine.drain()


def check_sizes(script: Script) -> None:
    """A large request that was merged into another no longer holds back other requests."""
    machine = begin(script, ctxs=1, bound=4)
    machine.set_kib_max(8)
    machine.insert(0, [(8, False)])
    assert machine.dispatch() == 0
    machine.insert(0, [(8, False, 128), (8, False, 8)])
    assert machine.dispatch() is None
    machine.to_run.clear()
    machine.merge(8, percent=2)  # merges the large one into another
    machine.check()
    assert machine.dispatch() == 2
    machine.insert(0, [(8, False, 128)])
    assert machine.dispatch() is None
    machine.insert(0, [(8, False)])
    assert script.ask("work") == "0", "it waits behind the large one"
    machine.insert(0, [(0, False)])
    machine.merge(8, percent=0)  # collects
    assert machine.has_work()
    assert machine.dispatch() == 5
    machine.drain()


def test_a_large_entry_holds_up_nothing_before_it(script: Script) -> None:
    check_sizes(script)


def check_urgent(script: Script) -> None:
    """The bound on bytes does not hold real-time and urgent requests of any size, but it counts them."""
    machine = begin(script, ctxs=2, bound=4)
    machine.set_kib_max(16)
    machine.insert(0, [(8, False, 16)])
    assert machine.dispatch() == 0
    machine.insert(0, [(2, False, 128)])
    assert machine.dispatch() == 1
    machine.insert(1, [(8, True, 1024)])
    assert machine.dispatch() == 2
    machine.insert(1, [(8, False, 8)])
    assert machine.dispatch() is None
    for _ in range(2):
        machine.finish(0)
        assert machine.dispatch() is None
    machine.finish(0)
    machine.check()
    assert machine.dispatch() == 3
    machine.drain()


def test_bytes_do_not_bind_what_is_urgent(script: Script) -> None:
    check_urgent(script)


def check_alone(script: Script) -> None:
    """A background request larger than the bound is dispatched when no bytes are in the drive."""
    machine = begin(script, ctxs=1, bound=4)
    machine.set_kib_max(16)
    machine.insert(0, [(8, False, 0), (8, False, 8), (8, False, 1024)])
    assert (machine.dispatch(), machine.dispatch(), machine.dispatch()) == (0, 1, None)
    machine.finish(1)
    machine.check()
    assert machine.dispatch() == 2, "beside a request of no bytes"
    machine.insert(0, [(8, False, 0), (8, False, 8)])
    assert (machine.dispatch(), machine.dispatch()) == (3, None)
    machine.drain()


def test_a_request_larger_than_the_bound_goes_alone(script: Script) -> None:
    check_alone(script)


def check_floor(script: Script, floor: int) -> None:
    """Beside endless real-time requests, the background gets its floor, evenly, and no more."""
    machine = begin(script, ctxs=1, bound=1)
    assert script.ask(f"set be_floor_iops {floor}") == f"0 {floor}"
    script.ask(f"insert 0 {machine.now} {' '.join(f'{n}:8:0:8' for n in range(1000, 1100))}")
    went: list[int] = [machine.now]
    for n in range(1, 900):
        script.ask(f"insert 0 {machine.now} {n}:{n % 8}:0:8")
        number = int(script.ask(f"dispatch {machine.now}"))
        if number >= 1000:
            went.append(machine.now)
            machine.now += 1_300_000  # service time
            script.ask(f"finish {number} 0")
            number = int(script.ask(f"dispatch {machine.now}"))
        assert number < 1000, "the background is never served twice in a row"
        machine.now += 1_300_000
        script.ask(f"finish {number} 0")
    script.ask("end")
    if not floor:
        assert went[1:] == []
        return
    assert went[1:], "the background starves"
    seconds = (went[-1] - went[0]) / 1e9
    assert len(went) - 1 == pytest.approx(floor * seconds, rel=0.02, abs=1)
    assert max(b - a for a, b in itertools.pairwise(went)) <= 1e9 / floor + 2_600_000


@pytest.mark.parametrize("floor", [0, 10, 50])
def test_the_floor_is_kept_beside_real_time(script: Script, floor: int) -> None:
    check_floor(script, floor)


def check_floor_passes_bounds(script: Script) -> None:
    """The floor's requests pass every bound, but not a full drive, nor urgent requests."""
    machine = begin(script, ctxs=1, bound=2)
    assert script.ask("set be_floor_iops 100") == "0 100"
    machine.set_kib_max(4)
    machine.insert(0, [(8, False), (8, False), (8, False), (8, False)])
    assert machine.dispatch() == 0
    answer = script.ask(f"dispatch {machine.now}")
    assert answer == f"arm:{machine.now + 10_000_000} -", "the timer is for the floor"
    assert script.ask("work") == "0"
    machine.now += 10_000_000
    assert script.ask(f"tick {machine.now}") == "run"
    assert script.ask("work") == "1"
    assert script.ask(f"dispatch {machine.now}") == "1", "past the bound on bytes"
    machine.now += 20_000_000
    assert script.ask(f"dispatch {machine.now}") == "-", "not past that on requests"
    assert script.ask("finish 0 0") == "0"
    script.ask(f"insert 0 {machine.now} 10:8:1:8 11:0:0:8")
    assert script.ask(f"dispatch {machine.now}") == "10", "not before what is urgent"
    assert script.ask("finish 10 0") == "0"
    assert script.ask(f"dispatch {machine.now}") == "2", "before what is real-time"
    assert script.ask("finish 1 0") == "0"
    machine.now += 20_000_000
    assert script.ask(f"dispatch {machine.now}") == "11", "once"
    assert script.ask("finish 2 0") == "0"
    assert script.ask(f"dispatch {machine.now}") == "3"
    for number in (11, 3):
        script.ask(f"finish {number} 0")
    assert script.ask("end") == "1"


def test_the_floor_passes_bounds(script: Script) -> None:
    check_floor_passes_bounds(script)


def check_frozen(script: Script) -> None:
    """While the queue is being frozen, only the bound on requests holds requests."""
    machine = begin(script, ctxs=1, bound=2)
    machine.set_kib_max(4)
    machine.insert(0, [(8, False), (8, False), (8, False)])
    assert (machine.dispatch(), machine.dispatch()) == (0, None)
    assert script.ask("work") == "0"
    script.ask("drain 1")
    assert script.ask("work") == "1"
    assert script.ask(f"dispatch {machine.now}") == "1"
    assert script.ask("work") == "0"
    assert script.ask(f"dispatch {machine.now}") == "-"
    assert script.ask("finish 0 0") == "0"
    assert script.ask(f"dispatch {machine.now}") == "2"
    for number in (1, 2):
        script.ask(f"finish {number} 0")
    assert script.ask("end") == "1"


def test_a_frozen_queue_empties(script: Script) -> None:
    check_frozen(script)


class Auto:
    """A drive with bounds during real-time activity and without a floor: entries by number, times in ms."""

    def __init__(self, script: Script, **knobs: int) -> None:
        self.script = script
        self.now_ms = 10.0**6
        self.count = 0
        script.ask("new 1")
        for name, value in ({"bound_when": 1, "be_floor_iops": 0} | knobs).items():
            assert script.ask(f"set {name} {value}") == f"0 {value}"

    def grace_ms(self) -> float:
        """How long the bounds stay in force from now on without a real-time request."""
        begin = self.now_ms
        while self.piece and self.now_ms < begin + 20_000:
            self.now_ms += 1
            self.background()
        return self.now_ms - begin

    @property
    def now(self) -> int:
        return round(self.now_ms * 1e6)

    @property
    def piece(self) -> int:
        """Most sectors in a piece."""
        assert self.script.ask("piece 0") == "0"
        return int(self.script.ask(f"piece {RT_LEVELS}"))

    def insert(self, level: int, sectors: int = 8) -> int:
        self.count = self.count % 4000 + 1  # long gone by then
        self.script.ask(f"insert 0 {self.now} {self.count}:{level}:0:{sectors}")
        return self.count

    def dispatch(self) -> tuple[int | None, list[int]]:
        """The dispatched entry, and the entries to be split."""
        first, *large = self.script.ask(f"dispatch {self.now}").split()
        return None if first == "-" else int(first), [int(word) for word in large]

    def finish(self, number: int) -> None:
        self.script.ask(f"finish {number} 0 {self.now}")

    def real_time(self, level: int = 0) -> None:
        """Insert a real-time request, dispatch it at once, and end it."""
        number = self.insert(level)
        assert self.dispatch()[0] == number
        self.finish(number)

    def background(self) -> None:
        """Insert a background request, dispatch it at once, and end it."""
        self.real_time(RT_LEVELS)


def check_activity(script: Script) -> None:
    """Bounds and splitting are in force from the first real-time request until its grace is over."""
    auto = Auto(script, inflight_max=1, split_kib=16)
    assert auto.piece == 0
    first = [auto.insert(RT_LEVELS, 1024) for _ in range(3)]
    assert [auto.dispatch() for _ in first] == [(n, []) for n in first], "nothing real-time: no bound"
    auto.now_ms += 3000
    real_time = auto.insert(2)
    assert auto.dispatch() == (None, [])
    assert auto.piece == 32
    for number in first:
        auto.finish(number)
    small, large = auto.insert(RT_LEVELS, 32), auto.insert(RT_LEVELS, 33)
    auto.now_ms += 3000
    assert auto.dispatch() == (real_time, [])
    auto.now_ms += 6000
    assert auto.dispatch() == (None, []), "as long as it is in the drive"
    auto.finish(real_time)
    auto.real_time()  # 6 s after one was queued: silence, no period
    assert auto.dispatch() == (small, [])
    assert auto.dispatch() == (None, []), "nobody looks while the bound is full"
    auto.finish(small)
    assert auto.dispatch() == (None, [large])
    assert auto.piece == 32
    auto.now_ms += 99
    auto.background()
    assert auto.piece == 32
    auto.now_ms += 2
    two = [auto.insert(RT_LEVELS, 1024) for _ in range(2)]
    assert [auto.dispatch() for _ in two] == [(n, []) for n in two]
    assert auto.piece == 0
    for number in two:
        auto.finish(number)
    assert script.ask("end") == "1"


def check_grace(script: Script) -> None:
    """The grace is four times the longest of the latest gaps; a single long gap is forgotten after many short
    ones.
    """
    auto = Auto(script, inflight_max=1, split_kib=16)
    for period_ms in (2, 40, 300, 1000, 4900):
        for _ in range(100):
            auto.now_ms += period_ms
            auto.real_time()
        assert auto.piece == 32
        assert auto.grace_ms() == pytest.approx(max(100, 4 * period_ms), abs=1.1)
    for gap_ms in (400, 5, 5, 5) * 60:
        auto.now_ms += gap_ms
        auto.real_time()
    assert auto.grace_ms() == pytest.approx(4 * 400 * (63 / 64) ** 3, abs=1.1)
    for _ in range(300):
        auto.now_ms += 3
        auto.real_time()
    auto.now_ms += 5001  # silence
    auto.real_time()
    assert auto.grace_ms() == pytest.approx(100, abs=1.1)
    assert script.ask("end") == "1"


def check_random(script: Script) -> None:
    """Fewer than one in a thousand requests with random arrivals find the activity over."""
    auto = Auto(script, inflight_max=1, split_kib=16)
    dice = random.Random(1)
    late, count = 0, 10_000
    for _ in range(count):
        auto.now_ms += dice.expovariate(1 / 50)
        auto.background()  # tells K2 the time
        late += not auto.piece
        auto.real_time()
    assert late < count / 1000


def check_unwatched(script: Script) -> None:
    """Requests that arrive while nothing depends on activity leave no gap for later."""
    auto = Auto(script, inflight_max=1, split_kib=16)
    auto.real_time()
    script.ask("set bound_when 0")
    auto.now_ms += 400
    script.ask("set bound_when 1")
    auto.real_time()
    assert auto.grace_ms() == pytest.approx(100, abs=1.1)


def check_staged(script: Script) -> None:
    """A queued request that becomes too large is split, in order; real-time and unsplittable requests are
    not.
    """
    auto = Auto(script, inflight_max=1, split_kib=4)
    auto.real_time()
    went = auto.insert(RT_LEVELS, 8)
    assert auto.dispatch() == (went, [])
    script.ask("set split_kib 0")
    staged = [auto.insert(RT_LEVELS, n) for n in (8, 16, 1024, 16, 16, 8)]
    urgent = auto.insert(3, 1024)
    assert script.ask(f"whole {staged[3]}") == "ok"
    script.ask("set split_kib 4")
    auto.finish(went)
    for sent, large in (
        (urgent, []),
        (staged[0], []),
        (staged[3], staged[1:3]),
        (staged[5], staged[4:5]),
    ):
        assert auto.dispatch() == (sent, large)
        auto.finish(sent)
    last = auto.insert(RT_LEVELS, 16)
    assert auto.dispatch() == (None, [last])
    assert script.ask("work") == "0"
    assert auto.dispatch() == (None, [])
    assert script.ask("end") == "1"


AUTO = {
    "activity": check_activity,
    "grace": check_grace,
    "random": check_random,
    "unwatched": check_unwatched,
    "staged": check_staged,
}


@pytest.mark.parametrize("check", AUTO)
def test_bounds_while_there_is_activity(script: Script, check: str) -> None:
    AUTO[check](script)


def test_each_entry_is_offered_for_merging_once(script: Script) -> None:
    check_visits(script)


def test_what_the_block_layer_wants_back_goes_first(script: Script) -> None:
    machine = begin(script, ctxs=1, bound=2)
    machine.insert(0, [(8, False)])
    machine.dispatch()
    machine.requeue(0, again=True)
    machine.insert(0, [(0, False)])
    machine.insert_returned(urgent=True)
    assert machine.dispatch() == 0
    machine.drain()


@pytest.mark.parametrize("bounds", [(32, 1, 32), (1, 65535), (6, 5, 4, 3, 2, 1), (2, 1, 3, 1, 4)])
def test_changing_the_bound_under_load_never_stalls(script: Script, bounds: tuple[int, ...]) -> None:
    machine = begin(script, ctxs=3, bound=bounds[0])
    for i in range(90):
        machine.insert(i % 3, [(8, False)])
    for bound in bounds:
        while machine.to_run:
            machine.run(0, 1000)
        machine.set_bound(bound)
        machine.check()
        machine.finish(0)
        machine.check()
    machine.drain()


def begin(script: Script, ctxs: int, bound: int) -> Machine:
    """A drive without a floor."""
    script.ask(f"new {ctxs}")
    script.ask("set be_floor_iops 0")
    machine = Machine(script, ctxs)
    machine.set_bound(bound)
    return machine


def test_deinit_tells_what_is_left(script: Script) -> None:
    script.ask("new 1")
    script.ask("insert 0 0 1:8:0:8")
    assert script.ask("end") == "0"
    script.ask("new 1")
    script.ask("insert 0 0 1:8:0:8")
    assert script.ask("dispatch 0") == "1"
    assert script.ask("end") == "0"


def check_limits(script: Script) -> None:
    script.ask("new 1")
    for percent in (0, 1, 25, 50, 90):
        assert script.ask(f"set rt_tags {percent}") == f"0 {percent}"
        for tags in (*range(1, 130), 256, 1023, 10240):
            limit = int(script.ask(f"limit {tags}"))
            assert 1 <= limit <= tags
            if percent and tags > 1:
                assert limit < tags, "no tag is kept for real-time tasks"
            assert limit >= tags * (100 - percent) // 100
        # with this many tags, 32 requests in the drive and 128 in two plugs leave the real-time share free
        enough = int(script.ask("enough"))
        assert int(script.ask(f"limit {enough}")) >= 32 + 128 > int(script.ask(f"limit {enough - 2}"))
        assert script.ask(f"limits {enough}") == "0"
        assert script.ask(f"limits {enough - 1}") == "1"
    assert script.ask("set bound_when 1") == "0 1"
    assert int(script.ask("enough")) > 2**32, "without a bound on requests no number is enough"
    assert script.ask("end") == "1"


def test_share_of_tags(script: Script) -> None:
    check_limits(script)


def check_limits_while_full(script: Script) -> None:
    """While the drive is full, nothing collects insertions, so the tags that they use must be limited."""
    script.ask("new 1")
    assert script.ask("limits 256") == "0"
    for n in range(32):
        script.ask(f"insert 0 0 {n}:8:0:8")
        assert script.ask("dispatch 0") == str(n)
    script.ask("insert 0 0 32:8:0:8")
    assert script.ask("work") == "0"
    assert script.ask("limits 256") == "1"
    assert script.ask("finish 0 0") == "0"
    assert script.ask("dispatch 0") == "32"
    for n in range(1, 33):
        script.ask(f"finish {n} 0")
    assert script.ask("limits 256") == "0"
    assert script.ask("end") == "1"


def test_tags_are_limited_while_the_drive_is_full(script: Script) -> None:
    check_limits_while_full(script)


def check_ranges(script: Script) -> None:
    script.ask("new 1")
    for knob in knobs(script):
        for value in (knob.least, knob.most):
            assert script.ask(f"set {knob.name} {value}") == f"0 {value}"
        if knob.initial == AUTO_VALUE:
            assert script.ask(f"set {knob.name} {AUTO_VALUE}") == f"0 {AUTO_VALUE}"
            assert script.ask(f"set {knob.name} {knob.most}") == f"0 {knob.most}"
        for value in (knob.least - 1, knob.most + 1, 99999999999, 2**32 + knob.least):
            if value >= 0:
                assert script.ask(f"set {knob.name} {value}") == f"{ERANGE} {knob.most}"
        if knob.step > 1:
            assert script.ask(f"set {knob.name} {knob.step + 1}") == f"{EINVAL} {knob.most}"
    assert script.ask("end") == "1"


def test_a_value_out_of_range_changes_nothing(script: Script) -> None:
    check_ranges(script)


@dataclass(frozen=True)
class Knob:
    name: str
    unit: str
    least: int
    most: int
    step: int
    initial: int
    scale: str
    what: str


def knobs(script: Script) -> list[Knob]:
    """The knobs as sched/k2.h declares them."""
    found = []
    for line in script.ask("knobs").split("\t"):
        name, unit, least, most, step, initial, scale, what = line.split("|")
        found.append(Knob(name, unit, int(least), int(most), int(step), int(initial), scale, what))
    return found


def test_page_describes_the_knobs_of_the_code(tmp_path: Path) -> None:
    script = Script(compile_library(tmp_path, "-DK2_PRODUCT"))
    page = (ROOT / "docs/k2/reference.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| ([\w/]+) \| ([^|]+) \| ([^|]+) \|", page, re.MULTILINE)
    documented = []
    for name, unit, range_, initial in rows:
        words = re.findall(r"`([\w.]+)`", range_)
        least, most = (0, len(words) - 1) if words else map(int, range_.split(" to "))
        default = (
            words.index(initial.strip("`")) if words else AUTO_VALUE if initial == "auto" else int(initial)
        )
        documented.append((name, unit, least, most, default))
    assert documented == [(k.name, k.unit, k.least, k.most, k.initial) for k in knobs(script)]


@pytest.fixture(scope="session")
def interleave(programs: Path) -> Path:
    return compile_program("interleave", programs)


@pytest.mark.parametrize("first", range(0, 30_000, 10_000))
def test_no_schedule_loses_a_wake_up_or_an_entry(interleave: Path, first: int) -> None:
    """A failure names its seed; `interleave SEED 1` repeats it."""
    assert run_program(interleave, first, 10_000) == ""


def test_seeds_replay(programs: Path) -> None:
    """With a barrier missing, the first seed that fails also fails alone, with the same message."""
    root = mutated(programs / "replay", next(m for m in MUTATIONS if m.name == "no-barrier-in-has-work"))
    program = compile_program("interleave", root, root=root)
    failure = run_program(program, 0, 100_000)
    found = re.search(r"seed (\d+)", failure)
    assert found
    again = run_program(program, int(found[1]), 1)
    assert again.splitlines()[:2] == failure.splitlines()[:2]


@pytest.mark.parametrize("sanitizer", ["thread", "address"])
def test_real_threads(programs: Path, sanitizer: str) -> None:
    flags = THREAD_SANITIZED if sanitizer == "thread" else SANITIZED
    (programs / sanitizer).mkdir()
    program = compile_program("stress", programs / sanitizer, *flags)
    for seed in (1, 2):
        assert run_program(program, seed, 20_000, prefix=fixed_addresses()) == ""


MUTATIONS = [
    Mutation("urgent-last-of-its-level", "script", "list = K2_LIST_URGENT;", ";"),
    Mutation(
        "newest-first",
        "script",
        "list_splice_tail_init(entries, &ctx->lists[__ffs(lists)]);",
        "list_splice_init(entries, &ctx->lists[__ffs(lists)]);",
    ),
    Mutation(
        "on-one-list",
        "script",
        "list_move_tail(node, &ctx->lists[k2_entry_of(node)->list]);",
        "list_move_tail(node, &ctx->lists[__ffs(lists)]);",
    ),
    Mutation(
        "least-urgent-first", "script", "return lists ? __ffs(lists)", "return lists ? fls64(lists) - 1"
    ),
    Mutation(
        "never-collected",
        "script",
        "\tlevels_collect(&k2->levels);\n\tif (unlikely(k2->extended",
        "\tif (unlikely(k2->extended",
    ),
    Mutation(
        "bound-plus-one", "script", "inflight_requests(b) < READ_ONCE", "inflight_requests(b) <= READ_ONCE"
    ),
    Mutation("the-last-slot-does-not-block", "script", "if (full)\n\t\tk2_block_all(k2);", ""),
    Mutation("a-refusal-does-not-block", "script", "k2_block(k2, 1U << list);", ""),
    Mutation("completions-run-nothing", "script", "if (!k2_unblock(k2, K2_RELEASE_COMPLETION))", "if (true)"),
    Mutation(
        "completions-run-always",
        "script",
        "return levels_any(&k2->levels);\n}\n\n/**\n * k2_configure",
        "return true;\n}\n\n/**\n * k2_configure",
    ),
    Mutation("a-knob-does-not-unblock", "script", "\tk2_unblock(k2, K2_RELEASE_KNOB);\n", ""),
    Mutation("a-merge-does-not-unblock", "sizes", "1U << e->list && atomic_xchg(&k2->blocked, 0))", "0)"),
    Mutation("a-merge-runs-nothing", "sizes", "k2->removed_blocked = true;", ";"),
    Mutation(
        "requeue-does-not-count",
        "script",
        "e->state = comes_back ? K2_RETURNED : K2_NEW;",
        "e->state = comes_back ? K2_RETURNED : K2_NEW;\n\tif (comes_back)\n\t\treturn false;",
    ),
    Mutation(
        "finish-counts-whatever-ends",
        "script",
        "if (e->state != K2_INFLIGHT)\n\t\treturn false;\n\te->state = comes_back",
        "e->state = comes_back",
    ),
    Mutation(
        "ends-twice",
        "script",
        "e->state = comes_back ? K2_RETURNED : K2_NEW;",
        "if (comes_back)\n\t\te->state = K2_RETURNED;",
    ),
    Mutation("level-count-drifts", "script", "atomic_dec(&k2->rt_inflight[e->level]);", ";"),
    Mutation("removal-not-counted", "script", "k2->removed[e->level]++;", ""),
    Mutation(
        "removal-leaves-the-list-filled",
        "script",
        "if (!list_empty(&k2->levels.lists[list]))",
        "if (!list_empty(&k2->levels.lists[list]) || e->state == K2_QUEUED)",
    ),
    Mutation("visited-twice", "visits", "k2_entry_of(node)->marks |= K2_MARK_VISITED;", ""),
    Mutation("histogram-in-1024-ns", "script", "div_u64(now - since_ns, 1000)", "(now - since_ns) / 1024"),
    Mutation(
        "histogram-overflows", "script", "waited_us = now > since_ns ?", "waited_us = now != since_ns ?"
    ),
    Mutation("no-least-value", "ranges", "value < knob->least || ", ""),
    Mutation("no-largest-value", "ranges", " || value > knob->most", ""),
    Mutation("any-step", "ranges", "knob->step > 1 &&", "false &&"),
    Mutation("plugs-hold-no-tags", "limits", "U32_MAX) + K2_TAGS_IN_PLUGS", "U32_MAX)"),
    Mutation(
        "without-a-bound-any-number-is-enough",
        "limits",
        "k2->inflight.requests_max, U32_MAX)",
        "32, U32_MAX)",
    ),
    Mutation("no-limit-while-full", "limits-full", "atomic_read(&k2->blocked) || (discards", "(discards"),
    Mutation("no-tag-left", "limits", "tags > kept ? tags - kept : 1", "tags - kept"),
    Mutation(
        "no-tag-kept",
        "limits",
        "DIV_ROUND_UP(tags * READ_ONCE(k2->knobs[K2_KNOB_rt_tags]), 100)",
        "tags * READ_ONCE(k2->knobs[K2_KNOB_rt_tags]) / 100",
    ),
    Mutation(
        "bytes-plus-a-sector",
        "script",
        "!r->met || r->met + r->sectors <= b->sectors_max)",
        "!r->met || r->met + r->sectors <= b->sectors_max + 8)",
    ),
    Mutation(
        "bytes-kept",
        "script",
        "atomic64_sub((1ULL << INFLIGHT_SHIFT) + sectors, &b->load);",
        "atomic64_sub((1ULL << INFLIGHT_SHIFT) + 0 * sectors, &b->load);",
    ),
    Mutation("too-large-for-ever", "alone", "!r->sectors || !r->met || r->met", "!r->sectors || r->met"),
    Mutation("no-bytes-wait-for-bytes", "alone", "!r->sectors || !r->met || r->met", "!r->met || r->met"),
    Mutation("no-floor", "floor", "return now_ns >= f->due_ns[kind] &&", "return false &&"),
    Mutation("floor-without-end", "floor", "max(due_ns + f->interval_ns, now_ns);", "due_ns;"),
    Mutation("twice-in-a-row", "floor-passes", " && !(rt_waits && f->passed)", ""),
    Mutation(
        "the-floor-does-not-pass-bounds",
        "floor-passes",
        "if (owed & 1U << list || k2_may_go",
        "if (k2_may_go",
    ),
    Mutation(
        "the-floor-does-not-arm",
        "floor-passes",
        "until_ns = min(until_ns, max(k2->floor.due_ns[K2_FLOOR_KIND(list)], now + 1));",
        "until_ns += 0;",
    ),
    Mutation(
        "the-floor-passes-urgent-requests",
        "floor-passes",
        "if (lists & 1U << K2_LIST_URGENT)\n\t\treturn K2_LIST_URGENT;",
        "",
    ),
    Mutation(
        "a-freeze-is-not-seen",
        "frozen",
        "if (unlikely(blocked) && k2_draining(k2))",
        "if (false)",
    ),
    Mutation(
        "a-freeze-does-not-run",
        "frozen",
        "(queued && k2_draining(k2) && inflight_has_slot(&k2->inflight))",
        "false",
    ),
    Mutation(
        "a-freeze-lifts-no-bound",
        "frozen",
        " || k2_draining(k2))\n\t\treturn true;",
        ")\n\t\treturn true;",
    ),
    Mutation("a-freeze-runs-in-vain", "frozen", " && inflight_has_slot(&k2->inflight));", ");"),
    # decisions between threads
    Mutation(
        "no-barrier-in-block",
        "interleave",
        "atomic_or(lists, &k2->blocked);\n\tsmp_mb__after_atomic();",
        "atomic_or(lists, &k2->blocked);",
    ),
    Mutation(
        "no-barrier-after-completion",
        "interleave",
        "\tsmp_mb__after_atomic(); /* pairs with k2_block() */\n",
        "",
    ),
    Mutation("no-barrier-in-has-work", "interleave", "\tsmp_mb();\n\tqueued = levels", "\tqueued = levels"),
    Mutation(
        "unblocks-before-it-counts",
        "interleave",
        "\tinflight_ended(&k2->inflight, e->sectors);\n"
        "\tsmp_mb__after_atomic(); /* pairs with k2_block() */\n"
        "\tif (!k2_unblock(k2, K2_RELEASE_COMPLETION))\n\t\treturn false;",
        "\tbool run = k2_unblock(k2, K2_RELEASE_COMPLETION);\n\n"
        "\tinflight_ended(&k2->inflight, e->sectors);\n\tif (!run)\n\t\treturn false;",
    ),
    Mutation(
        "no-second-ask",
        "interleave",
        "\tuntil_ns = k2_ask(k2, list, now, &r);\n\tif (!until_ns) {",
        "\tif (!until_ns) {",
    ),
    Mutation(
        "no-second-look-at-slots",
        "interleave",
        "\tif (inflight_has_slot(&k2->inflight)) {\n\t\tk2_reopen(k2);\n\t\treturn false;\n\t}\n",
        "",
    ),
    Mutation(
        "not-collected-again",
        "interleave",
        "if (atomic_read(&k2->blocked) && atomic_xchg(&k2->blocked, 0))\n\t\tlevels_collect(&k2->levels);",
        "atomic_xchg(&k2->blocked, 0);",
    ),
    Mutation(
        "a-merge-drops-those-before",
        "interleave",
        "__list_del(k2_node(e)->prev, ",
        "__list_del(&k2->levels.lists[list], ",
    ),
    Mutation("a-merge-leaves-it-to-completions", "interleave", "k2->removed_blocked = true;", ";"),
    Mutation(
        "invisible-while-collected",
        "interleave",
        "\tWRITE_ONCE(l->filled, l->filled | K2_MAP_COLLECTING);\n",
        "",
    ),
    Mutation(
        "looks-in-the-wrong-order",
        "interleave",
        "\tif (READ_ONCE(l->pending))\n\t\treturn true;\n\tsmp_rmb(); /* pairs with levels_collect() */\n"
        "\treturn READ_ONCE(l->filled);",
        "\tif (READ_ONCE(l->filled))\n\t\treturn true;\n\treturn READ_ONCE(l->pending);",
    ),
    Mutation("nothing-arms-the-timer", "interleave", "k2_arm_by(k2, until_ns);", ";"),
    Mutation("armed-for-ever", "interleave", "WRITE_ONCE(k2->armed_ns, 0);", ""),
    Mutation(
        "disarmed-last",
        "interleave",
        "\tWRITE_ONCE(k2->armed_ns, 0);\n\tsmp_mb();",
        "\tbool run = k2_unblock(k2, K2_RELEASE_TIMER);\n\n"
        "\tWRITE_ONCE(k2->armed_ns, 0);\n\treturn run;\n\tsmp_mb();",
    ),
    Mutation(
        "what-is-owed-does-not-arm", "interleave", "if (owed && (until_ns ==", "if (false && (until_ns =="
    ),
    Mutation(
        "a-freeze-strands",
        "interleave",
        " || k2_draining(k2))\n\t\treturn true;",
        ")\n\t\treturn true;",
    ),
    Mutation(
        "a-freeze-is-not-seen-by-has-work",
        "interleave",
        " ||\n\t       (queued && k2_draining(k2) && inflight_has_slot(&k2->inflight))",
        "",
    ),
    Mutation(
        "shows-what-it-did-not-see",
        "interleave",
        "k2_observe_hold(k2, r);",
        "struct bound_request s = *r; s.met = inflight_sectors(&k2->inflight); k2_observe_hold(k2, &s);",
    ),
    Mutation(
        "evicted-while-in-the-drive",
        "interleave",
        "if (flow->present_until_ns < until_ns && ahead_is_idle(flow))",
        "if (flow->present_until_ns < until_ns)",
    ),
    Mutation(
        "always-active", "activity", "bool on = !when_active || k2->activity.active,", "bool on = true,"
    ),
    Mutation("never-active", "activity", "\t\ta->active = true;\n", ""),
    Mutation(
        "gone-while-in-the-drive",
        "activity",
        "K2_MAP_RT,\n\t\t\t\t      atomic_read(&k2->rt_inflight_all),",
        "K2_MAP_RT,\n\t\t\t\t      false,",
    ),
    Mutation("real-time-count-drifts", "activity", "atomic_dec(&k2->rt_inflight_all);", ";"),
    Mutation("silence-is-a-period", "grace", " && gap_ns <= ACTIVITY_PERIOD_NS_MAX", ""),
    Mutation("latest-gap", "grace", "recent_max(a->period_ns, gap_ns, ACTIVITY_DECAY_SHIFT)", "gap_ns"),
    Mutation(
        "gaps-are-forgotten-soon",
        "random",
        "#define ACTIVITY_DECAY_SHIFT 6",
        "#define ACTIVITY_DECAY_SHIFT 3",
    ),
    Mutation("grace-is-short", "random", "#define ACTIVITY_GAPS 4", "#define ACTIVITY_GAPS 2"),
    Mutation(
        "longest-gap-ever",
        "grace",
        "recent_max(a->period_ns, gap_ns, ACTIVITY_DECAY_SHIFT)",
        "max(a->period_ns, gap_ns)",
    ),
    Mutation(
        "shortest-grace",
        "grace",
        "max_t(u64, ACTIVITY_GAPS * a->period_ns, ACTIVITY_GRACE_NS_MIN)",
        "ACTIVITY_GRACE_NS_MIN",
    ),
    Mutation("staged-stays-whole", "staged", "k2_sectors(e) <= k2->piece_sectors", "true"),
    Mutation("whole-is-split", "staged", " || !k2_may_split(e))", ")"),
    Mutation(
        "large-in-reverse",
        "staged",
        "list_add_tail(k2_node(e), large)",
        "list_add(k2_node(e), large)",
    ),
    Mutation(
        "list-of-the-taken-seems-filled",
        "staged",
        "\tk2_take_away(k2, e, list);\n\tk2->floor",
        "\tlist_del_init(k2_node(e));\n\tk2->floor",
    ),
]


@settings(
    max_examples=400,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
    report_multiple_bugs=False,
)
@given(plan=PLAYS)
def check_promises(script: Script, plan: tuple[int, int, list[tuple[object, ...]]]) -> None:
    play(script, *plan)


CHECKS: dict[str, Callable[[Script], None]] = {
    "script": check_promises,
    "limits": check_limits,
    "limits-full": check_limits_while_full,
    "visits": check_visits,
    "sizes": check_sizes,
    "urgent": check_urgent,
    "alone": check_alone,
    "floor": lambda script: check_floor(script, 50),
    "floor-passes": check_floor_passes_bounds,
    "frozen": check_frozen,
    "ranges": check_ranges,
    **AUTO,
}


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.name)
def test_a_broken_scheduler_is_noticed(tmp_path: Path, mutation: Mutation) -> None:
    if mutation.noticed_by == "interleave":
        program = compile_program("interleave", tmp_path, "-w", root=mutated(tmp_path, mutation))
        assert complains(program, 0, 240_000), "the program finds nothing"
    else:
        assert_noticed(mutation, CHECKS, tmp_path)
