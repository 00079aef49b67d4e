# SPDX-License-Identifier: GPL-2.0-only
"""Arrivals that are generated: when the requests of a real-time flow come, whatever became of those before.

An experiment names them beside a load's job file, and the lab writes them as traces that fio replays (version
3, times in us, as fio 3.33 takes them). What is drawn depends on the seed and the name of the section alone.

fio 3.33 that replays with a depth looks at what has ended only when its queue is full. So several synchronous
processes replay a flow that is to have several requests at a time, and take its requests in turn. One that is
late begins its next request late, and then all that follow: in a guest the response is counted from where fio
begins, in the simulator from the scheduled release.
"""

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tailgate import fiojob
from tailgate.errors import UsageError
from tailgate.fiojob import JobFile, Option, Section

Kind = Literal["periodic", "jitter", "poisson", "burst", "drift", "reset"]
#: The parameter that a kind needs besides its period.
PARAMETERS: Mapping[str, str] = {
    "jitter": "jitter_percent",
    "burst": "burst",
    "drift": "drift_percent",
    "reset": "reset_every",
}
Period = Annotated[int, Field(ge=1, le=10**9)]
#: The engines with which fio begins a request when it is due.
SYNCHRONOUS = ("psync", "sync", "pvsync", "pvsync2")
_SHARES = {"randread": 0, "randwrite": 100, "randrw": None}


class Arrivals(BaseModel):
    """When requests come. `period_us` is one number for all real-time flows, or one each in turn."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Kind
    period_us: Period | Annotated[tuple[Period, ...], Field(min_length=1)]
    #: Each comes this share of the period early or late at most, uniformly; the grid itself stays.
    jitter_percent: Annotated[int, Field(ge=1, le=50)] | None = None
    #: So many come at once, every so many periods.
    burst: Annotated[int, Field(ge=2, le=1024)] | None = None
    #: The period grows by this share, evenly, until the end.
    drift_percent: Annotated[int, Field(ge=1, le=1000)] | None = None
    #: The grid jumps to another phase, in the mean every so many requests.
    reset_every: Annotated[int, Field(ge=2)] | None = None

    @model_validator(mode="after")
    def _fits_its_kind(self) -> "Arrivals":
        own = PARAMETERS.get(self.kind)
        if own and getattr(self, own) is None:
            raise ValueError(f"kind {self.kind}: expected {own} with it")
        for name in PARAMETERS.values():
            if name != own and getattr(self, name) is not None:
                raise ValueError(f"kind {self.kind}: expected no {name} with it")
        return self

    @property
    def words(self) -> str:
        """Such as `jitter 20 %`."""
        return {
            "periodic": "by the clock",
            "jitter": f"jitter {self.jitter_percent} %",
            "poisson": "poisson",
            "burst": f"bursts of {self.burst}",
            "drift": f"drift {self.drift_percent} %",
            "reset": f"phase reset every {self.reset_every}",
        }[self.kind]

    def period_of(self, flow: int) -> int:
        """The period of the load's `flow`-th real-time flow, from 0, in us."""
        if isinstance(self.period_us, int):
            return self.period_us
        return self.period_us[flow % len(self.period_us)]


def times_us(spec: Arrivals, period_us: int, requests: int, rng: random.Random) -> list[int]:
    """When so many requests come, in us from the flow's start, in order. The phase is drawn."""
    at = _grid(spec, period_us, requests, rng)
    # The numbers of random() are the same in all versions of Python; those of other methods need not be.
    return sorted(max(0, round(next(at))) for _ in range(requests))


def _grid(spec: Arrivals, period: int, requests: int, rng: random.Random) -> Iterator[float]:
    now = period * rng.random()
    jitter = period * (spec.jitter_percent or 0) / 100
    # Early by the jitter at most, the first is not before the start.
    now += jitter
    n = 0
    while True:
        if spec.kind == "jitter":
            yield now + jitter * (2 * rng.random() - 1)
        else:
            yield now
        n += 1
        if spec.kind == "poisson":
            now -= period * math.log(1 - rng.random())
        elif spec.kind == "burst":
            now += 0 if n % (spec.burst or 1) else period * (spec.burst or 1)
        elif spec.kind == "drift":
            now += period * (1 + (spec.drift_percent or 0) / 100 * n / requests)
        elif spec.kind == "reset" and rng.random() * (spec.reset_every or 1) < 1:
            now += period * (1 + rng.random())
        else:
            now += period


def traces(
    spec: Arrivals, job: JobFile, section: Section, *, flow: int, requests: int, capacity: int, seed: int
) -> list[str]:
    """What each process of a section replays, for at least so many requests until the first of them ends.

    `flow` counts the load's real-time flows, `capacity` is the drive's in bytes. UsageError, with file and
    line, for options that a replay excludes.
    """
    size, share, name = _blocks(job, section, capacity)
    processes = fiojob.integer(job, section, "numjobs", 1)
    rng = random.Random(f"{seed} {section.name}")
    times = times_us(spec, spec.period_of(flow), requests + 2 * (processes - 1), rng)
    # A time of 0 is none to fio, so that all are later by 1 us.
    head = f"fio version 3 iolog\n1 {name} add\n1 {name} open\n"
    lines: list[list[str]] = [[] for _ in range(processes)]
    for i, at_us in enumerate(times):
        offset = int(rng.random() * (capacity // size)) * size
        action = "write" if rng.random() * 100 < share else "read"
        lines[i % processes].append(f"{at_us + 1} {name} {action} {offset} {size}\n")
    return [head + "".join(part) + f"{times[-1] + 1} {name} close\n" for part in lines]


def replayed(job: JobFile, names: Mapping[str, Sequence[str]], texts: Mapping[str, str]) -> JobFile:
    """The job with its sections replaying traces, by section; `texts` holds them by name."""
    sections = tuple(
        replace(s, options={**s.options, "read_iolog": Option(":".join(names[s.name]), s.line)})
        if s.name in names
        else s
        for s in job.sections
    )
    return replace(job, sections=sections, traces=texts)


def _blocks(job: JobFile, section: Section, capacity: int) -> tuple[int, float, str]:
    """Block size in bytes, the share of writes in percent, and the file of a section."""
    options = section.options

    def fail(key: str, expected: str) -> UsageError:
        place = options.get(key, Option("", section.line))
        where = f"{job.path}:{place.line}: [{section.name}]: {key}"
        return UsageError(f"{where}: expected {expected}, as arrivals are generated")

    for key in ("read_iolog", "rate", "rate_iops", "thinktime", "size", "offset", "bssplit"):
        if key in options:
            raise fail(key, "none")
    if "ioengine" not in options or options["ioengine"].value not in SYNCHRONOUS:
        raise fail("ioengine", "psync, with numjobs where several are to be outstanding")
    if "filename" not in options:
        raise fail("filename", "one")
    pattern = options.get("rw") or options.get("readwrite")
    if pattern is None or pattern.value not in _SHARES:
        raise fail("rw", "randread, randwrite or randrw")
    share = _SHARES[pattern.value]
    if share is None:
        share = 100 - fiojob.integer(job, section, "rwmixread", 50)
    size = fiojob.amount(options["bs"].value if "bs" in options else "4k")
    if not size or size % 512 or size > capacity:
        raise fail("bs", "one size in whole sectors, of the drive's size at most")
    return size, share, options["filename"].value
