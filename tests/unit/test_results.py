# SPDX-License-Identifier: GPL-2.0-only
"""From a run's raw files to points, JSON, Parquet and the table."""

import io
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tailgate.base.errors import UsageError
from tailgate.papers.answers import read_points
from tailgate.runs import evidence, export, record
from tailgate.runs.flow import Flow
from tailgate.runs.folder import read_measurements, read_run
from tailgate.runs.histogram import Histogram, merge
from tailgate.runs.measurements import Blocked, Conditions, Measurement, status
from tailgate.runs.points import merge_seeds
from tailgate.show import report, table
from tailgate.spec import plan
from tailgate.spec.experiment import Experiment
from tailgate.spec.plan import Chunk, PlannedPoint, Run
from tailgate.spec.scheduler import Scheduler
from tailgate.spec.sweep import Sweep

FakeRun = Callable[..., Run]
LOAD = Sweep(access="random", op="read", block_size_kib=4, full_rate_mib_s=1)
PLANNED = PlannedPoint(Chunk(Scheduler(label="none", name="none"), LOAD, 1, (0.0, 1.0), 400), 1)


def test_json_is_as_designed(fake_run: FakeRun, tmp_path: Path) -> None:
    run = fake_run(tmp_path)
    _, points = read_points(tmp_path, run)
    out: Any = json.loads(json.dumps(export.to_json(run, points)))
    assert set(out) == {"experiment", "target", "drive", "seeds", "points"}
    assert (out["experiment"], out["target"], out["drive"], out["seeds"]) == ("k2/fig8", "vm", "970evo", [1])
    assert len(out["points"]) == 7 * len(run.mode.background_rates)
    point = next(
        p
        for p in out["points"]
        if p["knobs"].get("inflight_max") == 8 and p["sweep"]["background_rate"] == 1.0
    )
    assert set(point) == {
        *("label", "scheduler", "knobs", "load", "sweep", "flows"),
        *("kernel", "smp", "dilation", "idle", "status"),
    }
    assert (point["scheduler"], point["status"], point["smp"]) == ("k2", "ok", 1)
    assert point["sweep"] == {"access": "random", "op": "read", "block_size_kib": 64, "background_rate": 1}
    assert point["knobs"]["nr_requests"] == 1023
    rt, background = point["flows"]
    assert set(rt) == {"flow", "op", "ios", "iops", "mib_s", "lat_us", "ci_us", "paper"}
    assert (rt["flow"], rt["op"], rt["ios"], background["flow"]) == ("rt", "read", 400, "background")
    assert list(rt["lat_us"]) == ["mean", "p50", "p90", "p99", "p99.9", "max"]
    assert rt["ci_us"]["p99"][0] <= rt["lat_us"]["p99"] <= rt["ci_us"]["p99"][1]
    assert rt["ci_us"]["p99.9"][1] is None  # 400 samples have no upper end
    assert rt["paper"] == {"mib_s": 501, "lat_us.p99.9": 2310}
    assert background["mib_s"] == pytest.approx(background["iops"] / 16, rel=1e-3)


def same(one: Histogram | None, other: Histogram | None) -> bool:
    """Whether two histograms are equal to the last bit."""
    if one is None or other is None:
        return one is other
    pair = [
        (h.values_us.tolist(), h.counts.tolist(), str(h.mean_us), str(h.max_us), h.values_us.dtype)
        for h in (one, other)
    ]
    return pair[0] == pair[1]


@given(st.lists(st.floats(1e-3, 1e9), unique=True), st.floats(0, 1), st.booleans())
def test_record_reads_back_to_the_last_bit(values: list[float], share: float, more: bool) -> None:
    """Whatever the floats are; a histogram without samples, whose mean and maximum are NaN, too."""
    some = merge([Histogram(np.array([v]), np.array([3]), v / 3, v) for v in sorted(values)])
    flow = Flow(name="rt", op="read", ios=some.n, iops=share * 1e6, mib_s=share / 3, histogram=some)
    if more:
        flow = replace(flow, delay=some, block=merge([]))
    written = Measurement(
        point=PLANNED,
        conditions=Conditions(smp=2, kernel="6.12", mode="icount", dilation=4),
        idle=share,
        status="short",
        flows=(flow,),
        block_us=share / 7 if more else None,
        blocked=Blocked("fio", share) if more else None,
        settings={"scheduler": "[none] bfq"},
        counters={"reads": 2**60 + 1},
    )
    read = record.from_text(record.to_text(written), PLANNED)
    [again] = read.flows
    for name in ("histogram", "delay", "block"):
        assert same(getattr(again, name), getattr(flow, name))
    flat: dict[str, Any] = {"histogram": some, "delay": None, "block": None}
    assert replace(again, **flat) == replace(flow, **flat)
    assert replace(read, flows=()) == replace(written, flows=())


def test_a_point_that_is_short_on_a_busy_cpu_shows_the_cpu(fake_run: FakeRun, tmp_path: Path) -> None:
    run = fake_run(tmp_path, schedulers=("none",))
    for m in read_measurements(tmp_path, run):
        few = [replace(f, ios=1) for f in m.flows]
        said = [
            status(run, m.point, flows, idle, "icount") for flows in (m.flows, few) for idle in (0.9, 0.5)
        ]
        assert said == ["ok", "cpu-bound", "short", "cpu-bound"]
        assert status(run, m.point, few, 0.5, "kvm") == "short"


def test_records_are_made_again_of_what_guests_sent(fake_run: FakeRun, tmp_path: Path) -> None:
    run = fake_run(tmp_path, dilation=2)
    files = sorted(tmp_path.rglob("p?.json"))
    before = [file.read_text() for file in files]
    assert len(files) == 7 * len(run.mode.background_rates)
    counters = json.loads(before[0])["counters"]
    assert counters == {"elapsed_ns": 10**9, "idle_ns": 850_000_000, "reads": 400, "read_ms": 192}
    for file in files:
        file.unlink()
    evidence.remake(tmp_path, run)
    assert [file.read_text() for file in files] == before


def test_records_of_another_version_are_not_read(fake_run: FakeRun, tmp_path: Path) -> None:
    fake_run(tmp_path)
    file = tmp_path / "spec.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"records": record.VERSION + 1}))
    with pytest.raises(UsageError, match="measured by another version of the lab; measure it again"):
        read_run(tmp_path)
    file = tmp_path / "chunks/none.seed1/p0.json"
    text = file.read_text().replace('"version": 1', '"version": 0')
    with pytest.raises(ValueError, match="expected a record of version 1, got 0"):
        record.from_text(text, PLANNED)


def test_dilation_is_taken_out(fake_run: FakeRun, tmp_path: Path) -> None:
    plain = read_measurements(tmp_path / "a", fake_run(tmp_path / "a"))
    slow = read_measurements(tmp_path / "b", fake_run(tmp_path / "b", dilation=4))
    for one, other in zip(plain, slow, strict=True):
        for f, g in zip(one.flows, other.flows, strict=True):
            assert (f.name, f.ios) == (g.name, g.ios)
            assert f.iops == pytest.approx(g.iops, rel=1e-9)
            assert f.mib_s == pytest.approx(g.mib_s, rel=1e-6)
            assert f.histogram.percentile(0.99) == pytest.approx(g.histogram.percentile(0.99), rel=0.01)


def test_fixed_times_are_marked_under_dilation(fake_run: FakeRun, tmp_path: Path) -> None:
    run = fake_run(tmp_path, dilation=2)
    _, points = read_points(tmp_path, run)
    marked = {p.scheduler.label for p in points if any("not dilated" in m for m in p.marks)}
    assert marked == {"mq-deadline", "kyber", "bfq"}


def test_fixed_times_beside_schedulers_are_marked(fake_run: FakeRun, tmp_path: Path) -> None:
    run = fake_run(tmp_path, dilation=2, schedulers=("none",))
    _, [point, *_] = read_points(tmp_path, run)
    assert point.marks == []
    weight, limit, qos = {"io.weight": 1}, {"io.max": {"rbps": 1}}, {"io.cost.qos": {"enable": 1}}
    for changes, marks in (
        ({"cgroups": {"rt": weight}}, []),
        ({"cgroups": {"rt": limit}}, ["io.max hands out its rate in slices of 20 ms"]),
        (
            {"cgroups": {"root": qos, "rt": weight}},
            ["io.cost.qos adjusts its rate once a millisecond at most"],
        ),
        ({"queue": {"wbt_lat_usec": 75}}, ["wbt_lat_usec judges latencies over windows of 100 ms"]),
        ({"queue": {"wbt_lat_usec": 0}}, []),
    ):
        set_beside = replace(point, scheduler=point.scheduler.model_copy(update=changes))
        assert set_beside.marks == [f"{mark}: not dilated" for mark in marks]
        assert replace(set_beside, dilation=1).marks == []


@pytest.mark.parametrize(
    ("idle", "mode", "status", "mark"),
    [
        (0.85, "icount", "ok", None),
        (0.75, "icount", "ok", "idle for less than 80%: up to 2 % off"),
        (0.5, "icount", "cpu-bound", "not the drive's figures"),
        (0.5, "kvm", "ok", "idle for less than 80%"),
    ],
)
def test_busy_cpu(
    fake_run: FakeRun, tmp_path: Path, idle: float, mode: str, status: str, mark: str | None
) -> None:
    _, points = read_points(tmp_path, fake_run(tmp_path, idle=idle, mode_name=mode))
    assert {p.status for p in points} == {status}
    assert [p.idle for p in points] == pytest.approx([idle] * len(points))
    assert all(any(mark in m for m in p.marks) if mark else not p.marks for p in points)


HISTOGRAM = """# event histogram

{ pid:        190 } hitcount:          3
	max:     553992  comm: fio
{ pid:        176 } hitcount:       3027
	max: 2055321476  comm: jbd2/vflash0-8

Totals:
    Hits: 3030
"""


def test_longest_time_blocked() -> None:
    assert evidence.parse_blocked(HISTOGRAM, 2) == Blocked("jbd2/vflash0-8", 2055321476 / 2000)
    assert evidence.parse_blocked("# event histogram\n\nTotals:\n", 1) == Blocked("", 0)


def test_file_systems(fake_run: FakeRun, tmp_path: Path) -> None:
    """What fdatasync waits is a flow of its own; the longest time blocked is in JSON, table and report."""
    run = fake_run(tmp_path, name="k2/inversion", dilation=4)
    for chunk in plan.chunks(run):
        assert (chunk.rt_samples, chunk.duration_s) == (0, 1.5)
        place = tmp_path / "chunks" / chunk.name
        reader = evidence.parse_fio((place / "p0.fio.json").read_text())["jobs"][0]
        append = {"jobname": "append", "read": reader["write"], "write": reader["read"], "job_runtime": 2000}
        append["sync"] = {"total_ios": 0, "lat_ns": {"N": 3, "max": 80, "bins": {"40000": 2, "80000": 1}}}
        jobs = [append, reader | {"jobname": "reader", "sync": {"total_ios": 0, "lat_ns": {"N": 0}}}]
        (place / "p0.fio.json").write_text(json.dumps({"jobs": jobs}))
        (place / "p0.blocked").write_text(HISTOGRAM)
    evidence.remake(tmp_path, run)
    measurements, points = read_points(tmp_path, run)
    point: Any = export.to_json(run, points)["points"][0]  # type: ignore[index]
    assert point["sweep"]["file_system"] == "ext4"
    assert point["blocked"] == {"task": "jbd2/vflash0-8", "us": 513830}
    sync = next(f for f in point["flows"] if f["flow"] == "append.sync")
    assert (sync["op"], sync["ios"], sync["iops"], sync["mib_s"]) == ("sync", 3, 6, 0)
    assert sync["lat_us"]["p50"] == 10
    out = io.StringIO()
    table.show(Console(file=out, width=200), run, points, tmp_path)
    said = out.getvalue()
    assert all(word in said for word in ("ext4", "xfs", "f2fs", "k2-8-floor", "0.514", "jbd2/vflash0-8"))
    export.write_parquet(run, measurements, tmp_path / "points.parquet")
    column = pq.read_table(tmp_path / "points.parquet").column("blocked_max_us").to_pylist()
    assert set(column) == {2055321476 / 4000}
    report.write([tmp_path], tmp_path / "report.html")
    assert "0.514</td><td>jbd2/vflash0-8</td>" in (tmp_path / "report.html").read_text()


def test_parquet_has_a_row_per_point_and_flow(fake_run: FakeRun, tmp_path: Path) -> None:
    run = fake_run(tmp_path)
    measurements, _ = read_points(tmp_path, run)
    export.write_parquet(run, measurements, tmp_path / "points.parquet")
    rows = pq.read_table(tmp_path / "points.parquet").to_pylist()
    assert len(rows) == sum(len(m.flows) for m in measurements)
    for row in rows:
        assert sum(row["histogram_count"]) == row["ios"]
        assert json.loads(row["knobs"])["nr_requests"] == 1023
    alone = [r for r in rows if r["background_rate"] == 0]
    assert all(r["block_mean_us"] == pytest.approx(240, rel=0.02) for r in alone)


def test_run_directory_reads_back(fake_run: FakeRun, tmp_path: Path) -> None:
    run = fake_run(tmp_path, mode="full")
    assert read_run(tmp_path) == run
    with pytest.raises(UsageError, match="expected the folder of a run"):
        read_run(tmp_path / "chunks")


def test_unfinished_chunk_shows_its_points(fake_run: FakeRun, tmp_path: Path) -> None:
    run = fake_run(tmp_path)
    (tmp_path / "chunks" / "kyber.seed1" / "p2.json").unlink()
    _, points = read_points(tmp_path, run)
    assert [p.background_rate for p in points if p.scheduler.label == "kyber"] == [0.0, 0.25]


def test_table_says_what_the_paper_has_and_what_is_missing(fake_run: FakeRun, tmp_path: Path) -> None:
    run = fake_run(tmp_path, mode="full", dilation=2, idle=0.7)
    _, points = read_points(tmp_path, run)
    out = io.StringIO()
    table.show(Console(file=out, width=140), run, points)
    text = out.getvalue()
    assert "559 (" in text
    assert "13.2 (" in text
    assert "under k2-8" in text
    assert "4 CPUs, 4 hardware queues, none at full load" in text
    assert "not dilated" in text
    assert "clat" in text


def test_counters_of_the_guest() -> None:
    text = (
        "Timer List Version: v0.10\nHRTIMER_MAX_CLOCK_BASES: 8\nnow at 5000000123 nsecs\n\ncpu: 0\n"
        "  .idle_sleeptime : 4000000000 nsecs\n  .iowait_sleeptime: 100 nsecs\ncpu: 1\n"
        "  .idle_sleeptime : 3000000000 nsecs\n  .iowait_sleeptime: 5 nsecs\n"
        "     400        1    51200       97        0\n"
    )
    counters = evidence.parse_counters(text)
    assert counters == evidence.Counters(5_000_000_123, 7_000_000_105, 2, 400, 97)
    with pytest.raises(ValueError, match="no counters"):
        evidence.parse_counters("nothing")


def test_mixed_flow_is_split_and_merged() -> None:
    spec = Experiment.model_validate(_SPEC)
    side = {
        "total_ios": 2,
        "iops": 10.0,
        "bw_bytes": 2**20,
        "clat_ns": {"bins": {"1000": 2}, "mean": 1000.0, "max": 1},
    }
    flows = evidence.read_flows({"jobs": [{"jobname": "r", "read": side, "write": side}]}, spec, 1)
    assert [(f.name, f.op, f.ios, f.mib_s) for f in flows] == [
        ("rt.read", "read", 2, 1.0),
        ("rt.write", "write", 2, 1.0),
        ("rt", "readwrite", 4, 2.0),
    ]
    assert flows[2].histogram.n == 4
    assert not any(math.isnan(f.histogram.mean_us) for f in flows)


def test_a_flow_that_some_seeds_starve_counts_as_nothing_there(fake_run: FakeRun, tmp_path: Path) -> None:
    run = fake_run(tmp_path / "run")
    measurements, _ = read_points(tmp_path / "run", run)
    m = next(m for m in measurements if m.flow("background"))
    [alone] = merge_seeds([m], run.spec)
    starved = replace(m, flows=tuple(f for f in m.flows if f.name != "background"))
    [point] = merge_seeds([starved, m, starved], run.spec)
    assert alone.bg
    assert point.bg
    assert point.bg.mib_s == pytest.approx(alone.bg.mib_s / 3)
    assert point.bg.iops == pytest.approx(alone.bg.iops / 3)


_SPEC = {
    "title": "t",
    "drive": "d",
    "job": "j.fio",
    "paper": {"file": "p.csv", "title": "", "figure": "", "x": "", "y": "", "latency": ""},
    "sweeps": [{"access": "random", "op": "readwrite", "block_size_kib": 4, "full_rate_mib_s": 1}],
    "machine": {"iops_max": 1},
    "flows": {
        "rt": {"section": "r", "role": "real-time"},
        "background": {"section": "b", "role": "background"},
    },
    "queue": {},
    "schedulers": [{"label": "none", "name": "none"}],
    "modes": {},
}


def test_delays_that_the_kernel_counted(fake_run: FakeRun, tmp_path: Path) -> None:
    """They become the flow's delay, and the point says how fast its processors were."""
    text = "# trigger info: hist\n\n{ ns:       2000 } hitcount:          3\n{ ns:      40000 } hitcount: 1\n"
    delays = evidence.parse_delays(text + "\nTotals:\n    Hits: 4\n", 1)
    assert delays
    assert (delays.values_us.tolist(), delays.counts.tolist()) == ([2, 40], [3, 1])
    assert (delays.mean_us, delays.max_us) == (11.5, 40)
    assert evidence.parse_delays("Totals:\n    Hits: 0\n", 1) is None
    run = fake_run(tmp_path, dilation=4, schedulers=("k2-8",))
    (tmp_path / "chunks/k2-8.seed1/p0.delays").write_text(text)
    evidence.remake(tmp_path, run)
    _, points = read_points(tmp_path, run)
    first = points[0]
    assert first.rt
    assert first.rt.delay
    assert first.rt.delay.percentile(0.5) == 0.5
    assert "processors are 4 times as fast as in life, in the scheduler too" in first.marks
    assert not any("as fast" in mark for mark in points[1].marks)


def test_the_schedulers_state_comes_from_the_guest(fake_run: FakeRun, tmp_path: Path) -> None:
    """Kyber's tokens at the end of a point, beside the settings as they were."""
    run = fake_run(tmp_path)
    place = tmp_path / "chunks" / plan.chunks(run)[0].name
    before = (place / "p0.settings").read_text() if (place / "p0.settings").is_file() else ""
    (place / "p0.settings").write_text(before + "scheduler.read_tokens:16\nscheduler.write_tokens:1\n")
    evidence.remake(tmp_path, run)
    measurements, points = read_points(tmp_path, run)
    assert points[0].state == {"read_tokens": 16, "write_tokens": 1}
    assert not any(name.startswith("scheduler.") for name in measurements[0].settings)
