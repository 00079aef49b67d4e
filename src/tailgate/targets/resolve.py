# SPDX-License-Identifier: GPL-2.0-only
"""Turns an experiment file and the choices of a command line into the run to measure."""

import fnmatch
from collections.abc import Sequence
from pathlib import Path

from tailgate.base import errors, paths
from tailgate.base.errors import UsageError
from tailgate.simulator import settings
from tailgate.spec import drive as drives
from tailgate.spec import experiment as experiments
from tailgate.spec.experiment import ModeName
from tailgate.spec.plan import Run
from tailgate.spec.sweep import Sweep


def resolve(
    path: Path,
    mode: ModeName,
    schedulers: Sequence[str] | None,
    seeds: tuple[int, ...] | None,
    target: str = "vm",
    loads: Sequence[str] | None = None,
    drive: str | None = None,
) -> Run:
    """The run that a command line asks for. UsageError for a choice that the experiment file does not have.

    `loads` are shell patterns of load labels; `drive` replaces the file's.
    """
    spec = experiments.load(path)
    if drive:
        drives.load(drive)
        spec = spec.model_copy(update={"drive": drive})
    if loads:
        spec = spec.model_copy(update={"sweeps": _matching(path, spec, loads)})
    if mode not in spec.modes:
        raise UsageError(f"{path}: there is no mode {mode}; expected {errors.one_of(list(spec.modes))}")
    labels = [s.label for s in spec.schedulers]
    for label in schedulers or ():
        if label not in labels:
            raise UsageError(f"{path}: there is no scheduler {label}; expected {errors.one_of(labels)}")
    chosen = tuple(s for s in spec.schedulers if not schedulers or s.label in schedulers)
    if target == "sim":
        if any(sweep.file_system for sweep in spec.sweeps):
            raise UsageError(f"{path}: the simulator has no file systems; --target vm measures this")
        chosen = tuple(s for s in chosen if settings.simulated(s))
        if not chosen:
            raise UsageError(f"{path}: the simulator has none of these schedulers; --target vm measures them")
    how = spec.modes[mode].on(target)
    if seeds:
        how = how.model_copy(update={"seeds": seeds})
    variants = tuple(i for i, v in enumerate(spec.variants) if mode in v.modes)
    absolute = path.resolve()
    if absolute.is_relative_to(paths.EXPERIMENTS):
        name = str(absolute.relative_to(paths.EXPERIMENTS).with_suffix(""))
    else:
        name = f"{absolute.parent.name}/{absolute.stem}".lstrip("/")
    return Run(name, spec, mode, how, chosen, variants, target)


def _matching(path: Path, spec: experiments.Experiment, loads: Sequence[str]) -> tuple[Sweep, ...]:
    labels = [s.label for s in spec.sweeps if s.label]
    for pattern in loads:
        if not fnmatch.filter(labels, pattern):
            raise UsageError(
                f"{path}: there is no load {pattern}; expected "
                + (errors.one_of(labels) if labels else "none, as there is one without a label")
            )
    return tuple(s for s in spec.sweeps if any(fnmatch.fnmatch(s.label or "", p) for p in loads))
