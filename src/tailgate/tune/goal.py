# SPDX-License-Identifier: GPL-2.0-only
"""The question of a search: figures to minimise or maximise, and limits that other figures must keep."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tailgate.base.errors import UsageError, one_of
from tailgate.runs.flow import Flow
from tailgate.runs.histogram import merge
from tailgate.runs.statistics import PERCENTILES

RATES = ("iops", "mib_s")
LATENCIES = ("mean", *PERCENTILES, "p99.99", "max")
FIGURES = (*RATES, *(f"lat_us.{name}" for name in LATENCIES))
REFERENCE = "none"
#: Stands for an infinite latency where a number is needed.
ENDLESS = 1e12

_FIGURE = r"(?P<flow>.+?)\.(?P<figure>iops|mib_s|lat_us\.\S+)"
_GOAL = re.compile(rf"\s*(?P<way>min|max)\s+{_FIGURE}\s*")
_KEEP = re.compile(rf"\s*{_FIGURE}\s*(?P<sign><=|>=)\s*(?P<number>[0-9.]+)\s*(?:\*\s*(?P<of>\S+))?\s*")


@dataclass(frozen=True)
class Quantity:
    """A figure of one flow, of all real-time flows ("rt") together, or of all others ("background") together.

    Rates of several flows are added; a latency is that of all their requests.
    """

    flow: str
    figure: str

    def __str__(self) -> str:
        return f"{self.flow}.{self.figure}"

    @property
    def is_latency(self) -> bool:
        """Whether the figure is a latency in us; otherwise it is a rate."""
        return self.figure not in RATES

    def of(self, flows: Sequence[Flow], members: Mapping[str, Sequence[str]]) -> float:
        """The value in one measurement; a latency is infinite if no request completed."""
        names = members[self.flow]
        # A flow that may read and write, but did only one of the two, is listed without `.read` or `.write`.
        found = [f for f in flows if f.name in names or f"{f.name}.{f.op}" in names]
        if not self.is_latency:
            return float(sum(getattr(f, self.figure) for f in found))
        histogram = merge(f.histogram for f in found)
        name = self.figure.removeprefix("lat_us.")
        if not histogram.n:
            return float("inf")
        if name in ("mean", "max"):
            return histogram.mean_us if name == "mean" else histogram.max_us
        return histogram.percentile(float(name[1:]) / 100)


@dataclass(frozen=True)
class Goal:
    """A quantity to minimise (`least`) or to maximise."""

    quantity: Quantity
    least: bool

    def better(self, one: float, other: float) -> bool:
        """Whether one value is better than the other."""
        return one < other if self.least else one > other


@dataclass(frozen=True)
class Constraint:
    """A quantity with a limit: a number, or a multiple of what the scheduler `of` gives at its defaults."""

    quantity: Quantity
    at_least: bool
    number: float
    of: str | None

    def __str__(self) -> str:
        times = f" * {self.of}" if self.of else ""
        return f"{self.quantity} {'>=' if self.at_least else '<='} {self.number:g}{times}"

    def limit(self, reference: Mapping[str, float]) -> float:
        """The limit. `reference` is the quantity's value under each scheduler that limits refer to."""
        return self.number * (reference[self.of] if self.of else 1.0)

    def missed(self, value: float, limit: float) -> float:
        """By which share of the limit a value misses it; 0 or less if the limit is kept."""
        if math.isinf(value) or math.isinf(limit):
            return 0.0 if value == limit or (value > limit) == self.at_least else 1.0
        return (limit - value if self.at_least else value - limit) / max(limit, 1e-9)


@dataclass(frozen=True)
class Question:
    """Goals and limits. Each limited quantity is an objective too, as reaching a goal may cost it."""

    goals: tuple[Goal, ...]
    keeps: tuple[Constraint, ...]

    @property
    def objectives(self) -> tuple[Goal, ...]:
        """The goals and the limited quantities, each quantity once. The search optimises all of them."""
        kept = [Goal(k.quantity, not k.at_least) for k in self.keeps]
        found: dict[Quantity, Goal] = {}
        for goal in (*self.goals, *kept):
            found.setdefault(goal.quantity, goal)
        return tuple(found.values())

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        """The quantities of the objectives, in their order."""
        return tuple(g.quantity for g in self.objectives)

    @property
    def references(self) -> tuple[str, ...]:
        """The schedulers that are simulated at their defaults: `none`, and those that limits refer to."""
        return tuple(dict.fromkeys([REFERENCE, *(k.of for k in self.keeps if k.of)]))

    def limits(self, references: Mapping[str, Sequence[float]]) -> tuple[float, ...]:
        """The value of each limit. `references` are the quantities of each scheduler that limits refer to."""
        places = {q: i for i, q in enumerate(self.quantities)}
        return tuple(
            keep.limit({name: values[places[keep.quantity]] for name, values in references.items()})
            for keep in self.keeps
        )

    def missed(self, values: Sequence[float], limits: Sequence[float]) -> tuple[float, ...]:
        """By which share of each limit the quantities miss it; 0 or less where the limit is kept."""
        places = {q: i for i, q in enumerate(self.quantities)}
        return tuple(
            keep.missed(values[places[keep.quantity]], limit)
            for keep, limit in zip(self.keeps, limits, strict=True)
        )


def question(goals: Sequence[str], keeps: Sequence[str], flows: Sequence[str]) -> Question:
    """The question in the texts of `--goal` and `--keep`. `flows` are the names of flows. UsageError."""
    asked = Question(tuple(_goal(t, flows) for t in goals), tuple(_keep(t, flows) for t in keeps))
    if len(asked.objectives) < 2:
        raise UsageError(
            "a goal alone has no price: say what must be kept beside it, as in "
            f'--keep "{flows[-1]}.iops >= 0.8 * none", or give a second --goal'
        )
    return asked


def _quantity(found: re.Match[str], flows: Sequence[str], option: str) -> Quantity:
    if found["flow"] not in flows:
        raise UsageError(f"{option}: there is no flow {found['flow']}; expected {one_of(flows)}")
    if found["figure"] not in FIGURES:
        raise UsageError(f"{option}: there is no figure {found['figure']}; expected {one_of(FIGURES)}")
    return Quantity(found["flow"], found["figure"])


def _goal(text: str, flows: Sequence[str]) -> Goal:
    if not (found := _GOAL.fullmatch(text)):
        raise UsageError(f'--goal: expected "min FLOW.FIGURE" or "max FLOW.FIGURE", got "{text}"')
    return Goal(_quantity(found, flows, "--goal"), found["way"] == "min")


def _keep(text: str, flows: Sequence[str]) -> Constraint:
    if not (found := _KEEP.fullmatch(text)):
        raise UsageError(f'--keep: expected "FLOW.FIGURE >= NUMBER" or "... >= NUMBER * none", got "{text}"')
    try:
        number = float(found["number"])
    except ValueError as e:
        raise UsageError(f"--keep: expected a number, got {found['number']}") from e
    return Constraint(_quantity(found, flows, "--keep"), found["sign"] == ">=", number, found["of"])
