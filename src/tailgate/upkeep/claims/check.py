# SPDX-License-Identifier: GPL-2.0-only
"""Verdicts from claims and stored results; nothing is measured.

A claim holds where the unfavourable end of a result's interval does; where there is no interval, the point
decides. A result that no claim and no figure declares is refused. What was measured on held-out drives drawn
before their law was last changed counts as not measured.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from tailgate.base.errors import UsageError
from tailgate.upkeep.claims.model import Claim, Figures, Missed, Moved, Topic, limits, matches
from tailgate.upkeep.claims.quantity import INTERVAL, exact, rounded
from tailgate.upkeep.claims.results import Result, Stored

#: A claim over at least this many results is shown with their median and the worst of them.
MANY = 8


@dataclass(frozen=True)
class Verdict:
    """One claim beside one result."""

    claim: Claim
    result: Result

    @property
    def holds(self) -> bool:
        """Whether the unfavourable end of the interval keeps the bound."""
        return limits(self.claim.bound).hold(self.result.figure.quantity)

    @property
    def misses_by_interval(self) -> bool:
        """Whether the value keeps the bound and only the unfavourable end of its interval does not."""
        value = self.result.figure.quantity.value
        return not self.holds and limits(self.claim.bound).hold(exact(value))

    @property
    def margin(self) -> float:
        """How far the unfavourable end is from the bound; negative where it is beyond."""
        return -limits(self.claim.bound).miss(self.result.figure.quantity)

    @property
    def margin_of_value(self) -> float:
        """How far the value is from the bound; negative where it is beyond."""
        return -limits(self.claim.bound).miss(exact(self.result.figure.quantity.value))


@dataclass(frozen=True)
class Broken:
    """A bound that was moved or withdrawn, and that a result still breaks, though it keeps today's."""

    entry: Claim | Figures
    moved: Moved
    result: Result


@dataclass(frozen=True)
class Report:
    """All verdicts.

    `missing`: (claim, pattern, reason) of what was not measured. `needless`: reasons that no miss needs.
    """

    verdicts: tuple[Verdict, ...]
    broken: tuple[Broken, ...]
    missing: tuple[tuple[Claim, str, str], ...]
    needless: tuple[tuple[Claim, Missed], ...]

    @property
    def misses(self) -> list[Verdict]:
        """The verdicts of what does not hold."""
        return [v for v in self.verdicts if not v.holds]


def check(
    topics: Mapping[str, Topic], results: Mapping[str, Result], commit_of: Callable[[str], str]
) -> Report:
    """Judge all results; `commit_of` names the last commit of files. UsageError: undeclared results."""
    entries = [entry for topic in topics.values() for entry in topic.entries]
    undeclared = [name for name in results if not any(matches(e.results, name) for e in entries)]
    if undeclared:
        more = f" and {len(undeclared) - 1} more" if undeclared[1:] else ""
        raise UsageError(
            f"no claim declares the result {undeclared[0]}{more}; add a [[claim]] or [[figures]] to claims/"
        )
    old = {name: why for name, r in results.items() if (why := _old_drives(r, commit_of))}
    valid = {name: r for name, r in results.items() if name not in old}
    verdicts: list[Verdict] = []
    broken: list[Broken] = []
    missing: list[tuple[Claim, str, str]] = []
    for entry in entries:
        of_entry = [r for name, r in valid.items() if matches(entry.results, name)]
        broken += [
            Broken(entry, moved, r)
            for moved in entry.history
            for r in of_entry
            if not moved.of
            and (not moved.results or matches(moved.results, r.figure.id))
            and not limits(moved.was).hold(r.figure.quantity)
            and not (isinstance(entry, Claim) and not Verdict(entry, r).holds)  # a miss already
        ]
        if isinstance(entry, Claim):
            verdicts += [Verdict(entry, r) for r in of_entry]
            for pattern in entry.results:
                of_old = [why for name, why in old.items() if matches((pattern,), name)]
                if of_old:
                    missing.append((entry, pattern, f"{len(of_old)} old, {of_old[0]}"))
                elif not any(matches((pattern,), name) for name in valid):
                    missing.append((entry, pattern, "no result"))
    return Report(tuple(verdicts), tuple(broken), tuple(missing), tuple(_needless(verdicts, list(old))))


def _needless(verdicts: Sequence[Verdict], old: Sequence[str]) -> Iterator[tuple[Claim, Missed]]:
    """Reasons without a miss. A result on `old` drives may still miss on new ones."""
    for claim, of_claim in _by_claim(verdicts).items():
        misses = [v.result.figure.id for v in of_claim if not v.holds and not v.misses_by_interval]
        for missed in claim.missed:
            if not any(matches(missed.results, name) for name in (*misses, *old)):
                yield claim, missed


def judged(topics: Mapping[str, Topic], result: Result) -> list[Verdict]:
    """A result beside each claim that speaks of it. UsageError if none does."""
    name = result.figure.id
    entries = [entry for topic in topics.values() for entry in topic.entries]
    claims = [e for e in entries if isinstance(e, Claim) and matches(e.results, name)]
    if not claims:
        raise UsageError(f"no claim has a bound for the result {name}")
    return [Verdict(claim, result) for claim in claims]


def _old_drives(result: Result, commit_of: Callable[[str], str]) -> str:
    if result.run.law is None:
        return ""
    law, commit = result.run.law
    now = commit_of(law)
    return "" if now.startswith(commit) else f"drives drawn at {commit}, {law} changed at {now[:7]}"


def lines(report: Report) -> Iterator[str]:
    """The report in words: misses first, those by the interval only last of them; then the rest."""
    misses = report.misses
    if misses:
        yield "Misses:"
    for v in sorted(misses, key=lambda v: (v.misses_by_interval, v.margin)):
        yield f"  MISS   {shown(v.result.figure)}  promised {v.claim.bound}  {v.result.figure.id}"
        yield f"         {v.claim.id}: {v.claim.sentence}"
        if v.misses_by_interval:
            yield "         by its interval only: the value keeps the bound"
        elif because := v.claim.because(v.result.figure.id):
            yield f"         because {because}"
    if report.broken:
        yield "Bounds that were moved after a measurement, and that are still not kept:"
    for b in report.broken:
        was = "" if b.moved.measured is None else f", measured {b.moved.measured:g}"
        now = f"now {b.entry.bound}" if isinstance(b.entry, Claim) else "now no promise"
        yield (
            f"  MOVED  {shown(b.result.figure)}  was {b.moved.was} until {b.moved.until}{was}, {now}"
            f"  {b.result.figure.id}"
        )
    others = [(c, m) for c in _by_claim(report.verdicts) for m in c.history if m.of]
    if others:
        yield "Bounds that were on another figure before:"
    for claim, moved in others:
        was = "" if moved.measured is None else f", measured {moved.measured:g}"
        yield f"  {claim.id}: {moved.was} of {moved.of}, until {moved.until}{was}; now {claim.bound}"
    yield "Holds:"
    for claim, of_claim in _by_claim(report.verdicts).items():
        held = [v for v in of_claim if v.holds]
        if held or len(of_claim) >= MANY:
            yield f"  {len(held)} of {len(of_claim)}  {claim.bound}  {claim.id}: {claim.sentence}"
        if held:
            closest = min(held, key=lambda v: v.margin).result.figure
            yield f"         closest to the bound: {shown(closest)}  {closest.id}"
        if len(of_claim) >= MANY:
            worst = min(of_claim, key=lambda v: v.margin_of_value).result.figure
            middle = median(v.result.figure.value for v in of_claim)
            yield f"         median {rounded(middle)}, worst {shown(worst)}  {worst.id}"
    if report.missing:
        yield "Not measured:"
    for claim, pattern, why in report.missing:
        yield f"  {claim.id}: {pattern}: {why}"
    if report.needless:
        yield "Reasons that no miss needs any more, to be deleted in claims/:"
    for claim, missed in report.needless:
        yield f"  {claim.id}: {' '.join(missed.results)}: {missed.because}"
    points = sum(v.result.figure.quantity.how.startswith("none") for v in report.verdicts)
    yield (
        f"{len(misses)} of {len(report.verdicts)} results miss their bound, "
        f"{sum(v.misses_by_interval for v in misses)} by their interval only; {len(report.broken)} break one "
        f"that was moved; {points} have no interval; {len(report.missing)} families are not measured"
    )
    if held_out := [v for v in report.verdicts if v.result.run.law]:
        misses_on = sum(not v.holds for v in held_out)
        yield f"of these on held-out drives, which README.md does not count: {misses_on} of {len(held_out)}"
    if steps := {v.result.step_name: v.result.step for v in report.verdicts}:
        oldest = min(steps, key=lambda name: steps[name].date)
        changed = sorted(name for name, step in steps.items() if step.commit.endswith("-dirty"))
        yield f"measured since {steps[oldest].date} ({oldest}); with changes that were not committed: " + (
            ", ".join(changed) or "nothing"
        )


def _by_claim(verdicts: Sequence[Verdict]) -> dict[Claim, list[Verdict]]:
    found: dict[Claim, list[Verdict]] = {}
    for v in verdicts:
        found.setdefault(v.claim, []).append(v)
    return found


def shown(figure: Stored) -> str:
    """A figure with its interval, if it has one."""
    quantity = figure.quantity
    value = rounded(quantity.value)
    if quantity.how != INTERVAL:
        return value
    return f"{value} ({rounded(quantity.low)} to {rounded(quantity.high)})"
