# SPDX-License-Identifier: GPL-2.0-only
"""What measures the figures: steps, by topic. Each topic has its file in claims/ and in claims/results/."""

from collections.abc import Callable, Iterator, Mapping

from tailgate.upkeep.claims import tables
from tailgate.upkeep.claims.lab import Lab
from tailgate.upkeep.claims.results import Figure
from tailgate.upkeep.claims.steps import (
    auto,
    bounds,
    code,
    k2,
    kyber,
    kyber_stated,
    mqfq,
    multiples,
    probed,
    search,
    simulator,
    split,
    starts,
    tail,
    target,
    tune,
    watch,
)

Step = Callable[[Lab], Iterator[Figure]]

#: Steps that judge stored results and measure nothing. They take a moment, and nothing of them is kept.
OF_RESULTS = frozenset({kyber.kyber_observations.__name__, kyber_stated.kyber_stated_all.__name__})


def by_topic() -> Mapping[str, Mapping[str, Step]]:
    """Steps by topic and name. That of a function is its own; those of tables are `table-<name>`."""
    functions: Mapping[str, tuple[Step, ...]] = {
        "k2": k2.STEPS,
        "split": split.STEPS,
        "bounds": bounds.STEPS,
        "targets": target.STEPS,
        "tuning": (*auto.STEPS, *starts.STEPS, *multiples.STEPS, *tail.STEPS),
        "kyber": (
            *kyber.STEPS,
            *kyber_stated.STEPS,
            *tune.STEPS,
            *watch.STEPS,
            kyber.kyber_observations,
            kyber_stated.kyber_stated_all,
        ),
        "mqfq": (*mqfq.STEPS, *search.STEPS),
        "simulator": (*simulator.STEPS, *probed.STEPS),
        "code": code.STEPS,
    }
    found = {topic: {step.__name__: step for step in some} for topic, some in functions.items()}
    return {**found, tables.TOPIC: tables.steps()}
