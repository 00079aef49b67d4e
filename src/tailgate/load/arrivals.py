# SPDX-License-Identifier: GPL-2.0-only
"""Generated arrivals: the times at which requests of a real-time flow are due, independent of completions.

An experiment states them beside a load's job file. The lab writes them as traces for fio to replay (version
3, times in us, as fio 3.33 reads them). The random numbers depend only on the seed and the name of the
section.

fio 3.33 that replays with an iodepth above 1 looks for completions only when its queue is full. So a flow
that needs several requests outstanding is replayed by several synchronous processes, which take its requests
in turn. A process that is late begins its next requests late too. In a guest a response is measured from when
fio begins the request, in the simulator from when the request is due.
"""

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tailgate.base.errors import UsageError
from tailgate.load import fiojob
from tailgate.load.fiojob import JobFile, Option, Section
from tailgate.load.options import NOT_WITH_TRACE
from tailgate.spec.arrivals import Arrivals

#: Engines with which fio begins a request when it is due.
SYNCHRONOUS = ("psync", "sync", "pvsync", "pvsync2")
#: Options that cannot be combined with a replay, or that give several sizes or non-uniform offsets.
REFUSED = (
    *NOT_WITH_TRACE,
    *("read_iolog", "bssplit", "bsrange", "blockalign", "random_distribution", "percentage_random"),
)
_SHARES = {"randread": 0, "randwrite": 100, "randrw": None}


def times_us(spec: Arrivals, period_us: int, requests: int, rng: random.Random) -> list[int]:
    """The times of `requests` requests in us from the flow's start, in order. The phase is random."""
    at = _grid(spec, period_us, requests, rng)
    # random() gives the same numbers in all versions of Python; the generator's other methods may not.
    return sorted(max(0, round(next(at))) for _ in range(requests))


def _grid(spec: Arrivals, period: int, requests: int, rng: random.Random) -> Iterator[float]:
    now = period * rng.random()
    jitter = period * (spec.jitter_percent or 0) / 100
    # A request may be early by the jitter; this keeps the first one from being before the start.
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
    """The trace of each process of a section; at least `requests` requests until the first process ends.

    `flow` is the index of the flow among the load's real-time flows, `capacity` the drive's in bytes.
    UsageError, with file and line, for options that cannot be combined with a replay."""
    size, share, name = _blocks(job, section, capacity)
    processes = fiojob.integer(job, section, "numjobs", 1)
    rng = random.Random(f"{seed} {section.name}")
    times = times_us(spec, spec.period_of(flow), requests + 2 * (processes - 1), rng)
    # fio takes a time of 0 as no time, so all times are 1 us later.
    head = f"fio version 3 iolog\n1 {name} add\n1 {name} open\n"
    lines: list[list[str]] = [[] for _ in range(processes)]
    for i, at_us in enumerate(times):
        offset = int(rng.random() * (capacity // size)) * size
        action = "write" if rng.random() * 100 < share else "read"
        lines[i % processes].append(f"{at_us + 1} {name} {action} {offset} {size}\n")
    return [head + "".join(part) + f"{times[-1] + 1} {name} close\n" for part in lines]


def replayed(job: JobFile, names: Mapping[str, Sequence[str]], texts: Mapping[str, str]) -> JobFile:
    """The job with traces for the sections in `names`, which has their names; `texts` has the traces."""
    sections = tuple(
        replace(s, options={**s.options, "read_iolog": Option(":".join(names[s.name]), s.line)})
        if s.name in names
        else s
        for s in job.sections
    )
    return replace(job, sections=sections, traces=texts)


def _blocks(job: JobFile, section: Section, capacity: int) -> tuple[int, float, str]:
    """A section's block size in bytes, share of writes in percent, and file."""
    options = section.options

    def fail(key: str, expected: str) -> UsageError:
        place = options.get(key, Option("", section.line))
        where = f"{job.path}:{place.line}: [{section.name}]: {key}"
        return UsageError(f"{where}: expected {expected}, as arrivals are generated")

    for key in REFUSED:
        if key in options:
            raise fail(key, "none")
    if "ioengine" not in options or options["ioengine"].value not in SYNCHRONOUS:
        raise fail("ioengine", "psync, with numjobs where several are to be outstanding")
    if "filename" not in options:
        raise fail("filename", "one")
    pattern = options.get("rw")
    if pattern is None or pattern.value not in _SHARES:
        raise fail("rw", "randread, randwrite or randrw")
    share = _SHARES[pattern.value]
    if share is None:
        share = 100 - fiojob.read_percent(job, section)
    size = fiojob.amount(options["bs"].value if "bs" in options else "4k")
    if not size or size % 512 or size > capacity:
        raise fail("bs", "one size in whole sectors, of the drive's size at most")
    return size, share, options["filename"].value
