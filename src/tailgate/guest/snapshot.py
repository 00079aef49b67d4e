# SPDX-License-Identifier: GPL-2.0-only
"""A guest that has booted and waits for its job, kept in the cache.

Booting takes seconds of CPU time, going on from a snapshot a few tenths of one. The guest boots once, with
init's last act a write to the pvpanic device, which stops the machine at that very instruction; QEMU writes
its state into a file. Every machine made from it goes on from there: the same in every bit each time.

The job then comes through the memory of a PCI device (ivshmem), which is there at once when the guest looks;
the guest waits for nobody. That memory must not be part of the snapshot. QEMU leaves out memory that is a
shared file if it is asked to (x-ignore-shared): while the snapshot is made the window is shared, afterwards
it is private. (All of the guest's memory could be such a file, and need not be read; but then it would have
no huge pages, and whatever the guest does would take longer.)
"""

import contextlib
import fcntl
import hashlib
import json
import shutil
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tailgate.base.errors import UsageError
from tailgate.base.paths import cache_dir
from tailgate.guest import cpio, initramfs, qemu, scratch
from tailgate.guest.qemu import Machine

#: Without these the guest cannot talk to the host, and not read the job.
MODULES = ("virtio_pci", "virtio_console", "phram")
WINDOW_MIB = 128  # as inside/init has it
HEADER = BLOCK = 65536  # as inside/init reads it
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
                with scratch.folder() as place:
                    new = place / "snapshot"
                    new.mkdir()
                    _boot(machine, initrd, place, new, stops)
                    new.rename(snapshot)
            fcntl.flock(lock, fcntl.LOCK_SH)
        snapshot.touch()
        yield snapshot


def command_line(
    machine: Machine, snapshot: Path, window: Path, log: Path, sent: Path
) -> tuple[list[str], bytes]:
    """QEMU's command for a machine that goes on from a snapshot, and what it reads from its input."""
    command = _machine(machine, window, "off", log, sent)
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


def _machine(machine: Machine, window: Path, share: str, log: Path, sent: Path) -> list[str]:
    """The machine as it must be both when a snapshot is made and when it is used."""
    window_file = (
        f"memory-backend-file,id=window,size={WINDOW_MIB}M,share={share},mem-path={qemu.path(window)}"
    )
    return [
        *qemu.command_line(machine, log, sent, f"tailgate.settle_s={SETTLE_S[machine.mode]}"),
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
    parts: list[object] = [_machine(machine, nowhere, "", nowhere, nowhere)]
    parts.append(hashlib.sha256(initrd).hexdigest())
    for file in (program, machine.kernel.vmlinux):
        status = file.stat()
        parts += [file.name, status.st_size, status.st_mtime_ns]
    parts.append(Path(__file__).read_text())
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def _make_room(folder: Path) -> None:
    """Remove the snapshots that were not used for longest, so that one more may come."""
    snapshots = [p for p in folder.iterdir() if p.is_dir()]
    snapshots.sort(key=lambda p: p.stat().st_mtime, reverse=True)
    for old in snapshots[KEPT - 1 :]:
        with (folder / f"{old.name}.lock").open("w") as lock, contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(old)


def _boot(machine: Machine, archive: bytes, place: Path, into: Path, stops: int) -> None:
    """Boot, and write `state` and `log` into a folder when the guest says that it is ready."""
    initrd, window, log = place / "initrd", place / "window", into / "log"
    initrd.write_bytes(archive)
    write_window(window, 0, 0, b"")
    log.touch()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        command = [
            *_machine(machine, window, "on", log, place / "sent"),
            *("-initrd", str(initrd), "-mon", "chardev=control,mode=control"),
            *("-chardev", f"socket,id=control,fd={theirs.fileno()}"),
        ]
        with qemu.Process(command, log, stops, inherited=(theirs.fileno(),)) as process:
            theirs.close()
            try:
                _take(ours, into / "state")
                (into / "state").write_bytes(_round_time((into / "state").read_bytes()))
            except OSError as e:
                if process.stops != stops:
                    raise qemu.StoppedError from e
                raise BootError(log.read_text(errors="replace")) from e


def _round_time(state: bytes) -> bytes:
    """The same state a little later: at a time that does not depend on how fast QEMU's main loop was.

    While that learns that the CPUs have stopped, it may skip idle time once more, by a few milliseconds. The
    time skipped so far is the first number of the section timer/icount. Of the 50 ms that follow, the guest
    notices as much as of a pause.
    """
    section = b"\x05\x0ctimer/icount" + (1).to_bytes(4, "big")  # a subsection, its name, its version
    at = state.find(section) + len(section)
    if at < len(section):
        return state  # a machine that runs by the host's clock
    skipped_ns = int.from_bytes(state[at : at + 8], "big", signed=True)
    tenth = 100_000_000
    later = (skipped_ns + tenth // 2) // tenth * tenth + tenth // 2
    return state[:at] + later.to_bytes(8, "big", signed=True) + state[at + 8 :]


def _take(control: socket.socket, state: Path) -> None:
    """Wait for the guest to stop, and let QEMU write the state; OSError if it does not come to that."""
    control.settimeout(BOOT_LIMIT_S)
    capabilities = [{"capability": name, "state": True} for name in ("events", "x-ignore-shared")]
    with control.makefile("rb") as messages:

        def until(event: str, *statuses: str) -> str:
            for line in messages:
                message: dict[str, Any] = json.loads(line)
                status = str(message.get("data", {}).get("status"))
                if message.get("event") == event and (not statuses or status in statuses):
                    return status
            raise ConnectionError("QEMU ended")

        control.sendall(_qmp("qmp_capabilities"))
        until("STOP")
        control.sendall(_qmp("migrate-set-capabilities", capabilities=capabilities))
        control.sendall(_qmp("migrate-set-parameters", **{"max-bandwidth": 0}))
        control.sendall(_qmp("migrate", uri=f"file:{state}"))
        if until("MIGRATION", "completed", "failed") == "failed":
            raise OSError("QEMU cannot write the snapshot")


def _qmp(command: str, **arguments: object) -> bytes:
    return json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n"
