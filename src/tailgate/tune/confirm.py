# SPDX-License-Identifier: GPL-2.0-only
"""Measures the profiles of a search in a virtual machine."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from tailgate.base.progress import Progress
from tailgate.guest import kernels, modules, qemu
from tailgate.spec.experiment import ModeName
from tailgate.targets.measure import Measured, MeasureOptions, TargetOptions, measure, target_of
from tailgate.targets.resolve import resolve
from tailgate.tune.goal import Quantity


def check(kernel: str, progress: Progress) -> None:
    """UsageError if this host lacks what a guest needs. Called before a search, so that the user learns it
    first.
    """
    qemu.check_programs()
    [found] = kernels.resolve([kernel], progress.note)
    modules.build(found)


def measured(
    path: Path, mode: ModeName, kernel: str, options: MeasureOptions, progress: Progress
) -> Measured:
    """Measure an experiment in a guest with this kernel; its runs lie beside the file."""
    run = resolve(path, mode, None, None, "vm")
    return measure(
        target_of(run, path, TargetOptions(kernel), progress), path.parent / "runs", options, progress
    )


def values(
    done: Measured, quantities: Sequence[Quantity], members: Mapping[str, Sequence[str]]
) -> dict[str, tuple[float, ...]]:
    """The quantities by the scheduler's label, means over the seeds."""
    found: dict[str, list[tuple[float, ...]]] = {}
    for m in done.measurements:
        own = tuple(q.of(m.flows, members) for q in quantities)
        found.setdefault(m.scheduler.label, []).append(own)
    return {label: tuple(map(fmean, zip(*runs, strict=True))) for label, runs in found.items()}
