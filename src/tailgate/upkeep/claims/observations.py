# SPDX-License-Identifier: GPL-2.0-only
"""The observations O-1 to O-11 of the Kyber paper: each is reproduced, or explained, or neither.

Claims about an observation have ids such as `kyber-o5-price`. An observation is reproduced if all of their
results keep their bounds, and explained if each miss has a reason that names a property of the drive.
"""

import re
from collections.abc import Iterator, Mapping

from tailgate.upkeep.claims import check
from tailgate.upkeep.claims.model import Claim, Topic, matches
from tailgate.upkeep.claims.results import Result

NAMES = tuple(f"o-{number}" for number in range(1, 12))
START = "kyber/observations"
#: Values of the figures kyber/observations/o-5/verdict, and what they stand for.
NEITHER, EXPLAINED, REPRODUCED = 0, 1, 2


def claims(topics: Mapping[str, Topic], name: str) -> list[Claim]:
    """The claims about an observation, such as "o-5"."""
    of_it = re.compile(rf"kyber-{name.replace('-', '')}(-.+)?")
    return [claim for topic in topics.values() for claim in topic.claim if of_it.fullmatch(claim.id)]


def verdicts(topics: Mapping[str, Topic], results: Mapping[str, Result]) -> dict[str, int]:
    """The verdict of each observation; NEITHER also where a claim has no result."""
    judged = list(_judged(topics, results))
    out = {}
    for name in NAMES:
        own = claims(topics, name)
        missed = [v for v in judged if v.claim in own and not v.holds]
        if not own or any(all(v.claim != claim for v in judged) for claim in own):
            out[name] = NEITHER
        elif not missed:
            out[name] = REPRODUCED
        else:
            named = all(v.claim.property_of(v.result.figure.id) for v in missed)
            out[name] = EXPLAINED if named else NEITHER
    return out


def _judged(topics: Mapping[str, Topic], results: Mapping[str, Result]) -> Iterator[check.Verdict]:
    for result in results.values():
        for name in NAMES:
            for claim in claims(topics, name):
                if matches(claim.results, result.figure.id):
                    yield check.Verdict(claim, result)


def words(topics: Mapping[str, Topic], name: str, verdict: int) -> str:
    """The verdict of an observation, with the properties of the drive that explain what is missed."""
    if verdict != EXPLAINED:
        return "reproduced" if verdict == REPRODUCED else "neither"
    named = dict.fromkeys(m.property for claim in claims(topics, name) for m in claim.missed if m.property)
    return f"explained by {', '.join(f'`{found}`' for found in named)}"
