# SPDX-License-Identifier: GPL-2.0-only
"""A new user's path, by the documents' own commands: K2 in `tailgate vm` and on a machine, a new module."""

import re
from pathlib import Path

import pytest
from tests.unit.checkout import Checkout
from tests.unit.documents import blocks
from tests.unit.programs import ROOT
from tests.vm.terminal import PROMPT, shell

from tailgate.guest import kernels, machine, qemu
from tailgate.spec import drive as drives

pytestmark = pytest.mark.vm
#: Those that share a copy of the checkout, and what is built there.
one_worker = pytest.mark.xdist_group("stranger")


def held(said: str) -> int:
    """How often the bound held a request back, by /proc/tailgate-k2."""
    [times] = re.findall(r"^vflash0 bound_held (\d+)\s*$", said, re.MULTILINE)
    return int(times)


def test_k2_in_a_shell_by_the_readme() -> None:
    _, commands = blocks("README.md", "See it")
    with shell() as terminal:
        said = ""
        for command in commands.splitlines():
            terminal.type(f"{command}\n".encode())
            said = terminal.until(PROMPT).decode()
            terminal.type(b"echo status $?\n")
            terminal.until(b"\nstatus ")
            # A command in the background that has ended meanwhile is told after the status.
            status, *_ = terminal.until(PROMPT).decode().split()
            assert status == "0", f"{command}\n{said}"
    assert held(said) > 0


@pytest.fixture(scope="module")
def stable() -> kernels.Kernel:
    return kernels.resolve(["stable"], print)[0]


@pytest.fixture(scope="module")
def checkout(stable: kernels.Kernel, tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """With a copy of `fifo` by its page, and modules built for a guest's kernel by README's command."""
    made = Checkout(tmp_path_factory.mktemp("stranger") / "tailgate")
    made.sh(blocks("docs/adding-a-scheduler.md", "Start from a copy")[0])
    build = blocks("README.md", "Use it on your machine")[-1].splitlines()[0]
    made.sh(build, {"KDIR": str(stable.headers), "BTF": str(stable.btf)})
    return made


@one_worker
def test_k2_on_a_machine_by_the_readme(checkout: Checkout, stable: kernels.Kernel, tmp_path: Path) -> None:
    """The guest is the machine, and vflash0 its drive."""
    commands = blocks("README.md", "Use it on your machine")[-1].replace("nvme0n1", "vflash0")
    _, look, switch_on, bound, check, undo = commands.splitlines()
    [urgent] = re.findall(r"`(ionice .*) COMMAND`", (ROOT / "README.md").read_text())
    _, drive = drives.load("970evo")
    parameters = " ".join(drives.module_arguments(drive, {}, dilation=1, seed=1))
    script = f"""
set -e
insmod /lib/modules/extra/vflash.ko {parameters}
cd /checkout
{look}
{switch_on}
{bound}
fio --name=b --filename=/dev/vflash0 --rw=randread --bs=64k --direct=1 --ioengine=libaio --iodepth=32 \\
	--runtime=1000 --time_based > /tmp/b &
{urgent} fio --name=a --filename=/dev/vflash0 --rw=randread --bs=64k --direct=1 --thinktime=2ms \\
	--number_ios=1000
kill $!
wait
{{
{check}
}} > /tmp/check
emit check /tmp/check
cat /proc/tailgate-k2 > /tmp/counters
emit counters /tmp/counters
{undo}
! grep '^k2 ' /proc/modules
"""
    built = checkout.at / "build" / stable.release
    job = machine.Job(
        script,
        files={f"checkout/build/{stable.release}/k2.ko": built / "k2.ko"},
        module_files=[built / "vflash.ko"],
    )
    said: dict[str, str] = {}
    outcome = machine.run(
        qemu.VirtualMachine(stable),
        job,
        tmp_path,
        lambda name, content: said.update({name: content.decode()}),
    )
    assert outcome.reason == "ok", outcome.complaint
    assert held(said["check"]) > 0, said["check"]
    assert re.search(r"^vflash0 level0\.inserted 1000$", said["counters"], re.MULTILINE), said["counters"]


@one_worker
def test_a_scheduler_in_a_guest_by_its_page(checkout: Checkout) -> None:
    """The copy of `fifo` carries data as it should: one part of the guests' tests."""
    said = checkout.sh(blocks("docs/adding-a-scheduler.md", "Start from a copy")[-1])
    assert re.search(r"^1 passed", said, re.MULTILINE), said


@one_worker
def test_an_experiment_in_guests_by_its_page(checkout: Checkout) -> None:
    """The lab builds the copy of `fifo`, loads it, and compares it with others."""
    job, _, by_hand, _ = blocks("CONTRIBUTING.md", "Add an experiment of your own")
    checkout.write("own/own.fio", job)
    checkout.write("own/own.toml", by_hand)
    added, _, in_guests = blocks("docs/adding-a-scheduler.md", "Start from a copy")[2].splitlines()
    assert "mine-4" in checkout.report_of(f"{added}\n{in_guests}")
