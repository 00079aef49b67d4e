# SPDX-License-Identifier: GPL-2.0-only
"""K2's events during observation (sched/observe.h): when a bound begins to hold, what requests met."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.k2_programs import Mutation, assert_noticed
from tests.unit.scripts import Script

BACKGROUND = 8


def begin(script: Script, *entries: str, **knobs: int) -> None:
    """Start an observed drive, with these entries queued: ID:LEVEL:URGENT:SECTORS."""
    script.ask("new 1")
    for name, value in ({"be_floor_iops": 0} | knobs).items():
        assert script.ask(f"set {name} {value}") == f"0 {value}"
    script.ask("observe 1")
    if entries:
        script.ask(f"insert 0 0 {' '.join(entries)}")


def check_held_once(script: Script) -> None:
    """A hold is reported once, however often the queue is run, until the request is dispatched."""
    begin(script, *(f"{n}:8:0:8" for n in range(5)), inflight_kib_max=8)
    assert script.ask("dispatch 10") == "0"
    assert script.ask("dispatch 11") == "1"
    assert script.ask("dispatch 20") == "hold:bytes:8:16 -"
    for now in range(21, 25):
        assert script.ask(f"work {now}") == "0"
        assert script.ask(f"dispatch {now}") == "-"
    assert script.ask("finish 0 0 30") == "0"
    assert script.ask("work 31") == "1"
    assert script.ask("dispatch 32") == "release:completion:12 2"
    assert script.ask("dispatch 40") == "hold:bytes:8:16 -"
    assert script.ask("finish 1 0 41") == "0"
    assert script.ask("finish 2 0 42") == ""
    assert script.ask("dispatch 50") == "release:completion:10 3"
    assert script.ask("dispatch 51") == "4"


def check_which_bound(script: Script) -> None:
    begin(script, *(f"{n}:8:0:16" for n in range(4)), inflight_kib_max=12)
    assert script.ask("dispatch 10") == "0"
    assert script.ask("dispatch 11") == "hold:bytes:16:24 -"
    script.ask("set inflight_kib_max 16")
    assert script.ask("dispatch 20") == "release:knob:9 1"
    assert script.ask("dispatch 21") == "hold:bytes:16:32 -"
    script.ask("set inflight_kib_max 15")
    assert script.ask("dispatch 22") == "-", "it is held already"


def check_discards(script: Script) -> None:
    begin(script, "0:0:0:8", discard_kib_max=64)
    assert script.ask("dispatch 1000") == "0"
    script.ask("discards 1")
    script.ask("insert 0 1000 1:8:0:0")
    assert script.ask("dispatch 1000").split()[1:] == ["hold:discard:0:0", "-"]


def check_only_the_background_is_held(script: Script) -> None:
    begin(script, "0:8:0:8", "1:8:0:8", inflight_max=1)
    assert script.ask("dispatch 10") == "hold:count:8:1 0"
    script.ask("insert 0 11 2:3:0:8")
    assert script.ask("work 12") == "0"
    assert script.ask("dispatch 13") == "-"
    assert script.ask("finish 0 0 14") == "0"
    assert script.ask("dispatch 15") == "2"
    assert script.ask("finish 2 0 16") == "end:2:0:- 0"
    script.ask("set inflight_kib_max 4")
    script.ask("set inflight_max 3")
    assert script.ask("dispatch 17") == "release:completion:7 1"
    script.ask("insert 0 18 3:8:0:8 4:3:0:8")
    assert script.ask("dispatch 19") == "4"
    assert script.ask("dispatch 20") == "hold:bytes:8:8 -"
    script.ask("insert 0 21 5:3:0:8")
    assert script.ask("dispatch 22") == "5", "real-time requests release nothing"


def test_an_observer_sees_what_begins_after_it(script: Script) -> None:
    begin(script, *(f"{n}:8:0:8" for n in range(4)), inflight_kib_max=4)
    assert script.ask("dispatch 10") == "0"
    assert script.ask("dispatch 11") == "hold:bytes:8:8 -"
    script.ask("observe 0")
    assert script.ask("finish 0 0 12") == "0"
    assert script.ask("dispatch 13") == "1"
    assert script.ask("dispatch 14") == "-"
    script.ask("observe 2")
    assert script.ask("finish 1 0 15") == "0"
    assert script.ask("dispatch 16") == "2", "it is not known when that began"
    assert script.ask("dispatch 17") == "hold:bytes:8:8 -"


class Ahead:
    """A real-time flow with a request every ms, each 10 us in the drive; times in us."""

    def __init__(self, script: Script, **knobs: int) -> None:
        self.script = script
        self.now_us = 10**6
        self.number = 100
        begin(script, inflight_max=1000, inflight_kib_max=64, bound_mode=1, ahead_lo_kib=0, **knobs)
        # so that K2 learns the drive's rate
        for number in range(100):
            script.ask(f"insert 0 0 {number}:8:0:128")
            script.ask(f"dispatch {self.now_us * 1000}")
            script.ask(f"finish {number} 0 {(self.now_us + 100) * 1000}")
            self.now_us += 100

    def request(self, us: int) -> str:
        """Insert the flow's next request `us` later and end it; returns the events of its dispatch."""
        self.now_us += us
        self.number += 1
        ns = self.now_us * 1000
        self.script.ask(f"insert 0 {ns} {self.number}:2:0:8")
        said = self.script.ask(f"dispatch {ns + 1000}")
        self.script.ask(f"finish {self.number} 0 {ns + 10_000}")
        return said


def words(said: str) -> list[list[str]]:
    return [word.split(":") for word in said.split()]


def check_errors_of_predictions(script: Script) -> None:
    flow = Ahead(script, ahead_lead_us=100)
    for _ in range(11):
        flow.request(1000)
    ((what, number, arrived, error, in_time), _) = words(flow.request(1000))
    assert (what, number, int(arrived), int(error), in_time) == ("arrival", "0", flow.now_us * 1000, 0, "1")
    assert words(flow.request(1050))[0][3:] == ["50000", "1"]
    # the mean has moved by an eighth of 50 us, and the expected time is earlier by twice the scatter
    assert words(flow.request(950))[0][3:] == ["-43750", "1"]
    assert words(flow.request(1900))[0][4] == "0", "that was too late"
    assert words(flow.request(1000))[0][3:] == ["-", "0"], "now it is not predicted"


def check_held_for_what_is_expected(script: Script) -> None:
    """The bound that looks ahead keeps an idle drive free; the timer ends that."""
    flow = Ahead(script, ahead_lead_us=300)
    for _ in range(12):
        flow.request(1000)
    before_us = flow.now_us + 900
    script.ask(f"insert 0 {before_us * 1000} 1:8:0:8 2:8:0:128")
    arm, *said = script.ask(f"dispatch {before_us * 1000}").split()
    assert said == ["hold:ahead:8:0", "-"]
    assert script.ask(f"work {before_us * 1000}") == "0"
    late_ns = int(arm.removeprefix("arm:"))
    assert script.ask(f"tick {late_ns}") == "run"
    assert script.ask(f"work {late_ns}") == "1"
    assert script.ask(f"dispatch {late_ns}") == f"release:timer:{late_ns - before_us * 1000} 1"


def check_notes(script: Script) -> None:
    """What a real-time request met in the drive, also a returned one; without observation nothing is
    recorded.
    """
    begin(script, "1:8:0:16", "2:0:0:8", "3:5:0:8", "4:8:0:8")
    assert [script.ask("dispatch 10") for _ in range(4)] == ["2", "3", "1", "4"]
    assert script.ask("finish 2 0 5000") == "end:2:0:-"
    assert script.ask("finish 3 0 5001") == "end:3:8:-"
    assert script.ask("finish 1 0 6000") == "", "it is of the background"
    script.ask("insert 0 7000 5:0:0:8 6:0:0:8 7:0:0:8")
    assert [script.ask("dispatch 7000") for _ in range(2)] == ["5", "6"]
    script.ask("observe 0")
    assert script.ask("dispatch 7000") == "7"
    script.ask("observe 1")
    assert script.ask("requeue 5 0 1") == "", "it has not ended"
    assert script.ask("finish 6 0 8000") == "end:6:16:-"
    assert script.ask("finish 7 0 8000") == ""
    script.ask("insert 0 9000 5:0:1:8")
    assert script.ask("dispatch 9000") == "5"
    assert script.ask("finish 5 0 9500") == "", "urgent requests are not real-time ones"
    # beyond 64 requests in the drive at a time, no note is kept
    script.ask("set inflight_max 1000")
    script.ask(f"insert 0 10000 {' '.join(f'{n}:0:0:8' for n in range(100, 170))}")
    for n in range(100, 170):
        assert script.ask("dispatch 10000") == str(n)
    ends = [script.ask(f"finish {n} 0 11000") for n in range(100, 170)]
    assert ends == [f"end:{n}:{8 * (n - 99)}:-" for n in range(100, 164)] + [""] * 6
    script.ask("finish 4 0 12000")
    assert script.ask("end") == "1"


def check_notes_have_errors(script: Script) -> None:
    flow = Ahead(script, ahead_lead_us=100)
    for _ in range(12):
        flow.request(1000)
    flow.number += 1
    arrived = (flow.now_us + 1020) * 1000
    script.ask(f"insert 0 {arrived} {flow.number}:2:0:8")
    script.ask(f"dispatch {arrived}")
    assert script.ask(f"finish {flow.number} 0 {arrived + 10_000}") == f"end:{flow.number}:0:20000"


CHECKS: dict[str, Callable[[Script], None]] = {
    "once": check_held_once,
    "which": check_which_bound,
    "background": check_only_the_background_is_held,
    "errors": check_errors_of_predictions,
    "discards": check_discards,
    "expected": check_held_for_what_is_expected,
    "notes": check_notes,
    "notes-errors": check_notes_have_errors,
}


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_what_is_observed(script: Script, check: Callable[[Script], None]) -> None:
    check(script)


MUTATIONS = [
    Mutation("held-again-and-again", "which", "\tif (k2->held == observer)\n\t\treturn;\n", ""),
    Mutation("never-released", "once", "if (k2->held == k2_observer())", "if (0)"),
    Mutation(
        "anything-releases",
        "background",
        "\tif (list < K2_LIST_BACKGROUND)\n\t\treturn;\n\tif (k2->held == k2_observer())",
        "\tif (k2->held == k2_observer())",
    ),
    Mutation("wrong-bound", "discards", "r->why = K2_HOLD_DISCARD;", "r->why = K2_HOLD_BYTES;"),
    Mutation(
        "error-after-it-learned",
        "errors",
        "return expected ? (s64)(arrived_ns - due_ns) : K2_UNPREDICTED;",
        "return expected ? 0 : K2_UNPREDICTED;",
    ),
    Mutation(
        "an-idle-drive-is-not-held",
        "expected",
        "if (until_ns == BOUND_AT_END || r->sectors > a->hi_sectors)",
        "if (true)",
    ),
    Mutation(
        "the-timer-is-silent",
        "expected",
        "k2_unblock(k2, K2_RELEASE_TIMER)",
        "k2_unblock(k2, K2_RELEASE_RUN)",
    ),
    Mutation(
        "meets-itself",
        "notes",
        "inflight_sectors(&k2->inflight) - e->sectors;",
        "inflight_sectors(&k2->inflight);",
    ),
    Mutation("a-note-is-kept", "notes", "clear_bit(e->note - 1, &k2->notes_used);", "(void)k2;"),
    Mutation(
        "urgent-ones-are-noted",
        "notes",
        "rt = !background && e->list != K2_LIST_URGENT;",
        "rt = !background;",
    ),
]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.name)
def test_a_broken_observer_is_noticed(tmp_path: Path, mutation: Mutation) -> None:
    assert_noticed(mutation, CHECKS, tmp_path)
