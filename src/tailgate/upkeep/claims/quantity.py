# SPDX-License-Identifier: GPL-2.0-only
"""A measured number with its interval, and the arithmetic that keeps the interval.

Intervals of percentiles are 95 % (`ci_us` in `tailgate run --json`). A throughput in virtual time, a count
and a number of instructions are the same in every repetition: they are exact. A result of two quantities
has the interval of their unfavourable ends, which is wider than 95 % needs.
"""

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

#: What `how` says of a quantity whose ends are an interval, and of one that is the same in every repetition.
INTERVAL, EXACT = "interval", "exact"
ONE_RUN = "none: one run"
#: Runs of what the host's clock measures. The median of all runs lies between the least and the greatest of
#: six with a probability of 97 %, however they are distributed.
RUNS = 6


@dataclass(frozen=True)
class Quantity:
    """`value` between `low` and `high`. Without an interval both ends are the value.

    `how` is INTERVAL, EXACT, or "none: " and why there is no interval. `n`: samples behind it, if known.
    """

    value: float
    low: float
    high: float
    how: str
    n: int | None = None

    def __truediv__(self, other: "Quantity | float") -> "Quantity":
        """The ratio: lowest over highest to highest over lowest. Both must be positive or zero."""
        them = _quantity(other)
        return self._with(
            them,
            self.value / them.value,
            self.low / them.high,
            self.high / them.low if them.low else math.inf,
        )

    def __add__(self, other: "Quantity") -> "Quantity":
        return self._with(other, self.value + other.value, self.low + other.low, self.high + other.high)

    def __sub__(self, other: "Quantity | float") -> "Quantity":
        them = _quantity(other)
        return self._with(them, self.value - them.value, self.low - them.high, self.high - them.low)

    def _with(self, other: "Quantity", value: float, low: float, high: float) -> "Quantity":
        """A result of both. Where one has no interval, the result has none either."""
        how = next((q.how for q in (self, other) if q.how.startswith("none")), None)
        if how:
            low = high = value
        elif INTERVAL in (self.how, other.how):
            how = INTERVAL
        counts = [q.n for q in (self, other) if q.n is not None]
        return Quantity(value, low, high, how or EXACT, min(counts, default=None))


def rounded(value: float, digits: int = 4) -> str:
    """A number with this many significant digits, without an exponent: 10810, 0.046."""
    return f"{float(f'{value:.{digits}g}'):.15g}"


def exact(value: float, n: int | None = None) -> Quantity:
    """What every repetition gives again: counts, and what is deterministic in virtual time."""
    return Quantity(value, value, value, EXACT, n)


def once(value: float, n: int | None = None) -> Quantity:
    """What was measured once by the host's clock."""
    return Quantity(value, value, value, ONE_RUN, n)


def repeated(values: Sequence[float]) -> Quantity:
    """What was measured RUNS times by the host's clock: the median, between the least and the greatest."""
    return within(statistics.median(values), min(values), max(values), len(values))


def seconds(action: Callable[[], object]) -> Quantity:
    """The time that something takes, over RUNS runs."""

    def taken() -> float:
        begin = time.monotonic()
        action()
        return time.monotonic() - begin

    return repeated([taken() for _ in range(RUNS)])


def within(value: float, low: float | None, high: float | None, n: int | None = None) -> Quantity:
    """A value with its interval; an end of None is not known, which is the worst that it can be."""
    return Quantity(value, -math.inf if low is None else low, math.inf if high is None else high, INTERVAL, n)


def largest(some: Sequence[Quantity]) -> Quantity:
    """The largest value; its interval is from the largest lower end to the largest upper end."""
    return _extreme(some, max)


def smallest(some: Sequence[Quantity]) -> Quantity:
    """The smallest value; its interval is from the smallest lower end to the smallest upper end."""
    return _extreme(some, min)


def _extreme(some: Sequence[Quantity], choose: Callable[[float, float], float]) -> Quantity:
    def of_two(one: Quantity, other: Quantity) -> Quantity:
        ends = (choose(one.value, other.value), choose(one.low, other.low), choose(one.high, other.high))
        return one._with(other, *ends)

    return reduce(of_two, some)


def _quantity(given: Quantity | float) -> Quantity:
    return given if isinstance(given, Quantity) else exact(given)
