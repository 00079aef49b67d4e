# SPDX-License-Identifier: GPL-2.0-only
"""Experiments as files: what is compared, under which load, beside which published figure.

An experiment is `experiments/<family>/<name>.toml` with the fio job file that it names. The file says
everything that decides a result; nothing is inherited from the machine that happens to run it.
"""

import itertools
import re
import tomllib
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tailgate import cgroups
from tailgate.arrivals import Arrivals
from tailgate.errors import UsageError

#: The folder of the checkout that holds experiments/ and drives/.
ROOT = Path(__file__).resolve().parents[2]
EXPERIMENTS = ROOT / "experiments"

ModeName = Literal["quick", "full", "claims"]
Cells = Literal["highest throughput", "highest latency"]
Knob = int | str
Share = Annotated[float, Field(ge=0, le=1)]
Label = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")]
CgroupPath = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*(/[a-z0-9][a-z0-9-]*)*$")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Scheduler(_Strict):
    """One scheduler of the comparison, with every knob that matters."""

    label: Label
    name: str
    knobs: dict[str, Knob] = {}
    #: Settings of the queue that differ from the experiment's for this row; "default" leaves the kernel's.
    queue: dict[str, Knob] = {}
    #: Knobs that are times: they are multiplied by the dilation, as the drive's latencies are.
    dilated: tuple[str, ...] = ()
    #: Knobs that are rates: they are divided by it.
    rates: tuple[str, ...] = ()
    #: By path of the cgroup, or "root", what it is told, as {"io.max": {"rbps": 100000000}}. A flow that is
    #: named here and has no cgroup has one of its name. The simulator has io.mqfq.weight only.
    cgroups: dict[str, dict[str, Any]] = {}
    #: The scheduler's name in the paper's tables and text, or its names, where those differ.
    paper: str | tuple[str, ...] | None = None

    @property
    def papers(self) -> tuple[str, ...]:
        """All of its names in the paper."""
        return (self.paper,) if isinstance(self.paper, str) else self.paper or ()

    @model_validator(mode="after")
    def _dilated_knobs_exist(self) -> "Scheduler":
        for key, names in (("dilated", self.dilated), ("rates", self.rates)):
            for knob in names:
                if not isinstance(self.knobs.get(knob), int):
                    raise ValueError(f"{key}: {knob} is not one of the integer knobs above it")
        for group, settings in self.cgroups.items():
            try:
                cgroups.check(group, settings)
            except ValueError as e:
                raise ValueError(f"cgroups.{group}.{e}") from e
        return self


class Flow(_Strict):
    """A flow is what the results call the processes of one section of the fio job file."""

    section: str
    role: Literal["real-time", "background"]
    #: The cgroup that its processes are in under every scheduler, a path.
    cgroup: CgroupPath | None = None


class FileSystem(_Strict):
    """A file system, made anew on the beginning of the drive for each point, and mounted on /mnt."""

    type: Literal["ext4", "xfs", "f2fs"]
    #: Its size; what lies beyond is the drive's alone. mkfs.xfs makes none below 300 MiB.
    mib: Annotated[int, Field(ge=64)]


class Sweep(_Strict):
    """A load at several rates of its background, and how it differs from the experiment's other loads."""

    #: Names the load where an experiment has several.
    label: Label | None = None
    access: Literal["random", "sequential"]
    op: Literal["read", "write", "readwrite", "trim"]
    block_size_kib: Annotated[int, Field(gt=0)]
    #: Of the real-time flows, where theirs is another one.
    rt_block_size_kib: Annotated[int, Field(gt=0)] | None = None
    #: Further keys that the points carry, such as trimmed_percent.
    keys: dict[str, Knob] = {}
    #: background_rate 1.0 is no limit at all; a share below it is that share of this rate, over all
    #: processes of the background.
    full_rate_mib_s: Annotated[float, Field(gt=0)]
    #: With true, background_rate 1.0 is full_rate_mib_s too: where the paper's own sweep ended there.
    limited: bool = False
    #: Instead of the experiment's.
    job: str | None = None
    #: What `${NAME}` stands for in the job file; fio itself takes it from its environment.
    variables: dict[str, str] = {}
    #: When the requests of the real-time flows come, if the job file does not say so.
    arrivals: Arrivals | None = None
    #: The flows that take part, of the experiment's; none named: all.
    flows: tuple[str, ...] = ()
    #: The schedulers that meet this load, by label; none named: all.
    schedulers: tuple[Label, ...] = ()
    #: Instead of the mode's.
    background_rates: tuple[Share, ...] = ()
    #: The drive's state under this load: parameters that differ from the drive file's.
    drive: dict[str, int] = {}
    #: What the load's files are on; the drive must keep its data then (memory_backed). The target vm only.
    file_system: FileSystem | None = None
    #: Instead of the machine's.
    iops_max: Annotated[int, Field(gt=0)] | None = None
    #: Columns that choose the one line of the paper's file that has the figure of this load.
    row: dict[str, str] = {}
    #: Columns that choose the lines of the paper's file that have this load, each a figure of one scheduler.
    lines: dict[str, str] = {}
    #: Whether the paper's tables have this load; they give access, op and block size, but no other drive
    #: state or mix.
    in_tables: bool = True

    @property
    def carried(self) -> dict[str, Knob]:
        """The further keys of its points."""
        return {**({"arrivals": self.arrivals.words} if self.arrivals else {}), **self.keys}

    @property
    def words(self) -> str:
        """The load in words, such as `random reads, 4 KiB`."""
        size = f"{self.block_size_kib} KiB"
        if self.rt_block_size_kib not in (None, self.block_size_kib):
            size += f" (real-time: {self.rt_block_size_kib} KiB)"
        return self._words(size)

    @property
    def words_without_size(self) -> str:
        """The same for loads that differ in the block size alone."""
        return self._words()

    def _words(self, *size: str) -> str:
        if self.file_system:
            return self.file_system.type
        words = {"read": "reads", "write": "writes", "readwrite": "reads and writes", "trim": "discards"}
        op = words[self.op]
        keys = (f"{k.replace('_', ' ')} {v}" for k, v in self.carried.items())
        return ", ".join([f"{self.access} {op}", *size, *keys])


class ModeOfSim(_Strict):
    """What the simulator, which is faster, measures instead."""

    rt_samples: Annotated[int, Field(ge=1)] | None = None
    background_rates: Annotated[tuple[Share, ...], Field(min_length=1)] | None = None
    seeds: Annotated[tuple[Annotated[int, Field(ge=1, le=2**31)], ...], Field(min_length=1)] | None = None


class Mode(_Strict):
    """How much is measured: real-time requests a point and seed, loads, seeds."""

    #: 0 where a point ends by time.
    rt_samples: Annotated[int, Field(ge=0)] = 0
    #: How long a point without samples of a real-time flow takes, in (undilated) seconds.
    duration_s: Annotated[float, Field(gt=0)] | None = None
    background_rates: Annotated[tuple[Share, ...], Field(min_length=1)]
    seeds: Annotated[tuple[Annotated[int, Field(ge=1, le=2**31)], ...], Field(min_length=1)]
    #: A point that lacks its samples after so many (undilated) seconds ends as it is, and says so.
    limit_s: Annotated[float, Field(gt=0)]
    sim: ModeOfSim = ModeOfSim()

    def on(self, target: str) -> "Mode":
        """What this mode is on a target."""
        changes = self.sim.model_dump(exclude_none=True) if target == "sim" else {}
        return self.model_copy(update={**changes, "sim": ModeOfSim()})


class Machine(_Strict):
    """The machine in the lab: vCPUs, and how much slower than life the drive runs."""

    smp: Annotated[int, Field(ge=1, le=64)] = 1
    dilation: Literal["auto"] | Annotated[int, Field(ge=1, le=1024)] = "auto"
    #: The most I/O operations per second that any point reaches: sets the first dilation, and the estimate
    #: of time.
    iops_max: Annotated[int, Field(gt=0)]
    memory_mib: Annotated[int, Field(ge=256)] = 1024
    #: What the simulator has instead, one of machines/, unless it is told another one.
    simulated: str = "paper"
    slice_us: Annotated[int, Field(ge=0)] = 0


class Variant(_Strict):
    """Some points measured once more on another machine or drive, to show what that changes."""

    title: str
    modes: tuple[ModeName, ...]
    schedulers: Annotated[tuple[Label, ...], Field(min_length=1)]
    background_rates: Annotated[tuple[Share, ...], Field(min_length=1)]
    #: Instead of the mode's; several CPUs cost much host time.
    rt_samples: Annotated[int, Field(ge=1)] | None = None
    machine: Machine
    drive: dict[str, int] = {}


class Paper(_Strict):
    """The published figure, and the file with the paper's numbers."""

    file: str
    title: str
    figure: str
    x: str
    y: str
    latency: str
    #: Which of our points stands beside the paper's: Table II has the highest throughput with the latency
    #: there, Table III the highest latency with the throughput there.
    cells: Cells = "highest throughput"
    #: How the paper draws it; its tables are not drawn, and shares are a table.
    plot: Literal["bandwidth-latency", "medians", "sizes", "ccdf", "shares", "none"] = "bandwidth-latency"


class Experiment(_Strict):
    """A whole experiment file. `name` is `family/name`; `path` is the file.

    In the file `axes` may stand for sweeps: see `expand`.
    """

    title: str
    drive: str
    job: str
    paper: Paper
    sweeps: Annotated[tuple[Sweep, ...], Field(min_length=1)]
    machine: Machine
    flows: Annotated[dict[str, Flow], Field(min_length=1)]
    queue: dict[str, Knob]
    schedulers: Annotated[tuple[Scheduler, ...], Field(min_length=1)]
    modes: dict[ModeName, Mode]
    variants: tuple[Variant, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _expanded(cls, data: object) -> object:
        return expand(data) if isinstance(data, dict) and "axes" in data else data

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
            # A point ends when the real-time flow has its samples, or else by time.
            for name, mode in self.modes.items():
                if self.real_time(sweep) and not mode.rt_samples and not mode.duration_s:
                    raise ValueError(f"modes.{name}: expected rt_samples or duration_s: when a point ends")
                if not self.real_time(sweep) and not mode.duration_s:
                    raise ValueError(f"modes.{name}: expected duration_s, as there is no real-time flow")
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
        """The names of a load's background flows, the ones whose rate is set."""
        return tuple(name for name in self.flows_in(sweep) if self.flows[name].role == "background")

    def cgroups_in(self, sweep: Sweep, scheduler: Scheduler) -> dict[str, str]:
        """The cgroups that flows of a load are in, by flow."""
        told = {name: name if name in scheduler.cgroups else None for name in self.flows_in(sweep)}
        found = {name: self.flows[name].cgroup or own for name, own in told.items()}
        return {name: path for name, path in found.items() if path}

    def queue_of(self, scheduler: Scheduler) -> dict[str, Knob]:
        """The settings of the queue that are written for a scheduler."""
        return {k: v for k, v in (self.queue | scheduler.queue).items() if v != "default"}

    def job_of(self, sweep: Sweep) -> str:
        """The job file of a load, beside the experiment file."""
        return sweep.job or self.job

    @property
    def jobs(self) -> tuple[str, ...]:
        """The job files that are used, each once."""
        return tuple(dict.fromkeys(self.job_of(sweep) for sweep in self.sweeps))


def expand(data: Mapping[str, Any]) -> dict[str, Any]:
    """An experiment whose loads are given by `axes`, with `sweeps` instead.

    `axes` are lists of partial sweeps, and each combination of one of each list is a load: its label is
    theirs joined by `-`, an empty one left out, its tables are theirs merged. `sweep` is what all have, and
    `lines` gives some of them, by label, their lines of the paper. ValueError for what is not so.
    """
    rest = {k: v for k, v in data.items() if k not in ("axes", "sweep", "lines")}
    axes, lines = data["axes"], dict(data.get("lines", {}))
    if "sweeps" in data:
        raise ValueError("sweeps: expected either these or axes")
    if not isinstance(axes, dict) or not all(
        isinstance(axis, list) and all(isinstance(part, dict) for part in axis) for axis in axes.values()
    ):
        raise ValueError("axes: expected arrays of tables")
    sweeps = []
    for parts in itertools.product(*axes.values()):
        sweep: dict[str, Any] = {}
        for part in (data.get("sweep", {}), *parts):
            for key, value in part.items():
                sweep[key] = {**sweep.get(key, {}), **value} if isinstance(value, dict) else value
        sweep["label"] = "-".join(part["label"] for part in parts if part.get("label"))
        if sweep["label"] in lines:
            sweep["lines"] = lines.pop(sweep["label"])
        sweeps.append(sweep)
    for label in lines:
        raise ValueError(f"lines: there is no load {label}; expected {one_of([s['label'] for s in sweeps])}")
    return {**rest, "sweeps": sweeps}


def _once(key: str, labels: list[str]) -> list[str]:
    for label in labels:
        if labels.count(label) > 1:
            raise ValueError(f"{key}: the label {label} stands twice; expected each once")
    return labels


def _known(key: str, names: Sequence[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            raise ValueError(f"{key}: {name} is none of the labels; expected {one_of(known)}")


def one_of(words: Sequence[str]) -> str:
    """`a`, `a or b`, `a, b or c`."""
    words = [str(w) for w in words]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


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
    spec = parse_toml(path, Experiment)
    for key, file in (*(("job", job) for job in spec.jobs), ("paper.file", spec.paper.file)):
        if not (path.parent / file).is_file():
            raise UsageError(
                f"{path}: {key}: expected a file beside the experiment, but there is no {path.parent / file}"
            )
    return spec


Model = TypeVar("Model", bound=BaseModel)


def load_toml(folder: Path, kind: str, name: str, model: type[Model]) -> tuple[Path, Model]:
    """The file `<name>.toml` of a folder of them. UsageError if there is none, or if it is not right."""
    path = folder / f"{name}.toml"
    if not path.is_file():
        known = sorted(p.stem for p in folder.glob("*.toml"))
        expected = one_of(known) if known else f"a file {path}"
        raise UsageError(f"there is no {kind} {name}; expected {expected}")
    return path, parse_toml(path, model)


def parse_toml(path: Path, model: type[Model]) -> Model:
    """Read a TOML file into a model. UsageError: one line with file, key (or line) and what was expected."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as e:
        raise UsageError(f"{path}: expected a readable TOML file ({e.strerror})") from e
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise UsageError(f"{path}: not valid TOML: {e}") from e
    try:
        return model.model_validate(data)
    except ValidationError as e:
        raise UsageError(f"{path}: {_explain(e, model)}") from e


# What pydantic's kinds of error expect, in the words of TOML.
_EXPECTED: Mapping[str, str] = {
    "int_type": "an integer",
    "int_parsing": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "float_parsing": "a number",
    "string_type": "a string",
    "tuple_type": "an array",
    "dict_type": "a table",
    "model_type": "a table",
    "greater_than": "a number above {gt}",
    "greater_than_equal": "a number of at least {ge}",
    "less_than_equal": "a number of at most {le}",
    "too_short": "at least {min_length} of them",
}


def _explain(error: ValidationError, model: type[BaseModel]) -> str:
    """The first finding of pydantic in one clause: key, what was expected, what stood there."""
    # An unknown key is the likeliest reason for a missing one, so it is told first.
    errors = sorted(error.errors(), key=lambda e: e["type"] != "extra_forbidden")
    found = errors[0]
    loc = _location(found["loc"])
    key = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in loc).lstrip(".")
    kind, given = found["type"], found["input"]
    if kind == "extra_forbidden":
        return f"{key}: unknown key; expected {one_of(_keys_at(model, loc[:-1]))}"
    if kind == "missing":
        return f"{key}: missing; expected {_describe(model, loc)}"
    if kind == "value_error":
        message = str(found["ctx"]["error"])
        return f"{key}: {message}" if key else message
    # A union reports each of its arms.
    expected = dict.fromkeys(
        _EXPECTED[e["type"]].format(**e.get("ctx", {}))
        if e["type"] in _EXPECTED
        else _lower(e["msg"].removeprefix("Input should be "))
        for e in errors
        if _location(e["loc"]) == loc
    )
    return f"{key}: expected {' or '.join(expected)}, got {given!r}"


def _location(loc: tuple[str | int, ...]) -> list[str | int]:
    return [part for part in loc if part not in _UNION_ARMS]


# Names that pydantic puts into a location for the arms of a union; no key of ours is called so.
_UNION_ARMS = frozenset({"int", "str", "float", "literal['auto']", "constrained-int", "[key]"})


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _keys_at(model: type[BaseModel], loc: Sequence[str | int]) -> list[str]:
    """The keys that the model at this location knows."""
    here: object = model
    for part in loc:
        here = _step(here, part)
    return (
        sorted(here.model_fields)
        if isinstance(here, type) and issubclass(here, BaseModel)
        else ["no such key"]
    )


def _describe(model: type[BaseModel], loc: Sequence[str | int]) -> str:
    here: object = model
    for part in loc:
        here = _step(here, part)
    if isinstance(here, type) and issubclass(here, BaseModel):
        return f"a table with {one_of(sorted(here.model_fields))}"
    if typing.get_origin(here) is Annotated:
        here = typing.get_args(here)[0]
    if typing.get_origin(here) is Literal:
        return one_of([repr(a) for a in typing.get_args(here)])
    origin = typing.get_origin(here)
    if origin is tuple:
        return "an array"
    if origin is dict:
        return "a table"
    return {str: "a string", int: "an integer", float: "a number"}.get(typing.cast(type, here), "a value")


def _step(here: object, part: str | int) -> object:
    """The type that stands at one step of a location inside a type."""
    if typing.get_origin(here) is Annotated:
        here = typing.get_args(here)[0]
    if isinstance(here, type) and issubclass(here, BaseModel):
        field = here.model_fields.get(str(part))
        return _table(field.annotation) if field else None
    origin, args = typing.get_origin(here), typing.get_args(here)
    if origin is tuple:
        return args[0]
    return args[1] if origin is dict else None


def _table(here: object) -> object:
    """Of a union the model in it, if there is one: what may be left out is described as what it is."""
    if typing.get_origin(here) not in (typing.Union, types.UnionType):
        return here
    arms = typing.get_args(here)
    return next((a for a in arms if isinstance(a, type) and issubclass(a, BaseModel)), here)
