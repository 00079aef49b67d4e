# SPDX-License-Identifier: GPL-2.0-only
"""K2: what another multiple than two of the idle drive's latency would give the background."""

from collections.abc import Iterator

from tailgate.upkeep.claims.lab import Lab
from tailgate.upkeep.claims.quantity import Quantity
from tailgate.upkeep.claims.results import Figure, Source
from tailgate.upkeep.claims.simulations import reader, with_knobs
from tailgate.upkeep.claims.steps.auto import AIM_OF, TARGETS, Cell, cells, side_by_side


def of_cell(cell: Cell) -> dict[str, Quantity]:
    """The background, and p99 over the upper quartile in the idle drive, for each target."""
    quartile_us = reader(cell.idle).latency.percentile(AIM_OF)
    out = {"none/mib_s": reader(cell.none).background}
    for times in TARGETS:
        target_us = round(times * quartile_us)
        if target_us <= cell.most_us:
            ours = reader(with_knobs(cell.k2, {"rt_tags": 25, "rt_target_us": target_us}))
            out[f"times-{times:g}/p99-over-quartile"] = ours.us(0.99) / quartile_us
            out[f"times-{times:g}/mib_s"] = ours.background
    return out


def auto_multiples(lab: Lab) -> Iterator[Figure]:
    """K2: targets of other multiples than that of `rt_target_us` `auto`, 970 EVO."""
    source = Source("tailgate claims auto_multiples", "sim", "virtual", (1,))
    for load, figures in side_by_side(of_cell, dict(cells("970evo"))).items():
        for name, quantity in figures.items():
            yield Figure(f"auto-multiples/sim/970evo/{load}/{name}", quantity, source)


STEPS = (auto_multiples,)
