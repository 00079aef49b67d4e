# SPDX-License-Identifier: GPL-2.0-only
"""A run is a directory: its specification, its environment, a record of every point, and the results.

    spec.json           the resolved experiment, mode, drive: what was asked for
    environment.json    kernel, modules, QEMU, fio, command line, times
    sources/            what was read: experiment, jobs, paper's numbers, drive, our modules
    chunks/<chunk>/     one scheduler, load and seed: chunk.json; of each point its record, `p0.json`, which
                        has all of a Measurement (tailgate.runs.record says how), and its job, `p0.fio`
    points.parquet      one row per point, seed and flow
    results.json        the same as `--json` prints
    report.html

Target vm leaves beside each record the files that it was made of (tailgate.runs.evidence): fio's JSON and the
kernel's own counts; and in `guest` the log of the boot.

Only records need a measurement; the files listed below them are made from records. A run is measured in
`<key>.partial`, which is renamed to `<key>` when it is complete; from then on no record of it is written
again.
"""

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tailgate.base.errors import UsageError
from tailgate.base.paths import ROOT, replace_text
from tailgate.runs import record
from tailgate.runs.measurements import Conditions, Measurement
from tailgate.spec.experiment import Experiment, Mode
from tailgate.spec.plan import Chunk, PlannedPoint, Run, chunks


def write_run(folder: Path, run: Run) -> None:
    """Write spec.json, which `read_run` reads."""
    about = {
        "records": record.VERSION,
        "experiment": run.name,
        "target": run.target,
        "mode": run.mode_name,
        "resolved_mode": run.mode.model_dump(mode="json"),
        "schedulers": [s.label for s in run.schedulers],
        "variants": list(run.variants),
        "spec": run.spec.model_dump(mode="json"),
    }
    replace_text(folder / "spec.json", json.dumps(about, indent=1) + "\n")


def read_run(folder: Path) -> Run:
    """The run of a run directory. UsageError if the folder is not one, or is of another version of the
    lab.
    """
    try:
        about = json.loads((folder / "spec.json").read_text())
        if about.get("records") != record.VERSION:
            raise UsageError(f"{folder}: measured by another version of the lab; measure it again")
        spec = Experiment.model_validate(about["spec"])
        return Run(
            about["experiment"],
            spec,
            about["mode"],
            Mode.model_validate(about["resolved_mode"]),
            tuple(s for s in spec.schedulers if s.label in about["schedulers"]),
            tuple(about["variants"]),
            about["target"],
        )
    except (OSError, ValueError, KeyError) as e:
        raise UsageError(
            f"{folder}: expected the folder of a run, as `tailgate run` prints it, such as {ROOT / 'runs'}/…"
        ) from e


def place(folder: Path, chunk: Chunk) -> Path:
    """The folder of a chunk's records and of the files that its target leaves."""
    return folder / "chunks" / chunk.name


def begin(folder: Path, chunk: Chunk, conditions: Conditions) -> None:
    """Create the folder of a chunk that is going to be measured under these conditions."""
    place(folder, chunk).mkdir(parents=True, exist_ok=True)
    about = asdict(conditions) | {"background_rates": list(chunk.background_rates), "complete": False}
    replace_text(place(folder, chunk) / "chunk.json", json.dumps(about) + "\n")


def note(folder: Path, chunk: Chunk, **about: float) -> None:
    """Add to the description of a chunk."""
    file = place(folder, chunk) / "chunk.json"
    replace_text(file, json.dumps(json.loads(file.read_text()) | about) + "\n")


def end(folder: Path, chunk: Chunk) -> None:
    """Record that a chunk was measured to its end."""
    note(folder, chunk, complete=True)


def conditions(folder: Path, chunk: Chunk) -> Conditions:
    """The conditions under which a chunk was, or is, measured."""
    about = json.loads((place(folder, chunk) / "chunk.json").read_text())
    return Conditions(about["smp"], about["kernel"], about["mode"], about["dilation"])


def write(folder: Path, measurement: Measurement) -> None:
    """Write the record of a point. Its existence means that the point was measured."""
    replace_text(_record(folder, measurement.point), record.to_text(measurement))


def read_measurements(folder: Path, run: Run) -> list[Measurement]:
    """Every point that was measured in this run's folder, in the order of the run's chunks."""
    return Records(folder).of(chunks(run))


class Records:
    """The records of a folder. What was written or read through this object is not read again."""

    def __init__(self, folder: Path) -> None:
        """Reads nothing yet; the folder need not be there."""
        self.folder = folder
        self._known: dict[Path, Measurement] = {}  # by the record's path in the folder

    def write(self, measurement: Measurement) -> None:
        """Write the record of a point; from any thread."""
        write(self.folder, measurement)
        self._known[_record(Path(), measurement.point)] = measurement

    def of(self, chunks: Sequence[Chunk]) -> list[Measurement]:
        """The points of these chunks that were measured, in order. UsageError if a record is damaged."""
        return [m for chunk in chunks for point in chunk.points if (m := self._of_point(point))]

    def left(self, chunks: Sequence[Chunk]) -> list[PlannedPoint]:
        """The points of these chunks that have no record yet, or a damaged one."""
        return [p for chunk in chunks for p in chunk.points if self._damaged(p) or not self._of_point(p)]

    def complete(self, chunk: Chunk) -> bool:
        """Whether a chunk was measured to its end, and all its records are whole."""
        about = place(self.folder, chunk) / "chunk.json"
        return bool(_whole(about).get("complete")) and not self.left([chunk])

    def damaged(self, chunks: Sequence[Chunk]) -> bool:
        """Whether a record of these chunks' points exists but cannot be read."""
        return any(self._damaged(point) for chunk in chunks for point in chunk.points)

    def rename(self, folder: Path) -> None:
        """Rename the folder."""
        self.folder.rename(folder)
        self.folder = folder

    def take(self, chunk: Chunk, other: "Records") -> None:
        """Replace a chunk, and what its target left, by that of another folder, which loses it."""
        shutil.rmtree(place(self.folder, chunk))
        place(other.folder, chunk).rename(place(self.folder, chunk))
        for file in (_record(Path(), point) for point in chunk.points):
            self._known[file] = other._known.pop(file)

    def _of_point(self, point: PlannedPoint) -> Measurement | None:
        file = _record(Path(), point)
        if not (self.folder / file).is_file():  # a target that begins a chunk again removes its records
            return None
        if file not in self._known:
            self._known[file] = _read(self.folder / file, point)
        return self._known[file]

    def _damaged(self, point: PlannedPoint) -> bool:
        try:
            self._of_point(point)
        except UsageError:
            return True
        return False


def _read(file: Path, point: PlannedPoint) -> Measurement:
    try:
        return record.from_text(file.read_text(encoding="utf-8"), point)
    except (ValueError, KeyError, TypeError) as e:
        way_out = "the same `tailgate run` as before measures its point again"
        raise UsageError(f"{file} is damaged ({e}); {way_out}") from e


def _whole(file: Path) -> dict[str, Any]:
    """The object in a file; empty if the file does not exist or is damaged."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _record(folder: Path, point: PlannedPoint) -> Path:
    return place(folder, point.chunk) / f"{point.name}.json"
