# SPDX-License-Identifier: GPL-2.0-only
"""The report's plots, from invented runs."""

from collections.abc import Callable
from pathlib import Path

from tailgate.papers.answers import published_in, read_points
from tailgate.show.plots import ccdf, legends, sizes
from tailgate.show.plots.drawing import draw
from tailgate.spec.plan import Run


def test_latency_over_sizes_has_a_panel_for_each_kind_of_load(
    fake_run: Callable[..., Run], tmp_path: Path
) -> None:
    run = fake_run(tmp_path, name="k2-split/section5-1", mode_name="sim")
    _, points = read_points(tmp_path, run)
    panels = {p.title: p.data for p in sizes.panels([(run, points)])}
    assert len(panels) == 6
    legend = [entry.words for entry in legends.of_lines([(run, points)]).entries]
    lines = panels["sim: random reads, think ms 0, attachment usb"]
    ours = [line for line in lines if not line["name"].endswith(", paper")]
    assert [line["name"] for line in ours] == [s.label for s in run.spec.schedulers]
    for line in ours:
        assert line["x"] == [4, 512]
        assert all(ms > 0 for ms in line["y"])
        assert line["name"] in legend
    paper = {line["name"]: (line["x"], line["y"]) for line in lines if line not in ours}
    assert paper == {"k2, paper": ([512], [8.0]), "k2-split-4, paper": ([512], [1.6])}
    others = [line["name"] for title, lines in panels.items() if "think ms 2" in title for line in lines]
    assert not any("paper" in name for name in others)


def test_the_tail_falls_from_all_to_the_slowest(fake_run: Callable[..., Run], tmp_path: Path) -> None:
    run = fake_run(tmp_path, name="k2-split/fig6", mode_name="sim")
    _, points = read_points(tmp_path, run)
    panels = [p.data for p in ccdf.panels([(run, points)])]
    assert len(panels) == 4
    for lines in panels:
        assert [line["name"] for line in lines] == ["k2", "k2-max-sectors-4", "k2-split-4"]
        for line in lines:
            assert line["y"][0] == 1
            assert line["y"] == sorted(line["y"], reverse=True)
            assert line["y"][-1] > 0
            assert line["x"] == sorted(line["x"])


def test_each_kind_of_plot_has_its_legend(fake_run: Callable[..., Run], tmp_path: Path) -> None:
    found = {}
    for name in ("k2/fig8", "k2/fig11", "k2/fig7", "k2-split/fig6"):
        folder = tmp_path / name
        run = fake_run(folder, name=name, mode_name="sim")
        _, points = read_points(folder, run)
        drawing = draw(run.spec, [(run, points)], published_in(folder, run.spec))
        assert drawing
        legend = drawing.legend
        found[name] = ([e.words for e in legend.entries], bool(legend.ramp), legend.scales)
    paper = "paper, p99.9 (Tables II and III)"
    assert found == {
        "k2/fig8": (["median", "p99", "p99.9", paper], True, True),
        "k2/fig11": ([*(f"p99.9 of rt{i}" for i in (1, 2)), paper], True, True),
        "k2/fig7": (["median latency", "median scheduler delay"], False, False),
        "k2-split/fig6": (["k2", "k2-max-sectors-4", "k2-split-4"], False, False),
    }
