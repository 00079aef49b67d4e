# SPDX-License-Identifier: GPL-2.0-only
"""Figures of a drive as seen from outside: loads, each with one kind of request, and their figures."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tailgate.runs.flow import Flow
from tailgate.runs.histogram import Histogram

READS, WRITES = "probe/reads", "probe/writes"
PERCENTILES = (0.02, 0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 0.9, 0.97, 0.99, 0.999)
#: Least number of samples above a percentile for it to be used.
BEYOND = 8
#: A request is late if its latency is more than LATE times the median.
LATE = 2.5


@dataclass(frozen=True)
class ProbeLoad:
    """One load of one experiment of the probe."""

    experiment: str
    label: str


@dataclass(frozen=True)
class FigureName:
    """A figure of a load: `iops`, `mean` or a percentile such as `p97` in us, of one flow."""

    flow: str
    figure: str


#: The figures of one load.
Figures = Mapping[FigureName, float]
#: The figures of each load.
Probed = Mapping[ProbeLoad, Figures]


def figures(flows: Sequence[Flow]) -> dict[FigureName, float]:
    """The figures of each flow: IOPS, the mean and every percentile with at least BEYOND samples above it."""
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
    """`share`: the share of requests that are late; `late_us`: their mean latency less the median, in us."""

    share: float
    late_us: float


def tail(histogram: Histogram) -> Tail:
    """The tail of a load with one request outstanding; (0, 0) if no request is late."""
    median = histogram.percentile(0.5)
    late = histogram.values_us > LATE * median
    count = float(histogram.counts[late].sum())
    if not count:
        return Tail(0.0, 0.0)
    sum_us = float((histogram.values_us[late] * histogram.counts[late]).sum())
    return Tail(count / histogram.n, sum_us / count - median)


def ratios(measured: Probed, model: Probed) -> Iterator[tuple[ProbeLoad, FigureName, float]]:
    """For each measured figure the logarithm of the model's figure over it; 1.0 where the model has none."""
    for load, of_load in measured.items():
        for name, value in of_load.items():
            own = model[load].get(name, 0.0)
            yield load, name, math.log(own / value) if own > 0 and value > 0 else 1.0
