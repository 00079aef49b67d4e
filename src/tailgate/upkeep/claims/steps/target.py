# SPDX-License-Identifier: GPL-2.0-only
"""K2: a target for latency instead of a bound."""

from collections.abc import Iterator
from functools import partial

from tailgate.spec import experiment as experiments
from tailgate.upkeep.claims.lab import Answer, Lab, us
from tailgate.upkeep.claims.quantity import largest
from tailgate.upkeep.claims.results import Figure
from tailgate.upkeep.claims.steps.bounds import HELD_OUT, LAW

#: A target counts as within reach if a fixed bound comes as near to it as the target is promised to.
REACH = 1.1


def target(lab: Lab) -> Iterator[Figure]:
    """K2: a target for real-time p99, beside a sweep of fixed bounds, on drives that it never saw."""
    schedulers = experiments.load(experiments.find("k2/target")).schedulers
    labels = [s.label for s in schedulers if not s.label.endswith("-ahead")]
    run = partial(lab.run, "k2/target", mode="claims", target="sim", schedulers=labels)
    for drive in ("970evo", "noisy"):
        yield from target_on(drive, run(drive=drive))
    for drive, path, law in lab.held_out(LAW, HELD_OUT):
        yield from target_on(drive, run(drive=str(path), law=law))


def target_on(drive: str, found: Answer) -> Iterator[Figure]:
    """The figures of one drive. Whether a target is within reach is decided by the fixed bounds alone."""
    points = found.by("load", "label")
    mib_s = {key: found.mib_s(p, "background") for key, p in points.items()}
    p99 = {key: us(p, "rt1", "p99") for key, p in points.items()}
    for key in points:
        load, label = key
        if not label.startswith("target-"):
            continue
        start = f"target/sim/{drive}/{load}/{label}"
        target_us = int(label.removeprefix("target-"))
        off = p99[key] / target_us - 1
        fixed = [k for k in points if k[0] == load and k[1].endswith("kib")]
        if not any(p99[k].value <= REACH * target_us for k in fixed):
            yield found.figure(f"{start}/p99-off-out-of-reach", off)
        else:
            yield found.figure(f"{start}/p99-off", off)
            # A longer latency than none's gains nothing, nor does one where the background has all there is.
            none = load, "none"
            if target_us < p99[none].value and mib_s[key].value < 0.95 * mib_s[none].value:
                yield found.figure(f"{start}/p99-off-below", off)
        no_worse = [mib_s[k] for k in fixed if p99[k].value <= p99[key].value]
        if no_worse:
            yield found.figure(f"{start}/background-at-no-higher-p99", mib_s[key] / largest(no_worse))
        else:
            yield found.figure(f"{start}/background-over-8kib", mib_s[key] / mib_s[load, "k2-8kib"])


def target_in_guest(lab: Lab) -> Iterator[Figure]:
    """K2: a target of 300 us in a guest, beside the fixed bound with about the same p99."""
    fixed, ours, target_us = "k2-40kib", "target-300", 300
    loads = ("clock", "poisson", "changing")
    found = lab.run("k2/target", mode="full", loads=loads, schedulers=(fixed, ours))
    points = found.by("load", "label")
    for load in dict.fromkeys(load for load, _ in points):
        start = f"target/vm/970evo/{load}/{ours}"
        off = us(points[load, ours], "rt1", "p99") / target_us - 1
        yield found.figure(f"{start}/p99-off", off)
        yield found.figure(f"{start}/p99-off-below", off)
        mib_s, least = (found.mib_s(points[load, label], "background") for label in (ours, fixed))
        yield found.figure(f"{start}/background-over-40kib", mib_s / least)


STEPS = (target, target_in_guest)
