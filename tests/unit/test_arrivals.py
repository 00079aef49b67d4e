# SPDX-License-Identifier: GPL-2.0-only
"""Arrivals that are generated: their times, the traces that both targets replay, and fio itself with one."""

import itertools
import json
import random
import re
import shutil
import statistics
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.unit.programs import WATCHDOG_S
from tests.unit.refusal import refused

from tailgate.base import paths
from tailgate.load import arrivals, fiojob, workload
from tailgate.load.fiojob import JobFile
from tailgate.load.loads import Loads
from tailgate.load.traces import read_trace
from tailgate.spec import drive, experiment, plan
from tailgate.spec.arrivals import Arrivals
from tailgate.targets.resolve import resolve

PERIOD_US = 2_000
MIB = 1 << 20

JOB = """[global]
filename=/dev/vflash0
direct=1
rw=randread
[background]
ioengine=libaio
iodepth=4
[rt1]
ioengine=psync
numjobs=${PROCESSES}
bs=8k
[rt2]
ioengine=psync
rw=randwrite
"""


def made(kind: str, **parameters: Any) -> Arrivals:
    return Arrivals.model_validate({"kind": kind, "period_us": PERIOD_US} | parameters)


def times(spec: Arrivals, requests: int = 4_000, seed: int = 1) -> list[int]:
    found = arrivals.times_us(spec, PERIOD_US, requests, random.Random(seed))
    assert len(found) == requests
    assert found == sorted(found)
    assert found[0] >= 0
    return found


def gaps(found: list[int]) -> list[int]:
    return [b - a for a, b in itertools.pairwise(found)]


def test_by_the_clock() -> None:
    assert set(gaps(times(made("periodic")))) <= {PERIOD_US - 1, PERIOD_US, PERIOD_US + 1}


@pytest.mark.parametrize("percent", [5, 20, 50])
def test_jitter_is_around_a_grid_that_stays(percent: int) -> None:
    found = times(made("jitter", jitter_percent=percent))
    jitter = PERIOD_US * percent / 100
    off = [at - i * PERIOD_US for i, at in enumerate(found)]
    assert max(off) - min(off) == pytest.approx(2 * jitter, rel=0.02)
    assert statistics.pstdev(off) == pytest.approx(2 * jitter / 12**0.5, rel=0.05)
    assert statistics.fmean(off[:1000]) == pytest.approx(statistics.fmean(off[-1000:]), abs=jitter / 10)


def test_poisson() -> None:
    found = gaps(times(made("poisson")))
    assert statistics.fmean(found) == pytest.approx(PERIOD_US, rel=0.05)
    assert statistics.pstdev(found) == pytest.approx(PERIOD_US, rel=0.07)


def test_bursts_have_the_same_mean_rate() -> None:
    found = times(made("burst", burst=8))
    assert all(len(set(found[i : i + 8])) == 1 for i in range(0, len(found), 8))
    assert set(gaps(found[::8])) <= {8 * PERIOD_US - 1, 8 * PERIOD_US, 8 * PERIOD_US + 1}


def test_the_period_drifts() -> None:
    found = gaps(times(made("drift", drift_percent=10)))
    assert found[0] == pytest.approx(PERIOD_US, abs=2)
    assert found[len(found) // 2] == pytest.approx(PERIOD_US * 1.05, abs=3)
    assert found[-1] == pytest.approx(PERIOD_US * 1.1, abs=3)


def test_the_grid_jumps() -> None:
    found = gaps(times(made("reset", reset_every=100)))
    jumps = [gap for gap in found if gap > PERIOD_US + 1]
    assert 20 < len(jumps) < 70  # about one in 100
    assert all(PERIOD_US < gap < 2 * PERIOD_US + 2 for gap in jumps)
    assert set(found) - set(jumps) <= {PERIOD_US - 1, PERIOD_US, PERIOD_US + 1}


def read(tmp_path: Path, text: str = JOB, processes: int = 3) -> JobFile:
    file = tmp_path / "job.fio"
    file.write_text(text)
    return fiojob.parse(file, {"PROCESSES": str(processes)})


def traces(job: JobFile, name: str, seed: int = 1, requests: int = 30) -> list[str]:
    section = job.section(name, "the test")
    how = made("jitter", jitter_percent=20)
    return arrivals.traces(how, job, section, flow=0, requests=requests, capacity=64 * MIB, seed=seed)


def test_processes_take_the_requests_in_turn(tmp_path: Path) -> None:
    job = read(tmp_path)
    texts = traces(job, "rt1")
    found = [read_trace(tmp_path / "t", text.splitlines(), 64 * MIB) for text in texts]
    assert len(found) == 3
    in_turn = [io for turn in itertools.zip_longest(*found) for io in turn if io]
    assert len(in_turn) == 30 + 4
    assert [io.at_ns for io in in_turn] == sorted(io.at_ns for io in in_turn)
    assert {(io.direction, io.bytes) for io in in_turn} == {(0, 8192)}
    assert len({io.offset for io in in_turn}) > 25
    single = read_trace(tmp_path / "t", traces(read(tmp_path, processes=1), "rt1")[0].splitlines(), 64 * MIB)
    assert [io.at_ns for io in single] == [io.at_ns for io in in_turn][: len(single)]
    writes = read_trace(tmp_path / "t", traces(job, "rt2")[0].splitlines(), 64 * MIB)
    assert {(io.direction, io.bytes) for io in writes} == {(1, 4096)}


def test_other_names_of_options_count(tmp_path: Path) -> None:
    text = JOB.replace("bs=8k", "blocksize=8k\nreadwrite=randrw\nrwmixread=60\nrwmixwrite=100")
    found = traces(read(tmp_path, text), "rt1")
    ios = [io for one in found for io in read_trace(tmp_path / "t", one.splitlines(), 64 * MIB)]
    assert {(io.direction, io.bytes) for io in ios} == {(1, 8192)}


def test_seed_and_section_decide(tmp_path: Path) -> None:
    job = read(tmp_path)
    assert traces(job, "rt1") == traces(job, "rt1")
    assert traces(job, "rt1") != traces(job, "rt1", seed=2)
    first = [text.splitlines()[3].split()[0] for text in (traces(job, "rt1")[0], traces(job, "rt2")[0])]
    assert first[0] != first[1]  # a phase of its own


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("bs=8k", "thinktime=5", "job.fio:11: [rt1]: thinktime: expected none, as arrivals are generated"),
        ("bs=8k", "rate_iops=5", "job.fio:11: [rt1]: rate_iops: expected none"),
        ("bs=8k", "bs=8k,4k", "job.fio:11: [rt1]: bs: expected one size in whole sectors"),
        ("bs=8k", "bsrange=4k-64k", "job.fio:11: [rt1]: bsrange: expected none"),
        ("bs=8k", "random_distribution=zipf", "job.fio:11: [rt1]: random_distribution: expected none"),
        ("bs=8k", "fileoffset=1g", "job.fio:11: [rt1]: offset: expected none"),
        ("bs=8k", "bs=8k\nblocksize=100", "job.fio:12: [rt1]: bs: expected one size in whole sectors"),
        ("bs=8k", "rw=read", "job.fio:11: [rt1]: rw: expected randread, randwrite or randrw"),
        (
            "ioengine=psync\nnum",
            "ioengine=libaio\nnum",
            "job.fio:9: [rt1]: ioengine: expected psync, with numjobs",
        ),
    ],
)
def test_options_that_a_replay_excludes(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in JOB
    with refused(f"{tmp_path}/{message}"):
        traces(read(tmp_path, JOB.replace(old, new)), "rt1")


@pytest.mark.parametrize(
    ("new", "message"),
    [
        ('kind = "periodic", period_us = 0', ".period_us: expected greater than or equal to 1"),
        ('kind = "periodic"', ".period_us: missing"),
        ('kind = "often", period_us = 5', ".kind: expected 'periodic', 'jitter', 'poisson', 'burst'"),
        ('kind = "jitter", period_us = 5', ": kind jitter: expected jitter_percent with it"),
        (
            'kind = "drift", period_us = 5, drift_percent = 1, burst = 2',
            ": kind drift: expected no burst with it",
        ),
        (
            'kind = "jitter", period_us = 5, jitter_percent = 51',
            ".jitter_percent: expected less than or equal to 50",
        ),
        (
            'kind = "periodic", period_us = 5, bursts = 2',
            ".bursts: unknown key; expected burst, drift_percent",
        ),
    ],
)
def test_refused_in_one_line(tmp_path: Path, new: str, message: str) -> None:
    folder = paths.EXPERIMENTS / "k2"
    for name in ("arrivals.fio", "closed-loops.fio", "fig11.fio", "paper.csv"):
        shutil.copy(folder / name, tmp_path)
    old, text = 'kind = "periodic", period_us = 2000', (folder / "arrivals.toml").read_text()
    assert text.count(f"{{ {old} }}") == 1
    (tmp_path / "e.toml").write_text(text.replace(f"{{ {old} }}", f"{{ {new} }}"))
    with refused(f"{tmp_path}/e.toml: sweeps[0].arrivals{message}"):
        experiment.load(tmp_path / "e.toml")


# --- in an experiment ---------------------------------------------------------------------------------------


def loads(mode: experiment.ModeName = "quick", seeds: tuple[int, ...] = (1, 2)) -> Loads:
    path = experiment.find("k2/arrivals")
    run = resolve(path, mode, ["none", "ahead-auto"], seeds, loads=["jitter-20", "jitter-20-4", "poisson"])
    return Loads(run, path, drive.load("970evo")[1])


def test_every_scheduler_meets_the_same_arrivals() -> None:
    made = loads()
    chunks = plan.chunks(made.run)
    by_scheduler: dict[str, list[object]] = {}
    for chunk in chunks:
        by_scheduler.setdefault(chunk.scheduler.label, []).append(made.generated(chunk))
    assert by_scheduler["none"] == by_scheduler["ahead-auto"]
    assert len({str(g) for g in by_scheduler["none"]}) == 3 * 2  # loads and seeds
    four = next(c for c in chunks if c.sweep.label == "jitter-20-4")
    assert list(made.generated(four)) == ["rt1", "rt2", "rt3", "rt4"]
    last = {
        section: int(next(iter(of.values())).splitlines()[-1].split()[0])
        for section, of in made.generated(four).items()
    }
    assert last["rt1"] == min(last.values())  # it ends the point


def test_derived_job_names_its_traces_and_carries_them_dilated() -> None:
    made = loads()
    chunk = next(c for c in plan.chunks(made.run) if c.sweep.label == "poisson")
    for dilation in (1, 16):
        job = made.derive(chunk, 1.0, dilation)
        names = job.section("rt1", "the test").options["read_iolog"].value.split(":")
        assert len(names) == 8
        assert set(names) == set(job.traces) <= set(made.traces)
        for name in names:
            undilated = [int(line.split()[0]) for line in made.traces[name].splitlines()[1:]]
            told = [int(line.split()[0]) for line in job.traces[name].splitlines()[1:]]
            assert told == [dilation * us for us in undilated]
    flows = ("rt1", "background")
    processes = [p for p in workload.processes(made.derive(chunk, 1.0), flows, 4096 * MIB) if p.flow == 0]
    assert sum(len(p.trace) for p in processes) >= made.run.mode.rt_samples
    assert len({p.trace for p in processes}) == 8


def test_the_mode_decides_how_many() -> None:
    quick, full = loads(), loads("full")
    counts = []
    for made in (quick, full):
        chunk = next(c for c in plan.chunks(made.run) if c.sweep.label == "jitter-20")
        (text,) = made.generated(chunk)["rt1"].values()
        counts.append(text.count(" read "))
    assert counts == [quick.run.mode.rt_samples, full.run.mode.rt_samples]


# --- fio ----------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not shutil.which("fio"), reason="no fio on this host")
def test_fio_replays_in_order_and_not_early(tmp_path: Path) -> None:
    """A slow host makes fio late, but nothing makes it early. Times taken for ns would be early, times taken
    for ms would last for an hour, until the watchdog ends the test.
    """
    file = tmp_path / "file"
    file.write_bytes(bytes(4 * MIB))
    how = made("jitter", jitter_percent=50, period_us=100_000)
    text = JOB.replace("/dev/vflash0", str(file)).replace("direct=1\n", "")
    job = read(tmp_path, text, processes=2)
    section = job.section("rt1", "the test")
    texts = arrivals.traces(how, job, section, flow=0, requests=40, capacity=4 * MIB, seed=1)
    for i, one in enumerate(texts):
        (tmp_path / f"t{i}.log").write_text(one)
    (tmp_path / "replay.fio").write_text(
        f"[rt1]\nioengine=psync\nnumjobs=2\nrw=randread\nfilename={file}\n"
        "read_iolog=t0.log:t1.log\nwrite_lat_log=x\nlog_offset=1\n"
    )
    done = subprocess.run(
        ["fio", "--output-format=json", "replay.fio"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=WATCHDOG_S,
    )
    assert sum(j["read"]["total_ios"] for j in json.loads(done.stdout)["jobs"]) == 42
    for i, one in enumerate(texts):
        wanted = [line.split() for line in one.splitlines() if " read " in line]
        # For each request: the time of its end in ms, its latency in ns, direction, size and offset.
        log = [re.split(", ", line) for line in (tmp_path / f"x_lat.{i + 1}.log").read_text().splitlines()]
        assert len(log) == 21
        assert [(offset, size) for _, _, _, size, offset, *_ in log] == [
            (offset, size) for _, _, _, offset, size in wanted
        ]
        for (ended_ms, took_ns, *_), (us, *_) in zip(log, wanted, strict=True):
            late_ms = int(ended_ms) - int(took_ns) / 1e6 - int(us) / 1000
            assert late_ms > -3  # the log has whole ms
