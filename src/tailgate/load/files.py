# SPDX-License-Identifier: GPL-2.0-only
"""Places of a job's files on the drive.

No file system is modelled. A name below /dev is the drive. Any other file is a region of the drive; regions
follow each other in the order in which the job names the files.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tailgate.base.errors import UsageError
from tailgate.load.section import SectionReader

#: Files begin at multiples of this many bytes.
ALIGNMENT = 1 << 20
_NO_DRIVES = ("/dev/null", "/dev/zero", "/dev/full")


@dataclass(frozen=True)
class Region:
    """A part of the drive, in bytes."""

    begin: int
    length: int


class Files:
    """The regions of a job's processes. UsageError for files that do not fit the drive."""

    def __init__(self, readers: Sequence[SectionReader], capacity: int) -> None:
        self.capacity = capacity
        lengths: dict[str, int] = {}
        open_: dict[str, SectionReader] = {}
        last: dict[str, SectionReader] = {}
        drive = ""
        for reader in readers:
            name = _name(reader)
            if _is_drive(reader):
                if drive and drive != name:
                    raise reader.fail("filename", f"{drive}, as there is one drive in the simulator")
                drive = name
                continue
            for subjob in range(reader.count("numjobs", 1, least=1, most=4096)):
                key, length = _key(reader, subjob), self._needed(reader, subjob)
                last[key] = reader
                lengths[key] = max(lengths.get(key, 0), length)
                if not length:
                    open_[key] = reader
        self._regions: dict[str, Region] = {}
        filling = [key for key in open_ if not lengths[key]]
        if len(filling) > 1:
            raise _size_missing(open_[filling[1]], "only one file can fill the drive")
        begin = 0
        for key in sorted(lengths, key=lambda key: key in filling):
            length = lengths[key] or capacity - begin
            if length <= 0 or begin + length > capacity:
                raise _does_not_fit(last[key], capacity)
            self._regions[key] = Region(begin, length)
            begin += -(-length // ALIGNMENT) * ALIGNMENT

    def region(self, reader: SectionReader, subjob: int) -> Region:
        """The region that the `subjob`-th process of a section reads and writes."""
        return Region(0, self.capacity) if _is_drive(reader) else self._regions[_key(reader, subjob)]

    def _needed(self, reader: SectionReader, subjob: int) -> int:
        """The least length of a process's file in bytes; 0: all remaining space."""
        for key in ("size", "filesize", "io_size", "offset", "offset_increment"):
            if reader.is_percentage(key):
                raise reader.fail(key, "bytes, as it is of a file; percentages are of a drive (/dev/...)")
        if reader.flag("fill_device"):
            if reader.raw("size"):
                raise reader.fail("fill_device", "no size with it")
            return 0
        size, length = (reader.place(key, self.capacity) for key in ("size", "filesize"))
        if not size and not length:
            if not _name(reader):
                raise _size_missing(reader, "as fio does for a file of its own")
            return 0
        offset = reader.place("offset", self.capacity)
        offset += subjob * reader.place("offset_increment", self.capacity)
        return max(length, offset + size)


def _name(reader: SectionReader) -> str:
    option = reader.raw("filename") or reader.raw("libblkio_path")
    if option is None:
        return ""
    if not option.value or ":" in option.value:
        raise reader.missing(option, "expected one filename=, such as /dev/vflash0")
    return option.value


def _is_drive(reader: SectionReader) -> bool:
    name = _name(reader)
    if name in _NO_DRIVES:
        raise reader.fail("filename", "a drive or a file")
    return name.startswith("/dev/") and not reader.raw("directory")


def _key(reader: SectionReader, subjob: int) -> str:
    """The key of a process's file. Processes without a file name have a file each, as in fio."""
    directory = reader.raw("directory")
    name = _name(reader) or f"{reader.section.name}.{subjob}.0"
    return f"{directory.value if directory else ''}/{name}"


def _size_missing(reader: SectionReader, why: str) -> UsageError:
    return reader.missing(reader.raw("filename"), f"expected a size, {why}")


def _does_not_fit(reader: SectionReader, capacity: int) -> UsageError:
    key = next((key for key in ("size", "filesize") if reader.raw(key)), None)
    expected = f"files that fit the drive's {capacity} bytes; --set capacity_mib=N makes it larger"
    return reader.fail(key, expected) if key else reader.missing(None, f"expected {expected}")
