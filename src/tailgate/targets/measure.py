# SPDX-License-Identifier: GPL-2.0-only
"""From a run to its complete directory."""

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

from tailgate.base import paths
from tailgate.base.errors import UsageError
from tailgate.base.locks import only_one
from tailgate.base.progress import Progress
from tailgate.guest import kernels, modules
from tailgate.papers.answers import read_points
from tailgate.runs import export
from tailgate.runs import folder as folders
from tailgate.runs.measurements import Measurement, digits
from tailgate.runs.points import Point
from tailgate.spec import plan
from tailgate.spec.plan import Chunk, Run
from tailgate.targets.protocol import BrokenRunError, Target
from tailgate.targets.sim import SimTarget
from tailgate.targets.vm import GuestTarget

#: In the folder of an unfinished run: it has nothing that was measured before --fresh was asked for.
FRESH = "fresh"


@dataclass(frozen=True)
class Measured:
    """What `measure` leaves: a run directory, complete or `.partial`, and what is in it.

    `broken` tells how a guest ended, if one did not end well.
    """

    run: Run
    folder: Path
    measurements: list[Measurement]
    points: list[Point]
    broken: str | None

    @property
    def cpu_bound(self) -> list[Measurement]:
        """The points that show the CPU instead of the drive."""
        return [m for m in self.measurements if m.status == "cpu-bound"]

    @property
    def fault(self) -> str | None:
        """What is wrong with the figures, in words: how a guest broke, or which points show the CPU."""
        if self.broken is None and self.cpu_bound:
            names = ", ".join(m.point.words for m in self.cpu_bound)
            return f"these points show the CPU instead of the drive: {names}"
        return self.broken

    @property
    def ok(self) -> bool:
        """Whether every point was measured, and shows the drive."""
        return self.fault is None


@dataclass(frozen=True)
class Where:
    """Where a run is measured: the guest's kernel, or the machine that is simulated (None: the experiment's).

    `dask` is the address of a Dask scheduler whose workers run the simulations; None: processes of this host.
    """

    kernel: str = "backports"
    machine: str | None = None
    dask: str | None = None


@dataclass(frozen=True)
class How:
    """How a run is measured.

    `jobs` boots or simulations are side by side; with `fresh`, what is there is measured again, and compared.
    `command` is what the environment records. `report` writes the report of a folder that has points.
    """

    jobs: int
    fresh: bool
    command: str
    report: Callable[[Path], None]


def target_of(run: Run, path: Path, where: Where, progress: Progress) -> Target:
    """The target that measures the run of the experiment file `path`. UsageError if something is missing."""
    if run.target == "sim":
        return SimTarget(run, path, where.machine or run.spec.machine.simulated, where.dask)
    [kernel] = kernels.resolve([where.kernel], progress.note)
    return GuestTarget(run, path, kernel, modules.build(kernel))


def measure(target: Target, out: Path | None, how: How, progress: Progress) -> Measured:
    """Measure what is missing of a target's run; where nothing is, only how it is shown may change.

    `out` is the folder of all runs (None: `runs` in the checkout). UsageError if the experiment or this
    machine is not right; nothing is written then.
    """
    target.check()
    run = target.run
    base = (out or paths.ROOT / "runs") / run.name
    folder = base / target.key
    chunks = plan.chunks(run)
    if not chunks:
        raise UsageError(f"{run.name}: none of these schedulers has one of these loads: choose others")
    broken = None
    with only_one(folder, "measuring"):
        if folder.is_dir() and folders.damaged(folder, chunks):
            progress.note("a record of the run is damaged: its point is measured again")
            shutil.rmtree(_partial(folder), ignore_errors=True)
            folder.rename(_partial(folder))
        if how.fresh or not folder.is_dir():
            broken = _measure(target, folder, how, progress)
            if broken:
                folder = _partial(folder)
        else:
            more = "goes on measuring" if _partial(folder).is_dir() else "measures"
            progress.note(f"measured before; --fresh {more} again")
            _show_as_asked(target, folder, how)
        return Measured(run, folder, *read_points(folder, run), broken)


def _partial(folder: Path) -> Path:
    return folder.with_name(folder.name + ".partial")


def _measure(target: Target, folder: Path, how: How, progress: Progress) -> str | None:
    """Measure what is missing and complete the run directory; how a guest broke, if one did."""
    unfinished = _partial(folder)
    # With --fresh what is there goes, unless it is of a run with --fresh that was stopped.
    if how.fresh and not (unfinished / FRESH).exists():
        shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True, exist_ok=True)
    if how.fresh:
        (unfinished / FRESH).touch()
    _write_sources(target, unfinished)
    folders.write_run(unfinished, target.run)
    progress.note(target.announcement(unfinished, how.jobs))
    began = datetime.now().astimezone()
    broken = None
    try:
        _measure_chunks(target, unfinished, plan.chunks(target.run), how.jobs, progress)
        if folder.is_dir():
            _compare(target, folder, unfinished, how.jobs, progress)
    except BrokenRunError as e:
        broken = str(e)
    finally:
        progress.end()
    _finish(target, unfinished, how, began)
    if broken:
        return broken
    (unfinished / FRESH).unlink(missing_ok=True)
    if folder.is_dir():
        previous = folder.with_name(folder.name + ".previous")
        shutil.rmtree(previous, ignore_errors=True)
        folder.rename(previous)
    unfinished.rename(folder)
    return None


def _measure_chunks(
    target: Target, folder: Path, chunks: Sequence[Chunk], jobs: int, progress: Progress
) -> None:
    """Measure the points that `folder` lacks, and record each in it as soon as it has ended."""
    target.measure(folder, chunks, jobs, partial(folders.write, folder), progress)


def _sources(target: Target) -> dict[str, bytes]:
    """What the folder of a run keeps of what was read, by name."""
    beside = target.path.parent
    names = [beside / name for _, name in target.run.spec.files_beside]
    kept = {file.name: file.read_bytes() for file in (target.path, *names)}
    # A drive or a machine may be called like an experiment.
    for name, data in [(target.drive_path.name, target.drive_path.read_bytes()), *target.sources.items()]:
        while kept.setdefault(name, data) != data:
            name = f"other-{name}"
    return kept


def _write_sources(target: Target, folder: Path) -> None:
    (folder / "sources").mkdir(parents=True, exist_ok=True)
    for name, data in _sources(target).items():
        (folder / "sources" / name).write_bytes(data)


def _finish(target: Target, folder: Path, how: How, began: datetime) -> None:
    about = {
        **target.environment,
        "drive_title": target.drive.title,
        "identity": target.key,
        "command": how.command,
        "began": began.isoformat(timespec="seconds"),
        "finished": datetime.now().astimezone().isoformat(timespec="seconds"),
    }
    (folder / "environment.json").write_text(json.dumps(about, indent=1) + "\n")
    _derive(target.run, folder, how)


def _derive(run: Run, folder: Path, how: How) -> None:
    """Everything that is made of the records; again and again the same."""
    measurements, points = read_points(folder, run)
    export.write_parquet(run, measurements, folder / "points.parquet")
    (folder / "results.json").write_text(json.dumps(export.to_json(run, points), indent=1) + "\n")
    if points:
        how.report(folder)


def _show_as_asked(target: Target, folder: Path, how: How) -> None:
    """Show a run as this lab does, with today's titles and paper's numbers, which may have changed since."""
    shutil.rmtree(folder / "sources", ignore_errors=True)
    _write_sources(target, folder)
    folders.write_run(folder, target.run)
    _derive(target.run, folder, how)


def _compare(target: Target, before: Path, after: Path, jobs: int, progress: Progress) -> None:
    """Say whether a run measured again gave the same digits; where not, a third measurement decides."""

    def differ(one: Path, other: Path, chunk: Chunk) -> bool:
        pair = [[digits(m) for m in folders.read_chunk(f, chunk)] for f in (one, other)]
        return pair[0] != pair[1]

    if not target.repeatable:
        return
    different = [c for c in plan.chunks(target.run) if differ(before, after, c)]
    if not different:
        progress.note("measured again: every digit equals the run before")
        return
    names = ", ".join(c.name for c in different)
    progress.note(f"measured again: {names} differ from the run before; a third time")
    third = after / "third"
    _write_sources(target, third)
    _measure_chunks(target, third, different, jobs, progress)
    for chunk in different:
        if differ(before, third, chunk):
            word = "equals the second" if not differ(after, third, chunk) else "differs from both"
            progress.note(f"{chunk.name}: the third {word}")
        else:
            progress.note(f"{chunk.name}: the third equals the first, and stands")
            shutil.rmtree(after / "chunks" / chunk.name)
            (third / "chunks" / chunk.name).rename(after / "chunks" / chunk.name)
    shutil.rmtree(third)
