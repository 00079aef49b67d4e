# SPDX-License-Identifier: GPL-2.0-only
"""A run that was measured again, beside the run before: the same digits, or a third measurement decides."""

import shutil

from tailgate.base.progress import Progress
from tailgate.runs.folder import Records
from tailgate.runs.measurements import digits
from tailgate.spec import plan
from tailgate.spec.plan import Chunk
from tailgate.targets import sources
from tailgate.targets.protocol import Target


def compare(target: Target, before: Records, after: Records, jobs: int, progress: Progress) -> None:
    """Say whether a run measured again gave the same digits; measure a third time where it did not.

    A chunk whose third measurement equals the first is replaced by it in `after`.
    """
    different = [c for c in plan.chunks(target.run) if _differ(before, after, c)]
    if not different:
        progress.note("measured again: every digit equals the run before")
        return
    names = ", ".join(c.name for c in different)
    progress.note(f"measured again: {names} differ from the run before; a third time")
    third = Records(after.folder / "third")
    sources.write(target, third.folder)
    target.measure(third, different, jobs, progress)
    for chunk in different:
        if _differ(before, third, chunk):
            word = "equals the second" if not _differ(after, third, chunk) else "differs from both"
            progress.note(f"{chunk.name}: the third {word}")
        else:
            progress.note(f"{chunk.name}: the third equals the first, and stands")
            after.take(chunk, third)
    shutil.rmtree(third.folder)


def _differ(one: Records, other: Records, chunk: Chunk) -> bool:
    first, second = ([digits(m) for m in records.of([chunk])] for records in (one, other))
    return first != second
