# SPDX-License-Identifier: GPL-2.0-only
"""Boots guests and runs tests in them one after the other; only the running test is lost with a guest."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tailgate.base.errors import UsageError
from tailgate.guest import kvm, qemu
from tailgate.guest import machine as vm
from tailgate.guest.kernels import Kernel
from tailgate.upkeep.blktests.verdicts import Ending, Result, died, parse, unpack

INSIDE = Path(__file__).parent / "inside"
CPUS = 4
MEMORY_MIB = 2048
#: Seconds without a message before the first test, and beyond a test's limit.
SILENCE_S = 300
#: blktests' own settings. Emulation is slow, so lengths and sizes are small.
CONFIG = """\
# The guest knows the group of the test that it runs.
case $GROUP in block | scsi) TEST_DEVS=(/dev/sda) ;; esac
TIMEOUT=30
NVMET_TRTYPES={transport}
NVME_IMG_SIZE=350M
NVME_NUM_ITER=10
"""

OnResult = Callable[[Result, Mapping[str, bytes]], None]


@dataclass(frozen=True)
class Guest:
    """The input of a boot: one kernel with one scheduler. `module` is set if the scheduler is Tailgate's."""

    kernel: Kernel
    scheduler: str
    module: Path | None
    root: Path
    modules: Path
    work: Path
    scratch: Path
    mode: qemu.Mode = "tcg"

    @property
    def machine(self) -> qemu.VirtualMachine:
        """The virtual machine. The option that checks slabs has one name since kernel 6.1 and another
        before.
        """
        # Without multipath nothing hides an NVMe drive's queue from udev.
        append = "slub_debug=FZP slab_debug=FZP log_buf_len=4M nvme_core.multipath=N"
        if self.mode != "kvm":
            # Emulation on a busy host is slow enough to trigger these reports, with which blktests fails a
            # test.
            append += " nosoftlockup rcupdate.rcu_cpu_stall_suppress=1"
        return qemu.VirtualMachine(
            self.kernel, self.mode, CPUS, MEMORY_MIB, append=append, devices=self._disks()
        )

    def _disks(self) -> tuple[str, ...]:
        """QEMU's options for the disks; the guest's writes are discarded."""
        # Without the host's random numbers, the first `nvme connect` of a boot fails.
        out = ["-object", "rng-random,id=random,filename=/dev/urandom"]
        out += ["-device", "virtio-rng-pci,rng=random", "-device", "virtio-scsi-pci"]
        for name in ("root", "modules", "work", "scratch"):
            file = qemu.path(getattr(self, name))
            device = "scsi-hd" if name == "scratch" else "virtio-blk-pci"
            out += ["-drive", f"if=none,id={name},format=raw,snapshot=on,file={file}"]
            out += ["-device", f"{device},drive={name},serial={name}"]
        return tuple(out)

    def identity(self, limit_s: int) -> list[bytes]:
        """Everything that decides verdicts, except chance and the versions of QEMU and Debian's programs."""
        files = [
            file if isinstance(file, bytes) else file.read_bytes()
            for file in self.files([], limit_s).values()
        ]
        names = [disk.name.encode() for disk in (self.root, self.modules, self.work, self.scratch)]
        module = self.module.read_bytes() if self.module else b""
        machine = f"{self.mode} {CPUS} {MEMORY_MIB} {self.machine.append}".encode()
        return [*files, *names, (INSIDE / "job.sh").read_bytes(), module, machine]

    def files(self, tests: Sequence[str], limit_s: int) -> dict[str, Path | bytes]:
        """The files that the guest's scripts read."""
        config = self.kernel.root / f"boot/config-{self.kernel.release}"
        transport = "loop" if "CONFIG_NVME_TARGET_LOOP=" in config.read_text() else "tcp"
        return {
            "/root/tests": "".join(f"{test}\n" for test in tests).encode(),
            "/root/limit_s": f"{limit_s}\n".encode(),
            "/root/scheduler": f"{self.scheduler}\n".encode(),
            "/root/config": config,
            "/root/blktests-config": CONFIG.format(transport=transport).encode(),
            "/root/inside.sh": INSIDE / "inside.sh",
        }


class StoppedError(Exception):
    """`tailgate.guest.machine.stop_all` was called."""


@dataclass
class Batch:
    """The tests that one guest ended, and the test that ran when the guest ended itself."""

    out: Path
    on_result: OnResult
    ended: list[str] = field(default_factory=list)
    running: str = ""
    began: float = 0.0

    def on_record(self, name: str, content: bytes) -> None:
        """Handle a record that the guest sends."""
        if name == "begin":
            self.running, self.began = content.decode().strip(), time.monotonic()
        elif name == "end":
            files = unpack(content)
            self.on_result(parse(self.running, files), files)
            self.ended.append(self.running)
            self.running = ""

    def lost(self, ending: Ending) -> None:
        """The guest has ended; this is the result of the test that ran, if any."""
        if not self.running:
            return
        console = (self.out / "log").read_text(errors="replace")
        console = console[max(0, console.rfind(f"run blktests {self.running}")) :]
        result = died(self.running, time.monotonic() - self.began, ending, console)
        self.on_result(result, {"console": console.encode()})
        self.ended.append(self.running)


def run(guest: Guest, tests: Sequence[str], limit_s: int, out: Path, on_result: OnResult) -> None:
    """Run all tests, each once. `out` gets the files of the running guest.

    UsageError if a guest does not reach its first test, StoppedError if it was stopped.
    """
    left = list(tests)
    while left:
        batch = Batch(out, on_result)
        job = vm.Job(
            (INSIDE / "job.sh").read_text(),
            guest.files(left, limit_s),
            modules=("virtio_blk", "virtio_scsi", "virtio_rng", "ext4"),
            module_files=[guest.module] if guest.module else [],
            programs=(),
            limit_s=1_000_000,
            silent_s=limit_s + SILENCE_S,
        )
        outcome = vm.run(guest.machine, job, out, batch.on_record)
        if outcome.reason == "stopped":
            raise StoppedError
        batch.lost("timeout" if outcome.reason == "silent for too long" else "died")
        if not batch.ended:
            last = (outcome.complaint.strip().splitlines() or ["it says nothing"])[-1]
            raise UsageError(f"the guest does not come to its first test ({last}): see {outcome.log}")
        left = [test for test in left if test not in batch.ended]


def mode() -> qemu.Mode:
    """KVM if it works."""
    return "kvm" if kvm.works() else "tcg"
