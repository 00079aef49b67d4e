# SPDX-License-Identifier: GPL-2.0-only
"""Known figures of a drive: those that a paper published, and which parameters they decide."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tailgate.base.errors import UsageError

#: Units of paper.csv, with their factors to the model's units: I/O per second, MiB/s, microseconds.
_UNITS = {
    "kIOPS": 1e3,
    "KIOPS": 1e3,
    "K IOP/s": 1e3,
    "million IOP/s": 1e6,
    "MB/s": 1e6 / 2**20,
    "MiB/s": 1.0,
    "ms": 1e3,
    "us": 1.0,
}


@dataclass(frozen=True)
class CalibrationCell:
    """A figure of the paper, and the load on the model that gives the comparable figure.

    `row` has the columns of paper.csv that select one line. `load` has keys of closed_loop.c and of the
    drive; or else `label` names a load of the experiment (Facts.experiment) and `scheduler` one of its
    schedulers. `figure` is a key of the output. `group` is the group of `free` that is fitted to this cell,
    "" if none is.
    """

    title: str
    row: Mapping[str, str]
    load: Mapping[str, int]
    figure: str
    group: str = ""
    label: str = ""
    scheduler: str = "none"

    def like(self, other: "CalibrationCell", value: float) -> float:
        """This cell's value as a value of the other cell's kind: a throughput as commands a second, or as the
        time in us that one command of each of the two processes takes together.
        """
        if self.figure == "mib_s" and other.figure == "iops":
            return value * 1024 / self.load["kib"]
        if self.figure == "total_mib_s" and other.figure.startswith("rt."):
            return (self.load["kib"] + self.load["rt_kib"]) / 1024 / value * 1e6
        return value

    def words(self, value: float) -> str:
        """A value of this cell's kind, in words."""
        if self.figure.endswith("iops"):
            return f"{value / 1e3:.0f} k"
        return f"{value / 1e3:.2f} ms" if self.figure.startswith("rt.") else f"{value:.1f} MiB/s"


@dataclass(frozen=True)
class Facts:
    """The known figures of a drive.

    `free` are the parameters to fit, in groups that are fitted together, in this order. `contradictions` are
    pairs of cells, by title, that no drive can meet at once, with the reason; if one of the pair is fitted,
    it is the second. `experiment` is set where the processor decides the paper's figures as much as the drive
    does: the figures are then those of that experiment's simulation. Otherwise closed_loop.c gives them.
    """

    paper: Path
    cells: tuple[CalibrationCell, ...]
    free: Mapping[str, tuple[str, ...]]
    contradictions: tuple[tuple[str, str, str], ...]
    experiment: str = ""

    def published(self) -> dict[str, float]:
        """The paper's value of each cell, by its title: I/O per second, MiB/s or microseconds."""
        with self.paper.open(newline="", encoding="utf-8") as f:
            rows = list(csv.DictReader(line for line in f if not line.startswith("#")))
        values = {}
        for cell in self.cells:
            found = [
                r for r in rows if all(v in r[k] if k == "note" else r[k] == v for k, v in cell.row.items())
            ]
            if len(found) != 1:
                raise UsageError(f"{self.paper}: expected one line for {cell.title}, found {len(found)}")
            values[cell.title] = float(found[0]["value"]) * _UNITS[found[0]["unit"]]
        return values
