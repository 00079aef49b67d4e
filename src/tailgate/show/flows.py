# SPDX-License-Identifier: GPL-2.0-only
"""Each flow's throughput and p99, as rows of a table: for runs without a real-time flow, or where all flows
matter.
"""

from collections.abc import Sequence

from tailgate.runs.points import Point
from tailgate.show.words import digits, load_words, ms
from tailgate.spec.plan import Run

#: Explanation of a column's unit.
NOTE = "kIOPS: thousand requests a second."


def alone(run: Run, points: Sequence[Point]) -> bool:
    """Whether the points are shown as this table only: they have no plot, real-time flow or published
    figure.
    """
    return run.spec.plot == "none" and not any(p.real_time or p.published for p in points)


def headings(points: Sequence[Point]) -> list[tuple[str, str]]:
    """The two heading lines of each column after the scheduler's. The load has a column if there are
    several.
    """
    return [
        *([("load", "")] if _several(points) else []),
        *((name, key) for name in _names(points) for key in ("kIOPS", "MiB/s", "p99, ms")),
        ("CPU", "idle"),
    ]


def row(point: Point, points: Sequence[Point]) -> list[str]:
    """A point's cells in the order of `headings`; a dash for a flow that takes no part in its load."""
    cells = [load(point)] if _several(points) else []
    for name in _names(points):
        flow = point.flow(name)
        cells += [digits(flow.iops / 1000), digits(flow.mib_s), ms(flow.lat_us["p99"])] if flow else ["–"] * 3
    return [*cells, f"{point.idle:.0%}"]


def load(point: Point) -> str:
    """The load's label, or the load in words, and its rate if it is not full."""
    rate = "" if point.background_rate >= 1 else f", {load_words(point.background_rate)}"
    return (point.sweep.label or point.sweep.words) + rate


def _names(points: Sequence[Point]) -> list[str]:
    return list(dict.fromkeys(f.name for p in points for f in p.flows))


def _several(points: Sequence[Point]) -> bool:
    return len({load(p) for p in points}) > 1
