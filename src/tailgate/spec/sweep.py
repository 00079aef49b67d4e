# SPDX-License-Identifier: GPL-2.0-only
"""A load of an experiment, and loads that are the combinations of several axes."""

import itertools
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, Field

from tailgate.base.errors import one_of
from tailgate.spec.arrivals import Arrivals
from tailgate.spec.scheduler import Knob, Label

T = TypeVar("T")


def distinct(values: tuple[T, ...]) -> tuple[T, ...]:
    """ValueError for a duplicate value: it would be measured twice, and count as two."""
    for value in values:
        if values.count(value) > 1:
            raise ValueError(f"{value} stands twice; expected each once")
    return values


Share = Annotated[float, Field(ge=0, le=1)]
Shares = Annotated[tuple[Share, ...], AfterValidator(distinct)]


class FileSystem(BaseModel, extra="forbid", frozen=True):
    """A file system, made anew at the beginning of the drive for each point, and mounted on /mnt."""

    type: Literal["ext4", "xfs", "f2fs"]
    #: Its size; the rest of the drive is outside of it. mkfs.xfs makes none below 300 MiB.
    mib: Annotated[int, Field(ge=64)]


class Sweep(BaseModel, extra="forbid", frozen=True):
    """A load at several rates of its background."""

    #: Identifies the load in an experiment with several loads.
    label: Label | None = None
    access: Literal["random", "sequential"]
    op: Literal["read", "write", "readwrite", "trim"]
    block_size_kib: Annotated[int, Field(gt=0)]
    #: Block size of the real-time flows, if it differs.
    rt_block_size_kib: Annotated[int, Field(gt=0)] | None = None
    #: Further keys of the points in results, such as trimmed_percent.
    keys: dict[str, Knob] = {}
    #: background_rate 1.0 means no limit. A lower value is that share of this rate, over all background
    #: processes.
    full_rate_mib_s: Annotated[float, Field(gt=0)]
    #: If true, background_rate 1.0 is full_rate_mib_s too, because the paper's own sweep ended there.
    limited: bool = False
    #: Replaces the experiment's job.
    job: str | None = None
    #: Values of `${NAME}` in the job file; fio itself takes them from its environment.
    variables: dict[str, str] = {}
    #: Times at which requests of the real-time flows are due, if the job file does not state them.
    arrivals: Arrivals | None = None
    #: The flows of the experiment that take part; empty: all.
    flows: tuple[str, ...] = ()
    #: The schedulers that are measured under this load, by label; empty: all.
    schedulers: tuple[Label, ...] = ()
    #: Replaces the mode's rates.
    background_rates: Shares = ()
    #: Drive parameters under this load that differ from the drive file's, such as its state.
    drive: dict[str, int] = {}
    #: The file system of the load's files; the drive must then keep its data (memory_backed). Target vm only.
    file_system: FileSystem | None = None
    #: Replaces the machine's value.
    iops_max: Annotated[int, Field(gt=0)] | None = None
    #: Columns that select the line of the paper's file with the figure of this load.
    row: dict[str, str] = {}
    #: Columns that select the lines of the paper's file for this load, each a figure of one scheduler.
    lines: dict[str, str] = {}
    #: Whether the paper's tables have this load. They identify a load by access, op and block size, but not
    #: by other state of the drive or mix.
    in_tables: bool = True

    @property
    def carried(self) -> dict[str, Knob]:
        """The further keys of the load's points."""
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
        """The load in words without its block size, for loads that differ only in that."""
        return self._words()

    def _words(self, *size: str) -> str:
        if self.file_system:
            return self.file_system.type
        words = {"read": "reads", "write": "writes", "readwrite": "reads and writes", "trim": "discards"}
        op = words[self.op]
        keys = (f"{k.replace('_', ' ')} {v}" for k, v in self.carried.items())
        return ", ".join([f"{self.access} {op}", *size, *keys])


def expand(data: Mapping[str, Any]) -> dict[str, Any]:
    """An experiment file with its `axes` expanded into `sweeps`; without `axes` it is unchanged.

    `axes` are lists of partial sweeps; each combination of one from each list is a load. Its label is theirs
    joined by `-`, without empty ones; its tables are theirs merged. `sweep` has the keys that all loads
    share, and `lines` has the paper's lines of some loads, by label. ValueError for invalid data.
    """
    if "axes" not in data:
        return dict(data)
    rest = {k: v for k, v in data.items() if k not in ("axes", "sweep", "lines")}
    if "sweeps" in data:
        raise ValueError("sweeps: expected either these or axes")
    for key in ("sweep", "lines"):
        if not isinstance(data.get(key, {}), dict):
            raise ValueError(f"{key}: expected a table")
    axes, lines = data["axes"], dict(data.get("lines", {}))
    if not isinstance(axes, dict) or not all(
        isinstance(axis, list) and all(isinstance(part, dict) for part in axis) for axis in axes.values()
    ):
        raise ValueError("axes: expected arrays of tables")
    sweeps = []
    for parts in itertools.product(*axes.values()):
        sweep: dict[str, Any] = {}
        for part in (data.get("sweep", {}), *parts):
            if not isinstance(part.get("label", ""), str):
                raise ValueError(f"axes: label: expected a string, got {part['label']!r}")
            for key, value in part.items():
                below = sweep.get(key, {})
                if isinstance(value, dict) and not isinstance(below, dict):
                    raise ValueError(f"axes: {key}: expected a table, as in another part, got {below!r}")
                sweep[key] = {**below, **value} if isinstance(value, dict) else value
        sweep["label"] = "-".join(part["label"] for part in parts if part.get("label"))
        if sweep["label"] in lines:
            sweep["lines"] = lines.pop(sweep["label"])
        sweeps.append(sweep)
    for label in lines:
        raise ValueError(f"lines: there is no load {label}; expected {one_of([s['label'] for s in sweeps])}")
    return {**rest, "sweeps": sweeps}
