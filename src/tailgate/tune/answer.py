# SPDX-License-Identifier: GPL-2.0-only
"""The result of a search, in the form that is shown and printed."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tailgate.spec.scheduler import Knob as Value
from tailgate.tune import dead
from tailgate.tune.front import INDIFFERENT, Candidate, front, keeps, price, profiles, sysfs
from tailgate.tune.goal import REFERENCE, Question
from tailgate.tune.search import Search, Tried
from tailgate.tune.space import Setting, defaults

#: A scheduler of the kernel that the simulator has no model of. A target measures it at its defaults, beside
#: the profiles.
BESIDE = "bfq"
#: BESIDE's default times, which are dilated with the guest's time; those in ms are rounded as a kernel with
#: 250 ticks a second rounds them.
BESIDE_TIMES = {"slice_idle_us": 8000, "timeout_sync": 124, "fifo_expire_sync": 124, "fifo_expire_async": 248}


@dataclass(frozen=True)
class Profile:
    """A setting of the front, and its name.

    `confirmed` are its objectives as the target measured them. `confirmed_missed` has, for each limit, by
    which share of the limit the setting misses it on the target; 0 or less where the limit is kept.
    """

    name: str
    candidate: Candidate
    price: str
    sysfs: Sequence[str]
    confirmed: tuple[float, ...] | None = None
    confirmed_price: str = ""
    confirmed_missed: tuple[float, ...] = ()

    @property
    def broken_on_target(self) -> bool:
        """Whether the setting misses a limit (`--keep`) on the target."""
        return any(missed > 0 for missed in self.confirmed_missed)


@dataclass(frozen=True)
class Answer:
    """The result of a search. `references` are the schedulers that limits refer to, at their defaults, by
    name.

    `evaluations` is the simulated time, in whole simulations. `confirmed_reference` and `confirmed_beside`
    are the objectives of `none` and of BESIDE on the target. `confirmed_limits` are the limits there: the
    same multiples of what the references give on the target.
    """

    question: Question
    references: Mapping[str, Candidate]
    limits: Sequence[float]
    tried: Sequence[Tried]
    front: Sequence[Candidate]
    profiles: Sequence[Profile]
    regions: Sequence[dead.Region]
    evaluations: float
    simulated_s: float
    confirmed_reference: tuple[float, ...] | None = None
    confirmed_beside: tuple[float, ...] | None = None
    confirmed_limits: tuple[float, ...] = ()

    @property
    def best_schedulers(self) -> list[str]:
        """The schedulers with the best value of the first objective: the best one, then those equal within
        INDIFFERENT.
        """
        goal = self.question.objectives[0]
        values = {name: t.values[0] for name, t in self.best.items() if t}
        if not values:
            return []
        first = (min if goal.least else max)(values, key=lambda name: values[name])
        as_good = [n for n, v in values.items() if math.isclose(v, values[first], rel_tol=INDIFFERENT)]
        return [first, *(name for name in as_good if name != first)]

    @property
    def beside_price(self) -> str:
        """The objectives of BESIDE beside those of `none` on the target, in words; "" if they were not
        measured.
        """
        own, reference = self.confirmed_beside, self.confirmed_reference
        return price(own, reference, self.question.objectives) if own and reference else ""

    @property
    def best(self) -> dict[str, Tried | None]:
        """By scheduler, the setting with the best first objective among those that keep all limits; None: no
        setting does.
        """
        goal = self.question.objectives[0]
        out: dict[str, Tried | None] = {}
        for tried in self.tried:
            before = out.setdefault(tried.setting.scheduler, None)
            if (
                tried.kept
                and not tried.short
                and (before is None or goal.better(tried.values[0], before.values[0]))
            ):
                out[tried.setting.scheduler] = tried
        return out


def answer(
    search: Search, candidates: Sequence[Candidate], queue: Mapping[str, Value] | None = None
) -> Answer:
    """The answer of a finished search. `queue` are the settings of the queue that it was simulated with."""
    objectives = search.question.objectives
    limits = search.last_limits
    found = front([c for c in candidates if keeps(c, search.question, limits)], objectives)
    reference = search.references[REFERENCE].values
    return Answer(
        search.question,
        search.references,
        limits,
        search.found,
        found,
        [
            Profile(name, c, price(c.values, reference, objectives), sysfs(c.setting, queue or {}))
            for name, c in profiles(found, objectives).items()
        ],
        dead.regions(search.space, search.found),
        search.evaluations,
        search.simulated_s,
    )


def with_confirmed(found: Answer, values: Mapping[str, tuple[float, ...]]) -> Answer:
    """Add the target's measurements, by the names of profiles, `none` and BESIDE, to an answer."""
    objectives, reference = found.question.objectives, values.get(REFERENCE)

    labels = {setting.label: label for label, setting in to_confirm(found).items()}
    limits: tuple[float, ...] = ()
    if all(name in values for name in found.question.references):
        limits = found.question.limits({name: values[name] for name in found.question.references})

    def confirmed(profile: Profile) -> Profile:
        # A setting with several names was measured once, under its first name.
        own = values.get(labels[profile.candidate.setting.label])
        words = price(own, reference, objectives) if own and reference else ""
        missed = found.question.missed(own, limits) if own and limits else ()
        return replace(profile, confirmed=own, confirmed_price=words, confirmed_missed=missed)

    profiles_ = [confirmed(p) for p in found.profiles]
    return replace(
        found,
        profiles=profiles_,
        confirmed_reference=reference,
        confirmed_beside=values.get(BESIDE),
        confirmed_limits=limits,
    )


def to_confirm(found: Answer) -> dict[str, Setting]:
    """The settings that a target measures, each once, by label: `none`, BESIDE, the references and the
    profiles.
    """
    out = {REFERENCE: Setting(REFERENCE, {}), BESIDE: Setting(BESIDE, BESIDE_TIMES)}
    # The defaults are written out, so that default times are dilated.
    out |= {name: defaults(name) for name in found.question.references if name not in out}
    for profile in found.profiles:
        if profile.candidate.setting not in out.values():
            out[profile.name] = profile.candidate.setting
    return out


def to_json(found: Answer) -> dict[str, object]:
    """The object that `tailgate tune --json` prints, apart from what was asked.

    A latency is null if no request completed.
    """
    names = [str(q) for q in found.question.quantities]

    def values(own: Sequence[float]) -> dict[str, float | None]:
        # JSON has no infinity.
        return {name: v if math.isfinite(v) else None for name, v in zip(names, own, strict=True)}

    def setting(own: Setting) -> dict[str, object]:
        return {"scheduler": own.scheduler, "knobs": dict(own.knobs)}

    def candidate(own: Candidate) -> dict[str, object]:
        intervals = {name: own.interval(i) for i, name in enumerate(names)}
        return {
            **setting(own.setting),
            "values": values(own.values),
            "ci": {name: list(ci) for name, ci in intervals.items() if ci},
            "seeds": len(own.runs),
        }

    return {
        "objectives": [f"{'min' if g.least else 'max'} {g.quantity}" for g in found.question.objectives],
        "keep": [
            {"keep": str(keep), "limit": limit}
            for keep, limit in zip(found.question.keeps, found.limits, strict=True)
        ],
        "references": {name: values(own.values) for name, own in found.references.items()},
        **({"confirmed_reference": values(found.confirmed_reference)} if found.confirmed_reference else {}),
        **({"confirmed_beside": {BESIDE: values(found.confirmed_beside)}} if found.confirmed_beside else {}),
        **({"confirmed_limits": list(found.confirmed_limits)} if found.confirmed_limits else {}),
        "settings": len(found.tried),
        "evaluations": found.evaluations,
        "simulated_s": found.simulated_s,
        "front": [candidate(c) for c in found.front],
        "best_schedulers": found.best_schedulers,
        "best": {
            name: {**setting(t.setting), "values": values(t.values)} if t else None
            for name, t in found.best.items()
        },
        "profiles": {
            p.name: {
                **candidate(p.candidate),
                "price": p.price,
                "sysfs": list(p.sysfs),
                **({"confirmed": values(p.confirmed)} if p.confirmed else {}),
                **({"confirmed_keeps": not p.broken_on_target} if p.confirmed_missed else {}),
            }
            for p in found.profiles
        },
        "dead_regions": [
            {"region": r.words, "values": values(r.values), "tried": r.tried} for r in found.regions
        ],
        "tried": [
            {**setting(t.setting), "values": values(t.values), "kept": t.kept, "short": t.short}
            for t in found.tried
        ],
    }
