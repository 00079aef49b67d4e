# SPDX-License-Identifier: GPL-2.0-only
"""Do two targets tell the same story? Compares the points of two runs of one experiment."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: Throughput may differ by so much, relative to the second run's.
THROUGHPUT = 0.05
#: A percentile may differ by so much, or its intervals overlap.
PERCENTILE = 0.10

Point = Mapping[str, Any]


@dataclass(frozen=True)
class Comparison:
    """One figure of one point in both runs; latencies in us, throughput in MiB/s."""

    point: str
    figure: str
    first: float
    second: float
    agrees: bool

    @property
    def ratio(self) -> float:
        """The first over the second."""
        return self.first / self.second if self.second else math.inf

    def __str__(self) -> str:
        """One line."""
        word = "agrees" if self.agrees else "DIFFERS"
        return f"{word:8} {self.ratio:6.3f}  {self.point}: {self.figure} {self.first:g} and {self.second:g}"


def compare(
    first: Sequence[Point], second: Sequence[Point], figures: Mapping[str, Sequence[str]]
) -> Iterator[Comparison]:
    """Compare the points that both have (`points` of `tailgate run --json`).

    `figures` names by flow what is compared: `mib_s`, or a percentile such as `p99`. Percentiles of a flow
    that reads and writes are compared for each: between the two, a small shift moves a median far.
    """
    others = {_key(p): p for p in second}
    for point in first:
        other = others.get(_key(point))
        if other is None:
            continue
        for flow, names in figures.items():
            for name in names:
                for part in _parts(point, flow, name):
                    one, two = (_flow(p, part) for p in (point, other))
                    if one is not None and two is not None:
                        yield _compare(_words(point), part, name, one, two)


def _parts(point: Point, flow: str, figure: str) -> list[str]:
    """The flows whose figure stands for that of `flow`."""
    directions = [f"{flow}.{d}" for d in ("read", "write") if _flow(point, f"{flow}.{d}") is not None]
    return directions if directions and figure != "mib_s" else [flow]


def _compare(words: str, flow: str, name: str, one: Point, two: Point) -> Comparison:
    if name == "mib_s":
        a, b = one["mib_s"], two["mib_s"]
        return Comparison(words, f"{flow}.mib_s", a, b, abs(a - b) <= THROUGHPUT * b)
    a, b = one["lat_us"][name], two["lat_us"][name]
    close = abs(a - b) <= PERCENTILE * b
    return Comparison(words, f"{flow}.{name}", a, b, close or _overlap(one, two, name))


def _overlap(one: Point, two: Point, name: str) -> bool:
    intervals = [flow["ci_us"].get(name) for flow in (one, two)]
    if None in intervals:
        return False
    (low, high), (other_low, other_high) = (
        (low, math.inf if high is None else high) for low, high in intervals
    )
    return bool(low <= other_high and other_low <= high)


def _key(point: Point) -> tuple[object, ...]:
    sweep = point["sweep"]
    return (
        point["scheduler"],
        point["knobs"].get("inflight_max"),
        tuple(sorted(sweep.items(), key=str)),
    )


def _words(point: Point) -> str:
    bound = point["knobs"].get("inflight_max")
    name = point["scheduler"] + (f"-{bound}" if bound else "")
    sweep = point["sweep"]
    return f"{name} beside {sweep.get('op', 'all')}s at {sweep['background_rate']:.0%}"


def _flow(point: Point, name: str) -> Point | None:
    return next((f for f in point["flows"] if f["flow"] == name), None)
