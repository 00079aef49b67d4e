# SPDX-License-Identifier: GPL-2.0-only
"""A chunk in a guest: its machine, its script, the files that it reads, and an estimate of its time.

A chunk is one boot: one scheduler, its loads in a fixed order, the drive's module loaded anew before each.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from tailgate.base.errors import UsageError
from tailgate.base.paths import ROOT
from tailgate.guest import machine
from tailgate.guest.kernels import Kernel
from tailgate.guest.qemu import VirtualMachine
from tailgate.load import fiojob
from tailgate.load.loads import Loads
from tailgate.spec import drive as drives
from tailgate.spec.drive import Drive
from tailgate.spec.experiment import MachineSettings
from tailgate.spec.plan import Chunk, Run
from tailgate.spec.scheduler import Scheduler

#: The stock kernel's module of a scheduler. Other schedulers are Tailgate's: kernel/ has a module of the same
#: name.
SCHEDULER_MODULES: Mapping[str, str] = {"kyber": "kyber-iosched", "bfq": "bfq", "mq-deadline": "mq-deadline"}
#: Before a point, the guest writes the file system and its files. For that the time limit allows the size of
#: the file system at this rate, in (undilated) MiB a second.
SET_UP_MIB_S = 50
#: The programs that make and check a file system. Its module has the file system's name.
FILE_SYSTEM_PROGRAMS: Mapping[str, tuple[str, str]] = {
    "ext4": ("mke2fs", "e2fsck"),
    "xfs": ("mkfs.xfs", "xfs_repair"),
    "f2fs": ("mkfs.f2fs", "fsck.f2fs"),
}
SAMPLER = "cat /proc/timer_list /sys/block/vflash0/stat"

# Seconds of one host CPU: start from a snapshot, start and end of fio, one I/O, one KiB of an I/O.
START_S, FIO_S, IO_S, IO_KIB_S = 0.5, 0.5, 2.0e-4, 1.0e-6


@dataclass(frozen=True)
class Attempt:
    """A chunk, and the machine and dilation to measure it with."""

    chunk: Chunk
    machine: MachineSettings
    drive_changes: Mapping[str, int]
    dilation: int


def our_module(scheduler: Scheduler) -> str | None:
    """The name of a scheduler's module, if it is Tailgate's; for k2, of the experimental one if only that
    has a knob.
    """
    if scheduler.name == "none" or scheduler.name in SCHEDULER_MODULES:
        return None
    experimental = scheduler.name == "k2" and not experiment_knobs().isdisjoint(scheduler.knobs)
    return "k2_experiments" if experimental else scheduler.name


@lru_cache
def experiment_knobs() -> frozenset[str]:
    """K2's knobs that k2_experiments.ko has and k2.ko lacks, from their table in sched/."""
    return frozenset(re.findall(r"\bknob\((\w+), \"", (ROOT / "sched/experiments.h").read_text()))


def our_modules(run: Run, path: Path, folder: Path) -> dict[str, bytes]:
    """The modules that a run of the experiment at `path` needs. UsageError where `folder` lacks one."""
    needed = {name for scheduler in run.schedulers if (name := our_module(scheduler))}
    for name in sorted(needed):
        if not (folder / f"{name}.ko").is_file():
            raise UsageError(
                f"{path}: neither Linux nor kernel/ has a scheduler {name}; Linux has "
                f"{', '.join(('none', *SCHEDULER_MODULES))}"
            )
    return {f"{name}.ko": (folder / f"{name}.ko").read_bytes() for name in sorted(needed | {"vflash"})}


class GuestPlan:
    """The machine, script and files of each chunk of a run."""

    def __init__(self, run: Run, loads: Loads, drive: Drive, mode: Literal["icount", "kvm"]) -> None:
        self.run = run
        self.loads = loads
        self.drive = drive
        self.mode = mode

    def attempt(self, chunk: Chunk) -> Attempt:
        """The first attempt at a chunk."""
        spec = self.run.spec
        variant = None if chunk.variant is None else spec.variants[chunk.variant]
        place = variant.machine if variant else spec.machine
        k = 1 if place.dilation == "auto" and self.mode == "kvm" else self.loads.dilation(chunk)
        return Attempt(chunk, place, chunk.sweep.drive | (variant.drive if variant else {}), k)

    def derived_job(self, attempt: Attempt, background_rate: float) -> str:
        """The fio job file of one point."""
        job = self.loads.derive(attempt.chunk, background_rate, attempt.dilation, SAMPLER)
        return fiojob.text(job)

    def guest_script(self, attempt: Attempt) -> str:
        """The shell script that the guest runs."""
        scheduler = attempt.chunk.scheduler.name
        load = f"modprobe {SCHEDULER_MODULES[scheduler]}" if scheduler in SCHEDULER_MODULES else ""
        if ours := our_module(attempt.chunk.scheduler):
            load = f"insmod /lib/modules/extra/{ours}.ko"
        arguments = drives.module_arguments(
            self.drive, dict(attempt.drive_changes), attempt.dilation, attempt.chunk.seed
        )
        reader = self.loads.first(attempt.chunk.sweep).name
        timed = self.timed(attempt.chunk)
        names = {"SCHEDULER": scheduler, "MODULE": load, "READER": reader, "TIMED": timed}
        if mounted := attempt.chunk.sweep.file_system:
            names |= {"FILE_SYSTEM": mounted.type, "FILE_SYSTEM_MIB": str(mounted.mib)}
        points = (["point", point.name, *arguments] for point in attempt.chunk.points)
        return "".join(
            [
                *(f"{name}={shlex.quote(value)}\n" for name, value in names.items()),
                (Path(__file__).parent / "points.sh").read_text(),
                *(f"{shlex.join(words)}\n" for words in points),
            ]
        )

    def timed(self, chunk: Chunk) -> str:
        """The I/O priority of the requests whose time in the scheduler is measured; "" if none are.

        They are measured if the experiment shows that time, and if its only real-time flow has one direction
        and an I/O priority class.
        """
        spec, sweep = self.run.spec, chunk.sweep
        if spec.plot != "medians" or len(spec.real_time(sweep)) != 1 or sweep.op == "readwrite":
            return ""
        job, options = self.loads.jobs[sweep.label], self.loads.first(sweep).options
        level = fiojob.amount(options["prio"].value) if "prio" in options else 0
        kind = fiojob.integer(job, self.loads.first(sweep), "prioclass", 0)
        return str(kind << 13 | (level or 0)) if kind else ""

    def files(self, attempt: Attempt) -> dict[str, bytes]:
        """The files in the guest, by their paths: settings, cgroups, traces, and the job of each point."""
        chunk, k = attempt.chunk, attempt.dilation
        settings = self.loads.settings(chunk, k)
        files = {"/lab/settings": "".join(f"{name} {value}\n" for name, value in settings.items()).encode()}
        if told := self.loads.cgroups(chunk, k):
            files["/lab/cgroups"] = told.encode()
        for name, text in self.loads.derive(chunk, 1.0, k).traces.items():
            files[f"/lab/traces/{name}"] = text.encode()
        for point in chunk.points:
            files[f"/lab/{point.name}.fio"] = self.derived_job(attempt, point.background_rate).encode()
        return files

    def job(self, attempt: Attempt, module_files: Sequence[Path]) -> machine.Job:
        """Everything that the guest gets; `module_files` are Tailgate's modules."""
        scheduler, mounted = attempt.chunk.scheduler.name, attempt.chunk.sweep.file_system
        stock = [SCHEDULER_MODULES[scheduler]] if scheduler in SCHEDULER_MODULES else []
        needed: tuple[str, ...] = ()
        if mounted:
            stock += [mounted.type, "crc32c_generic"]
            needed = FILE_SYSTEM_PROGRAMS[mounted.type]
        point_s = attempt.chunk.duration_s or self.run.mode.limit_s
        point_s += self.loads.lead_s(attempt.chunk.sweep)
        if mounted:
            point_s += mounted.mib / SET_UP_MIB_S
        limit_s = 30 + sum(point_s * attempt.dilation + 5 for _ in attempt.chunk.points)
        return machine.Job(
            script=self.guest_script(attempt),
            files=self.files(attempt),
            modules=stock,
            module_files=module_files,
            programs=("fio", *needed),
            limit_s=round(limit_s),
            # Only this limit detects a deadlock. The estimate is for one host's CPUs; other CPUs may be
            # slower.
            silent_s=round(120 + 8 * self.chunk_s(attempt)),
        )

    def machine(self, attempt: Attempt, kernel: Kernel) -> VirtualMachine:
        """The virtual machine for an attempt."""
        return VirtualMachine(
            kernel=kernel,
            mode=self.mode,
            smp=attempt.machine.smp,
            memory_mib=attempt.machine.memory_mib,
            slice_us=attempt.machine.slice_us,
        )

    # --- what it costs ------------------------------------------------------------------------------------

    def point_s(self, attempt: Attempt, background_rate: float) -> float:
        """Estimate of a point's wall time in seconds of one host CPU, from its number of I/O operations."""
        ios, seconds = self.loads.estimate(attempt.chunk, background_rate)
        interrupts_s = 2.0 * seconds * attempt.dilation if attempt.machine.slice_us else 0.0
        return FIO_S + ios * (IO_S + IO_KIB_S * attempt.chunk.sweep.block_size_kib) + interrupts_s

    def chunk_s(self, attempt: Attempt) -> float:
        """Estimate of a chunk's wall time in seconds of one host CPU, its start included."""
        return START_S + sum(self.point_s(attempt, rate) for rate in attempt.chunk.background_rates)
