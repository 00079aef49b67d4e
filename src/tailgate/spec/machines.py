# SPDX-License-Identifier: GPL-2.0-only
"""Machine files: `machines/<name>.toml`, the processors of the simulator, each number with its source."""

from pathlib import Path

from pydantic import BaseModel

from tailgate.base.paths import MACHINES
from tailgate.spec.drive import Parameter
from tailgate.spec.toml import load_toml

#: The machine that `tailgate simulate` uses by default: that of the K2 paper.
DEFAULT = "paper"


class SimulatedMachine(BaseModel, extra="forbid", frozen=True):
    """A machine. Parameters and costs are those of the structs Machine and Costs in sim/simulate.hpp.

    A machine without `cpus`, or with fewer than the experiment has, gets the experiment's number.
    """

    name: str
    title: str
    #: Whether time is dilated as in a guest, if an experiment's load needs that.
    dilated: bool = False
    parameters: dict[str, Parameter] = {}
    costs: dict[str, Parameter] = {}

    @property
    def cpus(self) -> int | None:
        """The number of processors, if the machine states one."""
        parameter = self.parameters.get("cpus")
        return parameter.value if parameter else None

    def with_cpus(self, cpus: int) -> "SimulatedMachine":
        """The same machine with this number of processors."""
        own = Parameter(value=cpus, unit="CPUs", source="as asked")
        return self.model_copy(update={"parameters": {**self.parameters, "cpus": own}})


def load(name: str) -> tuple[Path, SimulatedMachine]:
    """The machine file with this name in the checkout. UsageError if there is none, or if it is invalid."""
    return load_toml(MACHINES, "machine", name, SimulatedMachine)
