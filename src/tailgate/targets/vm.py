# SPDX-License-Identifier: GPL-2.0-only
"""The target `vm`: a stock kernel with our modules, the virtual drive, fio, in a virtual machine.

Chunks run in parallel, one on each host CPU, the longest first; in virtual time this changes no digit. Each
point is written as it ends.
"""

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal

from tailgate.base.errors import UsageError
from tailgate.base.progress import Progress, duration
from tailgate.guest import kvm, programs, qemu
from tailgate.guest.kernels import Kernel
from tailgate.load.loads import Loads
from tailgate.runs.folder import Records
from tailgate.spec import drive as drives
from tailgate.spec import plan as plans
from tailgate.spec.plan import Chunk, Run
from tailgate.targets import identity
from tailgate.targets.vm_chunk import FILE_SYSTEM_PROGRAMS, GuestPlan, our_modules
from tailgate.targets.vm_measure import Boots

#: Modules of the lab that decide the input of a guest and the measurements made of its output; and other
#: files.
CODE = ("targets/vm_chunk.py", "targets/vm_measure.py")
SCRIPTS = ("targets/points.sh", "guest/inside")


class GuestTarget:
    """Everything that decides a run's figures in a guest, and the means to measure it."""

    def __init__(self, run: Run, path: Path, kernel: Kernel, module_folder: Path) -> None:
        """`path` is the experiment file; `module_folder` holds our modules for `kernel`."""
        self.run = run
        self.path = path
        self.kernel = kernel
        #: Read once, so that a build cannot change them during the run.
        self.modules = our_modules(run, path, module_folder)
        self.drive_path, self.drive = drives.load(run.spec.drive)
        self.loads = Loads(run, path, self.drive)
        self.mode: Literal["icount", "kvm"] = "kvm" if kvm.works() else "icount"
        self.plan = GuestPlan(run, self.loads, self.drive, self.mode)

    @cached_property
    def identity(self) -> dict[str, object]:
        """Everything that decides the figures; in virtual time equal identities give equal figures."""
        command = [qemu.QEMU, "--version"]
        version = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0]
        return {
            "target": "vm",
            **identity.asked(self.run, self.loads, self.drive),
            # Whether a chunk is timed depends on the form of the paper's figure.
            "timed": {c.name: priority for c in plans.chunks(self.run) if (priority := self.plan.timed(c))},
            "modules": {name: identity.digest(data) for name, data in self.modules.items()},
            "kernel": [self.kernel.release, identity.digest(self.kernel.vmlinux.read_bytes())],
            "qemu": version,
            "fio": _program("fio"),
            "busybox": _program("busybox"),
            "programs": {name: _program(name) for name in self.programs},
            "accelerator": self.mode,
            "code": identity.code(CODE) | identity.files(SCRIPTS),
        }

    @property
    def key(self) -> str:
        """Names the run's folder: a hash of its identity."""
        return identity.key(self.identity)

    @property
    def repeatable(self) -> bool:
        """In virtual time the same input gives the same digits."""
        return self.mode == "icount"

    @property
    def sources(self) -> Mapping[str, bytes]:
        """Tailgate's modules, and the replayed traces."""
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

    def check(self) -> None:
        """Let fio parse the derived jobs. UsageError with fio's own message, or if a program is missing."""
        qemu.check_programs()
        for name in ("fio", *self.programs):
            programs.find(name)
        seen: set[str] = set()
        for chunk in plans.chunks(self.run):
            seen |= {self.plan.derived_job(self.plan.attempt(chunk), rate) for rate in chunk.background_rates}
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

    def announcement(self, records: Records, jobs: int) -> str:
        """Points, boots, and an estimate of the time they take."""
        attempts = [self.plan.attempt(c) for c in plans.chunks(self.run)]
        left = [a for a in attempts if not records.complete(a.chunk)]
        costs = [self.plan.chunk_s(a) for a in left]
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
        by_point = [(self.plan.point_s(a, rate), a) for a in left for rate in a.chunk.background_rates]
        cost, slowest = max(by_point, key=lambda pair: pair[0], default=(0.0, None))
        if slowest and cost >= 60:
            text += f"; the slowest point, of {slowest.chunk.name}, alone takes about {duration(cost)}"
        return text

    def measure(self, records: Records, chunks: Sequence[Chunk], jobs: int, progress: Progress) -> None:
        """Measure those of the chunks that are not complete, `jobs` boots at a time."""
        folder = records.folder
        boots = Boots(self.plan, self.kernel, [folder / "sources" / name for name in self.modules], folder)
        boots.measure([c for c in chunks if not records.complete(c)], jobs, records.write, progress)


def _program(name: str) -> str:
    """A hash of a program of the host and the libraries that it has in the guest."""
    program = programs.find(name)
    return identity.digest(*(f.read_bytes() for f in (program, *programs.libraries(program).values())))
