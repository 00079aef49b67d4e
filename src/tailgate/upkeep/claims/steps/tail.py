# SPDX-License-Identifier: GPL-2.0-only
"""K2: targets for p99.9 beside targets for p99, 970 EVO."""

from collections.abc import Iterator

from tailgate.upkeep.claims.lab import Lab
from tailgate.upkeep.claims.quantity import Quantity
from tailgate.upkeep.claims.results import Figure, Source
from tailgate.upkeep.claims.simulations import Reader, pooled, with_knobs
from tailgate.upkeep.claims.steps.auto import AIM_OF, SEEDS, Starts, cells, side_by_side

LOADS = ("4k-closed", "4k-clock", "4k-poisson", "64k-closed", "64k-poisson")
#: Requests of the reader from each seed, of which 100 may be late.
REQUESTS = 100_000
#: Targets, in times the upper quartile in the idle drive: that of `auto`, and a longer one.
TIMES = (2, 4)


def tails_of(starts: Starts) -> dict[str, Quantity]:
    """p99 and p99.9, us, and the background, MiB/s, for each target.

    It is given for p99 and for p99.9; beside the latter stands a target for p99 that gives the same p99. Also
    how far p99.9 is off a target for p99.9: the ratio, less 1.
    """
    quartile_us = pooled([start.idle for start in starts]).latency.percentile(AIM_OF)

    def under(target_us: int, percentile: int) -> Reader:
        knobs = {"rt_tags": 25, "rt_target_us": target_us, "rt_target_percentile": percentile}
        return pooled([with_knobs(start.k2, knobs) for start in starts])

    out: dict[str, Quantity] = {}
    for times in TIMES:
        target_us = round(times * quartile_us)
        rare = under(target_us, 1)
        same_us = round(rare.latency.percentile(0.99))
        for kind, ours in (("p99", under(target_us, 0)), ("p99.9", rare), ("same-p99", under(same_us, 0))):
            place = f"times-{times}/{kind}"
            out |= {f"{place}/p99": ours.us(0.99), f"{place}/p99.9": ours.us(0.999)}
            out |= {f"{place}/mib_s": ours.background}
        out[f"times-{times}/p99.9/p99.9-off"] = rare.us(0.999) / float(target_us) - 1
    return out


def target_tail(lab: Lab) -> Iterator[Figure]:
    """K2: targets for p99.9 (`rt_target_percentile`) beside the same for p99, 970 EVO."""
    source = Source("tailgate claims target_tail", "sim", "virtual", SEEDS)
    of_seed = [dict(cells("970evo", seed, rt_samples=REQUESTS)) for seed in SEEDS]
    some = {load: [of_load[load] for of_load in of_seed] for load in LOADS}
    for load, figures in side_by_side(tails_of, some).items():
        for name, quantity in figures.items():
            yield Figure(f"target-tail/sim/970evo/{load}/{name}", quantity, source)


STEPS = (target_tail,)
