# SPDX-License-Identifier: GPL-2.0-only
"""Reads single options of a section of a job file: numbers, times, places. Errors name file and line."""

import re

from tailgate.base.errors import UsageError, one_of
from tailgate.load import fiojob
from tailgate.load.fiojob import JobFile, Option, Section
from tailgate.load.options import (
    ENGINE_FOR_OPTION,
    ENGINES,
    MODELLED,
    NEUTRAL,
    ONLY,
    SYNCHRONOUS,
)

Pair = tuple[int, int]


class SectionReader:
    """The options of one section. UsageError for an option that is neither modelled nor without effect."""

    def __init__(self, job: JobFile, section: Section) -> None:
        self.job = job
        self.section = section
        self.options = section.options
        # The engine is read first, because it decides which options exist.
        self.engine = self._engine()
        for key, option in self.options.items():
            self._check_known(key, option)

    @property
    def synchronous(self) -> bool:
        """Whether the engine has one request at a time."""
        return self.engine in SYNCHRONOUS

    def raw(self, key: str) -> Option | None:
        """The option as it is written."""
        return self.options.get(key)

    @property
    def place_of_section(self) -> Option:
        """A substitute for an option that is not set; its line is the section's."""
        return Option("", self.section.line)

    def error(self, option: Option, text: str) -> UsageError:
        """The error with file and line of an option."""
        return UsageError(f"{self.job.path}:{option.line}: {text}")

    def missing(self, option: Option | None, text: str) -> UsageError:
        """The error for an option that is missing or has to be another one; it names the section."""
        return self.error(option or self.place_of_section, f"[{self.section.name}]: {text}")

    def fail(self, key: str, expected: str) -> UsageError:
        """The error for a value that is not as expected."""
        return self.job.fail(key, self.options[key], expected)

    def flag(self, key: str, default: bool = False) -> bool:
        """A switch: bare, or with 0 or 1."""
        option = self.raw(key)
        if option is None:
            return default
        if option.value not in ("", "0", "1"):
            raise self.fail(key, "0 or 1")
        return option.value != "0"

    def count(self, key: str, default: int, least: int = 0, most: int = 2**63) -> int:
        """A whole number, which may have a suffix."""
        option = self.raw(key)
        if option is None:
            return default
        value = fiojob.amount(option.value)
        if value is None or not least <= value <= most:
            upper = f" to {most}" if most < 2**63 else " or more"
            raise self.fail(key, f"a whole number, {least}{upper}")
        return value

    def time_ns(self, key: str, default: int = 0) -> int:
        """A time."""
        option = self.raw(key)
        return fiojob.time_us(self.job, key, option) * 1000 if option else default

    def both(self, key: str, default: int) -> Pair:
        """An option for reads and writes: one value is for both, an empty one leaves the default."""
        option = self.raw(key)
        if option is None:
            return default, default
        values = fiojob.rates(self.job, key, option)
        if len(values) > 3:
            raise self.fail(key, "at most three values, for read,write,trim")
        read, write = values[0], values[min(1, len(values) - 1)]
        return default if read is None else read, default if write is None else write

    def place(self, key: str, whole: int) -> int:
        """A size or an offset: bytes, or a percentage of the whole."""
        option = self.raw(key)
        if option is None:
            return 0
        if match := re.fullmatch(r"(\d{1,3})%", option.value):
            if int(match[1]) > 100:
                raise self.fail(key, "at most 100%")
            return whole * int(match[1]) // 100
        value = fiojob.amount(option.value)
        if value is None:
            raise self.fail(key, "a whole number of bytes with k, m or g, or a percentage")
        return value

    def is_percentage(self, key: str) -> bool:
        """Whether an option is there, as a percentage."""
        option = self.raw(key)
        return option is not None and option.value.endswith("%")

    def choice(self, key: str, *words: str) -> str:
        """One of some words, of which the first is the default."""
        option = self.raw(key)
        if option and option.value not in words:
            raise self.fail(key, one_of(words))
        return option.value if option else words[0]

    def _engine(self) -> str:
        option = self.raw("ioengine")
        name = option.value if option else "psync"
        if name not in ENGINES:
            names = ", ".join(sorted(ENGINES - {"libblkio"}))
            raise self.fail(
                "ioengine",
                f"one of {names}, or libblkio with libblkio_driver=io_uring, "
                "which use the kernel's block layer",
            )
        if name == "libblkio":
            driver = self.raw("libblkio_driver")
            if driver is None or driver.value != "io_uring":
                raise self.missing(driver, "expected libblkio_driver=io_uring, as others pass the kernel by")
        if name == "vsync" and self.count("iodepth", 1) > 1:
            raise self.fail("iodepth", "1 with vsync, whose joining of requests is not modelled")
        return name

    def _check_known(self, key: str, option: Option) -> None:
        engines = ENGINE_FOR_OPTION.get(key)
        if engines and self.engine not in engines:
            raise self.error(
                option, f"{key}: {self.engine} does not have it; expected {' or '.join(engines)}"
            )
        if key in MODELLED or key in NEUTRAL or engines:
            return
        if key not in ONLY:
            raise self.error(option, f"{key}: not modelled by the simulator; remove it, or use the target vm")
        if option.value not in ONLY[key]:
            expected = " or ".join(v for v in sorted(ONLY[key]) if v)
            raise self.error(option, f"{key}: the simulator models {expected} only, got '{option.value}'")
