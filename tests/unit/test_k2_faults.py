# SPDX-License-Identifier: GPL-2.0-only
"""Faults that K2 had where two of its features meet, each by a script that shows it. Times are in ms."""

import pytest
from tests.unit.k2_programs import BACKGROUND, RT, Drive
from tests.unit.scripts import Script
from tests.unit.test_k2_ahead import Flow, thinks
from tests.unit.test_k2_target import TargetLab


def test_the_floor_forgets_what_the_background_got_alone(script: Script) -> None:
    """What the background got while it was alone was charged to its floor, which owed it nothing later."""
    drive = Drive(script, be_floor_iops=100, inflight_max=1)
    for _ in range(1000):
        drive.serve(drive.insert())
        drive.now_ms += 0.1
    background = drive.insert()
    for _ in range(22):
        number = drive.insert(RT)
        went = drive.dispatch()
        assert went is not None
        drive.finish(went)
        if went == background:
            return
        assert went == number
        drive.now_ms += 1
    pytest.fail("the background starves")


def test_a_background_request_that_is_owed_but_too_large_holds_up_nothing(script: Script) -> None:
    """The floor chose a background request that did not fit, and real-time requests waited for that."""
    drive = Drive(script, be_floor_iops=100, inflight_kib_max=16)
    first = drive.insert()
    assert drive.dispatch() == first
    large = drive.insert(BACKGROUND, 1024)
    assert drive.dispatch() is None
    drive.now_ms += 100
    assert drive.ask(f"tick {drive.now}") == ["run"]
    real_time = drive.insert(RT)
    assert {drive.dispatch(), drive.dispatch()} == {large, real_time}


def test_a_request_that_is_split_keeps_its_turn_by_the_floor(script: Script) -> None:
    """A large request that the floor owed waited for a second time, as pieces, so the floor was halved."""
    drive = Drive(script, be_floor_iops=100, inflight_max=1, split_kib=4)
    drive.insert(BACKGROUND, 16)
    first = drive.insert(RT)
    assert drive.dispatch() == first
    drive.now_ms += 11
    drive.finish(first)
    drive.insert(RT)
    second = drive.dispatch()
    assert second is not None, "a real-time request goes while the owed one is split"
    piece = drive.insert(BACKGROUND, 8)
    drive.finish(second)
    drive.insert(RT)
    assert drive.dispatch() == piece


def test_the_floor_grows_with_the_hardware_queues(script: Script) -> None:
    """Each hardware queue has tags of its own: with 64, the last request waited for 20 minutes."""
    drive = Drive(script)
    drive.ask("new 8")
    drive.set("inflight_kib_max", 4)
    drive.insert()
    drive.insert()
    assert drive.dispatch() is not None
    assert drive.dispatch() is None
    assert drive.armed_ms == drive.now_ms + 1000 / 80


def test_what_cannot_be_split_is_bound_too(script: Script) -> None:
    """A background request that is too large but cannot be split was taken for one that needs no room."""
    drive = Drive(script, be_floor_iops=0, split_kib=4, inflight_kib_max=64)
    numbers = [drive.insert(BACKGROUND, 1024, "whole") for _ in range(8)]
    for number in numbers:
        assert drive.dispatch() == number
        assert drive.dispatch() is None, "two are in the drive together"
        drive.finish(number)


def test_a_target_out_of_reach_leaves_the_background_its_share(script: Script) -> None:
    """A target that was given up put the bound on write debt in force; now it is not given up."""
    lab = TargetLab(script, [Flow(0, thinks(160))], {"rt_target_us": 30})
    for number in range(1, 4000):
        lab.ask(f"writes {number}")
    lab.play(500_000)
    assert script.ask("target") == "missed"
    assert lab.rate(400_000, 500_000) > 0.3


def test_real_time_fits_when_bounds_begin(script: Script) -> None:
    """What was next before bounds were in force hid a real-time request that came when they began."""
    drive = Drive(script, be_floor_iops=0, bound_when=1, inflight_kib_max=4)
    large = [drive.insert(BACKGROUND, 1024) for _ in range(3)]
    assert [drive.dispatch() for _ in range(2)] == large[:2]
    drive.insert(RT)
    first = drive.dispatch()
    assert drive.dispatch() is None, "the background does not fit"
    second = drive.insert(RT)
    assert drive.works()
    assert [first, drive.dispatch()] == [4, second]


def test_bytes_count_before_bounds_begin(script: Script) -> None:
    """What went without bounds was not counted when they began: as many bytes again went on top."""
    drive = Drive(script, be_floor_iops=0, bound_when=1, inflight_kib_max=64)
    numbers = [drive.insert(BACKGROUND, 128) for _ in range(8)]
    assert [drive.dispatch() for _ in numbers] == numbers, "nothing is real-time"
    real_time = drive.insert(RT)
    assert drive.dispatch() == real_time
    drive.insert()
    assert drive.dispatch() is None
    drive = Drive(script, be_floor_iops=0)
    first = drive.insert(BACKGROUND, 128)
    assert drive.dispatch() == first
    drive.set("inflight_kib_max", 64)
    drive.insert()
    assert drive.dispatch() is None


def test_a_target_of_more_than_four_seconds(script: Script) -> None:
    """From 4294968 us on, a target in ns did not fit into 32 bits: every request was late."""
    lab = TargetLab(script, [Flow(0, thinks(400))], {"rt_target_us": 4_294_968})
    lab.play(200_000)
    assert lab.in_drive_typically(150_000) > 3


def test_the_earliest_time_is_armed(script: Script) -> None:
    """Of two times to look again the later could be armed, while the scheduler believed in the earlier."""
    drive = Drive(script, be_floor_iops=1, inflight_kib_max=4)
    first = drive.insert()
    assert drive.dispatch() == first
    drive.insert()
    assert drive.dispatch() is None
    assert drive.armed_ms == pytest.approx(drive.now_ms + 1000)
    drive.set("discard_kib_max", 64)
    drive.real_time()
    drive.discard()
    assert drive.dispatch() is None
    assert drive.armed_ms == pytest.approx(drive.now_ms + 100, abs=0.01), "when activity ends"
    armed_ms = drive.armed_ms
    drive.now_ms += 1
    drive.real_time()
    drive.discard()
    assert drive.dispatch() is None
    assert drive.armed_ms == armed_ms, "activity ends later now, and the earlier time is armed already"


def test_a_frozen_queue_holds_nothing(script: Script) -> None:
    """Requests were held while the queue was being frozen: the disk stood still until a timer."""
    drive = Drive(script, be_floor_iops=0, discard_kib_max=64, inflight_kib_max=4)
    drive.serve(drive.insert(RT))
    held = [
        drive.insert(),
        drive.insert(),
        *(drive.discard() for _ in range(2)),
    ]
    assert drive.dispatch() == held[0]
    assert drive.dispatch() is None
    drive.ask("drain 1")
    for number in held[1:]:
        assert drive.works()
        assert drive.dispatch() == number


def test_bounds_end_with_activity_by_themselves(script: Script) -> None:
    """A request that a bound held when activity ended waited for the next completion."""
    drive = Drive(script, be_floor_iops=0, bound_when=1, inflight_kib_max=4)
    drive.real_time()
    first, second = drive.insert(), drive.insert()
    assert drive.dispatch() == first
    assert drive.dispatch() is None
    assert not drive.works()
    assert drive.tick()
    assert drive.dispatch() == second, "nothing has ended"


def test_the_floor_sends_one_discard_at_a_time(script: Script) -> None:
    """A discard that was due by the floor went beside one in the drive, and so did those after it."""
    drive = Drive(script, be_floor_iops=100, discard_kib_max=1024)
    discards = [drive.discard() for _ in range(3)]
    for number in discards:
        assert drive.dispatch() == number
        drive.now_ms += 50
        assert drive.dispatch() is None
        assert drive.armed_ms is None, "its end runs the queue"
        assert not drive.works()
        assert drive.finish(number) == (number != discards[-1])


def test_what_the_driver_returns_teaches_nothing(script: Script) -> None:
    """The time until a request was returned was taken for the time that a request takes."""
    drive = Drive(script, rt_target_us=2**32 - 1)

    def read(returned: bool) -> None:
        number = drive.insert(RT)
        assert drive.dispatch() == number
        if returned:
            drive.now_ms += 0.001
            drive.ask(f"requeue {number} 0 1")
            drive.ask(f"insert 0 {drive.now} {number}:{RT}:1:8")
            assert drive.dispatch() == number
        drive.now_ms += 0.08
        drive.finish(number)
        drive.now_ms += 2

    for n in range(400):
        read(returned=n >= 200)
    assert int(script.ask("idle")) == pytest.approx(80_000, rel=0.01)
