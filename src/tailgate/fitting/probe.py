# SPDX-License-Identifier: GPL-2.0-only
"""What a drive shows of itself from outside: loads, each with one kind of request, and their figures."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tailgate.runs.flow import Flow
from tailgate.runs.histogram import Histogram

READS, WRITES = "probe/reads", "probe/writes"
PERCENTILES = (0.02, 0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 0.9, 0.97, 0.99, 0.999)
#: A percentile counts if so many requests took longer.
BEYOND = 8
#: A request is late if it takes so many times the median.
LATE = 2.5


@dataclass(frozen=True)
class ProbeLoad:
    """A load of a probe."""

    experiment: str
    label: str


@dataclass(frozen=True)
class FigureName:
    """A figure of a load: `iops`, `mean` or a percentile such as `p97` in us, of one flow."""

    flow: str
    figure: str


#: The figures of one load.
Figures = Mapping[FigureName, float]
#: Those of all loads.
Probed = Mapping[ProbeLoad, Figures]


def figures(flows: Sequence[Flow]) -> dict[FigureName, float]:
    """The figures of a load's flows."""
    found: dict[FigureName, float] = {}
    for flow in flows:
        if not flow.histogram.n:
            continue
        found[FigureName(flow.name, "iops")] = flow.iops
        found[FigureName(flow.name, "mean")] = flow.histogram.mean_us
        for p in PERCENTILES:
            if flow.histogram.n * (1 - p) >= BEYOND:
                found[FigureName(flow.name, f"p{100 * p:g}")] = flow.histogram.percentile(p)
    return found


@dataclass(frozen=True)
class Tail:
    """The share of requests that are late, and by how much more than the median, us."""

    share: float
    late_us: float


def tail(histogram: Histogram) -> Tail:
    """The tail of one request at a time; no request is late: (0, 0)."""
    median = histogram.percentile(0.5)
    late = histogram.values_us > LATE * median
    count = float(histogram.counts[late].sum())
    if not count:
        return Tail(0.0, 0.0)
    sum_us = float((histogram.values_us[late] * histogram.counts[late]).sum())
    return Tail(count / histogram.n, sum_us / count - median)


def ratios(measured: Probed, model: Probed) -> Iterator[tuple[ProbeLoad, FigureName, float]]:
    """The logarithm of the model's figure over the measured one; one that the model lacks is e times off."""
    for load, of_load in measured.items():
        for name, value in of_load.items():
            own = model[load].get(name, 0.0)
            yield load, name, math.log(own / value) if own > 0 and value > 0 else 1.0
