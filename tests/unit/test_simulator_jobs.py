# SPDX-License-Identifier: GPL-2.0-only
"""Jobs of several parts in the simulator: order, loops, verification, balance, targets, priorities.

Where fio can run the same job without a drive (its engine null), it must count the same.
"""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tailgate.base.errors import UsageError
from tailgate.load import fiojob, workload
from tailgate.simulator import simulation
from tailgate.simulator.simulation import Outcome, Simulation

pytest.importorskip("tailgate_sim", reason="`make sim` builds it")

MIB = 1 << 20
DRIVE = {"capacity_mib": 64, "dies": 4, "read_ns": 50_000, "read_fixed_ns": 20_000, "erase_kib": 0}
SLOW = DRIVE | {"dies": 1, "read_fixed_ns": 0}


def job(
    tmp_path: Path,
    text: str,
    drive: dict[str, int] = DRIVE,
    scheduler: str = "none",
    knobs: dict[str, int] | None = None,
    limit_ns: int = 0,
) -> Outcome:
    """What comes of a job, all rules checked."""
    path = tmp_path / "job.fio"
    path.write_text(text)
    parsed = fiojob.parse(path, derived=True)
    flows = tuple(section.name for section in parsed.sections)
    processes = tuple(workload.processes(parsed, flows, drive["capacity_mib"] * MIB))
    told = Simulation(
        flows, processes, drive, scheduler=scheduler, knobs=knobs or {}, limit_ns=limit_ns, check=True
    )
    return simulation.simulate(told)


def counts(outcome: Outcome) -> dict[str, tuple[int, int]]:
    return {name: (reads.ios, writes.ios) for name, (_, (reads, writes)) in outcome.flows.items()}


GLOBAL = "[global]\ndirect=1\nfilename=/dev/drive\nnorandommap\n"

#: Jobs whose counts of reads and writes depend on no time.
COUNTED = {
    "stonewall": "[a]\nrw=randread\nbs=8k\nsize=1m\n[b]\nstonewall\nnumjobs=2\nsize=2m\n[c]\nsize=1m\n",
    "wait_for": "[a]\nsize=1m\n[b]\nwait_for=a\nsize=1m\nbs=16k\n[c]\nsize=512k\n",
    "loops": "[a]\nrw=randread\nnorandommap=0\nsize=256k\nloops=5\n[b]\nsize=1m\nio_size=512k\nloops=3\n",
    "backwards": "[a]\nrw=read:-8k\nsize=1m\n",
    "holes": "[a]\nrw=write:28k\nsize=1m\nio_size=128k\n",
    "strided": "[a]\nsize=16m\nzonemode=strided\nzonesize=256k\nzoneskip=768k\n",
    "strided in a range": "[a]\nsize=16m\nzonemode=strided\nzonesize=1m\nzonerange=256k\nzoneskip=256k\n",
    "each block once": "[a]\nrw=randread\nnorandommap=0\nbs=64k\nsize=4m\n",
    "number of files": "[a]\nfilename=x\nrw=write\nsize=2m\nnumjobs=3\nbs=128k\n",
}


@pytest.mark.skipif(not shutil.which("fio"), reason="fio: `setup/host.sh demo` installs it")
@pytest.mark.parametrize("name", COUNTED)
def test_fio_counts_the_same(name: str, tmp_path: Path) -> None:
    text = GLOBAL + "size=64m\n" + COUNTED[name]
    ours = counts(job(tmp_path, text))
    file = tmp_path / "fios.fio"
    file.write_text(
        text.replace("direct=1", f"ioengine=null\nthread\ndirectory={tmp_path}").replace("/dev/", "")
    )
    command = ["fio", "--output-format=json", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    theirs: dict[str, tuple[int, int]] = {}
    for one in json.loads(done.stdout)["jobs"]:
        read, write = theirs.get(one["jobname"], (0, 0))
        theirs[one["jobname"]] = (read + one["read"]["total_ios"], write + one["write"]["total_ios"])
    assert ours == theirs


def test_sections_run_one_after_the_other(tmp_path: Path) -> None:
    """Beside each other two readers of one die take twice as long each; behind a wall they are alone."""
    both = "[a]\nrw=randread\nsize=400k\n[b]\n{}\nrw=randread\nsize=400k\n"
    beside, behind, after = (
        job(tmp_path, GLOBAL + both.format(option), SLOW) for option in ("", "stonewall", "wait_for=a")
    )
    alone_ns = 100 * 50_000
    for outcome in (behind, after):
        assert outcome.now_ns == pytest.approx(2 * alone_ns, rel=0.01)
        assert [runtime for runtime, _ in outcome.flows.values()] == pytest.approx([alone_ns] * 2, rel=0.01)
    assert [runtime for runtime, _ in beside.flows.values()] == pytest.approx([2 * alone_ns] * 2, rel=0.02)


@pytest.mark.parametrize(("what", "later"), [("group", 100), ("stonewall", 100), ("all", 0)])
def test_exit_what_says_whom_exitall_ends(what: str, later: int, tmp_path: Path) -> None:
    text = f"{GLOBAL}rw=randread\n[first]\nnumber_ios=50\nexitall\nexit_what={what}\n[beside]\nnew_group\n"
    text += "size=2m\n[last]\nstonewall\nsize=400k\n"
    found = counts(job(tmp_path, text))
    assert found["first"] == (50, 0)
    assert found["last"] == (later, 0)
    assert (found["beside"][0] < 100) == (what != "group")


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    text = "[global]\ndirect=1\nfilename=/dev/drive\nsize=1m\nrw={}\nverify=md5\n[a]\n"
    for pattern in ("write", "randwrite"):
        assert counts(job(tmp_path, text.format(pattern)))["a"] == (256, 256)
        assert counts(job(tmp_path, text.format(pattern) + "verify_backlog=16\n"))["a"] == (256, 256)
        assert counts(job(tmp_path, text.format(pattern) + "do_verify=0\n"))["a"] == (0, 256)
    assert counts(job(tmp_path, text.format("write") + "number_ios=40\nloops=1\n"))["a"] == (40, 40)
    assert counts(job(tmp_path, text.format("read")))["a"] == (256, 0)


def test_sizes_of_a_range_are_uniform(tmp_path: Path) -> None:
    text = f"{GLOBAL}[a]\nrw=randread\nbsrange=4k-64k\nnumber_ios=8000\n"
    [(_, (reads, _))] = job(tmp_path, text).flows.values()
    assert reads.bytes / reads.ios == pytest.approx((4096 + 65536) / 2, rel=0.02)


def test_blocks_of_several_sizes_are_visited_once(tmp_path: Path) -> None:
    """A pass covers all of it; requests that meet a visited block are shortened."""
    text = GLOBAL.replace("norandommap\n", "") + "[a]\nrw=randread\nbssplit=4k/50:32k/50\nsize=4m\n"
    [(_, (reads, _))] = job(tmp_path, text).flows.values()
    assert reads.bytes == 4 * MIB
    assert 4 * MIB / 32768 < reads.ios < 4 * MIB / 4096


def test_zones_have_their_shares(tmp_path: Path) -> None:
    """90 % of the reads go to 1 % of the file, which is one block: its die is busy with them all the time."""
    text = (
        f"{GLOBAL}[a]\nrw=randread\nioengine=libaio\niodepth=16\nnumber_ios=4000\nsize=400k\nio_size=100m\n"
    )
    hot = f"{text}random_distribution=zoned:90/1:10/99\n"
    even, uneven = (job(tmp_path, t, DRIVE | {"placement": 1}).now_ns for t in (text, hot))
    assert uneven == pytest.approx(0.9 * 4000 * DRIVE["read_ns"], rel=0.05)
    assert even < 0.5 * uneven


def test_exitall_in_one_section_holds_for_all(tmp_path: Path) -> None:
    """Whichever ends first ends the others, as in fio."""
    found = counts(job(tmp_path, GLOBAL + "rw=randread\n[a]\nnumber_ios=500\nexitall\n[b]\nnumber_ios=50\n"))
    assert found["b"] == (50, 0)
    assert found["a"][0] < 200


def test_exitall_ends_those_that_wait_for_their_share(tmp_path: Path) -> None:
    found = counts(
        job(
            tmp_path,
            GLOBAL
            + "rw=randread\n[a]\nflow=2\nnumber_ios=50\nexitall\n[b]\nflow=1\nruntime=5\n[c]\nflow=1\n",
        )
    )
    assert found["a"] == (50, 0)
    assert found["b"][0] + found["c"][0] == pytest.approx(50, abs=3)


def test_the_runtime_of_a_process_that_waits_for_its_share_ends(tmp_path: Path) -> None:
    text = "[a]\nflow=1\nruntime=100ms\ntime_based\n[b]\nflow=1\nthinktime=300ms\nnumber_ios=3\n"
    outcome = job(tmp_path, GLOBAL + "rw=randread\n" + text)
    assert outcome.flows["a"][0] == pytest.approx(1e8, rel=0.01)
    assert counts(outcome)["b"] == (3, 0)


def test_one_event_ends_all_waits_for_a_share(tmp_path: Path) -> None:
    """Each wait once had an event at the end of the runtime, among which the next one was sorted in."""
    text = GLOBAL + "rw=randread\nruntime=1\ntime_based\n[a]\nflow=1\n[b]\nflow=8\n"
    outcome = job(tmp_path, text, SLOW)
    assert outcome.events < 3 * outcome.ios


def test_flow_balances_by_weight(tmp_path: Path) -> None:
    balanced = GLOBAL + "rw=randread\nruntime=1\ntime_based\n[a]\nflow=1\n[b]\nflow=8\n"
    found = counts(job(tmp_path, balanced))
    assert found["b"][0] == pytest.approx(8 * found["a"][0], rel=0.01)
    slept = counts(job(tmp_path, balanced.replace("[a]", "flow_sleep=1000\n[a]")))
    assert slept["b"][0] == pytest.approx(8 * slept["a"][0], rel=0.05)
    apart = counts(job(tmp_path, balanced.replace("flow=8", "flow=8\nflow_id=1")))
    assert apart["b"][0] < 2 * apart["a"][0]


def test_offload_submits_whatever_is_in_flight(tmp_path: Path) -> None:
    """Random arrivals at one die are a queue M/D/1: at three quarters of its rate the wait is 75 us."""
    text = f"{GLOBAL}[a]\nrw=randread\nioengine=libaio\niodepth=256\nrate_iops=15000\nrate_process=poisson\n"
    text += "time_based\nruntime=4\n"
    inline, offload = (
        job(tmp_path, f"{text}io_submit_mode={mode}\n", SLOW).flows["a"][1][0]
        for mode in ("inline", "offload")
    )
    assert offload.latency.mean_ns == pytest.approx(125_000, rel=0.1)
    assert inline.latency.mean_ns != pytest.approx(125_000, rel=0.1)


def test_a_latency_target_finds_the_depth(tmp_path: Path) -> None:
    """One die of 50 us: 8 in flight take 400 us, so that 450 us allow 8 or 9 of 32."""
    text = f"{GLOBAL}[a]\nrw=randread\nioengine=libaio\niodepth=32\nlatency_window=20ms\nlatency_target=450\n"
    outcome = job(tmp_path, text + "latency_percentile=99\n", SLOW)
    [(_, (reads, _))] = outcome.flows.values()
    assert 350_000 <= reads.latency.mean_ns <= 450_000
    assert outcome.ios > reads.ios


def test_a_latency_target_that_one_request_misses_ends_the_job(tmp_path: Path) -> None:
    text = f"{GLOBAL}[a]\nrw=randread\nioengine=libaio\niodepth=8\nlatency_window=1ms\nlatency_target=40\n"
    assert job(tmp_path, text + "runtime=1\ntime_based\n", SLOW).ios == 1
    # with a percentile only the end of a window decides, and not with one in flight
    assert job(tmp_path, text + "runtime=1\ntime_based\nlatency_percentile=90\n", SLOW).ios == 20_000


def test_a_latency_target_is_searched_after_the_ramp(tmp_path: Path) -> None:
    text = f"{GLOBAL}[a]\nrw=randread\nioengine=libaio\niodepth=32\nlatency_window=20ms\nlatency_target=450\n"
    outcome = job(tmp_path, text + "latency_run=1\nramp_time=1\nruntime=10ms\ntime_based\n", SLOW)
    [(_, (reads, _))] = outcome.flows.values()
    assert reads.latency.max_ns == 50_000


def test_a_job_below_its_least_rate_ends(tmp_path: Path) -> None:
    text = f"{GLOBAL}[a]\nrw=randread\nruntime=10\ntime_based\nthinktime=10ms\nrate_iops_min={{}}\n"
    ended, lasted = (job(tmp_path, text.format(least)).now_ns for least in (1000, 10))
    assert 2 * 10**9 < ended < 4 * 10**9
    assert lasted == pytest.approx(10**10, rel=0.01)
    # two seconds after the ramp it begins
    ramped = job(tmp_path, text.format(1000) + "ramp_time=3\n").now_ns
    assert 5 * 10**9 < ramped < 7 * 10**9


def test_open_zones_are_written_in_order(tmp_path: Path) -> None:
    """What one zone has next to each other, a scheduler that lets one request go at a time can merge."""
    text = f"{GLOBAL}[a]\nrw=randwrite\nioengine=libaio\niodepth=16\nio_size=8m\n"
    zones = f"{text}zonemode=zbd\nzonesize=1m\nmax_open_zones=1\n"
    anywhere, in_order = (job(tmp_path, t, scheduler="k2", knobs={"inflight_max": 1}) for t in (text, zones))
    assert counts(anywhere)["a"] == counts(in_order)["a"] == (0, 2048)
    assert anywhere.drive["commands"] > 2000
    assert in_order.drive["commands"] < 2048 / 4


def test_zones_of_jobs(tmp_path: Path) -> None:
    """Each job writes its own part of the drive, and all have zones of one size."""
    empty = DRIVE | {"trimmed_percent": 100}
    job_of = "[{}]\nrw=randwrite\nzonemode=zbd\nzonesize=1m\nmax_open_zones=1\nsize=8m\nstonewall\n"
    first = GLOBAL + job_of.format("first") + "number_ios=1\n"
    second = job_of.format("second") + "offset=32m\nnumber_ios=256\n"
    read = "[read]\nrw=read\noffset=32m\nsize=8m\nstonewall\n"
    assert job(tmp_path, first + second + read, empty).drive["die_reads"] == 256
    with pytest.raises(UsageError, match="zonesize: expected the same for all jobs, got 1048576 and 2097152"):
        job(tmp_path, first + second.replace("zonesize=1m", "zonesize=2m"), empty)


def test_a_step_back_beyond_the_begin_stays_within_the_area(tmp_path: Path) -> None:
    outcome = job(tmp_path, f"{GLOBAL}[a]\nrw=read:-12k\nbs=4k\nsize=8k\nio_size=80k\n")
    assert counts(outcome)["a"] == (20, 0)


def test_a_flush_waits_for_no_limit_on_tags(tmp_path: Path) -> None:
    """The block layer asks no scheduler for its tag, so a flush costs little beside the write before it."""
    others = "[others]\nrw=randread\nnumjobs=300\nruntime=4\ntime_based\n"
    writer = "[writer]\nrw=randwrite\nruntime=4\ntime_based\n"
    plain, synchronous = (
        counts(job(tmp_path, GLOBAL + others + writer + more, SLOW | {"write_cache": 2}, "k2"))["writer"][1]
        for more in ("", "sync=dsync\n")
    )
    assert synchronous > 0.75 * plain


def test_a_job_that_did_not_begin_has_no_runtime(tmp_path: Path) -> None:
    first = f"{GLOBAL}[a]\nrw=randread\nruntime=2\ntime_based\n"
    second = "[b]\nrw=randread\nruntime=2\ntime_based\nstonewall\n"
    outcome = job(tmp_path, first + second, limit_ns=10**9)
    assert [runtime_ns for runtime_ns, _ in outcome.flows.values()] == [10**9, 0]


def test_priorities_of_requests(tmp_path: Path) -> None:
    """K2 serves the real-time share first, at its own latency; without a scheduler all wait alike."""
    text = f"{GLOBAL}[a]\nrw=randread\nioengine=libaio\niodepth=32\nnumber_ios=8000\ncmdprio_percentage=10\n"
    ours, none = (
        job(tmp_path, text, scheduler=name, knobs=knobs).flows["a"][1][0]
        for name, knobs in (("k2", {"inflight_max": 4}), ("none", {}))
    )
    for reads in (ours, none):
        assert list(reads.priorities) == [0, 1 << 13]
        assert sum(latency.n for latency in reads.priorities.values()) == reads.ios
        assert reads.priorities[1 << 13].n == pytest.approx(800, rel=0.15)
    rest, urgent = (ours.priorities[p].mean_ns for p in (0, 1 << 13))
    assert urgent < 0.5 * rest
    rest, urgent = (none.priorities[p].mean_ns for p in (0, 1 << 13))
    assert urgent == pytest.approx(rest, rel=0.1)


def test_priorities_change_no_place_of_a_request(tmp_path: Path) -> None:
    """They are drawn with numbers of their own; a direction without them has none."""
    text = f"{GLOBAL}[a]\nrw=randrw\nioengine=libaio\niodepth=8\nnumber_ios=500\n"
    plain = job(tmp_path, text)
    with_priorities = job(tmp_path, f"{text}cmdprio_bssplit=4k/30/1/2,4k/50/3/0\n")
    assert plain.now_ns == with_priorities.now_ns
    assert counts(plain) == counts(with_priorities)
    reads_only = job(tmp_path, f"{text}cmdprio_percentage=50,0\n")
    found = [
        [sorted(direction.priorities) for direction in outcome.flows["a"][1]]
        for outcome in (plain, with_priorities, reads_only)
    ]
    assert found == [[[], []], [[0, 1 << 13 | 2], [0, 3 << 13]], [[0, 1 << 13], []]]


def test_a_passthrough_meets_no_scheduler(tmp_path: Path) -> None:
    text = f"{GLOBAL}[a]\nioengine=io_uring_cmd\niodepth=4\nsize=1m\n"
    assert counts(job(tmp_path, text))["a"] == (256, 0)
    with pytest.raises(UsageError, match="no scheduler sees what io_uring_cmd sends"):
        job(tmp_path, text, scheduler="k2")
