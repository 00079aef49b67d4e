# SPDX-License-Identifier: GPL-2.0-only
"""What one point and seed gave."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tailgate.runs.flow import Flow
from tailgate.spec.plan import PlannedPoint, Run
from tailgate.spec.scheduler import Scheduler
from tailgate.spec.sweep import Sweep

#: What the names of counters begin with that are the scheduler's state at the end of a point.
STATE = "scheduler."
#: Below this idle share of the virtual CPU the CPU, not the drive, is what was measured.
IDLE_REFUSED = 0.65


@dataclass(frozen=True)
class Conditions:
    """On what a point was measured: CPUs, the kernel's series (or the simulated machine), `icount`, `kvm` or
    `sim`, and by how much time was dilated.
    """

    smp: int
    kernel: str
    mode: str
    dilation: int


@dataclass(frozen=True)
class Blocked:
    """The longest time (undilated) that a task was blocked (state D) in a point, and the name of the task."""

    task: str
    us: float


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """One point and seed, in undilated units."""

    point: PlannedPoint
    conditions: Conditions
    #: The idle share of the CPUs while the first real-time flow ran.
    idle: float
    #: "ok", or "short" (the time limit came before all samples), or "cpu-bound" (not the drive's figures).
    status: str
    flows: tuple[Flow, ...]
    #: The mean time of a request inside the block layer, where the first real-time flow was alone and of one
    #: direction. The kernel's own account (iostats) has a grain of 1 ms over all requests of a point.
    block_us: float | None = None
    #: Where the load has a file system.
    blocked: Blocked | None = None
    #: The queue's and the scheduler's settings, as they were while the point ran (dilated).
    settings: Mapping[str, str] = field(default_factory=dict)
    #: The target's own counts over the point (dilated ns).
    counters: Mapping[str, int] = field(default_factory=dict)

    @property
    def scheduler(self) -> Scheduler:
        """The scheduler that was measured."""
        return self.point.chunk.scheduler

    @property
    def background_rate(self) -> float:
        """The share of its full rate that the background asked for."""
        return self.point.background_rate

    @property
    def sweep(self) -> Sweep:
        """The load that it was measured under."""
        return self.point.chunk.sweep

    def flow(self, name: str) -> Flow | None:
        """The flow of this name, if it ran."""
        return next((f for f in self.flows if f.name == name), None)


def status(run: Run, point: PlannedPoint, flows: Sequence[Flow], idle: float, mode: str) -> str:
    """What is to be said of a point: `Measurement.status`. It may be short because the CPU was busy."""
    if idle < IDLE_REFUSED and mode == "icount":
        return "cpu-bound"
    first = next(iter(run.spec.real_time(point.chunk.sweep)), None)
    rt = next((f for f in flows if f.name == first), None)
    if first and (rt is None or rt.ios < point.chunk.rt_samples):
        return "short"
    return "ok"


def digits(m: Measurement) -> tuple[object, ...]:
    """What must be equal when a point is measured again in virtual time: every flow's counts, bin by bin."""
    return tuple(
        (f.name, f.ios, f.iops, f.histogram.values_us.tolist(), f.histogram.counts.tolist()) for f in m.flows
    )
