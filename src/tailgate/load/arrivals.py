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

from tailgate.base.errors import UsageError
from tailgate.load import fiojob
from tailgate.load.fiojob import JobFile, Option, Section
from tailgate.load.options import NOT_WITH_TRACE
from tailgate.spec.arrivals import Arrivals

#: The engines with which fio begins a request when it is due.
SYNCHRONOUS = ("psync", "sync", "pvsync", "pvsync2")
#: What a replay excludes; and what says which requests there are otherwise than by one size, and by chance.
REFUSED = (
    *NOT_WITH_TRACE,
    *("read_iolog", "bssplit", "bsrange", "blockalign", "random_distribution", "percentage_random"),
)
_SHARES = {"randread": 0, "randwrite": 100, "randrw": None}


def times_us(spec: Arrivals, period_us: int, requests: int, rng: random.Random) -> list[int]:
    """The times of `requests` requests in us from the flow's start, in order. The phase is drawn."""
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
    """What each process of a section replays: at least `requests` requests until the first process ends.

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
