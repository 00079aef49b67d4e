# SPDX-License-Identifier: GPL-2.0-only
"""Which steps were measured before the code that decides their figures last changed.

No verdict depends on it: most changes of the code change no figure, or those of a few steps.
"""

import itertools
from collections.abc import Iterator, Mapping

from tailgate.upkeep.claims import history
from tailgate.upkeep.claims.results import Step

#: Target -> folders that decide its figures. Pages in them are no code.
DECIDES: Mapping[str, tuple[str, ...]] = {
    "sim": ("sched", "flash", "sim"),
    "vm": ("sched", "kernel", "flash"),
}


def lines(stored: Mapping[str, Mapping[str, Step]]) -> Iterator[str]:
    """A line for each target: its steps that are older than its code, the oldest first.

    A step of a commit that is not in the history is left out. UsageError without git.
    """
    order = history.order()
    steps = [(name, step) for of_topic in stored.values() for name, step in of_topic.items()]
    found = []
    for target, folders in DECIDES.items():
        of_target = [(name, s) for name, s in steps if any(run.target == target for run in s.runs)]
        if words := ", ".join(_older(of_target, " ".join((*folders, ":!*.md")), order)):
            found.append(f"  {target} ({', '.join(folders)}): {words}")
    if found:
        yield "Measured before the code changed, by the number of commits to it since:"
    yield from found


def _older(steps: list[tuple[str, Step]], paths: str, order: Mapping[str, int]) -> Iterator[str]:
    """The number of commits since, and the steps, separated by blanks."""
    changed = order[history.law_commit(paths)[:7]]
    since = [order[commit[:7]] for commit in history.commits(paths)]
    measured = [(order.get(step.commit.removesuffix("-dirty"), changed), name) for name, step in steps]
    old = [(sum(at < other for other in since), name) for at, name in measured if at < changed]
    old.sort(key=lambda pair: -pair[0])
    for count, group in itertools.groupby(old, key=lambda pair: pair[0]):
        yield f"{count}: {' '.join(name for _, name in group)}"
