# SPDX-License-Identifier: GPL-2.0-only
"""The entries of `make bench`'s file."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Result:
    """One entry of bench.json. `n`: I/Os that the value is the mean of, if it is one."""

    name: str
    value: float
    unit: str
    higher_is_better: bool
    context: str
    n: int | None = None
