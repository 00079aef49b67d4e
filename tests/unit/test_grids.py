# SPDX-License-Identifier: GPL-2.0-only
"""Schedulers that are a grid of two knobs: matrices, the terminal's tables, heat maps, the report."""

import io
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from tailgate import main as cli
from tailgate.base import paths
from tailgate.runs.histogram import Histogram
from tailgate.runs.measurements import Blocked
from tailgate.runs.points import Point, PointFlow, latencies
from tailgate.show import grids, table
from tailgate.show.plots.drawing import draw
from tailgate.spec import experiment
from tailgate.spec.plan import Run

EXPERIMENT = """
title = "Two targets"
drive = "970evo"
job = "own.fio"
[paper]
file = "paper.csv"
title = "P"
figure = "Figure 2"
x = "Write target"
y = "Read target"
latency = "l"
plot = "grid"
[[sweeps]]
access = "random"
op = "readwrite"
block_size_kib = 4
full_rate_mib_s = 400
in_tables = false
[flows]
read = { section = "read", role = "background" }
write = { section = "write", role = "background" }
[machine]
iops_max = 140000
[queue]
nr_requests = 1023
[[schedulers]]
label = "none"
name = "none"
[[schedulers]]
label = "kyber"
name = "kyber"
[schedulers.grid]
read_lat_nsec = [50_000, 2_000_000]
write_lat_nsec = [20_000, 1_000_000, 100_000_000]
[modes.quick]
duration_s = 0.1
background_rates = [1.0]
seeds = [1]
limit_s = 10
"""
JOB = """[global]
filename=/dev/vflash0
direct=1
norandommap
bs=4k
ioengine=libaio

[read]
rw=randread

[write]
rw=randwrite
iodepth=8
"""
#: (kIOPS of the reads, their p99 in us) by the scheduler's label; the writes have twice of both.
MEASURED = {
    "none": (0.3, 15_600.0),
    "kyber-50us-20us": (1.5, 900.0),
    "kyber-50us-100ms": (4.53, 2_040.0),
    "kyber-2ms-20us": (12.0, 14_100.0),
}
Runs = Callable[..., tuple[Run, list[Point]]]


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "own" / "own.toml"
    path.parent.mkdir()
    path.write_text(EXPERIMENT)
    path.with_name("own.fio").write_text(JOB)
    path.with_name("paper.csv").write_text((paths.EXPERIMENTS / "kyber/paper.csv").read_text())
    return path


def flow(name: str, op: str, kiops: float, p99_us: float) -> PointFlow:
    histogram = Histogram(np.array([p99_us]), np.array([100]), p99_us, p99_us)
    lat_us = latencies(histogram)
    return PointFlow(
        name=name,
        op=op,
        ios=100,
        iops=1000 * kiops,
        mib_s=4 * kiops,
        histogram=histogram,
        lat_us=lat_us,
        ci_us={key: (us, us) for key, us in lat_us.items()},
        delay=None,
    )


@pytest.fixture
def measured(own: Path) -> Runs:
    """A run of the experiment and its points: `figures` by label; `changed` is applied to the file."""

    def made(
        figures: Mapping[str, tuple[float, float]] = MEASURED, changed: Callable[[str], str] = str
    ) -> tuple[Run, list[Point]]:
        own.write_text(changed(EXPERIMENT))
        spec = experiment.load(own)
        chosen = tuple(s for s in spec.schedulers if s.label in figures)
        run = Run("own/own", spec, "quick", spec.modes["quick"], chosen, (), "sim")
        points = [
            Point(
                scheduler=s,
                sweep=spec.sweeps[0],
                background_rate=1.0,
                variant=None,
                smp=1,
                kernel="",
                mode="sim",
                dilation=1,
                idle=0.9,
                status="ok",
                flows=(flow("read", "read", *figures[s.label]), flow("write", "write", kiops * 2, us * 2)),
                block_us=None,
                blocked=None,
                published=None,
                real_time=(),
                background=("read", "write"),
            )
            for s in chosen
            for kiops, us in (figures[s.label],)
        ]
        return run, points

    return made


def printed(run: Run, points: list[Point]) -> list[list[str]]:
    """The words of each line that the terminal shows, 80 columns wide."""
    console = Console(file=io.StringIO(), width=80)
    table.show(console, run, points)
    assert isinstance(console.file, io.StringIO)
    return [line.split() for line in console.file.getvalue().splitlines()]


def test_each_flow_has_two_matrices(measured: Runs) -> None:
    found = {m.title: m for m in grids.matrices(*measured())}
    assert list(found) == ["read: kIOPS", "read: p99, ms", "write: kIOPS", "write: p99, ms"]
    reads = found["read: kIOPS"]
    assert reads.knobs == ("read_lat_nsec", "write_lat_nsec")
    assert (reads.rows, reads.columns) == (["50us", "2ms"], ["20us", "100ms"])  # 1ms was not chosen
    assert reads.values == [[1.5, 4.53], [12.0, None]]
    assert reads.texts == [["1.50", "4.53"], ["12.0", "–"]]
    assert found["write: p99, ms"].texts == [["1.80", "4.08"], ["28.2", "–"]]


def test_a_p99_is_in_us_where_all_are_below_1_ms(measured: Runs) -> None:
    titles = {}
    for us in (999.0, 1000.0):
        run, points = measured({"kyber-50us-20us": (1, 26.8), "kyber-2ms-20us": (1, us)})
        matrix = grids.matrices(run, points)[1]
        titles[matrix.title] = matrix.texts
    assert titles == {"read: p99, us": [["26.8"], ["999"]], "read: p99, ms": [["0.0268"], ["1.00"]]}


def test_the_terminal_has_matrices_below_the_other_schedulers(measured: Runs) -> None:
    lines = printed(*measured())
    rows = [["none", "0.300", "1.20", "15.6", "0.600", "2.40", "31.2", "90%"], ["50us", "1.50", "4.53"]]
    assert [lines.index(row) for row in rows] == sorted(lines.index(row) for row in rows)
    assert ["2ms", "12.0", "–"] in lines
    assert not any("kyber-50us-20us" in line for line in lines)


@pytest.mark.parametrize(
    "changed",
    [
        lambda text: text.replace("[50_000, 2_000_000]", "[50_000]"),
        lambda text: text.replace("[schedulers.grid]", "[schedulers.grid]\nother = [1, 2]"),
    ],
    ids=["one", "three"],
)
def test_one_or_three_varying_knobs_are_rows(measured: Runs, changed: Callable[[str], str]) -> None:
    labels = ["none"] + (["kyber-50us-20us"] if "other" not in changed(EXPERIMENT) else ["kyber-1-50us-20us"])
    run, points = measured(dict.fromkeys(labels, (1.0, 100.0)), changed)
    assert grids.matrices(run, points) == []
    assert [line[0] for line in printed(run, points) if "90%" in line] == labels
    assert draw(run.spec, [(run, points)], {}) is None


def test_a_plot_of_none_shows_each_flow(measured: Runs) -> None:
    run, points = measured(changed=lambda text: text.replace('plot = "grid"', 'plot = "none"'))
    assert ["kyber-2ms-20us", "12.0", "48.0", "14.1", "24.0", "96.0", "28.2", "90%"] in printed(run, points)


def test_file_systems_without_a_real_time_task_show_each_flow_too(measured: Runs) -> None:
    run, points = measured(changed=lambda text: text.replace('plot = "grid"', 'plot = "none"'))
    points = [replace(p, blocked=Blocked(task="fio", us=5e6)) for p in points]
    assert ["kyber-2ms-20us", "12.0", "48.0", "14.1", "24.0", "96.0", "28.2", "90%"] in printed(run, points)


def test_heat_maps_have_the_values_and_mark_the_corners(measured: Runs) -> None:
    run, points = measured({s.label: (1.0, 100.0) for s in measured()[0].spec.schedulers})
    drawing = draw(run.spec, [(run, points)], {})
    assert drawing
    assert drawing.axes == ("Write target", "Read target")
    assert len(drawing.panels) == 4
    for panel in drawing.panels:
        [trace] = panel.data
        assert (trace["y"], trace["x"]) == (["50us", "2ms"], ["20us", "1ms", "100ms"])
        assert len(trace["z"]) == len(trace["text"]) == 2
        assert panel.about
        layout = panel.figure["layout"]
        assert layout["xaxis"]["type"] == layout["yaxis"]["type"] == "category"
        middles = {((s["x0"] + s["x1"]) / 2, (s["y0"] + s["y1"]) / 2) for s in layout["shapes"]}
        assert middles == {(0, 0), (2, 0), (0, 1), (2, 1)}


def test_a_run_of_a_grid_has_a_report(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tailgate_sim", reason="make sim builds it")
    out = own.parents[1] / "runs"
    assert cli.main(["run", str(own), "--target", "sim", "--quick", "--out", str(out)]) == 0
    assert "columns: write_lat_nsec" in capsys.readouterr().err
    [results] = (out / "own" / "own").glob("*/results.json")
    page = results.with_name("report.html").read_text()
    words = page[page.index("<main>") : page.index("</main>")]
    assert words.count('class="plot"') == 6
    assert "read_tokens" in words
    assert words.count("<table") == 7  # none, and a matrix for each heat map
    assert "kyber-50us-20us</th>" not in words
