# SPDX-License-Identifier: GPL-2.0-only
"""From an experiment file to a complete run directory, and from there to what a person reads."""

import fcntl
import fnmatch
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from rich.console import Console

from tailgate import drive as drives
from tailgate import experiment as experiments
from tailgate import kernels, modules, report, results, table
from tailgate.errors import UsageError
from tailgate.experiment import ModeName, Sweep
from tailgate.progress import Progress
from tailgate.results import Chunk, Measurement, Point, Run
from tailgate.targets import BrokenRunError, Lab, sim, vm
from tailgate.words import load_words


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
    def cpu_bound(self) -> list[str]:
        """The points that show the CPU instead of the drive, in words."""
        return [
            f"{m.scheduler.label} at {load_words(m.background_rate)} load"
            for m in self.measurements
            if m.status == "cpu-bound"
        ]

    @property
    def ok(self) -> bool:
        """Whether every point was measured, and shows the drive."""
        return self.broken is None and not self.cpu_bound


def resolve(
    path: Path,
    mode: ModeName,
    schedulers: Sequence[str] | None,
    seeds: tuple[int, ...] | None,
    target: str = "vm",
    loads: Sequence[str] | None = None,
    drive: str | None = None,
) -> Run:
    """What a command line asks of an experiment file. UsageError for what is not in it.

    `loads` are patterns of the labels of the loads, as a shell has them; `drive` stands for the file's.
    """
    spec = experiments.load(path)
    if drive:
        drives.load(drive)
        spec = spec.model_copy(update={"drive": drive})
    if loads:
        spec = spec.model_copy(update={"sweeps": _matching(path, spec, loads)})
    if mode not in spec.modes:
        raise UsageError(f"{path}: there is no mode {mode}; expected {experiments.one_of(list(spec.modes))}")
    labels = [s.label for s in spec.schedulers]
    for label in schedulers or ():
        if label not in labels:
            raise UsageError(f"{path}: there is no scheduler {label}; expected {experiments.one_of(labels)}")
    chosen = tuple(s for s in spec.schedulers if not schedulers or s.label in schedulers)
    if target == "sim":
        if any(sweep.file_system for sweep in spec.sweeps):
            raise UsageError(f"{path}: the simulator has no file systems; --target vm measures this")
        chosen = tuple(s for s in chosen if sim.simulated(s))
        if not chosen:
            raise UsageError(f"{path}: the simulator has none of these schedulers; --target vm measures them")
    how = spec.modes[mode].on(target)
    if seeds:
        how = how.model_copy(update={"seeds": seeds})
    variants = tuple(i for i, v in enumerate(spec.variants) if mode in v.modes)
    absolute = path.resolve()
    if absolute.is_relative_to(experiments.EXPERIMENTS):
        name = str(absolute.relative_to(experiments.EXPERIMENTS).with_suffix(""))
    else:
        name = f"{absolute.parent.name}/{absolute.stem}"
    return Run(name, spec, mode, how, chosen, variants, target)


def _matching(path: Path, spec: experiments.Experiment, loads: Sequence[str]) -> tuple[Sweep, ...]:
    labels = [s.label for s in spec.sweeps if s.label]
    for pattern in loads:
        if not fnmatch.filter(labels, pattern):
            raise UsageError(
                f"{path}: there is no load {pattern}; expected "
                + (experiments.one_of(labels) if labels else "none, as there is one without a label")
            )
    return tuple(s for s in spec.sweeps if any(fnmatch.fnmatch(s.label or "", p) for p in loads))


@dataclass(frozen=True)
class Place:
    """Where a run is measured: the guest's kernel, or the machine that is simulated (None: the experiment's).

    `dask` is the address of a Dask scheduler whose workers run the simulations; None: processes of this host.
    """

    kernel: str = "backports"
    machine: str | None = None
    dask: str | None = None


def measure(
    run: Run,
    path: Path,
    place: Place,
    out: Path | None,
    jobs: int,
    fresh: bool,
    command: str,
    console: Console,
) -> Measured:
    """Measure what is missing of a run; with `fresh`, all of it, and compare it with the run before.

    `path` is the experiment file, `out` the folder of all runs (None: `runs` in the checkout), `jobs` the
    boots or simulations side by side, `command` what the environment records. UsageError if the experiment
    or this machine is not right; nothing is written then.
    """
    progress = Progress(console)
    lab = _lab(run, path, place, progress)
    lab.check()
    base = (out or experiments.ROOT / "runs") / run.name
    folder = base / lab.key
    broken = None
    with _only_one(base, lab.key):
        if fresh or not folder.is_dir():
            broken = _measure(lab, folder, jobs, fresh, command, progress)
            if broken:
                folder = _partial(folder)
        else:
            progress.note("measured before; --fresh measures again")
        return Measured(run, folder, *results.read_points(folder, run), broken)


def _lab(run: Run, path: Path, place: Place, progress: Progress) -> Lab:
    if run.target == "sim":
        return sim.Lab(run, path, place.machine or run.spec.machine.simulated, place.dask)
    [kernel] = kernels.resolve([place.kernel], progress.note)
    return vm.Lab(run, path, kernel, modules.build(kernel))


def show(measured: Measured, console: Console) -> None:
    """Table, notes and the report's place; what went wrong comes last."""
    if measured.points:
        table.show(console, measured.run, measured.points, measured.folder)
        place = _short(measured.folder / "report.html")
        console.print(f"report: {place}", highlight=False, soft_wrap=True)
    if measured.cpu_bound:
        words = ", ".join(measured.cpu_bound)
        console.print(
            f"tailgate: the CPU, not the drive, was measured: {words}", highlight=False, markup=False
        )
    if measured.broken:
        console.print(f"tailgate: {measured.broken}", highlight=False, markup=False, soft_wrap=True)


def _partial(folder: Path) -> Path:
    return folder.with_name(folder.name + ".partial")


def _short(path: Path) -> str:
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)


def _measure(lab: Lab, folder: Path, jobs: int, fresh: bool, command: str, progress: Progress) -> str | None:
    """Measure what is missing and complete the run directory; how a guest broke, if one did."""
    partial = _partial(folder)
    if fresh:
        shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True, exist_ok=True)
    _write_sources(lab, partial)
    results.write_run(partial, lab.run)
    progress.note(lab.announcement(partial, jobs))
    began = datetime.now().astimezone()
    try:
        lab.measure(partial, results.chunks(lab.run), jobs, progress)
        if folder.is_dir():
            _compare(lab, folder, partial, jobs, progress)
    except BrokenRunError as e:
        _finish(lab, partial, command, began)
        return str(e)
    finally:
        progress.end()
    _finish(lab, partial, command, began)
    if folder.is_dir():
        previous = folder.with_name(folder.name + ".previous")
        shutil.rmtree(previous, ignore_errors=True)
        folder.rename(previous)
    partial.rename(folder)
    return None


def _write_sources(lab: Lab, folder: Path) -> None:
    sources = folder / "sources"
    sources.mkdir(parents=True, exist_ok=True)
    spec = lab.run.spec
    beside = lab.path.parent
    for file in (lab.path, *(beside / job for job in spec.jobs), beside / spec.paper.file, lab.drive_path):
        shutil.copy(file, sources / file.name)
    for name, data in lab.sources.items():
        (sources / name).write_bytes(data)


def _finish(lab: Lab, folder: Path, command: str, began: datetime) -> None:
    """Everything that is made of the raw files; again and again the same."""
    about = {
        **lab.environment,
        "drive_title": lab.drive.title,
        "identity": lab.key,
        "command": command,
        "began": began.isoformat(timespec="seconds"),
        "finished": datetime.now().astimezone().isoformat(timespec="seconds"),
    }
    (folder / "environment.json").write_text(json.dumps(about, indent=1) + "\n")
    measurements, points = results.read_points(folder, lab.run)
    results.write_parquet(lab.run, measurements, folder / "points.parquet")
    (folder / "results.json").write_text(json.dumps(results.to_json(lab.run, points), indent=1) + "\n")
    if points:
        report.write([folder], folder / "report.html")


def _compare(lab: Lab, before: Path, after: Path, jobs: int, progress: Progress) -> None:
    """Say whether a run measured again gave the same digits; where not, a third measurement decides."""

    def differ(one: Path, other: Path, chunk: Chunk) -> bool:
        pair = [[results.digits(m) for m in results.read_chunk(f, chunk, lab.run)] for f in (one, other)]
        return pair[0] != pair[1]

    if not lab.repeatable:
        return
    different = [c for c in results.chunks(lab.run) if differ(before, after, c)]
    if not different:
        progress.note("measured again: every digit equals the run before")
        return
    names = ", ".join(c.name for c in different)
    progress.note(f"measured again: {names} differ from the run before; a third time")
    third = after / "third"
    _write_sources(lab, third)
    lab.measure(third, different, jobs, progress)
    for chunk in different:
        if differ(before, third, chunk):
            word = "equals the second" if not differ(after, third, chunk) else "differs from both"
            progress.note(f"{chunk.name}: the third {word}")
        else:
            progress.note(f"{chunk.name}: the third equals the first, and stands")
            shutil.rmtree(after / "chunks" / chunk.name)
            (third / "chunks" / chunk.name).rename(after / "chunks" / chunk.name)
    shutil.rmtree(third)


@contextmanager
def _only_one(base: Path, key: str) -> Iterator[None]:
    """Two commands that would measure the same thing at once: the second is told to wait."""
    base.mkdir(parents=True, exist_ok=True)
    with (base / f".{key}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as e:
            raise UsageError(f"another command is measuring {base / key}: wait for it, or stop it") from e
        yield
