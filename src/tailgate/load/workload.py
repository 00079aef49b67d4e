# SPDX-License-Identifier: GPL-2.0-only
"""From a fio job file to the processes that the simulator runs, as fio 3.33 would run them.

Every option of a job either is modelled, or stands in a closed list of those that cannot change a result of
the model, or is an error with file and line: a job that says more than the model knows must not give figures.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tailgate.base.errors import UsageError
from tailgate.load import fiojob
from tailgate.load.fiojob import JobFile, Option, Section
from tailgate.load.options import ALIASES, ASYNCHRONOUS, MODELLED, NEUTRAL, NOT_WITH_TRACE, ONLY, SYNCHRONOUS
from tailgate.load.traces import SECTOR, TracedIo, cached_trace

Distribution = Literal["random", "zipf", "pareto", "normal"]
_DISTRIBUTIONS: Mapping[str, tuple[Distribution, float | None]] = {
    "random": ("random", None),
    "zipf": ("zipf", 1.1),
    "pareto": ("pareto", 0.2),
    "normal": ("normal", 0.0),
}
_PRIORITY_CLASSES = 4  # none, real time, best effort, idle
BEST_EFFORT = 2
#: Of a process that may run on any processor: the next one in turn.
ANY_CPU = 2**32 - 1

BlockSizes = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Process:
    """One process of a job, in the simulator's terms: sim/simulate.hpp says what each field means.

    Times in ns, sizes in bytes; pairs are for reads and writes. `cgroup` is a path, "" the root.
    """

    flow: int = 0
    synchronous: bool = False
    depth: int = 1
    cpu: int = ANY_CPU
    ioprio: int = 0
    share: tuple[int, int] = (100, 0)
    sequential: bool = False
    offset: int = 0
    size: int = 0
    block_sizes: tuple[BlockSizes, BlockSizes] = (((4096, 100),), ((4096, 100),))
    align: int = 0
    distribution: Distribution = "random"
    distribution_parameter: float = 0.0
    exhaustive: bool = False
    rate_bytes: tuple[int, int] = (0, 0)
    rate_ios: tuple[int, int] = (0, 0)
    rate_poisson: bool = False
    think_ns: int = 0
    think_spin_ns: int = 0
    think_blocks: int = 1
    through: bool = False
    start_ns: int = 0
    ramp_ns: int = 0
    runtime_ns: int = 0
    ios_max: int = 0
    bytes_max: int = 0
    ends_all: bool = False
    seed: int = 1
    trace: tuple[TracedIo, ...] = ()
    cgroup: str = ""


def processes(job: JobFile, flows: Sequence[str], capacity: int, seed: int | None = None) -> list[Process]:
    """The processes of a job on a drive of `capacity` bytes, in the order in which fio starts them.

    `flows` names the sections in the order of the results. `seed` replaces the job's randseed. UsageError,
    with file and line, for what is not modelled.
    """
    out: list[Process] = []
    for section in job.sections:
        reader = _Reader(job, section, capacity)
        flow = flows.index(section.name)
        own_seed = seed if seed is not None else reader.count("randseed", 1)
        for subjob in range(reader.count("numjobs", 1, least=1, most=4096)):
            # fio, too, gives each process random numbers of its own from the one randseed.
            out.append(reader.process(flow, subjob, process_seed(own_seed, len(out) + 1)))
    files = {(o.value, o.line) for s in job.sections if (o := s.options.get("filename"))}
    if len({value for value, _ in files}) > 1:
        value, line = max(files, key=lambda f: f[1])
        raise UsageError(
            f"{job.path}:{line}: filename: there is one drive in the simulator, not also {value}"
        )
    return out


def process_seed(seed: int, number: int) -> int:
    """The seed of a job's `number`-th process, from 1: 64 bits unlike those of its neighbours."""
    return int.from_bytes(hashlib.blake2b(f"{seed} {number}".encode(), digest_size=8).digest(), "little")


class _Reader:
    """Reads the options of one section."""

    def __init__(self, job: JobFile, section: Section, capacity: int) -> None:
        self.job = job
        self.section = section
        self.capacity = capacity
        self.options: dict[str, tuple[str, Option]] = {}
        for key, option in section.options.items():
            canonical = ALIASES.get(key, key)
            self._check_known(key, canonical, option)
            self.options.pop(canonical, None)  # the later one of two names counts
            self.options[canonical] = (key, option)
        self._check_consistent()
        self.traces = self._traces()

    def _check_known(self, key: str, canonical: str, option: Option) -> None:
        if canonical in MODELLED or key in NEUTRAL:
            return
        if key not in ONLY:
            raise self._error(
                option, f"{key}: not modelled by the simulator; remove it, or use the target vm"
            )
        if option.value not in ONLY[key]:
            expected = " or ".join(v for v in sorted(ONLY[key]) if v)
            raise self._error(option, f"{key}: the simulator models {expected} only, got '{option.value}'")

    def _check_consistent(self) -> None:
        place = Option("", self.section.line)
        direct = self._raw("direct")
        if not self.flag("direct"):
            raise self._error(
                direct or place, f"[{self.section.name}]: expected direct=1, as buffered I/O is not modelled"
            )
        name = self._raw("filename")
        if not name or not name.value or ":" in name.value:
            raise self._error(
                name or place, f"[{self.section.name}]: expected one filename=, such as /dev/vflash0"
            )
        if (rate := self._raw("rate")) and self._raw("rate_iops"):
            raise self._error(rate, "rate: expected either rate or rate_iops, as in fio")
        if self.flag("time_based"):
            timed = self._raw("time_based") or place
            if not self.time_ns("runtime"):
                raise self._error(timed, "time_based: expected a runtime with it")
            if self._raw("number_ios"):
                raise self._error(
                    timed, "time_based: fio ignores number_ios with it; expected one of the two"
                )
        if self._raw("read_iolog"):
            for key in NOT_WITH_TRACE:
                if found := self._raw(key):
                    raise self._error(found, f"{key}: not modelled together with read_iolog; remove it")

    # --- one option ---------------------------------------------------------------------------------------

    def _raw(self, key: str) -> Option | None:
        found = self.options.get(key)
        return found[1] if found else None

    def _error(self, option: Option, text: str) -> UsageError:
        return UsageError(f"{self.job.path}:{option.line}: {text}")

    def _fail(self, key: str, expected: str) -> UsageError:
        name, option = self.options[key]
        return self.job.fail(name, option, expected)

    def flag(self, key: str) -> bool:
        """A switch: bare, or with 0 or 1."""
        option = self._raw(key)
        if option is None:
            return False
        if option.value not in ("", "0", "1"):
            raise self._fail(key, "0 or 1")
        return option.value != "0"

    def count(self, key: str, default: int, least: int = 0, most: int = 2**63) -> int:
        """A whole number, which may have a suffix."""
        option = self._raw(key)
        if option is None:
            return default
        value = fiojob.amount(option.value)
        if value is None or not least <= value <= most:
            upper = f" to {most}" if most < 2**63 else " or more"
            raise self._fail(key, f"a whole number, {least}{upper}")
        return value

    def time_ns(self, key: str) -> int:
        """A time."""
        option = self._raw(key)
        return fiojob.time_us(self.job, self.options[key][0], option) * 1000 if option else 0

    def both(self, key: str, default: int) -> tuple[int, int]:
        """An option for reads and writes: one value is for both, an empty one leaves the default."""
        option = self._raw(key)
        if option is None:
            return default, default
        values = fiojob.rates(self.job, self.options[key][0], option)
        if len(values) > 3:
            raise self._fail(key, "at most three values, for read,write,trim")
        read, write = values[0], values[min(1, len(values) - 1)]
        return default if read is None else read, default if write is None else write

    def place(self, key: str) -> int:
        """A size or an offset: bytes, or a percentage of the drive."""
        option = self._raw(key)
        if option is None:
            return 0
        if match := re.fullmatch(r"(\d{1,3})%", option.value):
            if int(match[1]) > 100:
                raise self._fail(key, "at most 100%")
            return self.capacity * int(match[1]) // 100
        value = fiojob.amount(option.value)
        if value is None:
            raise self._fail(key, "a whole number of bytes with k, m or g, or a percentage")
        return value

    # --- groups of options --------------------------------------------------------------------------------

    def _pattern(self) -> tuple[tuple[int, int], bool]:
        """Shares of reads and writes in percent, and whether the order is sequential."""
        option = self._raw("rw")
        kinds: Mapping[str, tuple[tuple[int, int] | None, bool]] = {
            "read": ((100, 0), True),
            "write": ((0, 100), True),
            "randread": ((100, 0), False),
            "randwrite": ((0, 100), False),
            "rw": (None, True),
            "readwrite": (None, True),
            "randrw": (None, False),
        }
        value = option.value if option else "read"
        if value not in kinds:
            raise self._fail("rw", "read, write, randread, randwrite, rw or randrw")
        share, sequential = kinds[value]
        if share is not None:
            return share, sequential
        # Of two that contradict each other the later one counts.
        read = 50
        for key in self.options:
            if key == "rwmixread":
                read = self.count(key, 50, most=100)
            elif key == "rwmixwrite":
                read = 100 - self.count(key, 50, most=100)
        return (read, 100 - read), sequential

    def _block_sizes(self) -> tuple[BlockSizes, BlockSizes]:
        if self._raw("bssplit"):
            return self._split_sizes()
        read, write = self.both("bs", 4096)
        for size in (read, write):
            if self._raw("bs"):
                self._check_size("bs", size)
        return ((read, 100),), ((write, 100),)

    def _check_size(self, key: str, size: int) -> None:
        if not size or size % SECTOR or size >= 2**32:
            raise self._fail(key, f"a multiple of {SECTOR} below 4g, as direct I/O needs")

    def _split_sizes(self) -> tuple[BlockSizes, BlockSizes]:
        """bssplit=size/percent:size/percent, for reads and after a comma for writes.

        Sizes without a percentage share what the others leave.
        """
        _, option = self.options["bssplit"]
        expected = "sizes with percentages that add up to 100, such as 4k/90:64k/10"
        parts = [self._one_split(part, expected) for part in option.value.split(",")]
        if len(parts) > 3:
            raise self._fail("bssplit", expected)
        return parts[0], parts[min(1, len(parts) - 1)]

    def _one_split(self, text: str, expected: str) -> BlockSizes:
        found: list[tuple[int, int | None]] = []
        for word in text.split(":"):
            size, _, percent = word.partition("/")
            value = fiojob.amount(size)
            if value is None or (percent and not percent.strip().isdecimal()):
                raise self._fail("bssplit", expected)
            self._check_size("bssplit", value)
            found.append((value, int(percent) if percent else None))
        given = sum(p for _, p in found if p is not None)
        open_ = sum(p is None for _, p in found)
        each = (100 - given) // open_ if open_ and given <= 100 else 0
        sizes = tuple((size, each if p is None else p) for size, p in found)
        if sum(p for _, p in sizes) != 100:
            raise self._fail("bssplit", expected)
        return tuple((size, p) for size, p in sizes if p)

    def _distribution(self) -> tuple[Distribution, float]:
        option = self._raw("random_distribution")
        name, _, parameter = option.value.partition(":") if option else ("random", "", "")
        expected = "random, zipf:theta, pareto:power or normal:deviation"
        if name not in _DISTRIBUTIONS:
            raise self._fail("random_distribution", expected)
        kind, default = _DISTRIBUTIONS[name]
        if not parameter:
            return kind, default or 0.0
        if default is None or not re.fullmatch(r"\d+(\.\d+)?", parameter):
            raise self._fail("random_distribution", expected)
        value = float(parameter)
        # fio's own limits (lib/zipf.c, options.c).
        if (
            (kind == "zipf" and (value == 1.0 or value == 0.0))
            or (kind == "pareto" and not 0 < value < 1)
            or (kind == "normal" and value > 100)
        ):
            raise self._fail("random_distribution", "zipf other than 0 and 1, pareto in 0..1, normal to 100")
        return kind, value

    def _engine(self) -> bool:
        """Whether the engine is a synchronous one."""
        option = self._raw("ioengine")
        name = option.value if option else "psync"
        if name not in SYNCHRONOUS | ASYNCHRONOUS:
            raise self._fail("ioengine", "one of " + ", ".join(sorted(SYNCHRONOUS | ASYNCHRONOUS)))
        if name == "vsync" and self.count("iodepth", 1) > 1:
            raise self._fail("iodepth", "1 with vsync, whose joining of requests is not modelled")
        return name in SYNCHRONOUS

    def _cpu(self, subjob: int) -> int:
        """Of cpus_allowed, as fio writes a set: the processes of a section have them in turn."""
        option = self._raw("cpus_allowed")
        if option is None:
            return ANY_CPU
        cpus: list[int] = []
        for part in option.value.split(","):
            found = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
            if not found or int(found[2] or found[1]) < int(found[1]):
                raise self._fail("cpus_allowed", "processors such as 0,2 or 8-31")
            cpus += range(int(found[1]), int(found[2] or found[1]) + 1)
        return cpus[subjob % len(cpus)]

    def _ioprio(self) -> int:
        """The kernel's: class << 13 | level. fio takes a level without a class for best effort."""
        level = self.count("prio", 0, most=7)
        default = BEST_EFFORT if self._raw("prio") else 0
        kind = self.count("prioclass", default, most=_PRIORITY_CLASSES - 1) or default
        return kind << 13 | level

    def _part(self, subjob: int, least: int) -> tuple[int, int, int]:
        """What a process uses of the drive: offset, size, and how much of it until it ends, in bytes.

        fio brings percentages to whole blocks, offsets upwards.
        """
        offset = self.place("offset") + subjob * self.place("offset_increment")
        if self._is_percentage("offset"):
            offset = -(-offset // least) * least
        for key in ("filesize", "offset_increment", "offset"):
            if self._raw(key) and (self.place(key) if key == "filesize" else offset) > self.capacity - least:
                raise self._fail(key, f"a place within the drive's {self.capacity} bytes")
        left = (self.place("filesize") or self.capacity) - offset
        size = self.place("size") if self._raw("size") else left
        if self._is_percentage("size"):
            size -= size % least
        if not least <= size <= left:
            key = "size" if self._raw("size") else "filesize"
            raise self._fail(key, f"at least one block, and no more than the {left} bytes after the offset")
        return offset, left if self._raw("filesize") else size, size

    def _is_percentage(self, key: str) -> bool:
        option = self._raw(key)
        return option is not None and option.value.endswith("%")

    def _sync(self) -> bool:
        option = self._raw("sync")
        if option and option.value not in ("0", "none", "1", "sync", "dsync"):
            raise self._fail("sync", "none, sync or dsync")
        return option is not None and option.value not in ("0", "none")

    def process(self, flow: int, subjob: int, seed: int) -> Process:
        """The `subjob`-th (from 0) of the section's processes."""
        trace = self.traces[subjob % len(self.traces)] if self.traces else ()
        synchronous = self._engine()
        depth = self.count("iodepth", 1, least=1, most=65535)
        share, sequential = self._pattern()
        sizes = self._block_sizes()
        used = [s for part, s in zip(share, sizes, strict=True) if part]
        least = min(size for part in used for size, _ in part)
        offset, size, ends = self._part(subjob, least)
        distribution, parameter = self._distribution()
        align = self._align([min(s for s, _ in part) for part in used]) if not sequential else 0
        once = not (self.flag("norandommap") or sequential or align or trace)
        exhaustive = once and distribution == "random"
        if exhaustive and len({s for part in used for s, _ in part}) > 1:
            place = self._raw("bssplit") or self._raw("bs") or Option("", self.section.line)
            raise self._error(
                place,
                f"[{self.section.name}]: expected norandommap: blocks of several sizes, "
                "each once a pass, are not modelled",
            )
        think = self.time_ns("thinktime")
        endless = self.flag("time_based") or trace
        cgroup = self._raw("cgroup")
        return Process(
            flow=flow,
            synchronous=synchronous,
            depth=1 if synchronous else depth,
            cpu=self._cpu(subjob),
            ioprio=self._ioprio(),
            share=share,
            sequential=sequential,
            offset=offset,
            size=size,
            block_sizes=sizes,
            align=align,
            distribution=distribution,
            distribution_parameter=parameter,
            exhaustive=exhaustive,
            rate_bytes=self.both("rate", 0),
            rate_ios=self.both("rate_iops", 0),
            rate_poisson=self._choice("rate_process", "linear", "poisson"),
            think_ns=think,
            think_spin_ns=min(think, self.time_ns("thinktime_spin")),
            think_blocks=self.count("thinktime_blocks", 1, least=1, most=2**32 - 1),
            through=self._sync(),
            start_ns=self.time_ns("startdelay"),
            ramp_ns=self.time_ns("ramp_time"),
            runtime_ns=self.time_ns("runtime"),
            ios_max=self.count("number_ios", 0),
            bytes_max=0 if endless else self.place("io_size") or ends,
            ends_all=self.flag("exitall"),
            seed=seed,
            trace=trace,
            cgroup=cgroup.value.strip("/") if cgroup else "",
        )

    def _choice(self, key: str, first: str, second: str) -> bool:
        """Whether an option of two values has the second; without it, it has the first."""
        option = self._raw(key)
        if option and option.value not in (first, second):
            raise self._fail(key, f"{first} or {second}")
        return option is not None and option.value == second

    def _align(self, defaults: Sequence[int]) -> int:
        """blockalign, 0 where it is what it would be anyway."""
        if not self._raw("blockalign"):
            return 0
        given = self.both("blockalign", 0)
        chosen = {g for g, part in zip(given, self._pattern()[0], strict=True) if part}
        if len(chosen) > 1:
            raise self._fail("blockalign", "one value for reads and writes")
        align = chosen.pop()
        if align % SECTOR or align >= 2**32:
            raise self._fail("blockalign", f"a multiple of {SECTOR} below 4g")
        return 0 if set(defaults) == {align} else align

    # --- read_iolog ---------------------------------------------------------------------------------------

    def _traces(self) -> list[tuple[TracedIo, ...]]:
        """What each process of the section replays, in turn."""
        option = self._raw("read_iolog")
        if option is None:
            return []
        found = []
        for name in option.value.split(":"):
            path = self.job.path.parent / name
            try:
                text = self.job.traces.get(name) or path.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as e:
                raise self._fail("read_iolog", f"a readable trace beside the job file ({e})") from e
            found.append(cached_trace(path, text, self.capacity))
        return found
