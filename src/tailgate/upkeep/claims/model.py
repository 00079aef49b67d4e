# SPDX-License-Identifier: GPL-2.0-only
"""Claims as they are written by hand: `claims/<topic>.toml`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field

from tailgate.base.errors import UsageError
from tailgate.base.paths import ROOT
from tailgate.spec.toml import parse_toml
from tailgate.upkeep.claims.quantity import Quantity

FOLDER = ROOT / "claims"

_NUMBER = r"(-?[0-9.]+(?:e[0-9]+)?)"
_BOUND = re.compile(rf"<=? {_NUMBER}|>=? {_NUMBER}|{_NUMBER} to {_NUMBER}")


@dataclass(frozen=True)
class Limits:
    """What a bound allows; None: no limit at this end. `strict`: the limits themselves are not allowed."""

    least: float | None
    most: float | None
    strict: bool = False

    def hold(self, quantity: Quantity) -> bool:
        """Whether the unfavourable end of the interval is within the limits."""
        miss = self.miss(quantity)
        return miss < 0 if self.strict else miss <= 0

    def miss(self, quantity: Quantity) -> float:
        """How far the unfavourable end is beyond a limit; negative: how far it is from the next one."""
        beyond = []
        if self.least is not None:
            beyond.append(self.least - quantity.low)
        if self.most is not None:
            beyond.append(quantity.high - self.most)
        return max(beyond)


def limits(bound: str) -> Limits:
    """A bound as numbers. ValueError if it is none."""
    found = _BOUND.fullmatch(bound)
    if not found:
        raise ValueError(f"expected a bound such as '<= 1.1', '> 2' or '0.95 to 1.05', got '{bound}'")
    most, least, low, high = (None if g is None else float(g) for g in found.groups())
    strict = bound[:2] in ("< ", "> ")
    return Limits(least if low is None else low, most if high is None else high, strict)


def _checked(bound: str) -> str:
    limits(bound)
    return bound


Bound = Annotated[str, AfterValidator(_checked)]
#: Ids of results; `*` and `?` stand for letters within one part between slashes.
Patterns = Annotated[tuple[str, ...], Field(min_length=1)]


class Moved(BaseModel, extra="forbid", frozen=True):
    """A bound that was moved or withdrawn after a measurement: `was`, until the commit `until`.

    `measured`: what was found when it was moved. `results`: of these it was promised; default: of all. `of`:
    the other figure that it was promised of, where today's is another one and so cannot break it.
    """

    was: Bound
    until: str
    measured: float | None = None
    why: str = ""
    results: tuple[str, ...] = ()
    of: str = ""


class Missed(BaseModel, extra="forbid", frozen=True):
    """The reason, once it is known, why the values of some results miss the bound.

    `property`: the parameter of the drive that is the reason, where it is one.
    """

    results: Patterns
    because: str
    property: str = ""


class Claim(BaseModel, extra="forbid", frozen=True):
    """A promise about a family of results. It holds if each of them keeps the bound."""

    id: str
    sentence: str
    results: Patterns
    bound: Bound
    why: str
    since: str
    history: tuple[Moved, ...] = ()
    missed: tuple[Missed, ...] = ()

    def because(self, name: str) -> str:
        """The reason that is known for a miss of this result; else empty."""
        return next((m.because for m in self.missed if matches(m.results, name)), "")

    def property_of(self, name: str) -> str:
        """The parameter of the drive that explains a miss of this result; else empty."""
        return next((m.property for m in self.missed if matches(m.results, name)), "")


class Figures(BaseModel, extra="forbid", frozen=True):
    """Results that are printed and promise nothing."""

    what: str
    results: Patterns
    history: tuple[Moved, ...] = ()


class Topic(BaseModel, extra="forbid", frozen=True):
    """One file of claims."""

    claim: tuple[Claim, ...] = ()
    figures: tuple[Figures, ...] = ()

    @property
    def entries(self) -> tuple[Claim | Figures, ...]:
        """Claims and figures."""
        return (*self.claim, *self.figures)


def matches(patterns: tuple[str, ...], name: str) -> bool:
    """Whether an id is of one of the patterns, part by part."""
    parts = name.split("/")
    return any(
        len(parts) == len(p := pattern.split("/")) and all(map(fnmatchcase, parts, p)) for pattern in patterns
    )


def read(folder: Path = FOLDER) -> Mapping[str, Topic]:
    """All topics by name. UsageError: a file that is not right, or an id that is there twice."""
    topics = {path.stem: parse_toml(path, Topic) for path in sorted(folder.glob("*.toml"))}
    seen: dict[str, str] = {}
    for name, topic in topics.items():
        for claim in topic.claim:
            if claim.id in seen:
                where = f"claims/{seen[claim.id]}.toml and claims/{name}.toml"
                raise UsageError(f"{where}: claim {claim.id} is there twice; give one of them another id")
            seen[claim.id] = name
    return topics
