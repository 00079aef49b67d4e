# SPDX-License-Identifier: GPL-2.0-only
"""Figures in words, for tables and the report."""

import math

from tailgate.runs.statistics import Interval


def digits(value: float | None) -> str:
    """Three significant digits, but no exponent; a dash for no value or NaN, ∞ for infinity."""
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞"
    return f"{value:.{max(0, 2 - math.floor(math.log10(max(value, 0.001))))}f}" if value else "0"


def ms(us: float | None) -> str:
    """Microseconds as milliseconds with three significant digits."""
    return digits(None if us is None else us / 1000)


def interval_words(ci: Interval, n: int) -> str:
    """`12.9 to 13.4`, or `at least 12.9 (n 400)`."""
    low, high = ci
    if math.isnan(low):
        return "no samples"
    return f"at least {ms(low)} (n {n})" if high is None else f"{ms(low)} to {ms(high)}"


def load_words(background_rate: float) -> str:
    """A load as tables name it."""
    if background_rate >= 1:
        return "full"
    return f"{background_rate:.0%}"
