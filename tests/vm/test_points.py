# SPDX-License-Identifier: GPL-2.0-only
"""The script that measures points in a guest: what it sends, what it says where a setting is not taken."""

import shlex
from pathlib import Path

import pytest

from tailgate.guest import kernels, machine, modules
from tailgate.guest.kernels import Kernel
from tailgate.guest.machine import Job, Outcome
from tailgate.guest.qemu import VirtualMachine
from tailgate.targets import vm_chunk

pytestmark = pytest.mark.vm

SCRIPT = Path(vm_chunk.__file__).with_name("points.sh")
JOB = b"[reader]\nfilename=/dev/vflash0\ndirect=1\nrw=randread\nbs=4k\nnumber_ios=20\nsize=1m\n"
DRIVE = ("capacity_mib=64", "read_ns=50000")


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    return kernels.resolve(["backports"], print)[0]


def run(
    kernel: Kernel,
    out: Path,
    scheduler: str,
    settings: str,
    cgroups: str = "",
    drive: tuple[str, ...] = DRIVE,
) -> tuple[Outcome, dict[str, bytes]]:
    """A guest that measures one point: how it ended, and what it sent."""
    names = {"SCHEDULER": scheduler, "MODULE": "modprobe mq-deadline", "READER": "reader", "TIMED": ""}
    script = "".join(
        [
            *(f"{name}={shlex.quote(value)}\n" for name, value in names.items()),
            SCRIPT.read_text(),
            f"{shlex.join(['point', 'p0', *drive])}\n",
        ]
    )
    files: dict[str, Path | bytes] = {"/lab/settings": settings.encode(), "/lab/p0.fio": JOB}
    if cgroups:
        files["/lab/cgroups"] = cgroups.encode()
    sent: dict[str, bytes] = {}
    job = Job(
        script,
        files=files,
        modules=["mq-deadline"],
        module_files=[modules.build(kernel) / "vflash.ko"],
        limit_s=60,
    )
    return machine.run(VirtualMachine(kernel), job, out, sent.__setitem__), sent


def test_a_point_sends_its_records(kernel: Kernel, tmp_path: Path) -> None:
    outcome, sent = run(
        kernel, tmp_path, "mq-deadline", "nr_requests 32\niosched/fifo_batch 4\n", "tenants/a\n"
    )
    assert outcome.reason == "ok", outcome.complaint
    assert b'"total_ios" : 20' in sent["p0.fio.json"]
    settings = sent["p0.settings"].decode().splitlines()
    assert "nr_requests:32" in settings
    assert "iosched/fifo_batch:4" in settings
    assert any(line.startswith("scheduler:") and "[mq-deadline]" in line for line in settings)


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"settings": "nr_requests many\n"}, "nr_requests: cannot write many"),
        ({"settings": "iosched/no_such_knob 1\n"}, "iosched/no_such_knob: cannot write 1"),
        # Taken without a word, and not what was told: a point would be measured with another setting.
        ({"settings": "max_sectors_kb 3\n"}, "max_sectors_kb"),
        ({"settings": "", "scheduler": "no-such"}, "no scheduler no-such, only"),
        ({"settings": "", "cgroups": "a io.weight 0\n"}, "/cg/a/io.weight"),
        ({"settings": "", "drive": ("capacity_mib=0",)}, "vflash does not load with capacity_mib=0"),
    ],
    ids=["value", "knob", "other", "scheduler", "cgroup", "drive"],
)
def test_a_machine_that_is_not_as_told_measures_nothing(
    kernel: Kernel, tmp_path: Path, told: dict[str, str], words: str
) -> None:
    outcome, sent = run(kernel, tmp_path, **{"scheduler": "mq-deadline", **told})  # type: ignore[arg-type]
    assert outcome.reason == "job failed"
    assert words in outcome.complaint
    assert "p0.fio.json" not in sent
