# SPDX-License-Identifier: GPL-2.0-only
"""Drive files: `drives/<name>.toml`, the parameters of the virtual drive, each with its source."""

from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel

from tailgate.base.errors import UsageError
from tailgate.base.paths import DRIVES
from tailgate.spec.toml import load_toml, parse_toml


class Parameter(BaseModel, extra="forbid", frozen=True):
    """One parameter of the drive: value, unit, source, and whether it was fitted."""

    value: int
    unit: str
    source: str
    fitted: bool = False


class Drive(BaseModel, extra="forbid", frozen=True):
    """A drive. Each parameter is a parameter of the module vflash of the same name."""

    name: str
    title: str
    parameters: dict[str, Parameter]


#: Parameters of vflash that belong to its driver, not to the drive: how the block layer sees the drive.
OF_DRIVER = frozenset({"attachment", "depth"})

#: A drive with the default of every parameter in flash/flash.h.
DEFAULTS = Drive(name="defaults", title="The parameters' own defaults", parameters={})


def load(name: str) -> tuple[Path, Drive]:
    """The drive file with this name in the checkout, or at this path if it ends in .toml.

    UsageError if there is none, or if it is invalid.
    """
    if name.endswith(".toml"):
        return Path(name), parse_toml(Path(name), Drive)
    return load_toml(DRIVES, "drive", name, Drive)


def values(drive: Drive, changes: Mapping[str, int]) -> dict[str, int]:
    """The drive's parameters with an experiment's changes. UsageError for a parameter that it may not set."""
    found = {key: p.value for key, p in drive.parameters.items()} | dict(changes)
    for key in ("dilation", "seed"):
        if key in found:
            raise UsageError(
                f"drive {drive.name}: {key} is set by the lab for each point; expected no such parameter"
            )
    for key, value in found.items():
        if not 0 <= value < 2**32:
            raise UsageError(f"drive {drive.name}: {key}: expected 0 to {2**32 - 1}, got {value}")
    return found


def split(values: Mapping[str, int]) -> tuple[dict[str, int], dict[str, int]]:
    """Splits parameters into those of the drive, as `flash/` models it, and those of its driver."""
    model = {key: v for key, v in values.items() if key not in OF_DRIVER}
    return model, {key: v for key, v in values.items() if key in OF_DRIVER}


def capacity(values: Mapping[str, int]) -> int:
    """The drive's size in bytes; the parameter's default is that of flash/flash.h."""
    return values.get("capacity_mib", 4096) << 20


def module_arguments(drive: Drive, changes: Mapping[str, int], dilation: int, seed: int) -> list[str]:
    """The command line of `insmod vflash.ko` for this drive: `key=value`, the drive's own keys first."""
    found = values(drive, changes) | {"dilation": dilation, "seed": seed}
    return [f"{key}={value}" for key, value in found.items()]
