# SPDX-License-Identifier: GPL-2.0-only
"""A new user's path, by the documents' own commands: K2 in `tailgate vm` and on a machine, a new module."""

import re
from pathlib import Path

import pytest
from tests.unit.checkout import Checkout
from tests.unit.documents import blocks
from tests.vm.terminal import PROMPT, shell

from tailgate.guest import kernels, machine, qemu
from tailgate.spec import drive as drives

pytestmark = pytest.mark.vm


def held(said: str) -> int:
    """How often the bound held a request back, by /proc/tailgate-k2."""
    [times] = re.findall(r"^vflash0 bound_held (\d+)\s*$", said, re.MULTILINE)
    return int(times)


def test_k2_in_a_shell_by_the_readme() -> None:
    _, commands = blocks("README.md", "See it")
    with shell("--smp", "1") as terminal:
        said = ""
        for command in commands.splitlines():
            terminal.type(f"{command}\n".encode())
            said = terminal.until(PROMPT).decode()
            terminal.type(b"echo status $?\n")
            terminal.until(b"\nstatus ")
            status = terminal.until(PROMPT).decode().strip()
            assert status == "0", f"{command}\n{said}"
    assert held(said) > 0


def test_a_scheduler_for_kernels_by_its_page(tmp_path: Path) -> None:
    """README's commands for a machine of one's own build the modules, and the copy of `fifo` with them."""
    checkout = Checkout(tmp_path / "tailgate")
    copy, *_, run = blocks("docs/adding-a-scheduler.md", "Start from a copy")
    checkout.sh(copy)
    kernel = kernels.resolve(["stable"], print)[0]
    commands = "".join(blocks("README.md", "Use it on your machine"))
    build, *others = commands.splitlines(keepends=True)
    checkout.sh(build, {"KDIR": str(kernel.headers), "BTF": str(kernel.btf)})
    built = checkout.at / "build" / kernel.release
    assert (built / "mine.ko").is_file()

    switch_on, bound, check, undo = ("".join(others).replace("nvme0n1", "vflash0")).splitlines()
    load = "ionice -c 1 -n 0 fio --name=a --filename=/dev/vflash0 --rw=randread --bs=64k --direct=1"
    load += " --ioengine=libaio --iodepth=32 --number_ios=2000 > /dev/null"
    _, drive = drives.load("970evo")
    parameters = " ".join(drives.module_arguments(drive, {}, dilation=1, seed=1))
    script = f"""set -e
insmod /lib/modules/extra/vflash.ko {parameters}
cd /checkout
{switch_on}
{bound}
{load}
{{
{check}
}} > /tmp/counters
emit counters /tmp/counters
{undo}
! grep '^k2 ' /proc/modules
"""
    said: dict[str, str] = {}
    outcome = machine.run(
        qemu.VirtualMachine(kernel),
        machine.Job(
            script,
            files={f"checkout/build/{kernel.release}/k2.ko": built / "k2.ko"},
            module_files=[built / "vflash.ko"],
        ),
        tmp_path / "guest",
        lambda name, content: said.update({name: content.decode()}),
    )
    assert outcome.reason == "ok", outcome.complaint
    assert held(said["counters"]) > 0, said["counters"]
    assert re.search(r"^vflash0 level0\.inserted 2000$", said["counters"], re.MULTILINE)

    said_of_parts = checkout.sh(run)
    assert re.search(r"^1 passed", said_of_parts, re.MULTILINE), said_of_parts
