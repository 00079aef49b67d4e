# SPDX-License-Identifier: GPL-2.0-only
"""I/O priorities: of a process, and of single requests (fio's cmdprio_percentage, cmdprio_bssplit)."""

from tailgate.load import fiojob
from tailgate.load.process import Priorities
from tailgate.load.section import Pair, SectionReader

_CLASSES = 4  # none, real time, best effort, idle
REAL_TIME, BEST_EFFORT = 1, 2
_LEVEL_MAX = 7
#: Hints (Linux 6.5) stand between level and class; no drive of the model takes one.
_HINT_MAX = 1023


def ioprio(kind: int, level: int, hint: int = 0) -> int:
    """The kernel's number: class << 13 | hint << 3 | level."""
    return kind << 13 | hint << 3 | level


def of_process(reader: SectionReader) -> int:
    """The ioprio of a section's processes. fio takes a level without a class for best effort."""
    level = reader.count("prio", 0, most=_LEVEL_MAX)
    default = BEST_EFFORT if reader.raw("prio") else 0
    return ioprio(reader.count("prioclass", default, most=_CLASSES - 1) or default, level)


def of_requests(reader: SectionReader) -> tuple[Priorities, Priorities]:
    """The shares of a section's reads and writes with an ioprio of their own; its class is real time if none
    is given (fio 3.33, engines/cmdprio.c).
    """
    kinds = _within(reader, "cmdprio_class", _CLASSES - 1)
    levels = _within(reader, "cmdprio", _LEVEL_MAX)
    hints = _within(reader, "cmdprio_hint", _HINT_MAX)
    read, write = (ioprio(k or REAL_TIME, v, h) for k, v, h in zip(kinds, levels, hints, strict=True))
    if option := reader.raw("cmdprio_bssplit"):
        if reader.raw("cmdprio_percentage"):
            raise reader.fail("cmdprio_bssplit", "either it or cmdprio_percentage, as in fio")
        parts = option.value.split(",")
        if len(parts) > 3:
            raise reader.fail("cmdprio_bssplit", "at most three lists, for read,write,trim")
        return _by_size(reader, parts[0], read), _by_size(reader, parts[min(1, len(parts) - 1)], write)
    shares = _within(reader, "cmdprio_percentage", 100)
    return tuple(((0, s, p),) if s else () for s, p in zip(shares, (read, write), strict=True))  # type: ignore[return-value]


def _within(reader: SectionReader, key: str, most: int) -> Pair:
    values = reader.both(key, 0)
    if max(values) > most:
        raise reader.fail(key, f"0 to {most}, or such numbers for read,write")
    return values


def _by_size(reader: SectionReader, text: str, default: int) -> Priorities:
    """One direction of cmdprio_bssplit: size/percent, or size/percent/class/level, with ":" in between."""
    out = []
    total: dict[int, int] = {}
    for entry in text.split(":"):
        size, *numbers = (fiojob.amount(word) for word in entry.split("/"))
        if not size or len(numbers) not in (1, 3, 4) or None in numbers:
            raise reader.fail(
                "cmdprio_bssplit", "size/percent or size/percent/class/level, such as 64k/20/1/0"
            )
        percent, *own = (n or 0 for n in numbers)
        total[size] = total.get(size, 0) + percent
        within = not own or (own[0] < _CLASSES and own[1] <= _LEVEL_MAX and own[-1] <= _HINT_MAX)
        if total[size] > 100 or not within:
            raise reader.fail("cmdprio_bssplit", "at most 100 percent of a size, classes to 3, levels to 7")
        if percent:
            out.append((size, percent, ioprio(*own) if own else default))
    return tuple(out)
