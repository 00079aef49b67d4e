# SPDX-License-Identifier: GPL-2.0-only
"""Whether two targets agree: compares the points of two runs of one experiment.

Throughputs agree within a tolerance. Percentiles agree within a tolerance, or if their 95 % intervals
overlap. Overlap alone proves little, because wide intervals always overlap. So each comparison also states
the smallest difference that it would have detected; where that is too large, there is no verdict.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

#: Tolerance for a throughput, as a share of the second run's.
THROUGHPUT = 0.05
#: Tolerance for a percentile whose intervals do not overlap, as a share of the second run's.
PERCENTILE = 0.10
#: The largest difference that may stay undetected for a percentile to count as agreeing, as a share of the
#: second run's. 10 % is the tolerance for percentiles. Only a tenth as many samples lie above the p99.9 as
#: above the p99, so its intervals are about three times as wide.
UNDETECTED_MAX: Mapping[str, float] = {"p50": 0.10, "p90": 0.10, "p99": 0.10, "p99.9": 0.25}

#: An element of `points`, or one of its `flows`, as `tailgate run --json` prints them.
JsonObject = Mapping[str, Any]
Verdict = Literal["agrees", "differs", "cannot tell"]


@dataclass(frozen=True)
class Comparison:
    """One figure of one point in both runs; latencies in us, throughput in MiB/s.

    `detectable` is the smallest difference that would have been detected, as a share of the second run's
    figure; infinity where an interval lacks an end. With the verdict `cannot tell` nothing is shown.
    """

    point: str
    figure: str
    first: float
    second: float
    verdict: Verdict
    detectable: float

    @property
    def agrees(self) -> bool:
        """Whether agreement is shown."""
        return self.verdict == "agrees"

    @property
    def ratio(self) -> float:
        """The first over the second."""
        return self.first / self.second if self.second else math.inf

    def __str__(self) -> str:
        """One line."""
        word = "DIFFERS" if self.verdict == "differs" else self.verdict
        least = "none" if math.isinf(self.detectable) else f"from {self.detectable:.0%}"
        return (
            f"{word:11} {self.ratio:6.3f}  {self.point}: {self.figure} {self.first:g} and {self.second:g}; "
            f"detectable: {least}"
        )


def compare(
    first: Sequence[JsonObject], second: Sequence[JsonObject], figures: Mapping[str, Sequence[str]]
) -> Iterator[Comparison]:
    """Compare the points that are in both runs (`points` of `tailgate run --json`).

    `figures` names the compared figures by flow: `mib_s`, or a key of UNDETECTED_MAX. For a flow that reads
    and writes, each direction is compared by itself: a small change of the mix may move the common median
    far.
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


def _parts(point: JsonObject, flow: str, figure: str) -> list[str]:
    """The names of the flows that are compared in place of `flow`."""
    directions = [f"{flow}.{d}" for d in ("read", "write") if _flow(point, f"{flow}.{d}") is not None]
    return directions if directions and figure != "mib_s" else [flow]


def _compare(words: str, flow: str, name: str, one: JsonObject, two: JsonObject) -> Comparison:
    verdict: Verdict
    if name == "mib_s":
        a, b = one["mib_s"], two["mib_s"]
        verdict = "agrees" if abs(a - b) <= THROUGHPUT * b else "differs"
        return Comparison(words, f"{flow}.mib_s", a, b, verdict, THROUGHPUT)
    a, b = one["lat_us"][name], two["lat_us"][name]
    (low_a, high_a), (low_b, high_b) = (_interval(flow, name) for flow in (one, two))
    # The intervals are apart if the first run's is lower, or higher, by more than the two half-widths that
    # face each other.
    half_widths = max(high_a - a + b - low_b, a - low_a + high_b - b)
    detectable = max(PERCENTILE, half_widths / b)
    overlap = low_a <= high_b and low_b <= high_a
    if abs(a - b) > PERCENTILE * b and not overlap:
        verdict = "differs"
    else:
        verdict = "agrees" if detectable <= UNDETECTED_MAX[name] else "cannot tell"
    return Comparison(words, f"{flow}.{name}", a, b, verdict, detectable)


def _interval(flow: JsonObject, name: str) -> tuple[float, float]:
    """The 95 % interval of a percentile in us; infinity where it has no end."""
    low, high = flow["ci_us"][name]
    return low, math.inf if high is None else high


def _key(point: JsonObject) -> tuple[object, ...]:
    return point["load"], point["label"], point["sweep"]["background_rate"], point["smp"]


def _words(point: JsonObject) -> str:
    bound = point["knobs"].get("inflight_max")
    name = point["scheduler"] + (f"-{bound}" if bound else "")
    sweep = point["sweep"]
    return f"{name} beside {sweep.get('op', 'all')}s at {sweep['background_rate']:.0%}"


def _flow(point: JsonObject, name: str) -> JsonObject | None:
    return next((f for f in point["flows"] if f["flow"] == name), None)
