# SPDX-License-Identifier: GPL-2.0-only
"""A run is a directory: what was asked, where it ran, raw fio output, and the points made of it.

    spec.json           the resolved experiment, mode, drive: everything that decides the digits
    environment.json    kernel, modules, QEMU, fio, command line, times
    sources/            what was read: experiment, jobs, paper's numbers, drive, our modules
    chunks/<chunk>/     one scheduler, load and seed: chunk.json, and per point what the target left of it
    points.parquet      one row per point, seed and flow
    results.json        the same as `--json` prints
    report.html

A point of the target vm leaves the derived job (`p0.fio`), fio's JSON (`.fio.json`), the queue's settings
(`.settings`), and the machine's counters when the first real-time request started and the last ended
(`.before`, `.after`). A point of the simulator leaves the derived job, its figures as fio writes them
(`.fio.json`), and `.sim.json`:

    {"idle": share of the processors' time, "flows": {"rt": {"read": {"block": H, "scheduler": H}}}}

by flow and direction, where H is as fio's `clat_ns` ({"mean": ns, "max": ns, "bins": {ns: count}}): the time
in the block layer, and of it from insertion into the scheduler to dispatch. `.delay.json` of the target vm is
`flows` of that file, where the experiment asks and the guest can tell; it is made of `.delays`, the kernel's
own counts. `.blocked` is the kernel's own account of
the longest time that each task was blocked, where the load has a file system.

Raw files come first: everything below can be made again from them without measuring again. A run is
measured in `<key>.partial` and renamed to `<key>` when it is complete; from then on it is not written to.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tailgate import analysis, paper
from tailgate.analysis import Histogram
from tailgate.errors import UsageError
from tailgate.experiment import ROOT, Experiment, Mode, ModeName, Scheduler, Sweep

#: Below this idle share of the virtual CPU the CPU, not the drive, is what was measured; below the second,
#: nearly.
IDLE_REFUSED = 0.65
IDLE_WARNED = 0.80

#: Times inside the kernel's schedulers, and in what is set beside them, that no knob scales, so that dilation
#: makes them shorter than they are.
FIXED_TIMES: Mapping[str, str] = {
    "mq-deadline": "waits 3 ms, rounded up to a tick, before it asks again after an empty dispatch",
    "kyber": "judges latencies over windows of 100 ms",
    "bfq": "estimates rates and wakes idle queues over fixed milliseconds",
    "io.max": "hands out its rate in slices of 20 ms",
    "io.cost.qos": "adjusts its rate once a millisecond at most",
    "wbt_lat_usec": "judges latencies over windows of 100 ms",
}


@dataclass(frozen=True)
class Run:
    """What was asked: the experiment, one of its modes, and the choices made on the command line."""

    name: str
    spec: Experiment
    mode_name: ModeName
    mode: Mode
    schedulers: tuple[Scheduler, ...]
    variants: tuple[int, ...]  # indices into spec.variants
    target: str = "vm"


@dataclass(frozen=True)
class Chunk:
    """One boot: one scheduler, load and seed, its rates in order. `variant` is an index, None the main run.

    A point ends when the first real-time flow has `rt_samples`; where that is 0, after `duration_s`.
    """

    scheduler: Scheduler
    sweep: Sweep
    seed: int
    background_rates: tuple[float, ...]
    rt_samples: int
    duration_s: float | None = None
    variant: int | None = None

    @property
    def name(self) -> str:
        """The chunk's folder."""
        load = f".{self.sweep.label}" if self.sweep.label else ""
        extra = "" if self.variant is None else f".variant{self.variant}"
        return f"{self.scheduler.label}{load}.seed{self.seed}{extra}"


def chunks(run: Run) -> list[Chunk]:
    """The boots of a run, in the order of the experiment file: load by load, scheduler by scheduler."""
    mode = run.mode
    out = []
    for variant in (None, *run.variants):
        other = None if variant is None else run.spec.variants[variant]
        for sweep in run.spec.sweeps:
            for scheduler in run.schedulers:
                if sweep.schedulers and scheduler.label not in sweep.schedulers:
                    continue
                if other and scheduler.label not in other.schedulers:
                    continue
                rates = sweep.background_rates or mode.background_rates
                samples = mode.rt_samples
                if other:
                    rates, samples = other.background_rates, other.rt_samples or samples
                if not run.spec.real_time(sweep):
                    samples = 0
                out += [
                    Chunk(
                        scheduler,
                        sweep,
                        seed,
                        rates,
                        samples,
                        None if samples else mode.duration_s,
                        variant,
                    )
                    for seed in (mode.seeds[:1] if other else mode.seeds)
                ]
    return out


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


@dataclass(frozen=True)
class Flow:
    """What one flow of a point did, in undilated units."""

    name: str
    op: str
    ios: int
    iops: float
    mib_s: float
    histogram: Histogram
    #: From insertion into the scheduler to dispatch, where the target can tell.
    delay: Histogram | None = None


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
                    _merge_some(p.delay for p in parts),
                )
            ]
        flows += parts
        syncs = [j["sync"]["lat_ns"] for j in jobs if j.get("sync", {}).get("lat_ns", {}).get("N")]
        if syncs:
            histogram = analysis.merge(analysis.from_fio(s, dilation) for s in syncs)
            seconds = max(j["job_runtime"] for j in jobs) / 1000 / dilation
            flows.append(Flow(f"{name}.sync", "sync", histogram.n, histogram.n / seconds, 0.0, histogram))
    return tuple(flows)


def _merge_some(parts: Iterable[Histogram | None]) -> Histogram | None:
    known = [p for p in parts if p is not None]
    return analysis.merge(known) if known else None


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


@dataclass(frozen=True)
class PointFlow:
    """A flow of a point over all its seeds: pooled histogram, percentiles in us, 95 % intervals."""

    name: str
    op: str
    ios: int
    iops: float
    mib_s: float
    histogram: Histogram
    lat_us: Mapping[str, float]
    ci_us: Mapping[str, analysis.Interval]
    delay: Histogram | None


@dataclass(frozen=True)
class Rate:
    """A throughput."""

    iops: float
    mib_s: float


@dataclass(frozen=True)
class Point:
    """A point over all its seeds. `real_time` and `background` name its flows ("": the load has none).

    `published` is the paper's cell for this scheduler and load, on the point that answers it.
    """

    scheduler: Scheduler
    sweep: Sweep
    background_rate: float
    variant: int | None
    smp: int
    kernel: str
    mode: str
    dilation: int
    idle: float
    status: str
    flows: tuple[PointFlow, ...]
    block_us: float | None
    #: The longest over all seeds, where the load has a file system.
    blocked: Blocked | None
    published: paper.Published | None
    real_time: tuple[str, ...]
    background: tuple[str, ...]

    def flow(self, name: str) -> PointFlow | None:
        """The flow of this name, if it ran."""
        return next((f for f in self.flows if f.name == name), None)

    @property
    def rt(self) -> PointFlow | None:
        """The first real-time flow, if it completed anything."""
        flow = self.flow(self.real_time[0]) if self.real_time else None
        return flow if flow and flow.histogram.n else None

    @property
    def bg(self) -> Rate | None:
        """What all of the background did together, if it ran."""
        flows = [flow for name in self.background if (flow := self.flow(name))]
        return Rate(sum(f.iops for f in flows), sum(f.mib_s for f in flows)) if flows else None

    @property
    def marks(self) -> list[str]:
        """What a reader of the figures must know, one clause each."""
        out = []
        files = [file for settings in self.scheduler.cgroups.values() for file in settings]
        queue = [name for name, value in self.scheduler.queue.items() if value]
        fixed = [n for n in dict.fromkeys((self.scheduler.name, *files, *queue)) if n in FIXED_TIMES]
        out += [f"{name} {FIXED_TIMES[name]}: not dilated" for name in fixed if self.dilation > 1]
        if self.dilation > 1 and self.rt and self.rt.delay and self.rt.delay.n:
            out.append(f"processors are {self.dilation} times as fast as in life, in the scheduler too")
        if self.status == "cpu-bound":
            out.append(f"the CPU was idle for less than {IDLE_REFUSED:.0%}: not the drive's figures")
        elif self.idle < IDLE_WARNED and self.mode != "sim":
            out.append(f"the CPU was idle for less than {IDLE_WARNED:.0%}: up to 2 % off")
        if self.status == "short":
            out.append("fewer real-time requests than asked for: the time limit came first")
        return out


def merge_seeds(measurements: Iterable[Measurement], spec: Experiment) -> list[Point]:
    """One point for each scheduler, load, rate and variant, in the order of first appearance.

    None has a cell of the paper yet: `with_cells`.
    """
    groups: dict[tuple[int | None, str | None, str, float], list[Measurement]] = {}
    for m in measurements:
        key = (m.variant, m.sweep.label, m.scheduler.label, m.background_rate)
        groups.setdefault(key, []).append(m)
    points = []
    for (variant, _, _, rate), seeds in groups.items():
        first = seeds[0]
        names = dict.fromkeys(f.name for m in seeds for f in m.flows)
        flows = tuple(_merge_flow([f for m in seeds if (f := m.flow(name))]) for name in names)
        block = [m.block_us for m in seeds if m.block_us is not None]
        worst = next((s for s in ("cpu-bound", "short") if any(m.status == s for m in seeds)), "ok")
        points.append(
            Point(
                first.scheduler,
                first.sweep,
                rate,
                variant,
                first.smp,
                first.kernel,
                first.mode,
                max(m.dilation for m in seeds),
                min(m.idle for m in seeds),
                worst,
                flows,
                sum(block) / len(block) if block else None,
                max((m.blocked for m in seeds if m.blocked), key=lambda b: b.us, default=None),
                None,
                spec.real_time(first.sweep),
                spec.background(first.sweep),
            )
        )
    return points


def with_cells(
    points: Sequence[Point], spec: Experiment, published: Mapping[str | None, Sequence[paper.Published]]
) -> list[Point]:
    """The points, with the paper's cell on that point of each scheduler and load that answers it.

    That is the one with the highest throughput, or, for Table III, the one with the highest p99.9; where
    points share a throughput to 1 %, the one with the highest rate. `published` is by the load's label.
    """
    groups: dict[tuple[int | None, str | None, str], list[Point]] = {}
    for p in points:
        groups.setdefault((p.variant, p.sweep.label, p.scheduler.label), []).append(p)
    chosen = set()
    for group in groups.values():
        loaded = [p for p in group if p.bg and p.background_rate]
        if spec.paper.cells == "highest latency":
            answer = max((p for p in loaded if p.rt), key=_tail, default=None)
        elif any(p.background_rate == 1.0 for p in loaded):
            top = max(map(_rate, loaded))
            answer = max((p for p in loaded if _rate(p) >= 0.99 * top), key=lambda p: p.background_rate)
        else:
            answer = None
        chosen.add(id(answer))
    return [
        replace(p, published=paper.cell(published[p.sweep.label], p.scheduler.papers, spec.paper.cells))
        if id(p) in chosen
        else p
        for p in points
    ]


def _tail(point: Point) -> float:
    return point.rt.lat_us["p99.9"] if point.rt else 0.0


def _rate(point: Point) -> float:
    return point.bg.mib_s if point.bg else 0.0


def _merge_flow(flows: Sequence[Flow]) -> PointFlow:
    histogram = analysis.merge(f.histogram for f in flows)
    lat = latencies(histogram)
    ci = {
        name: analysis.interval_over_seeds([f.histogram for f in flows], p)
        for name, p in analysis.PERCENTILES.items()
    }
    count = len(flows)
    return PointFlow(
        flows[0].name,
        flows[0].op,
        sum(f.ios for f in flows),
        sum(f.iops for f in flows) / count,
        sum(f.mib_s for f in flows) / count,
        histogram,
        lat,
        ci,
        _merge_some(f.delay for f in flows),
    )


def knobs(run: Run, scheduler: Scheduler) -> dict[str, int | str]:
    """The scheduler's knobs and the queue's settings, undilated, as results carry them."""
    return scheduler.knobs | run.spec.queue | scheduler.queue


def sweep(load: Sweep, rate: float) -> dict[str, object]:
    """What the point carries apart from scheduler and knobs."""
    own = load.rt_block_size_kib
    return {
        "access": load.access,
        "op": load.op,
        "block_size_kib": load.block_size_kib,
        **({"file_system": load.file_system.type} if load.file_system else {}),
        **({} if own is None else {"rt_block_size_kib": own}),
        **load.carried,
        "background_rate": rate,
    }


def latencies(histogram: Histogram) -> dict[str, float]:
    """The keys of `lat_us`, in us."""
    percentiles = {name: histogram.percentile(p) for name, p in analysis.PERCENTILES.items()}
    return {"mean": histogram.mean_us, **percentiles, "max": histogram.max_us}


def to_json(run: Run, points: Sequence[Point]) -> dict[str, object]:
    """The object that `--json` prints. Figures that do not exist are null."""

    def flow(point: Point, f: PointFlow) -> dict[str, object]:
        out: dict[str, object] = {
            "flow": f.name,
            "op": f.op,
            "ios": f.ios,
            "iops": _round(f.iops),
            "mib_s": _round(f.mib_s),
            "lat_us": {k: _round(v) for k, v in f.lat_us.items()},
            "ci_us": {k: [_round(low), _round(high)] for k, (low, high) in f.ci_us.items()},
        }
        if f.delay is not None:
            out["scheduler_us"] = {k: _round(v) for k, v in latencies(f.delay).items()}
        # Beside the real-time flow; where there is none, beside the only one.
        if point.published and f.name == (*point.real_time, *point.background)[0]:
            out["paper"] = {k: _round(v) for k, v in point.published.values.items()}
        return out

    return {
        "experiment": run.name,
        "target": run.target,
        "drive": run.spec.drive,
        "seeds": list(run.mode.seeds),
        "points": [
            {
                "label": p.scheduler.label,
                "scheduler": p.scheduler.name,
                "knobs": knobs(run, p.scheduler),
                **({"cgroups": p.scheduler.cgroups} if p.scheduler.cgroups else {}),
                "load": p.sweep.label,
                "sweep": sweep(p.sweep, p.background_rate),
                "flows": [flow(p, f) for f in p.flows],
                "kernel": p.kernel,
                "smp": p.smp,
                "dilation": p.dilation,
                "idle": _round(p.idle),
                "status": p.status,
                **({"blocked": {"task": p.blocked.task, "us": _round(p.blocked.us)}} if p.blocked else {}),
            }
            for p in points
        ],
    }


def _round(value: float | None) -> float | int | None:
    """Six significant digits: more than fio's bins carry, and stable in print."""
    if value is None or math.isnan(value):
        return None
    rounded = float(f"{value:.6g}")
    return int(rounded) if rounded.is_integer() else rounded


def write_parquet(run: Run, measurements: Sequence[Measurement], path: Path) -> None:
    """One row per point, seed and flow, with the whole histogram. Times in us, undilated."""
    rows = [
        {
            "experiment": run.name,
            "target": run.target,
            "drive": run.spec.drive,
            "scheduler": m.scheduler.name,
            "label": m.scheduler.label,
            "knobs": json.dumps(knobs(run, m.scheduler)),
            "variant": "" if m.variant is None else run.spec.variants[m.variant].title,
            "load": m.sweep.label or "",
            "access": m.sweep.access,
            "op": m.sweep.op,
            "block_size_kib": m.sweep.block_size_kib,
            "rt_block_size_kib": m.sweep.rt_block_size_kib or m.sweep.block_size_kib,
            "load_keys": json.dumps(m.sweep.carried),
            "background_rate": m.background_rate,
            "seed": m.seed,
            "flow": f.name,
            "flow_op": f.op,
            "ios": f.ios,
            "iops": f.iops,
            "mib_s": f.mib_s,
            "lat_mean_us": f.histogram.mean_us,
            **{f"lat_{name}_us": f.histogram.percentile(p) for name, p in analysis.PERCENTILES.items()},
            "lat_max_us": f.histogram.max_us,
            "histogram_us": f.histogram.values_us.tolist(),
            "histogram_count": f.histogram.counts.tolist(),
            "scheduler_us": None if f.delay is None else f.delay.values_us.tolist(),
            "scheduler_count": None if f.delay is None else f.delay.counts.tolist(),
            "kernel": m.kernel,
            "mode": m.mode,
            "smp": m.smp,
            "dilation": m.dilation,
            "idle": m.idle,
            "block_mean_us": m.block_us,
            "blocked_max_us": m.blocked.us if m.blocked else None,
            "status": m.status,
        }
        for m in measurements
        for f in m.flows
    ]
    schema = pa.schema(
        [
            *(
                (name, pa.string())
                for name in ("experiment", "target", "drive", "scheduler", "label", "knobs")
            ),
            *((name, pa.string()) for name in ("variant", "load", "access", "op")),
            ("block_size_kib", pa.int64()),
            ("rt_block_size_kib", pa.int64()),
            ("load_keys", pa.string()),
            ("background_rate", pa.float64()),
            ("seed", pa.int64()),
            ("flow", pa.string()),
            ("flow_op", pa.string()),
            ("ios", pa.int64()),
            ("iops", pa.float64()),
            ("mib_s", pa.float64()),
            ("lat_mean_us", pa.float64()),
            *((f"lat_{name}_us", pa.float64()) for name in analysis.PERCENTILES),
            ("lat_max_us", pa.float64()),
            ("histogram_us", pa.list_(pa.float64())),
            ("histogram_count", pa.list_(pa.int64())),
            ("scheduler_us", pa.list_(pa.float64())),
            ("scheduler_count", pa.list_(pa.int64())),
            ("kernel", pa.string()),
            ("mode", pa.string()),
            ("smp", pa.int64()),
            ("dilation", pa.int64()),
            ("idle", pa.float64()),
            ("block_mean_us", pa.float64()),
            ("blocked_max_us", pa.float64()),
            ("status", pa.string()),
        ]
    )
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)


def write_run(folder: Path, run: Run) -> None:
    """spec.json: what `read_run` reads back."""
    about = {
        "experiment": run.name,
        "target": run.target,
        "mode": run.mode_name,
        "resolved_mode": run.mode.model_dump(mode="json"),
        "schedulers": [s.label for s in run.schedulers],
        "variants": list(run.variants),
        "spec": run.spec.model_dump(mode="json"),
    }
    (folder / "spec.json").write_text(json.dumps(about, indent=1) + "\n")


def read_run(folder: Path) -> Run:
    """The run of a run directory. UsageError if the folder is none."""
    try:
        about = json.loads((folder / "spec.json").read_text())
        spec = Experiment.model_validate(about["spec"])
        return Run(
            about["experiment"],
            spec,
            about["mode"],
            Mode.model_validate(about["resolved_mode"]),
            tuple(s for s in spec.schedulers if s.label in about["schedulers"]),
            tuple(about["variants"]),
            about["target"],
        )
    except (OSError, ValueError, KeyError) as e:
        raise UsageError(
            f"{folder}: expected the folder of a run, as `tailgate run` prints it, such as {ROOT / 'runs'}/…"
        ) from e


def read_points(folder: Path, run: Run) -> tuple[list[Measurement], list[Point]]:
    """All of a run's folder: measurements, and points over all seeds with the paper's rows."""
    measurements = read_measurements(folder, run)
    return measurements, with_cells(
        merge_seeds(measurements, run.spec), run.spec, published_in(folder, run.spec)
    )


def published_in(folder: Path, spec: Experiment) -> dict[str | None, list[paper.Published]]:
    """The paper's points that a run's folder holds, by the label of the load."""
    file = folder / "sources" / Path(spec.paper.file).name
    return {sweep.label: paper.load(file, sweep) for sweep in spec.sweeps}


def digits(m: Measurement) -> tuple[object, ...]:
    """What must be equal when a point is measured again in virtual time: every flow's counts, bin by bin."""
    return tuple(
        (f.name, f.ios, f.iops, f.histogram.values_us.tolist(), f.histogram.counts.tolist()) for f in m.flows
    )
