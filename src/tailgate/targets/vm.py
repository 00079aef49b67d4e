# SPDX-License-Identifier: GPL-2.0-only
"""The target `vm`: a stock kernel with our modules, the virtual drive, fio, in a virtual machine.

A chunk is one boot: one scheduler, its loads in a fixed order, the drive's module loaded anew before each.
Chunks run side by side, one a host CPU, the longest first; in virtual time that changes no digit. Each
point comes out as it ends.

Where the virtual CPU is too busy for the drive to be what is measured, the chunk is measured again with
everything slower by a factor (time dilation): the drive's latencies, think times, the schedulers' tunable
times; rates divided.
"""

import hashlib
import itertools
import json
import os
import shlex
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

from tailgate.base.errors import UsageError
from tailgate.base.progress import Progress, duration
from tailgate.guest import kvm, machine, programs
from tailgate.guest.kernels import Kernel
from tailgate.load import fiojob
from tailgate.load.loads import LEAD_S, Loads, load_name
from tailgate.runs import measurements, records
from tailgate.runs.folder import complete, digest, set_complete
from tailgate.runs.measurements import read_chunk
from tailgate.spec import drive as drives
from tailgate.spec import experiment as experiments
from tailgate.spec import plan, scheduler
from tailgate.spec.plan import Chunk, Run
from tailgate.targets.protocol import BrokenRunError

DILATION_MAX = 256
#: The stock kernel's module for a scheduler. Others are ours: kernel/ has a module with a scheduler's name.
SCHEDULER_MODULES: Mapping[str, str] = {"kyber": "kyber-iosched", "bfq": "bfq", "mq-deadline": "mq-deadline"}
#: What makes a file system, and what checks it; its module has its own name.
FILE_SYSTEM_PROGRAMS: Mapping[str, tuple[str, str]] = {
    "ext4": ("mke2fs", "e2fsck"),
    "xfs": ("mkfs.xfs", "xfs_repair"),
    "f2fs": ("mkfs.f2fs", "fsck.f2fs"),
}
SAMPLER = "cat /proc/timer_list /sys/block/vflash0/stat"

# Seconds of one host CPU: a start from a snapshot, fio's start and end, an I/O and each KiB of it.
START_S, FIO_S, IO_S, IO_KIB_S = 0.5, 0.5, 2.0e-4, 1.0e-6


@dataclass(frozen=True)
class Attempt:
    """A chunk on a machine with this dilation."""

    chunk: Chunk
    machine: experiments.Machine
    drive_changes: Mapping[str, int]
    dilation: int


def our_module(scheduler: scheduler.Scheduler) -> str | None:
    """The module of a scheduler of ours, of k2 the one with further knobs if one of those is set."""
    if scheduler.name == "none" or scheduler.name in SCHEDULER_MODULES:
        return None
    knobs = scheduler.knobs.items()
    sets_more = any(knob.startswith("ahead_") or value == "placebo" for knob, value in knobs)
    return "k2_experiments" if scheduler.name == "k2" and sets_more else scheduler.name


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


class GuestTarget:
    """Everything that decides a run's digits, and the means to measure it."""

    def __init__(self, run: Run, path: Path, kernel: Kernel, module_folder: Path) -> None:
        """`path` is the experiment file; `module_folder` holds our modules for `kernel`."""
        self.run = run
        self.path = path
        self.kernel = kernel
        #: Read once: a build must not change them halfway.
        self.modules = our_modules(run, path, module_folder)
        self.drive_path, self.drive = drives.load(run.spec.drive)
        self.loads = Loads(run, path, self.drive)
        self.mode: Literal["icount", "kvm"] = "kvm" if kvm.works() else "icount"

    # --- identity -----------------------------------------------------------------------------------------

    @cached_property
    def identity(self) -> dict[str, object]:
        """All that decides the digits; runs with equal identities give equal figures in virtual time."""
        qemu = subprocess.run(
            ["qemu-system-x86_64", "--version"], capture_output=True, text=True, check=True
        ).stdout.splitlines()[0]
        package = Path(__file__).resolve().parents[1]
        here = [Path(__file__), Path(__file__).with_name("points.sh")]
        spec = [package / "spec" / name for name in ("arrivals.py", "cgroups.py", "drive.py")]
        load = [package / "load" / name for name in ("arrivals.py", "fiojob.py", "loads.py")]
        code = [*sorted((package / "guest").rglob("*")), *here, *spec, *load]
        return {
            "experiment": self.run.spec.model_dump(mode="json"),
            "mode": self.run.mode.model_dump(mode="json"),
            "schedulers": [s.label for s in self.run.schedulers],
            "variants": list(self.run.variants),
            "jobs": _digest(*self.loads.files),
            "traces": {
                name: hashlib.sha256(text.encode()).hexdigest() for name, text in self.loads.traces.items()
            },
            "drive": {k: p.value for k, p in self.drive.parameters.items()},
            "modules": {name: hashlib.sha256(data).hexdigest() for name, data in self.modules.items()},
            "kernel": self.kernel.release,
            "qemu": qemu,
            "fio": _digest(Path(shutil.which("fio") or "")),
            "busybox": _digest(Path(shutil.which("busybox") or "")),
            "accelerator": self.mode,
            "programs": {name: _digest(programs.find(name)) for name in self.programs},
            "guest": _digest(*(f for f in code if f.is_file() and "__pycache__" not in f.parts)),
        }

    @property
    def key(self) -> str:
        """Names the run's folder: a hash of its identity."""
        return digest(self.identity)

    @property
    def repeatable(self) -> bool:
        """In virtual time the same input gives the same digits."""
        return self.mode == "icount"

    @property
    def sources(self) -> Mapping[str, bytes]:
        """Our modules, and traces that are replayed."""
        return self.modules | {name: text.encode() for name, text in self.loads.traces.items()}

    @property
    def environment(self) -> Mapping[str, object]:
        """Kernel, modules, and the programs that took part."""
        fio = subprocess.run(["fio", "--version"], capture_output=True, text=True, check=True).stdout.strip()
        return {
            "kernel": self.kernel.release,
            "qemu": self.identity["qemu"],
            "fio": fio.removeprefix("fio-"),
            "modules": self.identity["modules"],
        }

    @property
    def programs(self) -> list[str]:
        """Programs of the host, besides fio, that the loads' file systems need."""
        types = {sweep.file_system.type for sweep in self.run.spec.sweeps if sweep.file_system}
        return [name for type_ in sorted(types) for name in FILE_SYSTEM_PROGRAMS[type_]]

    # --- what a chunk is ----------------------------------------------------------------------------------

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
        points = (["point", f"p{i}", *arguments] for i in range(len(attempt.chunk.background_rates)))
        return "".join(
            [
                *(f"{name}={shlex.quote(value)}\n" for name, value in names.items()),
                (Path(__file__).parent / "points.sh").read_text(),
                *(f"{shlex.join(words)}\n" for words in points),
            ]
        )

    def timed(self, chunk: Chunk) -> str:
        """The I/O priority of the requests whose time in the scheduler is measured; "" if that of none is.

        It is where the experiment shows it, if the first real-time flow is alone in its priority and of one
        direction.
        """
        spec, sweep = self.run.spec, chunk.sweep
        if spec.plot != "medians" or len(spec.real_time(sweep)) != 1 or sweep.op == "readwrite":
            return ""
        job, options = self.loads.jobs[sweep.label], self.loads.first(sweep).options
        level = fiojob.amount(options["prio"].value) if "prio" in options else 0
        kind = fiojob.integer(job, self.loads.first(sweep), "prioclass", 0)
        return str(kind << 13 | (level or 0)) if kind else ""

    # --- what it costs ------------------------------------------------------------------------------------

    def point_s(self, attempt: Attempt, background_rate: float) -> float:
        """Estimate of a point's wall time in seconds of one host CPU, from its number of I/O operations."""
        ios, seconds = self.loads.estimate(attempt.chunk, background_rate)
        interrupts_s = 2.0 * seconds * attempt.dilation if attempt.machine.slice_us else 0.0
        return FIO_S + ios * (IO_S + IO_KIB_S * attempt.chunk.sweep.block_size_kib) + interrupts_s

    def chunk_s(self, attempt: Attempt) -> float:
        """Estimate of a chunk's wall time in seconds of one host CPU, its start included."""
        return START_S + sum(self.point_s(attempt, rate) for rate in attempt.chunk.background_rates)

    # --- measuring ----------------------------------------------------------------------------------------

    def check(self) -> None:
        """Let fio itself read the derived jobs. UsageError with fio's own words."""
        seen: set[str] = set()
        for chunk in plan.chunks(self.run):
            seen |= {self.derived_job(self.attempt(chunk), rate) for rate in chunk.background_rates}
        for text in sorted(seen):
            with tempfile.NamedTemporaryFile("w", suffix=".fio") as file:
                file.write(text)
                file.flush()
                done = subprocess.run(
                    ["fio", "--parse-only", file.name], capture_output=True, text=True, check=False
                )
            if done.returncode:
                words = (done.stderr + done.stdout).strip().splitlines()
                raise UsageError(
                    f"{self.path}: fio does not take its job file: {words[0] if words else 'no reason given'}"
                )

    def announcement(self, folder: Path, jobs: int) -> str:
        """Points, boots, and an estimate of the time they take."""
        attempts = [self.attempt(c) for c in plan.chunks(self.run)]
        left = [a for a in attempts if not complete(folder, a.chunk)]
        costs = [self.chunk_s(a) for a in left]
        wall = max([sum(costs) / jobs, *costs], default=0.0)
        points = sum(len(a.chunk.background_rates) for a in left)
        how = "in virtual time" if self.mode == "icount" else "under KVM, in wall time"
        text = f"{self.run.name}: {points} points in {len(left)} boots of {self.kernel.release}, {how}"
        text += f"; about {duration(wall)}"
        dilated = sorted({a.dilation for a in left if a.dilation > 1})
        if dilated:
            text += f"; time dilated {' or '.join(map(str, dilated))} times"
        if len(left) < len(attempts):
            text += f" ({len(attempts) - len(left)} boots are there already)"
        by_point = [(self.point_s(a, rate), a) for a in left for rate in a.chunk.background_rates]
        cost, slowest = max(by_point, key=lambda pair: pair[0], default=(0.0, None))
        if slowest and cost >= 60:
            text += f"; the slowest point, of {slowest.chunk.name}, alone takes about {duration(cost)}"
        return text

    def measure(self, folder: Path, chunks: Sequence[Chunk], jobs: int, progress: Progress) -> None:
        """Measure those of the chunks that `folder` does not hold yet, `jobs` boots at a time."""
        measure_run(self, folder, chunks, jobs, progress)

    def measure_chunk(self, attempt: Attempt, folder: Path, on_point: Callable[[Attempt, int], None]) -> bool:
        """Measure one chunk into its folder below `folder`; False if `machine.stop_all` ended it.

        BrokenRunError if the guest does not end well.
        """
        place = folder / "chunks" / attempt.chunk.name
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        rates = attempt.chunk.background_rates
        settings = self.loads.settings(attempt.chunk, attempt.dilation)
        files: dict[str, Path | bytes] = {
            "/lab/settings": "".join(f"{k} {v}\n" for k, v in settings.items()).encode()
        }
        if told := self.loads.cgroups(attempt.chunk, attempt.dilation):
            files["/lab/cgroups"] = told.encode()
        for name, text in self.loads.derive(attempt.chunk, 1.0, attempt.dilation).traces.items():
            files[f"/lab/traces/{name}"] = text.encode()
        for i, rate in enumerate(rates):
            (place / f"p{i}.fio").write_text(self.derived_job(attempt, rate))
            files[f"/lab/p{i}.fio"] = place / f"p{i}.fio"
        about = {
            "dilation": attempt.dilation,
            "smp": attempt.machine.smp,
            "kernel": self.kernel.series,
            "mode": self.mode,
            "background_rates": list(rates),
        }
        (place / "chunk.json").write_text(json.dumps(about | {"complete": False}) + "\n")

        def on_record(name: str, content: bytes) -> None:
            (place / name).write_bytes(content)
            if name.endswith(".delays") and (delays := records.parse_delays(content.decode())):
                flow = self.run.spec.real_time(attempt.chunk.sweep)[0]
                told = {flow: {attempt.chunk.sweep.op: {"scheduler": delays}}}
                (place / f"{name.removesuffix('.delays')}.delay.json").write_text(json.dumps(told) + "\n")
            if name.endswith(".fio.json"):
                on_point(attempt, int(name.removeprefix("p").partition(".")[0]))

        scheduler = attempt.chunk.scheduler.name
        stock = [SCHEDULER_MODULES[scheduler]] if scheduler in SCHEDULER_MODULES else []
        needed: tuple[str, ...] = ()
        if mounted := attempt.chunk.sweep.file_system:
            stock += [mounted.type, "crc32c_generic"]
            needed = FILE_SYSTEM_PROGRAMS[mounted.type]
        point_s = attempt.chunk.duration_s or self.run.mode.limit_s
        limit_s = 30 + sum((point_s + LEAD_S) * attempt.dilation + 5 for _ in rates)
        outcome = machine.run(
            machine.Machine(
                kernel=self.kernel,
                mode=self.mode,
                smp=attempt.machine.smp,
                memory_mib=attempt.machine.memory_mib,
                slice_us=attempt.machine.slice_us,
            ),
            machine.Job(
                script=self.guest_script(attempt),
                files=files,
                modules=stock,
                module_files=[folder / "sources" / name for name in self.modules],
                programs=("fio", *needed),
                limit_s=round(limit_s),
                # A lost lock shows only here; three times the estimate, and other guests beside this one.
                wall_s=round(120 + 8 * self.chunk_s(attempt)),
            ),
            place / "guest",
            on_record,
        )
        if outcome.reason == "stopped":
            return False
        if outcome.reason != "ok":
            raise BrokenRunError(
                f"{attempt.chunk.name}: {outcome.reason}; all of the guest's log is in {outcome.log}\n"
                f"{outcome.complaint}"
            )
        about |= {"wall_s": round(outcome.wall_s, 2), "virtual_s": round(outcome.virtual_s, 6)}
        (place / "chunk.json").write_text(json.dumps(about | {"complete": False}) + "\n")
        return True


def _digest(*files: Path) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def measure_run(
    lab: GuestTarget, folder: Path, chunks: Sequence[Chunk], jobs: int, progress: Progress
) -> None:
    """Measure those of the chunks that `folder` does not hold yet, `jobs` at a time, the longest first.

    BrokenRunError as soon as one breaks; what was measured until then stays in the folder.
    """
    stop = threading.Event()
    attempts = [lab.attempt(c) for c in chunks if not complete(folder, c)]
    attempts.sort(key=lab.chunk_s, reverse=True)
    weights = {
        (a.chunk.name, i): lab.point_s(a, rate) + (START_S if i == 0 else 0)
        for a in attempts
        for i, rate in enumerate(a.chunk.background_rates)
    }
    progress.begin(len(weights), sum(weights.values()))

    def on_point(attempt: Attempt, i: int) -> None:
        rate = attempt.chunk.background_rates[i]
        progress.point(
            f"{attempt.chunk.name} at {load_name(rate)}", weights.pop((attempt.chunk.name, i), 0.0)
        )

    def work(attempt: Attempt) -> None:
        while not stop.is_set():
            if not lab.measure_chunk(attempt, folder, on_point):
                return
            idle = min(m.idle for m in read_chunk(folder, attempt.chunk, lab.run))
            automatic = attempt.machine.dilation == "auto" and lab.mode == "icount"
            if not automatic or idle >= measurements.IDLE_REFUSED or attempt.dilation >= DILATION_MAX:
                set_complete(folder, attempt.chunk)
                return
            doubled = replace(attempt, dilation=attempt.dilation * 2)
            progress.note(
                f"{attempt.chunk.name}: the CPU was idle for only {idle:.0%}: the CPU was measured, "
                f"not the drive; again with time dilated {doubled.dilation} times"
            )
            attempt = doubled

    with ThreadPoolExecutor(max_workers=jobs, initializer=_share_out_cpus(lab.mode, jobs)) as pool:
        futures = [pool.submit(work, a) for a in attempts]
        try:
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()
        except BaseException:
            stop.set()
            while not all(f.cancel() or f.done() for f in futures):
                machine.stop_all()
                time.sleep(0.05)
            raise


def _share_out_cpus(mode: str, jobs: int) -> Callable[[], None]:
    """What each worker calls first: it takes one of the host's CPUs, for itself and the machines it starts.

    In virtual time QEMU's main loop adds the idle time to the clock when it finds the virtual CPU halted. On
    another host CPU it may find that before the instructions up to the halt are counted, and the clock is
    some ns ahead from there on (QEMU 10, icount_start_warp_timer; seen in one of 20 boots). On one CPU they
    take turns; that is also a fifth cheaper, as neither has to wake the other across CPUs.
    """
    cpus = sorted(os.sched_getaffinity(0))
    turn = itertools.count()

    def take() -> None:
        if mode == "icount" and jobs <= len(cpus):
            os.sched_setaffinity(0, {cpus[next(turn) % len(cpus)]})  # of this thread; children inherit it

    return take
