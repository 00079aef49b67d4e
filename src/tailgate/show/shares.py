# SPDX-License-Identifier: GPL-2.0-only
"""How flows share a drive, as rows of a table: how fast each is, how much slower than alone, all together."""

from collections.abc import Iterable, Sequence

from tailgate.runs.points import Point
from tailgate.show.words import load_words, ms

#: What some columns mean.
NOTE = (
    "Slowed: how many times faster the flow is alone on the drive, without a scheduler. "
    "Shares: of the background flows, over the first one's."
)


def loads(points: Iterable[Point]) -> list[list[Point]]:
    """The points of each load that flows share, in order."""
    found: dict[str | None, list[Point]] = {}
    for p in points:
        if p.variant is None and len(_flows(p)) > 1:
            found.setdefault(p.sweep.label, []).append(p)
    return list(found.values())


def _flows(point: Point) -> tuple[str, ...]:
    return (*point.real_time, *point.background)


def _is_none(point: Point) -> bool:
    """Whether nothing is between the flows and the drive."""
    return point.scheduler.name == "none" and not point.scheduler.cgroups


def _rate(point: Point, name: str) -> float:
    flow = point.flow(name)
    return flow.mib_s if flow else 0.0


def slowed(point: Point, name: str, points: Iterable[Point]) -> float | None:
    """How many times slower a flow is than alone without a scheduler; None if that was not measured.

    Alone it has the same job, on the same drive, at the same rate of the background.
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
    """The columns' two lines for the points of one load, beside the scheduler's; `points` are all.

    The rate of the background is told where there are several.
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
    """Whether it is known of one of these points at least."""
    return any(slowed(p, name, points) is not None for p in here)
