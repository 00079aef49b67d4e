# SPDX-License-Identifier: GPL-2.0-only
"""Experiments as files: schedulers to compare, the load, and the published figure to compare with, if any.

An experiment is `experiments/<family>/<name>.toml` with the fio job file that it names. The file states
everything that decides a result; no default depends on the machine that runs it.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, Field, model_validator

from tailgate.base.errors import UsageError, one_of
from tailgate.base.paths import EXPERIMENTS
from tailgate.spec import cgroups
from tailgate.spec.extends import expand_extends
from tailgate.spec.grid import expand_grids
from tailgate.spec.scheduler import Knob, Label, Scheduler
from tailgate.spec.sweep import Shares, Sweep, distinct, expand
from tailgate.spec.toml import parse_toml

ModeName = Literal["quick", "full", "claims"]
Cells = Literal["highest throughput", "highest latency"]
Plot = Literal["bandwidth-latency", "medians", "sizes", "ccdf", "shares", "grid", "none"]
CgroupPath = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*(/[a-z0-9][a-z0-9-]*)*$")]


class FlowSettings(BaseModel, extra="forbid", frozen=True):
    """A flow: the processes of one section of the fio job file, under the name that results use."""

    section: str
    role: Literal["real-time", "background"]
    #: The cgroup that its processes are in under every scheduler, a path.
    cgroup: CgroupPath | None = None


SEED_MAX = 2**31
#: Processors of a machine.
SMP_MAX = 64
Seed = Annotated[int, Field(ge=1, le=SEED_MAX)]
Seeds = Annotated[tuple[Seed, ...], AfterValidator(distinct)]


class ModeOfSim(BaseModel, extra="forbid", frozen=True):
    """What the simulator measures in this mode instead, as it is faster."""

    rt_samples: Annotated[int, Field(ge=1)] | None = None
    background_rates: Annotated[Shares, Field(min_length=1)] | None = None
    seeds: Annotated[Seeds, Field(min_length=1)] | None = None


class Mode(BaseModel, extra="forbid", frozen=True):
    """The amount of measuring: real-time requests for each point and seed, loads, seeds."""

    #: 0 if a point ends by time.
    rt_samples: Annotated[int, Field(ge=0)] = 0
    #: Duration of a point that has no samples of a real-time flow, in (undilated) seconds.
    duration_s: Annotated[float, Field(gt=0)] | None = None
    background_rates: Annotated[Shares, Field(min_length=1)]
    seeds: Annotated[Seeds, Field(min_length=1)]
    #: Time limit of a point in undilated seconds; a point that ends by it without all samples is marked.
    limit_s: Annotated[float, Field(gt=0)]
    sim: ModeOfSim = ModeOfSim()

    def on(self, target: str) -> "Mode":
        """This mode as it is on a target."""
        changes = self.sim.model_dump(exclude_none=True) if target == "sim" else {}
        return self.model_copy(update={**changes, "sim": ModeOfSim()})


class MachineSettings(BaseModel, extra="forbid", frozen=True):
    """The lab's machine: virtual CPUs, and by which factor the drive is slowed down."""

    smp: Annotated[int, Field(ge=1, le=SMP_MAX)] = 1
    dilation: Literal["auto"] | Annotated[int, Field(ge=1, le=1024)] = "auto"
    #: The highest number of I/O operations per second of any point. Decides the first dilation and the
    #: estimate of time.
    iops_max: Annotated[int, Field(gt=0)]
    memory_mib: Annotated[int, Field(ge=256)] = 1024
    #: The simulator's machine, one of machines/, if the command line names no other.
    simulated: str = "paper"
    #: Longest time that one of several virtual CPUs runs before the next one, in virtual time. Smaller values
    #: are more exact, and slower to emulate. 0: QEMU's own choice.
    slice_us: Annotated[int, Field(ge=0)] = 0


class Variant(BaseModel, extra="forbid", frozen=True):
    """Some points measured again on another machine or drive, to show the difference."""

    title: str
    modes: tuple[ModeName, ...]
    schedulers: Annotated[tuple[Label, ...], Field(min_length=1)]
    background_rates: Annotated[Shares, Field(min_length=1)]
    #: Replaces the mode's value; several CPUs cost much host time.
    rt_samples: Annotated[int, Field(ge=1)] | None = None
    machine: MachineSettings
    drive: dict[str, int] = {}


class Paper(BaseModel, extra="forbid", frozen=True):
    """The published figure, and the file with the paper's numbers."""

    file: str
    title: str
    figure: str
    x: str
    y: str
    latency: str
    #: Which of our points is compared with the paper's. Table II has the highest throughput and its latency,
    #: Table III the highest latency and its throughput.
    cells: Cells = "highest throughput"
    #: The form of the paper's figure. Tables and shares are shown as tables. A grid has two varying knobs.
    plot: Plot = "bandwidth-latency"


class Experiment(BaseModel, extra="forbid", frozen=True):
    """A whole experiment file. `name` is `family/name`; `path` is its path.

    In the file, `axes` may replace `sweeps`, and a scheduler may have a grid; `load` expands both. It also
    adds the content of the file that the experiment `extends`. An experiment that repeats no published figure
    has no `paper`; then its loads and schedulers name nothing of a paper either.
    """

    #: A file in the same folder, whose values apply where this file has none.
    extends: str | None = None
    title: str
    drive: str
    job: str
    paper: Paper | None = None
    sweeps: Annotated[tuple[Sweep, ...], Field(min_length=1)]
    machine: MachineSettings
    flows: Annotated[dict[str, FlowSettings], Field(min_length=1)]
    queue: dict[str, Knob]
    schedulers: Annotated[tuple[Scheduler, ...], Field(min_length=1)]
    modes: dict[ModeName, Mode]
    variants: tuple[Variant, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> "Experiment":
        labels = _once("schedulers", [s.label for s in self.schedulers])
        paths = [flow.cgroup or name for name, flow in self.flows.items()]
        above = [path for path in cgroups.with_parents(map(cgroups.parent, paths)) if path]
        for path in paths:
            if path in above:
                raise ValueError(f"flows: {path} has cgroups below it, and so no processes of its own")
        for i, scheduler in enumerate(self.schedulers):
            _known(f"schedulers[{i}].cgroups", list(scheduler.cgroups), [*paths, *above, cgroups.ROOT])
            if scheduler.paper and self.paper is None:
                raise ValueError(f"schedulers[{i}].paper: expected [paper] too, whose name this is")
        for i, variant in enumerate(self.variants):
            _known(f"variants[{i}].schedulers", variant.schedulers, labels)
        if len(self.sweeps) > 1 and not all(s.label for s in self.sweeps):
            raise ValueError("sweeps: expected a label for each of several loads")
        _once("sweeps", [s.label for s in self.sweeps if s.label])
        for i, sweep in enumerate(self.sweeps):
            _known(f"sweeps[{i}].schedulers", sweep.schedulers, labels)
            _known(f"sweeps[{i}].flows", sweep.flows, list(self.flows))
            if not self.background(sweep):
                raise ValueError('flows: none has role = "background"; expected at least one')
            if sweep.arrivals and (
                not self.real_time(sweep) or not all(m.rt_samples for m in self.modes.values())
            ):
                raise ValueError(
                    f"sweeps[{i}].arrivals: expected a real-time flow, and rt_samples in all modes"
                )
            # A point ends when the real-time flow has its samples, or without samples by time.
            for name, mode in self.modes.items():
                if self.real_time(sweep) and not mode.rt_samples and not mode.duration_s:
                    raise ValueError(f"modes.{name}: expected rt_samples or duration_s: when a point ends")
                if not self.real_time(sweep) and not mode.duration_s:
                    raise ValueError(f"modes.{name}: expected duration_s, as there is no real-time flow")
            if self.paper is None and (sweep.row or sweep.lines):
                key = "row" if sweep.row else "lines"
                raise ValueError(f"sweeps[{i}].{key}: expected [paper] too, whose file has these lines")
            if sweep.file_system and not sweep.drive.get("memory_backed"):
                raise ValueError(f"sweeps[{i}].drive: expected memory_backed = 1, as there is a file system")
        return self

    def flows_in(self, sweep: Sweep) -> tuple[str, ...]:
        """The names of the flows that take part in a load."""
        return tuple(name for name in self.flows if not sweep.flows or name in sweep.flows)

    def real_time(self, sweep: Sweep) -> tuple[str, ...]:
        """The names of a load's real-time flows; the first one's samples end a point."""
        return tuple(name for name in self.flows_in(sweep) if self.flows[name].role == "real-time")

    def background(self, sweep: Sweep) -> tuple[str, ...]:
        """The names of a load's background flows, whose rate is varied."""
        return tuple(name for name in self.flows_in(sweep) if self.flows[name].role == "background")

    def cgroups_in(self, sweep: Sweep, scheduler: Scheduler) -> dict[str, str]:
        """The cgroups that flows of a load are in, by flow."""
        told = {name: name if name in scheduler.cgroups else None for name in self.flows_in(sweep)}
        found = {name: self.flows[name].cgroup or own for name, own in told.items()}
        return {name: path for name, path in found.items() if path}

    def queue_of(self, scheduler: Scheduler) -> dict[str, Knob]:
        """The queue settings that are written for a scheduler."""
        return {k: v for k, v in (self.queue | scheduler.queue).items() if v != "default"}

    def job_of(self, sweep: Sweep) -> str:
        """The job file of a load, beside the experiment file."""
        return sweep.job or self.job

    @property
    def plot(self) -> Plot:
        """The form of the report's plot: the paper's, or one that suits the loads."""
        if self.paper:
            return self.paper.plot
        if any(self.real_time(sweep) for sweep in self.sweeps):
            return "bandwidth-latency"
        return "shares" if any(len(self.flows_in(sweep)) > 1 for sweep in self.sweeps) else "none"

    @property
    def jobs(self) -> tuple[str, ...]:
        """The job files that are used, each once."""
        return tuple(dict.fromkeys(self.job_of(sweep) for sweep in self.sweeps))

    @property
    def files_beside(self) -> tuple[tuple[str, str], ...]:
        """The files beside the experiment's that it names: (key, name), jobs first."""
        files = [("job", job) for job in self.jobs]
        if self.paper:
            files.append(("paper.file", self.paper.file))
        if self.extends:
            files.append(("extends", self.extends))
        return tuple(files)


def _once(key: str, labels: list[str]) -> list[str]:
    for label in labels:
        if labels.count(label) > 1:
            raise ValueError(f"{key}: the label {label} stands twice; expected each once")
    return labels


def _known(key: str, names: Sequence[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            raise ValueError(f"{key}: {name} is none of the labels; expected {one_of(known)}")


def names() -> list[str]:
    """The experiments of the checkout, `family/name`, in order: fig9 before fig10."""
    found = (str(p.relative_to(EXPERIMENTS).with_suffix("")) for p in EXPERIMENTS.glob("*/*.toml"))
    return sorted(found, key=lambda name: [int(w) if w.isdigit() else w for w in re.split(r"(\d+)", name)])


def find(name: str) -> Path:
    """The file of an experiment: a path, or `family/name` in the checkout. UsageError if there is none."""
    for path in (Path(name), EXPERIMENTS / f"{name}.toml"):
        if path.suffix == ".toml" and path.is_file():
            return path
    known = names()
    raise UsageError(
        f"there is no experiment {name}; expected the path of a .toml file"
        + (f", or {one_of(known)}" if known else "")
    )


def load(path: Path) -> Experiment:
    """Read and check an experiment file. UsageError names file, key and what was expected."""
    spec = parse_toml(path, Experiment, lambda data: expand_grids(expand(expand_extends(data, path.parent))))
    kept = {path.name}  # in the folder of a run, by name
    for key, file in spec.files_beside:
        if key != "paper.file" and Path(file).name != file:
            raise UsageError(
                f"{path}: {key}: expected the name of a file beside the experiment, got {file!r}"
            )
        if not (path.parent / file).is_file():
            raise UsageError(
                f"{path}: {key}: expected a file beside the experiment, but there is no {path.parent / file}"
            )
        if (name := Path(file).name) in kept:
            raise UsageError(f"{path}: {key}: expected another file name; another file is called {name}")
        kept.add(name)
    return spec
