# SPDX-License-Identifier: GPL-2.0-only
"""Snapshots of guests: how they are made, kept and removed. QEMU is a thread that speaks QMP."""

import asyncio
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from qemu.qmp import QMPError

from tailgate.guest import initramfs, scratch, snapshot
from tailgate.guest.kernels import Kernel
from tailgate.guest.qemu import VirtualMachine

GREETING = {"QMP": {"version": {"qemu": {"micro": 2, "minor": 0, "major": 10}}, "capabilities": ["oob"]}}
STAMP = {"timestamp": {"seconds": 1, "microseconds": 0}}
STOP: Mapping[str, object] = {"event": "STOP", **STAMP}
COMPLETED: Mapping[str, object] = {"event": "MIGRATION", "data": {"status": "completed"}, **STAMP}
SETUP: Mapping[str, object] = {"event": "MIGRATION", "data": {"status": "setup"}, **STAMP}
FAILED: Mapping[str, object] = {"event": "MIGRATION", "data": {"status": "failed"}, **STAMP}
Events = Mapping[str, list[Mapping[str, object]]]


class FakeQemu(threading.Thread):
    """Answers each command, then sends the events that follow it; ends after the command `last`."""

    def __init__(self, end: socket.socket, events: Events, refused: str = "", last: str = "") -> None:
        super().__init__()
        self.end, self.events, self.refused, self.last = end, events, refused, last
        self.commands: list[str] = []

    def run(self) -> None:
        with self.end:
            self.send(GREETING)
            while data := self.end.recv(4096):  # the client awaits each answer, so it is one request
                request = json.loads(data)
                name = request["execute"]
                self.commands.append(name)
                refusal = {"error": {"class": "GenericError", "desc": "disk full"}}
                answer = refusal if name == self.refused else {"return": {}}
                self.send({**answer, **{key: request[key] for key in ("id",) if key in request}})
                for event in self.events.get(name, []):
                    self.send(event)
                if name == self.last:
                    time.sleep(0.1)  # the client awaits what follows
                    return

    def send(self, message: Mapping[str, object]) -> None:
        self.end.sendall(json.dumps(message).encode() + b"\n")


def take(events: Events, **behaviour: str) -> list[str]:
    """The commands that QEMU got."""
    ours, theirs = socket.socketpair()
    qemu = FakeQemu(theirs, events, **behaviour)
    qemu.start()
    with ours:
        try:
            asyncio.run(snapshot._take(ours, Path("/state")))
        finally:
            qemu.join(10)
    assert not qemu.is_alive()
    return qemu.commands


def test_the_state_is_written_once_the_guest_has_stopped() -> None:
    commands = take({"qmp_capabilities": [STOP], "migrate": [SETUP, COMPLETED]})
    assert commands == ["qmp_capabilities", "migrate-set-capabilities", "migrate-set-parameters", "migrate"]


def test_a_command_that_qemu_refuses_ends_it_at_once() -> None:
    with pytest.raises(QMPError, match="disk full"):
        take({"qmp_capabilities": [STOP]}, refused="migrate")


def test_a_state_that_qemu_cannot_write() -> None:
    with pytest.raises(OSError, match="cannot write"):
        take({"qmp_capabilities": [STOP], "migrate": [SETUP, FAILED]})


@pytest.mark.parametrize("last", ["qmp_capabilities", "migrate-set-parameters", "migrate"])
def test_a_qemu_that_ends_is_not_awaited(last: str) -> None:
    with pytest.raises((ConnectionError, QMPError)):
        take({"qmp_capabilities": [STOP] if last.startswith("migrate") else []}, last=last)


def test_a_guest_that_never_stops_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "BOOT_LIMIT_S", 0.1)
    with pytest.raises(TimeoutError):
        take({})


# --- the cache ---------------------------------------------------------------------------------------------


@pytest.fixture
def boots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The memory of each machine that booted, in their order; no QEMU runs."""
    booted: list[int] = []

    def boot(machine: VirtualMachine, archive: bytes, place: Path, into: Path, stops: int) -> None:
        booted.append(machine.memory_mib)
        time.sleep(0.1)
        (into / "state").write_text(f"state of {machine.memory_mib}")
        (into / "log").write_text("log")

    monkeypatch.setenv("TAILGATE_CACHE", str(tmp_path))
    monkeypatch.setattr(snapshot, "_boot", boot)
    monkeypatch.setattr(snapshot, "_key", lambda machine, initrd: f"{machine.memory_mib:016x}")
    for name in ("system", "stock_modules"):
        monkeypatch.setattr(initramfs, name, lambda *_: {})
    return booted


def machine(memory_mib: int) -> VirtualMachine:
    nowhere = Path("/nonexistent")
    return VirtualMachine(Kernel("stable", "9.1", nowhere, nowhere, nowhere, nowhere), memory_mib=memory_mib)


def provide(folder: Path, memory_mib: int) -> Path:
    folder.mkdir()
    snapshot.provide(machine(memory_mib), folder, 0)
    return folder / "state"


def test_several_at_once_boot_one(tmp_path: Path, boots: list[int]) -> None:
    threads = [threading.Thread(target=provide, args=(tmp_path / f"t{i}", 1)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert boots == [1]
    assert {(tmp_path / f"t{i}/state").read_text() for i in range(4)} == {"state of 1"}


def test_those_not_used_for_longest_go_and_who_has_one_keeps_it(
    tmp_path: Path, boots: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "KEPT", 2)
    (tmp_path / "snapshots/mine").mkdir(
        parents=True
    )  # TAILGATE_CACHE may be a folder with other things in it

    def there() -> set[str]:
        return {p.name.lstrip("0") for p in (tmp_path / "snapshots").iterdir() if p.is_dir()}

    first = provide(tmp_path / "a", 1)
    provide(tmp_path / "b", 2)
    time.sleep(0.01)
    provide(tmp_path / "c", 1)  # used again
    provide(tmp_path / "d", 3)
    assert there() == {"1", "3", "mine"}
    provide(tmp_path / "e", 2)
    assert there() == {"2", "3", "mine"}
    assert first.read_text() == "state of 1"
    assert boots == [1, 2, 3, 2]


def test_what_killed_processes_left_is_removed_and_nothing_else(boots: list[int], tmp_path: Path) -> None:
    program = """
from tailgate.guest import scratch
with scratch.folder() as place:
    print(place, flush=True)
    input()
"""
    mine = tmp_path / "scratch/thesis"
    mine.mkdir(parents=True)
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    left = Path(process.stdout.readline().strip())
    with scratch.folder() as place:
        assert left.is_dir()
        process.kill()
        process.communicate()
        with scratch.folder():
            assert not left.exists()
            assert place.is_dir()
    assert not place.exists()
    assert mine.is_dir()
