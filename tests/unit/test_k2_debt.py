# SPDX-License-Identifier: GPL-2.0-only
"""K2's bound on the debt of writes: sched/k2.c with sched/bounds/debt.h, before a drive that writes behind.

The drive, the background and a real-time reader are simulated here; K2 is the program `script`. Times are in
us. The drive programs its buffer at a rate that K2 must find. A read waits for a share of the buffer, as
there are several dies, and for the operation on its die.
"""

import itertools
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
from tests.unit.k2_programs import EventLoop, Mutation, assert_noticed
from tests.unit.scripts import Script

BACKGROUND = 8
SECTORS = 128  # size of a write
BUFFER_SECTORS = 2048
ACK_US = 20.0
READ_US = 80.0
PROGRAM_US = 400.0
DIES = 8
DEBT_KIB = 256


@dataclass
class Lab(EventLoop):
    """Writes and a reader. `debts`: sectors that the drive had still to program when each real-time read
    came.
    """

    script: Script
    rate: float  # sectors a us that the drive programs
    knobs: dict[str, int] = field(default_factory=dict)
    depth: int = 32
    reads_every_us: float = 2_000.0
    background_reads: float = 0.0  # share of reads in the background
    pause_us: float = 0.0  # pause of the background after each request
    burst_us: float = 0.0  # all of the background's requests come at multiples of this
    slow_acks: float = 0.0  # share of acknowledgements that take ten times as long
    buffer_sectors: int = BUFFER_SECTORS
    buffered: float = 0.0
    debts: list[tuple[float, float]] = field(default_factory=list)
    took: list[tuple[float, float]] = field(default_factory=list)
    acked_us: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(
            self.script, {"inflight_max": 32, "write_debt_kib_max": DEBT_KIB, "be_floor_iops": 0} | self.knobs
        )
        self.rng = random.Random(1)
        self.read_numbers = itertools.cycle(range(1, 2000))
        self.write_numbers = itertools.cycle(range(2000, 4000))
        self.buffered_at = self.room_us = self.now_us
        self.waiting: list[int] = []  # writes that do not fit into the buffer
        self.levels: dict[int, int] = {}
        self.reads: dict[int, float] = {}
        self.in_drive = 0
        for _ in range(self.depth):
            self.insert(BACKGROUND)
        if self.reads_every_us:
            self.at(self.now_us + self.reads_every_us, self.arrive)

    def insert(self, level: int) -> None:
        writes = level == BACKGROUND and self.rng.random() >= self.background_reads
        number = next(self.write_numbers if writes else self.read_numbers)
        self.levels[number] = level
        if writes:
            self.ask(f"writes {number}")
        else:
            self.reads[number] = self.now_us
        self.ask(f"insert 0 {self.ns} {number}:{level}:0:{SECTORS if writes else 8}")

    def work(self) -> None:
        """Drain the buffer; acknowledge waiting writes as soon as they fit into it."""
        self.buffered = max(0.0, self.buffered - self.rate * (self.now_us - self.buffered_at))
        self.buffered_at = self.now_us
        while self.waiting and self.buffered + SECTORS <= self.buffer_sectors:
            self.buffered += SECTORS
            ack_us = ACK_US * (10 if self.rng.random() < self.slow_acks else 1)
            self.at(self.now_us + ack_us, partial(self.end, self.waiting.pop(0)))
        if self.waiting and self.room_us <= self.now_us:
            self.room_us = self.now_us + (self.buffered + SECTORS - self.buffer_sectors) / self.rate + 0.001
            self.at(self.room_us, lambda: None)

    def run(self) -> None:
        """blk_mq_run_hw_queue()."""
        while self.ask(f"work {self.ns}") == ["1"]:
            owed = int(self.ask("owed")[0])
            (word,) = self.ask(f"dispatch {self.ns}")
            if word == "-":
                assert self.ask(f"work {self.ns}") == ["0"], "it would run again and again"
                break
            number = int(word)
            if limit_kib := self.knobs.get("inflight_kib_max"):
                goes = 8 if number in self.reads else SECTORS
                assert self.levels[number] != BACKGROUND or not owed or owed + goes <= 2 * limit_kib
            self.in_drive += 1
            if number not in self.reads:
                self.waiting.append(number)
                self.work()
                continue
            queued_us = self.buffered / self.rate / DIES
            busy_us = self.rng.uniform(0, PROGRAM_US) if self.rng.random() < 0.9 else 0
            self.at(self.now_us + READ_US + queued_us + busy_us, partial(self.end, number))

    def owed(self) -> float:
        return self.buffered + SECTORS * len(self.waiting)

    def arrive(self) -> None:
        self.debts.append((self.now_us - self.origin, self.owed()))
        self.insert(0)
        self.run()
        if self.reads_every_us:
            self.at(self.now_us + self.reads_every_us, self.arrive)

    def more(self) -> None:
        self.insert(BACKGROUND)
        self.run()

    def end(self, number: int) -> None:
        self.in_drive -= 1
        woken = self.finish(number)
        arrived_us = self.reads.pop(number, None)
        if arrived_us is None:
            self.acked_us.append(self.now_us - self.origin)
        elif self.levels[number] != BACKGROUND:
            self.took.append((self.now_us - self.origin, self.now_us - arrived_us))
        if self.levels[number] == BACKGROUND:
            us = self.now_us + self.pause_us
            self.at(math.ceil(us / self.burst_us) * self.burst_us if self.burst_us else us, self.more)
        if woken:
            self.run()

    def share(self, begin_us: float, end_us: float) -> float:
        """Rate of acknowledged writes over the rate at which the drive programs."""
        return (
            sum(begin_us <= us < end_us for us in self.acked_us) * SECTORS / self.rate / (end_us - begin_us)
        )

    def drain(self) -> float:
        """The learned rate over the rate at which the drive programs."""
        return int(self.script.ask("drain")) * 2 / 1e6 / self.rate

    def typical_debt(self, begin_us: float, end_us: float) -> float:
        found = sorted(owed for us, owed in self.debts if begin_us <= us < end_us)
        return found[len(found) // 2]


def check_the_drive_owes_little(script: Script) -> None:
    """Without the bound the buffer is full, and 31 writes wait for room in it."""
    lab = Lab(script, rate=1.0)
    lab.play(1_500_000)
    assert lab.typical_debt(300_000, 1_500_000) < 2 * DEBT_KIB * 1.5
    assert lab.share(300_000, 1_500_000) > 0.93


def check_a_large_buffer_that_was_full_is_worked_off(script: Script) -> None:
    """K2 pauses once when reads are slow, instead of lowering the rate too far."""
    lab = Lab(script, 1.0, {"write_debt_kib_max": 2**32 - 1}, buffer_sectors=16 * BUFFER_SECTORS)
    lab.play(600_000)
    assert max(owed for us, owed in lab.debts if us < 300_000) > 8 * BUFFER_SECTORS
    assert lab.typical_debt(60_000, 600_000) < BUFFER_SECTORS / 2
    assert max(owed for us, owed in lab.debts if 80_000 < us < 600_000) < BUFFER_SECTORS
    assert lab.share(0, 300_000) > 0.87
    assert lab.share(300_000, 600_000) > 0.93


def check_without_it_the_buffer_is_full(script: Script) -> None:
    lab = Lab(script, 1.0, {"write_debt_kib_max": 0})
    lab.play(200_000)
    assert lab.typical_debt(60_000, 200_000) > BUFFER_SECTORS


def check_a_slower_drive_is_noticed(script: Script) -> None:
    lab = Lab(script, rate=2.0)
    lab.play(400_000)
    lab.rate = 0.5
    lab.play(1_500_000)
    assert lab.typical_debt(700_000, 1_500_000) < 2 * DEBT_KIB * 1.5
    assert lab.share(700_000, 1_500_000) > 0.9


def check_a_faster_drive_is_noticed(script: Script) -> None:
    lab = Lab(script, rate=0.5)
    lab.play(400_000)
    lab.rate = 0.6
    lab.play(2_500_000)
    assert lab.share(1_800_000, 2_500_000) > 0.9


def check_no_reads_no_loss(script: Script) -> None:
    """Without slow reads K2 holds back no more than the known debt requires."""
    lab = Lab(script, rate=1.0, reads_every_us=0)
    lab.play(600_000)
    assert lab.share(100_000, 600_000) > 0.95


def check_reads_of_the_background_leave_room_too(script: Script) -> None:
    """A bound on bytes counts the debt too."""
    knobs = {"inflight_kib_max": 2 * DEBT_KIB, "write_debt_kib_max": 4 * DEBT_KIB}
    lab = Lab(script, 1.0, knobs, background_reads=0.5)
    lab.play(1_000_000)
    assert lab.share(400_000, 1_000_000) > 0.3


def check_what_is_larger_goes_alone(script: Script) -> None:
    lab = Lab(script, 1.0, {"write_debt_kib_max": 32}, depth=4)
    lab.play(600_000)
    assert lab.share(100_000, 600_000) > 0.5


def check_the_rate_of_writes_that_go_alone_is_learned(script: Script) -> None:
    """Until the buffer is full the drive takes writes faster than it programs them."""
    lab = Lab(script, 1.0, {"write_debt_kib_max": 32}, depth=4, buffer_sectors=16 * BUFFER_SECTORS)
    lab.play(2_000)
    assert lab.drain() > 3
    lab.play(600_000)
    assert lab.drain() < 2
    assert lab.typical_debt(100_000, 600_000) < SECTORS


def check_many_reads_hide_no_slower_drive(script: Script) -> None:
    """Between two writes more reads end than are judged together."""
    lab = Lab(script, 0.1, {"inflight_max": 1000}, reads_every_us=100)
    lab.play(700_000)
    lab.rate = 0.05
    lab.play(2_000_000)
    assert 0.8 < lab.drain() < 1.2


def check_its_own_limit_raises_no_target(script: Script) -> None:
    """All reads are in time, and write_debt_kib_max alone refuses writes: the target does not let go more."""
    lab = Lab(script, 1.0, {"inflight_max": 1000, "rt_target_us": 5_000})
    for number in range(2000, 4000):
        lab.ask(f"whole {number}")
    lab.play(2_000_000)
    lab.background_reads = 1.0
    for _ in range(200):
        lab.insert(BACKGROUND)
    lab.play(2_010_000)
    assert lab.in_drive < 2 * DEBT_KIB // 8 + 20


def check_few_writes_teach_nothing(script: Script) -> None:
    """One write at a time, with a pause after each; the drive is slow with some of them."""
    lab = Lab(script, 1.0, depth=1, pause_us=2_000, slow_acks=0.3, reads_every_us=0)
    lab.play(600_000)
    assert int(script.ask("drain")) == 0


def check_auto(script: Script) -> None:
    lab = Lab(script, 1.0, {"write_debt_kib_max": 2**32 - 1})
    lab.play(1_500_000)
    assert lab.typical_debt(300_000, 1_500_000) < BUFFER_SECTORS / 2
    assert lab.share(300_000, 1_500_000) > 0.93


def check_a_rate_from_before_the_buffer_was_full_is_corrected(script: Script) -> None:
    """Some acknowledgements are slow while the buffer has room, so that the buffer seems full."""
    lab = Lab(script, 1.0, {"write_debt_kib_max": 192}, slow_acks=0.3, buffer_sectors=16 * BUFFER_SECTORS)
    lab.play(2_000)
    assert lab.drain() > 3
    lab.play(300_000)
    assert 0.8 < lab.drain() < 1


def check_a_drive_whose_buffer_was_full_before(script: Script) -> None:
    """The bound is set under load: all writes that K2 sees find the buffer full."""
    lab = Lab(script, 1.0, {"write_debt_kib_max": 0})
    lab.play(49_000)
    assert lab.owed() > BUFFER_SECTORS
    lab.ask(f"set write_debt_kib_max {DEBT_KIB}")
    lab.play(300_000)
    assert 0.9 < lab.drain() < 1.1
    assert lab.typical_debt(100_000, 300_000) < 2 * DEBT_KIB * 1.5


def check_reads_in_bursts(script: Script) -> None:
    """The bound is in force only beside reads, a fifth of the time; writes are accounted for all the time."""
    lab = Lab(script, 0.1, {"bound_when": 1}, reads_every_us=0)
    lab.play(1_000_000)
    for second in range(1, 7):
        lab.reads_every_us = 2_000
        lab.arrive()
        lab.play(second * 1_000_000 + 100_000)
        lab.reads_every_us = 0
        lab.play((second + 1) * 1_000_000)
    assert 0.8 < lab.drain() < 1.2
    assert lab.share(1_000_000, 7_000_000) > 0.9


def check_a_window_is_of_one_kind(script: Script) -> None:
    """The bound comes into force while the buffer is full, and few writes come from then on."""
    lab = Lab(script, 1.0, {"bound_when": 1}, reads_every_us=0)
    lab.play(43_000)
    lab.pause_us = 20_000
    lab.reads_every_us = 2_000
    lab.arrive()
    lab.play(120_000)
    assert lab.share(60_000, 120_000) < 0.5
    assert 0.9 < lab.drain() < 1.1


def check_writes_that_are_held_elsewhere_teach_nothing(script: Script) -> None:
    """Writes come in bursts and are held at times; their mean rate is half of what the drive programs."""
    lab = Lab(script, 1.0, depth=8)
    lab.play(400_000)
    lab.burst_us = 2_100
    lab.play(2_000_000)
    assert lab.share(1_000_000, 2_000_000) < 0.6
    assert lab.drain() < 1.03


def check_rare_reads_are_not_no_reads(script: Script) -> None:
    """In the time in which the drive acknowledges a window of writes, there is often no read."""
    lab = Lab(script, 1.0, reads_every_us=20_000)
    lab.play(2_500_000)
    assert lab.drain() < 1.03


def check_writes_of_nothing_do_not_wait(script: Script) -> None:
    """A discard without a bound of its own moves no sectors, and adds no debt."""
    lab = Lab(script, 1.0)
    lab.play(400_000)
    assert script.ask("work") == "0", "a write waits"
    while lab.ask(f"merge {BACKGROUND} 100")[:1] not in ([], ["run"]):
        pass
    lab.ask("set write_debt_kib_max 32")  # less than the present debt
    lab.ask("writes 1")
    lab.ask(f"insert 0 {lab.ns} 1:{BACKGROUND}:0:0")
    assert lab.ask(f"dispatch {lab.ns}") == ["1"]


CHECKS: dict[str, Callable[[Script], None]] = {
    "little": check_the_drive_owes_little,
    "large-buffer": check_a_large_buffer_that_was_full_is_worked_off,
    "off": check_without_it_the_buffer_is_full,
    "slower": check_a_slower_drive_is_noticed,
    "faster": check_a_faster_drive_is_noticed,
    "no-reads": check_no_reads_no_loss,
    "both-bounds": check_reads_of_the_background_leave_room_too,
    "large": check_what_is_larger_goes_alone,
    "idle": check_few_writes_teach_nothing,
    "auto": check_auto,
    "first-rate": check_a_rate_from_before_the_buffer_was_full_is_corrected,
    "full-before": check_a_drive_whose_buffer_was_full_before,
    "bursts": check_reads_in_bursts,
    "one-kind": check_a_window_is_of_one_kind,
    "held-elsewhere": check_writes_that_are_held_elsewhere_teach_nothing,
    "rare-reads": check_rare_reads_are_not_no_reads,
    "nothing": check_writes_of_nothing_do_not_wait,
    "alone": check_the_rate_of_writes_that_go_alone_is_learned,
    "many-reads": check_many_reads_hide_no_slower_drive,
    "own-limit": check_its_own_limit_raises_no_target,
}


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_debt_is_bounded(script: Script, check: Callable[[Script], None]) -> None:
    check(script)


MUTATIONS = [
    Mutation("on-unasked", "off", "debt || !target_ns ? debt : DEBT_AUTO", "debt ?: DEBT_AUTO"),
    Mutation(
        "accounts-while-in-force", "bursts", "if (k2->debt.set_sectors && e->s", "if (k2->debt.on && e->s"
    ),
    Mutation(
        "never-drains-by-the-clock",
        "large",
        "s64 ns = READ_ONCE(d->empty_ns) - now_ns;",
        "s64 ns = 1LL << (now_ns ? 40 : 0);",
    ),
    Mutation("the-timer-is-late", "little", "return now_ns + 1 + rate_ns", "return now_ns + 1000 * rate_ns"),
    Mutation("charged-until-acknowledged", "little", "if (!owed || owed + r->sectors <= limit)", "if (true)"),
    Mutation("never-falls", "slower", "max(d->rate - d->rate / DEBT_FALL, floor)", "2 * (u64)d->rate"),
    Mutation(
        "falls-for-anything", "large-buffer", "d->were_slow = are_slow && !were_slow;", "were_slow = true;"
    ),
    Mutation("no-longer-pause-at-first", "large-buffer", "d->pause_ns = max(d->pause_ns, took_ns);", ";"),
    Mutation(
        "pause-too-short",
        "large-buffer",
        "pause_ns = max(rate_ns(d->rate, DEBT_PAUSE * d->limit_sectors), 2 * d->pause_ns);",
        "pause_ns = min(rate_ns(d->rate, d->limit_sectors), 2 * d->pause_ns);",
    ),
    Mutation("never-rises", "faster", "d->rate / (d->rate < low ? DEBT_RISE : DEBT_RISE_SLOWLY)", "0"),
    Mutation(
        "idle-counts",
        "idle",
        "if ((go_alone ? 4 : 2) * ack_ns >= DEBT_WAITING_HALVES * took_ns &&",
        "if (took_ns &&",
    ),
    Mutation("first-rate-stays", "first-rate", "(d->spare ? wait || !go_alone :", "(false ? false :"),
    Mutation("a-pause-counts", "first-rate", "now_ns);\n\td->window_ns = 0;\n", "now_ns);\n"),
    Mutation("windows-mix", "one-kind", "if (on != d->on || !set_sectors)", "if (!set_sectors)"),
    Mutation("needs-room-once", "full-before", "(!d->rate || (d->spare", "((d->spare"),
    Mutation("rises-while-empty", "held-elsewhere", "4 * slow > reads || d->spare", "4 * slow > reads"),
    Mutation(
        "rises-between-reads",
        "rare-reads",
        " && now_ns > READ_ONCE(d->read_ended_ns) + DEBT_PAUSE_NS_MAX)",
        " && now_ns > READ_ONCE(d->read_ended_ns) + took_ns)",
    ),
    Mutation(
        "reads-do-not-wait",
        "both-bounds",
        "inflight_sectors(&k2->inflight) + owed,",
        "inflight_sectors(&k2->inflight),",
    ),
    Mutation("never-alone", "alone", "(go_alone ? 4 : 2) * ack_ns", "2 * ack_ns"),
    Mutation(
        "reads-first", "many-reads", "\tif (atomic_read(&d->acked) >=", "\telse if (atomic_read(&d->acked) >="
    ),
    Mutation("any-debt-counts", "own-limit", " && r->limit == k2->debt.cap_sectors", ""),
    Mutation("discards-wait", "nothing", "!r->writes || !r->sectors ||", "!r->writes ||"),
]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.name)
def test_a_broken_bound_is_noticed(tmp_path: Path, mutation: Mutation) -> None:
    assert_noticed(mutation, CHECKS, tmp_path)
