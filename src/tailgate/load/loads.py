# SPDX-License-Identifier: GPL-2.0-only
"""The loads of a run: the fio job of each point, equal for all targets, and its number of I/Os."""

import math
from functools import cached_property, lru_cache
from pathlib import Path

from tailgate.base.errors import UsageError
from tailgate.load import arrivals, fiojob
from tailgate.load.fiojob import JobFile, Section
from tailgate.spec import cgroups, plan
from tailgate.spec import drive as drives
from tailgate.spec.drive import Drive
from tailgate.spec.plan import Chunk, Run
from tailgate.spec.scheduler import Knob
from tailgate.spec.sweep import Sweep

#: Seconds that the background runs alone before the real-time flow starts, unless its own ramp_time is
#: longer. The drive's queues are full by then.
LEAD_S = 0.05
#: Settings of the queue that are times.
QUEUE_TIMES = ("wbt_lat_usec",)
#: Mount point of cgroups in a guest.
CGROUPS = "/cg"
#: I/O operations a second that a virtual CPU serves easily; above this rate, time is dilated.
IOPS_UNDILATED = 10_000


class Loads:
    """The job files of an experiment. UsageError if a flow names a section that its file lacks."""

    def __init__(self, run: Run, path: Path, drive: Drive = drives.DEFAULTS) -> None:
        """`path` is the experiment file."""
        self.run = run
        self.path = path
        self.drive = drive
        #: By the label of the load.
        self.jobs = {
            sweep.label: fiojob.parse(path.parent / run.spec.job_of(sweep), sweep.variables)
            for sweep in run.spec.sweeps
        }
        for sweep in run.spec.sweeps:
            for name in run.spec.flows_in(sweep):
                self.section(sweep, name)
        for scheduler in run.schedulers:
            queue = run.spec.queue_of(scheduler)
            for name in QUEUE_TIMES:
                if not isinstance(queue.get(name, 0), int):
                    raise UsageError(f"{path}: queue.{name}: expected a number, got {queue[name]!r}")
        self._generated: dict[tuple[object, ...], dict[str, dict[str, str]]] = {}

    @property
    def files(self) -> list[Path]:
        """The job files, each once."""
        return list(dict.fromkeys(job.path for job in self.jobs.values()))

    @cached_property
    def recorded(self) -> dict[str, str]:
        """The traces that lie beside the job files, by name."""
        return {p.name: text for job in self.jobs.values() for p, text in fiojob.traces(job).items()}

    @cached_property
    def traces(self) -> dict[str, str]:
        """All traces that the jobs of the run replay, by name, undilated."""
        found = dict(self.recorded)
        for chunk in plan.chunks(self.run):
            for made in self.generated(chunk).values():
                found |= made
        return found

    def generated(self, chunk: Chunk) -> dict[str, dict[str, str]]:
        """The traces generated for a chunk's real-time flows, one a process: by section, then by name."""
        spec, sweep = self.run.spec, chunk.sweep
        if sweep.arrivals is None:
            return {}
        key = sweep.label, chunk.seed, chunk.rt_samples, chunk.variant
        if key not in self._generated:
            variant = {} if chunk.variant is None else spec.variants[chunk.variant].drive
            capacity = drives.capacity(drives.values(self.drive, sweep.drive | variant))
            label = "".join(f"{word}." for word in (sweep.label, chunk.rt_samples) if word)
            self._generated[key] = {}
            flows = [self.section(sweep, name) for name in spec.real_time(sweep)]
            for i, section in enumerate(flows):
                # A point ends with the first flow; the others must last until then, even if it is late.
                own, first = sweep.arrivals.period_of(i), sweep.arrivals.period_of(0)
                requests = (
                    chunk.rt_samples if i == 0 else math.ceil(1.25 * chunk.rt_samples * first / own) + 16
                )
                made = arrivals.traces(
                    sweep.arrivals,
                    self.jobs[sweep.label],
                    section,
                    flow=i,
                    requests=requests,
                    capacity=capacity,
                    seed=chunk.seed,
                )
                names = (f"{label}seed{chunk.seed}.{section.name}.{n}.log" for n in range(len(made)))
                self._generated[key][section.name] = dict(zip(names, made, strict=True))
        return self._generated[key]

    def section(self, sweep: Sweep, flow: str) -> Section:
        """The section of a load's job file that is this flow."""
        name = self.run.spec.flows[flow].section
        return self.jobs[sweep.label].section(name, f"flow {flow} of {self.path}")

    def first(self, sweep: Sweep) -> Section:
        """The section that ends a point: the first real-time flow's, or else the first background flow's."""
        spec = self.run.spec
        return self.section(sweep, (*spec.real_time(sweep), *spec.background(sweep))[0])

    def lead_s(self, sweep: Sweep) -> float:
        """How long (undilated s) the background of a load runs before anything is counted."""
        job = self.jobs[sweep.label]
        options = [self.section(sweep, name).options for name in self.run.spec.background(sweep)]
        ramps = [fiojob.time_us(job, "ramp_time", o["ramp_time"]) for o in options if "ramp_time" in o]
        return max([LEAD_S, *(us / 1e6 for us in ramps)])

    def derive(
        self,
        chunk: Chunk,
        background_rate: float,
        dilation: int = 1,
        sampler: str = "",
        mount: str = f"{CGROUPS}/",
    ) -> JobFile:
        """The fio job of one point. `mount` is prepended to the paths of cgroups."""
        spec, sweep = self.run.spec, chunk.sweep
        share = background_rate * sweep.full_rate_mib_s
        job, made = self.jobs[sweep.label], self.generated(chunk)
        texts = {name: text for of_section in made.values() for name, text in of_section.items()}
        job = arrivals.replayed(
            job,
            {section: list(of_section) for section, of_section in made.items()},
            {name: _dilated(text, dilation) for name, text in (self.recorded | texts).items()},
        )
        return fiojob.derive(
            job,
            fiojob.PointLoad(
                real_time=tuple(self.section(sweep, name).name for name in spec.real_time(sweep)),
                background=tuple(self.section(sweep, name).name for name in spec.background(sweep)),
                background_mib_s=None if background_rate >= 1 and not sweep.limited else share,
                rt_samples=chunk.rt_samples,
                limit_s=chunk.duration_s or self.run.mode.limit_s,
                seed=chunk.seed,
                dilation=dilation,
                lead_s=self.lead_s(sweep),
                sampler=sampler,
                cgroups={
                    self.section(sweep, name).name: mount + path
                    for name, path in spec.cgroups_in(sweep, chunk.scheduler).items()
                },
            ),
        )

    def iops_max(self, chunk: Chunk) -> int:
        """The highest number of I/O operations per second that a point of the chunk reaches."""
        return chunk.sweep.iops_max or self.run.spec.machine.iops_max

    def dilation(self, chunk: Chunk) -> int:
        """By which factor a guest at first slows time down for a chunk.

        It is the experiment's number, or else IOPS / 10 000, rounded up to a power of two.
        """
        spec = self.run.spec
        machine = spec.machine if chunk.variant is None else spec.variants[chunk.variant].machine
        if machine.dilation != "auto":
            return machine.dilation
        return 1 << max(0, -(-self.iops_max(chunk) // IOPS_UNDILATED) - 1).bit_length()

    def knobs(self, chunk: Chunk, dilation: int) -> dict[str, Knob]:
        """The scheduler's knobs; times are multiplied by the dilation, rates divided by it."""
        scheduler = chunk.scheduler
        dilated = {name: int(scheduler.knobs[name]) * dilation for name in scheduler.dilated}
        # A rate of 0 has a meaning of its own, so no other rate may become 0.
        slowed = {name: -(-int(scheduler.knobs[name]) // dilation) for name in scheduler.rates}
        return {**scheduler.knobs, **dilated, **slowed}

    def settings(self, chunk: Chunk, dilation: int) -> dict[str, Knob]:
        """The settings below /sys/block/*/queue, in the order of writing: queue, then scheduler."""
        knobs = {f"iosched/{name}": value for name, value in self.knobs(chunk, dilation).items()}
        queue = self.run.spec.queue_of(chunk.scheduler)
        return queue | {n: int(queue[n]) * dilation for n in QUEUE_TIMES if n in queue} | knobs

    def cgroups(self, chunk: Chunk, dilation: int) -> str:
        """The cgroups' settings as the guest reads them: times multiplied by the dilation, rates divided."""
        told = dict(chunk.scheduler.cgroups)
        for path in self.run.spec.cgroups_in(chunk.sweep, chunk.scheduler).values():
            told.setdefault(path, {})
        return cgroups.lines(told, dilation)

    def estimate(self, chunk: Chunk, background_rate: float) -> tuple[float, float]:
        """Estimates for a point: number of I/O operations, and (undilated) seconds."""
        spec, sweep, job = self.run.spec, chunk.sweep, self.jobs[chunk.sweep.label]
        iops = self.iops_max(chunk)
        background = [self.section(sweep, name) for name in spec.background(sweep)]
        outstanding = sum(
            fiojob.integer(job, s, "iodepth", 1) * fiojob.integer(job, s, "numjobs", 1) for s in background
        )
        bound = chunk.scheduler.knobs.get("inflight_max")
        at_once = min(bound, outstanding) if isinstance(bound, int) else outstanding
        waiting = at_once / iops if background_rate >= 1 else 10 / iops
        samples, seconds = chunk.rt_samples, chunk.duration_s or 0.0
        if samples:
            think = self.section(sweep, spec.real_time(sweep)[0]).options.get("thinktime")
            think_s = fiojob.time_us(job, "thinktime", think) / 1e6 if think else 0.0
            if sweep.arrivals:
                think_s, waiting = sweep.arrivals.period_of(0) / 1e6, 0.0
            seconds = min(samples * (think_s + waiting), self.run.mode.limit_s)
        return samples + (seconds + self.lead_s(sweep)) * iops * background_rate, seconds


@lru_cache(maxsize=64)
def _dilated(trace: str, dilation: int) -> str:
    return trace if dilation == 1 else fiojob.dilate_trace(trace, dilation)
