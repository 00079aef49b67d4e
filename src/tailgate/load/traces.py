# SPDX-License-Identifier: GPL-2.0-only
"""Traces that fio replays (its iolog, version 3)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tailgate.base.errors import UsageError

SECTOR = 512


TRACE_HEADER = "fio version 3 iolog"


@dataclass(frozen=True)
class TracedIo:
    """One request of a trace: `direction` 0 reads, 1 writes; `at_ns` from the start of the process."""

    at_ns: int
    direction: int
    offset: int
    bytes: int


@lru_cache(maxsize=64)  # several schedulers replay the same traces one after the other
def cached_trace(path: Path, text: str, capacity: int) -> tuple[TracedIo, ...]:
    return read_trace(path, text.splitlines(), capacity)


def read_trace(path: Path, lines: Sequence[str], capacity: int) -> tuple[TracedIo, ...]:
    """A trace of fio's version 3 (HOWTO, "Trace file format v3"): times in us, all requests to one file.

    UsageError names file and line. fio waits for the difference of two times, but does not wait before the
    first time above 0; this function does the same (3.33, delay_since_ttime()).
    """

    def error(number: int, text: str) -> UsageError:
        return UsageError(f"{path}:{number}: {text}")

    if not lines or lines[0].strip() != TRACE_HEADER:
        raise error(1, f"expected the first line '{TRACE_HEADER}'")
    out: list[TracedIo] = []
    last_us = at_us = 0
    name: str | None = None
    directions = {"read": 0, "write": 1}
    for number, line in enumerate(lines[1:], 2):
        words = line.split()
        if not words:
            continue
        if len(words) not in (3, 5) or not words[0].isdecimal():
            raise error(number, f"expected 'time file action [offset length]', got '{line}'")
        now_us, action = int(words[0]), words[2]
        if now_us < last_us:
            raise error(number, f"expected a time of at least {last_us}, the one before, got {now_us}")
        at_us += now_us - last_us if last_us else 0
        last_us = now_us
        if name not in (None, words[1]):
            raise error(number, f"{words[1]}: there is one drive in the simulator, not also {name}")
        name = words[1]
        if len(words) == 3:
            if action not in ("add", "open", "close"):
                raise error(number, f"{action}: expected add, open or close, or an offset and a length")
            continue
        if action not in directions:
            raise error(number, f"{action}: not modelled by the simulator; expected read or write")
        if not words[3].isdecimal() or not words[4].isdecimal():
            raise error(number, f"expected an offset and a length in bytes, got '{words[3]} {words[4]}'")
        offset, length = int(words[3]), int(words[4])
        if offset % SECTOR or length % SECTOR or not length or offset + length > capacity:
            raise error(number, f"expected whole sectors within the drive's {capacity} bytes")
        out.append(TracedIo(at_us * 1000, directions[action], offset, length))
    if not out:
        raise error(len(lines), "expected at least one read or write")
    return tuple(out)
