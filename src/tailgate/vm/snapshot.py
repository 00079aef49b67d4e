# SPDX-License-Identifier: GPL-2.0-only
"""A guest that has booted and waits for its job, kept in the cache.

Booting takes seconds of CPU time, going on from a snapshot a tenth of one. The guest's memory is a file.
It boots once, with init's last act a write to the pvpanic device, which stops the machine at that very
instruction; QEMU writes the state of the devices into a second file. Every machine made from it maps the
memory privately and goes on from there: the same in every bit each time.

The job then comes through the memory of a PCI device (ivshmem), which is there at once when the guest
looks; the guest waits for nobody. QEMU's migration leaves out memory that is a shared file if it is asked
to (x-ignore-shared): while the snapshot is made both are shared, afterwards both are private.
"""

import contextlib
import fcntl
import hashlib
import json
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tailgate.cache import cache_dir
from tailgate.errors import UsageError
from tailgate.vm import cpio, initramfs, qemu
from tailgate.vm.qemu import Machine

#: Without these the guest cannot talk to the host, and not read the job.
MODULES = ("virtio_pci", "virtio_console", "phram")
WINDOW_MIB = 128  # as guest/init has it
HEADER = BLOCK = 65536  # as guest/init reads it
BOOT_LIMIT_S = 300
#: The kernel goes on with work of its own for a while after booting. In virtual time waiting costs nothing.
SETTLE_S: Mapping[qemu.Mode, int] = {"icount": 20, "tcg": 1}
#: A snapshot takes 100 MiB on disk. So many are kept, the last used ones: what all tests use,
#: and more.
KEPT = 40


class BootError(Exception):
    """The guest did not come to the point where it waits for a job; its log."""


@contextlib.contextmanager
def prepared(machine: Machine, stops: int) -> Iterator[Path]:
    """The folder of a snapshot of this machine, made if there is none; it stays as long as the block runs.

    Raises BootError, qemu.StoppedError.
    """
    tree = initramfs.system() | initramfs.stock_modules(machine.kernel, MODULES)
    initrd = cpio.archive(tree)
    folder = cache_dir() / "snapshots"
    folder.mkdir(parents=True, exist_ok=True)
    snapshot = folder / _key(machine, initrd)
    with (folder / f"{snapshot.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)  # whoever removes snapshots takes it exclusively
        while not snapshot.is_dir():
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not snapshot.is_dir():
                _make_room(folder)
                with tempfile.TemporaryDirectory(prefix="new-", dir=folder) as new:
                    _boot(machine, initrd, Path(new), stops)
                    Path(new).rename(snapshot)
                    Path(new).mkdir()  # for the block to remove
            fcntl.flock(lock, fcntl.LOCK_SH)
        snapshot.touch()
        yield snapshot


def command_line(
    machine: Machine, snapshot: Path, window: Path, log: Path, sent: Path
) -> tuple[list[str], bytes]:
    """QEMU's command for a machine that goes on from a snapshot, and what it reads from its input."""
    command = _machine(machine, snapshot / "ram", window, "off", log, sent)
    qmp = (
        _qmp("qmp_capabilities"),
        _qmp("migrate-set-capabilities", capabilities=[{"capability": "x-ignore-shared", "state": True}]),
        _qmp("migrate-incoming", uri=f"file:{snapshot / 'state'}"),
    )
    return [*command, "-incoming", "defer", "-qmp", "stdio"], b"".join(qmp)


def write_window(window: Path, limit_s: int, slice_us: int, archive: bytes) -> None:
    """What the guest finds in the device's memory: a line with its limits, then the archive of the job."""
    size = WINDOW_MIB << 20
    if HEADER + len(archive) > size:
        raise UsageError(
            f"the job's files take {len(archive) >> 20} MiB, and {WINDOW_MIB} reach the guest: leave some out"
        )
    blocks = -(-len(archive) // BLOCK)
    with window.open("wb") as out:
        out.write(f"{limit_s} {slice_us} {blocks}\n".encode())
        out.seek(HEADER)
        out.write(archive)
        out.truncate(size)


def _machine(machine: Machine, ram: Path, window: Path, share: str, log: Path, sent: Path) -> list[str]:
    """The machine as it must be both when a snapshot is made and when it is used."""
    ram_file = (
        f"memory-backend-file,id=ram,size={machine.memory_mib}M,share={share},mem-path={qemu.path(ram)}"
    )
    window_file = (
        f"memory-backend-file,id=window,size={WINDOW_MIB}M,share={share},mem-path={qemu.path(window)}"
    )
    return [
        *qemu.command_line(machine, log, sent, f"tailgate.settle_s={SETTLE_S[machine.mode]}"),
        *("-object", ram_file, "-machine", "memory-backend=ram"),
        *("-object", window_file, "-device", "ivshmem-plain,memdev=window,master=on"),
        *("-device", "pvpanic", "-action", "panic=pause"),
        *("-global", "migration.store-global-state=off"),  # so that it runs, although the snapshot was paused
    ]


def _key(machine: Machine, initrd: bytes) -> str:
    """Stands for all that decides what is in a snapshot."""
    program = Path(shutil.which(qemu.QEMU) or "/nonexistent")
    if not program.exists():
        raise UsageError(f"{qemu.QEMU} is missing: run `make setup-demo`")
    nowhere = Path("-")
    parts: list[object] = [_machine(machine, nowhere, nowhere, "", nowhere, nowhere)]
    parts.append(hashlib.sha256(initrd).hexdigest())
    for file in (program, machine.kernel.vmlinux):
        status = file.stat()
        parts += [file.name, status.st_size, status.st_mtime_ns]
    parts.append(Path(__file__).read_text())
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def _make_room(folder: Path) -> None:
    """Remove the snapshots that were not used for longest, so that one more may come."""
    snapshots = [p for p in folder.iterdir() if p.is_dir() and not p.name.startswith("new-")]
    snapshots.sort(key=lambda p: p.stat().st_mtime, reverse=True)
    for old in snapshots[KEPT - 1 :]:
        with (folder / f"{old.name}.lock").open("w") as lock, contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(old)


def _boot(machine: Machine, archive: bytes, into: Path, stops: int) -> None:
    """Boot, and write `ram`, `state` and `log` when the guest says that it is ready."""
    with tempfile.TemporaryDirectory(prefix="boot-", dir=cache_dir()) as name:
        scratch = Path(name)
        initrd, window, control, log = (scratch / n for n in ("initrd", "window", "control", "log"))
        initrd.write_bytes(archive)
        write_window(window, 0, 0, b"")
        log.touch()
        command = _machine(machine, into / "ram", window, "on", log, scratch / "sent")
        command += ["-initrd", str(initrd), "-qmp", f"unix:{qemu.path(control)},server=on,wait=off"]
        with qemu.Process(command, log, stops) as process:
            try:
                with _Control(control, process) as monitor:
                    monitor.until(lambda m: m.get("event") == "STOP")
                    names = ("events", "x-ignore-shared")
                    on = [{"capability": c, "state": True} for c in names]
                    monitor.send(_qmp("migrate-set-capabilities", capabilities=on))
                    monitor.send(_qmp("migrate", uri=f"file:{into / 'state'}"))
                    ends = ("completed", "failed")
                    end = monitor.until(
                        lambda m: m.get("event") == "MIGRATION" and m["data"]["status"] in ends
                    )
                    if end["data"]["status"] == "failed":
                        raise BootError("QEMU cannot write the snapshot")
            except OSError as e:
                if process.stops != stops:
                    raise qemu.StoppedError from e
                raise BootError(log.read_text(errors="replace")) from e
        shutil.copy(log, into / "log")


def _qmp(command: str, **arguments: object) -> bytes:
    return json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n"


class _Control:
    """A connection to QEMU's monitor; OSError if it ends or takes too long."""

    def __init__(self, at: Path, process: qemu.Process) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        while True:
            try:
                self._socket.connect(str(at))
                break
            except OSError:
                if not process.wait(0.01):
                    raise
        self._socket.settimeout(BOOT_LIMIT_S)
        self._answers = self._socket.makefile("rb")
        self.send(_qmp("qmp_capabilities"))

    def __enter__(self) -> "_Control":
        return self

    def __exit__(self, *_: object) -> None:
        self._answers.close()
        self._socket.close()

    def send(self, command: bytes) -> None:
        self._socket.sendall(command)

    def until(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first message that is wanted."""
        for line in self._answers:
            message: dict[str, Any] = json.loads(line)
            if wanted(message):
                return message
        raise ConnectionError("QEMU ended")
