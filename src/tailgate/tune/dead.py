# SPDX-License-Identifier: GPL-2.0-only
"""Dead regions: parts of a scheduler's knob space in which no knob has an effect (the Kyber paper's G-3)."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tailgate.spec.grid import words
from tailgate.tune.search import Tried
from tailgate.tune.space import LEFT, Axis, Space

#: Least number of tried settings in a region that is reported.
LEAST = 4
#: Objectives that differ by less than this share count as equal.
ALIKE = 0.002


@dataclass(frozen=True)
class Region:
    """Settings of one scheduler with equal objectives: the first and the last place of each knob's values."""

    axes: tuple[Axis, ...]
    ends: tuple[tuple[int, int], ...]
    values: tuple[float, ...]
    tried: int

    @property
    def words(self) -> str:
        """As in `kyber: read_lat_nsec from 20us to 100ms with write_lat_nsec from 20us to 50ms`."""
        return f"{self.axes[0].scheduler}: " + " with ".join(
            _range(axis, *ends) for axis, ends in zip(self.axes, self.ends, strict=True)
        )


def _range(axis: Axis, first: int, last: int) -> str:
    name, values = axis.knob.name, axis.values
    if first == last:
        return f"{name} {words(name, values[first])}"
    if (first, last) == (0, len(values) - 1):
        return f"any {name}"
    return f"{name} from {words(name, values[first])} to {words(name, values[last])}"


def regions(space: Space, found: Sequence[Tried]) -> list[Region]:
    """The dead regions, the largest first. All tried settings in a region have equal objectives."""
    out = []
    for name, axes in space.axes.items():
        own = [t for t in found if t.setting.scheduler == name]
        if axes:
            out += list(_of(axes, own))
    return sorted(out, key=lambda r: -r.tried)


def _of(axes: Sequence[Axis], tried: Sequence[Tried]) -> Iterator[Region]:
    places = [tuple(a.values.index(t.setting.knobs.get(a.knob.name, LEFT)) for a in axes) for t in tried]
    left = set(range(len(tried)))
    # A setting that was tried for a short time only may lie in a region or bound it, but has no values to
    # report.
    while whole := [i for i in left if not tried[i].short]:
        first = min(whole)
        group = [i for i in sorted(left) if _alike(tried[first], tried[i])]
        left -= {first, *group}
        others = [places[i] for i in range(len(tried)) if i not in group]
        box = _box([places[i] for i in group], others)
        if box and box[1] >= LEAST:
            yield Region(tuple(axes), box[0], tried[first].values, box[1])


def _box(
    members: Sequence[tuple[int, ...]], others: Sequence[tuple[int, ...]]
) -> tuple[tuple[tuple[int, int], ...], int] | None:
    """The largest box around members, grown from one of them, with no other setting inside; its corners and
    its number of members.
    """
    best = None
    for start in members:
        corners = (start, start)
        # The box grows to the nearest member first, and never takes in a setting that is no member.
        for place in sorted(members, key=lambda p: sum(abs(a - b) for a, b in zip(p, start, strict=True))):
            low = tuple(map(min, corners[0], place))
            high = tuple(map(max, corners[1], place))
            if not any(_inside(o, low, high) for o in others):
                corners = (low, high)
        count = sum(_inside(m, *corners) for m in members)
        if best is None or count > best[1]:
            best = tuple(zip(*corners, strict=True)), count
    return best


def _inside(place: Sequence[int], low: Sequence[int], high: Sequence[int]) -> bool:
    return all(a <= p <= b for p, a, b in zip(place, low, high, strict=True))


def _alike(one: Tried, other: Tried) -> bool:
    """Whether two settings have equal objectives over the time that both were tried for."""
    pairs = list(zip(one.first, other.first, strict=True))
    if not (one.short or other.short):
        pairs += zip(one.values, other.values, strict=True)
    return all(math.isclose(a, b, rel_tol=ALIKE) for a, b in pairs)
