# SPDX-License-Identifier: GPL-2.0-only
"""What one point and seed gave."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tailgate.runs.flow import Flow
from tailgate.runs.records import Blocked, parse_blocked, parse_counters, parse_fio, read_flows
from tailgate.spec.plan import Chunk, Run, chunks
from tailgate.spec.scheduler import Scheduler
from tailgate.spec.sweep import Sweep

#: Below this idle share of the virtual CPU the CPU, not the drive, is what was measured; below the second,
#: nearly.
IDLE_REFUSED = 0.65


@dataclass(frozen=True)
class Measurement:
    """One point and seed. `idle` is the idle share of the CPUs while the real-time flow ran.

    `block_us` is the mean time of a request inside the block layer, where the real-time flow was alone and of
    one direction; else None. The kernel's own account (iostats) has a grain of 1 ms over all requests of a
    point.
    """

    scheduler: Scheduler
    sweep: Sweep
    background_rate: float
    seed: int
    variant: int | None
    smp: int
    kernel: str
    mode: str
    dilation: int
    idle: float
    status: str
    flows: tuple[Flow, ...]
    block_us: float | None
    #: Where the load has a file system.
    blocked: Blocked | None
    settings: Mapping[str, str] = field(hash=False)

    def flow(self, name: str) -> Flow | None:
        """The flow of this name, if it ran."""
        return next((f for f in self.flows if f.name == name), None)


def read_measurements(folder: Path, run: Run) -> list[Measurement]:
    """Every point that was measured in this run's folder, in the order of the run's chunks."""
    return [m for chunk in chunks(run) for m in read_chunk(folder, chunk, run)]


def read_chunk(folder: Path, chunk: Chunk, run: Run) -> list[Measurement]:
    """The points of one chunk that were measured, in order; none if it never began."""
    place = folder / "chunks" / chunk.name
    if not (place / "chunk.json").is_file():
        return []
    about = json.loads((place / "chunk.json").read_text())
    return [
        _measurement(place, i, rate, chunk, about, run)
        for i, rate in enumerate(chunk.background_rates)
        if (place / f"p{i}.fio.json").is_file()
    ]


def _measurement(
    place: Path, i: int, rate: float, chunk: Chunk, about: Mapping[str, Any], run: Run
) -> Measurement:
    k = int(about["dilation"])
    fio = parse_fio((place / f"p{i}.fio.json").read_text())
    simulated, held = (place / f"p{i}.{kind}.json" for kind in ("sim", "delay"))
    block_us = None
    if simulated.is_file():
        more = json.loads(simulated.read_text())
        idle, delays = float(more["idle"]), more["flows"]
    else:
        delays = json.loads(held.read_text()) if held.is_file() else None
        before, after = (parse_counters((place / f"p{i}.{when}").read_text()) for when in ("before", "after"))
        idle = (after.idle_ns - before.idle_ns) / (after.now_ns - before.now_ns) / before.cpus
        if rate == 0 and after.reads > before.reads:
            block_us = (after.read_ms - before.read_ms) * 1000 / (after.reads - before.reads) / k
    flows = read_flows(fio, run.spec, k, delays)
    first = next(iter(run.spec.real_time(chunk.sweep)), None)
    if rate == 0 and simulated.is_file():
        sides = (delays or {}).get(first, {}).values()
        means = [side["block"]["mean"] / 1000 for side in sides if side["block"].get("N", 1)]
        block_us = means[0] if len(means) == 1 else None
    rt = next((f for f in flows if f.name == first), None)
    if first and (rt is None or rt.ios < chunk.rt_samples):
        status = "short"
    elif idle < IDLE_REFUSED and about["mode"] == "icount":
        status = "cpu-bound"
    else:
        status = "ok"
    blocked = _read(place / f"p{i}.blocked")
    settings = dict(
        line.partition(":")[::2]
        for line in (_read(place / f"p{i}.settings") or "").splitlines()
        if ":" in line
    )
    return Measurement(
        chunk.scheduler,
        chunk.sweep,
        rate,
        chunk.seed,
        chunk.variant,
        int(about["smp"]),
        str(about["kernel"]),
        str(about["mode"]),
        k,
        idle,
        status,
        flows,
        block_us,
        None if blocked is None else parse_blocked(blocked, k),
        settings,
    )


def _read(path: Path) -> str | None:
    return path.read_text() if path.is_file() else None


def digits(m: Measurement) -> tuple[object, ...]:
    """What must be equal when a point is measured again in virtual time: every flow's counts, bin by bin."""
    return tuple(
        (f.name, f.ios, f.iops, f.histogram.values_us.tolist(), f.histogram.counts.tolist()) for f in m.flows
    )
