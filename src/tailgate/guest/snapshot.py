# SPDX-License-Identifier: GPL-2.0-only
"""Snapshots in the cache of a guest that has booted and waits for its job.

Booting takes seconds of CPU time, continuing from a snapshot a few tenths of a second. The guest boots once.
Init's last action is a write to the pvpanic device, which stops the machine at that instruction; then QEMU
writes the machine's state into a file. Every machine made from the file continues there, with the same state
in every bit.

The job then comes through the memory of a PCI device (ivshmem), which is there as soon as the guest looks, so
that the guest does not wait. This memory must not be part of the snapshot. QEMU can leave out memory that is
a shared file (x-ignore-shared), so this memory is shared while the snapshot is made, and private afterwards.
(All of the guest's memory could be such a file, which need not be read; but it would have no huge pages, and
everything in the guest would take longer.)
"""

import asyncio
import contextlib
import hashlib
import json
import re
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from qemu.qmp import EventListener, QMPClient, QMPError, Runstate

from tailgate.base.errors import UsageError
from tailgate.base.paths import cache_dir
from tailgate.guest import cpio, initramfs, qemu, scratch
from tailgate.guest.qemu import VirtualMachine

#: Modules without which the guest can neither talk to the host nor read the job.
MODULES = ("virtio_pci", "virtio_console", "phram")
WINDOW_MIB = 128  # as inside/init has it
HEADER = BLOCK = 65536  # as inside/init reads it
BOOT_LIMIT_S = 300
#: Seconds to wait after booting, because the kernel still works for a while. In virtual time waiting costs
#: nothing.
SETTLE_S: Mapping[qemu.Mode, int] = {"icount": 20, "tcg": 1}
#: Number of snapshots that are kept, those used last; each takes 100 MiB on disk. All tests together use
#: fewer.
KEPT = 40
#: Pattern of snapshots' names. Files with other names were not made here and are not touched.
KEY = "[0-9a-f]{16}"


class BootError(Exception):
    """The guest did not reach the point where it waits for a job. The message is its log."""


def provide(machine: VirtualMachine, into: Path, stops: int) -> Path:
    """Put this machine's snapshot into a folder, as `state` and `boot-log`; it is made first if there is
    none.

    The two are hard links into the cache, so the folder must be on the same file system. They remain when the
    snapshot itself is removed. Returns the snapshot's folder.

    Raises BootError, qemu.StoppedError.
    """
    tree = initramfs.system() | initramfs.stock_modules(machine.kernel, MODULES)
    initrd = cpio.archive(tree)
    folder = cache_dir() / "snapshots"
    folder.mkdir(parents=True, exist_ok=True)
    snapshot = folder / _key(machine, initrd)
    with FileLock(folder / f"{snapshot.name}.lock"):
        if not snapshot.is_dir():
            _make_room(folder)
            with scratch.folder() as place:
                new = place / "snapshot"
                new.mkdir()
                _boot(machine, initrd, place, new, stops)
                new.rename(snapshot)
        snapshot.touch()
        (into / "state").hardlink_to(snapshot / "state")
        (into / "boot-log").hardlink_to(snapshot / "log")
    return snapshot


def command_line(
    machine: VirtualMachine, state: Path, window: Path, log: Path, sent: Path
) -> tuple[list[str], bytes]:
    """QEMU's command for a machine that continues from a snapshot's state, and its standard input.

    The input is QMP. Its answers are not read: if the state does not load, QEMU ends, and its log states the
    reason. Reading answers would wake QEMU's main loop while virtual time runs.
    """
    command = _machine(machine, window, "off", log, sent)
    requests = (
        {"execute": "qmp_capabilities"},
        {"execute": "migrate-set-capabilities", "arguments": _capabilities("x-ignore-shared")},
        {"execute": "migrate-incoming", "arguments": {"uri": f"file:{state}"}},
    )
    qmp = "".join(f"{json.dumps(request)}\n" for request in requests)
    return [*command, "-incoming", "defer", "-qmp", "stdio"], qmp.encode()


def write_window(window: Path, limit_s: int, slice_us: int, archive: bytes) -> None:
    """Write the content of the device's memory: a line with the limits, then the archive of the job."""
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


def _machine(machine: VirtualMachine, window: Path, share: str, log: Path, sent: Path) -> list[str]:
    """The options that must be equal when a snapshot is made and when it is used."""
    window_file = (
        f"memory-backend-file,id=window,size={WINDOW_MIB}M,share={share},mem-path={qemu.path(window)}"
    )
    return [
        *qemu.command_line(machine, log, sent, f"tailgate.settle_s={SETTLE_S[machine.mode]}"),
        *("-object", window_file, "-device", "ivshmem-plain,memdev=window,master=on"),
        *("-device", "pvpanic", "-action", "panic=pause"),
        *("-global", "migration.store-global-state=off"),  # a machine made from it runs, though it was paused
    ]


def _key(machine: VirtualMachine, initrd: bytes) -> str:
    """A hash of everything that decides the content of a snapshot."""
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
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]  # as KEY


def _make_room(folder: Path) -> None:
    """Remove the least recently used snapshots, so that there is space for one more."""
    snapshots = [p for p in folder.iterdir() if re.fullmatch(KEY, p.name)]
    snapshots.sort(key=lambda p: p.stat().st_mtime, reverse=True)
    for old in snapshots[KEPT - 1 :]:
        lock = FileLock(folder / f"{old.name}.lock", blocking=False)
        # It gets another name first, so that no process uses it while it is removed.
        with contextlib.suppress(Timeout), lock, scratch.folder() as place:
            old.rename(place / "old")


def _boot(machine: VirtualMachine, archive: bytes, place: Path, into: Path, stops: int) -> None:
    """Boot, and write `state` and `log` into a folder when the guest is ready."""
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
                asyncio.run(_take(ours, into / "state"))
                (into / "state").write_bytes(_round_time((into / "state").read_bytes()))
            except (OSError, QMPError) as e:
                if process.stops != stops:
                    raise qemu.StoppedError from e
                raise BootError(f"{log.read_text(errors='replace')}\nno snapshot: {e!r}") from e


def _round_time(state: bytes) -> bytes:
    """The same state at a slightly later time, which does not depend on the speed of QEMU's main loop.

    Before the main loop learns that the CPUs have stopped, it may skip a few more milliseconds of idle time.
    The time skipped so far is the first number of the section timer/icount; the nearest tenth of a second
    plus 50 ms replaces it. The guest notices this as little as a pause.
    """
    section = b"\x05\x0ctimer/icount" + (1).to_bytes(4, "big")  # a subsection, its name, its version
    at = state.find(section) + len(section)
    if at < len(section):
        return state  # a machine in the host's time has no such section
    skipped_ns = int.from_bytes(state[at : at + 8], "big", signed=True)
    tenth = 100_000_000
    later = (skipped_ns + tenth // 2) // tenth * tenth + tenth // 2
    return state[:at] + later.to_bytes(8, "big", signed=True) + state[at + 8 :]


async def _take(control: socket.socket, state: Path) -> None:
    """Wait until the guest has stopped, and let QEMU write its state. OSError or QMPError if it does not."""
    qmp = QMPClient()
    with qmp.listener(("STOP", "MIGRATION")) as events:
        await qmp.connect(control)
        try:
            await _until(qmp, events, "STOP")
            await qmp.execute("migrate-set-capabilities", _capabilities("events", "x-ignore-shared"))
            await qmp.execute("migrate-set-parameters", {"max-bandwidth": 0})
            await qmp.execute("migrate", {"uri": f"file:{state}"})
            if await _until(qmp, events, "completed", "failed") == "failed":
                told = await qmp.execute("query-migrate")
                raise OSError(f"QEMU cannot write it: {told}")
        finally:
            with contextlib.suppress(EOFError):  # QEMU has ended, which the caller detects by itself
                await qmp.disconnect()


async def _until(qmp: QMPClient, events: EventListener, *awaited: str) -> str:
    """Wait for an event with one of these names, or for such a status of a migration. OSError if none
    comes.
    """
    async with asyncio.timeout(BOOT_LIMIT_S):
        while qmp.runstate is Runstate.RUNNING:
            event, ended = asyncio.create_task(events.get()), asyncio.create_task(qmp.runstate_changed())
            await asyncio.wait((event, ended), return_when=asyncio.FIRST_COMPLETED)
            for task in (event, ended):
                task.cancel()  # no effect on the task that is done
            if event.done():
                message: dict[str, Any] = dict(event.result())
                for word in (message["event"], message.get("data", {}).get("status")):
                    if word in awaited:
                        return str(word)
    raise ConnectionError("QEMU has ended")


def _capabilities(*names: str) -> dict[str, object]:
    """The arguments of migrate-set-capabilities that switch these capabilities on."""
    return {"capabilities": [{"capability": name, "state": True} for name in names]}
