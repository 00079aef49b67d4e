# SPDX-License-Identifier: GPL-2.0-only
"""Mean latencies from counts of completed requests and of the time that they took together.

The block layer counts reads and writes (/sys/block/*/stat), in whole milliseconds modulo 2^32, which much
that is outstanding reaches within hours. K2 counts real-time requests (/proc/tailgate-k2).
"""

import re
from dataclasses import dataclass
from typing import Literal, cast

from tailgate.base.errors import UsageError, one_of

#: Which requests are protected.
Protected = Literal["read", "write", "rt"]
#: As a person calls them.
CALLED: dict[Protected, str] = {"read": "reads", "write": "writes", "rt": "real-time requests"}
#: The schedulers that count real-time requests.
COUNT_RT = ("k2",)
#: Fields of /sys/block/*/stat (Documentation/block/stat.rst): completed requests, and the ms that they took
#: together, from their creation to their completion.
FIELDS: dict[Protected, tuple[int, int]] = {"read": (0, 3), "write": (4, 7)}
#: Least number of requests, and least us in all, of a mean: with less the block layer's rounding shows.
REQUESTS_LEAST, US_LEAST = 8, 8000
US_MODULUS = 1000 * 2**32
#: Seconds without a request after which there is nothing to protect.
IDLE_S = 1.0
_KEEP = re.compile(r"\s*(?P<of>read|write|rt)\.lat_us\.mean\s*<=\s*(?P<us>[0-9.]+)\s*")


@dataclass(frozen=True)
class Keep:
    """What is kept: the mean latency of these requests is at most `limit_us`."""

    requests: Protected
    limit_us: float

    def check(self, scheduler: str) -> None:
        """UsageError if real-time requests are to be kept, and this scheduler does not count them."""
        if self.requests == "rt" and scheduler not in COUNT_RT:
            raise UsageError(
                f"{scheduler} does not count real-time requests, as {one_of(COUNT_RT)} does; "
                "keep read.lat_us.mean or write.lat_us.mean"
            )


@dataclass(frozen=True)
class RequestCounts:
    """At one instant: the clock, in s; requests completed so far, their us; whether any are outstanding."""

    now_s: float
    requests: int
    us: int
    outstanding: bool = False


class Meter:
    """Takes the mean over as many intervals as it needs."""

    def __init__(self) -> None:
        self._from: RequestCounts | None = None
        #: The latest instant at which a request was in the drive, or had completed since the one before.
        self._busy: RequestCounts | None = None

    def add(self, now: RequestCounts) -> float | None:
        """The mean in us since the last one; None: too few so far; 0: none for IDLE_S."""
        if self._from is None or self._busy is None:
            self._from = self._busy = now
            return None
        if now.outstanding or now.requests != self._busy.requests:
            self._busy = now
        requests, us = now.requests - self._from.requests, (now.us - self._from.us) % US_MODULUS
        if requests >= REQUESTS_LEAST and us >= US_LEAST:
            self._from = now
            return us / requests
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
            f'{option}: expected "read.lat_us.mean <= US", or write or rt in place of read, got "{text}"'
        )
    return Keep(cast(Protected, found["of"]), limit)
