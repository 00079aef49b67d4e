# SPDX-License-Identifier: GPL-2.0-only
"""A scheduler of an experiment: its name, knobs, settings of the queue and of cgroups."""

from typing import Annotated, Any

from pydantic import BaseModel, Field, model_validator

from tailgate.spec import cgroups

Knob = int | str


Label = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")]


class Scheduler(BaseModel, extra="forbid", frozen=True):
    """One scheduler of the comparison, with every knob that matters."""

    label: Label
    name: str
    knobs: dict[str, Knob] = {}
    #: Queue settings that differ from the experiment's for this scheduler; "default" leaves the kernel's
    #: value.
    queue: dict[str, Knob] = {}
    #: Knobs that are times: they are multiplied by the dilation, as the drive's latencies are.
    dilated: tuple[str, ...] = ()
    #: Knobs that are rates: they are divided by the dilation.
    rates: tuple[str, ...] = ()
    #: Settings by path of the cgroup, or "root", as in {"io.max": {"rbps": 100000000}}. A key may also be a
    #: flow without a cgroup, which then gets a cgroup of that name. The simulator has io.mqfq.weight only.
    cgroups: dict[str, dict[str, Any]] = {}
    #: The scheduler's name in the paper, or its names if tables and text differ.
    paper: str | tuple[str, ...] | None = None

    @property
    def papers(self) -> tuple[str, ...]:
        """All names of this scheduler in the paper."""
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
