# SPDX-License-Identifier: GPL-2.0-only
"""Points over all their seeds, with intervals."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tailgate.runs import statistics as analysis
from tailgate.runs.flow import Flow
from tailgate.runs.histogram import Histogram, merge, merge_some
from tailgate.runs.measurements import IDLE_REFUSED, STATE, Blocked, Measurement
from tailgate.spec import paper
from tailgate.spec.experiment import Experiment
from tailgate.spec.scheduler import Scheduler
from tailgate.spec.sweep import Sweep

IDLE_WARNED = 0.80


#: Times inside the kernel's schedulers, cgroup controllers and writeback throttling that no knob scales.
#: Dilation does not lengthen them, so in undilated units they are too short.
FIXED_TIMES: Mapping[str, str] = {
    "mq-deadline": "waits 3 ms, rounded up to a tick, before it asks again after an empty dispatch",
    "kyber": "judges latencies over windows of 100 ms",
    "bfq": "estimates rates and wakes idle queues over fixed milliseconds",
    "io.max": "hands out its rate in slices of 20 ms",
    "io.cost.qos": "adjusts its rate once a millisecond at most",
    "wbt_lat_usec": "judges latencies over windows of 100 ms",
}


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
class Point:
    """A point over all its seeds. `real_time` and `background` name its flows ("": the load has none).

    `published` is the paper's cell for this scheduler and load; only the point that stands beside it has one.
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
    #: The longest wait over all seeds; None unless the load has a file system.
    blocked: Blocked | None
    published: paper.Published | None
    real_time: tuple[str, ...]
    background: tuple[str, ...]
    #: The scheduler's state at the end, mean over the seeds: kyber's read_tokens, write_tokens.
    state: Mapping[str, float] = field(default_factory=dict)

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
        """The throughput of all background flows together, if they ran."""
        flows = [flow for name in self.background if (flow := self.flow(name))]
        return Rate(sum(f.iops for f in flows), sum(f.mib_s for f in flows)) if flows else None

    @property
    def marks(self) -> list[str]:
        """What a reader of the figures has to know, one clause each."""
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

    The points have no cell of the paper yet; `with_cells` adds it.
    """
    groups: dict[tuple[int | None, str | None, str, float], list[Measurement]] = {}
    for m in measurements:
        key = (m.point.chunk.variant, m.sweep.label, m.scheduler.label, m.background_rate)
        groups.setdefault(key, []).append(m)
    points = []
    for (variant, _, _, rate), seeds in groups.items():
        first = seeds[0]
        names = dict.fromkeys(f.name for m in seeds for f in m.flows)
        dilation = max(m.conditions.dilation for m in seeds)
        flows = tuple(
            _merge_flow([f for m in seeds if (f := m.flow(name))], len(seeds), dilation) for name in names
        )
        block = [m.block_us for m in seeds if m.block_us is not None]
        worst = next((s for s in ("cpu-bound", "short") if any(m.status == s for m in seeds)), "ok")
        points.append(
            Point(
                scheduler=first.scheduler,
                sweep=first.sweep,
                background_rate=rate,
                variant=variant,
                smp=first.conditions.smp,
                kernel=first.conditions.kernel,
                mode=first.conditions.mode,
                dilation=dilation,
                idle=min(m.idle for m in seeds),
                status=worst,
                flows=flows,
                block_us=sum(block) / len(block) if block else None,
                blocked=max((m.blocked for m in seeds if m.blocked), key=lambda b: b.us, default=None),
                published=None,
                real_time=spec.real_time(first.sweep),
                background=spec.background(first.sweep),
                state=_state([m.counters for m in seeds]),
            )
        )
    return points


def _state(counters: Sequence[Mapping[str, int]]) -> dict[str, float]:
    names = [name for name in counters[0] if name.startswith(STATE)]
    return {name.removeprefix(STATE): sum(c[name] for c in counters) / len(counters) for name in names}


def _merge_flow(flows: Sequence[Flow], seeds: int, dilation: int) -> PointFlow:
    """One flow over all seeds. Its rates are means over all seeds, including those without a request."""
    histogram = merge(f.histogram for f in flows)
    ci = {
        name: analysis.interval_over_seeds([f.histogram for f in flows], p, dilation)
        for name, p in analysis.PERCENTILES.items()
    }
    return PointFlow(
        name=flows[0].name,
        op=flows[0].op,
        ios=sum(f.ios for f in flows),
        iops=sum(f.iops for f in flows) / seeds,
        mib_s=sum(f.mib_s for f in flows) / seeds,
        histogram=histogram,
        lat_us=latencies(histogram),
        ci_us=ci,
        delay=merge_some(f.delay for f in flows),
    )


def latencies(histogram: Histogram) -> dict[str, float]:
    """The keys of `lat_us`, in us."""
    percentiles = {name: histogram.percentile(p) for name, p in analysis.PERCENTILES.items()}
    return {"mean": histogram.mean_us, **percentiles, "max": histogram.max_us}
