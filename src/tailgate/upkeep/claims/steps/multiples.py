# SPDX-License-Identifier: GPL-2.0-only
"""K2: the background at other multiples of the idle drive's latency than the two of `auto`.

Under targets, and with the best settings by hand that a search finds.
"""

from collections.abc import Callable, Iterator, Mapping

from tailgate.upkeep.claims import front
from tailgate.upkeep.claims.lab import Lab
from tailgate.upkeep.claims.quantity import Quantity, exact
from tailgate.upkeep.claims.results import Figure, Source
from tailgate.upkeep.claims.simulations import reader, with_knobs
from tailgate.upkeep.claims.steps.auto import AIM_OF, TARGETS, TRIALS, Cell, cells, side_by_side

#: Loads whose frontier is searched: two that are predicted, and one that is not.
SEARCHED = ("4k-closed", "64k-closed", "4k-poisson")
#: The frontier is read at p99s of these multiples.
READ_AT = (1.25, 1.5, 2, 3, 4, 8)
#: Constant bounds that are tried beside those of the search, which tries few: KiB, and sizes of pieces.
CONSTANT = (4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
CONSTANT_SPLITS = (0, 4, 16)


def multiples_of(cell: Cell) -> dict[str, Quantity]:
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


def frontier_of(cell: Cell) -> dict[str, Quantity]:
    """The most background of a constant bound, and of any setting, over none's.

    The simulations are short, so that p99 is good to some 5 %.
    """
    quartile_us = reader(cell.idle).latency.percentile(AIM_OF)
    none_mib_s = reader(cell.none).mib_s
    some = [front.fixed(kib, split_kib) for kib in CONSTANT for split_kib in CONSTANT_SPLITS]
    knobs = [{**front.COMMON, **bound} for bound in some]
    constant = [front.Setting(each, reader(with_knobs(cell.short, each))) for each in knobs]
    found = [*front.search(cell.short, TRIALS, 1), *constant]
    out = {}
    for times in READ_AT:
        allowed = [setting for setting in found if setting.p99 <= times * quartile_us]
        for kind, of_kind in (
            ("constant", [s for s in allowed if "inflight_kib_max" in s.knobs]),
            ("any", allowed),
        ):
            if of_kind:
                most_mib_s = max(setting.reader.mib_s for setting in of_kind)
                out[f"times-{times:g}/{kind}-over-none"] = exact(most_mib_s / none_mib_s)
    return out


def figures(
    step: str, work: Callable[[Cell], Mapping[str, Quantity]], some: Mapping[str, Cell]
) -> Iterator[Figure]:
    """The work's figures on loads of the 970 EVO."""
    source = Source(f"tailgate claims {step}", "sim", "virtual", (1,))
    for load, of_load in side_by_side(work, some).items():
        for name, quantity in of_load.items():
            yield Figure(f"{step.replace('_', '-')}/sim/970evo/{load}/{name}", quantity, source)


def auto_multiples(lab: Lab) -> Iterator[Figure]:
    """K2: targets of other multiples than that of `rt_target_us` `auto`, 970 EVO."""
    yield from figures("auto_multiples", multiples_of, dict(cells("970evo")))


def auto_frontier(lab: Lab) -> Iterator[Figure]:
    """K2: the frontier of settings by hand that a search finds, 970 EVO, three loads."""
    of_load = dict(cells("970evo"))
    yield from figures("auto_frontier", frontier_of, {load: of_load[load] for load in SEARCHED})


STEPS = (auto_multiples, auto_frontier)
