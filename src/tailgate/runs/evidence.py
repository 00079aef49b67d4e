# SPDX-License-Identifier: GPL-2.0-only
"""The files that a guest sends for a point, and the measurement that is made of them.

    fio.json    fio's output in json+
    before      the machine's counters when the first real-time request started: /proc/timer_list, and stat
                of the disk
    after       the same counters when the last real-time request ended
    settings    the settings below /sys/block/*/queue while the point ran, as "nr_requests:1023"
    delays      the kernel's histogram of the time from insertion to issue, where it was requested
    blocked     the longest time that each task was blocked, where the load has a file system: the kernel's

These files stay in the run's folder, as `p0.fio.json` and so on. `remake` makes the records from them again.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tailgate.runs import folder as folders
from tailgate.runs.flow import Flow, with_total
from tailgate.runs.histogram import Histogram, from_fio, from_ns, merge
from tailgate.runs.measurements import STATE, Blocked, Conditions, Measurement, status
from tailgate.spec.experiment import Experiment
from tailgate.spec.plan import PlannedPoint, Run, chunks

#: The last file that a guest sends for a point.
LAST = "fio.json"
KINDS = ("before", "after", "settings", "delays", "blocked", LAST)

#: Histograms of the time in the scheduler, by flow and direction.
Delays = Mapping[tuple[str, str], Histogram]


def measurement(
    run: Run, point: PlannedPoint, conditions: Conditions, sent: Mapping[str, bytes]
) -> Measurement:
    """The measurement of a point, from the files that the guest sent, by kind. ValueError if they are
    broken.
    """
    text = {kind: content.decode() for kind, content in sent.items()}
    sweep, k = point.chunk.sweep, conditions.dilation
    before, after = parse_counters(text["before"]), parse_counters(text["after"])
    idle = (after.idle_ns - before.idle_ns) / (after.now_ns - before.now_ns) / before.cpus
    block_us = None
    if point.background_rate == 0 and after.reads > before.reads:
        block_us = (after.read_ms - before.read_ms) * 1000 / (after.reads - before.reads) / k
    delays: dict[tuple[str, str], Histogram] = {}
    if held := parse_delays(text.get("delays", ""), k):
        delays[run.spec.real_time(sweep)[0], sweep.op] = held
    flows = read_flows(parse_fio(text[LAST]), run.spec, k, delays)
    lines = [line.partition(":")[::2] for line in text.get("settings", "").splitlines() if ":" in line]
    state = {name: int(value) for name, value in lines if name.startswith(STATE)}
    return Measurement(
        point=point,
        conditions=conditions,
        idle=idle,
        status=status(run, point, flows, idle, conditions.mode),
        flows=flows,
        block_us=block_us,
        blocked=parse_blocked(text["blocked"], k) if "blocked" in text else None,
        settings={name: value for name, value in lines if name not in state},
        counters={
            "elapsed_ns": after.now_ns - before.now_ns,
            "idle_ns": after.idle_ns - before.idle_ns,
            "reads": after.reads - before.reads,
            "read_ms": after.read_ms - before.read_ms,
            **state,
        },
    )


def remake(folder: Path, run: Run) -> None:
    """Make the records of a run of target vm again, from the files that its guests sent."""
    for chunk in chunks(run):
        place = folders.place(folder, chunk)
        for point in chunk.points:
            files = {kind: place / f"{point.name}.{kind}" for kind in KINDS}
            if files[LAST].is_file():
                sent = {kind: file.read_bytes() for kind, file in files.items() if file.is_file()}
                conditions = folders.conditions(folder, chunk)
                folders.write(folder, measurement(run, point, conditions, sent))


@dataclass(frozen=True)
class Counters:
    """The guest's counters at one instant: virtual ns, idle ns of all CPUs, the drive's /sys/block/*/stat."""

    now_ns: int
    idle_ns: int
    cpus: int
    reads: int
    read_ms: int


def parse_counters(text: str) -> Counters:
    """Counters from the concatenation of /proc/timer_list and the disk's stat
    (Documentation/block/stat.rst).
    """
    now = re.search(r"^now at (\d+) nsecs", text, re.MULTILINE)
    # The kernel prints iowait_sleeptime without a blank before the colon.
    idle = re.findall(r"\.(idle_sleeptime|iowait_sleeptime)\s*: (\d+) nsecs", text)
    stat = text.rstrip().rsplit("\n", 1)[-1].split()
    if not now or not idle or len(stat) < 4:
        raise ValueError("no counters in the guest's sample")
    cpus = sum(kind == "idle_sleeptime" for kind, _ in idle)
    return Counters(int(now[1]), sum(int(ns) for _, ns in idle), cpus, int(stat[0]), int(stat[3]))


def parse_delays(text: str, dilation: int) -> Histogram | None:
    """A histogram from the kernel's (Documentation/trace/histogram.rst) of times in ns; None if it is
    empty.
    """
    found = re.findall(r"\{ ns: +(\d+) \} hitcount: +(\d+)", text)
    bins = dict(sorted((int(ns), int(count)) for ns, count in found))
    n = sum(bins.values())
    if not n:
        return None
    mean = sum(ns * count for ns, count in bins.items()) / n
    return from_ns([*bins], [*bins.values()], mean, max(bins), dilation)


def parse_blocked(text: str, dilation: int) -> Blocked:
    """The longest blocked time, from the kernel's histogram of the longest time of each task, in ns."""
    found = re.findall(r"^\s+max: +(\d+) +comm: (.*?) *$", text, re.MULTILINE)
    ns, task = max(((int(ns), task) for ns, task in found), default=(0, ""))
    return Blocked(task, ns / 1000 / dilation)


def parse_fio(text: str) -> dict[str, Any]:
    """fio's JSON output, without the output of prerun and postrun before it. ValueError if there is none."""
    start = text.find("\n{")
    parsed: dict[str, Any] = json.loads(text[max(start, 0) :])
    return parsed


def read_flows(
    fio: Mapping[str, Any], spec: Experiment, dilation: int, delays: Delays | None = None
) -> tuple[Flow, ...]:
    """The flows of one fio output. A flow of both directions becomes `name.read`, `name.write` and `name`.

    The waits of a flow in fsync and fdatasync are the flow `name.sync`, which moves no bytes.
    """
    flows: list[Flow] = []
    for name, flow in spec.flows.items():
        jobs = [j for j in fio["jobs"] if j["jobname"] == flow.section]
        directions = []
        for op in ("read", "write", "trim"):
            sides = [j[op] for j in jobs if j.get(op, {}).get("total_ios")]
            if sides:
                directions.append(
                    Flow(
                        name=name,
                        op=op,
                        ios=sum(s["total_ios"] for s in sides),
                        iops=sum(s["iops"] for s in sides) * dilation,
                        mib_s=sum(s["bw_bytes"] for s in sides) * dilation / 2**20,
                        histogram=merge(from_fio(s["clat_ns"], dilation) for s in sides),
                        delay=(delays or {}).get((name, op)),
                    )
                )
        flows += with_total(directions)
        syncs = [j["sync"]["lat_ns"] for j in jobs if j.get("sync", {}).get("lat_ns", {}).get("N")]
        if syncs:
            histogram = merge(from_fio(s, dilation) for s in syncs)
            seconds = max(j["job_runtime"] for j in jobs) / 1000 / dilation
            flows.append(
                Flow(
                    name=f"{name}.sync",
                    op="sync",
                    ios=histogram.n,
                    iops=histogram.n / seconds,
                    mib_s=0.0,
                    histogram=histogram,
                )
            )
    return tuple(flows)
