# SPDX-License-Identifier: GPL-2.0-only
"""Writes a new experiment to start from: a commented TOML file, and a fio job file unless one is given."""

import json
import re
import shutil
from pathlib import Path

import jinja2

from tailgate.base.errors import UsageError
from tailgate.load import fiojob
from tailgate.load.fiojob import JobFile, Section
from tailgate.spec.experiment import SMP_MAX

TOML = Path(__file__).with_name("experiment.toml.jinja")
JOB = Path(__file__).with_name("experiment.fio")
#: MiB/s of `none` under the load of JOB on the drive 970evo; a guess for any other load.
FULL_RATE, GUESS = 565, 500
#: By fio's rw: access and op.
PATTERNS = {
    "read": ("sequential", "read"),
    "write": ("sequential", "write"),
    "trim": ("sequential", "trim"),
    "rw": ("sequential", "readwrite"),
    "readwrite": ("sequential", "readwrite"),
    "randread": ("random", "read"),
    "randwrite": ("random", "write"),
    "randtrim": ("random", "trim"),
    "randrw": ("random", "readwrite"),
}


def write(name: str, job: Path | None, folder: Path) -> list[Path]:
    """Write NAME.toml into a folder, and NAME.fio unless `job` lies there; the experiment and its job file.

    A job file in another folder is copied, with the traces that it replays. UsageError for an invalid job
    file, and for a file that would be overwritten; then nothing is written.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name):
        raise UsageError(f"'{name}' is no name: expected letters, digits, - and _; --out names a folder")
    source = job or JOB
    parsed = fiojob.parse(source, way_out="a value in its place")
    traces = {folder / trace.name: trace for trace in fiojob.traces(parsed)}
    experiment, beside = folder / f"{name}.toml", folder / f"{name}.fio"
    new = [experiment, beside, *traces]
    if job and job.resolve().parent == folder.resolve():
        new, beside = [experiment], job
    for path in new:
        if path.exists():
            raise UsageError(f"{path} is there already: remove it, or choose another name")
    text = toml(name, beside.name, parsed, FULL_RATE if source == JOB else None)
    folder.mkdir(parents=True, exist_ok=True)
    if beside in new:
        for path, trace in traces.items():
            shutil.copyfile(trace, path)
        content = source.read_text(encoding="utf-8")
        beside.write_text(
            content if job else content.partition("\n")[2], encoding="utf-8"
        )  # drop our licence
    experiment.write_text(text, encoding="utf-8")
    return [experiment, beside]


def toml(name: str, file: str, job: JobFile, full_rate: int | None) -> str:
    """The experiment file for a job, whose file will be called `file`.

    Sections with prioclass=1 are real-time flows, the others background; if all have it, all are background,
    the role of what limits and figures are about, and keep their class. UsageError if two flows would have
    the same name, and for more processors than an experiment may have.
    `full_rate` is the background's throughput in MiB/s without a limit, None if not known.
    """
    real_time = [s for s in job.sections if _value(s, "prioclass") == "1"]
    if len(real_time) == len(job.sections):
        real_time = []
    background = [s for s in job.sections if s not in real_time]
    names = _flow_names(job)
    processors = max(1 + cpu for section in job.sections for cpu in _cpus(section))
    if processors > SMP_MAX:
        raise UsageError(
            f"{job.path}: cpus_allowed: expected processors 0 to {SMP_MAX - 1}, got {processors - 1}"
        )
    access, op = PATTERNS.get(_value(background[0], "rw").partition(":")[0], PATTERNS["read"])
    size = _kib(background[0])
    environment = jinja2.Environment(
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined
    )
    return environment.from_string(TOML.read_text(encoding="utf-8")).render(
        name=name,
        title=_quoted(name),
        job=_quoted(file),
        flows=[
            {
                "name": _quoted(names[section.name]),
                "section": _quoted(section.name),
                "role": role,
            }
            for role, sections in (("real-time", real_time), ("background", background))
            for section in sections
        ],
        access=access,
        op=op,
        block_size_kib=size,
        rt_block_size_kib=_kib(real_time[0]) if real_time and _kib(real_time[0]) != size else None,
        full_rate=full_rate,
        iops_max=max(1, (full_rate or GUESS) * 1100 // size),  # with a tenth more for the real-time flows
        guess=GUESS,
        real_time=bool(real_time),
        smp=processors,
    )


def _flow_names(job: JobFile) -> dict[str, str]:
    """The name of each section's flow: letters, digits, - and _, as a key of a TOML file allows."""
    sections: dict[str, str] = {}
    for section in job.sections:
        name = re.sub(r"[^A-Za-z0-9_-]+", "-", section.name)
        if (other := sections.setdefault(name, section.name)) != section.name:
            raise UsageError(
                f"{job.path}:{section.line}: the flows of [{other}] and [{section.name}] would both be "
                f"called {name}; expected names that differ in letters or digits"
            )
    return {section: name for name, section in sections.items()}


def _cpus(section: Section) -> list[int]:
    """The processors that a section names; the first if it names none, or names them otherwise than fio
    does.
    """
    try:
        return fiojob.cpu_set(_value(section, "cpus_allowed"))
    except ValueError:
        return [0]


def _value(section: Section, name: str) -> str:
    """The value of an option in a section; "" if it is not set."""
    option = section.options.get(name)
    return option.value.strip().lower() if option else ""


def _kib(section: Section) -> int:
    """The block size in KiB (of reads, if it differs by direction); fio's default is 4 KiB."""
    return max(1, (fiojob.amount(_value(section, "bs").partition(",")[0]) or 4096) // 1024)


def _quoted(text: str) -> str:
    """A string as TOML has it."""
    return json.dumps(text, ensure_ascii=False)
