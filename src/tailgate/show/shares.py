# SPDX-License-Identifier: GPL-2.0-only
"""How flows share a drive, as rows of a table: each flow's rate, its slowdown against running alone, and the
total.
"""

from collections.abc import Iterable, Sequence

from tailgate.runs.points import Point
from tailgate.show.words import load_words, ms

#: Explanation of some columns.
NOTE = (
    "Slowed: how many times faster the flow is alone on the drive, without a scheduler. "
    "Shares: of the background flows, over the first one's."
)


def loads(points: Iterable[Point]) -> list[list[Point]]:
    """The points of each load that several flows share, in order."""
    found: dict[str | None, list[Point]] = {}
    for p in points:
        if p.variant is None and len(_flows(p)) > 1:
            found.setdefault(p.sweep.label, []).append(p)
    return list(found.values())


def _flows(point: Point) -> tuple[str, ...]:
    return (*point.real_time, *point.background)


def _is_none(point: Point) -> bool:
    """Whether the point has no scheduler and no limit of a cgroup."""
    return point.scheduler.name == "none" and not point.scheduler.cgroups


def _rate(point: Point, name: str) -> float:
    flow = point.flow(name)
    return flow.mib_s if flow else 0.0


def slowed(point: Point, name: str, points: Iterable[Point]) -> float | None:
    """How many times slower a flow is than alone without a scheduler; None if that was not measured.

    The run alone has the same job, drive and rate of the background.
    """
    rate = _rate(point, name)
    for p in points:
        if _load(p) == _load(point) and p.variant is None and _is_none(p) and _flows(p) == (name,) and rate:
            return _rate(p, name) / rate
    return None


def _load(point: Point) -> tuple[object, ...]:
    sweep = point.sweep
    return sweep.job, sweep.variables, sweep.drive, point.background_rate


def headings(here: Sequence[Point], points: Iterable[Point]) -> list[tuple[str, str]]:
    """The two heading lines of each column after the scheduler's, for one load; `points` are all points.

    The rate of the background has a column if there are several.
    """
    first, points = here[0], list(points)
    found = [("load", "")] if _several(here) else []
    found += [(name, key) for name in first.real_time for key in ("p50, ms", "p99, ms", "p99.9, ms")]
    for name in first.background:
        found.append((name, "MiB/s"))
        if _is_slowed(here, name, points):
            found.append((name, "slowed"))
    return [*found, ("shares", ""), ("all", "MiB/s"), ("all", "of none's"), ("CPU", "idle")]


def row(point: Point, here: Sequence[Point], points: Iterable[Point]) -> list[str]:
    """A point's cells in the order of `headings`."""
    points = list(points)
    cells = [load_words(point.background_rate)] if _several(here) else []
    for name in point.real_time:
        flow = point.flow(name)
        cells += [ms(flow.lat_us[key]) if flow else "none" for key in ("p50", "p99", "p99.9")]
    for name in point.background:
        cells.append(f"{_rate(point, name):.4g}")
        if _is_slowed(here, name, points):
            times = slowed(point, name, points)
            cells.append("–" if times is None else f"{times:.2f}")
    unit = _rate(point, point.background[0])
    cells.append(" : ".join(f"{_rate(point, name) / unit:.2f}" if unit else "–" for name in point.background))
    none = next((p.bg for p in here if _is_none(p) and p.background_rate == point.background_rate), None)
    rate = point.bg.mib_s if point.bg else 0.0
    of_none = f"{rate / none.mib_s:.2f}" if none and none.mib_s else "–"
    return [*cells, f"{rate:.4g}", of_none, f"{point.idle:.0%}"]


def _several(here: Sequence[Point]) -> bool:
    return len({p.background_rate for p in here}) > 1


def _is_slowed(here: Sequence[Point], name: str, points: Sequence[Point]) -> bool:
    """Whether the slowdown of this flow is known for at least one of these points."""
    return any(slowed(p, name, points) is not None for p in here)
