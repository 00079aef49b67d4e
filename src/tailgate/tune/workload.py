# SPDX-License-Identifier: GPL-2.0-only
"""The load of a search: one of an experiment's, or any fio job file."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import tomlkit

from tailgate.base.errors import UsageError, one_of
from tailgate.load import fiojob, template
from tailgate.spec import experiment as experiments
from tailgate.spec.experiment import Experiment, Mode
from tailgate.spec.scheduler import Scheduler
from tailgate.spec.sweep import Sweep

REAL_TIME, BACKGROUND = "rt", "background"
#: The guest's drive; and the settings by which a job names a drive.
DEVICE = "/dev/vflash0"
_DEVICE = re.compile(r"^(\s*filename\s*=\s*)/dev/\S+", re.MULTILINE)
#: The drive in a line of a trace, after the time.
_TRACED = re.compile(r"^(\d+ +)/dev/\S+", re.MULTILINE)
_DEVICE_VARIABLE = re.compile(r"^\s*filename\s*=\s*\$\{(\w+)\}\s*$", re.MULTILINE)
#: File name of the experiment that is written for a search.
FILE = "workload.toml"


@dataclass(frozen=True)
class Asked:
    """The load as the command line gives it. `load` selects one of an experiment's loads; None: its
    only one.
    """

    workload: str
    load: str | None = None
    variables: Mapping[str, str] | None = None
    drive: str | None = None
    cpus: int | None = None


def name_of(asked: Asked) -> str:
    """The name of the folder of a search for this load."""
    return Path(asked.workload).stem if is_job(asked) else asked.workload.replace("/", "-")


def experiment_of(asked: Asked) -> tuple[Experiment, Path]:
    """An experiment with this one load, and the folder of its job file. UsageError.

    Each section of a job file becomes a flow with the section's name.
    """
    if not is_job(asked):
        if asked.workload.endswith(".fio"):
            raise UsageError(f"there is no job file {asked.workload}")
        path = experiments.find(asked.workload)
        if asked.variables:
            raise UsageError("--variable is for a job file; an experiment sets its own")
        spec = experiments.load(path)
        spec = spec.model_copy(update={"sweeps": (_one_load(path, spec, asked.load),), "variants": ()})
        return _chosen(spec, asked), path.parent
    if asked.load:
        raise UsageError("--load is for an experiment with several loads; a job file has one")
    path = Path(asked.workload)
    job = fiojob.parse(path, asked.variables, way_out="--variable {}=TEXT")
    text = tomlkit.parse(template.toml(path.stem, path.name, job, None)).unwrap()
    text["sweeps"][0]["variables"] = dict(asked.variables or {})
    return _chosen(Experiment.model_validate(text), asked), path.parent


def is_job(asked: Asked) -> bool:
    """Whether the load is a job file; otherwise it is an experiment."""
    return not asked.workload.endswith(".toml") and Path(asked.workload).is_file()


def _one_load(path: Path, spec: Experiment, label: str | None) -> Sweep:
    labels = [s.label or "" for s in spec.sweeps]
    if label is None and len(labels) > 1:
        raise UsageError(f"{path} has several loads: choose one with --load; expected {one_of(labels)}")
    if label is not None and label not in labels:
        raise UsageError(f"{path}: there is no load {label}; expected {one_of(labels)}")
    return spec.sweeps[labels.index(label) if label else 0].model_copy(update={"schedulers": ()})


def _chosen(spec: Experiment, asked: Asked) -> Experiment:
    cpus = {} if asked.cpus is None else {"smp": asked.cpus}
    return spec.model_copy(
        update={
            "extends": None,
            "drive": asked.drive or spec.drive,
            "paper": None,
            "sweeps": tuple(s.model_copy(update={"row": {}, "lines": {}}) for s in spec.sweeps),
            "machine": spec.machine.model_copy(update=cpus),
        }
    )


def members(spec: Experiment, mixed: Collection[str]) -> dict[str, list[str]]:
    """The flows of each name that a goal may use; flows that are `mixed` have `.read` and `.write` too.

    UsageError if a flow has the name of a group of flows without being the whole group.
    """
    sweep = spec.sweeps[0]
    found = {name: [name] for name in spec.flows_in(sweep)}
    found |= {f"{name}.{op}": [f"{name}.{op}"] for name in found if name in mixed for op in ("read", "write")}
    for group, flows in ((REAL_TIME, spec.real_time(sweep)), (BACKGROUND, spec.background(sweep))):
        if group in found and flows != (group,):
            raise UsageError(
                f"a flow is called {group}, which stands for {', '.join(flows) or 'none'}; "
                "expected another name for it"
            )
        if flows:
            found[group] = list(flows)
    return found


def rate_of(sweep: Sweep, mode: Mode) -> float:
    """The rate of the background in a search: the highest of the load."""
    return max(sweep.background_rates or mode.background_rates)


def write(spec: Experiment, schedulers: Sequence[Scheduler], source: Path, folder: Path) -> Path:
    """Write an experiment of these schedulers under the load, and the files that it needs; its path."""
    folder.mkdir(parents=True, exist_ok=True)
    [sweep] = spec.sweeps
    variables = dict(sweep.variables)
    for _, name in spec.files_beside:
        # The guest has this one drive, whichever drive the job file names.
        text = (source / name).read_text(encoding="utf-8")
        for variable in _DEVICE_VARIABLE.findall(text):
            if variables.get(variable, "").startswith("/dev/"):
                variables[variable] = DEVICE
        (folder / name).write_text(_DEVICE.sub(rf"\1{DEVICE}", text), encoding="utf-8")
    for trace, told in fiojob.traces(fiojob.parse(source / spec.job_of(sweep), sweep.variables)).items():
        (folder / trace.name).write_text(_TRACED.sub(rf"\1{DEVICE}", told), encoding="utf-8")
    modes = {
        name: m.model_copy(update={"background_rates": (rate_of(sweep, m),)})
        for name, m in spec.modes.items()
    }
    sweep = sweep.model_copy(update={"background_rates": (), "variables": variables})
    written = spec.model_copy(update={"schedulers": tuple(schedulers), "modes": modes, "sweeps": (sweep,)})
    data = written.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    text = "# SPDX-License-Identifier: GPL-2.0-only\n# Written by `tailgate tune`.\n" + tomlkit.dumps(data)
    path = folder / FILE
    path.write_text(text, encoding="utf-8")
    return path
