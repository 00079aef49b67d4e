# SPDX-License-Identifier: GPL-2.0-only
"""Watches a drive, or rehearses that in the simulator, with the same meter and the same control law."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tailgate.base.errors import UsageError
from tailgate.simulator import knobs, simulation
from tailgate.simulator.simulation import DIRECTIONS, Outcome, Simulation
from tailgate.watch.law import Law
from tailgate.watch.meter import Keep, Meter, Protected, RequestCounts
from tailgate.watch.queue import LostError, Queue
from tailgate.watch.way import Way


@dataclass(frozen=True)
class Move:
    """A measured mean latency, and the knobs set after it. `mean_us` 0: no request for IDLE_S."""

    at_s: float
    mean_us: float
    knobs: Mapping[str, int]


class Watcher:
    """Turns counters of completed requests into settings of knobs."""

    def __init__(self, keep: Keep, way: Way, present: Mapping[str, int]) -> None:
        self._meter = Meter()
        self._way = way
        self._law = Law(way.aim * keep.limit_us, way.octaves, way.place_of(present), way.bounds_all)
        self._knobs = dict(present)

    def see(self, now: RequestCounts) -> Move | None:
        """The move that follows from these counters; None if the knobs stay as they are."""
        mean = self._meter.add(now)
        if mean is None:
            return None
        position = self._law.step(mean.us, mean.requests) if mean.requests else self._law.idle()
        moved = self._way.at(position)
        if moved == self._knobs:
            return None
        self._knobs = moved
        return Move(now.now_s, mean.us, moved)


def rehearse(told: Simulation, keep: Keep, way: Way) -> tuple[Outcome, list[Move]]:
    """Simulate this load with the knobs moving as they would on a drive with these counters. UsageError."""
    keep.check(told.scheduler)
    moves: list[Move] = []
    watcher = Watcher(keep, way, _numbers(told, way))

    def watch(sample: Any) -> Mapping[str, int]:
        if not (move := watcher.see(_counters(sample, keep.requests))):
            return {}
        moves.append(move)
        return move.knobs

    return simulation.simulate(told, way.every_ms * 1_000_000, watch), moves


def _counters(sample: Any, protected: Protected) -> RequestCounts:
    """The counters that a drive would have: the block layer's in whole milliseconds, K2's in microseconds."""
    if protected == "rt":
        counted, us = sample.real_time, sample.real_time.ns // 1000
    else:
        counted = sample.completed[DIRECTIONS.index(protected)]
        us = counted.ns // 1_000_000 * 1000
    return RequestCounts(sample.now_ns / 1e9, counted.ios, us, counted.outstanding > 0)


def _numbers(told: Simulation, way: Way) -> dict[str, int]:
    """The knobs of the path that are numbers when the simulation starts, as set or by default."""
    found = {}
    for knob in (knobs.declared()[told.scheduler][r.knob] for r in way.ranges):
        value = told.knobs.get(knob.name, knob.default)
        if isinstance(value, int) and value != knob.automatic:
            found[knob.name] = value
    return found


@dataclass(frozen=True)
class Watched:
    """The moves made while watching a drive, and the values that its knobs have again."""

    moves: Sequence[Move]
    restored: Mapping[str, str]


def watch(
    queue: Queue,
    keep: Keep,
    way: Way,
    told: Callable[[Move], None],
    now_s: Callable[[], float],
    wait: Callable[[float], bool],
) -> Watched:
    """Move the drive's knobs until `wait`, which is called with seconds, returns True; then restore them.

    LostError if another program changes the scheduler or a knob; the knobs that it has not set are then
    restored too, if they still exist. UsageError if a knob cannot be written, or does not accept a number.
    """
    keep.check(queue.scheduler)
    watcher = Watcher(keep, way, queue.take([r.knob for r in way.ranges]))
    moves: list[Move] = []
    begin = due = now_s()
    try:
        while True:
            if move := watcher.see(queue.counters(keep.requests, now_s() - begin)):
                queue.set(move.knobs)
                moves.append(move)
                told(move)
            due = max(due + way.every_ms / 1000, now_s())
            if wait(due - now_s()):
                return Watched(moves, queue.put_back())
    except LostError as lost:
        raise LostError(f"{lost}; {_put_back(queue)}") from lost
    except BaseException:
        queue.put_back()
        raise


def _put_back(queue: Queue) -> str:
    """Restore the knobs that can be restored; returns the outcome in words."""
    try:
        restored = queue.put_back()
    except LostError:
        restored = {}
    except UsageError as refused:
        return str(refused)
    return f"put back: {in_words(restored)}" if restored else "nothing was put back"


def in_words(knobs: Mapping[str, int] | Mapping[str, str]) -> str:
    """Knobs and their values: "d 64, t_kib 512"."""
    return ", ".join(f"{name} {value}" for name, value in knobs.items())
