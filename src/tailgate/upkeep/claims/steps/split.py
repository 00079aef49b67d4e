# SPDX-License-Identifier: GPL-2.0-only
"""K2-split: large background requests in pieces, always and on demand."""

from collections.abc import Iterator
from functools import partial

from tailgate.upkeep.claims.lab import Lab, us
from tailgate.upkeep.claims.quantity import Quantity, largest, smallest
from tailgate.upkeep.claims.results import Figure


def splitting(lab: Lab) -> Iterator[Figure]:
    """K2-split, Section 5.1: p99 beside one background request of 4 to 512 KiB, whole and in pieces."""
    # As the paper has it: no pause, behind USB.
    labels = ("k2", "k2-max-sectors-4", "k2-split-4")
    run = partial(lab.run, loads=("random-read-*k",), schedulers=labels)
    for target, found in (
        ("sim", run("k2-split/fig5", target="sim")),
        ("vm", run("k2-split/section5-1", target="vm", mode="quick")),
    ):
        p99: dict[str, dict[int, Quantity]] = {"k2": {}, "max_sectors_kb": {}, "split_kib": {}}
        for point in found.points:
            sweep, knobs = point["sweep"], point["knobs"]
            way = "split_kib" if knobs["split_kib"] else "max_sectors_kb"
            way = way if knobs["split_kib"] or knobs["max_sectors_kb"] == 4 else "k2"
            p99[way][sweep["block_size_kib"]] = us(point, "rt", "p99")
        split = p99["split_kib"]
        start = f"split/{target}/random-read"
        yield found.figure(f"{start}/p99-of-k2-over-split", p99["k2"][512] / split[512])
        ratio = p99["max_sectors_kb"][512] / split[512]
        yield found.figure(f"{start}/p99-of-max-sectors-over-split", ratio)
        sizes = list(split.values())
        yield found.figure(f"{start}/p99-largest-over-least-size", largest(sizes) / smallest(sizes))
    yield from table_3(lab)


def table_3(lab: Lab) -> Iterator[Figure]:
    """K2-split, Table 3: p99 beside one background request of 512 KiB, real-time requests of 4 and 64 KiB."""
    run = partial(lab.run, "k2-split/table3", schedulers=("k2", "k2-split-4"))
    for target, found in (
        ("sim", run(target="sim")),
        ("vm", run(loads=("random-read-rt-64k",), target="vm", mode="quick")),
    ):
        p99: dict[tuple[str, str, int], dict[int, Quantity]] = {}
        for point in found.points:
            sweep = point["sweep"]
            load = sweep["access"], sweep["op"], sweep["rt_block_size_kib"]
            p99.setdefault(load, {})[point["knobs"]["split_kib"]] = us(point, "rt", "p99")
        for (access, op, kib), by_split in p99.items():
            name = f"split-table3/{target}/{access}-{op}/rt-{kib}k/p99-of-k2-over-split"
            yield found.figure(name, by_split[0] / by_split[4])


def automatic(lab: Lab) -> Iterator[Figure]:
    """K2 with bound_when active beside always, none, and the idle drive; a target of 2 ms."""
    run = partial(lab.run, "k2-split/auto")
    for target, found in (
        ("sim", run(target="sim")),
        ("vm", run(target="vm", loads=("no-pause", "pauses", "alone"))),
    ):
        points = found.by("label", "load", "rate")
        p99 = {key: us(p, "rt", "p99") for key, p in points.items() if key[1] != "alone"}
        mib_s = {key: found.mib_s(p, "background") for key, p in points.items() if key[2]}
        start = f"split-auto/{target}"
        for load in ("no-pause", "pauses"):
            ratio = p99["k2-auto-4", load, 1] / p99["k2-split-4", load, 1]
            yield found.figure(f"{start}/{load}/p99-over-always", ratio)
        for load in ("bursts", "bursts-deep"):
            for label in ("k2-auto-4", "k2-split-4") if target == "sim" else ():
                yield found.figure(f"{start}/{load}/{label}/p99-us", p99[label, load, 1])
        for label in ("k2-auto-4", "k2-auto-2ms"):
            ratio = mib_s[label, "alone", 1] / mib_s["none", "alone", 1]
            yield found.figure(f"{start}/alone/{label}/background-over-none", ratio)
        longer_us = p99["k2-auto-2ms", "no-pause", 1] - p99["none", "no-pause", 0]
        yield found.figure(f"{start}/target-2ms/p99-less-idle-us", longer_us)
        ratio = mib_s["k2-auto-2ms", "no-pause", 1] / mib_s["k2-split-4", "no-pause", 1]
        yield found.figure(f"{start}/target-2ms/background-over-always", ratio)


STEPS = (splitting, automatic)
