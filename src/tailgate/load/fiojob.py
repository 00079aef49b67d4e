# SPDX-License-Identifier: GPL-2.0-only
"""fio job files: reads them with their line numbers, and derives the job of one point.

The input has fio's own syntax (sections, [global] inheritance, comments, units). The output is a job file
with every inherited option written out, so that a recorded job is complete by itself.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tailgate.base.errors import UsageError
from tailgate.load.options import ALIASES

#: Options that are times, with the unit in microseconds of a bare number (fio 3.33, `fio --cmdhelp=all`).
TIMES_US: Mapping[str, int] = {
    "thinktime": 1,
    "thinktime_spin": 1,
    "thinktime_iotime": 1_000_000,
    "runtime": 1_000_000,
    "ramp_time": 1_000_000,
    "startdelay": 1_000_000,
    "max_latency": 1,
    "latency_target": 1,
    "latency_window": 1,
    "rate_cycle": 1_000,
}
#: Options that are rates: of bytes, and of I/O operations.
RATES: frozenset[str] = frozenset({"rate", "rate_min", "rate_iops", "rate_iops_min"})
#: Options that the lab sets for each point, with the reason. A value in a job file would be overruled.
RESERVED: Mapping[str, str] = {
    "number_ios": "the lab sets it from the experiment's rt_samples",
    "exitall": "the lab sets it, so that a point ends with the real-time flow",
    "exit_what": "the lab ends all flows of a point",
    "stonewall": "the flows of a point run side by side",
    "wait_for": "the flows of a point run side by side",
    "flow_sleep": "the lab cannot make it longer with all other times",
    "time_based": "the lab ends a point by its samples (fio ignores number_ios with time_based)",
    "randseed": "the lab sets it from the experiment's seeds",
    "io_size": "the lab sets it, so that the background lasts",
    "exec_prerun": "the lab samples the machine there",
    "exec_postrun": "the lab samples the machine there",
}
#: Options that a real-time section must not set.
NOT_REAL_TIME: Mapping[str, str] = {
    "startdelay": "none in a real-time section, as the lab lets these begin after the background",
    "loops": "none in a real-time section, as the lab ends it after the experiment's rt_samples",
}
_UNITS_US = {"": None, "us": 1, "usec": 1, "ms": 1_000, "msec": 1_000, "s": 1_000_000, "sec": 1_000_000}
_UNITS_US |= {"m": 60_000_000, "min": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
# With fio's default kb_base of 1024, k and ki are both 1024; only kib is 1000 (tried with fio 3.33).
_POWERS = {letter: power for power, letter in enumerate("kmgtp", 1)}


@dataclass(frozen=True)
class Option:
    """One option of a section: its value as written ("" for a bare flag) and the line it stands on."""

    value: str
    line: int


@dataclass(frozen=True)
class Section:
    """A section with everything that it inherits from [global], in order, by the options' first names."""

    name: str
    line: int
    options: Mapping[str, Option]


@dataclass(frozen=True)
class JobFile:
    """A job file: its sections in order, [global] already merged into each.

    `traces` are the traces that it replays and that do not lie beside it, by name.
    """

    path: Path
    sections: tuple[Section, ...]
    traces: Mapping[str, str] = field(default_factory=dict)

    def section(self, name: str, key: str) -> Section:
        """The section of this name. UsageError names `key`, the experiment's key that asks for it."""
        for section in self.sections:
            if section.name == name:
                return section
        names = ", ".join(f"[{s.name}]" for s in self.sections)
        raise UsageError(f"{self.path}: {key} names [{name}], but the sections are {names}")

    def fail(self, option: str, at: Option, expected: str) -> UsageError:
        """The error for an option whose value fio would not accept."""
        return UsageError(f"{self.path}:{at.line}: {option}: expected {expected}, got '{at.value}'")


def cpu_set(text: str) -> list[int]:
    """The processors of cpus_allowed, in order: 0,2 or 8-31. ValueError for any other text."""
    cpus: list[int] = []
    for part in text.split(","):
        found = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        if not found or int(found[2] or found[1]) < int(found[1]):
            raise ValueError(text)
        cpus += range(int(found[1]), int(found[2] or found[1]) + 1)
    return cpus


def parse(
    path: Path,
    variables: Mapping[str, str] | None = None,
    derived: bool = False,
    way_out: str = "{} in the experiment's variables",
) -> JobFile:
    """Read a job file. UsageError names file and line.

    Options have their first names (ALIASES). `${NAME}` stands for one of the variables; fio takes them from
    its environment. `way_out` says where a user gives {}, the name of a variable without a value. The file
    must not set what the lab decides, unless it is `derived` or run unchanged.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise UsageError(f"{path}: expected a readable fio job file ({e})") from e
    common: dict[str, Option] = {}
    sections: list[tuple[str, int, dict[str, Option]]] = []
    current: dict[str, Option] | None = None
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        if line[0] == "[":
            name = line[1:-1].strip()
            if line[-1] != "]" or not name:
                raise UsageError(f"{path}:{number}: expected a section such as [reader], got '{line}'")
            if name == "global":
                current = common
                continue
            if any(name == s[0] for s in sections):
                raise UsageError(f"{path}:{number}: section [{name}] stands twice; expected each once")
            current = dict(common)
            sections.append((name, number, current))
            continue
        # As in fio, the rest is a comment wherever it begins in an option.
        line = re.split("[;#]", line, maxsplit=1)[0].rstrip()
        line = _expand(line, variables or {}, f"{path}:{number}", way_out)
        name, _, value = (part.strip() for part in line.partition("="))
        key = ALIASES.get(name, name)
        if current is None:
            raise UsageError(f"{path}:{number}: expected a section such as [global] before '{key}'")
        if key == "include" or line.startswith("include "):
            raise UsageError(f"{path}:{number}: include is not followed; expected the options themselves")
        if not re.fullmatch(r"[A-Za-z0-9_]+", key):
            raise UsageError(f"{path}:{number}: expected option=value, got '{line}'")
        if key in RESERVED and not derived:
            raise UsageError(f"{path}:{number}: {name} must not stand here: {RESERVED[key]}")
        current.pop(key, None)  # an option that is set again moves to the end, because the later value counts
        current[key] = Option(value, number)
    if not sections:
        raise UsageError(f"{path}: expected at least one section besides [global]")
    job = JobFile(path, tuple(Section(name, line, options) for name, line, options in sections))
    for section in job.sections:
        for key, option in section.options.items():
            if key in TIMES_US:
                time_us(job, key, option)
            elif key in RATES:
                rates(job, key, option)
    return job


def _rate(job: JobFile, section: Section, bytes_s: float) -> str:
    """The `rate` of a process. fio applies one number to each direction, so a mix gets two numbers."""
    pattern = section.options.get("rw")
    if not pattern or pattern.value.partition(":")[0] not in ("rw", "readwrite", "randrw"):
        return str(max(1, round(bytes_s)))
    reads = read_percent(job, section)
    return ",".join(str(max(1, round(bytes_s * share / 100))) for share in (reads, 100 - reads))


def _expand(line: str, variables: Mapping[str, str], where: str, way_out: str) -> str:
    def value(match: re.Match[str]) -> str:
        if match[1] not in variables:
            raise UsageError(f"{where}: {match[0]} has no value; expected {way_out.format(match[1])}")
        return variables[match[1]]

    return re.sub(r"\$\{(\w+)\}", value, line)


def time_us(job: JobFile, key: str, option: Option) -> int:
    """A time option in microseconds. fio itself takes "2 bananas" for 2, so this is stricter."""
    match = re.fullmatch(r"(\d+)\s*([a-z]*)", option.value.lower())
    if not match or match[2] not in _UNITS_US:
        raise job.fail(key, option, "a whole number with us, ms, s, m, h or d")
    return int(match[1]) * (_UNITS_US[match[2]] or TIMES_US[key])


def rates(job: JobFile, key: str, option: Option) -> list[int | None]:
    """An option in bytes, bytes/s or I/O/s for reads, writes, trims; None for a direction without a value."""
    parsed: list[int | None] = []
    for part in option.value.split(","):
        value = amount(part)
        if value is None and part.strip():
            raise job.fail(key, option, "a whole number with k, m or g, or such numbers for read,write,trim")
        parsed.append(value)
    return parsed


def amount(text: str) -> int | None:
    """A whole number with fio's suffixes, such as 64k; None for any other text."""
    match = re.fullmatch(r"(\d+)\s*(?:([kmgtp])(i?b?))?", text.strip().lower())
    if not match:
        return None
    base = 1000 if match[3] == "ib" else 1024
    return int(match[1]) * (base ** _POWERS[match[2]] if match[2] else 1)


def integer(job: JobFile, section: Section, key: str, default: int, least: int = 1) -> int:
    """A plain count such as numjobs or iodepth."""
    option = section.options.get(key)
    if option is None:
        return default
    if not option.value.isdecimal() or int(option.value) < least:
        raise job.fail(key, option, f"a count of at least {least}")
    return int(option.value)


def read_percent(job: JobFile, section: Section) -> int:
    """The share of reads in a mix. As in fio, the later one of rwmixread and rwmixwrite counts."""
    reads = 50
    for key, option in section.options.items():
        if key in ("rwmixread", "rwmixwrite"):
            share = amount(option.value)
            if share is None or share > 100:
                raise job.fail(key, option, "a whole number, 0 to 100")
            reads = share if key == "rwmixread" else 100 - share
    return reads


def traces(job: JobFile) -> dict[Path, str]:
    """The traces beside the job file that a job replays, and their texts. UsageError for any other file."""
    out = {}
    for section in job.sections:
        if option := section.options.get("read_iolog"):
            for name in option.value.split(":"):
                path = job.path.parent / name
                if "/" in name or not path.is_file():
                    raise job.fail("read_iolog", option, "the name of a file beside the job file")
                try:
                    out[path] = path.read_text(encoding="utf-8")
                except (OSError, UnicodeDecodeError) as e:
                    raise job.fail("read_iolog", option, f"a readable trace, as text ({e})") from e
    return out


def dilate_trace(trace: str, dilation: int) -> str:
    """A trace of fio's version 3 with its times multiplied by `dilation`."""
    return re.sub(r"^\d+(?= )", lambda m: str(int(m[0]) * dilation), trace, flags=re.MULTILINE)


#: Options that are removed from a point's job: the lab ends a point, and fio would merge the figures of
#: sections, or of reads and writes, into one.
LEFT_OUT = ("runtime", "group_reporting", "unified_rw_reporting")


@dataclass(frozen=True)
class PointLoad:
    """The changes that one point makes to the job: times in undilated s, rate in MiB/s over all processes."""

    real_time: tuple[str, ...]  # sections; the first one's samples, if any, end the point
    background: tuple[str, ...]
    background_mib_s: float | None  # None: no limit; 0: no background at all
    rt_samples: int
    #: Duration of the point without rt_samples; upper limit of its duration with them.
    limit_s: float
    seed: int
    dilation: int
    #: The background runs alone for this time, so that the drive is in its steady state at the first sample.
    lead_s: float
    #: Command that runs when the first request starts and when the last one has ended; "": none.
    sampler: str = ""
    #: By section, the folder of the cgroup that its processes enter before their first request; a path that
    #: does not begin with / becomes fio's cgroup=, which the simulator reads.
    cgroups: Mapping[str, str] = field(default_factory=dict)


def derive(job: JobFile, load: PointLoad) -> JobFile:
    """The job of one point. Its options keep their lines; those of the lab have the line of their section.

    Times are multiplied by `dilation`, and rates divided by it. With `rt_samples`, the first real-time
    section ends the job after its samples. Sections that belong to no flow are removed. The lead is a
    startdelay of the real-time sections, and a ramp_time of the background only, because fio 3.33 does not
    exclude ramp_time from the figures of a job with thinktime. UsageError if threads would have to enter a
    cgroup.
    """
    k = load.dilation
    lead_us = round(load.lead_s * 1e6) * k
    sections = []
    processes = sum(integer(job, s, "numjobs", 1) for s in job.sections if s.name in load.background)
    for section in job.sections:
        is_background = section.name in load.background
        is_real_time = section.name in load.real_time
        if not (is_background or is_real_time) or (is_background and load.background_mib_s == 0):
            continue
        options: dict[str, str] = {}
        for key, option in section.options.items():
            if key in LEFT_OUT:
                continue
            if key in TIMES_US:
                options[key] = f"{time_us(job, key, option) * k}us"
            elif key in RATES:
                # 0 means no limit, and is kept
                scaled = (None if r is None else r and max(1, round(r / k)) for r in rates(job, key, option))
                options[key] = ",".join("" if r is None else str(r) for r in scaled)
            else:
                options[key] = option.value
        options["randseed"] = str(load.seed)
        options["io_size"] = "100t"
        # The limit applies after the lead: fio's runtime includes neither startdelay nor ramp_time.
        options["runtime"] = f"{math.ceil(load.limit_s * 1e6) * k}us"
        if is_background:
            options["ramp_time"] = f"{lead_us}us"
            if load.background_mib_s is not None:
                options["rate"] = _rate(job, section, load.background_mib_s * 2**20 / processes / k)
        if is_real_time:
            for key, expected in NOT_REAL_TIME.items():
                if key in section.options:
                    raise job.fail(key, section.options[key], expected)
            options["startdelay"] = f"{lead_us}us"
        if load.rt_samples and is_real_time and section.name == load.real_time[0]:
            options["number_ios"] = str(load.rt_samples)
            options["exitall"] = "1"
        if load.sampler and section.name == (load.real_time or load.background)[0]:
            for when in ("exec_prerun", "exec_postrun"):
                options[when] = load.sampler
                if integer(job, section, "numjobs", 1) > 1:
                    # Only one process may write the file. The others succeed at once: fio stops on failure.
                    options[when] = f"! mkdir {when} 2>/dev/null || {load.sampler}"
        folder = load.cgroups.get(section.name, "")
        if folder and not folder.startswith("/"):
            options["cgroup"] = folder
        elif folder:
            if "thread" in section.options:
                raise job.fail("thread", section.options["thread"], "processes, as these enter a cgroup")
            # fio starts a shell in each process, and redirects the output of the last command.
            enter = f"echo $PPID > {folder}/cgroup.procs || exit 1 && {options.get('exec_prerun', 'true')}"
            options["exec_prerun"] = enter
        lines = {key: option.line for key, option in section.options.items()}
        placed = {key: Option(value, lines.get(key, section.line)) for key, value in options.items()}
        sections.append(Section(section.name, section.line, placed))
    return replace(job, sections=tuple(sections))


def text(job: JobFile) -> str:
    """A derived job as fio reads it."""
    parts = ["; Derived by tailgate for one point: times already dilated, rates already divided.\n"]
    for section in job.sections:
        lines = (f"{key}={o.value}\n" if o.value else f"{key}\n" for key, o in section.options.items())
        parts.append(f"[{section.name}]\n{''.join(lines)}")
    return "\n".join(parts)
