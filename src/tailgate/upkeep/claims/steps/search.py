# SPDX-License-Identifier: GPL-2.0-only
"""MQFQ: what its automatic knobs find, beside a search by bisection."""

from collections.abc import Iterator
from dataclasses import replace

from tailgate.simulator import simulation
from tailgate.simulator.simulation import Simulation
from tailgate.upkeep.claims import simulations
from tailgate.upkeep.claims.lab import Lab
from tailgate.upkeep.claims.quantity import exact
from tailgate.upkeep.claims.results import Figure, Source

#: What decides what `auto` finds: a change of these draws new held-out drives.
LAW = "sched/fair sched/mqfq*.c"
HELD_OUT = 2
#: The drive that `auto` was made with, and two of the MQFQ paper.
DRIVES = ("970evo", "p3700", "nvmf")


def told(drive: str, duration_s: float) -> dict[str, Simulation]:
    """What `tailgate run mqfq/auto --target sim` simulates on a drive, by label of the scheduler."""
    some = simulations.of("mqfq/auto", drive, duration_s=duration_s)
    return {label: simulated for (_, label, _), simulated in some.items()}


def mib_s(simulated: Simulation, **knobs: int) -> float:
    """All flows together, with some knobs set otherwise."""
    return simulations.mib_s(simulation.simulate(simulations.with_knobs(simulated, knobs)))


def least_d(simulated: Simulation, share: float, most: int = 512) -> int:
    """The smallest D with this share of what the largest brings, by bisection: throughput grows with D."""
    enough, too_few = most, 0
    wanted = share * mib_s(simulated, d=most)
    while enough - too_few > 1:
        d = (enough + too_few) // 2
        enough, too_few = (d, too_few) if mib_s(simulated, d=d) >= wanted else (enough, d)
    return enough


def mqfq_auto(lab: Lab) -> Iterator[Figure]:
    """MQFQ: where `d` auto ends, beside the smallest D with 97 % of the peak; what `t_kib` auto costs."""
    source = Source("tailgate claims mqfq_auto", "sim", "virtual", (1,))
    for drive in DRIVES:
        yield from auto_on(drive, drive, source)
    for drive, path, law in lab.held_out(LAW, HELD_OUT):
        yield from auto_on(drive, str(path), replace(source, law=law))


def auto_on(drive: str, file: str, source: Source) -> Iterator[Figure]:
    """The figures of one drive."""
    start = f"mqfq-auto/sim/{drive}"
    short = told(file, 3)
    least = least_d(short["mqfq"], 0.97)
    yield Figure(f"{start}/least-d", exact(least), source)
    # The first search has ended; so has a later one.
    for seconds in (20, 45):
        found = simulation.simulate(told(file, seconds)["mqfq-auto-d"]).found["d"]
        yield Figure(f"{start}/d-after-{seconds}-s", exact(found), source)
        yield Figure(f"{start}/d-after-{seconds}-s-over-least", exact(found / least), source)
    long = told(file, 20)
    found = simulation.simulate(long["mqfq-auto-t"]).found["t_kib"]
    yield Figure(f"{start}/t-kib-after-20-s", exact(found), source)
    none = mib_s(long["none"])
    for label in ("mqfq-auto-t", "mqfq-auto"):
        yield Figure(f"{start}/{label}/throughput-over-none", exact(mib_s(long[label]) / none), source)


STEPS = (mqfq_auto,)
