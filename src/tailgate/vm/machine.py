# SPDX-License-Identifier: GPL-2.0-only
"""A virtual machine that boots a kernel, runs one job, and sends out what it measures while it runs.

In mode `icount` time is virtual: one instruction is one nanosecond, idle time is skipped, no clock of the host
is ever read. Equal input (kernel, job, options, QEMU) gives equal figures, however busy the host is. Modes `tcg`
(emulation by the host's clock) and `kvm` are faster and not repeatable.
"""

import os
import re
import shlex
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal, Self

from tailgate.cache import cache_dir
from tailgate.errors import UsageError
from tailgate.kernels import Kernel
from tailgate.vm import initramfs
from tailgate.vm.channel import End, Mark, Message, Reader, Record, TimeOut

Mode = Literal["icount", "kvm", "tcg"]
Reason = Literal[
    "ok", "job failed", "kernel warning", "virtual timeout", "wall timeout", "kernel died", "stopped"
]

QEMU = "qemu-system-x86_64"
POLL_S = 0.02

#: Each with the reason why it must be there for figures to be equal from run to run.
ACCELERATION: Mapping[Mode, tuple[str, ...]] = {
    "icount": (
        *("-accel", "tcg,thread=single"),  # all virtual CPUs in turn
        *("-icount", "shift=0,sleep=off"),  # an instruction is a nanosecond, idle time is skipped
        *("-rtc", "base=2024-01-01T00:00:00,clock=vm"),
        *("-seed", "1"),
        *("-cpu", "qemu64"),  # no random numbers from the CPU
    ),
    "tcg": ("-accel", "tcg", "-cpu", "qemu64"),
    "kvm": ("-accel", "kvm", "-cpu", "host"),
}
KERNEL_OPTIONS = (
    "console=ttyS0 loglevel=5 panic=-1 oops=panic nokaslr norandmaps mitigations=off random.trust_cpu=off "
    "tsc=reliable cryptomgr.notests"
)

#: What the kernel prints when something is wrong. Its lines are known by their time stamps.
COMPLAINT = re.compile(
    r"^\[ *\d+\.\d+\].*(WARNING:|BUG:|Oops|INFO: task|INFO: rcu|Call Trace|UBSAN|KASAN|Kernel panic"
    r"|possible recursive|possible circular|sleeping function|scheduling while atomic|soft lockup"
    r"|general protection|unable to handle|refcount_t:|list_(add|del) corruption|nobody cared)",
    re.MULTILINE,
)
COMPLAINT_LINES = 15


@dataclass(frozen=True)
class Machine:
    """What is booted.

    `slice_us` bounds how long a virtual CPU waits for its turn (mode icount, several CPUs); 0 leaves that to the
    kernel's timers. `append` goes to the kernel's command line.
    """

    kernel: Kernel
    mode: Mode = "icount"
    smp: int = 1
    memory_mib: int = 1024
    slice_us: int = 0
    append: str = ""


@dataclass(frozen=True)
class Job:
    """What it runs.

    `script` is for busybox's sh; its exit status is the job's. Besides busybox it has `emit NAME FILE`,
    `mark NAME`, `idle_sample` and `fail MESSAGE`. `modules` are stock modules by name, there for modprobe with
    what they need; `module_files` are ours, in /lib/modules/extra for insmod. `programs` are the host's, with
    their libraries. `files` maps paths in the guest to contents. Mounted are /proc, /sys with debugfs and
    tracefs, /dev, /tmp, /dev/shm and, as /cg, cgroup2. Timers of processes that are not real-time are up to 50 us
    late, by the kernel's timer slack: /proc/PID/timerslack_ns.

    `limit_s` bounds the guest's time, `wall_s` the host's; only the latter ends a kernel that spins.
    """

    script: str
    files: Mapping[str, Path | bytes] = field(default_factory=dict)
    modules: Sequence[str] = ()
    module_files: Sequence[Path] = ()
    programs: Sequence[str] = ("fio",)
    limit_s: int = 600
    wall_s: int = 600


@dataclass(frozen=True)
class Outcome:
    """How a job ended.

    `code` is the script's exit status, or 99 for a kernel warning, 124 for a time-out, 125 for a dead kernel,
    130 if it was stopped. `complaint` shows what is wrong, a few lines, empty if nothing is. `log` has the
    kernel's console and the script's output in their order, `dmesg` beside it the whole kernel log of a job that
    came to its end. `virtual_s` is the guest's time since boot at its end, `marks` maps names to it. `cpu_s` is
    QEMU's CPU time.
    """

    code: int
    reason: Reason
    complaint: str
    wall_s: float
    cpu_s: float
    virtual_s: float
    marks: Mapping[str, float]
    log: Path


def run(machine: Machine, job: Job, out: Path, on_record: Callable[[str, bytes], None]) -> Outcome:
    """Boot, run the job, and wait for its end; `on_record` gets name and content of what it emits, at once.

    Several may run at once, in threads. What `on_record` raises ends the machine and is raised here. `out` is
    made if it is not there, and gets `log`, `dmesg` and `command`. A process that dies takes its machines with it.

    Raises UsageError if something is missing on the host.
    """
    out.mkdir(parents=True, exist_ok=True)
    for name in ("log", "dmesg", "command"):
        (out / name).unlink(missing_ok=True)
    log = out / "log"
    log.touch()
    cache_dir().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="vm-", dir=cache_dir()) as scratch:
        initrd, sent = Path(scratch, "initrd"), Path(scratch, "sent")
        write_initrd(machine.kernel, job, initrd)
        sent.touch()
        command = command_line(machine, initrd, job.limit_s, log, sent)
        (out / "command").write_text(shlex.join(command) + "\n")
        reader, story = Reader(), Story()
        with Qemu(command, log) as qemu, sent.open("rb") as channel:
            running = True
            while running:
                running = qemu.wait(POLL_S)
                for message in reader.feed(channel.read()):
                    if isinstance(message, Record) and message.ours:
                        (out / message.name).write_bytes(message.content)
                    elif isinstance(message, Record):
                        on_record(message.name, message.content)
                    else:
                        story.add(message)
                if qemu.wall_s > job.wall_s and running:
                    story.wall_time_out = True
                    qemu.kill()
        story.stopped = qemu.stopped
    log.write_bytes(log.read_bytes().replace(b"\r\n", b"\n"))
    return story.outcome(log, qemu.wall_s, qemu.cpu_s)


class Qemu:
    """A QEMU that ends with the `with` block, or with this process, however that dies."""

    _running: ClassVar[set["Qemu"]] = set()
    _lock = threading.Lock()

    def __init__(self, command: Sequence[str], errors: Path) -> None:
        """What QEMU itself has to say goes to the end of the file `errors`."""
        for program in (QEMU, "setpriv"):
            if not shutil.which(program):
                raise UsageError(f"{program} is missing: run `make setup-demo`")
        self.cpu_s = 0.0
        self.stopped = False
        self._begin = time.monotonic()
        self._end: float | None = None
        with errors.open("ab") as stderr, self._lock:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", *command],
                stdin=subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
                start_new_session=True,  # Ctrl-C is for us alone, we end QEMU ourselves
            )
            self._running.add(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        while self.wait(1):
            pass

    @property
    def wall_s(self) -> float:
        """Seconds since the start, until the end."""
        return (self._end or time.monotonic()) - self._begin

    def wait(self, limit_s: float) -> bool:
        """Wait for the end, at most so long; whether it still runs."""
        if self._end is None:
            time.sleep(limit_s)
            pid, status, usage = os.wait4(self._process.pid, os.WNOHANG)
            if pid:
                with self._lock:
                    self._running.discard(self)
                    self._process.returncode = os.waitstatus_to_exitcode(status)
                self._end = time.monotonic()
                self.cpu_s = usage.ru_utime + usage.ru_stime
        return self._end is None

    def kill(self) -> None:
        """End it, if it runs."""
        if self._end is None:
            self._process.kill()

    @classmethod
    def stop_all(cls) -> None:
        """End all of this process."""
        with cls._lock:
            for qemu in cls._running:
                qemu.stopped = True
                qemu.kill()


def stop_all() -> None:
    """End every machine of this process; their `run` returns with the reason "stopped"."""
    Qemu.stop_all()


@dataclass
class Story:
    """What is known about how a job went."""

    code: int | None = None
    virtual_time_out: bool = False
    wall_time_out: bool = False
    stopped: bool = False
    marks: dict[str, float] = field(default_factory=dict)

    def add(self, message: Message) -> None:
        """Learn from what the guest says."""
        match message:
            case Mark(name, uptime_s):
                self.marks[name] = uptime_s
            case TimeOut():
                self.virtual_time_out = True
            case End(code):
                self.code = code

    def outcome(self, log: Path, wall_s: float, cpu_s: float) -> Outcome:
        """The end of the story."""
        text = log.read_text(errors="replace")
        complaint = kernel_complaint(text)
        last_words = "\n".join(text.strip().splitlines()[-COMPLAINT_LINES:])
        code, reason = self._ending(complaint)
        if reason != "ok" and not complaint:
            complaint = last_words
        virtual_s = max(self.marks.values(), default=0.0)
        return Outcome(code, reason, complaint, wall_s, cpu_s, virtual_s, self.marks, log)

    def _ending(self, complaint: str) -> tuple[int, Reason]:
        if self.stopped:
            return 130, "stopped"
        if self.wall_time_out:
            return 124, "wall timeout"
        if self.virtual_time_out:
            return 124, "virtual timeout"
        if self.code is None:
            return 125, "kernel died"
        if self.code:
            return self.code, "job failed"
        return (99, "kernel warning") if complaint else (0, "ok")


def kernel_complaint(log: str) -> str:
    """The first lines from where the kernel says that something is wrong; empty if it never does."""
    found = COMPLAINT.search(log)
    return "\n".join(log[found.start() :].splitlines()[:COMPLAINT_LINES]) if found else ""


def write_initrd(kernel: Kernel, job: Job, to: Path) -> None:
    """Put the guest's file system for a job together."""
    with to.open("wb") as initrd:
        for part in (
            initramfs.base(job.programs),
            initramfs.stock_modules(kernel, [*initramfs.CHANNEL_MODULES, *job.modules]),
        ):
            with part.open("rb") as archive:
                shutil.copyfileobj(archive, initrd, 1 << 20)
        initrd.write(initramfs.job(job.script, job.files, job.module_files))


def command_line(machine: Machine, initrd: Path, limit_s: int, log: Path, sent: Path) -> list[str]:
    """QEMU's arguments. Both console and script write to `log`; the channel goes to `sent`."""
    options = f"{KERNEL_OPTIONS} tailgate.limit={limit_s}"
    if machine.slice_us and machine.mode == "icount":
        options += f" tailgate.slice_us={machine.slice_us}"
    return [
        *(QEMU, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
        *("-machine", "pc,hpet=off", *ACCELERATION[machine.mode]),
        *("-smp", str(machine.smp), "-m", f"{machine.memory_mib}M"),
        *("-chardev", f"file,id=console,path={log},append=on", "-device", "isa-serial,chardev=console"),
        # ioeventfd off: the virtual CPU that writes does the work itself, at one point of virtual time
        *("-device", "virtio-serial-pci,ioeventfd=off"),
        *("-chardev", f"file,id=sent,path={sent}", "-device", "virtserialport,nr=1,chardev=sent"),
        *("-chardev", f"file,id=log,path={log},append=on", "-device", "virtserialport,nr=2,chardev=log"),
        *("-device", "isa-debug-exit,iobase=0xf4,iosize=1"),
        *("-kernel", str(machine.kernel.vmlinux), "-initrd", str(initrd)),
        *("-append", f"{options} {machine.append}".strip()),
    ]
