# SPDX-License-Identifier: GPL-2.0-only
"""`tailgate run`: measure an experiment."""

import argparse
import json
import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from tailgate.base.errors import UsageError, one_of
from tailgate.runs import export
from tailgate.show import report, table
from tailgate.show.words import load_words
from tailgate.spec import experiment as experiments
from tailgate.targets.measure import Measured, Where, measure
from tailgate.targets.resolve import resolve

OK, FAILED = 0, 1
TARGETS = ("vm", "sim")


def main(options: argparse.Namespace, arguments: Sequence[str], console: Console) -> int:
    """Run the command; the exit status."""
    if options.target not in TARGETS:
        raise UsageError(f"there is no target {options.target}; expected {one_of(TARGETS)}")
    for target, names in (("vm", ("kernel",)), ("sim", ("machine", "dask"))):
        for name in names:
            if target != options.target and getattr(options, name) is not None:
                raise UsageError(f"--{name} is for --target {target} only")

    path = experiments.find(options.experiment)
    run = resolve(
        path,
        options.mode,
        options.schedulers,
        options.seeds,
        options.target,
        options.loads,
        options.drive,
    )
    command = shlex.join(["tailgate", *arguments])
    place = Where(options.kernel or "backports", options.machine, options.dask)
    jobs = options.jobs or os.cpu_count() or 1
    measured = measure(run, path, place, options.out, jobs, options.fresh, command, write_report, console)
    show(measured, console)
    if options.json:
        print(json.dumps(export.to_json(run, measured.points)))
    return OK if measured.ok else FAILED


def write_report(folder: Path) -> None:
    """The report of a run, in its folder."""
    report.write([folder], folder / "report.html")


def show(measured: Measured, console: Console) -> None:
    """Table, notes and the report's place; what went wrong comes last."""
    if measured.points:
        table.show(console, measured.run, measured.points, measured.folder)
        place = _short(measured.folder / "report.html")
        console.print(f"report: {place}", highlight=False, soft_wrap=True)
    if measured.cpu_bound:
        words = ", ".join(
            f"{m.scheduler.label} at {load_words(m.background_rate)} load" for m in measured.cpu_bound
        )
        console.print(
            f"tailgate: the CPU, not the drive, was measured: {words}", highlight=False, markup=False
        )
    if measured.broken:
        console.print(f"tailgate: {measured.broken}", highlight=False, markup=False, soft_wrap=True)


def _short(path: Path) -> str:
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)
