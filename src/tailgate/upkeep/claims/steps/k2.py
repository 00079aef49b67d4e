# SPDX-License-Identifier: GPL-2.0-only
"""K2: Figure 8 of its paper, few scheduler tags, PREEMPT_RT, file systems; what else users have."""

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tailgate.guest.labels import ORDINARY
from tailgate.upkeep.claims.lab import Lab, noted, us
from tailgate.upkeep.claims.quantity import exact, largest, once, smallest
from tailgate.upkeep.claims.results import Figure


def figure_8(lab: Lab) -> Iterator[Figure]:
    """K2, Figure 8, saturated: none beside the paper's row, K2 with bound 8 beside none, 4 CPUs beside 1."""
    found = lab.run("k2/fig8", mode="claims")
    none, k2 = found.saturated("none"), found.saturated("k2", inflight_max=8)
    none_mib_s, k2_mib_s = (found.mib_s(p, "background") for p in (none, k2))
    none_us, k2_us = (us(p, "rt", "p99.9") for p in (none, k2))
    yield found.figure("fig8/vm/none/background-over-paper", none_mib_s / 559)
    yield found.figure("fig8/vm/none/rt-p99.9-over-paper", none_us / 13150)
    yield found.figure("fig8/vm/k2-8/p99.9-of-none-over-its", none_us / k2_us)
    yield found.figure("fig8/vm/k2-8/background-over-none", k2_mib_s / none_mib_s)
    for scheduler, knobs in (("none", {}), ("k2", {"inflight_max": 8})):
        one, four = (found.saturated(scheduler, smp, **knobs) for smp in (1, 4))
        ratio = found.mib_s(four, "background") / found.mib_s(one, "background")
        yield found.figure(f"fig8/vm/{scheduler}/background-4-cpus-over-1", ratio)
        ratio = us(four, "rt", "p99") / us(one, "rt", "p99")
        yield found.figure(f"fig8/vm/{scheduler}/rt-p99-4-cpus-over-1", ratio)


def scheduler_tags(lab: Lab) -> Iterator[Figure]:
    """Few scheduler tags do not make the real-time reader wait for the background's."""
    found = lab.run("k2/tags", mode="full")
    p99 = {tags: us(found.saturated("k2", nr_requests=tags), "rt", "p99") for tags in (4, 8, 64, 1023)}
    for tags in (4, 8, 64):
        yield found.figure(f"tags/vm/{tags}/rt-p99-over-1023", p99[tags] / p99[1023])


def preempt_rt(lab: Lab) -> Iterator[Figure]:
    """K2, Figure 8, saturated: K2 with bound 8 on each PREEMPT_RT kernel beside the ordinary one."""
    for label in ORDINARY:
        ordinary, found = (
            lab.run("k2/fig8", kernel=kernel, schedulers=("k2-8",), mode="quick")
            for kernel in (label, f"{label}-rt")
        )
        points = [answer.saturated("k2", inflight_max=8) for answer in (ordinary, found)]
        rates = [found.mib_s(p, "background") for p in points]
        start = f"preempt-rt/vm/{label}-rt"
        yield found.figure(f"{start}/background-over-ordinary", rates[1] / rates[0])
        for name in ("p50", "p99"):
            some = [us(p, "rt", name) for p in points]
            yield found.figure(f"{start}/rt-{name}-over-ordinary", some[1] / some[0])


def inversion(lab: Lab) -> Iterator[Figure]:
    """File systems beside a real-time reader that saturates the drive: how long a task is blocked at most."""
    found = lab.run("k2/inversion", mode="quick", schedulers=("k2-8", "k2-8-floor"))
    for point in found.points:
        floor = "floor" if point["knobs"]["be_floor_iops"] else "no-floor"
        blocked_s = point["blocked"]["us"] / 1e6
        quantity = (once if found.source.clock == "wall" else exact)(blocked_s)
        yield found.figure(f"inversion/vm/{point['sweep']['file_system']}/{floor}/blocked-s", quantity)


#: Of each control the settings of k2/controls that had the lowest p99 of those with enough background.
CONTROLS = {
    "none-few-tags": ("none-16", "none-17"),
    "mq-deadline": ("mq-deadline-16", "mq-deadline-18", "mq-deadline"),
    "kyber": ("kyber-1us",),
    "bfq": ("bfq-no-idle",),
    "io.max": ("io-max-420", "io-max-480"),
    "io.cost": ("io-cost-77", "io-cost-85"),
}


def controls(lab: Lab) -> Iterator[Figure]:
    """What users would reach for instead of K2's automatic target: p99 at its background or more.

    A control none of whose settings has as much background cannot be compared at equal background: only its
    background is a figure then, and the claim counts as not measured.
    """
    labels = ["ahead-auto", *(label for some in CONTROLS.values() for label in some)]
    found = lab.run("k2/controls", mode="full", loads=("4k",), schedulers=labels)
    points = found.by("label")
    mib_s = {label: found.mib_s(p, "background") for label, p in points.items()}
    p99 = {label: us(p, "rt", "p99") for label, p in points.items()}
    for control, some in CONTROLS.items():
        most = largest([mib_s[label] for label in some])
        yield found.figure(f"controls/vm/4k/{control}/background-over-ahead", most / mib_s["ahead-auto"])
        enough = [label for label in some if mib_s[label].value >= mib_s["ahead-auto"].value]
        if enough:
            best = smallest([p99[label] for label in enough])
            yield found.figure(f"controls/vm/4k/{control}/p99-over-ahead", best / p99["ahead-auto"])


def processes(lab: Lab) -> Iterator[Figure]:
    """K2 beside none with few tags, 96 requests of the background from 3 processes and from 32."""
    labels = ("k2-8", "none-8", "ahead-auto")
    found = lab.run("k2/controls", mode="full", loads=("4k", "4k-many"), schedulers=labels)
    points = found.by("load", "label")
    for load, count in (("4k", 3), ("4k-many", 32)):
        start = f"processes/vm/{count}"
        for label in labels:
            point = points[load, label]
            yield found.figure(f"{start}/{label}/background-mib-s", found.mib_s(point, "background"))
            for name in ("p50", "p99"):
                yield found.figure(f"{start}/{label}/{name}-us", us(point, "rt", name))
        k2, none = points[load, "k2-8"], points[load, "none-8"]
        yield found.figure(f"{start}/none-8/p99-over-k2-8", us(none, "rt", "p99") / us(k2, "rt", "p99"))
        ratio = found.mib_s(none, "background") / found.mib_s(k2, "background")
        yield found.figure(f"{start}/none-8/background-over-k2-8", ratio)


def same_digits(lab: Lab) -> Iterator[Figure]:
    """Three runs of one chunk: how many different sets of figures they give; 1 if all are the same."""
    run = partial(lab.run, "k2/fig8", mode="quick", schedulers=("k2-8",))
    with tempfile.TemporaryDirectory() as folder:
        # Each in a place of its own: a run that finds an earlier one is compared with it, and may give way.
        runs = [run(out=Path(folder) / str(i)) for i in range(3)]
    different = [r.points for i, r in enumerate(runs) if r.points not in [o.points for o in runs[:i]]]
    source = noted(runs[0].source, "tailgate run k2/fig8 --quick --schedulers k2-8")
    yield Figure("repeats/vm/k2-8/different", exact(len(different), len(runs)), source)


STEPS = (
    figure_8, scheduler_tags, preempt_rt, inversion, controls, processes, same_digits,
)  # fmt: skip
