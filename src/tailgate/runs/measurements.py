# SPDX-License-Identifier: GPL-2.0-only
"""The measurement of one point with one seed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tailgate.runs.flow import Flow
from tailgate.spec.plan import PlannedPoint, Run
from tailgate.spec.scheduler import Scheduler
from tailgate.spec.sweep import Sweep

#: Prefix of counters that are the scheduler's state at the end of a point.
STATE = "scheduler."
#: Idle share of the virtual CPU below which the figures are the CPU's and not the drive's.
IDLE_REFUSED = 0.65


@dataclass(frozen=True)
class Conditions:
    """The conditions of a measurement: CPUs; the kernel's series, or the simulated machine; the mode
    `icount`, `kvm` or `sim`; and the factor of time dilation.
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
    """The results of one point and seed, in undilated units."""

    point: PlannedPoint
    conditions: Conditions
    #: The idle share of the CPUs while the first real-time flow ran.
    idle: float
    #: "ok"; "short": the time limit came before all samples; "cpu-bound": not the drive's figures.
    status: str
    flows: tuple[Flow, ...]
    #: Mean time of a request inside the block layer; only if the first real-time flow ran alone, in one
    #: direction. The kernel's own counters (iostats) have a resolution of 1 ms over all requests of a point.
    block_us: float | None = None
    #: None unless the load has a file system.
    blocked: Blocked | None = None
    #: Settings of the queue and the scheduler while the point ran (dilated).
    settings: Mapping[str, str] = field(default_factory=dict)
    #: The target's own counters over the point (dilated ns).
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
        """The load of the measurement."""
        return self.point.chunk.sweep

    def flow(self, name: str) -> Flow | None:
        """The flow of this name, if it ran."""
        return next((f for f in self.flows if f.name == name), None)


def status(run: Run, point: PlannedPoint, flows: Sequence[Flow], idle: float, mode: str) -> str:
    """The value of `Measurement.status`. A point is called short even if a busy CPU is the reason."""
    if idle < IDLE_REFUSED and mode == "icount":
        return "cpu-bound"
    first = next(iter(run.spec.real_time(point.chunk.sweep)), None)
    rt = next((f for f in flows if f.name == first), None)
    if first and (rt is None or rt.ios < point.chunk.rt_samples):
        return "short"
    return "ok"


def digits(m: Measurement) -> tuple[object, ...]:
    """The values that must be equal when a point is measured again in virtual time: every flow's counts, by
    bin.
    """
    return tuple(
        (f.name, f.ios, f.iops, f.histogram.values_us.tolist(), f.histogram.counts.tolist()) for f in m.flows
    )
