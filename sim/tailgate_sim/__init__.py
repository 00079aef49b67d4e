# SPDX-License-Identifier: GPL-2.0-only
"""Tailgate's simulator: fio processes, a small blk-mq, schedulers and a flash drive, in virtual time.

The classes are those of sim/simulate.hpp, field by field; its comments say what they mean. Times are in ns,
sizes in bytes.
"""

from tailgate_sim._core import (
    Cgroup,
    Config,
    Costs,
    Counted,
    Device,
    Direction,
    DirectionResult,
    Distribution,
    Ends,
    FlowResult,
    Histogram,
    Machine,
    PriorityResult,
    PriorityShare,
    Process,
    Result,
    Sample,
    Scheduler,
    TracedIo,
    UsageError,
    ZoneShare,
    schedulers,
    simulate,
)

__all__ = [
    "Cgroup",
    "Config",
    "Costs",
    "Counted",
    "Device",
    "Direction",
    "DirectionResult",
    "Distribution",
    "Ends",
    "FlowResult",
    "Histogram",
    "Machine",
    "PriorityResult",
    "PriorityShare",
    "Process",
    "Result",
    "Sample",
    "Scheduler",
    "TracedIo",
    "UsageError",
    "ZoneShare",
    "schedulers",
    "simulate",
]
