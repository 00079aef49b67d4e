# SPDX-License-Identifier: GPL-2.0-only
"""The I/O pattern of a process: directions, block sizes, and places on its part of the drive."""

import re
from collections.abc import Callable, Mapping
from typing import TypeVar

from tailgate.load import fiojob
from tailgate.load.process import BlockSizes, Distribution, Zones
from tailgate.load.section import Pair, SectionReader
from tailgate.load.traces import SECTOR

_DISTRIBUTIONS: Mapping[str, tuple[Distribution, float | None]] = {
    "random": ("random", None),
    "zipf": ("zipf", 1.1),
    "pareto": ("pareto", 0.2),
    "normal": ("normal", 0.0),
    "zoned": ("zoned", None),
    "zoned_abs": ("zoned", None),
}
_KINDS: Mapping[str, tuple[Pair | None, bool]] = {
    "read": ((100, 0), True),
    "write": ((0, 100), True),
    "randread": ((100, 0), False),
    "randwrite": ((0, 100), False),
    "rw": (None, True),
    "readwrite": (None, True),
    "randrw": (None, False),
}
_PATTERNS = "read, write, randread, randwrite, rw or randrw"

T = TypeVar("T")


def direction(reader: SectionReader) -> tuple[Pair, bool, int]:
    """Shares of reads and writes in percent; whether the order is sequential; and the step in bytes that fio
    adds to the place after each sequential request (rw=read:-8k).
    """
    option = reader.raw("rw")
    kind, colon, modifier = option.value.partition(":") if option else ("read", "", "")
    share, sequential = _KINDS.get(kind, (None, False))
    if kind not in _KINDS or (colon and not sequential):
        raise reader.fail("rw", _PATTERNS)
    step = 0
    if colon:
        size = fiojob.amount(modifier.removeprefix("-"))
        if not size or size % SECTOR:
            raise reader.fail("rw", f"a step of whole sectors of {SECTOR} bytes, such as read:-8k")
        step = -size if modifier.startswith("-") else size
    if share is not None:
        return share, sequential, step
    read = fiojob.read_percent(reader.job, reader.section)
    return (read, 100 - read), sequential, step


def block_sizes(reader: SectionReader) -> tuple[tuple[BlockSizes, BlockSizes], Pair]:
    """Sizes of reads and writes with their shares; then the largest size of a range, 0 without one."""
    if option := reader.raw("bssplit"):
        return _two(reader, "bssplit", option.value, lambda text: _split(reader, text)), (0, 0)
    if option := reader.raw("bsrange"):
        (read, read_most), (write, write_most) = _two(
            reader, "bsrange", option.value, lambda text: _range(reader, text)
        )
        most = (read_most if read_most > read else 0, write_most if write_most > write else 0)
        return (((read, 100),), ((write, 100),)), most
    read, write = reader.both("bs", 4096)
    for size in (read, write):
        if reader.raw("bs"):
            _check_size(reader, "bs", size)
    return (((read, 100),), ((write, 100),)), (0, 0)


def _two(reader: SectionReader, key: str, value: str, parse: Callable[[str], T]) -> tuple[T, T]:
    """The values for reads and, after a comma, for writes; a value without a comma is for both."""
    parts = [parse(part) for part in value.split(",")]
    if len(parts) > 3:
        raise reader.fail(key, "at most three values, for read,write,trim")
    return parts[0], parts[min(1, len(parts) - 1)]


def _check_size(reader: SectionReader, key: str, size: int) -> None:
    if not size or size % SECTOR or size >= 2**32:
        raise reader.fail(key, f"a multiple of {SECTOR} below 4g, as direct I/O needs")


def _range(reader: SectionReader, text: str) -> Pair:
    first, _, last = text.partition("-")
    least, most = fiojob.amount(first), fiojob.amount(last)
    if least is None or most is None or most < least:
        raise reader.fail("bsrange", "two sizes, such as 4k-64k")
    for size in (least, most):
        _check_size(reader, "bsrange", size)
    return least, most


def _split(reader: SectionReader, text: str) -> BlockSizes:
    """bssplit=size/percent:size/percent. Sizes without a percentage share what the others leave."""
    expected = "sizes with percentages that add up to 100, such as 4k/90:64k/10"
    found: list[tuple[int, int | None]] = []
    for word in text.split(":"):
        size, _, percent = word.partition("/")
        value = fiojob.amount(size)
        if value is None or (percent and not percent.strip().isdecimal()):
            raise reader.fail("bssplit", expected)
        _check_size(reader, "bssplit", value)
        found.append((value, int(percent) if percent else None))
    shares = _shares([p for _, p in found])
    if shares is None:
        raise reader.fail("bssplit", expected)
    return tuple((size, p) for (size, _), p in zip(found, shares, strict=True) if p)


def _shares(given: list[int | None]) -> list[int] | None:
    """Percentages. Those not given divide the rest equally. None if they do not add up to 100."""
    total, open_ = sum(p for p in given if p is not None), given.count(None)
    each = (100 - total) // open_ if open_ and total <= 100 else 0
    shares = [each if p is None else p for p in given]
    return shares if sum(shares) == 100 else None


def distribution(reader: SectionReader) -> tuple[Distribution, float]:
    """The kind of random_distribution and its parameter, 0 if it has none."""
    option = reader.raw("random_distribution")
    name, _, parameter = option.value.partition(":") if option else ("random", "", "")
    if name not in _DISTRIBUTIONS:
        raise reader.fail("random_distribution", _EXPECTED)
    kind, default = _DISTRIBUTIONS[name]
    if not parameter or kind == "zoned":
        return kind, default or 0.0
    if default is None or not re.fullmatch(r"\d+(\.\d+)?", parameter):
        raise reader.fail("random_distribution", _EXPECTED)
    value = float(parameter)
    # fio's own limits (lib/zipf.c, options.c).
    if (
        (kind == "zipf" and (value == 1.0 or value == 0.0))
        or (kind == "pareto" and not 0 < value < 1)
        or (kind == "normal" and value > 100)
    ):
        raise reader.fail("random_distribution", "zipf other than 0 and 1, pareto in 0..1, normal to 100")
    return kind, value


_EXPECTED = "random, zipf:theta, pareto:power, normal:deviation, or zones such as zoned:60/10:40/90"


def zones(reader: SectionReader, size: int) -> tuple[Zones, Zones]:
    """The zones of random_distribution=zoned or zoned_abs in a part of the drive of `size` bytes."""
    option = reader.raw("random_distribution")
    if not option or not option.value.startswith("zoned"):
        return (), ()
    name, _, text = option.value.partition(":")

    def parse(part: str) -> Zones:
        entries = [word.partition("/") for word in part.split(":")]
        shares = _shares([int(share) if share.isdecimal() else None for share, _, _ in entries])
        lengths = [fiojob.amount(length) for _, _, length in entries]
        if name == "zoned":
            percent = _shares(lengths)
            ends = [sum(percent[: i + 1]) * size // 100 for i in range(len(percent))] if percent else []
        else:
            ends = [sum(n or 0 for n in lengths[: i + 1]) for i in range(len(lengths))]
        if shares is None or not ends or ends[-1] > size or None in lengths[:-1]:
            raise reader.fail("random_distribution", _EXPECTED)
        return tuple(zip(shares, [0, *ends], ends, strict=False))

    return _two(reader, "random_distribution", text, parse)


def strided(reader: SectionReader, size: int) -> tuple[int, int, int]:
    """zonerange, zonesize and zoneskip of zonemode=strided; zeros in another mode."""
    mode = reader.choice("zonemode", "none", "strided", "zbd")
    if mode == "none" and reader.raw("zonesize"):
        raise reader.fail("zonesize", "a zonemode with it, as in fio")
    if mode != "strided":
        return 0, 0, 0
    length = reader.count("zonesize", 0)
    if not length:
        raise reader.missing(reader.raw("zonemode"), "zonemode: expected a zonesize with it")
    span, skip = reader.count("zonerange", 0) or length, reader.count("zoneskip", 0)
    for key, value in (("zonesize", length), ("zonerange", span), ("zoneskip", skip)):
        if value % SECTOR or value > size:
            at = key if reader.raw(key) else "zonesize"
            raise reader.fail(at, f"whole sectors of {SECTOR} bytes, no more than the {size} that are used")
    return span, length, skip


def write_zones(
    reader: SectionReader, offset: int, size: int, share: Pair, sizes: tuple[BlockSizes, int]
) -> Pair:
    """Bytes of a zone that zonemode=zbd writes from begin to end, and how many zones may be open at a time
    (0: all); zeros in another mode. As in fio, a drive without zones counts as one with empty zones.

    `sizes` are the sizes of writes, and the largest one of a range.
    """
    if reader.choice("zonemode", "none", "strided", "zbd") != "zbd":
        return 0, 0
    zone = reader.count("zonesize", 0)
    (block, _), *others = sizes[0]
    if share[0] or others or sizes[1]:
        raise reader.fail("zonemode", "writes of one size with zbd: nothing can be read in empty zones")
    if not zone or zone % block or size < zone or offset % zone:
        raise reader.missing(
            reader.raw("zonesize") or reader.raw("zonemode"),
            f"expected a zonesize of whole blocks that divides the offset, of at most {size} bytes",
        )
    return zone, reader.count("max_open_zones", 0, most=2**32 - 1)


def alignment(reader: SectionReader, defaults: Pair, share: Pair) -> int:
    """The value of blockalign; 0 if it is not set or equals the default."""
    if not reader.raw("blockalign"):
        return 0
    given = reader.both("blockalign", 0)
    used = [i for i in (0, 1) if share[i]]
    chosen = {given[i] for i in used}
    if len(chosen) > 1:
        raise reader.fail("blockalign", "one value for reads and writes")
    align = chosen.pop()
    if align % SECTOR or align >= 2**32:
        raise reader.fail("blockalign", f"a multiple of {SECTOR} below 4g")
    return 0 if {defaults[i] for i in used} == {align} else align
