# SPDX-License-Identifier: GPL-2.0-only
"""Expands one table of an experiment's file into a scheduler at every combination of some knobs' values."""

import itertools
import re
from collections.abc import Mapping
from typing import Any

#: Knobs whose names end so are times; a label states one in the largest unit that makes it a whole number.
_NANOSECONDS = re.compile(r"_nsec$|_ns$")
_UNITS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns"))


def expand_grids(data: Mapping[str, Any]) -> dict[str, Any]:
    """An experiment's data, in which each scheduler with a `grid` is replaced by one for each combination.

    `grid` is a table of knobs, each with an array of values. The last knob varies fastest. A label is the
    scheduler's label and the values, joined by `-`: `kyber-50us-100ms`. ValueError for an invalid grid.
    """
    if not isinstance(schedulers := data.get("schedulers"), list):
        return dict(data)
    found: list[Any] = []
    for i, scheduler in enumerate(schedulers):
        if not isinstance(scheduler, dict) or "grid" not in scheduler:
            found.append(scheduler)
            continue
        grid = scheduler["grid"]
        if (
            not isinstance(grid, dict)
            or not grid
            or not all(isinstance(v, list) and v for v in grid.values())
        ):
            raise ValueError(f"schedulers[{i}].grid: expected a table of knobs, each with an array of values")
        if not isinstance(scheduler.get("knobs", {}), dict):
            raise ValueError(f"schedulers[{i}].knobs: expected a table")
        rest = {k: v for k, v in scheduler.items() if k != "grid"}
        for values in itertools.product(*grid.values()):
            knobs = dict(zip(grid, values, strict=True))
            label = "-".join([str(rest.get("label", "")), *(words(k, v) for k, v in knobs.items())])
            found.append({**rest, "label": label, "knobs": {**rest.get("knobs", {}), **knobs}})
    return {**data, "schedulers": found}


def words(knob: str, value: object) -> str:
    """A knob's value in a label: 50us for 50000 of read_lat_nsec."""
    if isinstance(value, int) and value and _NANOSECONDS.search(knob):
        size, unit = next((s, u) for s, u in _UNITS if value % s == 0)
        return f"{value // size}{unit}"
    return str(value).lower()
