# SPDX-License-Identifier: GPL-2.0-only
"""K2 while a flush is in the drive (flush_gate_us): sched/k2.c by the program `script`. Times are in ms."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.k2_programs import Mutation, Script, assert_noticed
from tests.unit.test_k2_discards import BACKGROUND, RT, Drive

#: K2_LOOK_NS_MIN of sched/k2.h.
LOOK_MS = 0.05


class Gate(Drive):
    """A drive that flushes now and then."""

    def __init__(self, script: Script, gate_us: int = 10_000, **knobs: int) -> None:
        super().__init__(script, discard_kib_max=0, flush_gate_us=gate_us, **knobs)

    def write(self, level: int = BACKGROUND, *, urgent: bool = False) -> int:
        self.ask(f"writes {self.count}")
        return self.insert(level, urgent=urgent)

    def flush(self, begins: bool) -> None:
        self.ask(f"flush {begins:d}")


def check_held(script: Script) -> None:
    """Writes of the background wait for the flush; nothing else does, unless it is behind them."""
    gate = Gate(script)
    gate.flush(True)
    read, write, behind, rt = gate.insert(), gate.write(), gate.insert(), gate.write(RT)
    urgent = gate.write(urgent=True)
    assert [gate.dispatch() for _ in range(4)] == [urgent, rt, read, None]
    assert not gate.works()
    assert not gate.finish(read), "woken for nothing"
    gate.flush(False)
    assert gate.finish(rt), "the next completion sees that the flush has ended"
    assert gate.works()
    assert [gate.dispatch() for _ in range(2)] == [write, behind]
    for number in (urgent, write, behind):
        gate.finish(number)
    gate.end()


def check_looks(script: Script) -> None:
    """Without a completion the timer looks: at once at first, then after an eighth of the time held."""
    gate = Gate(script, 1_000_000)
    gate.flush(True)
    write, began_ms, looks = gate.write(), gate.now_ms, 0
    assert gate.dispatch() is None
    while gate.now_ms < began_ms + 100:
        waited_ms = gate.now_ms - began_ms
        assert gate.armed_ms == pytest.approx(gate.now_ms + max(waited_ms / 8, LOOK_MS), abs=0.001)
        gate.tick()
        assert not gate.works()
        looks += 1
    assert looks < 80
    gate.flush(False)
    gate.tick()
    assert gate.works()
    assert gate.dispatch() == write
    gate.finish(write)
    gate.end()


def check_limit(script: Script) -> None:
    """A flush that does not end, or one after the other, lets a write go each 10 ms."""
    gate = Gate(script)
    gate.flush(True)
    writes, went, began_ms = [gate.write() for _ in range(4)], [], gate.now_ms
    assert gate.dispatch() is None
    while gate.now_ms < began_ms + 35:
        gate.tick()
        if gate.works():
            number = gate.dispatch()
            assert number is not None
            went.append((number, gate.now_ms - began_ms))
            gate.finish(number)
            assert gate.dispatch() is None
    assert [number for number, _ in went] == writes[:3]
    assert [ms for _, ms in went] == pytest.approx([10, 20, 30], abs=0.01)


def check_merged(script: Script) -> None:
    """If the write that was held is merged away, what is behind it goes."""
    gate = Gate(script, inflight_max=4)
    gate.flush(True)
    write, read = gate.write(), gate.insert()
    assert gate.dispatch() is None
    assert not gate.works()
    gate.ask(f"merge {BACKGROUND} 1")  # those with number % 100 < 1
    gate.finish(write)
    assert gate.works()
    assert gate.dispatch() == read
    gate.finish(read)
    gate.end()


def check_off(script: Script) -> None:
    """Without the knob nobody asks; switched off, what was held goes."""
    gate = Gate(script, 0)
    gate.flush(True)
    write = gate.write()
    assert gate.dispatch() == write
    gate.finish(write)
    gate.set("flush_gate_us", 1000)
    write = gate.write()
    assert gate.dispatch() is None
    gate.set("flush_gate_us", 0)
    assert gate.works()
    assert gate.dispatch() == write
    gate.finish(write)
    gate.end()


CHECKS: dict[str, Callable[[Script], None]] = {
    name.removeprefix("check_"): check for name, check in globals().items() if name.startswith("check_")
}


@pytest.mark.parametrize("check", CHECKS)
def test_law(script: Script, check: str) -> None:
    CHECKS[check](script)


MUTATIONS = [
    Mutation("no-gate", "held", "return now < gate_ns;", "return false;"),
    Mutation("reads-are-held", "held", "!k2_writes(k2_entry_of(k2->lists[K2_BACKGROUND + 1].next)) || ", ""),
    Mutation(
        "nobody-looks",
        "looks",
        "return min(gate_ns, now + max_t(u64, held_ns / 8, K2_LOOK_NS_MIN));",
        "return held_ns ? U64_MAX : 0;",
    ),
    Mutation("looks-all-the-time", "looks", "held_ns / 8", "held_ns * 0"),
    Mutation("no-limit", "limit", "return now < gate_ns;", "return gate_ns;"),
    Mutation(
        "open-after-the-limit",
        "limit",
        "if (list == K2_BACKGROUND + 1)\n\t\tWRITE_ONCE(k2->gate_ns, 0);",
        "",
    ),
    Mutation(
        "merged-and-forgotten", "merged", "WRITE_ONCE(k2->gate_ns, 0); /* it may have been the next */", ""
    ),
]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.name)
def test_a_broken_law_is_noticed(tmp_path: Path, mutation: Mutation) -> None:
    assert_noticed(mutation, CHECKS, tmp_path)
