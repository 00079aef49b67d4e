# SPDX-License-Identifier: GPL-2.0-only
"""Job files as the simulator reads them: what is modelled, with which defaults, and what is refused."""

from pathlib import Path

import pytest
from tests.unit.refusal import refused

from tailgate.base.errors import UsageError
from tailgate.load import fiojob, workload
from tailgate.load.options import ALIASES
from tailgate.load.process import NO_FLOW, Process
from tailgate.load.traces import TracedIo

MIB = 1 << 20
CAPACITY = 4096 * MIB
GLOBAL = "[global]\nfilename=/dev/vflash0\ndirect=1\nnorandommap\n"


def read(tmp_path: Path, text: str, seed: int | None = None) -> list[Process]:
    path = tmp_path / "job.fio"
    path.write_text(text)
    job = fiojob.parse(path, derived=True)
    return workload.processes(job, [s.name for s in job.sections], CAPACITY, seed)


def one(tmp_path: Path, options: str) -> Process:
    [process] = read(tmp_path, f"{GLOBAL}[a]\n{options}\n")
    return process


def test_defaults_are_fios(tmp_path: Path) -> None:
    process = one(tmp_path, "")
    assert process == Process(
        synchronous=True,
        sequential=True,
        size=CAPACITY,
        bytes_max=CAPACITY,
        seed=workload.process_seed(1, 1),
    )


def test_processes_of_a_point(tmp_path: Path) -> None:
    common = "rw=randread\nbs=64k\nrandseed=7\nio_size=100t\n"
    parts = (
        f"[background]\nioengine=libaio\niodepth=32\nnumjobs=3\nramp_time=50000us\nrate=1048576\n{common}",
        f"[rt]\nioengine=psync\niodepth=9\nthinktime=2000us\nprioclass=1\nprio=3\nnumber_ios=400\nexitall=1\n"
        f"startdelay=50000us\nruntime=30000000us\nexec_prerun=cat /proc/stat\n{common}",
    )
    *background, rt = read(tmp_path, GLOBAL + "\n".join(parts))
    assert len(background) == 3
    for process in background:
        assert (process.flow, process.synchronous, process.depth) == (0, False, 32)
        assert process.ramp_ns == 50_000_000
        assert process.rate_bytes[0] == MIB
        assert process.block_sizes[0] == ((65536, 100),)
        assert (process.sequential, process.exhaustive, process.ends_all) == (False, False, True)
    assert (rt.flow, rt.synchronous, rt.depth) == (1, True, 1)
    assert rt.ioprio == 1 << 13 | 3
    assert (rt.think_ns, rt.start_ns, rt.runtime_ns) == (2_000_000, 50_000_000, 30_000_000_000)
    assert (rt.ios_max, rt.ends_all, rt.bytes_max) == (400, True, 100 << 40)
    assert len({p.seed for p in (*background, rt)}) == 4


def test_seed_replaces_the_jobs(tmp_path: Path) -> None:
    text = f"{GLOBAL}[a]\nrandseed=7\n"
    assert read(tmp_path, text, 9) == read(tmp_path, text.replace("7", "9"))
    assert read(tmp_path, text, 9) != read(tmp_path, text)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("rw=randwrite", {"share": (0, 100), "sequential": False}),
        ("rw=write", {"share": (0, 100), "sequential": True}),
        ("readwrite=rw", {"share": (50, 50), "sequential": True}),
        ("rw=randrw\nrwmixread=70", {"share": (70, 30), "sequential": False}),
        ("rw=randrw\nrwmixread=70\nrwmixwrite=80", {"share": (20, 80)}),
        ("bs=8k,32k", {"block_sizes": (((8192, 100),), ((32768, 100),))}),
        ("blocksize=8k", {"block_sizes": (((8192, 100),), ((8192, 100),))}),
        ("bs=,8k", {"block_sizes": (((4096, 100),), ((8192, 100),))}),
        ("bs=8k,", {"block_sizes": (((8192, 100),), ((4096, 100),))}),
        ("bssplit=4k/90:64k/10", {"block_sizes": (((4096, 90), (65536, 10)),) * 2}),
        ("bssplit=4k/50:64k/:128k/", {"block_sizes": (((4096, 50), (65536, 25), (131072, 25)),) * 2}),
        ("bssplit=4k/100,8k/100", {"block_sizes": (((4096, 100),), ((8192, 100),))}),
        ("rw=randread\nba=8k", {"align": 8192}),
        ("rw=randread\nblockalign=4k", {"align": 0}),
        ("rw=read\nba=8k", {"align": 0}),
        ("rw=randread\nnorandommap=0", {"exhaustive": True}),
        ("rw=randread\nnorandommap=0\nblockalign=8k", {"exhaustive": False}),
        ("rw=randread\nnorandommap=0\nrandom_distribution=zipf", {"exhaustive": False}),
        ("random_distribution=zipf:1.2", {"distribution": "zipf", "distribution_parameter": 1.2}),
        ("random_distribution=zipf", {"distribution": "zipf", "distribution_parameter": 1.1}),
        ("random_distribution=pareto:0.3", {"distribution": "pareto", "distribution_parameter": 0.3}),
        ("random_distribution=normal:10", {"distribution": "normal", "distribution_parameter": 10.0}),
        ("rate=1m", {"rate_bytes": (MIB, MIB)}),
        ("rate=1m,2m", {"rate_bytes": (MIB, 2 * MIB)}),
        ("rate=,2m", {"rate_bytes": (0, 2 * MIB)}),
        ("rate=2m,", {"rate_bytes": (2 * MIB, 0)}),
        ("rate_iops=500\nrate_process=poisson", {"rate_ios": (500, 500), "rate_poisson": True}),
        (
            "thinktime=1ms\nthinktime_spin=2ms\nthinktime_blocks=4",
            {"think_spin_ns": 10**6, "think_blocks": 4},
        ),
        ("offset=1g", {"offset": 1 << 30, "size": CAPACITY - (1 << 30), "bytes_max": CAPACITY - (1 << 30)}),
        ("size=1g", {"size": 1 << 30, "bytes_max": 1 << 30}),
        ("size=1g\nio_size=2g", {"size": 1 << 30, "bytes_max": 2 << 30}),
        ("filesize=1g\noffset=256m", {"offset": 256 * MIB, "size": 768 * MIB}),
        ("size=25%\noffset=50%", {"offset": 2048 * MIB, "size": 1024 * MIB}),
        ("bs=1m\noffset=33%", {"offset": 1352 * MIB}),  # 1351.68, to the next block
        ("time_based\nruntime=1s", {"bytes_max": 0, "runtime_ns": 10**9}),
        ("timeout=3", {"runtime_ns": 3 * 10**9}),
        ("number_ios=1k", {"ios_max": 1024}),
        ("prio=2", {"ioprio": 2 << 13 | 2}),
        ("prioclass=3", {"ioprio": 3 << 13}),
        ("sync=1", {"through": True}),
        ("sync=dsync", {"through": True}),
        ("sync=none", {"through": False}),
        ("ioengine=io_uring\niodepth=8", {"synchronous": False, "depth": 8}),
        ("ioengine=pvsync2", {"synchronous": True}),
        ("ioengine=io_uring_cmd\ncmd_type=nvme\nregisterfiles", {"passthrough": True, "synchronous": False}),
        ("ioengine=libblkio\nlibblkio_driver=io_uring\nlibblkio_path=/dev/vflash0", {"synchronous": False}),
        ("direct=0\nbuffered=0", {}),
        ("bs=64k ; a comment", {"block_sizes": (((65536, 100),),) * 2}),
        ("bs=64k # a comment; and more", {"block_sizes": (((65536, 100),),) * 2}),
        ("bsrange=4k-64k", {"block_sizes": (((4096, 100),),) * 2, "bytes_most": (65536, 65536)}),
        ("blocksize_range=4k-4k,8k-16k", {"bytes_most": (0, 16384)}),
        ("rw=read:-8k", {"step": -8192, "sequential": True}),
        ("rw=write:112k", {"step": 112 * 1024, "share": (0, 100)}),
        (
            "zonemode=strided\nzonesize=1m\nzoneskip=3m",
            {"strided_range": MIB, "strided_bytes": MIB, "strided_gap": 3 * MIB},
        ),
        (
            "zonemode=strided\nzonesize=8m\nzonerange=2m",
            {"strided_range": 2 * MIB, "strided_bytes": 8 * MIB, "strided_gap": 0},
        ),
        (
            "rw=randwrite\nzonemode=zbd\nzonesize=1m\nmax_open_zones=4",
            {"zone_bytes": MIB, "zones_open_most": 4, "strided_bytes": 0},
        ),
        (
            "random_distribution=zoned:50/5:30/15:20/\nsize=1g",
            {
                "distribution": "zoned",
                "zones": (((50, 0, 53687091), (30, 53687091, 214748364), (20, 214748364, 1 << 30)),) * 2,
            },
        ),
        (
            "random_distribution=zoned_abs:60/1g:40/1g",
            {"zones": (((60, 0, 1 << 30), (40, 1 << 30, 2 << 30)),) * 2},
        ),
        ("rw=randread\nrandom_generator=lfsr", {"exhaustive": True}),
        ("rw=randread\nnorandommap=0\nbssplit=4k/50:8k/50", {"exhaustive": True}),
        ("size=1m\nloops=3\nrandrepeat=0", {"loops": 3, "repeats": False, "bytes_max": MIB}),
        ("loops=3\ntime_based\nruntime=1", {"loops": 1}),
        ("verify=crc32c", {"verifies": False}),
        ("rw=write\nverify=crc32c\nnorandommap=0", {"verifies": True, "verify_backlog": 0}),
        ("rw=write\nverify=md5\nnorandommap=0\nverify_backlog=8", {"verify_backlog": 8, "verify_batch": 8}),
        ("rw=write\nverify=md5\nnorandommap=0\ndo_verify=0", {"verifies": False}),
        ("flow=8\nflow_id=3\nflow_sleep=100", {"balance_group": 3, "balance_weight": 8}),
        ("ratemin=1k\nratecycle=500", {"rate_least_bytes": (1024, 1024), "rate_cycle_ns": 5 * 10**8}),
        ("ioengine=libaio\nio_submit_mode=offload", {"offload": True}),
        (
            "ioengine=libaio\niodepth=8\nlatency_target=500\nlatency_window=1s\nlatency_percentile=99.9",
            {
                "target_ns": 500_000,
                "target_window_ns": 10**9,
                "target_percentile": 99.9,
                "target_stays": False,
            },
        ),
        ("exitall\nexit_what=stonewall", {"ends_all": True, "ends_what": "started"}),
        (
            "ioengine=libaio\ncmdprio_percentage=20,5\ncmdprio_class=2\ncmdprio=3",
            {"priorities": (((0, 20, 2 << 13 | 3),), ((0, 5, 2 << 13 | 3),))},
        ),
        ("ioengine=libaio\ncmdprio_percentage=20,0", {"priorities": (((0, 20, 1 << 13),), ())}),
        (
            "ioengine=io_uring\ncmdprio_bssplit=64k/25/1/1:64k/75/3/2:1m/0,4k/10\ncmdprio=5",
            {
                "priorities": (
                    ((65536, 25, 1 << 13 | 1), (65536, 75, 3 << 13 | 2)),
                    ((4096, 10, 1 << 13 | 5),),
                )
            },
        ),
        (
            "ioengine=libaio\ncmdprio_bssplit=1m/10/2/0/3",
            {"priorities": (((MIB, 10, 2 << 13 | 3 << 3),),) * 2},
        ),
        ("cgroup=noisy", {"cgroup": "noisy"}),
        ("cgroup=/tenants/a", {"cgroup": "tenants/a"}),
        ("cpus_allowed=8-10,2\ncpus_allowed_policy=split", {"cpu": 8}),
        ("name=x\ngroup_reporting\nthread\niomem_align=2m\nwrite_lat_log=x\niodepth_batch=1", {}),
    ],
)
def test_options(tmp_path: Path, options: str, expected: dict[str, object]) -> None:
    process = one(tmp_path, options)
    assert {key: getattr(process, key) for key in expected} == expected


def test_offset_increment_is_per_process(tmp_path: Path) -> None:
    found = read(tmp_path, f"{GLOBAL}[a]\nnumjobs=3\noffset=1m\noffset_increment=10%\nsize=1m\n")
    assert [p.offset for p in found] == [MIB + i * (CAPACITY // 10) for i in range(3)]


def test_processes_of_a_section_have_its_processors_in_turn(tmp_path: Path) -> None:
    found = read(tmp_path, f"{GLOBAL}[a]\nnumjobs=4\ncpus_allowed=8-9,2\n[b]\n")
    assert [p.cpu for p in found] == [8, 9, 2, 8, 2**32 - 1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("verify_async=4", "verify_async: not modelled by the simulator"),
        ("iodepth_batch=8", "iodepth_batch: the simulator models 1 only, got '8'"),
        ("thinktim=2ms", "thinktim: not modelled"),
        ("direct=0", "[a]: expected direct=1, as buffered I/O is not modelled"),
        ("buffered=1", "[a]: expected direct=1"),
        ("filename=/dev/a:/dev/b", "[a]: expected one filename="),
        ("rw=randread:8", "rw: expected read, write"),
        ("rw=trim", "rw: expected read, write"),
        ("rw=", "rw: expected read, write"),
        ("rwmixread=101\nrw=rw", "rwmixread: expected a whole number, 0 to 100"),
        ("bs=4000", "bs: expected a multiple of 512"),
        ("bs=0", "bs: expected a multiple of 512"),
        ("bs=-4k", "bs: expected a whole number"),
        ("bs=4kk", "bs: expected a whole number"),
        ("bssplit=4k/50:8k/40", "bssplit: expected sizes with percentages"),
        ("bssplit=4k/80:8k/40", "bssplit: expected sizes with percentages"),
        ("size=-5", "size: expected a whole number of bytes"),
        ("size=5g", "size: expected at least one block"),
        ("size=1k", "size: expected at least one block"),
        ("size=101%", "size: expected at most 100%"),
        ("offset=4g", "offset: expected a place within the drive"),
        ("filesize=5g", "filesize: expected a place within the drive"),
        ("iodepth=0", "iodepth: expected a whole number, 1 to 65535"),
        ("numjobs=x", "numjobs: expected a whole number, 1 to 4096"),
        ("thinktime=2 bananas", "thinktime: expected a whole number with us"),
        ("rate=1m\nrate_iops=5", "rate: expected either rate or rate_iops"),
        ("rate_process=bursty", "rate_process: expected linear or poisson"),
        ("random_distribution=zoned:60/10", "random_distribution: expected random, zipf"),
        ("random_distribution=zipf:1", "random_distribution: expected zipf other than 0 and 1"),
        (
            "ioengine=mmap",
            "ioengine: expected one of io_uring, io_uring_cmd, libaio, posixaio, psync, pvsync, pvsync2, "
            "sync, vsync, or libblkio with libblkio_driver=io_uring, which use the kernel's block layer",
        ),
        ("ioengine=vsync\niodepth=4", "iodepth: expected 1 with vsync"),
        ("cpus_allowed=4-2", "cpus_allowed: expected processors such as 0,2 or 8-31"),
        ("ioengine=libblkio\nlibblkio_driver=nvme-io_uring", "[a]: expected libblkio_driver=io_uring"),
        ("cmdprio_percentage=5", "cmdprio_percentage: psync does not have it; expected libaio or io_uring"),
        ("ioengine=libaio\ncmdprio_percentage=101", "cmdprio_percentage: expected 0 to 100"),
        ("ioengine=libaio\ncmdprio_class=4", "cmdprio_class: expected 0 to 3"),
        ("ioengine=libaio\ncmdprio_bssplit=4k/60:4k/60", "cmdprio_bssplit: expected at most 100 percent"),
        ("ioengine=libaio\ncmdprio_bssplit=4k/60/1", "cmdprio_bssplit: expected size/percent"),
        ("ioengine=libaio\ncmdprio_percentage=1\ncmdprio_bssplit=4k/1", "cmdprio_bssplit: expected either"),
        ("bsrange=64k-4k", "bsrange: expected two sizes"),
        ("bsrange=4k", "bsrange: expected two sizes"),
        ("rw=read:100", "rw: expected a step of whole sectors"),
        ("zonemode=strided", "[a]: zonemode: expected a zonesize"),
        ("zonesize=1m", "zonesize: expected a zonemode with it"),
        ("zonemode=strided\nzonesize=1m\nzoneskip=100", "zoneskip: expected whole sectors"),
        ("zonesize=1m\nzonemode=zbd", "zonemode: expected writes of one size with zbd"),
        ("rw=write\nzonemode=zbd\nzonesize=6k", "[a]: expected a zonesize of whole blocks"),
        (
            "rw=randread\nnorandommap=0\nrandom_distribution=zoned:100/100",
            "random_distribution: expected noran",
        ),
        ("random_distribution=zoned_abs:100/5g", "random_distribution: expected random, zipf"),
        ("loops=0", "loops: expected a whole number, 1 to"),
        ("number_ios=4\nloops=2", "loops: expected no number_ios with it"),
        ("rw=write\nverify=md5", "verify: expected none of time_based, norandommap"),
        ("nrfiles=4", "nrfiles: the simulator models 1 only"),
        ("io_submit_mode=offload", "io_submit_mode: expected an asynchronous engine"),
        ("latency_target=500", "latency_target: expected an asynchronous engine"),
        ("wait_for=b", "wait_for: expected the name of a section before"),
        ("exit_what=none", "exit_what: expected group, stonewall or all"),
        ("filename=/dev/null", "filename: expected a drive or a file"),
        ("prio=8", "prio: expected a whole number, 0 to 7"),
        ("prioclass=4", "prioclass: expected a whole number, 0 to 3"),
        ("sync=yes", "sync: expected none, sync or dsync"),
        ("norandommap=2", "norandommap: expected 0 or 1"),
        ("rw=randread\nba=4k,8k\nrw=randrw", "blockalign: expected one value"),
        (
            "rw=randread\nba=512\nbssplit=4k/50:8k/50\nrandom_generator=lfsr",
            "random_generator: expected another one where",
        ),
        ("time_based", "time_based: expected a runtime"),
        ("time_based\nruntime=1\nnumber_ios=5", "time_based: fio ignores number_ios"),
        ("read_iolog=no.log", "read_iolog: expected a readable trace beside the job file"),
    ],
)
def test_refused_with_file_and_line(tmp_path: Path, options: str, message: str) -> None:
    lines = [*GLOBAL.splitlines(), "", *options.splitlines()]
    names = [line.partition("=")[0] for line in lines]
    at = [n for n, name in enumerate(names, 1) if ALIASES.get(name, name) == message.partition(":")[0]]
    with refused(f"{tmp_path / 'job.fio'}:{at[-1] if at else ''}", message):
        one(tmp_path, options)


def test_files_are_regions_one_after_the_other(tmp_path: Path) -> None:
    """Each process has a file of its own, unless it is named; one without a size fills the drive."""
    text = "[global]\ndirect=1\ndirectory=/mnt\n[a]\nsize=1500k\nnumjobs=2\n[named]\nfilename=x\nsize=8m\n"
    text += "[more]\nfilename=x\noffset=8m\nsize=4m\n[all]\nfilename=y\nfill_device=1\n"
    found = read(tmp_path, text)
    assert [p.offset // MIB for p in found] == [0, 2, 4, 12, 16]
    assert [p.size for p in found] == [1500 << 10, 1500 << 10, 8 * MIB, 4 * MIB, CAPACITY - 16 * MIB]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[a]\nsize=3g\nnumjobs=2\n", ":4: size: expected files that fit the drive's"),
        ("[a]\nsize=50%\n", ":4: size: expected bytes, as it is of a file"),
        ("[a]\nfilename=x\nsize=1g\nfill_device=1\n", ":6: fill_device: expected no size with it"),
    ],
)
def test_files_that_have_no_place_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with refused(f"{tmp_path / 'job.fio'}{message}"):
        read(tmp_path, f"[global]\ndirect=1\n{text}")


def test_buffered_is_taken_for_direct_where_one_says_so(tmp_path: Path) -> None:
    path = tmp_path / "job.fio"
    path.write_text("[a]\nfilename=/dev/x\ndirect=0\n")
    job = fiojob.parse(path, derived=True)
    [process] = workload.processes(job, ["a"], CAPACITY, direct=True)
    assert process.size == CAPACITY


def test_stonewall_and_new_group_make_waves_and_groups(tmp_path: Path) -> None:
    text = "[a]\nstonewall\n[b]\nnew_group\nnumjobs=2\n[c]\nstonewall\n[d]\nwait_for=b\n"
    found = read(tmp_path, GLOBAL + text)
    assert [p.wave for p in found] == [1, 1, 1, 2, 2]
    assert [p.group for p in found] == [0, 1, 1, 2, 2]
    assert [p.after_flow for p in found] == [NO_FLOW] * 4 + [1]


def test_section_is_named_where_no_line_is_wrong(tmp_path: Path) -> None:
    for text, message in (
        ("[a]\nfilename=/dev/x\n", ":1: [a]: expected direct=1"),
        ("[a]\ndirect=1\n", ":1: [a]: expected a size, as fio does for a file of its own"),
        (
            "[a]\ndirect=1\nfilename=/dev/x\n[b]\ndirect=1\nfilename=/dev/y\n",
            ":6: filename: expected /dev/x, as there is one drive",
        ),
        (
            "[a]\ndirect=1\nfilename=x\n[b]\ndirect=1\nfilename=y\n",
            ":6: [b]: expected a size, only one file can fill the drive",
        ),
    ):
        with refused(f"{tmp_path / 'job.fio'}{message}"):
            read(tmp_path, text)


TRACE = """fio version 3 iolog
0 /dev/vflash0 add
0 /dev/vflash0 open
100 /dev/vflash0 read 0 4096
350 /dev/vflash0 write 1048576 65536

350 /dev/vflash0 read 8192 512
400 /dev/vflash0 close
"""


def test_trace(tmp_path: Path) -> None:
    (tmp_path / "t.log").write_text(TRACE)
    process = one(tmp_path, "read_iolog=t.log\nioengine=libaio\niodepth=64\nnumber_ios=2")
    # fio does not wait before the first time that is not 0.
    assert process.trace == (
        TracedIo(0, 0, 0, 4096),
        TracedIo(250_000, 1, MIB, 65536),
        TracedIo(250_000, 0, 8192, 512),
    )
    assert (process.bytes_max, process.ios_max, process.depth) == (0, 2, 64)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("version 3", "version 2", "t.log:1: expected the first line 'fio version 3 iolog'"),
        (
            "350 /dev/vflash0 write 1048576 65536",
            "350 /dev/vflash0 write 1048576",
            "t.log:5: expected 'time file action",
        ),
        (
            "350 /dev/vflash0 write 1048576 65536",
            "350 /dev/vflash0 trim 0 4096",
            "t.log:5: trim: not modelled",
        ),
        ("350 /dev/vflash0 write 1048576 65536", "350 /dev/vfl", "t.log:5: expected 'time file action"),
        ("350 /dev/vflash0 write", "50 /dev/vflash0 write", "t.log:5: expected a time of at least 100"),
        ("350 /dev/vflash0 write", "350 /dev/sda write", "t.log:5: /dev/sda: there is one drive"),
        ("1048576 65536", "1048577 65536", "t.log:5: expected whole sectors"),
        ("1048576 65536", "-1048576 65536", "t.log:5: expected an offset and a length in bytes"),
        ("1048576 65536", "4294967296 65536", "t.log:5: expected whole sectors within the drive's"),
    ],
)
def test_broken_trace_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in TRACE
    (tmp_path / "t.log").write_text(TRACE.replace(old, new))
    with refused(f"{tmp_path}/{message}"):
        one(tmp_path, "read_iolog=t.log")


def test_trace_excludes_what_is_not_modelled_with_it(tmp_path: Path) -> None:
    (tmp_path / "t.log").write_text(TRACE)
    with pytest.raises(UsageError, match="rate_iops: not modelled together with read_iolog"):
        one(tmp_path, "read_iolog=t.log\nrate_iops=5")
