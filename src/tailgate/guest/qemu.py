# SPDX-License-Identifier: GPL-2.0-only
"""QEMU: the virtual machine's options, and its process."""

import contextlib
import functools
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, Self

from tailgate.base.errors import UsageError
from tailgate.guest.kernels import Kernel

QEMU = "qemu-system-x86_64"
MAJOR_MIN = 10  # 7.2 hangs in virtual time with more than one CPU; 8 and 9 are untried
Mode = Literal["icount", "kvm", "tcg"]

#: Each option with the reason why figures would differ from run to run without it.
ACCELERATION: Mapping[Mode, tuple[str, ...]] = {
    "icount": (
        *("-accel", "tcg,thread=single"),  # the virtual CPUs run in turn
        *("-icount", "shift=0,sleep=off"),  # an instruction is a nanosecond, idle time is skipped
        *("-rtc", "base=2024-01-01T00:00:00,clock=vm"),
        *("-seed", "1"),
        *("-cpu", "qemu64"),  # no random numbers from the CPU
    ),
    "tcg": ("-accel", "tcg", "-cpu", "qemu64"),
    "kvm": ("-accel", "kvm", "-cpu", "host"),
}
#: Warnings go to the console at once, as the kernel log may be overwritten before the end. The kernel would
#: check the PIT's timer by busy waiting, which is slow in virtual time.
KERNEL_OPTIONS = (
    "console=ttyS0 loglevel=5 panic=-1 oops=panic nokaslr norandmaps mitigations=off random.trust_cpu=off "
    "tsc=reliable cryptomgr.notests no_timer_check"
)


#: Limits after which the guest's kernel reports a task, a CPU or a grace period of RCU as hung, in the
#: guest's seconds. Soft lock-ups are reported after twice `watchdog_thresh`. By the host's clock, a busy host
#: could cause these reports.
BY_THE_HOSTS_CLOCK = "tailgate.hung_s=600 watchdog_thresh=60 rcupdate.rcu_cpu_stall_timeout=300"
HANG_OPTIONS: Mapping[Mode, str] = {
    "icount": "tailgate.hung_s=30 watchdog_thresh=2",
    "tcg": BY_THE_HOSTS_CLOCK,
    "kvm": BY_THE_HOSTS_CLOCK,
}


@dataclass(frozen=True)
class VirtualMachine:
    """The options of a virtual machine.

    `slice_us` limits how long one virtual CPU runs before the next (mode icount, several CPUs), 50 000 at
    most; 0 leaves that to the kernel's timers. `append` goes to the kernel's command line, `devices` to
    QEMU's.
    """

    kernel: Kernel
    mode: Mode = "icount"
    smp: int = 1
    memory_mib: int = 1024
    slice_us: int = 0
    append: str = ""
    devices: tuple[str, ...] = ()


def path(file: Path) -> str:
    """A file's name inside of one of QEMU's options."""
    return str(file).replace(",", ",,")


def command_line(machine: VirtualMachine, log: Path, sent: Path, append: str = "") -> list[str]:
    """QEMU's command for a machine that gets its file system by further arguments.

    The guest's console and its second serial port both write to the end of `log`, its first port to `sent`.
    """
    options = (KERNEL_OPTIONS, HANG_OPTIONS[machine.mode], append, machine.append)
    return [
        *(QEMU, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
        *("-machine", "pc,hpet=off", *ACCELERATION[machine.mode]),
        *("-smp", str(machine.smp), "-m", f"{machine.memory_mib}M"),
        *("-chardev", f"file,id=console,path={path(log)},append=on", "-device", "isa-serial,chardev=console"),
        # ioeventfd off: the virtual CPU that writes does the work itself, at one point of virtual time
        *("-device", "virtio-serial-pci,ioeventfd=off"),
        *("-chardev", f"file,id=sent,path={path(sent)}", "-device", "virtserialport,nr=1,chardev=sent"),
        *(
            "-chardev",
            f"file,id=log,path={path(log)},append=on",
            "-device",
            "virtserialport,nr=2,chardev=log",
        ),
        *("-device", "isa-debug-exit,iobase=0xf4,iosize=1"),
        *machine.devices,
        *("-kernel", str(machine.kernel.vmlinux)),
        *("-append", " ".join(filter(None, options))),
    ]


def major(version: str) -> int:
    """The major number in QEMU's version text; 0 if there is none."""
    found = re.search(r"version (\d+)", version)
    return int(found[1]) if found else 0


@functools.cache
def check_programs() -> None:
    """UsageError if QEMU is missing or too old."""
    for program in (QEMU, "setpriv"):
        if not shutil.which(program):
            raise UsageError(f"{program} is missing: run `make setup-demo`")
    version = subprocess.run([QEMU, "--version"], capture_output=True, text=True, check=False).stdout
    if major(version) < MAJOR_MIN:
        line = version.partition("\n")[0]
        raise UsageError(f"{line}: {MAJOR_MIN} or later is needed: run `make setup-demo`")


class StoppedError(Exception):
    """`Process.stop_all` was called."""


@functools.cache
def _main_loop_first() -> tuple[str, ...]:
    """The command that runs QEMU's main loop at real-time priority on the host, if this process may do so.

    In virtual time the main loop adds the idle time to the clock. If it is late, on a busy host, it may find
    the virtual CPU halted before the last instructions are counted, and adds too much (QEMU 10,
    icount_start_warp_timer): 3 of 7 boots at a load of 8 differed from earlier ones, 0 of 14 with this
    command. Only the main loop's thread is real-time, and it sleeps most of the time; the other threads start
    without.
    """
    command = ("chrt", "--reset-on-fork", "--fifo", "1")
    allowed = subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0
    return command if allowed else ()


class Process:
    """A process of QEMU; it ends with the `with` block or with this process, even if this process is
    killed.
    """

    _running: ClassVar[set["Process"]] = set()
    _lock = threading.Lock()
    #: Number of calls of `stop_all`. Code that will start processes later notes it first.
    stops = 0

    def __init__(
        self,
        command: Sequence[str],
        errors: Path,
        stops: int,
        qmp: bytes = b"",
        inherited: Sequence[int] = (),
    ) -> None:
        """QEMU's own messages go to the end of the file `errors`; `qmp` is written to its standard input.

        `inherited` are file descriptors that QEMU gets under the same numbers.

        StoppedError if `stop_all` was called since `stops` was noted.
        """
        check_programs()
        self._cpu_s = 0.0
        self._begin = time.monotonic()
        self._end: float | None = None
        with errors.open("ab") as stderr, self._lock:
            if self.stops != stops:
                raise StoppedError
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", *_main_loop_first(), *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                pass_fds=inherited,
                start_new_session=True,  # Ctrl-C must not reach QEMU, which this process ends itself
            )
            self._running.add(self)
        assert self._process.stdin is not None
        self._process.stdin.write(qmp)  # far less than a pipe holds
        self._process.stdin.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        while self.wait(0.01):
            pass
        assert self._process.stdin is not None
        self._process.stdin.close()

    @property
    def wall_s(self) -> float:
        """Seconds from the start to now, or to the process's end."""
        return (self._end or time.monotonic()) - self._begin

    @property
    def cpu_s(self) -> float:
        """Seconds of CPU time used."""
        if self._end is None:
            with contextlib.suppress(OSError):
                # The name, in brackets, may contain blanks.
                fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
                return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return self._cpu_s

    def wait(self, limit_s: float) -> bool:
        """Wait `limit_s` at most for the process to end; returns whether it still runs."""
        if self._end is None and not self._reap():
            time.sleep(limit_s)
            self._reap()
        return self._end is None

    def _reap(self) -> bool:
        pid, status, usage = os.wait4(self._process.pid, os.WNOHANG)
        if pid:
            with self._lock:
                self._running.discard(self)
                self._process.returncode = os.waitstatus_to_exitcode(status)
            self._end = time.monotonic()
            self._cpu_s = usage.ru_utime + usage.ru_stime
        return bool(pid)

    def kill(self) -> None:
        """Kill the process if it runs."""
        if self._end is None:
            # Popen.kill() would reap a process that has ended, and lose its status and CPU time.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)

    @classmethod
    def stop_all(cls) -> None:
        """Kill all of this process's QEMUs, and let none start that was planned before."""
        with cls._lock:
            cls.stops += 1
            for process in cls._running:
                process.kill()
