# SPDX-License-Identifier: GPL-2.0-only
"""The path of a scheduler's knobs, from the low-latency end to the high-throughput end."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tailgate.base.errors import UsageError, one_of
from tailgate.simulator.knobs import declared

#: The target latency is below the limit, by this share of the limit for each millisecond between two
#: readings: when the load changes, some intervals are slow before the law reacts.
KEPT_BACK = 0.0008


@dataclass(frozen=True)
class KnobRange:
    """A knob, its value at the low-latency end, and its value at the high-throughput end."""

    knob: str
    low: int
    high: int

    def at(self, share: float) -> int:
        """The value after this share of the path; equal steps on the path multiply it by equal factors."""
        return round(self.low * math.pow(self.high / self.low, share))


@dataclass(frozen=True)
class Way:
    """All knobs that move, and the time after which the effect of a move can be measured.

    `bounds_all`: the knobs bound the protected requests too, so that at the low-latency end these requests
    wait for each other.
    """

    ranges: tuple[KnobRange, ...]
    every_ms: int
    bounds_all: bool

    @property
    def octaves(self) -> float:
        """The length of the path: how often the knob with the widest range doubles on it."""
        return max(abs(math.log2(r.high / r.low)) for r in self.ranges)

    @property
    def aim(self) -> float:
        """The target latency, as a share of the limit."""
        return 1 - KEPT_BACK * self.every_ms

    def at(self, position: float) -> dict[str, int]:
        """The values of the knobs at a position, in octaves from the low-latency end."""
        return {r.knob: r.at(position / self.octaves) for r in self.ranges}

    def place_of(self, knobs: Mapping[str, int]) -> float:
        """The position at which the first knob has the given value; the middle if no value is given."""
        first = self.ranges[0]
        if knobs.get(first.knob, 0) <= 0:
            return self.octaves / 2
        share = math.log(knobs[first.knob] / first.low) / math.log(first.high / first.low)
        return min(1.0, max(0.0, share)) * self.octaves


#: kyber gives writes more tokens only when they miss their target, and fewer only when reads miss theirs
#: (block/kyber-iosched.c, kyber_timer_fn()). So the two targets move in opposite directions. kyber looks at
#: latencies ten times a second, so more frequent readings show nothing new. With mqfq, reads of class RT need
#: only a small `d`; reads that share the drive fairly also wait for the data that other flows may be ahead
#: (`t_kib`).
WAYS: Mapping[str, Way] = {
    "kyber": Way(
        (KnobRange("read_lat_nsec", 50_000, 100_000_000), KnobRange("write_lat_nsec", 100_000_000, 50_000)),
        100,
        False,
    ),
    "k2": Way((KnobRange("inflight_max", 1, 256),), 50, True),
    "mqfq": Way((KnobRange("d", 1, 256), KnobRange("t_kib", 4, 1024)), 50, True),
}
_MOVE = re.compile(r"\s*(?P<knob>\w+)\s*=\s*(?P<low>\d+)\.\.(?P<high>\d+)\s*")


def way_of(scheduler: str, moves: Sequence[str], where: str) -> Way:
    """The scheduler's path, or the one that `moves` ask for, as in "inflight_max=2..64". UsageError."""
    known = WAYS.get(scheduler)
    if not moves:
        if not known:
            raise UsageError(
                f"it is not known which knobs of {scheduler} to move; expected {one_of(list(WAYS))} "
                f'as the scheduler, or {where} "KNOB=FROM..TO"'
            )
        return known
    ranges = tuple(_range(scheduler, text, where) for text in moves)
    names = [r.knob for r in ranges]
    if len(set(names)) < len(names):
        raise UsageError(f"{where}: expected each knob once, got {', '.join(names)}")
    return Way(ranges, known.every_ms if known else 100, known.bounds_all if known else True)


def _range(scheduler: str, text: str, where: str) -> KnobRange:
    if not (found := _MOVE.fullmatch(text)):
        raise UsageError(f'{where}: expected "KNOB=FROM..TO", got "{text}"')
    knobs = declared().get(scheduler, {})
    if found["knob"] not in knobs:
        expected = f"expected {one_of(list(knobs))}" if knobs else "it has none"
        raise UsageError(f"{where}: {scheduler} has no knob {found['knob']}; {expected}")
    knob = knobs[found["knob"]]
    ends = int(found["low"]), int(found["high"])
    if knob.words or knob.step > 1:
        raise UsageError(f"{where}: {knob.name}: expected a knob that is a number with steps of 1")
    least = max(1, knob.least)
    if not all(least <= end <= knob.most for end in ends) or ends[0] == ends[1]:
        raise UsageError(
            f"{where}: {knob.name}: expected two numbers, {least} to {knob.most}, got {ends[0]}..{ends[1]}"
        )
    return KnobRange(knob.name, *ends)
