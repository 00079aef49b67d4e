# SPDX-License-Identifier: GPL-2.0-only
"""Waits for a file system, as rows of a table: the real-time task in fdatasync, the most blocked task."""

from collections.abc import Sequence

from tailgate.runs.points import Point
from tailgate.show.words import ms

#: Explanation of the last columns.
NOTE = "Blocked is a task that no signal wakes (state D), from going to sleep until it is woken."


def matter(points: Sequence[Point]) -> bool:
    """Whether a real-time task uses a file system at these points."""
    return any(p.blocked and p.real_time for p in points)


def flows(points: Sequence[Point]) -> list[str]:
    """The flows that have a column, the first real-time one first."""
    return list(dict.fromkeys(name for p in points for name in (*p.real_time, *p.background)))


def headings(points: Sequence[Point]) -> list[tuple[str, str]]:
    """The two heading lines of each column after the scheduler's."""
    return [
        ("fdatasync", "n"),
        *((key, "ms") for key in ("p50", "p99", "max")),
        *((name, "MiB/s") for name in flows(points)),
        ("longest", "blocked, s"),
        ("which", "task"),
        ("CPU", "idle"),
    ]


def row(point: Point, points: Sequence[Point]) -> list[str]:
    """A point's cells in the order of `headings`."""
    sync = point.flow(f"{point.real_time[0]}.sync") if point.real_time else None
    cells = [str(sync.histogram.n if sync else 0)]
    cells += [ms(sync.lat_us[key]) if sync else "none" for key in ("p50", "p99", "max")]
    for name in flows(points):
        flow = point.flow(name)
        cells.append(f"{flow.mib_s:.3g}" if flow else "0")
    blocked = point.blocked
    cells += [f"{blocked.us / 1e6:.3f}", blocked.task] if blocked else ["", ""]
    return [*cells, f"{point.idle:.0%}"]
