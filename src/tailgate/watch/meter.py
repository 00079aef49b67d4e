# SPDX-License-Identifier: GPL-2.0-only
"""Mean latencies from what the block layer counts: /sys/block/*/stat, whose times are whole milliseconds.

The kernel prints these times modulo 2^32 ms, which much that is outstanding reaches within hours.
"""

import re
from dataclasses import dataclass
from typing import Literal

from tailgate.base.errors import UsageError

Direction = Literal["read", "write"]
#: Fields of /sys/block/*/stat (Documentation/block/stat.rst): completed requests, and the ms that they took
#: together, from their creation to their completion.
FIELDS: dict[Direction, tuple[int, int]] = {"read": (0, 3), "write": (4, 7)}
#: Least number of requests, and least ms in all, that a mean is taken of: with fewer ms the rounding shows.
REQUESTS_LEAST, MS_LEAST = 8, 8
MS_MODULUS = 2**32
#: Seconds without a request after which there is nothing to protect.
IDLE_S = 1.0
_KEEP = re.compile(r"\s*(?P<op>read|write)\.lat_us\.mean\s*<=\s*(?P<us>[0-9.]+)\s*")


@dataclass(frozen=True)
class Keep:
    """What is kept: the mean latency of reads, or of writes, is at most `limit_us`."""

    direction: Direction
    limit_us: float


@dataclass(frozen=True)
class Counters:
    """At one instant: the clock, in s, what was completed so far, and whether requests are in the drive."""

    now_s: float
    requests: int
    ms: int
    outstanding: bool = False


class Meter:
    """Takes the mean over as many intervals as it needs."""

    def __init__(self) -> None:
        self._from: Counters | None = None
        #: The latest instant at which a request was in the drive, or had completed since the one before.
        self._busy: Counters | None = None

    def add(self, now: Counters) -> float | None:
        """The mean in us since the last one; None: too few so far; 0: none for IDLE_S."""
        if self._from is None or self._busy is None:
            self._from = self._busy = now
            return None
        if now.outstanding or now.requests != self._busy.requests:
            self._busy = now
        requests, ms = now.requests - self._from.requests, (now.ms - self._from.ms) % MS_MODULUS
        if requests >= REQUESTS_LEAST and ms >= MS_LEAST:
            self._from = now
            return 1000 * ms / requests
        if now.now_s - self._busy.now_s >= IDLE_S:
            self._from = now  # the few before the pause are no part of what comes after it
            return 0.0
        return None


def keep(text: str, option: str) -> Keep:
    """What "read.lat_us.mean <= 600" asks for. UsageError."""
    found = _KEEP.fullmatch(text)
    try:
        limit = float(found["us"]) if found else 0.0
    except ValueError:
        limit = 0.0
    if not found or limit <= 0:
        raise UsageError(
            f'{option}: expected "read.lat_us.mean <= US", or write in place of read, got "{text}"'
        )
    return Keep("read" if found["op"] == "read" else "write", limit)
