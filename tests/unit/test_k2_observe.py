# SPDX-License-Identifier: GPL-2.0-only
"""What K2 tells who observes it (sched/observe.h), at transitions, and what the slow log is given."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.k2_programs import Mutation, Script, assert_noticed

BACKGROUND = 8


def begin(script: Script, *entries: str, **knobs: int) -> None:
    """A drive that is observed, with such entries queued: ID:LEVEL:URGENT:SECTORS."""
    script.ask("new 1")
    for name, value in knobs.items():
        assert script.ask(f"set {name} {value}") == f"0 {value}"
    script.ask("observe 1")
    if entries:
        script.ask(f"insert 0 0 {' '.join(entries)}")


def check_held_once(script: Script) -> None:
    """However often somebody looks, and until it goes."""
    begin(script, *(f"{n}:8:0:8" for n in range(5)), inflight_max=2)
    assert script.ask("dispatch 10") == "0"
    assert script.ask("dispatch 11") == "1"
    assert script.ask("work 20") == "hold:count:0:2 0"
    for now in range(21, 25):
        assert script.ask(f"work {now}") == "0"
        assert script.ask(f"dispatch {now}") == "-"
    assert script.ask("finish 0 0 30") == "0"
    assert script.ask("work 31") == "1"
    assert script.ask("dispatch 32") == "release:completion:12 2"
    assert script.ask("work 40") == "hold:count:0:2 0"
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
    script.ask("set inflight_max 1")
    assert script.ask("dispatch 22") == "-", "it is held already"


def check_only_the_background_is_held(script: Script) -> None:
    begin(script, "0:8:0:8", "1:8:0:8", inflight_max=1)
    assert script.ask("dispatch 10") == "0"
    script.ask("insert 0 11 2:3:0:8")
    assert script.ask("work 12") == "0"
    assert script.ask("dispatch 13") == "-"
    assert script.ask("finish 0 0 14") == "0"
    assert script.ask("dispatch 15") == "2"
    assert script.ask("work 16") == "hold:count:0:1 0"


def test_who_begins_to_look_sees_what_begins_then(script: Script) -> None:
    begin(script, *(f"{n}:8:0:8" for n in range(4)), inflight_max=1)
    assert script.ask("dispatch 10") == "0"
    assert script.ask("work 11") == "hold:count:0:1 0"
    script.ask("observe 0")
    assert script.ask("finish 0 0 12") == "0"
    assert script.ask("dispatch 13") == "1"
    assert script.ask("work 14") == "0"
    script.ask("observe 2")
    assert script.ask("finish 1 0 15") == "0"
    assert script.ask("dispatch 16") == "2", "when that began nobody knows"
    assert script.ask("work 17") == "hold:count:0:1 0"


class Ahead:
    """A real-time flow every ms, each 10 us in the drive; times in us."""

    def __init__(self, script: Script, **knobs: int) -> None:
        self.script = script
        self.now_us = 10**6
        self.number = 100
        begin(script, inflight_max=1000, inflight_kib_max=64, bound_mode=1, ahead_lo_kib=0, **knobs)
        # what the drive serves
        for number in range(100):
            script.ask(f"insert 0 0 {number}:8:0:128")
            script.ask(f"dispatch {self.now_us * 1000}")
            script.ask(f"finish {number} 0 {(self.now_us + 100) * 1000}")
            self.now_us += 100

    def request(self, us: int) -> str:
        """Of the flow, so much later; what is said when it is dispatched."""
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
    assert words(flow.request(950))[0][3:] == ["-50000", "1"]
    assert words(flow.request(1900))[0][4] == "0", "that was too late"
    assert words(flow.request(1000))[0][3:] == ["-", "0"], "now it is not predicted"


def check_held_for_who_is_expected(script: Script) -> None:
    """The bound that looks ahead holds an idle drive free; the timer, or another run, ends that."""
    flow = Ahead(script, ahead_lead_us=300)
    for _ in range(12):
        flow.request(1000)
    before_us = flow.now_us + 900
    script.ask(f"insert 0 {before_us * 1000} 1:8:0:8 2:8:0:128")
    said = script.ask(f"work {before_us * 1000}").split()
    arm = next(word for word in said if word.startswith("arm:"))
    assert [word for word in said if word != arm] == ["hold:idle:8:0", "0"]
    late_ns = int(arm.removeprefix("arm:"))
    script.ask(f"tick {late_ns}")
    assert script.ask(f"work {late_ns}") == "1"
    assert script.ask(f"dispatch {late_ns}") == f"release:timer:{late_ns - before_us * 1000} 1"
    # beside one in the drive it is not idle; the flow is overdue, so expected only after two in time
    script.ask(f"finish 1 0 {late_ns}")
    flow.now_us = late_ns // 1000
    script.ask("set ahead_hi_kib 64")
    script.ask(f"dispatch {late_ns + 1}")
    script.ask(f"finish 2 0 {late_ns + 2}")
    for _ in range(4):
        flow.request(1000)
    before_us = flow.now_us + 600
    script.ask(f"insert 0 {before_us * 1000} 3:8:0:8 4:8:0:100")
    assert script.ask(f"dispatch {before_us * 1000}") == "3"
    word = script.ask(f"dispatch {before_us * 1000 + 1}").split()[0]
    assert word.startswith("hold:ahead:100:")
    assert int(word.rpartition(":")[2]) < 108
    after_us = flow.now_us + 5000
    assert words(script.ask(f"dispatch {after_us * 1000}"))[0][:2] == ["release", "run"]


def check_the_log(script: Script) -> None:
    """Real-time entries that took longer, with what they met; not what was returned, and none while off."""
    begin(script, "1:8:0:16", "2:0:0:8", "3:5:0:8", "4:8:0:8", slow_log_us=5)
    assert [script.ask("dispatch 10") for _ in range(4)] == ["2", "3", "1", "4"]
    assert script.ask("finish 2 0 5000") == ""
    assert script.ask("finish 3 0 5001") == "slow:3:8:-"
    assert script.ask("finish 1 0 100000") == "", "it is of the background"
    script.ask("insert 0 100000 5:0:0:8 6:0:0:8 7:0:0:8")
    assert [script.ask("dispatch 100000") for _ in range(3)] == ["5", "6", "7"]
    assert script.ask("requeue 5 0 1") == ""
    script.ask("set slow_log_us 0")
    assert script.ask("finish 6 0 900000") == ""
    script.ask("set slow_log_us 5")
    assert script.ask("finish 7 0 900000") == "slow:7:24:-"
    script.ask("insert 0 900000 5:0:1:8")
    assert script.ask("dispatch 900000") == "5"
    assert script.ask("finish 5 0 906000") == "slow:5:8:-"
    assert script.ask("finish 4 0 906000") == ""
    assert script.ask("end") == "1"


def check_the_log_has_errors(script: Script) -> None:
    flow = Ahead(script, ahead_lead_us=100, slow_log_us=5)
    for _ in range(12):
        flow.request(1000)
    flow.number += 1
    arrived = (flow.now_us + 1020) * 1000
    script.ask(f"insert 0 {arrived} {flow.number}:2:0:8")
    script.ask("observe 0")
    assert script.ask(f"dispatch {arrived}") == str(flow.number), "only who observes hears of predictions"
    assert script.ask(f"finish {flow.number} 0 {arrived + 10_000}") == f"slow:{flow.number}:0:20000"


CHECKS: dict[str, Callable[[Script], None]] = {
    "once": check_held_once,
    "which": check_which_bound,
    "background": check_only_the_background_is_held,
    "errors": check_errors_of_predictions,
    "expected": check_held_for_who_is_expected,
    "log": check_the_log,
    "log-errors": check_the_log_has_errors,
}


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_what_is_observed(script: Script, check: Callable[[Script], None]) -> None:
    check(script)


MUTATIONS = [
    Mutation("held-again-and-again", "once", "k2->held = observer;", "(void)observer;"),
    Mutation("never-released", "once", "if (k2->held == observer) {", "if (0 && observer) {"),
    Mutation("whoever-is-next", "background", "return lists == 1UL <<", "return lists & 1UL <<"),
    Mutation(
        "error-after-it-learned",
        "errors",
        "error_ns = k2_error_ns(ahead, flow, e->since_ns);",
        "error_ns = 0;",
    ),
    Mutation(
        "an-idle-drive-is-not-held",
        "expected",
        "return until_ns && k2_refuses(r, K2_HOLD_IDLE, limit);",
        "return false;",
    ),
    Mutation("the-timer-is-silent", "expected", "k2_note_run(k2, K2_RELEASE_TIMER);", ""),
    Mutation(
        "meets-itself",
        "log",
        "k2_log_begin(k2, e, atomic_read(&k2->inflight_sectors) - sectors,",
        "k2_log_begin(k2, e, sectors,",
    ),
    Mutation("all-are-slow", "log", "> (s64)(log_us * 1000)", ">= 0"),
    Mutation("no-bytes-for-the-log", "log", "|| debt || logs ?", "|| debt ?"),
]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.name)
def test_a_broken_observer_is_noticed(tmp_path: Path, mutation: Mutation) -> None:
    assert_noticed(mutation, CHECKS, tmp_path)
