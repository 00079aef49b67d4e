# SPDX-License-Identifier: GPL-2.0-only
"""Parts that all kinds of plots share: panel, colours, bars of 95 % intervals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tailgate.runs.points import Point, PointFlow
from tailgate.spec import paper
from tailgate.spec.plan import Run

#: Low to high load: distinguishable in grey, on white and on black.
COLOURS = ("#3b6fd4", "#2a9d8f", "#c9a227", "#d1495b")
PUBLISHED = "#9b5de5"
GREY = "#8a93a0"

#: A trace or a layout in plotly's format.
Trace = dict[str, Any]
Runs = Sequence[tuple[Run, Sequence[Point]]]
#: The paper's points by the load's label.
Published = Mapping[str | None, Sequence[paper.Published]]

_LAYOUT: Trace = {
    "margin": {"l": 38, "r": 8, "t": 8, "b": 30},
    "showlegend": False,
    "paper_bgcolor": "rgba(0,0,0,0)",
    "plot_bgcolor": "rgba(0,0,0,0)",
    "font": {"size": 11, "family": "inherit"},
    "hovermode": "closest",
    "dragmode": False,
}


@dataclass(frozen=True)
class Panel:
    """One plot. `about` describes it to readers who cannot see it.

    `y_linear` and `y_log` are the ranges of the latency axis (the second in decades), between which the
    reader can switch.
    """

    title: str
    about: str
    data: Sequence[Trace]
    own_layout: Trace
    note: str = ""
    y_linear: Sequence[float] | None = None
    y_log: Sequence[float] | None = None

    @property
    def figure(self) -> Trace:
        """The figure as plotly reads it."""
        return {"data": self.data, "layout": _LAYOUT | self.own_layout}


def interval_bars(flows: Sequence[PointFlow], key: str, colour: str) -> Trace:
    """The 95 % intervals of a percentile, in ms; a missing end is drawn at the value itself."""
    ends = [(f.lat_us[key], *f.ci_us[key]) for f in flows]
    return {
        "type": "data",
        "symmetric": False,
        "array": [((high if high is not None else v) - v) / 1000 for v, _, high in ends],
        "arrayminus": [(v - low) / 1000 for v, low, _ in ends],
        "thickness": 1,
        "width": 2,
        "color": colour,
    }


def labels(runs: Runs) -> list[str]:
    """The schedulers of all points, each once."""
    return list(dict.fromkeys(p.scheduler.label for _, points in runs for p in points))


def line_colour(all_labels: Sequence[str], label: str) -> str:
    """The colour of a scheduler's line. `all_labels` are the schedulers of all runs, so that colours
    agree.
    """
    palette = (*COLOURS, PUBLISHED, GREY)
    return palette[all_labels.index(label) % len(palette)]
