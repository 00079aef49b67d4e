# SPDX-License-Identifier: GPL-2.0-only
"""The raw records of a point: fio's JSON and the guest's counters."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tailgate.runs import statistics as analysis
from tailgate.runs.flow import Flow
from tailgate.runs.statistics import Histogram
from tailgate.spec.experiment import Experiment


@dataclass(frozen=True)
class Counters:
    """The guest's counters at one instant: virtual ns, idle ns of all CPUs, the drive's /sys/block/*/stat."""

    now_ns: int
    idle_ns: int
    cpus: int
    reads: int
    read_ms: int


def parse_counters(text: str) -> Counters:
    """From the concatenation of /proc/timer_list and the disk's stat (Documentation/block/stat.rst)."""
    now = re.search(r"^now at (\d+) nsecs", text, re.MULTILINE)
    # There is no blank before the colon of the second one.
    idle = re.findall(r"\.(idle_sleeptime|iowait_sleeptime)\s*: (\d+) nsecs", text)
    stat = text.rstrip().rsplit("\n", 1)[-1].split()
    if not now or not idle or len(stat) < 4:
        raise ValueError("no counters in the guest's sample")
    cpus = sum(kind == "idle_sleeptime" for kind, _ in idle)
    return Counters(int(now[1]), sum(int(ns) for _, ns in idle), cpus, int(stat[0]), int(stat[3]))


def parse_delays(text: str) -> dict[str, Any] | None:
    """A histogram of the kernel's (Documentation/trace/histogram.rst) as fio writes one; None if empty."""
    bins = {int(ns): int(count) for ns, count in re.findall(r"\{ ns: +(\d+) \} hitcount: +(\d+)", text)}
    n = sum(bins.values())
    if not n:
        return None
    mean = sum(ns * count for ns, count in bins.items()) / n
    counts = {str(ns): count for ns, count in sorted(bins.items())}
    return {"min": min(bins), "max": max(bins), "mean": mean, "N": n, "bins": counts}


@dataclass(frozen=True)
class Blocked:
    """The longest time (undilated) that a task was blocked (state D) in a point, and the name of the task."""

    task: str
    us: float


def parse_blocked(text: str, dilation: int) -> Blocked:
    """From the kernel's histogram of the longest time of each task, in ns."""
    found = re.findall(r"^\s+max: +(\d+) +comm: (.*?) *$", text, re.MULTILINE)
    ns, task = max(((int(ns), task) for ns, task in found), default=(0, ""))
    return Blocked(task, ns / 1000 / dilation)


def parse_fio(text: str) -> dict[str, Any]:
    """fio's JSON output; what it says of prerun and postrun stands before. ValueError without any."""
    start = text.find("\n{")
    parsed: dict[str, Any] = json.loads(text[max(start, 0) :])
    return parsed


def read_flows(
    fio: Mapping[str, Any],
    spec: Experiment,
    dilation: int,
    delays: Mapping[str, Mapping[str, Mapping[str, Any]]] | None = None,
) -> tuple[Flow, ...]:
    """The flows of one fio output. A flow of both directions becomes `name.read`, `name.write` and `name`.

    What a flow waits for in fsync and fdatasync is `name.sync`, which moves no bytes.
    `delays` is what `.sim.json` calls `flows`.
    """
    flows = []
    for name, flow in spec.flows.items():
        seen = (delays or {}).get(name, {})
        jobs = [j for j in fio["jobs"] if j["jobname"] == flow.section]
        parts = []
        for op in ("read", "write", "trim"):
            sides = [j[op] for j in jobs if j.get(op, {}).get("total_ios")]
            if sides:
                histogram = analysis.merge(analysis.from_fio(s["clat_ns"], dilation) for s in sides)
                iops = sum(s["iops"] for s in sides) * dilation
                mib_s = sum(s["bw_bytes"] for s in sides) * dilation / 2**20
                ios = sum(s["total_ios"] for s in sides)
                delay = seen.get(op, {}).get("scheduler")
                held = None if delay is None else analysis.from_fio(delay, dilation)
                parts.append(Flow(name, op, ios, iops, mib_s, histogram, held))
        if len(parts) == 2:
            flows += [replace(p, name=f"{name}.{p.op}") for p in parts]
            parts = [
                Flow(
                    name,
                    "readwrite",
                    sum(p.ios for p in parts),
                    sum(p.iops for p in parts),
                    sum(p.mib_s for p in parts),
                    analysis.merge(p.histogram for p in parts),
                    merge_some(p.delay for p in parts),
                )
            ]
        flows += parts
        syncs = [j["sync"]["lat_ns"] for j in jobs if j.get("sync", {}).get("lat_ns", {}).get("N")]
        if syncs:
            histogram = analysis.merge(analysis.from_fio(s, dilation) for s in syncs)
            seconds = max(j["job_runtime"] for j in jobs) / 1000 / dilation
            flows.append(Flow(f"{name}.sync", "sync", histogram.n, histogram.n / seconds, 0.0, histogram))
    return tuple(flows)


def merge_some(parts: Iterable[Histogram | None]) -> Histogram | None:
    known = [p for p in parts if p is not None]
    return analysis.merge(known) if known else None
