# SPDX-License-Identifier: GPL-2.0-only
"""Percentiles and intervals against their definitions, and against scipy."""

import bisect
import itertools
import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from tailgate.runs import statistics as analysis
from tailgate.runs.histogram import Histogram, from_fio, from_ns, merge, rank

SAMPLES = st.lists(st.integers(1, 500), min_size=1, max_size=300)
SHARES = st.sampled_from([0.01, 0.5, 0.9, 0.99, 0.999, 1.0])


def histogram(samples: list[int]) -> Histogram:
    values, counts = np.unique(np.array(samples, dtype=float), return_counts=True)
    return Histogram(values, counts.astype(np.int64), float(np.mean(samples)), float(max(samples)))


@given(SAMPLES, SHARES)
def test_percentile_is_an_order_statistic(samples: list[int], p: float) -> None:
    expected = np.quantile(samples, p, method="inverted_cdf")
    assert histogram(samples).percentile(p) == expected


@given(SAMPLES)
def test_percentiles_ascend_and_are_samples(samples: list[int]) -> None:
    h = histogram(samples)
    values = [h.percentile(p) for p in (0.01, 0.5, 0.9, 0.99, 0.999, 1.0)]
    assert values == sorted(values)
    assert set(values) <= set(samples)
    assert values[-1] == max(samples)


@given(st.lists(SAMPLES, min_size=1, max_size=5))
def test_merging_is_pooling(runs: list[list[int]]) -> None:
    merged = merge([histogram(r) for r in runs])
    pooled = histogram([s for r in runs for s in r])
    assert merged.values_us.tolist() == pooled.values_us.tolist()
    assert merged.counts.tolist() == pooled.counts.tolist()
    assert merged.mean_us == pytest.approx(pooled.mean_us)
    assert merged.max_us == pooled.max_us


@given(st.integers(1, 20_000), st.sampled_from([0.5, 0.9, 0.99, 0.999]))
def test_rank_interval_covers(n: int, p: float) -> None:
    low, high = analysis.rank_interval(p, n)
    # The quantile lies above the sample of rank low unless fewer than low samples lie below it.
    assert binom.cdf(low, n, p) >= 0.025 - 1e-9
    assert low == 1 or binom.cdf(low - 1, n, p) <= 0.025 + 1e-9
    if high is not None:
        assert binom.cdf(high - 1, n, p) >= 0.975 - 1e-9
        assert binom.cdf(high - 2, n, p) <= 0.975 + 1e-9
        assert low <= rank(p, n) <= high <= n


@pytest.mark.parametrize("n", [1, 2, 40, 400, 1200])
@pytest.mark.parametrize("p", [Fraction(1, 2), Fraction(9, 10), Fraction(99, 100), Fraction(999, 1000)])
def test_rank_interval_by_exact_sums(n: int, p: Fraction) -> None:
    """Against the definition, in whole numbers: the least k with P(X <= k) of at least 2.5 % and 97.5 %."""
    cumulative = list(itertools.accumulate(math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)))
    low, high = (bisect.bisect_left(cumulative, tail) for tail in (Fraction(1, 40), Fraction(39, 40)))
    found_low, found_high = analysis.rank_interval(float(p), n)
    assert found_low == max(1, low)
    assert found_high == (high + 1 if n >= analysis.samples_needed(float(p)) else None)


@pytest.mark.parametrize(("p", "needed"), [(0.99, 400), (0.999, 4000), (0.9999, 40_000)])
def test_upper_end_needs_samples(p: float, needed: int) -> None:
    assert analysis.samples_needed(p) == needed
    assert analysis.rank_interval(p, needed)[1] is not None
    assert analysis.rank_interval(p, needed - 1)[1] is None


def test_interval_holds_the_true_quantile_19_times_of_20() -> None:
    random = np.random.default_rng(5)
    true = -math.log(0.01)
    held = 0
    for _ in range(400):
        low, high = analysis.interval(histogram_of(random.exponential(1.0, 1000)), 0.99)
        assert high is not None
        held += low <= true <= high
    assert 0.92 <= held / 400 <= 0.985


def histogram_of(samples: npt.NDArray[np.float64]) -> Histogram:
    values, counts = np.unique(samples, return_counts=True)
    return Histogram(values, counts.astype(np.int64), float(samples.mean()), float(samples.max()))


def test_interval_over_seeds_sees_what_differs_between_them() -> None:
    random = np.random.default_rng(3)
    alike = [histogram_of(random.exponential(1.0, 2000)) for _ in range(5)]
    apart = [histogram_of(random.exponential(scale, 2000)) for scale in (0.5, 0.8, 1.0, 1.2, 1.5)]
    widths = []
    for runs in (alike, apart):
        low, high = analysis.interval_over_seeds(runs, 0.99)
        assert high is not None
        assert low <= merge(runs).percentile(0.99) <= high
        widths.append(high - low)
    assert widths[1] > 2 * widths[0]


def test_interval_over_four_seeds_holds_the_truth_as_often_as_it_says() -> None:
    """Runs that each have a pace of their own, as clusters give them: samples alone would say too much."""
    random = np.random.default_rng(5)
    paces = random.uniform(0.7, 1.3, (400, 4))
    many = np.concatenate([random.exponential(pace, 2000) for pace in random.uniform(0.7, 1.3, 500)])
    true, held = float(np.quantile(many, 0.9)), 0
    for row in paces:
        low, high = analysis.interval_over_seeds(
            [histogram_of(random.exponential(pace, 500)) for pace in row], 0.9
        )
        assert high is not None
        held += low <= true <= high
    assert 0.92 <= held / 400 <= 0.985


@pytest.mark.parametrize(("freedom", "value"), [(2, 4.303), (3, 3.182), (7, 2.365), (30, 2.042)])
def test_students_t_is_that_of_the_tables(freedom: int, value: float) -> None:
    assert analysis.student_t(freedom) == pytest.approx(value, abs=0.0005)


@given(st.lists(SAMPLES, min_size=3, max_size=4))
def test_interval_over_seeds_holds_the_pooled_percentile(runs: list[list[int]]) -> None:
    histograms = [histogram(r) for r in runs]
    low, high = analysis.interval_over_seeds(histograms, 0.5)
    assert analysis.edges(min(s for r in runs for s in r), 1)[0] <= low <= merge(histograms).percentile(0.5)
    assert high is None or low <= high


@given(st.integers(1, 2**40), st.sampled_from([1, 5, 20]))
def test_the_edges_are_those_of_fios_bin(ns: int, dilation: int) -> None:
    """stat.c, plat_val_to_idx() and plat_idx_to_val(): seven bits decide, and the middle is told."""
    dropped = max(0, ns.bit_length() - 7)
    least = ns >> dropped << dropped
    middle = least + 2**dropped // 2
    scale = 1000 * dilation
    low, high = analysis.edges(middle / scale, dilation)
    assert (low, high) == (least / scale, (least + 2**dropped) / scale)
    assert low * scale == pytest.approx(least)
    assert (high - low) * 64 <= low * 1.000001 or ns < 128


@pytest.mark.parametrize("seeds", [1, 2, 3, 6])
def test_an_interval_has_the_bin_of_its_percentile(seeds: int) -> None:
    """Where all percentiles are in one bin, it says no more than the bin does."""
    runs = [from_ns([428_032], [5000], 428_032, 428_032, 1) for _ in range(seeds)]
    assert analysis.interval_over_seeds(runs, 0.99) == (425.984, 430.08)
    dilated = [from_ns([428_032], [5000], 428_032, 428_032, 4) for _ in range(seeds)]
    assert analysis.interval_over_seeds(dilated, 0.99, 4) == (425.984 / 4, 430.08 / 4)


def test_an_interval_is_from_edge_to_edge_of_the_bins_of_its_ranks() -> None:
    run = from_ns([423_936, 428_032, 432_128], [40, 20, 40], 428_032, 432_128, 1)
    assert analysis.interval(run, 0.5) == (421.888, 434.176)


def test_two_seeds_are_pooled() -> None:
    runs = [histogram(list(range(1, 500))), histogram(list(range(1, 500)))]
    assert analysis.interval_over_seeds(runs, 0.99) == analysis.interval(merge(runs), 0.99)


def test_fio_bins_are_undilated() -> None:
    h = from_fio({"bins": {"4000": 1, "2000": 3, "9000": 0}, "mean": 2500.0, "max": 4100}, 2)
    assert h.values_us.tolist() == [1.0, 2.0]
    assert h.counts.tolist() == [3, 1]
    assert (h.mean_us, h.max_us) == (1.25, 2.05)


def test_no_samples() -> None:
    empty = merge([])
    assert empty.n == 0
    assert math.isnan(empty.percentile(0.5))
    assert analysis.interval_over_seeds([empty, empty, empty], 0.99)[1] is None
