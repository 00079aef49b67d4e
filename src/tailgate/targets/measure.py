# SPDX-License-Identifier: GPL-2.0-only
"""From a run to its complete directory."""

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from tailgate.base import paths
from tailgate.base.errors import UsageError
from tailgate.base.locks import only_one
from tailgate.base.progress import Progress
from tailgate.guest import kernels, modules
from tailgate.papers import cells
from tailgate.papers.answers import points_of
from tailgate.runs import export
from tailgate.runs import folder as folders
from tailgate.runs.folder import Records
from tailgate.runs.measurements import Measurement
from tailgate.runs.points import Point
from tailgate.spec import plan
from tailgate.spec.plan import Run
from tailgate.targets import sources
from tailgate.targets.compare import compare
from tailgate.targets.protocol import BrokenRunError, Target
from tailgate.targets.sim import SimTarget
from tailgate.targets.vm import GuestTarget

#: In the folder of an unfinished run: it has nothing that was measured before --fresh was asked for.
FRESH = "fresh"


@dataclass(frozen=True)
class Measured:
    """What `measure` leaves: a run directory, complete or `.partial`, and what is in it.

    `beside` are points that a simulated run lacks, out of other runs: `cells.beside`. `broken` tells how a
    guest ended, if one did not end well.
    """

    run: Run
    folder: Path
    measurements: list[Measurement]
    points: list[Point]
    beside: Sequence[tuple[Run, list[Point]]]
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
class TargetOptions:
    """Where a run is measured: the guest's kernel, or the machine that is simulated (None: the experiment's).

    `dask` is the address of a Dask scheduler whose workers run the simulations; None: processes of this host.
    """

    kernel: str = "backports"
    machine: str | None = None
    dask: str | None = None


@dataclass(frozen=True)
class MeasureOptions:
    """How a run is measured.

    `jobs` boots or simulations are side by side; with `fresh`, what is there is measured again, and compared.
    `command` is what the environment records. `report` writes the report of a run that has points.
    """

    jobs: int
    fresh: bool
    command: str
    report: Callable[[Measured], None]


def target_of(run: Run, path: Path, where: TargetOptions, progress: Progress) -> Target:
    """The target that measures the run of the experiment file `path`. UsageError if something is missing."""
    if run.target == "sim":
        return SimTarget(run, path, where.machine or run.spec.machine.simulated, where.dask)
    [kernel] = kernels.resolve([where.kernel], progress.note)
    return GuestTarget(run, path, kernel, modules.build(kernel))


def measure(target: Target, out: Path | None, options: MeasureOptions, progress: Progress) -> Measured:
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
    with only_one(folder, "measuring"):
        complete, unfinished = Records(folder), Records(folder.with_name(folder.name + ".partial"))
        if folder.is_dir() and complete.damaged(chunks):
            progress.note("a record of the run is damaged: its point is measured again")
            shutil.rmtree(unfinished.folder, ignore_errors=True)
            complete.rename(unfinished.folder)
            complete, unfinished = Records(folder), complete
        if options.fresh or not folder.is_dir():
            return _measure(target, complete, unfinished, options, progress)
        more = "goes on measuring" if unfinished.folder.is_dir() else "measures"
        progress.note(f"measured before; --fresh {more} again")
        return _show_as_asked(target, complete, options)


def _measure(
    target: Target, complete: Records, unfinished: Records, options: MeasureOptions, progress: Progress
) -> Measured:
    """Measure what is missing and complete the run directory, unless a guest breaks."""
    folder, partial = complete.folder, unfinished.folder
    # With --fresh what is there goes, unless it is of a run with --fresh that was stopped.
    if options.fresh and not (partial / FRESH).exists():
        shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True, exist_ok=True)
    if options.fresh:
        (partial / FRESH).touch()
    sources.write(target, partial)
    folders.write_run(partial, target.run)
    progress.note(target.announcement(unfinished, options.jobs))
    began = datetime.now().astimezone()
    broken = None
    try:
        target.measure(unfinished, plan.chunks(target.run), options.jobs, progress)
        if folder.is_dir() and target.repeatable:
            compare(target, complete, unfinished, options.jobs, progress)
    except BrokenRunError as e:
        broken = str(e)
    finally:
        progress.end()
    _write_environment(target, partial, options, began)
    measured = _derive(target.run, unfinished, options)
    if broken:
        return replace(measured, broken=broken)
    (partial / FRESH).unlink(missing_ok=True)
    if folder.is_dir():
        previous = folder.with_name(folder.name + ".previous")
        shutil.rmtree(previous, ignore_errors=True)
        folder.rename(previous)
    partial.rename(folder)
    return replace(measured, folder=folder)


def _write_environment(target: Target, folder: Path, options: MeasureOptions, began: datetime) -> None:
    about = {
        **target.environment,
        "drive_title": target.drive.title,
        "identity": target.key,
        "command": options.command,
        "began": began.isoformat(timespec="seconds"),
        "finished": datetime.now().astimezone().isoformat(timespec="seconds"),
    }
    (folder / "environment.json").write_text(json.dumps(about, indent=1) + "\n")


def _derive(run: Run, records: Records, options: MeasureOptions) -> Measured:
    """Everything that is made of the records; again and again the same."""
    folder = records.folder
    measurements = records.of(plan.chunks(run))
    points = points_of(measurements, folder, run)
    export.write_parquet(run, measurements, folder / "points.parquet")
    (folder / "results.json").write_text(json.dumps(export.to_json(run, points), indent=1) + "\n")
    measured = Measured(run, folder, measurements, points, cells.beside(folder, run), broken=None)
    if points:
        options.report(measured)
    return measured


def _show_as_asked(target: Target, records: Records, options: MeasureOptions) -> Measured:
    """Show a run as this lab does, with today's titles and paper's numbers, which may have changed since."""
    shutil.rmtree(records.folder / "sources", ignore_errors=True)
    sources.write(target, records.folder)
    folders.write_run(records.folder, target.run)
    return _derive(target.run, records, options)
