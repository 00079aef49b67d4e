# SPDX-License-Identifier: GPL-2.0-only
"""K2's discards as a class of their own: sched/k2.c by the program `script`. Times are in ms."""

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit import k2_programs
from tests.unit.k2_programs import BACKGROUND, RT, Mutation, assert_noticed
from tests.unit.scripts import Script

#: ACTIVITY_GRACE_NS_MIN of sched/activity.h.
GRACE_MS = 100.0


class Drive(k2_programs.Drive):
    """A drive with a bound on discards and no floor, unless stated otherwise."""

    def __init__(self, script: Script, **knobs: int) -> None:
        super().__init__(script, **{"discard_kib_max": 1024, "be_floor_iops": 0} | knobs)

    def end(self) -> None:
        assert self.ask("end") == ["1"]


def check_one(script: Script) -> None:
    """One discard is in the drive at a time, beside other requests; a returned or urgent one is never
    held.
    """
    drive = Drive(script)
    first, second, write = drive.discard(), drive.discard(), drive.insert()
    assert drive.dispatch() == write
    assert drive.dispatch() == first
    assert drive.dispatch() is None
    assert not drive.works()
    assert drive.finish(write)
    assert drive.dispatch() is None
    assert drive.finish(first)
    assert drive.works()
    assert drive.dispatch() == second
    drive.script.ask(f"requeue {second} 0 1")
    drive.ask(f"insert 0 {drive.now} {second}:{BACKGROUND}:1:0")
    third = drive.discard(urgent=True)
    assert (drive.dispatch(), drive.dispatch()) == (second, third)
    fourth, fifth = drive.discard(), drive.discard()
    assert drive.dispatch() == fourth, "urgent ones do not count"
    assert drive.dispatch() is None
    for number in (second, third):
        assert drive.finish(number) == (number == second)
    assert drive.dispatch() is None
    assert drive.finish(fourth)
    assert drive.dispatch() == fifth
    drive.finish(fifth)
    drive.end()


def check_age(script: Script) -> None:
    """The oldest of discards and other background requests goes first; a held one holds back no other."""
    drive = Drive(script, inflight_max=2)
    numbers = []
    for insert in (drive.discard, drive.insert, drive.insert, drive.discard, drive.insert):
        numbers.append(insert())
        drive.now_ms += 1
    first, *writes, second, third = numbers
    assert drive.dispatch() == first
    for number in writes:
        assert drive.dispatch() == number
        drive.finish(number)
    assert drive.dispatch() == third, "a discard is in the drive"
    drive.finish(first)
    assert drive.dispatch() == second
    drive.finish(second)
    drive.finish(third)
    drive.end()


def check_activity(script: Script) -> None:
    """No discard is dispatched during real-time activity; after its grace the timer runs the queue."""
    drive = Drive(script)
    for _ in range(20):
        drive.real_time()
        drive.now_ms += 2
    drive.real_time()
    discard = drive.discard()
    assert drive.works(), "nobody has looked yet"
    last_ms = drive.now_ms
    assert drive.dispatch() is None
    assert not drive.works()
    assert drive.armed_ms == pytest.approx(last_ms + GRACE_MS, abs=0.001)
    drive.now_ms += GRACE_MS - 1
    assert not drive.works()
    drive.real_time()
    drive.tick()
    assert drive.dispatch() is None, "another came"
    assert drive.tick()
    assert drive.works()
    assert drive.dispatch() == discard
    drive.finish(discard)
    drive.end()


def check_in_the_drive(script: Script) -> None:
    """A real-time request that does not end keeps the activity up."""
    drive = Drive(script)
    slow = drive.insert(RT)
    assert drive.dispatch() == slow
    discard = drive.discard()
    assert drive.dispatch() is None
    for _ in range(5):
        drive.tick()
        assert drive.dispatch() is None
    drive.now_ms += 3 * GRACE_MS
    assert drive.finish(slow)
    assert drive.dispatch() == discard
    drive.finish(discard)
    drive.end()


def check_floor(script: Script, floor: int = 1) -> None:
    """Beside any real-time load, the floor holds for discards too."""
    drive = Drive(script, be_floor_iops=floor, inflight_max=2)
    discards = [drive.discard() for _ in range(6)]
    went_ms = [drive.now_ms]
    end_ms = drive.now_ms + 4_500 / floor
    while drive.now_ms < end_ms:
        drive.insert(RT)
        drive.insert(RT)
        number = drive.dispatch()
        assert number is not None
        if number in discards:
            went_ms.append(drive.now_ms)
        drive.finish(number)
        drive.now_ms += 10 / floor
    assert len(went_ms) == 5
    for before, after in itertools.pairwise(went_ms):
        assert 990 / floor <= after - before <= 1010 / floor


def check_quiet_floor(script: Script) -> None:
    """Real-time requests are so rare that only the timer can run the queue."""
    drive = Drive(script, be_floor_iops=1)
    for _ in range(8):
        drive.real_time()
        drive.now_ms += 900
    drive.real_time()
    discard = drive.discard()
    assert drive.dispatch() is None
    waits_ms = drive.now_ms
    assert not drive.works()
    assert drive.tick()
    assert drive.now_ms == pytest.approx(waits_ms + 1000)
    assert drive.works()
    assert drive.dispatch() == discard
    drive.finish(discard)
    drive.end()


def check_off(script: Script) -> None:
    """Without the knob a discard is a background request; switching it off releases held discards."""
    drive = Drive(script, discard_kib_max=0, inflight_kib_max=1024)
    drive.real_time()
    first, second, write = drive.discard(), drive.discard(), drive.insert()
    assert [drive.dispatch() for _ in range(3)] == [first, second, write]
    for number in (first, second, write):
        drive.finish(number)
    drive.set("discard_kib_max", 64)
    held = [drive.discard() for _ in range(2)]
    drive.real_time()
    assert drive.dispatch() is None
    assert not drive.works()
    drive.set("discard_kib_max", 0)
    assert drive.works()
    assert [drive.dispatch() for _ in range(2)] == held
    for number in held:
        drive.finish(number)
    drive.end()


def check_real_time(script: Script) -> None:
    """Real-time discards are not affected."""
    drive = Drive(script)
    write = drive.insert()
    numbers = [drive.discard(RT) for _ in range(3)]
    assert [drive.dispatch() for _ in range(4)] == [*numbers, write]
    for number in (*numbers, write):
        drive.finish(number)
    drive.end()


CHECKS: dict[str, Callable[[Script], None]] = {
    name.removeprefix("check_"): check for name, check in globals().items() if name.startswith("check_")
}


@pytest.mark.parametrize("check", CHECKS)
def test_law(script: Script, check: str) -> None:
    CHECKS[check](script)


@pytest.mark.parametrize("floor", [10, 1000])
def test_the_floor_is_a_knob(script: Script, floor: int) -> None:
    check_floor(script, floor)


MUTATIONS = [
    Mutation("several-at-once", "one", "atomic_inc(&b->inflight);", "(void)b;"),
    Mutation("for-ever-in-the-drive", "one", "atomic_dec(&b->inflight);", "(void)b;"),
    Mutation(
        "urgent-ones-count",
        "one",
        "if (e->list == K2_LIST_DISCARDS)\n\t\tdiscard_went",
        "if (!k2_sectors(e))\n\t\tdiscard_went",
    ),
    Mutation(
        "youngest-first",
        "age",
        "since_ns <\n\t\t\t    levels_first",
        "since_ns >\n\t\t\t    levels_first",
    ),
    Mutation(
        "real-time-does-not-hold",
        "activity",
        "active || atomic_read(&b->inflight)",
        "atomic_read(&b->inflight)",
    ),
    Mutation("nobody-arms", "activity", "if (until_ns != BOUND_AT_END)\n\t\tk2_arm_by(k2, until_ns);", ""),
    Mutation(
        "ended-while-in-the-drive",
        "in_the_drive",
        "a->active = inflight ||",
        "a->active = (inflight && 0) ||",
    ),
    Mutation(
        "the-end-is-not-seen",
        "in_the_drive",
        "K2_MAP_RT,\n\t\t\t\t      atomic_read(&k2->rt_inflight_all),",
        "K2_MAP_RT,\n\t\t\t\t      true,",
    ),
    Mutation("no-floor", "floor", "return now_ns >= f->due_ns[kind] &&", "return false &&"),
    Mutation(
        "no-timer-for-the-floor",
        "quiet_floor",
        "until_ns = min(until_ns, max(k2->floor.due_ns[K2_FLOOR_KIND(list)], now + 1));",
        "until_ns += 0;",
    ),
    Mutation(
        "held-for-ever",
        "off",
        "if (list == K2_LIST_DISCARDS && k2->discard_sectors)",
        "if (list == K2_LIST_DISCARDS)",
    ),
    Mutation("a-knob-does-not-unblock", "off", "\tk2_unblock(k2, K2_RELEASE_KNOB);\n", ""),
    Mutation(
        "real-time-is-held", "real_time", "unlikely(discards) && level == K2_BACKGROUND", "unlikely(discards)"
    ),
]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.name)
def test_a_broken_law_is_noticed(tmp_path: Path, mutation: Mutation) -> None:
    assert_noticed(mutation, CHECKS, tmp_path)
