# SPDX-License-Identifier: GPL-2.0-only
"""Histograms of latencies: counts over the values of bins.

fio's json+ output counts completions in bins whose relative width is at most 1.6 % (64 to an octave), and
tells the middle of each; so does the simulator.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Histogram:
    """Counts of latencies: `values_us` ascending and distinct, `counts` above zero, of the same length."""

    values_us: npt.NDArray[np.float64]
    counts: npt.NDArray[np.int64]
    mean_us: float
    max_us: float

    @property
    def n(self) -> int:
        """The number of samples."""
        return int(self.counts.sum())

    def percentile(self, p: float) -> float:
        """The sample of rank ceil(p n), in us; NaN without samples. 0 < p <= 1."""
        return self.at_rank(rank(p, self.n)) if self.n else math.nan

    def at_rank(self, r: int) -> float:
        """The r-th smallest sample (1 <= r <= n), in us."""
        return float(self.values_us[np.searchsorted(np.cumsum(self.counts), r)])


def rank(p: float, n: int) -> int:
    """ceil(p n), at least 1; rounding errors such as 0.99 * 100 > 99 do not raise it."""
    return max(1, math.ceil(p * n - 1e-9 * n))


def from_ns(
    values_ns: Sequence[int], counts: Sequence[int], mean_ns: float, max_ns: float, dilation: int
) -> Histogram:
    """A histogram in undilated microseconds from ascending values in ns of dilated time, and their counts."""
    scale = 1000.0 * dilation
    return Histogram(
        np.array(values_ns, dtype=np.float64) / scale,
        np.array(counts, dtype=np.int64),
        mean_ns / scale,
        max_ns / scale,
    )


def from_fio(clat_ns: Mapping[str, object], dilation: int) -> Histogram:
    """A histogram from the `clat_ns` object of fio's json+ output, in undilated microseconds."""
    bins = clat_ns.get("bins", {})
    assert isinstance(bins, Mapping)
    pairs = sorted((int(value), int(count)) for value, count in bins.items() if int(count))
    mean, top = clat_ns.get("mean", 0.0), clat_ns.get("max", 0)
    assert isinstance(mean, (int, float))
    assert isinstance(top, (int, float))
    return from_ns([value for value, _ in pairs], [count for _, count in pairs], mean, top, dilation)


def merge(parts: Iterable[Histogram]) -> Histogram:
    """One histogram of all samples of several histograms."""
    parts = [p for p in parts if p.n]
    if not parts:
        return Histogram(np.empty(0), np.empty(0, dtype=np.int64), math.nan, math.nan)
    values, where = np.unique(np.concatenate([p.values_us for p in parts]), return_inverse=True)
    counts = np.zeros(len(values), dtype=np.int64)
    np.add.at(counts, where, np.concatenate([p.counts for p in parts]))
    total = sum(p.n for p in parts)
    return Histogram(
        values, counts, sum(p.mean_us * p.n for p in parts) / total, max(p.max_us for p in parts)
    )


def merge_some(parts: Iterable[Histogram | None]) -> Histogram | None:
    """One histogram of all samples of those that are not None; None if all are."""
    known = [p for p in parts if p is not None]
    return merge(known) if known else None
