# SPDX-License-Identifier: GPL-2.0-only
"""Evaluates counted instructions: what a scheduler adds, and the share of each of its features.

`figures` below are instructions per I/O by load and contender on one kernel, as instructions.count returns.
"""

import itertools
from collections.abc import Mapping

from rich.table import Table

from tailgate.guest.kernels import Kernel
from tailgate.upkeep.bench.contenders import (
    CONTENDERS,
    FEATURES,
    LOADS,
    ON_LOADS,
    OURS,
    PARTS,
    STEPS,
    SWITCHED_ON,
    on_name,
)
from tailgate.upkeep.bench.result import Result

#: I/Os that are counted, by load.
IOS: Mapping[str, int] = {load.name: load.ios for load in LOADS}


def results(kernel: Kernel, figures: dict[str, dict[str, float]]) -> list[Result]:
    """Entries of bench.json for one kernel: totals, and the cost of Tailgate's schedulers over that of the
    kernel's.
    """
    series = kernel.series.replace(".", "_")
    out = []
    for load, by_contender in figures.items():
        none, ios = by_contender["none"], IOS[load]
        context = f"null_blk, 4 KiB random reads, {load}, Linux {kernel.release}, one CPU in virtual time"
        for c in CONTENDERS:
            name = f"instructions_per_io.{c.name}.{load}.{series}"
            out.append(Result(name, by_contender[c.name], "instructions", False, context, ios))
        k2 = by_contender["k2"]
        for name, other in itertools.product(OURS, ("mq-deadline", "bfq")):
            ratio = round((by_contender[name] - none) / (by_contender[other] - none), 3)
            name = f"added_over_{other}.{name}.{load}.{series}"
            out.append(Result(name, ratio, "ratio", False, context, ios))
        for c_name, value in by_contender.items():
            if (commit := c_name.removeprefix("k2 before ")) != c_name:
                name = f"instructions_per_io.k2_since.{commit}.{load}.{series}"
                more = f"{context}; less k2 of an earlier commit"
                out.append(Result(name, round(k2 - value, 1), "instructions", False, more, ios))
        for (feature, rt), price in prices(load, by_contender).items():
            name = f"instructions_per_io.price.{feature}.{'real-time' if rt else 'background'}.{series}"
            out.append(
                Result(name, price, "instructions", False, f"{context}; switched on, less k2 as it is", ios)
            )
        for feature, share in shares(by_contender).items():
            name = f"instructions_per_io.share.{feature}.{load}.{series}"
            out.append(Result(name, share, "instructions", False, context, ios))
        for part, cost in parts(by_contender).items():
            name = f"instructions_per_io.mqfq_part.{part}.{load}.{series}"
            out.append(Result(name, cost, "instructions", False, context, ios))
    out.append(
        Result(
            f"instructions_per_io.vflash_own.{series}",
            vflash_own(figures),
            "instructions",
            False,
            f"vflash less null_blk without its timer, none, qd32, Linux {kernel.release}: at most that",
            IOS["qd32"],
        )
    )
    return out


def vflash_own(figures: dict[str, dict[str, float]]) -> float:
    """Upper limit of the virtual drive's instructions for a one-page I/O; it includes the timer interrupt."""
    return round(figures["qd32"]["vflash"] - figures["qd32"]["none"], 1)


def shares(by_contender: dict[str, float]) -> dict[str, float]:
    """Instructions per I/O of each feature of k2; empty if none was left out."""
    if "k2 without rt_tags" not in by_contender:
        return {}
    k2 = by_contender["k2"]
    merging_in_none = by_contender["none"] - by_contender["none without merging"]
    out = {feature: round(k2 - by_contender[f"k2 without {feature}"], 1) for feature in FEATURES}
    out["merging"] = round(out["merging"] - merging_in_none, 1)
    return out


def parts(by_contender: Mapping[str, float]) -> dict[str, float]:
    """Instructions per I/O of each part of mqfq, and of all of it; empty if they were not measured."""
    if STEPS[0].name not in by_contender:
        return {}
    out = {part: by_contender[has] - by_contender[has_not] for part, (has, has_not) in PARTS.items()}
    out["merging"] -= by_contender["none"] - by_contender["none without merging"]
    return {part: round(cost, 1) for part, cost in out.items()}


def prices(load: str, by_contender: Mapping[str, float]) -> dict[tuple[str, bool], float]:
    """Instructions per I/O that each feature takes when it is on, by whether the I/O is real-time."""
    return {
        (feature, rt): round(by_contender[on_name(feature, rt)] - by_contender[on_name("", rt)], 1)
        for rt, of_load in ON_LOADS.items()
        for feature in SWITCHED_ON
        if of_load == load and on_name(feature, rt) in by_contender
    }


def price_table(kernel: Kernel, figures: Mapping[str, Mapping[str, float]]) -> Table:
    """Features that are off by default: what each adds, when on, to a background I/O and to a real-time
    one.
    """
    out = Table(title=f"K2: instructions per I/O when it is on, Linux {kernel.release}", title_justify="left")
    out.add_column("setting")
    out.add_column("background", justify="right")
    out.add_column("real-time", justify="right")
    found = {
        key: v for load, by_contender in figures.items() for key, v in prices(load, by_contender).items()
    }
    for feature, setting in SWITCHED_ON.items():
        out.add_row(" ".join(setting), *(f"{found[feature, rt]:+.0f}" for rt in ON_LOADS))
    return out


def part_table(kernel: Kernel, figures: Mapping[str, Mapping[str, float]]) -> Table:
    """The instructions of each part of mqfq."""
    out = Table(title=f"mqfq: instructions per I/O by part, Linux {kernel.release}", title_justify="left")
    out.add_column("load")
    for part in PARTS:
        out.add_column(part, justify="right")
    for load, by_contender in figures.items():
        out.add_row(load, *(f"{cost:+.0f}" for cost in parts(by_contender).values()))
    return out


def table(kernel: Kernel, figures: dict[str, dict[str, float]]) -> Table:
    """The figures of one kernel for a reader: `none` in total, the others as what they add to it."""
    out = Table(title=f"Instructions per 4 KiB read on Linux {kernel.release}", title_justify="left")
    out.add_column("load")
    out.add_column("none", justify="right")
    for c in CONTENDERS[1:]:
        out.add_column(c.name, justify="right")
    for name in OURS:
        out.add_column(f"{name} / mq-deadline", justify="right")
    for feature in FEATURES:
        out.add_column(feature, justify="right")
    out.caption = (
        f"vflash's own code: at most {vflash_own(figures):.0f} (k2's last columns are shares of +k2)"
    )
    for load, by_contender in figures.items():
        none = by_contender["none"]
        added = {c.name: by_contender[c.name] - none for c in CONTENDERS[1:]}
        out.add_row(
            load,
            f"{none:.0f}",
            *(f"+{value:.0f}" for value in added.values()),
            *(f"{added[name] / added['mq-deadline']:.2f}" for name in OURS),
            *(f"{share:.0f}" for share in shares(by_contender).values()),
        )
    return out
