# SPDX-License-Identifier: GPL-2.0-only
"""The queue of a real drive, through sysfs: scheduler, knobs, and counters of requests."""

import fcntl
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tailgate.base.errors import UsageError
from tailgate.watch.meter import FIELDS, Protected, RequestCounts


class LostError(Exception):
    """Another program has changed the drive, its scheduler or a knob."""


class Queue:
    """A drive by its name in /dev. UsageError if it does not exist or cannot be watched."""

    def __init__(self, drive: str, root: Path = Path("/")) -> None:
        self.name = drive.removeprefix("/dev/")
        self._block = root / "sys/class/block" / self.name
        self._queue = self._block / "queue"
        self._proc = root / "proc"
        if not re.fullmatch(r"[\w!-]+", self.name) or not self._block.is_dir():
            raise UsageError(f"there is no drive {drive}; `tailgate doctor` lists them")
        if not self._queue.is_dir():
            raise UsageError(f"{drive} is a part of a drive: its queue belongs to the whole drive, name that")
        if self._read(self._queue / "iostats") == "0":
            raise UsageError(f"nothing is counted on {drive}: echo 1 > /sys/block/{self.name}/queue/iostats")
        self.scheduler = self._scheduler()
        self._original: dict[str, str] = {}
        self._present: dict[str, str] = {}
        self._requests = 0
        self._lock = -1

    def counters(self, protected: Protected, now_s: float) -> RequestCounts:
        """Counters of completed requests. LostError, also if another program has set a taken knob."""
        self._check(self._original)
        found = self._real_time(now_s) if protected == "rt" else self._of_block_layer(protected, now_s)
        if found.requests < self._requests:
            raise LostError(
                f"the counts of {self.name} began anew: its scheduler, or the drive, was taken away meanwhile"
            )
        self._requests = found.requests
        return found

    def _of_block_layer(self, protected: Protected, now_s: float) -> RequestCounts:
        """The block layer's counters of reads or writes. LostError."""
        requests, ms = FIELDS[protected]
        fields = self._read(self._block / "stat").split()
        reads, writes = self._read(self._block / "inflight").split()
        outstanding = int(reads if protected == "read" else writes) > 0
        return RequestCounts(now_s, int(fields[requests]), 1000 * int(fields[ms]), outstanding)

    def _real_time(self, now_s: float) -> RequestCounts:
        """The scheduler's counters of real-time requests (docs/k2/reference.md). LostError."""
        file = self._proc / f"tailgate-{self.scheduler}"
        lines = (line.split() for line in self._read(file).splitlines())
        found = {line[1]: line[2] for line in lines if len(line) == 3 and line[0] == self.name}
        try:
            outstanding = any(
                int(found[f"level{level}.{state}"]) for level in range(8) for state in ("queued", "inflight")
            )
            return RequestCounts(now_s, int(found["rt_completed"]), int(found["rt_time_us"]), outstanding)
        except KeyError as e:
            raise LostError(
                f"{file} has no {e} of {self.name}: another module is loaded, or another scheduler set"
            ) from e

    def take(self, knobs: Sequence[str]) -> dict[str, int]:
        """Remember the values of these knobs for restoring; returns those that are numbers. UsageError.

        From then on no other Tailgate process can take knobs of this drive.
        """
        self._only_one()
        for knob in knobs:
            file = self._queue / "iosched" / knob
            if not file.is_file():
                raise UsageError(f"{self.scheduler} of {self.name} has no knob {knob}")
            if not os.access(file, os.W_OK):
                raise UsageError(f"{file} cannot be written: run this as root")
            self._original[knob] = self._present[knob] = self._read(file)
        return {knob: int(text) for knob, text in self._original.items() if text.isdigit()}

    def set(self, knobs: Mapping[str, int | str]) -> None:
        """Write knobs. LostError if another program wrote one of them; UsageError if the kernel refuses."""
        self._check(knobs)
        for knob in knobs:
            file = self._queue / "iosched" / knob
            try:
                file.write_text(f"{knobs[knob]}\n")
            except OSError as e:
                why = os.strerror(e.errno or 0)
                raise UsageError(f"{knob} of {self.name} does not take {knobs[knob]} ({why})") from e
            self._present[knob] = self._read(file)

    def put_back(self) -> Mapping[str, str]:
        """Restore the values that the knobs had when taken, except of knobs set by others; returns them.

        LostError if the drive or its scheduler is gone; UsageError if the kernel refuses some values, after
        the other knobs are restored.
        """
        said = self._said(self._original)
        mine = {knob: text for knob, text in self._original.items() if said[knob] == self._present[knob]}
        refused = []
        for knob, text in mine.copy().items():
            try:
                self.set({knob: text})
            except UsageError as e:
                refused.append(str(e))
                del mine[knob]
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
        if refused:
            done = ", ".join(f"{knob} {text}" for knob, text in mine.items()) or "nothing"
            raise UsageError(f"{'; '.join(refused)}; put back: {done}")
        return mine

    def _only_one(self) -> None:
        """Refuse to run beside another process that moves the drive's knobs. UsageError.

        The kernel frees the lock when the process ends, however it ends.
        """
        if self._lock < 0:
            self._lock = os.open(self._queue / "scheduler", os.O_RDONLY)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as e:
            os.close(self._lock)
            self._lock = -1
            raise UsageError(f"another `tailgate watch` moves the knobs of {self.name}: stop it first") from e

    def _check(self, knobs: Iterable[str]) -> None:
        """LostError if another program has changed one of these knobs, or the scheduler."""
        for knob, said in self._said(knobs).items():
            if said != self._present[knob]:
                raise LostError(f"{knob} of {self.name} was set to {said} by another program")

    def _said(self, knobs: Iterable[str]) -> dict[str, str]:
        """The present values of these knobs. LostError if the drive has another scheduler."""
        if (scheduler := self._scheduler()) != self.scheduler:
            raise LostError(f"the scheduler of {self.name} is now {scheduler}")
        return {knob: self._read(self._queue / "iosched" / knob) for knob in knobs}

    def _scheduler(self) -> str:
        """The active scheduler, which sysfs shows in brackets: `none [k2] kyber`."""
        found = re.search(r"\[(\S+)\]", self._read(self._queue / "scheduler"))
        return found[1] if found else "none"

    def _read(self, file: Path) -> str:
        try:
            return file.read_text().strip()
        except OSError as e:
            raise LostError(f"{file} of {self.name} is gone ({os.strerror(e.errno or 0)})") from e
