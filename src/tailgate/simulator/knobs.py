# SPDX-License-Identifier: GPL-2.0-only
"""The knobs of every scheduler: name, unit, range, scale and default.

The simulator's schedulers declare their knobs in C, once for the kernel module and for the simulator
(sched/knobs.h), and this module asks the simulator for them. It declares those that are not simulated itself:
the knobs of the kernel's bfq, and the queue setting that is the one knob of `none`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tailgate.simulator import simulation
from tailgate.spec.scheduler import Knob as Value

#: Units of knobs that are times: dilation multiplies them.
TIMES = ("ns", "us", "ms", "s")
#: Units of knobs that are rates: dilation divides them.
RATES = ("requests/s",)
AUTO = "auto"


@dataclass(frozen=True)
class Knob:
    """A knob. `least`, `most` and `step` describe its numbers.

    `default` is a number, a word, "auto", or None if it depends on the drive. `scale` is how a search steps
    through the numbers, "log" or "linear"; it is "choice" if the values are `words`. `automatic` is the
    simulator's number for "auto", 0 if "auto" is not accepted.
    """

    name: str
    unit: str
    least: int
    most: int
    default: Value | None
    scale: str
    what: str
    step: int = 1
    words: tuple[str, ...] = ()
    automatic: int = 0

    @property
    def dilated(self) -> bool:
        """Whether the knob is a time."""
        return self.unit in TIMES

    @property
    def rate(self) -> bool:
        """Whether the knob is a rate."""
        return self.unit in RATES


_INT_MAX = 2**31 - 1

#: The kernel's bfq (block/bfq-iosched.c; defaults for a drive that is not rotational).
BFQ = (
    Knob("slice_idle", "ms", 0, _INT_MAX, 8, "log", "how long a queue that ran empty keeps the drive"),
    Knob("slice_idle_us", "us", 0, _INT_MAX, 8000, "log", "slice_idle in microseconds"),
    Knob("low_latency", "boolean", 0, 1, 1, "linear", "whether interactive tasks are given more"),
    Knob("strict_guarantees", "boolean", 0, 1, 0, "linear", "one request in the drive at a time"),
    Knob("max_budget", "sectors", 0, _INT_MAX, 0, "log", "service before the next queue's turn; 0: auto"),
    Knob("timeout_sync", "ms", 0, _INT_MAX, 125, "log", "time before the next queue's turn"),
    Knob("fifo_expire_sync", "ms", 0, _INT_MAX, 125, "log", "a synchronous request is late after this time"),
    Knob("fifo_expire_async", "ms", 0, _INT_MAX, 250, "log", "any other request is late after this time"),
    Knob("back_seek_max", "KiB", 0, _INT_MAX, 16384, "log", "how far behind the head a request may lie"),
    Knob("back_seek_penalty", "times", 1, _INT_MAX, 2, "log", "what such a distance counts more"),
)
#: Knobs that are settings of the queue: they are in queue/, not in queue/iosched.
OF_QUEUE = frozenset({"nr_requests"})
NR_REQUESTS = Knob(
    "nr_requests", "requests", 4, 65535, None, "log", "tags of a hardware queue: requests at a time"
)


@lru_cache
def declared() -> Mapping[str, Mapping[str, Knob]]:
    """The knobs of each scheduler, by name. UsageError if the simulator is not built."""
    found = {
        name: {k.name: _of(k) for k in knobs} for name, knobs in simulation.module().schedulers().items()
    }
    return found | {"bfq": {k.name: k for k in BFQ}, "none": {NR_REQUESTS.name: NR_REQUESTS}}


def _of(knob: Any) -> Knob:
    """A knob, from the simulator's own description."""
    words = tuple(knob.words)
    if words:
        default: Value = words[knob.initial]
    else:
        default = AUTO if knob.automatic and knob.initial == knob.automatic else knob.initial
    return Knob(
        knob.name,
        knob.unit,
        knob.least,
        knob.most,
        default,
        knob.scale,
        knob.what,
        step=knob.step,
        words=words,
        automatic=knob.automatic,
    )
