# SPDX-License-Identifier: GPL-2.0-only
"""Mean latencies, from counters of completed requests and of their total time.

The block layer counts reads and writes (/sys/block/*/stat) in whole milliseconds modulo 2^32; a load with
many outstanding requests reaches that within hours. K2 counts real-time requests (/proc/tailgate-k2).
"""

import re
from dataclasses import dataclass
from typing import Literal, cast

from tailgate.base.errors import UsageError, one_of

#: Which requests are protected.
Protected = Literal["read", "write", "rt"]
#: Their names in messages.
CALLED: dict[Protected, str] = {"read": "reads", "write": "writes", "rt": "real-time requests"}
#: The schedulers that count real-time requests.
COUNT_RT = ("k2",)
#: Fields of /sys/block/*/stat (Documentation/block/stat.rst): number of completed requests, and their total
#: time in ms from creation to completion.
FIELDS: dict[Protected, tuple[int, int]] = {"read": (0, 3), "write": (4, 7)}
#: Least number of requests for a mean, and their least total time in us. With less, the block layer's
#: rounding to milliseconds shows.
REQUESTS_LEAST, US_LEAST = 8, 8000
US_MODULUS = 1000 * 2**32
#: Seconds without a request after which the meter reports an idle load.
IDLE_S = 1.0
_KEEP = re.compile(r"\s*(?P<of>read|write|rt)\.lat_us\.mean\s*<=\s*(?P<us>[0-9.]+)\s*")


@dataclass(frozen=True)
class Keep:
    """The condition to keep: the mean latency of these requests is at most `limit_us`."""

    requests: Protected
    limit_us: float

    def check(self, scheduler: str) -> None:
        """UsageError if `requests` are real-time requests and this scheduler does not count them."""
        if self.requests == "rt" and scheduler not in COUNT_RT:
            raise UsageError(
                f"{scheduler} does not count real-time requests, as {one_of(COUNT_RT)} does; "
                "keep read.lat_us.mean or write.lat_us.mean"
            )


@dataclass(frozen=True)
class Mean:
    """A mean latency in us, and the number of requests it is of: 0 if none came for IDLE_S."""

    us: float
    requests: int


@dataclass(frozen=True)
class RequestCounts:
    """Counters at one instant: clock in s, completed requests, their total time in us, any outstanding."""

    now_s: float
    requests: int
    us: int
    outstanding: bool = False


class Meter:
    """Takes each mean over as many intervals as it needs."""

    def __init__(self) -> None:
        self._from: RequestCounts | None = None
        #: The latest counters with a request outstanding, or with more completed requests than the counters
        #: before.
        self._busy: RequestCounts | None = None

    def add(self, now: RequestCounts) -> Mean | None:
        """The mean latency since the last mean; None: too few requests for one."""
        if self._from is None or self._busy is None:
            self._from = self._busy = now
            return None
        if now.outstanding or now.requests != self._busy.requests:
            self._busy = now
        requests, us = now.requests - self._from.requests, (now.us - self._from.us) % US_MODULUS
        if requests >= REQUESTS_LEAST and us >= US_LEAST:
            self._from = now
            return Mean(us / requests, requests)
        if now.now_s - self._busy.now_s >= IDLE_S:
            self._from = now  # a mean must not mix requests from before the pause with later ones
            return Mean(0.0, 0)
        return None


def keep(text: str, option: str) -> Keep:
    """The condition in a text such as "read.lat_us.mean <= 600". UsageError."""
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
