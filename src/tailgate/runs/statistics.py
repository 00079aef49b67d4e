# SPDX-License-Identifier: GPL-2.0-only
"""What may be said from histograms of latencies: percentiles and 95 % intervals.

Percentiles are order statistics: the p-th of n samples is the sample of rank ceil(p n). Intervals within a
run are distribution-free, from the binomial distribution of the rank of the true quantile (H. A. David, Order
Statistics, section 7.1). Those across seeds come from how far the runs' own percentiles are apart
(independent replications: A. M. Law, Simulation Modeling and Analysis, section 9.4): samples within a run
depend on each other, runs do not. A sample is known as far as its bin, so an interval ends at edges of bins
or beyond: it is never narrower than the bin of the percentile.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from scipy.stats import binom, t

from tailgate.runs.histogram import Histogram, merge

#: The percentiles that results carry, as the keys of `lat_us` and `ci_us`.
PERCENTILES: Mapping[str, float] = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}
CONFIDENCE = 0.95
#: Bins have this many bits below the highest one of a latency in ns (fio's stat.c, FIO_IO_U_PLAT_BITS).
BIN_BITS = 6
#: With fewer seeds their spread says nothing, and the samples are pooled.
SEEDS_MIN = 3

Interval = tuple[float, float | None]


def samples_needed(p: float) -> int:
    """The samples from which a percentile has an upper end: p99 400, p99.9 4000, p99.99 40 000."""
    return round(4 / (1 - p))


def rank_interval(p: float, n: int) -> tuple[int, int | None]:
    """The ranks (1-based) between which the true p-quantile lies with 95 %.

    The number of samples below the quantile is binomial (n, p); each tail is left 2.5 %. The upper rank is
    None where there are too few samples for one.
    """
    tail = (1 - CONFIDENCE) / 2
    lower, upper = (int(k) for k in binom.ppf((tail, 1 - tail), n, p))
    return max(1, lower), upper + 1 if upper < n and n >= samples_needed(p) else None


def edges(value_us: float, dilation: int) -> tuple[float, float]:
    """The edges, in us, of the bin that a value of a histogram is the middle of.

    Bins are of dilated time in whole ns. Below 128 ns each has one ns, which is its value and its lower edge.
    """
    scale = 1000 * dilation
    ns = round(value_us * scale)
    width = 1 << max(0, ns.bit_length() - 1 - BIN_BITS)
    low = ns - width // 2
    return low / scale, (low + width) / scale


def interval(histogram: Histogram, p: float, dilation: int = 1) -> Interval:
    """The 95 % interval of a percentile within one run, in us; NaN and None without samples.

    It is from the lower edge of the lower rank's bin to the upper edge of the upper rank's.
    """
    if not histogram.n:
        return math.nan, None
    low, high = rank_interval(p, histogram.n)
    low_us, _ = edges(histogram.at_rank(low), dilation)
    return low_us, None if high is None else edges(histogram.at_rank(high), dilation)[1]


def interval_over_seeds(runs: Sequence[Histogram], p: float, dilation: int = 1) -> Interval:
    """The 95 % interval across runs with different seeds, in us: the pooled percentile and, to both sides,
    Student's t times the standard error of the mean of the runs' own percentiles, and at least to the edges
    of the percentile's bin.

    With fewer than SEEDS_MIN runs, the interval of the pooled samples.
    """
    runs = [r for r in runs if r.n]
    pooled = merge(runs)
    if len(runs) < SEEDS_MIN:
        return interval(pooled, p, dilation)
    own = np.array([r.percentile(p) for r in runs])
    half = student_t(len(runs) - 1) * float(own.std(ddof=1)) / math.sqrt(len(runs))
    middle = pooled.percentile(p)
    of_bin, least = edges(middle, dilation), edges(float(pooled.values_us[0]), dilation)[0]
    low = max(min(middle - half, of_bin[0]), least)
    return low, max(middle + half, of_bin[1]) if pooled.n >= samples_needed(p) else None


def student_t(freedom: int) -> float:
    """The quantile of Student's t that leaves 2.5 % above."""
    return float(t.ppf((1 + CONFIDENCE) / 2, freedom))
