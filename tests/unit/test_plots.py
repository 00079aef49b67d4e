# SPDX-License-Identifier: GPL-2.0-only
"""The report's plots, from invented runs."""

import html
import json
import re
from collections.abc import Callable
from pathlib import Path

from tailgate.papers.answers import read_points
from tailgate.show import plots
from tailgate.spec.plan import Run

FIGURE = re.compile(r"<h3>(.*?)</h3>.*?<script[^>]*>(.*?)</script>", re.DOTALL)


def test_latency_over_sizes_has_a_panel_for_each_kind_of_load(
    fake_run: Callable[..., Run], tmp_path: Path
) -> None:
    run = fake_run(tmp_path, name="k2-split/section5-1", mode_name="sim")
    _, points = read_points(tmp_path, run)
    panels = {
        html.unescape(title): json.loads(data)["data"]
        for title, data in FIGURE.findall(plots.sizes([(run, points)], 0))
    }
    assert len(panels) == 6
    lines = panels["sim: random reads, think ms 0, attachment usb"]
    ours = [line for line in lines if not line["name"].endswith(", paper")]
    assert [line["name"] for line in ours] == [s.label for s in run.spec.schedulers]
    for line in ours:
        assert line["x"] == [4, 512]
        assert all(ms > 0 for ms in line["y"])
        assert line["name"] in plots.key_of_lines([(run, points)])
    paper = {line["name"]: (line["x"], line["y"]) for line in lines if line not in ours}
    assert paper == {"k2, paper": ([512], [8.0]), "k2-split-4, paper": ([512], [1.6])}
    others = [line["name"] for title, lines in panels.items() if "think ms 2" in title for line in lines]
    assert not any("paper" in name for name in others)


def test_the_tail_falls_from_all_to_the_slowest(fake_run: Callable[..., Run], tmp_path: Path) -> None:
    run = fake_run(tmp_path, name="k2-split/fig6", mode_name="sim")
    _, points = read_points(tmp_path, run)
    panels = [json.loads(data)["data"] for _, data in FIGURE.findall(plots.ccdf([(run, points)], 0))]
    assert len(panels) == 4
    for lines in panels:
        assert [line["name"] for line in lines] == ["k2", "k2-max-sectors-4", "k2-split-4"]
        for line in lines:
            assert line["y"][0] == 1
            assert line["y"] == sorted(line["y"], reverse=True)
            assert line["y"][-1] > 0
            assert line["x"] == sorted(line["x"])
