# SPDX-License-Identifier: GPL-2.0-only
"""K2's target: sched/k2.c with sched/bounds/target.h, before the drive of test_k2_ahead. Times are in us."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from tests.unit.k2_programs import BACKGROUND, RT, Drive, Mutation, assert_noticed
from tests.unit.scripts import Script
from tests.unit.test_k2_ahead import AUTO, HI_KIB, SECTORS, SERVICE_US, Flow, Lab, thinks, ticks

#: Service time of seven background requests and the request itself, 40 us each.
TARGET_US = 300


@dataclass
class TargetLab(Lab):
    """`latencies`: the time of the end of each real-time request, and its latency."""

    latencies: list[tuple[float, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.knobs = {"rt_target_us": TARGET_US, "inflight_kib_max": HI_KIB} | self.knobs
        self.auto = True
        super().__post_init__()

    def end(self, number: int) -> None:
        if number in self.owners:
            self.latencies.append((self.now_us - self.origin, self.now_us - self.arrived[number]))
        super().end(number)

    def late(self, begin_us: float, limit_us: float = TARGET_US) -> float:
        """The share of requests above the limit."""
        took = [us for end, us in self.latencies if end >= begin_us]
        assert len(took) > 50
        return sum(us > limit_us for us in took) / len(took)

    def in_drive_typically(self, begin_us: float) -> float:
        """The median number of requests that a real-time request met in the drive."""
        met = sorted(sectors for times in self.met.values() for us, sectors in times if us >= begin_us)
        return met[len(met) // 2] / 8


@dataclass
class LongReads(TargetLab):
    """A drive in which one real-time request in 40 takes 2.0 to 2.1 ms more; others overtake it."""

    rng: random.Random = field(default_factory=lambda: random.Random(1))

    def end_first(self) -> None:
        if self.in_drive[0] not in self.owners or self.rng.random() > 1 / 40:
            super().end_first()
            return
        self.at(self.now_us + 2_000 * self.rng.uniform(1, 1.05), partial(self.end_late, self.in_drive.pop(0)))
        if self.in_drive:
            self.at(self.now_us + SERVICE_US, self.end_first)

    def end_late(self, number: int) -> None:
        """The drive is at work on others meanwhile."""
        self.latencies.append((self.now_us - self.origin, self.now_us - self.arrived[number]))
        which = self.owners[number]
        if self.finish(number):
            self.run()
        when = self.flows[which].after(self.arrived[number], self.now_us)
        self.at(when, partial(self.arrive, which))


def by_chance(us: float) -> Callable[[float, float], float]:
    rng = random.Random(1)
    return lambda arrived, ended: ended + rng.expovariate(1 / us)


def check_one_in_a_hundred_is_late(script: Script) -> None:
    """One in a hundred is late, and the background gets what that allows."""
    lab = TargetLab(script, [Flow(0, by_chance(400))])
    lab.play(800_000)
    assert 0.0025 < lab.late(400_000) < 0.017
    assert lab.in_drive_typically(400_000) >= 3


def check_one_in_a_thousand_is_late(script: Script) -> None:
    """With p99.9, one in a thousand is late, and the background gets what that allows."""
    lab = TargetLab(script, [Flow(0, by_chance(400))], {"rt_target_percentile": 1})
    lab.play(5_000_000)
    assert 0.0003 < lab.late(1_000_000) < 0.0016
    assert lab.in_drive_typically(1_000_000) >= 2


def check_an_aim_out_of_reach_is_raised_for_99_9_too(script: Script) -> None:
    """Some requests wait for one of another flow, whatever the bound."""
    flows = [Flow(0, thinks(160)), Flow(1, by_chance(4_000))]
    lab = TargetLab(script, flows, {"rt_target_us": 75, "rt_target_percentile": 1})
    lab.play(3_000_000)
    assert script.ask("target") == "missed"
    assert lab.rate(1_000_000, 3_000_000) > 0.3


def check_another_percentile_begins_anew(script: Script) -> None:
    """The bound that one in a hundred allows is too high for one in a thousand: it is 16 KiB again."""
    lab = TargetLab(script, [Flow(0, by_chance(400))], {"rt_target_us": 5_000})
    lab.play(200_000)
    assert lab.in_drive_typically(150_000) > 12
    script.ask("set rt_target_percentile 1")
    lab.play(220_000)
    assert next(sectors for us, sectors in lab.met[0] if us > 202_000) <= 5 * SECTORS


def check_it_is_found_soon(script: Script) -> None:
    """A target that the full drive meets lets it fill after some 200 requests, from 16 KiB on."""
    lab = TargetLab(script, [Flow(0, by_chance(400))], {"rt_target_us": 5_000})
    lab.play(100_000)
    assert lab.in_drive_typically(80_000) > 12


def check_it_follows_the_load(script: Script) -> None:
    """A target that the full drive meets does not bind; a lower one does, from now on."""
    lab = TargetLab(script, [Flow(0, thinks(400))], {"rt_target_us": 5_000})
    lab.play(600_000)
    assert lab.in_drive_typically(570_000) > 12
    script.ask(f"set rt_target_us {TARGET_US}")
    lab.play(740_000)
    assert lab.late(640_000) < 0.03
    assert lab.in_drive_typically(640_000) < 8
    script.ask("set rt_target_us 0")
    lab.play(770_000)
    assert lab.in_drive_typically(750_000) > 12


def check_a_target_out_of_reach_leaves_the_background_its_share(script: Script) -> None:
    """A request takes 40 us by itself; what the reader then gets is what the idle drive does, not more."""
    lab = TargetLab(script, [Flow(0, thinks(160))], {"rt_target_us": 30})
    lab.play(500_000)
    assert script.ask("target") == "missed"
    assert lab.late(400_000, 40.001) < 0.02
    assert lab.rate(400_000, 500_000) > 0.7
    script.ask("set rt_target_us 100")
    lab.play(700_000)
    assert script.ask("target") == "predicted"


def check_long_reads_of_the_drive_do_not_strangle_the_background(script: Script) -> None:
    """They alone make one request in 40 late; an aim just above them leaves the background much.

    Once it is above them, the bound rises from its least to 16 KiB within a second.
    """
    lab = LongReads(script, [Flow(0, thinks(400))])
    lab.play(3_000_000)
    assert script.ask("target") == "missed"
    assert lab.late(2_000_000, 2_600) < 0.01
    assert lab.rate(2_000_000, 3_000_000) > 0.7
    assert lab.in_drive_typically(2_250_000) >= 4


def check_what_is_not_held_teaches_nothing(script: Script) -> None:
    """A load that does not fill the bound does not raise it: a later background meets the target at once."""
    lab = TargetLab(script, [Flow(0, thinks(400))], depth=2)
    lab.play(800_000)
    for _ in range(38):
        lab.insert()
    lab.play(850_000)
    assert lab.late(800_000) < 0.2


def check_operating_points_are_remembered(script: Script) -> None:
    """Each bound keeps its learned value: after a pause, and after a time in which the other one was in
    force.

    Both begin with four requests. The first one after a pause meets a full drive.
    """
    flows = [
        Flow(0, by_chance(400), 0, 300_000),
        Flow(0, by_chance(400), 900_000, 950_000),
        Flow(1, ticks(4_000), 950_000, 1_600_000),
        Flow(0, by_chance(400), 1_600_000, 1_700_000),
        Flow(1, ticks(4_000), 1_700_000, 1_900_000),
    ]
    lab = TargetLab(script, flows, {"rt_target_us": 700, "bound_when": 1})
    for until_us, kind in ((1_590_000, "predicted"), (1_690_000, "unpredicted"), (1_890_000, "predicted")):
        lab.play(until_us)
        assert script.ask("target") == kind
    found, paused, found_predicted, again, again_predicted = (
        [sectors // SECTORS for _, sectors in lab.met[which]] for which in range(len(flows))
    )
    assert max(found[2:12]) <= 5
    assert max(found_predicted[8:18]) <= 5
    assert min(found[-20:]) >= 14
    assert min(found_predicted[-20:]) >= 14
    assert min(paused[1:21]) >= 14
    assert min(again[:20]) >= 14
    assert min(again_predicted[8:28]) >= 14


def check_quiet_makes_up_for_some(script: Script) -> None:
    """Requests in time while nothing was held are a credit: some late ones then do not lower the bound."""
    for quiet_us, moves_later in ((12_000, False), (600_000, True)):
        lab = TargetLab(script, [Flow(0, thinks(400))], {"rt_target_us": 100}, depth=0)
        lab.play(quiet_us)
        for _ in range(40):
            lab.insert()
        lab.run()
        lab.play(quiet_us + 6_000)
        met = [sectors for us, sectors in lab.met[0] if us > quiet_us]
        assert met[0] == 4 * SECTORS
        assert (met[2] == met[0]) == moves_later
        assert met[8] <= met[0] / 2
        script.ask("set rt_target_us 0")


def check_looking_ahead_is_used_where_it_gains(script: Script) -> None:
    """With periodic arrivals, looking ahead lets the background fill the drive between two requests."""
    lab = TargetLab(script, [Flow(0, ticks(1_000))], {"rt_target_us": 85})
    lab.play(1_400_000)
    assert script.ask("target") == "predicted"
    assert lab.late(300_000, 85) < 0.03


def check_auto_is_twice_the_idle_drive(script: Script) -> None:
    """A request takes 40 us in the idle drive; to measure that, K2 holds the background for the first
    ones.
    """
    lab = TargetLab(script, [Flow(0, by_chance(400))], {"rt_target_us": AUTO})
    lab.play(800_000)
    assert [sectors for _, sectors in lab.met[0]][1:25].count(0) >= 8
    assert lab.late(400_000, 80.001) < 0.02
    assert lab.in_drive_typically(400_000) >= 1


def check_the_idle_drive_is_measured_often_at_first(script: Script) -> None:
    """The background is held every 64 requests until there are 28 samples, then every 512."""
    lab = TargetLab(script, [Flow(0, ticks(100))], {"rt_target_us": AUTO})
    lab.play(300_000)
    alone = [i for i, (_, sectors) in enumerate(lab.met[0]) if sectors == 0]
    assert [after - before for before, after in pairwise(alone)] == 8 * [1] + 19 * [64] + 3 * [512]


def check_the_aim_settles_and_follows(script: Script) -> None:
    """Reads take 30 to 50 us, then twice that, then 30 to 50 us again: the learned value is near their upper
    quartile.
    """
    drive, rng = Drive(script, rt_target_us=AUTO), random.Random(1)

    def serve(times: int, share: float = 1) -> list[float]:
        """Serves reads. Return: after each, what K2 takes for their upper quartile, over the true one."""
        after = []
        for _ in range(times):
            number = drive.insert(RT)
            assert drive.dispatch() == number
            drive.now_ms += share * rng.uniform(0.03, 0.05)
            drive.finish(number)
            drive.now_ms += 1
            after.append(int(script.ask("idle")) / 45_000 / share)
        return after

    settled = serve(500)[100:]
    assert min(settled) > 0.93
    assert max(settled) < 1.07
    assert abs(serve(150, 2)[-1] - 1) < 0.1
    assert abs(serve(400, 1)[-1] - 1) < 0.1


def check_a_read_after_a_write_is_not_alone(script: Script) -> None:
    """The drive programs after it has acknowledged a write, for an unknown time."""
    drive = Drive(script, rt_target_us=AUTO)

    def serve(level: int, ms: float, *marks: str) -> None:
        number = drive.insert(level, 8, *marks)
        assert drive.dispatch() == number
        drive.now_ms += ms
        drive.finish(number)

    for _ in range(30):
        serve(RT, 0.04)
        drive.now_ms += 1
    drive.now_ms += 100  # time in which the background was held
    for _ in range(100):
        serve(BACKGROUND, 0.01, "writes")
        drive.now_ms += 5
        serve(RT, 3)
        drive.now_ms += 1
        assert int(script.ask("idle")) < 50_000
    drive.now_ms += 50
    for _ in range(100):
        serve(RT, 3)
        drive.now_ms += 1
    assert int(script.ask("idle")) > 50_000, "nor is it ever again"


def check_a_reader_that_is_always_busy_keeps_its_rate(script: Script) -> None:
    """The next request is due when the last one ends, or waits for it: there is no time to look ahead."""
    lab = TargetLab(script, [Flow(0, ticks(80))], {"rt_target_us": AUTO})
    lab.play(800_000)
    assert lab.late(400_000, 80.001) < 0.02
    assert sum(end >= 400_000 for end, _ in lab.latencies) > 0.98 * 5000


def check_slow_requests_do_not_hold_the_background(script: Script) -> None:
    """A request every 100 ms never finds the drive idle; the background is held for it eight times only."""
    lab = TargetLab(script, [Flow(0, ticks(100_000))], {"rt_target_us": AUTO})
    lab.play(1_600_000)
    assert lab.rate(0, 800_000) > 0.4
    assert lab.rate(1_000_000, 1_600_000) > 0.9


def read_alone(drive: Drive, times: int, took_ms: float = 0.04) -> None:
    """Reads that find the drive empty, at unpredictable times."""
    rng = random.Random(1)
    for _ in range(times):
        read = drive.insert(RT)
        assert drive.dispatch() == read
        drive.now_ms += took_ms
        drive.finish(read)
        drive.now_ms += rng.uniform(1, 9)


def check_others_in_the_drive_are_no_idle_drive(script: Script) -> None:
    """Discards move no sectors, and take milliseconds."""
    drive = Drive(script, rt_target_us=AUTO)
    read_alone(drive, 40)
    for _ in range(100):
        discard = drive.discard()
        assert drive.dispatch() == discard
        read = drive.insert(RT)
        assert drive.dispatch() == read
        drive.now_ms += 4
        drive.finish(read)
        drive.finish(discard)
        drive.now_ms += 1
    assert int(script.ask("idle")) == pytest.approx(40_000, rel=0.01)


def check_what_waited_is_no_idle_drive(script: Script) -> None:
    """Where one request may be in the drive, a read finds it empty but has waited for another one."""
    drive, rng = Drive(script, rt_target_us=AUTO, inflight_max=1), random.Random(1)
    read_alone(drive, 40)
    for _ in range(100):
        other = drive.insert()
        assert drive.dispatch() == other
        read = drive.insert(RT)
        assert drive.dispatch() is None
        drive.now_ms += 4
        drive.finish(other)
        assert drive.dispatch() == read
        drive.now_ms += 0.04
        drive.finish(read)
        drive.now_ms += rng.uniform(1, 9)
    assert int(script.ask("idle")) == pytest.approx(40_000, rel=0.01)


def never_alone(drive: Drive, times: int, step_ms: float, known: bool = True) -> int:
    """Reads of which one is always in the drive. Return: how often one of the background was refused.

    `known`: before, some were alone.
    """
    if known:
        read_alone(drive, 40, 2 * step_ms)
    before = drive.insert(RT)
    assert drive.dispatch() == before
    drive.insert()
    refused = 0
    for _ in range(times):
        read = drive.insert(RT)
        assert drive.dispatch() == read
        drive.now_ms += step_ms
        drive.finish(before)
        before = read
        other = drive.dispatch()
        if other is None:
            refused += 1
        else:
            drive.finish(other)
            drive.insert()
    return refused


def check_holds_that_show_nothing_are_rare(script: Script) -> None:
    """Only `auto` needs the time of a read alone. If no read is alone, K2 does not hold for each 512
    reads.
    """
    assert 10 < never_alone(Drive(script, rt_target_us=AUTO), 1900, 1) < 0.05 * 1900
    assert never_alone(Drive(script, rt_target_us=1_000_000), 1900, 1) == 0


def check_holds_before_the_first_sample_are_rare(script: Script) -> None:
    """Only the first read was alone: its time is not known well, and one hold a second must do."""
    assert 10 < never_alone(Drive(script, rt_target_us=AUTO), 1_900, 1, known=False) < 0.12 * 1_900


def check_a_hold_raises_nothing(script: Script) -> None:
    """The background is held to measure the idle drive, and by nothing else: the bound is still 16 KiB."""
    drive = Drive(script, rt_target_us=AUTO)
    assert never_alone(drive, 1_900, 0.1) > 400
    for _ in range(20):
        drive.insert()
    assert [drive.dispatch() is None for _ in range(4)] == [False] * 3 + [True]


def check_another_bound_raises_nothing(script: Script) -> None:
    """All reads are in time, and inflight_kib_max alone refuses the background: the bound is still 16 KiB."""
    drive = Drive(script, rt_target_us=1_000, inflight_kib_max=4)
    assert never_alone(drive, 400, 0.03) == 400
    drive.set("inflight_kib_max", 0)
    for _ in range(20):
        drive.insert()
    assert [drive.dispatch() is None for _ in range(4)] == [False] * 3 + [True]


def check_a_flow_that_is_gone_limits_nothing(script: Script) -> None:
    """A predicted flow has gone: its bound does not stay in force beside a flow with random arrivals."""
    flows = [Flow(0, by_chance(400)), Flow(1, ticks(2_000), until_us=40_000)]
    lab = TargetLab(script, flows, {"rt_target_us": 5_000})
    lab.play(40_000)
    assert lab.predicted() == 0b10
    lab.play(200_000)
    assert lab.predicted() == 0


CHECKS: dict[str, Callable[[Script], None]] = {
    "others": check_others_in_the_drive_are_no_idle_drive,
    "waited": check_what_waited_is_no_idle_drive,
    "rare": check_holds_that_show_nothing_are_rare,
    "unknown": check_holds_before_the_first_sample_are_rare,
    "hold": check_a_hold_raises_nothing,
    "another": check_another_bound_raises_nothing,
    "gone": check_a_flow_that_is_gone_limits_nothing,
    "late": check_one_in_a_hundred_is_late,
    "thousand": check_one_in_a_thousand_is_late,
    "raised-for-99.9": check_an_aim_out_of_reach_is_raised_for_99_9_too,
    "anew": check_another_percentile_begins_anew,
    "soon": check_it_is_found_soon,
    "follows": check_it_follows_the_load,
    "impossible": check_a_target_out_of_reach_leaves_the_background_its_share,
    "long-reads": check_long_reads_of_the_drive_do_not_strangle_the_background,
    "unused": check_what_is_not_held_teaches_nothing,
    "remembers": check_operating_points_are_remembered,
    "quiet": check_quiet_makes_up_for_some,
    "ahead": check_looking_ahead_is_used_where_it_gains,
    "auto": check_auto_is_twice_the_idle_drive,
    "after-a-write": check_a_read_after_a_write_is_not_alone,
    "often": check_the_idle_drive_is_measured_often_at_first,
    "settles": check_the_aim_settles_and_follows,
    "busy": check_a_reader_that_is_always_busy_keeps_its_rate,
    "slow": check_slow_requests_do_not_hold_the_background,
}


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_the_target_is_met(script: Script, check: Callable[[Script], None]) -> None:
    check(script)


MUTATIONS = [
    Mutation("any-gap", "busy", "device_ns > free_ns / AHEAD_FREE_TIMES", "false"),
    Mutation("any-quantile", "late", "fall = TARGET_ODDS * step", "fall = 50 * step"),
    Mutation("never-rarer", "thousand", "in_time * step / rarer", "in_time * step"),
    Mutation(
        "lifted-too-little",
        "raised-for-99.9",
        "TARGET_LIFT_ODDS * rarer - in_time",
        "TARGET_LIFT_ODDS - in_time",
    ),
    Mutation("same-bound-for-both", "anew", " || t->rare != rare", ""),
    Mutation("never-falls", "late", "p->log + up + forgiven - down,", "p->log + up,"),
    Mutation("never-rises", "late", "p->log + up + forgiven - down,", "p->log + forgiven - down,"),
    Mutation("forgets-soon", "long-reads", "#define TARGET_LIFT_FORGET 20", "#define TARGET_LIFT_FORGET 16"),
    Mutation("lifted-slowly", "long-reads", "TARGET_PREDICTED ? 3 : 5", "TARGET_PREDICTED ? 5 : 5"),
    Mutation(
        "sought-again-slowly", "long-reads", "#define TARGET_AGAIN_TIMES 4", "#define TARGET_AGAIN_TIMES 1"
    ),
    Mutation("a-late-one-counts-whole", "long-reads", "fall >> (again && kind == TARGET_PREDICTED)", "fall"),
    Mutation("sought-again-without-need", "soon", "p->lift > TARGET_AGAIN_LIFT", "true"),
    Mutation("chased", "impossible", "lift += (late * TARGET_LIFT_ODDS * rarer - in_time)", "lift += 0"),
    Mutation("lifted-without-need", "late", "times == 1 && p->log < log_min + fall", "late"),
    Mutation(
        "first-steps-are-small", "soon", "#define TARGET_FIRST_TIMES 14", "#define TARGET_FIRST_TIMES 1"
    ),
    Mutation(
        "steps-of-the-aim-stay-large",
        "settles",
        "step_ns = div_u64(typical_ns, (count - TARGET_PROBES_FIRST + 1) * TARGET_IDLE_PART)",
        "step_ns = typical_ns / 32",
    ),
    Mutation("as-often-later", "often", "#define TARGET_PROBE_EVERY 512", "#define TARGET_PROBE_EVERY 64"),
    Mutation("aim-is-stuck", "settles", "TARGET_IDLE_SAMPLES 28", "TARGET_IDLE_SAMPLES 100000"),
    Mutation("rises-unused", "unused", "if (!t->held) {", "if (false) {"),
    Mutation("nothing-is-held", "late", "\t\tk2->target.held = true;\n\t/* write", "\t\t;\n\t/* write"),
    Mutation(
        "discards-are-nothing",
        "others",
        "inflight_requests(&k2->inflight) == 1 &&",
        "inflight_sectors(&k2->inflight) == e->sectors &&",
    ),
    Mutation("waiting-is-alone", "waited", "4 * waited_ns <= (s64)target_idle_ns(idle)", "true"),
    Mutation("no-rest", "rare", "20 * TARGET_PROBE_NS", "0"),
    Mutation("alone-after-a-write", "after-a-write", "now_ns + DEBT_UNKNOWN_NS", "now_ns"),
    Mutation("a-number-is-auto", "rare", "t->target_ns == TARGET_AUTO &&", "true &&"),
    Mutation("any-hold-counts", "another", "(r->why == K2_HOLD_AHEAD ||", "(true ||"),
    Mutation("a-hold-counts", "hold", "(r->why == K2_HOLD_AHEAD ||", "(r->why != K2_HOLD_BYTES ||"),
    Mutation("holds-in-vain", "unknown", " || idle->tries > count + 1", ""),
    Mutation("never-gone", "gone", "present_until_ns < arrived_ns &&", "present_until_ns < 0 &&"),
    Mutation(
        "forgets-in-a-pause",
        "remembers",
        "\tt->on = on;\n",
        "\tif (t->on != on)\n\t\tt->points[0] = t->points[1] = first;\n\tt->on = on;\n",
    ),
    Mutation(
        "forgets-the-other-kind",
        "remembers",
        "bool changed = t->kind != kind;",
        "bool changed = t->kind != kind && (t->points[kind].log = TARGET_LOG_FIRST, true);",
    ),
    Mutation(
        "one-point-for-both",
        "remembers",
        "kind = predicted ? TARGET_PREDICTED : TARGET_UNPREDICTED;",
        "kind = TARGET_UNPREDICTED;",
    ),
    Mutation("no-credit", "quiet", "(4 * TARGET_ODDS * TARGET_STEP)", "0"),
    Mutation("credit-for-ever", "quiet", "p->credit -= forgiven;", ""),
    Mutation(
        "never-predicted", "ahead", "e->marks |= k2->target.kind == TARGET_PREDICTED", "e->marks |= false"
    ),
]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.name)
def test_a_broken_target_is_noticed(tmp_path: Path, mutation: Mutation) -> None:
    assert_noticed(mutation, CHECKS, tmp_path)
