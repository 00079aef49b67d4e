# SPDX-License-Identifier: GPL-2.0-only
"""What measures the figures: steps, by topic. Each topic has its file in claims/ and in claims/results/."""

from collections.abc import Callable, Iterator, Mapping

from tailgate.upkeep.claims.lab import Lab
from tailgate.upkeep.claims.results import Figure
from tailgate.upkeep.claims.steps import bounds, code, k2, mqfq, search, simulator, split, target

Step = Callable[[Lab], Iterator[Figure]]

STEPS: Mapping[str, tuple[Step, ...]] = {
    "k2": k2.STEPS,
    "split": split.STEPS,
    "bounds": bounds.STEPS,
    "target": target.STEPS,
    "mqfq": (*mqfq.STEPS, *search.STEPS),
    "simulator": simulator.STEPS,
    "code": code.STEPS,
}


def by_name() -> dict[str, tuple[str, Step]]:
    """Topic and step by the step's name, which is its function's."""
    return {step.__name__: (topic, step) for topic, steps in STEPS.items() for step in steps}
