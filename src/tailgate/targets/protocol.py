# SPDX-License-Identifier: GPL-2.0-only
"""The interface of targets: a target yields measurements, and leaves the files that they were made of."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from tailgate.base.progress import Progress
from tailgate.runs.folder import Records
from tailgate.runs.measurements import Measurement
from tailgate.spec.drive import Drive
from tailgate.spec.plan import Chunk, Run

#: Called with the measurement of a point as soon as the point has ended, from any thread.
OnPoint = Callable[[Measurement], None]


class BrokenRunError(Exception):
    """A point did not end as it should: what happened, and where to read more."""


class Target(Protocol):
    """Everything that decides a run's figures on one target, and the means to measure it."""

    run: Run
    #: The experiment file.
    path: Path
    drive: Drive
    drive_path: Path

    @property
    def identity(self) -> Mapping[str, object]:
        """Everything that decides the run's figures, by name."""

    @property
    def key(self) -> str:
        """Names the run's folder: a hash of its identity."""

    @property
    def repeatable(self) -> bool:
        """Whether the same run gives the same digits when it is repeated."""

    @property
    def sources(self) -> Mapping[str, bytes]:
        """Files that a run directory keeps besides experiment, jobs, paper's numbers and drive."""

    @property
    def environment(self) -> Mapping[str, object]:
        """The environment of the run, for environment.json."""

    def check(self) -> None:
        """UsageError for anything invalid, before a file is written."""

    def announcement(self, records: Records, jobs: int) -> str:
        """The points without a record, which will be measured, and the time that this takes."""

    def measure(self, records: Records, chunks: Sequence[Chunk], jobs: int, progress: Progress) -> None:
        """Measure those points of the chunks that have no record yet, `jobs` chunks or points at a time.

        Each is written to `records` as soon as it has ended; the target leaves the files that it made them
        of beside them in the folder of `records`. BrokenRunError as soon as a measurement fails.
        """
