# SPDX-License-Identifier: GPL-2.0-only
"""A virtual machine that boots a kernel, runs one job, and sends its records while it runs.

In mode `icount` time is virtual: one instruction takes one nanosecond, idle time is skipped, and the host's
clock is never read. Equal input (kernel, job, options, QEMU) gives equal figures, however busy the host is.
Modes `tcg` (emulation by the host's clock) and `kvm` are faster and not repeatable.
"""

import contextlib
import re
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tailgate.base.errors import UsageError
from tailgate.base.paths import ROOT
from tailgate.guest import cpio, initramfs, qemu, scratch, snapshot
from tailgate.guest.channel import End, Mark, Message, Reader, Record, TimeOut
from tailgate.guest.qemu import VirtualMachine

Reason = Literal[
    "ok", "job failed", "kernel warning", "virtual timeout", "silent for too long", "kernel died", "stopped"
]

POLL_S = 0.02
#: A guest that gets no CPU time may be silent for `silent_s` times IDLE.
IDLE = 10

#: The kernel's messages about errors, recognised with their time stamps. Reports of slub begin with "BUG name
#: (", most of lockdep with "WARNING:", some with "INFO:".
COMPLAINT = re.compile(
    r"^\[ *\d+\.\d+\].*(WARNING:|BUG:|BUG \S+ \(|kernel BUG at|Oops|INFO: (?!lockdep is turned off)"
    r"|Call Trace|UBSAN|KASAN|ODEBUG|DEBUG_LOCKS|Kernel panic|possible recursive|possible circular"
    r"|possible deadlock|suspicious RCU|inconsistent lock|locking correctness validator"
    r"|sleeping function|scheduling while atomic|soft lockup|general protection|unable to handle"
    r"|refcount_t:|list_(add|del) corruption|nobody cared)",
    re.MULTILINE,
)
#: A report of KCSAN, without its last two lines.
RACE = re.compile(
    r"^\[[^\n]*BUG: KCSAN: .*?Reported by Kernel Concurrency Sanitizer", re.MULTILINE | re.DOTALL
)
#: Prefixes of functions whose accesses belong to the kernel, even if a module called them.
KERNELS_OWN = ("blk_", "bio_", "wq_worker_")
COMPLAINT_LINES = 15
OUR_MODULES = frozenset(file.stem for file in (ROOT / "kernel").glob("*.c"))


@dataclass(frozen=True)
class Job:
    """The input of a virtual machine.

    `script` is for busybox's sh; its exit status is the job's. Besides busybox it can use `emit NAME FILE`,
    `mark NAME`, `idle_sample` and `fail MESSAGE`. `modules` are names of stock modules, which modprobe finds
    with those that they need; `module_files` are Tailgate's, in /lib/modules/extra for insmod. `programs` are
    programs of the host, with their libraries. `files` maps paths in the guest to contents. Mounted are
    /proc, /sys with debugfs and tracefs, /dev, /tmp, /dev/shm and, as /cg, cgroup2. Timers of processes that
    are not real-time are up to 50 us late, by the kernel's timer slack: /proc/PID/timerslack_ns.

    `limit_s` limits the guest's time. `silent_s` limits how long the guest may send nothing. It ends a guest
    after `silent_s` of the host's time in which QEMU also had as much CPU time, or after IDLE times
    `silent_s`. Only this limit ends a kernel that spins.
    """

    script: str
    files: Mapping[str, Path | bytes] = field(default_factory=dict)
    modules: Sequence[str] = ()
    module_files: Sequence[Path] = ()
    programs: Sequence[str] = ("fio",)
    limit_s: int = 600
    silent_s: int = 600


@dataclass(frozen=True)
class Outcome:
    """The outcome of a job.

    `code` is the script's exit status, or 99 for a kernel warning, 124 for a time-out, 125 for a dead kernel,
    130 if it was stopped. `complaint` has the kernel's first lines about an error, empty if there are none.
    `log` has the kernel's console and the script's output in order of time; beside it, `dmesg` has the whole
    kernel log of a job that ended by itself. `virtual_s` is the guest's time since boot at its end; `marks`
    maps names to such times. `cpu_s` is QEMU's CPU time.
    """

    code: int
    reason: Reason
    complaint: str
    wall_s: float
    cpu_s: float
    virtual_s: float
    marks: Mapping[str, float]
    log: Path


def run(machine: VirtualMachine, job: Job, out: Path, on_record: Callable[[str, bytes], None]) -> Outcome:
    """Boot, run the job, and wait for its end; `on_record` is called at once for each record: name and
    content.

    Several machines may run at once, in threads. An exception of `on_record` ends the machine and is raised
    here. `out` is created if it does not exist, and gets `log`, `dmesg` and `command`. A process that dies
    takes its machines with it. Except under KVM, the guest does not boot but continues from a snapshot, which
    is made first if there is none.

    Raises UsageError if something is missing on the host, or the job's files are too large.
    """
    stops = qemu.Process.stops
    out.mkdir(parents=True, exist_ok=True)
    log = out / "log"
    for file in (log, out / "dmesg", out / "command"):
        file.unlink(missing_ok=True)
    log.touch()
    reader, story = Reader(), Story()
    try:
        with (
            scratch.folder() as place,
            _command(machine, job, place, log, stops) as (command, qmp),
        ):
            (out / "command").write_text(shlex.join(command) + "\n")
            sent = place / "sent"
            sent.touch()
            with qemu.Process(command, log, stops, qmp) as process, sent.open("rb") as channel:
                running = True
                heard_s = heard_cpu_s = 0.0
                while running:
                    running = process.wait(POLL_S)
                    for message in reader.feed(channel.read()):
                        heard_s, heard_cpu_s = process.wall_s, process.cpu_s
                        if isinstance(message, Record) and message.ours:
                            (out / message.name).write_bytes(message.content)
                        elif isinstance(message, Record):
                            on_record(message.name, message.content)
                        else:
                            story.add(message)
                    silent_s = process.wall_s - heard_s
                    if (
                        silent_s > job.silent_s
                        and (process.cpu_s - heard_cpu_s > job.silent_s or silent_s > IDLE * job.silent_s)
                        and running
                    ):
                        story.silent = True
                        process.kill()
            story.wall_s, story.cpu_s = process.wall_s, process.cpu_s
    except snapshot.BootError as e:
        log.write_text(str(e))
    except qemu.StoppedError:
        pass
    story.stopped = stops != qemu.Process.stops
    log.write_bytes(log.read_bytes().replace(b"\r\n", b"\n"))
    return story.outcome(log)


@contextlib.contextmanager
def _command(
    machine: VirtualMachine, job: Job, place: Path, log: Path, stops: int
) -> Iterator[tuple[list[str], bytes]]:
    """QEMU's command for a job, and its standard input. The channel writes to the file `sent` in `place`."""
    tree = initramfs.stock_modules(machine.kernel, job.modules)
    tree |= initramfs.job(job.script, job.files, job.module_files, job.programs)
    sent = place / "sent"
    if machine.mode in snapshot.SETTLE_S:
        cached = snapshot.provide(machine, place, stops)
        window = place / "window"
        snapshot.write_window(window, job.limit_s, machine.slice_us, cpio.archive(tree))
        shutil.copyfile(place / "boot-log", log)
        yield snapshot.command_line(machine, place / "state", window, log, sent)
        if "load of migration failed" in log.read_text(errors="replace"):
            raise UsageError(f"QEMU cannot use its snapshot any more: remove {cached}")
        return
    tree |= initramfs.stock_modules(machine.kernel, (*snapshot.MODULES, *job.modules))
    tree["root/limits"] = cpio.file(f"{job.limit_s} 0\n".encode())
    initrd = place / "initrd"
    initrd.write_bytes(cpio.archive(initramfs.system() | tree))
    yield [*qemu.command_line(machine, log, sent), "-initrd", str(initrd)], b""


def stop_all() -> None:
    """End every machine of this process; their `run` returns with the reason "stopped"."""
    qemu.Process.stop_all()


@dataclass
class Story:
    """The known history of a job."""

    code: int | None = None
    virtual_time_out: bool = False
    silent: bool = False
    stopped: bool = False
    wall_s: float = 0.0
    cpu_s: float = 0.0
    marks: dict[str, float] = field(default_factory=dict)

    def add(self, message: Message) -> None:
        """Add one message of the guest."""
        match message:
            case Mark(name, uptime_s):
                self.marks[name] = uptime_s
            case TimeOut():
                self.virtual_time_out = True
            case End(code):
                self.code = code

    def outcome(self, log: Path) -> Outcome:
        """The job's outcome."""
        text = log.read_text(errors="replace")
        complaint = kernel_complaint(text)
        dmesg = log.with_name("dmesg")
        if not complaint and dmesg.is_file():
            # Under PREEMPT_RT a thread prints to the console; it may not have printed the last lines.
            complaint = kernel_complaint(dmesg.read_text(errors="replace"))
        last_words = "\n".join(text.strip().splitlines()[-COMPLAINT_LINES:])
        code, reason = self._ending(complaint)
        if reason != "ok" and not complaint:
            complaint = last_words
        virtual_s = max(self.marks.values(), default=0.0)
        return Outcome(code, reason, complaint, self.wall_s, self.cpu_s, virtual_s, self.marks, log)

    def _ending(self, complaint: str) -> tuple[int, Reason]:
        if self.stopped and self.code is None:
            return 130, "stopped"
        if self.silent:
            return 124, "silent for too long"
        if self.virtual_time_out:
            return 124, "virtual timeout"
        if self.code is None:
            return 125, "kernel died"
        if self.code:
            return self.code, "job failed"
        return (99, "kernel warning") if complaint else (0, "ok")


def kernel_complaint(log: str) -> str:
    """The kernel's first lines about an error; empty if there are none.

    Data races within the kernel alone are not reported.
    """
    log = RACE.sub(lambda report: report[0] if race_is_ours(report[0]) else "", log)
    found = COMPLAINT.search(log)
    return "\n".join(log[found.start() :].splitlines()[:COMPLAINT_LINES]) if found else ""


def race_is_ours(report: str) -> bool:
    """Whether one of the two accesses in KCSAN's report is in Tailgate's modules, or in a function called by
    them.

    Such functions are those for lists, trees and bitmaps, and kernel functions that need a lock held. Only
    the direct callee counts: deeper entries of a stack are the kernel's own, such as a timer's interrupt on
    top of a module's function, or a wake-up after a completion. Functions blk_...() and bio_...() do not
    count either, as any driver may call them at any time, nor does the accounting of a workqueue in
    schedule() when its worker sleeps in a driver.
    """
    stacks = re.split(r"^\[.*?\] (?=(?:read|write|race)\b.* (?:to|at) )", report, flags=re.MULTILINE)[1:]
    tops = [re.findall(r"^\[.*?\] +(\S+\+0x.*)$", stack, re.MULTILINE)[:2] for stack in stacks]
    return any(
        found[1] in OUR_MODULES
        for frames in tops
        for frame in (frames[:1] if frames and frames[0].startswith(KERNELS_OWN) else frames)
        if (found := re.search(r"\[(\w+)\]", frame))
    )
