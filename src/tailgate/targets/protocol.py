# SPDX-License-Identifier: GPL-2.0-only
"""Where an experiment can be run: a target yields measurements, and leaves what it made them of."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from tailgate.base.progress import Progress
from tailgate.runs.folder import Records
from tailgate.runs.measurements import Measurement
from tailgate.spec.drive import Drive
from tailgate.spec.plan import Chunk, Run

#: Takes the measurement of a point as soon as the point has ended, from any thread.
OnPoint = Callable[[Measurement], None]


class BrokenRunError(Exception):
    """A point did not end as it should: what happened, and where more is told."""


class Target(Protocol):
    """Everything that decides a run's figures on one target, and the means to measure it."""

    run: Run
    #: The experiment file.
    path: Path
    drive: Drive
    drive_path: Path

    @property
    def identity(self) -> Mapping[str, object]:
        """All that decides the run's figures, by name."""

    @property
    def key(self) -> str:
        """Names the run's folder: a hash of its identity."""

    @property
    def repeatable(self) -> bool:
        """Whether the same run gives the same digits again."""

    @property
    def sources(self) -> Mapping[str, bytes]:
        """What a run directory keeps besides experiment, jobs, paper's numbers and drive."""

    @property
    def environment(self) -> Mapping[str, object]:
        """Where it ran, for environment.json."""

    def check(self) -> None:
        """UsageError for all that is not right, before anything is written."""

    def announcement(self, records: Records, jobs: int) -> str:
        """What is going to be measured, as far as there is no record of it yet, and how long that takes."""

    def measure(self, records: Records, chunks: Sequence[Chunk], jobs: int, progress: Progress) -> None:
        """Measure those points of the chunks that have no record yet, `jobs` chunks or points at a time.

        Each is written to `records` as soon as it has ended; in their folder, beside them, the target leaves
        what it made them of. BrokenRunError as soon as one breaks.
        """
