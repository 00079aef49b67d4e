# SPDX-License-Identifier: GPL-2.0-only
"""K2: what `rt_target_us` finds by itself, beside the best of all settings by hand."""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from dataclasses import asdict, dataclass, replace
from functools import partial
from statistics import median
from typing import TypeVar

from tailgate.base.command import log
from tailgate.base.paths import ROOT, replace_text
from tailgate.base.progress import Progress
from tailgate.simulator.executor import executor
from tailgate.simulator.simulation import Simulation
from tailgate.spec import experiment as experiments
from tailgate.targets import identity
from tailgate.upkeep.claims import front, simulations
from tailgate.upkeep.claims.lab import KEPT, Lab
from tailgate.upkeep.claims.quantity import Quantity, exact
from tailgate.upkeep.claims.results import Figure, Source
from tailgate.upkeep.claims.simulations import Reader, pooled, reader, with_knobs
from tailgate.upkeep.claims.steps.bounds import HELD_OUT, LAW

EXPERIMENT = "k2/auto"
DRIVES = ("970evo", "noisy")
#: Settings that are tried for each load.
TRIALS = 120
#: Each point is started with these: the 99.9th percentile of 20 000 requests is good to some 10 % only.
SEEDS = (1, 2, 3)
#: What `auto` aims at: this many times what three of four requests take at most in the idle drive
#: (sched/bounds/target.h).
AIM_TIMES, AIM_OF = 2, 0.75
#: Targets that are given, in times the idle drive's p99.
TARGETS = (1.5, 2, 4, 8)

#: Load -> knobs: with 4 KiB the idle drive's p99 as a target for p99.9, with 64 KiB a little below what was
#: set by hand.
POINTS = {
    "4k-closed": {"rt_target_us": 84, "rt_target_percentile": 1},
    "64k-closed": {"rt_target_us": 740},
}

#: The versions of the libraries that search, and that judge.
LOCKED = ("requirements.lock", "requirements-dev.lock")

Measured = Mapping[str, Quantity]


@dataclass(frozen=True)
class Cell:
    """A load on a drive, from one seed: idle, under none, under K2 with `auto` and without a knob, in short.

    `most_us`: the longest target that is given: a reader that takes longer falls behind its clock.
    """

    idle: Simulation
    none: Simulation
    auto: Simulation
    k2: Simulation
    short: Simulation
    most_us: float


#: A load on a drive, from several seeds.
Starts = Sequence[Cell]
Load = TypeVar("Load")


def cells(drive: str, seed: int = 1, **changes: object) -> Iterator[tuple[str, Cell]]:
    """The loads of a drive, by label; the drive is a file, or the name of one; `changes` are of the mode."""
    long = simulations.of(EXPERIMENT, drive, "full", seed, **changes)
    short = simulations.of(EXPERIMENT, drive, seed=seed, rt_samples=front.SHORT)
    for sweep in experiments.load(experiments.find(EXPERIMENT)).sweeps:
        load = sweep.label or ""
        clock = sweep.arrivals is not None and sweep.arrivals.kind == "periodic"
        yield (
            load,
            Cell(
                long[load, "auto", 0.0],
                long[load, "none", 1.0],
                long[load, "auto", 1.0],
                replace(long[load, "k2-8", 1.0], knobs={}),
                replace(short[load, "k2-8", 1.0], knobs={}),
                sweep.arrivals.period_of(0) if sweep.arrivals and clock else float("inf"),
            ),
        )


def measure(starts: Starts) -> dict[str, Quantity]:
    """The figures of a load; the settings by hand are searched with its first start."""
    idle, ours = pooled([start.idle for start in starts]), pooled([start.auto for start in starts])
    k2 = [start.k2 for start in starts]
    best = front.Front(k2, front.search(starts[0].short, TRIALS, 1))
    aim_us = AIM_TIMES * idle.latency.percentile(AIM_OF)
    possible_us = max(aim_us, idle.latency.percentile(0.99))
    out = {
        "none/mib_s": pooled([start.none for start in starts]).background,
        "idle/p99": idle.us(0.99),
        "auto/p99": ours.us(0.99),
        "auto/mib_s": ours.background,
        "auto/p99-over-aim": ours.us(0.99) / possible_us,
    }
    out |= {f"auto/{name}": quantity for name, quantity in beside(ours, best).items()}
    for times in TARGETS:
        target_us = round(times * idle.latency.percentile(0.99))
        if target_us > starts[0].most_us:
            continue
        ours = pooled([with_knobs(start, {"rt_tags": 25, "rt_target_us": target_us}) for start in k2])
        place = f"target-{times:g}"
        reach = "" if best.at(target_us) else "-out-of-reach"
        out[f"{place}/p99-off{reach}"] = ours.us(0.99) / float(target_us) - 1
        out |= {f"{place}/{name}": quantity for name, quantity in beside(ours, best).items()}
    return out


def beside(ours: Reader, best: front.Front) -> dict[str, Quantity]:
    """The background, and p99.9, over those of the best setting by hand with no higher p99."""
    by_hand = best.at(ours.latency.percentile(0.99))
    if by_hand is None:
        return {}
    return {
        "background-over-by-hand": ours.background / by_hand.reader.background,
        "p99.9-over-by-hand": ours.us(0.999) / by_hand.reader.us(0.999),
    }


def kept(starts: Starts, key: str, fresh: bool) -> dict[str, Quantity]:
    """`measure`, once for each simulator, load and key, unless `fresh`."""
    digest = hashlib.sha256(f"{key} {starts!r}".encode()).hexdigest()[:16]
    path = KEPT / "auto" / f"{digest}.json"
    if fresh or not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_text(path, json.dumps({name: asdict(q) for name, q in measure(starts).items()}))
    return {name: Quantity(**q) for name, q in json.loads(path.read_text()).items()}


def side_by_side(work: Callable[[Load], Measured], some: Mapping[str, Load]) -> dict[str, Measured]:
    """The work on each load, in as many processes as there are CPUs."""
    progress = Progress(log())
    progress.begin(len(some), len(some))
    found: dict[str, Measured] = {}
    with executor(min(os.cpu_count() or 1, len(some)), None) as pool:
        futures = {pool.submit(work, cell): name for name, cell in some.items()}
        for future in as_completed(futures):
            found[futures[future]] = future.result()
            progress.point(futures[future], 1)
    progress.end()
    return {name: found[name] for name in some}


def over_all(lab: Lab, work: Callable[[Starts], Measured], source: Source) -> Iterator[tuple[str, Figure]]:
    """The work's figures on all loads of five drives: which figure of a cell it is, and the figure."""
    held_out = list(lab.held_out(LAW, HELD_OUT))
    drives = [(name, name, None) for name in DRIVES] + [(n, str(path), law) for n, path, law in held_out]
    some: dict[str, Starts] = {}
    for name, file, _ in drives:
        loads = [dict(cells(file, seed)) for seed in SEEDS]
        some |= {f"{name}/{load}": [of_seed[load] for of_seed in loads] for load in loads[0]}
    laws = {name: law for name, _, law in drives}
    for place, figures in side_by_side(work, some).items():
        its = replace(source, law=laws[place.partition("/")[0]])
        for name, quantity in figures.items():
            yield name, Figure(f"auto/sim/{place}/{name}", quantity, its)


def auto(lab: Lab) -> Iterator[Figure]:
    """K2: `rt_target_us` as `auto` and as a number, beside a search of all settings by hand, five drives."""
    source = Source("tailgate claims auto", "sim", "virtual", SEEDS)
    code = identity.code(["upkeep/claims/steps/auto.py"]).values()
    locked = ((ROOT / name).read_bytes() for name in LOCKED)
    key = identity.digest("".join(code).encode(), *locked)
    found = list(over_all(lab, partial(kept, key=key, fresh=lab.fresh), source))
    yield from (figure for _, figure in found)
    for kind in ("auto", *(f"target-{times:g}" for times in TARGETS)):
        yield from spread(found, f"{kind}/background-over-by-hand", min, source)
        yield from spread(found, f"{kind}/p99.9-over-by-hand", max, source)


def spread(
    found: Iterable[tuple[str, Figure]], which: str, worst: Callable[[list[float]], float], source: Source
) -> Iterator[Figure]:
    """The median and the worst of one figure over all cells, some of which are of drives drawn for a law."""
    its = [figure for name, figure in found if name == which]
    ratios = [figure.quantity.value for figure in its]
    source = replace(source, law=next((f.source.law for f in its if f.source.law), None))
    yield Figure(f"auto/sim/all/{which}/median", exact(median(ratios), len(ratios)), source)
    yield Figure(f"auto/sim/all/{which}/worst", exact(worst(ratios), len(ratios)), source)


def given(starts: Starts) -> dict[str, Quantity]:
    """With `auto`, the background over what it gets beside a given target: the p99 that `auto` ends with."""
    ours = pooled([start.auto for start in starts])
    target_us = round(ours.latency.percentile(0.99))
    other = pooled([with_knobs(start.k2, {"rt_tags": 25, "rt_target_us": target_us}) for start in starts])
    return {"auto/background-over-given": ours.background / other.background}


def auto_given(lab: Lab) -> Iterator[Figure]:
    """K2: what `rt_target_us` `auto` costs beside the number that it should find, five drives."""
    source = Source("tailgate claims auto_given", "sim", "virtual", SEEDS)
    found = list(over_all(lab, given, source))
    yield from (figure for _, figure in found)
    yield from spread(found, "auto/background-over-given", min, source)


def busy(lab: Lab) -> Iterator[Figure]:
    """K2: `rt_target_us` `auto` beside a reader that asks two to five times in a millisecond."""
    source = Source("tailgate claims busy", "sim", "virtual", (1,))
    for drive in DRIVES:
        simulated = simulations.of("k2/busy", drive)
        for load in dict.fromkeys(load for load, _, _ in simulated):
            idle = reader(simulated[load, "auto", 0.0]).latency
            aim_us = max(AIM_TIMES * idle.percentile(AIM_OF), idle.percentile(0.99))
            for scheduler in ("none", "none-8", "k2-8", "auto"):
                ours = reader(simulated[load, scheduler, 1.0])
                start = f"busy/sim/{drive}/{load}/{scheduler}"
                yield Figure(f"{start}/p99", ours.us(0.99), source)
                yield Figure(f"{start}/mib_s", ours.background, source)
                if scheduler == "auto":
                    yield Figure(f"{start}/p99-over-aim", ours.us(0.99) / aim_us, source)


def auto_points(lab: Lab) -> Iterator[Figure]:
    """K2: what a given target leaves at two points that were reached by hand: 970 EVO, closed loop."""
    source = Source("tailgate claims auto_points", "sim", "virtual", SEEDS)
    of_seed = [dict(cells("970evo", seed)) for seed in SEEDS]
    for load, knobs in POINTS.items():
        starts = [of_load[load] for of_load in of_seed]
        idle, none = pooled([start.idle for start in starts]), pooled([start.none for start in starts])
        ours = pooled([with_knobs(start.k2, {"rt_tags": 25, **knobs}) for start in starts])
        start = f"auto-points/sim/970evo/{load}/target-{knobs['rt_target_us']}"
        yield Figure(f"{start}/p99", ours.us(0.99), source)
        yield Figure(f"{start}/p99.9", ours.us(0.999), source)
        yield Figure(f"{start}/p99.9-over-idle", ours.us(0.999) / idle.us(0.999), source)
        yield Figure(f"{start}/mib_s", ours.background, source)
        yield Figure(f"{start}/background-over-none", ours.background / none.background, source)


STEPS = (auto, auto_given, busy, auto_points)
