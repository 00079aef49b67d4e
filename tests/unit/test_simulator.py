# SPDX-License-Identifier: GPL-2.0-only
"""The simulator: known times on small loads, and what must hold on any load, drive and scheduler.

The laws are checked by the simulator itself at every step (sim/checker.hpp). A failure prints the job file
and the command that replays it.
"""

import dataclasses
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tailgate.base.errors import UsageError
from tailgate.load import fiojob, workload
from tailgate.load.process import Process
from tailgate.load.traces import TracedIo
from tailgate.simulator import simulation
from tailgate.simulator.simulation import Outcome, Simulation

pytest.importorskip("tailgate_sim", reason="`make sim` builds it")

DRIVE = {
    "capacity_mib": 64,
    "dies": 4,
    "read_ns": 50_000,
    "read_fixed_ns": 20_000,
    "write_fixed_ns": 10_000,
    "transfer_ns": 0,
    "erase_kib": 0,
}
AUTO = (1 << 32) - 1  # the simulator's number for "auto"
READER = Process(synchronous=True, ios_max=100, ends_all=True)


def run(*processes: Process, drive: Mapping[str, int] = DRIVE, **rest: object) -> Outcome:
    flows = tuple(f"f{i}" for i in range(max(p.flow for p in processes) + 1))
    seeded = tuple(dataclasses.replace(p, seed=p.seed + i) for i, p in enumerate(processes))
    return simulation.simulate(Simulation(flows, seeded, drive, check=True, **rest))  # type: ignore[arg-type]


def reads(outcome: Outcome, flow: str = "f0") -> simulation.Direction:
    return outcome.flows[flow][1][0]


def test_a_lone_reader_sees_the_drives_own_time() -> None:
    latency = reads(run(READER)).latency
    assert (latency.min_ns, latency.max_ns, latency.n) == (70_000, 70_000, 100)


def test_processors_add_what_they_cost() -> None:
    """A synchronous request includes submission, interrupt and wake-up; reaping comes after it."""
    costs = {"submit": 1_000, "submit_kib": 10, "schedule": 300, "complete": 2_000, "reap": 400, "wake": 500}
    outcome = run(READER, costs=costs)
    assert reads(outcome).latency.max_ns == 70_000 + 1_040 + 2_000 + 500
    assert outcome.now_ns == pytest.approx(100 * (73_540 + 400), abs=1_000)
    assert outcome.idle == pytest.approx(70_000 / 73_940, abs=0.01)
    scheduled = run(READER, costs=costs, scheduler="k2")
    assert reads(scheduled).latency.max_ns - reads(outcome).latency.max_ns == 300


def test_an_interrupt_does_not_wait_for_a_task() -> None:
    """A processor submits for long for another process: the request ends on time, but its task waits."""
    large = Process(flow=1, synchronous=True, block_sizes=(((1 << 20, 100),),) * 2)
    reader = dataclasses.replace(READER, think_ns=300_000)
    costs = {"submit_kib": 1_000, "complete": 2_000, "wake": 500}
    outcome = run(reader, large, costs=costs, drive={**DRIVE, "trimmed_percent": 100})
    block = reads(outcome).block.values_ns
    assert max(block) < 2 * 22_000
    assert reads(outcome).latency.max_ns > 900_000
    assert outcome.idle < 0.1


def test_computing_gives_way() -> None:
    """A reader on the processor of a computing process has the latency of a reader alone; computing continues
    later.
    """
    costs = {"submit": 1_000, "complete": 2_000, "wake": 500}
    compute = Process(
        flow=1, synchronous=True, think_ns=10**6, think_spin_ns=10**6, ios_max=20, ramp_ns=1, seed=9
    )
    reader = dataclasses.replace(READER, ends_all=False, offset=0, size=4096 * 8)
    both = run(reader, compute, compute, costs=costs, drive={**DRIVE, "read_ns": 0})
    assert reads(both).latency.mean_ns == pytest.approx(23_500, abs=1_000)
    # The computing processes share the remaining time.
    assert both.now_ns == pytest.approx(2 * 20 * 10**6, rel=0.1)


def test_processes_have_their_processors() -> None:
    costs = {"submit": 40_000}
    one, other = (Process(flow=i, depth=4, runtime_ns=10**7) for i in range(2))
    there = [dataclasses.replace(p, cpu=1) for p in (one, other)]
    machine = {"cpus": 2}
    apart, together = (run(*where, costs=costs, machine=machine) for where in ((one, other), there))
    assert (apart.idle, together.idle) == pytest.approx((0, 0.5), abs=0.1)
    assert apart.ios == pytest.approx(2 * together.ios, rel=0.1)
    with pytest.raises(UsageError, match="cpus_allowed: there is no processor 2"):
        run(dataclasses.replace(one, cpu=2), machine=machine)


def test_processes_start_within_the_spread() -> None:
    """Each process starts at a random moment; without a spread, all start at once."""
    one = dataclasses.replace(READER, ios_max=1)
    starts = {
        run(dataclasses.replace(one, seed=seed), machine={"start_spread_ns": 10**6}).now_ns - 70_000
        for seed in range(1, 9)
    }
    assert len(starts) == 8
    assert 0 <= min(starts) < 400_000 < 600_000 < max(starts) <= 10**6
    assert run(one).now_ns == 70_000


def test_a_thinking_reader_waits_in_between() -> None:
    outcome = run(dataclasses.replace(READER, think_ns=930_000))
    assert outcome.now_ns == 100 * 1_000_000


def test_pauses_are_counted_in_completed_requests() -> None:
    """The first two are in flight together; what completed before a pause brings the next one forward."""
    outcome = run(dataclasses.replace(READER, synchronous=False, depth=2, ios_max=10, think_ns=10**6))
    assert outcome.now_ns == pytest.approx(9 * (1_000_000 + 70_000), abs=70_000)


def test_after_the_ramp_the_first_pause_comes_late() -> None:
    """fio sets the completed requests to 0, and compares them with those before the last pause."""
    thinker = dataclasses.replace(READER, ios_max=0, think_ns=930_000, ramp_ns=10**7, runtime_ns=10**7)
    # ten in the ramp, so eleven without a pause
    assert reads(run(thinker)).ios == pytest.approx(10 + 10, abs=1)


def test_at_its_end_a_process_reaps_all_at_once() -> None:
    """fio waits for all it has in flight: what completed before the last is as late as the last."""
    one_die = DRIVE | {"dies": 1, "read_fixed_ns": 0, "read_ns": 70_000}
    latency = reads(run(Process(depth=9, ios_max=8, ends_all=True), drive=one_die)).latency
    assert (latency.min_ns, latency.max_ns) == (8 * 70_000, 8 * 70_000)
    latency = reads(run(Process(depth=8, ios_max=80, ends_all=True), drive=one_die)).latency
    assert (latency.min_ns, latency.max_ns) == (70_000, 14 * 70_000)


def test_where_the_processor_is_the_limit_requests_wait_for_being_reaped() -> None:
    """fio reaps one request, submits the next, reaps again: rate times latency is the depth (Little)."""
    instant = DRIVE | {"read_ns": 0, "read_fixed_ns": 1_000}
    busy = Process(depth=64, ios_max=6_400, ends_all=True)
    outcome = run(busy, drive=instant, costs={"submit": 1_000, "complete": 1_000, "reap": 8_000})
    latency = reads(outcome).latency
    assert outcome.idle < 0.01
    assert latency.mean_ns * latency.n / outcome.now_ns == pytest.approx(63, abs=1)


def test_a_process_that_pauses_reaps_one_after_the_other() -> None:
    one_die = DRIVE | {"read_ns": 0, "read_fixed_ns": 70_000}
    pausing = Process(depth=4, think_ns=10**6, ios_max=4, ends_all=True)
    latency = reads(run(pausing, drive=one_die, costs={"reap": 1_000})).latency
    assert (latency.min_ns, latency.max_ns) == (70_000, 73_000)


def test_a_rate_is_kept_while_the_drive_is_fast_enough() -> None:
    slow = Process(depth=8, rate_bytes=(4096 * 1000, 0), runtime_ns=10**9)
    outcome = run(slow)
    assert reads(outcome).ios == pytest.approx(1000, abs=2)
    assert reads(outcome).latency.max_ns == 70_000


def test_submission_counts_for_a_latency_target() -> None:
    """fio compares the time since before the submission, though it reports the time since after it."""
    reader = Process(depth=4, target_ns=10**5, target_window_ns=10**6, runtime_ns=10**7)
    outcome = run(reader, costs={"submit": 50_000})
    assert (outcome.ios, reads(outcome).latency.max_ns) == (1, 70_000)


def test_a_rate_does_not_outlast_the_runtime() -> None:
    rare = Process(depth=8, rate_bytes=(4096, 0), runtime_ns=2_500_000_000)
    assert run(rare).now_ns == pytest.approx(2_500_000_000, abs=100_000)


@pytest.mark.parametrize("offload", [False, True])
@pytest.mark.parametrize(
    ("pause_ns", "end_ns"), [(1_500_000_000, 1_500_000_000), (5_300_000_000, 2_300_000_000)]
)
def test_who_sleeps_notices_its_end_after_a_nap(offload: bool, pause_ns: int, end_ns: int) -> None:
    """exitall sends no signal to a process that runs: it sleeps in naps of up to 2 s (usec_sleep)."""
    sleeper = Process(flow=1, synchronous=True, think_ns=pause_ns, ios_max=10)
    if offload:
        rate = 4096 * 10**9 // pause_ns
        sleeper = Process(flow=1, depth=4, rate_bytes=(rate, 0), offload=True, ios_max=10)
    ends_soon = dataclasses.replace(READER, ios_max=20_000)  # after 1.4 s
    assert run(ends_soon, sleeper).now_ns == pytest.approx(end_ns, rel=0.005)


def test_a_poisson_rate_has_its_mean() -> None:
    slow = Process(depth=8, rate_bytes=(4096 * 1000, 0), rate_poisson=True, runtime_ns=4 * 10**9)
    assert reads(run(slow)).ios == pytest.approx(4000, rel=0.1)


SYNC_WRITER = Process(synchronous=True, through=True, share=(0, 100), ios_max=100, ends_all=True)
FLUSHED = DRIVE | {"program_ns": 200_000, "flush_ns": 1_000_000}


@pytest.mark.parametrize("scheduler", ["none", "k2"])
@pytest.mark.parametrize(
    ("synchronous", "write_cache", "took_ns"),
    [(True, 0, 10_000), (True, 2, 1_200_000), (False, 0, 10_000), (False, 2, 200_000)],
    ids=["no cache", "a cache: FUA, then a flush", "asynchronous, no cache", "asynchronous: FUA only"],
)
def test_what_a_volatile_cache_costs_o_dsync(
    synchronous: bool, write_cache: int, took_ns: int, scheduler: str
) -> None:
    """Without a volatile cache the kernel drops FUA and flushes (submit_bio_noacct())."""
    writer = dataclasses.replace(SYNC_WRITER, synchronous=synchronous, ios_max=1)
    device = {"write_cache": write_cache}
    latency = run(writer, drive=FLUSHED, device=device, scheduler=scheduler).flows["f0"][1][1].latency
    assert (latency.min_ns, latency.max_ns) == (took_ns, took_ns)


@pytest.mark.parametrize("scheduler", ["none", "k2", "kyber"])
def test_flushes_that_wait_share_one(scheduler: str) -> None:
    """blk_kick_flush(). A drive of one tag loses none."""
    writers = [dataclasses.replace(SYNC_WRITER, ends_all=False, think_ns=i * 10**5) for i in range(6)]
    for tags, most in ((64, 300), (1, 600)):
        device = {"write_cache": 2, "depth": tags, "nr_requests": tags}
        outcome = run(*writers, drive=FLUSHED, device=device, scheduler=scheduler)
        assert (outcome.flows["f0"][1][1].ios, outcome.ios) == (600, 1200)
        assert 100 <= outcome.drive["commands"] - 600 <= most


def test_poisson_gaps_are_whole_microseconds() -> None:
    """fio cuts the mean gap, and each gap, down to whole microseconds: 6.67 us become 5.5 us here."""
    fast = Process(depth=64, rate_ios=(150_000, 0), rate_poisson=True, runtime_ns=10**9)
    instant = DRIVE | {"read_ns": 0, "read_fixed_ns": 1_000}
    assert reads(run(fast, drive=instant)).ios == pytest.approx(10**6 / 5.5, rel=0.02)
    with pytest.raises(UsageError, match="rate_process: poisson needs a rate of a request a second"):
        run(dataclasses.replace(fast, rate_ios=(0, 0), rate_bytes=(4095, 0)))


def test_the_ramp_is_not_counted() -> None:
    ramped = Process(depth=4, ramp_ns=10**8, runtime_ns=10**8)
    outcome = run(ramped)
    assert outcome.flows["f0"][0] == pytest.approx(10**8, rel=0.01)
    assert outcome.now_ns == pytest.approx(2 * 10**8, rel=0.01)
    assert reads(outcome).ios < outcome.ios


def test_a_bound_keeps_a_readers_wait_short() -> None:
    background = [Process(flow=1, depth=32) for _ in range(3)]
    urgent = dataclasses.replace(READER, ioprio=1 << 13, think_ns=1_000_000, ios_max=500)
    waits = [
        reads(run(urgent, *background, scheduler=name, knobs=knobs)).latency.mean_ns
        for name, knobs in (("k2", {"inflight_max": 4}), ("k2", {"inflight_max": 64}), ("none", {}))
    ]
    assert waits[0] < waits[1] < waits[2]


def test_a_trace_is_replayed_in_its_own_time() -> None:
    trace = tuple(TracedIo(i * 1_000_000, 0, i * 4096, 4096) for i in range(50))
    outcome = run(Process(depth=4, trace=trace))
    assert reads(outcome).ios == 50
    assert outcome.now_ns == 49 * 1_000_000 + 70_000


def test_a_late_trace_counts_from_its_schedule() -> None:
    """Requests are due twice as fast as the drive serves: each waits 35 us longer than the one before."""
    one_die = DRIVE | {"dies": 1, "read_fixed_ns": 0, "read_ns": 70_000}
    trace = tuple(TracedIo(i * 35_000, 0, 0, 4096) for i in range(20))
    latency = reads(run(Process(synchronous=True, trace=trace), drive=one_die)).latency
    assert latency.min_ns == 70_000
    assert latency.max_ns == pytest.approx(70_000 + 19 * 35_000)


def test_requests_larger_than_allowed_are_split() -> None:
    large = ((256 * 1024, 100),)
    outcome = run(
        dataclasses.replace(READER, block_sizes=(large, large)), device={"max_sectors_kb": 64}, scheduler="k2"
    )
    assert reads(outcome).ios == 100
    assert outcome.ios == 400


def test_a_request_has_1280_kib_at_most_unless_told_otherwise() -> None:
    drive = DRIVE | {"max_kib": 4096}
    large = dataclasses.replace(READER, block_sizes=(((4 << 20, 100),),) * 2, ios_max=10)
    assert run(large, drive=drive).ios == 10 * 4
    assert run(large, drive=drive, device={"max_sectors_kb": 4096}).ios == 10


@pytest.mark.parametrize("scheduler", ["none", "kyber"])
def test_a_queue_has_four_tags_at_least(scheduler: str) -> None:
    deep = Process(depth=64, runtime_ns=10**8, ends_all=True)
    outcomes = [run(deep, device={"nr_requests": n}, scheduler=scheduler) for n in (1, 4)]
    assert [outcome.drive["slots_used_max"] for outcome in outcomes] == [4, 4]


def test_the_background_is_split_and_real_time_is_not() -> None:
    large = ((256 * 1024, 100),)
    reader = dataclasses.replace(READER, block_sizes=(large, large))
    knobs = {"split_kib": 48}
    outcome = run(reader, scheduler="k2", knobs=knobs)
    assert (reads(outcome).ios, outcome.ios) == (100, 600)
    assert run(dataclasses.replace(reader, ioprio=1 << 13), scheduler="k2", knobs=knobs).ios == 100
    # first into what the drive takes: 100, 100 and 56 KiB, each in pieces
    capped = run(reader, device={"max_sectors_kb": 100}, scheduler="k2", knobs=knobs)
    assert capped.ios == 100 * (3 + 3 + 2)


def test_pieces_do_not_join_and_small_requests_do() -> None:
    """A stream of 4 KiB, whose requests may grow to 16 KiB, or not at all."""
    stream = Process(depth=64, sequential=True, ios_max=6400, ends_all=True)
    one_slot = DRIVE | {"slots": 1}
    whole, by_16, by_4 = (
        run(stream, drive=one_slot, scheduler="k2", knobs={"inflight_max": 1, "split_kib": kib}).ios
        for kib in (0, 16, 4)
    )
    assert whole < 1600 <= by_16 < 6400 == by_4


def test_on_a_drive_of_one_command_pieces_shorten_the_wait() -> None:
    large = ((512 * 1024, 100),)
    background = Process(flow=1, depth=4, block_sizes=(large, large))
    urgent = dataclasses.replace(READER, ioprio=1 << 13, think_ns=1_000_000)
    drive = DRIVE | {"slots": 1, "dies": 1}
    whole, pieces = (
        reads(
            run(urgent, background, drive=drive, scheduler="k2", knobs={"split_kib": kib, "inflight_max": 1})
        ).latency.max_ns
        for kib in (0, 4)
    )
    assert whole > 5_000_000
    assert pieces <= 2 * 70_000


def test_bytes_in_the_drive_are_bounded() -> None:
    deep = Process(depth=64, runtime_ns=10**8)
    for kib, most in ((0, 32), (16, 4), (4, 1), (1, 1)):
        outcome = run(deep, scheduler="k2", knobs={"inflight_kib_max": kib})
        assert outcome.drive["slots_used_max"] == most


@pytest.mark.parametrize(("scheduler", "knobs"), [("k2", {"rt_tags": 0}), ("none", {})])
def test_few_tags_hold_a_deep_queue_back(scheduler: str, knobs: dict[str, int]) -> None:
    deep = Process(depth=64, runtime_ns=10**8)
    few = run(deep, scheduler=scheduler, device={"nr_requests": 4}, knobs=knobs)
    assert few.drive["slots_used_max"] == 4


def test_tags_that_are_kept_free_are_found_at_once() -> None:
    """With two tags for all other tasks, a real-time reader meets two requests, however many wait for those
    tags.
    """
    urgent = dataclasses.replace(READER, ioprio=1 << 13, think_ns=1_000_000, ios_max=1000)
    crowd = [Process(flow=1, depth=32) for _ in range(3)]
    kept = {"knobs": {"rt_tags": 75}, "device": {"nr_requests": 8}}
    beside_crowd = reads(run(urgent, *crowd, scheduler="k2", **kept)).latency.mean_ns
    beside_two = reads(run(urgent, Process(flow=1, depth=2), scheduler="k2")).latency.mean_ns
    assert beside_crowd == pytest.approx(beside_two, rel=0.03)


def test_mq_deadline_waits_before_it_serves_a_lower_class() -> None:
    """A lower class is not served while a real-time request is in the drive; only a later run finds out."""
    background = [Process(flow=1, depth=32) for _ in range(3)]
    urgent = dataclasses.replace(READER, ioprio=1 << 13, think_ns=1_000_000, ios_max=300)
    deadline = run(urgent, *background, scheduler="mq-deadline")
    none = run(urgent, *background)
    assert 0 < reads(deadline, "f1").ios / deadline.now_ns < reads(none, "f1").ios / none.now_ns


@pytest.mark.parametrize("scheduler", ["k2", "mq-deadline", "kyber"])
def test_the_only_queue_runs_on_the_processor_that_asks_for_it(scheduler: str) -> None:
    """blk_mq_hctx_next_cpu(): WORK_CPU_UNBOUND is the present processor, whichever that is."""
    machine, drive, costs = {"cpus": 2}, DRIVE | {"queues": 1}, {"run": 10**4, "submit": 2 * 10**4}
    first, second = (
        run(
            Process(depth=32, runtime_ns=10**8, cpu=cpu),
            scheduler=scheduler,
            machine=machine,
            drive=drive,
            device={"depth": 2},
            costs=costs,
        )
        for cpu in range(2)
    )
    assert first == second


def test_a_delayed_run_is_for_the_present_processor_alone() -> None:
    """blk_mq_delay_run_hw_queues() with QUEUE_FLAG_SQ_SCHED: the other processors have nothing to do."""
    background = Process(flow=1, depth=32, cpu=0)
    urgent = dataclasses.replace(READER, ioprio=1 << 13, think_ns=1_000_000, ios_max=300, cpu=0)
    machine, drive, costs = {"cpus": 4}, DRIVE | {"queues": 4}, {"run": 10**6}
    outcome = run(urgent, background, scheduler="mq-deadline", machine=machine, drive=drive, costs=costs)
    assert outcome.idle > 0.95


def test_a_run_that_is_delayed_again_and_again_has_one_timer() -> None:
    """Each refusal once added a timer, among which the next event was sorted in."""
    large = ((64 * 1024, 100),)
    urgent = dataclasses.replace(READER, ioprio=1 << 13, think_ns=2_000_000, block_sizes=(large, large))
    background = Process(flow=1, depth=64, block_sizes=(large, large))
    outcome = run(urgent, background, scheduler="k2", knobs={"inflight_kib_max": 16, "split_kib": 4})
    assert outcome.events < 2.4 * outcome.ios


@pytest.mark.parametrize(("attachment", "inside"), [(0, 64), (1, 1), (2, 1), (3, 32)])
@pytest.mark.parametrize("scheduler", ["none", "mq-deadline", "k2"])
def test_a_driver_gives_the_drive_so_many_at_a_time(scheduler: str, attachment: int, inside: int) -> None:
    deep = Process(depth=64, runtime_ns=10**7)
    knobs = {"inflight_max": 64} if scheduler == "k2" else {}
    device = {"attachment": attachment, "nr_requests": 256}
    outcome = run(deep, scheduler=scheduler, knobs=knobs, device=device)
    assert outcome.drive["slots_used_max"] == inside


def test_what_the_driver_has_taken_is_not_overtaken() -> None:
    """Behind usb-storage a request waits for one other request.

    Behind eMMC's driver it also waits for the request that is prepared, and for the one that was chosen
    before the driver refused it.
    """
    urgent = dataclasses.replace(READER, ioprio=1 << 13, think_ns=1_000_000, ios_max=500)
    crowd = Process(flow=1, depth=32)
    worst = {}
    for attachment in (1, 2):
        device = {"attachment": attachment, "nr_requests": 256}
        scheduler = {"scheduler": "k2", "knobs": {"inflight_max": 64}}
        outcome = run(urgent, crowd, device=device, **scheduler)  # type: ignore[arg-type]
        worst[attachment] = reads(outcome).latency.max_ns
    service_ns = reads(run(READER, device={"attachment": 1})).latency.max_ns
    assert 1.5 * service_ns < worst[1] <= 2 * service_ns
    assert 3.5 * service_ns < worst[2] <= 4 * service_ns


@pytest.mark.parametrize(
    ("sizes", "numbers"),
    [((8192, 4096), (2, 2)), ((4096, 4096), (4, 2))],
    ids=["request size", "number of queues"],
)
def test_the_drive_serves_its_queues_in_turn(sizes: tuple[int, int], numbers: tuple[int, int]) -> None:
    """So that without a scheduler twice the size, or twice the queues, is twice the share."""
    processes = [
        Process(flow=i, depth=64, runtime_ns=10**9, block_sizes=(((size, 100),), ((size, 100),)))
        for i, (size, number) in enumerate(zip(sizes, numbers, strict=True))
        for _ in range(number)
    ]
    queues = len(processes)
    outcome = run(*processes, drive={**DRIVE, "queues": queues, "slots": 32}, machine={"cpus": queues})
    first, second = (reads(outcome, name).bytes for name in ("f0", "f1"))
    assert first == pytest.approx(2 * second, rel=0.02)


def test_cgroups_share_by_weight() -> None:
    """Shares do not depend on processes: two in one cgroup have one share; a cgroup without a weight
    has 100.
    """
    a, b = (
        Process(flow=i, depth=16, ramp_ns=2 * 10**8, runtime_ns=10**9, cgroup=f"tenants/{name}")
        for i, name in enumerate("ab")
    )
    drive = {**DRIVE, "queues": 3, "slots": 64, "dies": 16}

    def rates(weights: Mapping[str, int]) -> tuple[float, float]:
        knobs = {"d": 16, "t_kib": 45}
        outcome = run(
            a, b, b, drive=drive, machine={"cpus": 3}, scheduler="mqfq", knobs=knobs, weights=weights
        )
        first, second = (reads(outcome, name).bytes for name in ("f0", "f1"))
        return first, second

    first, second = rates({})
    assert first == pytest.approx(second, rel=0.01)
    first, second = rates({"tenants/b": 300})
    assert 3 * first == pytest.approx(second, rel=0.03)


def test_children_of_a_cgroup_share_its_weight() -> None:
    timed = Process(depth=16, ramp_ns=2 * 10**8, runtime_ns=10**9)
    children = [dataclasses.replace(timed, flow=i, cgroup=f"parent/{i}") for i in range(3)]
    other = dataclasses.replace(timed, flow=3, cgroup="other")
    outcome = run(
        *children,
        other,
        drive={**DRIVE, "queues": 4, "slots": 64, "dies": 16},
        machine={"cpus": 4},
        scheduler="mqfq",
        knobs={"d": 16, "t_kib": 45},
        weights={"parent": 200, "parent/2": 300},
    )
    rates = [reads(outcome, f"f{i}").bytes for i in range(4)]
    assert [rate / sum(rates) * 15 for rate in rates] == pytest.approx([2, 2, 6, 5], rel=0.03)


def test_a_watcher_sees_what_was_completed_and_changes_knobs() -> None:
    """One process reads, one writes; from 50 ms on a single request may be in the drive."""
    seen = []

    def watch(sample: Any) -> dict[str, int]:
        read, write = sample.completed
        seen.append((sample.now_ns, read.ios, read.ns, write.bytes))
        return {"inflight_max": 1} if sample.now_ns == 50_000_000 else {}

    load = Process(depth=4, runtime_ns=10**8, ends_all=True)
    told = Simulation(("f0", "f1"), (load, Process(flow=1, share=(0, 100), ios_max=8)), DRIVE, scheduler="k2")
    outcome = simulation.simulate(told, 10**7, watch)
    assert [now for now, *_ in seen] == [k * 10**7 for k in range(1, len(seen) + 1)]
    assert len(seen) >= 9
    assert seen[-1][3] == 8 * 4096
    counts = {now: (ios, ns) for now, ios, ns, _ in seen}
    before = counts[50_000_000][0] - counts[20_000_000][0]
    after = counts[90_000_000][0] - counts[60_000_000][0]
    assert after == pytest.approx(30_000 / 70, rel=0.02)  # one at a time takes 70 us
    assert before > 2 * after
    assert reads(outcome).ios >= counts[90_000_000][0]
    mean_ns = (counts[90_000_000][1] - counts[60_000_000][1]) / after
    assert mean_ns == pytest.approx(4 * 70_000, rel=0.02)


def test_what_a_watcher_does_wrong_is_told() -> None:
    told = Simulation(("f0",), (READER,), DRIVE, scheduler="k2")
    with pytest.raises(UsageError, match="k2 has no knob depth"):
        simulation.simulate(told, 10**6, lambda _: {"depth": 1})
    with pytest.raises(UsageError, match="every_ns: expected a time"):
        simulation.simulate(told, 0, lambda _: {})
    with pytest.raises(UsageError, match="check: expected no watcher"):
        simulation.simulate(dataclasses.replace(told, check=True), 10**6, lambda _: {})
    with pytest.raises(ZeroDivisionError):
        simulation.simulate(told, 10**6, lambda _: {"inflight_max": 1 // 0})


def test_the_same_seed_gives_the_same_result() -> None:
    loads = (Process(depth=8, runtime_ns=10**8, ends_all=True), Process(flow=1, depth=3, share=(40, 60)))
    assert run(*loads) == run(*loads)
    assert run(*loads) != run(*(dataclasses.replace(p, seed=99) for p in loads))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"scheduler": "cfq"}, "scheduler: expected one of none, "),
        ({"scheduler": "k2", "knobs": {"inflight": 8}}, "k2 has no knob inflight; expected inflight_max"),
        ({"scheduler": "k2", "knobs": {"inflight_max": 0}}, "inflight_max: expected 1 to 65535, got 0"),
        ({"scheduler": "k2", "knobs": {"split_kib": 6}}, "0 to 65536 in steps of 4, got 6"),
        ({"knobs": {"x": 1}}, "none has no knob x"),
        ({"drive": {"plates": 3}}, "drive: there is no parameter plates"),
        ({"drive": {"dies": 0}}, "drive: dies: expected 1 to 255"),
        ({"drive": {"unit_kib": 3}}, "unit_kib: expected a power of two"),
        ({"device": {"depth": 0}}, "depth: expected 1 to 10240"),
        ({"device": {"attachment": 4}}, "attachment: expected 0 to 3, got 4"),
        ({"machine": {"cpus": 0}}, "cpus: expected 1 to 64"),
        ({"drive": {"write_cache": 3}}, "write_cache: expected 0 to 2, got 3"),
    ],
)
def test_what_is_not_possible_is_refused_in_a_line(change: dict[str, object], words: str) -> None:
    given = Simulation(("f0",), (READER,), DRIVE)
    with pytest.raises(UsageError) as e:
        simulation.simulate(dataclasses.replace(given, **change))  # type: ignore[arg-type]
    assert words in str(e.value)
    assert "\n" not in str(e.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"depth": 0}, "iodepth"),
        ({"offset": 1 << 40}, "offset and size"),
        ({"block_sizes": (((1000, 100),), ((1000, 100),))}, "multiple of 512"),
        ({"block_sizes": (((4096, 60),), ((4096, 100),))}, "100 %"),
        ({"share": (50, 20)}, "rwmixread"),
        ({"ios_max": 0}, "nothing ends the simulation"),
        ({"flow": 1}, "flow: expected at least one process with 0"),
    ],
)
def test_impossible_processes_are_refused(change: dict[str, object], words: str) -> None:
    process = dataclasses.replace(READER, ends_all=False, **change)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=words):
        run(process)


def test_a_cache_without_fua_is_refused_with_o_dsync() -> None:
    device = {"write_cache": 1}
    with pytest.raises(UsageError, match="sync: a write cache without FUA is not modelled"):
        run(SYNC_WRITER, device=device)
    run(dataclasses.replace(SYNC_WRITER, share=(100, 0)), device=device)


def test_a_load_for_which_time_stands_still_is_refused() -> None:
    """A drive and processors that take no time would complete requests for ever before the limit comes."""
    drive = DRIVE | {"read_ns": 0, "read_fixed_ns": 0}
    endless = Simulation(("f0",), (Process(runtime_ns=10**9),), drive)
    with pytest.raises(UsageError, match="time stands still"):
        simulation.simulate(endless)


# --- laws -------------------------------------------------------------------------------------------------


@st.composite
def sections(draw: st.DrawFn, number: int, synchronous: bool) -> str:
    """A section of a fio job."""
    pattern = draw(st.sampled_from(["randread", "randwrite", "randrw", "read", "write", "rw"]))
    lines = [f"[job{number}]", f"rw={pattern}"]
    size = draw(st.sampled_from(["4k", "512", "64k", "12k", "4k,16k"]))
    lines.append(f"bs={size}")
    if synchronous:
        lines.append("ioengine=psync")
    else:
        lines += ["ioengine=libaio", f"iodepth={draw(st.integers(1, 40))}"]
    lines.append(f"numjobs={draw(st.integers(1, 3))}")
    if draw(st.booleans()):
        lines += [f"prioclass={draw(st.integers(1, 3))}", f"prio={draw(st.integers(0, 7))}"]
    if draw(st.booleans()):
        lines.append(f"thinktime={draw(st.integers(1, 3000))}us")
    if draw(st.booleans()):
        lines.append(f"rate_iops={draw(st.integers(100, 20000))}")
        if draw(st.booleans()):
            lines.append("rate_process=poisson")
    if "," in size or draw(st.booleans()):
        lines.append("norandommap")
    if draw(st.booleans()):
        lines.append(f"startdelay={draw(st.integers(0, 3000))}us")
    lines.append(f"number_ios={draw(st.integers(1, 150))}")
    return "\n".join(lines)


@st.composite
def jobs(draw: st.DrawFn) -> str:
    count = draw(st.integers(1, 4))
    parts = [draw(sections(i, draw(st.booleans()))) for i in range(count)]
    return "[global]\ndirect=1\nfilename=/dev/drive\n" + "\n".join(parts) + "\n"


drives = st.fixed_dictionaries(
    {
        "capacity_mib": st.just(16),
        "queues": st.integers(1, 4),
        "slots": st.sampled_from([1, 2, 32, 256]),
        "dies": st.integers(1, 9),
        "placement": st.integers(0, 2),
        "admission": st.integers(0, 1),
        "buffer_kib": st.sampled_from([64, 1024]),
        "trimmed_percent": st.sampled_from([0, 40]),
        "max_kib": st.sampled_from([16, 512]),
        "read_spread_percent": st.sampled_from([0, 30]),
        "read_ns": st.sampled_from([0, 56000]),
        "erase_kib": st.sampled_from([0, 512]),
        "transfer_ns": st.sampled_from([0, 200]),
    }
)
schedulers: st.SearchStrategy[tuple[str, dict[str, int]]] = st.one_of(
    st.tuples(st.just("none"), st.just({})),
    st.tuples(
        st.just("k2"),
        st.fixed_dictionaries(
            {
                "inflight_max": st.integers(1, 70) | st.just(AUTO),
                "inflight_kib_max": st.sampled_from([0, 0, 1, 16, 200]),
                "split_kib": st.sampled_from([0, 4, 12, 64]),
                "bound_when": st.integers(0, 1),
                "rt_target_us": st.sampled_from([0, 0, 200, 3000, AUTO]),
                "rt_target_percentile": st.integers(0, 1),
                "write_debt_kib_max": st.sampled_from([0, 0, 64, AUTO]),
                "be_floor_iops": st.sampled_from([0, 0, 10, 100, 100_000]),
                "rt_tags": st.integers(0, 90),
            }
        ),
    ),
    st.tuples(
        st.just("mq-deadline"),
        st.fixed_dictionaries({"fifo_batch": st.integers(1, 16), "read_expire": st.integers(0, 100)}),
    ),
    st.tuples(st.just("kyber"), st.fixed_dictionaries({"read_lat_nsec": st.sampled_from([2000, 2_000_000])})),
)
devices = st.fixed_dictionaries(
    {
        "depth": st.sampled_from([1, 4, 64, 1023]),
        "nr_requests": st.sampled_from([0, 2, 4, 8, 1023]),
        "merges": st.integers(0, 1),
        "attachment": st.sampled_from([0, 0, 0, 1, 2, 3]),
    }
)
costs = st.fixed_dictionaries(
    {name: st.sampled_from([0, 700, 5000]) for name in ("submit", "complete", "reap", "wake", "schedule")}
)


@pytest.mark.parametrize("when", [{"bound_when": 1}, {"rt_target_us": AUTO}])
def test_bounds_that_need_real_time_activity_are_checked_only_then(when: dict[str, int]) -> None:
    """The background has filled the drive when the reader comes."""
    reader = dataclasses.replace(READER, ioprio=1 << 13, start_ns=2_000_000)
    background = Process(flow=1, depth=32)
    run(reader, background, scheduler="k2", knobs={"inflight_max": 8, **when})


@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    job=jobs(),
    drive=drives,
    scheduler=schedulers,
    device=devices,
    cost=costs,
    cpus=st.integers(1, 4),
    seed=st.integers(1, 1 << 30),
)
def test_nothing_is_lost_and_no_law_is_broken(
    tmp_path: Path,
    job: str,
    drive: dict[str, int],
    scheduler: tuple[str, dict[str, int]],
    device: dict[str, int],
    cost: dict[str, int],
    cpus: int,
    seed: int,
) -> None:
    file = tmp_path / "failed.fio"
    file.write_text(job)
    parsed = fiojob.parse(file, derived=True)
    flows = tuple(s.name for s in parsed.sections)
    processes = workload.processes(parsed, flows, 16 << 20, seed)
    name, knobs = scheduler
    if "split_kib" in knobs:
        knobs["split_kib"] = min(knobs["split_kib"], drive["max_kib"])
    given = Simulation(flows, tuple(processes), drive, device, name, knobs, {"cpus": cpus}, cost, check=True)
    words = {k: "auto" if v == AUTO else v for k, v in knobs.items()}
    choices = {"bound_when": ("always", "active"), "rt_target_percentile": ("p99", "p99.9")}
    words |= {k: values[knobs[k]] for k, values in choices.items() if k in knobs}
    settings_words = [f"--knob {k}={v}" for k, v in words.items()]
    settings_words += [f"--set {k}={v}" for k, v in (drive | device | cost).items()]
    command = f"tailgate simulate {shlex.quote(str(file))} --scheduler {name} --machine ideal --cpus {cpus}"
    command += f" --seed {seed} --check"
    try:
        outcome = simulation.simulate(given)
    except simulation.BrokenSimulationError as e:
        pytest.fail(f"{e}\nreplay: {command} {' '.join(settings_words)}\n{job}")
    for process in processes:
        counted = sum(d.ios for d in outcome.flows[flows[process.flow]][1])
        alike = [p for p in processes if p.flow == process.flow]
        assert counted == sum(p.ios_max for p in alike), f"{command}\n{job}"


def test_the_tokens_of_kyber_are_told() -> None:
    """Reads miss their target, writes meet theirs with a fourth of it: their tokens are taken down to one."""
    reader = Process(depth=64, runtime_ns=3_000_000_000)
    writer = dataclasses.replace(reader, share=(0, 100))
    knobs = {"read_lat_nsec": 1, "write_lat_nsec": 10_000_000_000}
    told = run(reader, writer, scheduler="kyber", knobs=knobs).state
    assert told == {"read_tokens": 256, "write_tokens": 1}
    assert run(READER).state == {}


def test_what_knobs_find_is_told() -> None:
    """A drive of two dies needs few requests at a time, whatever waits. A knob that is set to a number is not
    reported.

    A search ends within 20 seconds. Until then the present value is reported.
    """
    few = DRIVE | {"dies": 2, "read_fixed_ns": 0}
    readers = [Process(depth=64, runtime_ns=20_000_000_000) for _ in range(2)]
    auto = 2**32 - 1  # KNOB_AUTO
    for knobs, least, most in (({"d": auto}, 2, 12), ({"t_kib": auto}, 4, 1 << 20)):
        (knob,) = knobs
        found = run(*readers, drive=few, scheduler="mqfq", knobs=knobs).found
        assert found.keys() == {knob}
        assert least <= found[knob] <= most
    assert run(READER, scheduler="mqfq", knobs={"d": 8}).found == {}
    assert run(READER).found == {}
