# SPDX-License-Identifier: GPL-2.0-only
"""The paper's cells beside ours: which point answers, errors, rows that the simulator lacks."""

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from tailgate.base.progress import Progress
from tailgate.papers import cells
from tailgate.papers.answers import published_in, read_points
from tailgate.papers.cells import PaperCell
from tailgate.runs import export
from tailgate.runs import folder as folders
from tailgate.runs.flow import Flow
from tailgate.runs.histogram import from_ns
from tailgate.show import report, summary, table
from tailgate.spec import experiment, plan
from tailgate.spec.plan import Run
from tailgate.spec.scheduler import Scheduler
from tailgate.spec.sweep import Sweep
from tailgate.targets.measure import MeasureOptions, TargetOptions, measure, target_of
from tailgate.targets.resolve import resolve

FakeRun = Callable[..., Run]
SIMULATED = ("none", "mq-deadline", "kyber", "k2-8", "k2-16", "k2-32")
LOAD = Sweep(access="random", op="read", block_size_kib=4, full_rate_mib_s=1)
K2, NONE = Scheduler(label="k2-8", name="k2"), Scheduler(label="none", name="none")


def cell(key: str, paper: float, ours: float, scheduler: Scheduler = NONE, rounding: float = 0) -> PaperCell:
    return PaperCell(LOAD, scheduler, "Table II", key, paper, rounding, {"sim": ours})


@pytest.mark.parametrize(
    ("made", "error", "off"),
    [
        (cell("mib_s", 100, 114), 0.14, False),
        (cell("mib_s", 100, 84), -0.16, True),
        (cell("lat_us.p99.9", 100, 124), 0.24, False),
        (cell("lat_us.p99.9", 100, 70), -0.3, True),
        (cell("lat_us.p99.9", 20, 14, rounding=5), -0.3, False),  # 0.02 ms may be 15 us
        (cell("lat_us.p99.9", 20, 10, rounding=5), -0.5, True),
    ],
)
def test_errors_are_signed_and_rounding_is_set_aside(made: PaperCell, error: float, off: bool) -> None:
    assert made.error("sim") == pytest.approx(error)
    assert made.off("sim") == off
    assert made.error("vm") is None
    assert not made.off("vm")


def test_summaries_by_load_and_for_k2_apart() -> None:
    made = [cell("mib_s", 100, v) for v in (90, 105, 130)] + [cell("mib_s", 100, 95, K2)]
    found = {s.title: s for s in cells.summaries(made, "sim")}
    assert set(found) == {LOAD.words, f"{LOAD.words}, K2"}
    every = found[LOAD.words]
    assert (every.count, every.off) == (4, 1)
    assert (every.median, every.median_size, every.worst) == pytest.approx((0.0, 0.075, 0.3))
    assert found[f"{LOAD.words}, K2"].median == pytest.approx(-0.05)
    write = Sweep(access="random", op="write", block_size_kib=4, full_rate_mib_s=1)
    found = {s.title: s for s in cells.summaries([*made, replace(made[-1], sweep=write)], "sim")}
    assert (found["all loads"].count, found["all loads, K2"].count, found[cells.PREDICTED].count) == (5, 2, 1)


def test_every_cell_of_the_tables(fake_run: FakeRun, tmp_path: Path) -> None:
    for name, source in (("k2/table2", "Table II"), ("k2/table3", "Table III")):
        folder = tmp_path / source
        run = fake_run(folder, name=name, mode_name="sim", schedulers=SIMULATED)
        _, points = read_points(folder, run)
        found = cells.of(run.spec, [("sim", p) for p in points], published_in(folder, run.spec))
        assert len(found) == 140  # of 70 cells, throughput and latency
        assert {c.source for c in found} == {source}
        assert {c.scheduler.label for c in found if not c.ours} == {"bfq"}


def test_flows_have_cells_of_their_own(fake_run: FakeRun, tmp_path: Path) -> None:
    run = fake_run(tmp_path, name="kyber/table2", mode_name="sim", schedulers=("none",))
    latency = from_ns([80_000], [600], 80_000, 80_000, 1)
    flows = [
        Flow(name="read", op="read", ios=600, iops=300, mib_s=1.2, histogram=latency),
        Flow(name="write", op="write", ios=6000, iops=70_000, mib_s=273, histogram=latency),
    ]
    for chunk in plan.chunks(run):
        for m in folders.Records(tmp_path).of([chunk]):
            there = m.sweep.flows or ("read", "write")
            folders.write(tmp_path, replace(m, flows=tuple(f for f in flows if f.name in there)))
    _, points = read_points(tmp_path, run)
    found = cells.of(run.spec, [("sim", p) for p in points], published_in(tmp_path, run.spec))
    assert len(found) == 24  # throughput and latency, of four loads with one flow and four with two
    assert [words for words, _, _ in cells.lines(found)] == [s.label for s in run.spec.sweeps]
    assert [(c.key, c.paper, c.ours["sim"]) for c in found if c.sweep.label == "r1-w256"] == [
        ("read.iops", 300, 300),
        ("write.iops", pytest.approx(68_900), 70_000),
        ("read.lat_us.p99", 15217.5, pytest.approx(80, rel=0.02)),
        ("write.lat_us.p99", 15558.2, pytest.approx(80, rel=0.02)),
    ]
    out = export.to_json(run, [p for p in points if p.sweep.label == "r1-w256"])["points"]
    assert isinstance(out, list)
    assert [flow["paper"] for flow in out[0]["flows"]] == [
        {"iops": 300, "lat_us.p99": 15217.5},
        {"iops": 68_900, "lat_us.p99": 15558.2},
    ]


def test_highest_latency_answers_table_3(fake_run: FakeRun, tmp_path: Path) -> None:
    run = fake_run(tmp_path, name="k2/table3", mode="full", mode_name="sim", schedulers=("none",))
    _, points = read_points(tmp_path, run)
    answers = [p for p in points if p.published]
    assert len(answers) == 10
    for answer in answers:
        others = [p for p in points if p.sweep == answer.sweep]
        assert answer.rt
        assert answer.rt.lat_us["p99.9"] == max(p.rt.lat_us["p99.9"] for p in others if p.rt)


@pytest.mark.parametrize("schedulers", [("none",), ("none", "k2-8")])
def test_marks_are_shown_below_the_tables(
    fake_run: FakeRun, tmp_path: Path, schedulers: tuple[str, ...]
) -> None:
    run = fake_run(tmp_path, name="k2/table3", mode_name="sim", schedulers=schedulers)
    _, points = read_points(tmp_path, run)
    points = [replace(p, status="short") for p in points]
    out = io.StringIO()
    table.show(Console(file=out, width=4000), run, points, tmp_path)
    assert "the time limit came first" in out.getvalue()
    assert ("k2-8, random reads, 4 KiB" in out.getvalue()) == (len(schedulers) > 1)


def test_throughput_of_both_flows_is_told_apart(fake_run: FakeRun, tmp_path: Path) -> None:
    run = fake_run(tmp_path, name="k2-split/table3", mode_name="sim")
    _, points = read_points(tmp_path, run)
    found = cells.of(run.spec, [("sim", p) for p in points], published_in(tmp_path, run.spec))
    assert len(found) == 8 * 7 * 2
    for c in found:
        assert c.source == "Table 3"
        if c.key == "total_mib_s":
            assert sum(c.apart["sim"]) == pytest.approx(c.ours["sim"])
        else:
            assert (c.key, c.apart) == ("lat_us.p99", {})
    out = io.StringIO()
    table.show(Console(file=out, width=140), run, points, tmp_path)
    report.write([tmp_path], tmp_path / "report.html")
    for words in (out.getvalue(), (tmp_path / "report.html").read_text()):
        assert "MiB/s in all" in words  # of the errors, and in the report of the cells
        assert "75.6" in words


def test_what_the_text_says_of_one_load(fake_run: FakeRun, tmp_path: Path) -> None:
    run = fake_run(tmp_path, name="k2-split/section5-1", mode_name="sim")
    _, points = read_points(tmp_path, run)
    facts = cells.stated(tmp_path, run.spec)
    answers = {(f["scheduler"], f["metric"]): cells.answer(f, run.spec, points) for f in facts}
    assert answers["K2", "rt_p99_latency@bg_bs=512KiB"].endswith(" ms")
    assert answers["K2-split", "rt_p99_latency@bg_bs=512KiB"].endswith(" ms")
    assert not answers["K2-split vs K2", "rt_p99_latency_reduction"]
    out = io.StringIO()
    table.show(Console(file=out, width=140), run, points, tmp_path)
    assert "paper, p99" in out.getvalue()
    assert "8.00 (" in out.getvalue()


def test_load_without_a_real_time_flow(fake_run: FakeRun, tmp_path: Path) -> None:
    run = fake_run(tmp_path, name="k2/table1", mode_name="sim")
    latency = from_ns([80_000], [6000], 80_000, 80_000, 1)
    load = Flow(name="load", op="read", ios=6000, iops=12_000, mib_s=46.875, histogram=latency)
    for chunk in plan.chunks(run):
        assert (chunk.rt_samples, chunk.duration_s) == (0, 0.5)
        [m] = folders.Records(tmp_path).of([chunk])
        folders.write(tmp_path, replace(m, flows=(load,)))
    _, points = read_points(tmp_path, run)
    assert {p.status for p in points} == {"ok"}
    depth_1 = next(p for p in points if p.sweep.label == "random-read-1x1")
    assert depth_1.published
    assert depth_1.published.values == {"iops": 12_700}
    out = export.to_json(run, [depth_1])["points"]
    assert isinstance(out, list)
    assert out[0]["flows"][0]["paper"] == {"iops": 12_700}
    assert out[0]["sweep"]["processes"] == 1


def test_delay_in_the_scheduler(fake_run: FakeRun, tmp_path: Path) -> None:
    run = fake_run(tmp_path, name="k2/fig7", mode_name="sim", schedulers=SIMULATED)
    _, points = read_points(tmp_path, run)
    for p in points:
        assert p.rt
        assert p.rt.delay
        assert p.rt.delay.percentile(0.5) == pytest.approx(p.rt.lat_us["p50"] / 10, rel=0.05)
    report.write([tmp_path], tmp_path / "report.html")
    assert '"type": "bar"' in (tmp_path / "report.html").read_text()


def test_rows_that_the_simulator_lacks_come_from_a_run_of_the_vm(fake_run: FakeRun, tmp_path: Path) -> None:
    run = fake_run(tmp_path / "aaa", name="k2/table2", mode_name="sim", schedulers=SIMULATED)
    _, points = read_points(tmp_path / "aaa", run)

    def shown() -> str:
        out = io.StringIO()
        folder = tmp_path / "aaa"
        table.show(Console(file=out, width=140), run, points, folder, cells.beside(folder, run))
        return out.getvalue()

    assert "The missing rows: tailgate run k2/table2 --target vm --schedulers bfq" in shown()
    other = fake_run(tmp_path / "bbb", name="k2/table2", mode="full", schedulers=("bfq", "none"))
    assert cells.beside(tmp_path / "aaa", run) == []  # not complete
    (tmp_path / "bbb" / "results.json").touch()
    [(theirs, their_points)] = cells.beside(tmp_path / "aaa", run)
    assert [s.label for s in theirs.schedulers] == ["bfq"]
    assert {p.scheduler.label for p in their_points} == {"bfq"}
    assert "missing rows" not in shown()
    assert "errors of vm" in shown()
    assert other.target == "vm"


def test_a_run_beside_is_read_once_for_report_and_table(
    fake_run: FakeRun, tmp_path: Path, records_read: list[Path]
) -> None:
    pytest.importorskip("tailgate_sim", reason="make sim builds it")
    path = experiment.find("k2/table2")
    out = io.StringIO()
    console = Console(file=out, width=140)
    progress = Progress(console)
    target = target_of(resolve(path, "quick", None, None, "sim"), path, TargetOptions(), progress)
    base = tmp_path / "k2/table2"
    fake_run(base / target.key, name="k2/table2", mode_name="sim", schedulers=SIMULATED)
    fake_run(base / "guest", name="k2/table2", mode="full", schedulers=("bfq",))
    (base / "guest/results.json").touch()
    measured = measure(target, tmp_path, MeasureOptions(1, False, "", report.of), progress)
    summary.show(measured, console)
    assert "errors of vm" in out.getvalue()
    assert "<th>vm</th>" in (base / target.key / "report.html").read_text()
    assert {path.relative_to(base).parts[0] for path in records_read} == {target.key, "guest"}
    assert len(records_read) == len(set(records_read))


def test_a_report_borrows_only_rows_that_none_of_its_runs_has(fake_run: FakeRun, tmp_path: Path) -> None:
    have = tuple(label for label in SIMULATED if label != "kyber")
    fake_run(tmp_path / "sim", name="k2/table2", mode_name="sim", schedulers=have)
    fake_run(tmp_path / "quick", name="k2/table2", schedulers=("bfq",))
    fake_run(tmp_path / "full", name="k2/table2", mode="full", schedulers=("bfq", "kyber"))

    def missing() -> bool:
        report.write([tmp_path / "sim", tmp_path / "quick"], tmp_path / "report.html")
        return "--target vm --schedulers kyber" in (tmp_path / "report.html").read_text()

    assert missing()  # the full run is not complete
    (tmp_path / "full" / "results.json").touch()
    assert not missing()


def test_both_targets_beside_the_paper(fake_run: FakeRun, tmp_path: Path) -> None:
    fake_run(tmp_path / "a", name="k2/fig3", mode_name="sim", schedulers=SIMULATED)
    fake_run(tmp_path / "b", name="k2/fig3")
    report.write([tmp_path / "a", tmp_path / "b"], tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    for words in ("<th>sim</th><th>ratio</th><th>vm</th><th>ratio</th>", "All points: sim", "square-open"):
        assert words in text
    assert text.count("<h1>") == 1
    assert "What the paper's text says" in text


@pytest.mark.parametrize(
    ("where", "change"),
    [
        ((), {"drive": "noisy"}),
        (("queue",), {"nr_requests": 7}),
        (("schedulers", "bfq", "knobs"), {"slice_idle": 7}),
        (("sweeps", "random-read-4k"), {"full_rate_mib_s": 7.0}),
    ],
)
def test_rows_of_another_drive_scheduler_or_load_are_not_borrowed(
    fake_run: FakeRun, tmp_path: Path, where: tuple[str, ...], change: dict[str, object]
) -> None:
    run = fake_run(tmp_path / "sim", name="k2/table2", mode_name="sim", schedulers=SIMULATED)
    fake_run(tmp_path / "vm", name="k2/table2", mode="full", schedulers=("bfq",))
    (tmp_path / "vm" / "results.json").touch()

    def borrowed() -> set[str | None]:
        return {p.sweep.label for _, points in cells.beside(tmp_path / "sim", run) for p in points}

    every = {sweep.label for sweep in run.spec.sweeps}
    assert borrowed() == every
    file = tmp_path / "vm" / "spec.json"
    about = json.loads(file.read_text())
    place = about["spec"]
    for key in where:
        place = place[key] if isinstance(place, dict) else next(e for e in place if e["label"] == key)
    place.update(change)
    file.write_text(json.dumps(about))
    assert borrowed() == (every - set(where) if "sweeps" in where else set())
