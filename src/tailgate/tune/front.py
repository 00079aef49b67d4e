# SPDX-License-Identifier: GPL-2.0-only
"""The Pareto front: settings of which none is better in every objective; and three of them by name."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev

from tailgate.runs.statistics import SEEDS_MIN, student_t
from tailgate.spec.scheduler import Knob as Value
from tailgate.tune.goal import ENDLESS, Goal, Question
from tailgate.tune.space import LEFT, Setting

PROFILES = ("latency", "balanced", "throughput")
#: Objectives that differ by at most this share count as equal on the front.
INDIFFERENT = 0.01
#: Stands in sentences for an infinite latency.
NONE_COMPLETED = "none completed"


@dataclass
class Candidate:
    """A setting with its objectives, in the order of the question, for each seed of its simulations."""

    setting: Setting
    runs: list[tuple[float, ...]] = field(default_factory=list)

    @property
    def values(self) -> tuple[float, ...]:
        """The mean of each objective over the seeds."""
        return tuple(fmean(of_one) for of_one in zip(*self.runs, strict=True))

    def interval(self, i: int) -> tuple[float, float] | None:
        """The 95 % interval of the mean of objective `i` over the seeds; None with fewer than SEEDS_MIN
        seeds.
        """
        own = [values[i] for values in self.runs]
        if len(own) < SEEDS_MIN or not all(map(math.isfinite, own)):
            return None
        half = student_t(len(own) - 1) * stdev(own) / math.sqrt(len(own))
        return fmean(own) - half, fmean(own) + half

    def ends(self, i: int) -> tuple[float, float]:
        """Lower and upper end of the interval of objective `i`; the mean twice where there is no interval."""
        return self.interval(i) or (self.values[i], self.values[i])

    def overlaps(self, other: "Candidate", objectives: Sequence[Goal]) -> bool:
        """Whether the intervals of two settings overlap in every objective."""
        for i in range(len(objectives)):
            one, its = self.interval(i), other.interval(i)
            if one and its and (one[1] < its[0] or its[1] < one[0]):
                return False
        return True


def keeps(candidate: Candidate, question: Question, limits: Sequence[float]) -> bool:
    """Whether a candidate keeps every limit; an interval is judged by its less favourable end."""
    ends = (candidate.ends(question.quantities.index(keep.quantity)) for keep in question.keeps)
    return all(
        keep.missed(low if keep.at_least else high, limit) <= 0
        for keep, (low, high), limit in zip(question.keeps, ends, limits, strict=True)
    )


def dominated(
    values: Sequence[float], others: Sequence[Sequence[float]], objectives: Sequence[Goal], slack: float = 0.0
) -> bool:
    """Whether one of the others is as good in every objective and better in one. With `slack`, it has to be
    better by this share in every objective.
    """

    def by(one: Sequence[float]) -> bool:
        pairs = list(zip(objectives, one, values, strict=True))
        if slack:
            return all(g.better(o, v * (1 - slack) if g.least else v * (1 + slack)) for g, o, v in pairs)
        return any(g.better(o, v) for g, o, v in pairs) and not any(g.better(v, o) for g, o, v in pairs)

    return any(by(one) for one in others)


def front(candidates: Sequence[Candidate], objectives: Sequence[Goal]) -> list[Candidate]:
    """A subset of the candidates: each candidate is matched, in every objective, by one of the subset.

    Differences of at most INDIFFERENT do not count; otherwise a front would have many settings that differ by
    chance. The best in the first objective comes first, and it stands for the settings equal to it.
    """

    def stand_for_all(some: Sequence[Candidate]) -> bool:
        return all(any(_as_good(one, c, objectives) for one in some) for c in candidates)

    found: list[Candidate] = []
    for candidate in sorted(candidates, key=lambda c: c.values[0] if objectives[0].least else -c.values[0]):
        if not any(_as_good(one, candidate, objectives) for one in found):
            found.append(candidate)
    # A later setting may match an earlier one in the first objective and be better in the others.
    for candidate in reversed(found):
        others = [c for c in found if c is not candidate]
        if stand_for_all(others):
            found = others
    return found


def _as_good(one: Candidate, other: Candidate, objectives: Sequence[Goal]) -> bool:
    """Whether `one` is at least as good in every objective, apart from differences of at most INDIFFERENT."""
    return all(
        not goal.better(b, a) or math.isclose(a, b, rel_tol=INDIFFERENT)
        for a, b, goal in zip(one.values, other.values, objectives, strict=True)
    )


def profiles(found: Sequence[Candidate], objectives: Sequence[Goal]) -> dict[str, Candidate]:
    """Three settings of the front by name; one setting may have several names.

    "latency" is the best in the first objective that is a latency, "throughput" the best in the first that is
    a rate; where all objectives are of one kind, the last objective stands for the missing kind. "balanced"
    is the nearest to the best of both: its distance to each is taken in octaves, as a share of the front's
    width. Ties are decided by the distance in octaves alone.
    """
    if not found:
        return {}
    latencies = [i for i, g in enumerate(objectives) if g.quantity.is_latency]
    rates = [i for i in range(len(objectives)) if i not in latencies]
    latency, rate = (latencies or rates[-1:])[0], (rates or latencies[-1:])[0]

    def octaves(i: int, candidate: Candidate) -> float:
        ends = [c.values[i] for c in found]
        best = min(ends) if objectives[i].least else max(ends)
        own, its = (min(max(v, 1e-9), ENDLESS) for v in (candidate.values[i], best))
        return abs(math.log2(own / its))

    def far(i: int, candidate: Candidate) -> float:
        span = max(octaves(i, c) for c in found)
        return octaves(i, candidate) / span if span else 0.0

    def best(i: int, then: int) -> Candidate:
        return min(found, key=lambda c: (far(i, c), far(then, c)))

    def unbalanced(candidate: Candidate) -> tuple[float, float]:
        near = math.hypot(far(latency, candidate), far(rate, candidate))
        return round(near, 6), math.hypot(octaves(latency, candidate), octaves(rate, candidate))

    balanced = min(found, key=unbalanced)
    return dict(zip(PROFILES, (best(latency, rate), balanced, best(rate, latency)), strict=True))


def price(values: Sequence[float], reference: Sequence[float], objectives: Sequence[Goal]) -> str:
    """The objectives of a setting beside those of a reference, in words: 'p99 of read 1.40 ms instead of
    15.2'.
    """
    return "; ".join(
        _latency(g, v, r) if g.quantity.is_latency else _rate(g, v, r)
        for g, v, r in zip(objectives, values, reference, strict=True)
    )


def _latency(goal: Goal, value: float, reference: float) -> str:
    name = f"{goal.quantity.figure.removeprefix('lat_us.')} of {goal.quantity.flow}"
    if math.isinf(value):
        return f"{name}: {NONE_COMPLETED}"
    in_ms = max(value, 0 if math.isinf(reference) else reference) >= 1000
    unit, size = ("ms", 1000.0) if in_ms else ("us", 1.0)
    its = NONE_COMPLETED if math.isinf(reference) else f"{reference / size:.3g}"
    return f"{name} {value / size:.3g} {unit} instead of {its}"


def _rate(goal: Goal, value: float, reference: float) -> str:
    if not reference:
        return f"{goal.quantity.flow}: {'some' if value else 'none'} instead of none"
    change = value / reference - 1
    sign = "+" if change > 0 else "\u2212" if round(100 * change) else "±"
    return f"{goal.quantity.flow} {sign}{abs(change):.0%}"


def sysfs(setting: Setting, queue: Mapping[str, Value], drive: str = "DRIVE") -> list[str]:
    """The commands that set a setting on a drive, as root, with the queue settings of its simulation.

    The commands choose `none` first, because a scheduler that is chosen again keeps its knobs. The kernel
    changes some queue settings when the scheduler changes, so the commands that write them come last.
    Without a scheduler requests have the drive's tags, and the kernel refuses more: `nr_requests` is only
    written if the search chose it.
    """
    base = f"/sys/block/{drive}/queue"
    own = setting.as_scheduler()
    if setting.scheduler == "none":
        queue = {name: value for name, value in queue.items() if name != "nr_requests"}
    files = {name: value for name, value in {**queue, **own.queue}.items() if value != LEFT}
    files |= {f"iosched/{name}": value for name, value in own.knobs.items()}
    return [
        *(f"echo {name} > {base}/scheduler" for name in dict.fromkeys(["none", setting.scheduler])),
        *(f"echo {value} > {base}/{file}" for file, value in files.items()),
    ]
