# SPDX-License-Identifier: GPL-2.0-only
"""The block device vflash on stock kernels: the steps of vflash.sh; in virtual time, that it keeps time."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tailgate import kernels, modules
from tailgate.vm import machine
from tailgate.vm.machine import Job, Machine, Outcome

HERE = Path(__file__).parent
#: fio, the system call and the interrupt: what a request takes beyond the drive, in virtual microseconds.
HOST_US = 15


def run(where: Machine, script: str, out: Path) -> tuple[Outcome, dict[str, bytes]]:
    """The outcome of the script in a machine that has vflash, and what it emitted."""
    records: dict[str, bytes] = {}
    job = Job(
        script,
        modules=("ext4", "crc32c_generic", "mq-deadline"),
        module_files=[modules.build(where.kernel) / "vflash.ko"],
        programs=("fio", "mke2fs", "blkdiscard"),
    )
    return machine.run(where, job, out, records.__setitem__), records


@pytest.mark.vm
@pytest.mark.parametrize("label", kernels.LABELS)
def test_device(label: str, tmp_path: Path) -> None:
    where = Machine(kernels.resolve([label], print)[0], mode="tcg", smp=2)
    outcome, _ = run(where, (HERE / "vflash.sh").read_text(encoding="utf-8"), tmp_path)
    assert outcome.reason == "ok", outcome.complaint + outcome.log.read_text(encoding="utf-8")[-3000:]


TIMES = {
    "read_ns": 50000,
    "read_fixed_ns": 10000,
    "write_fixed_ns": 8000,
    "transfer_ns": 100,
    "program_ns": 200000,
}

#: Load, and what a request takes in the drive, in microseconds.
LOADS: Mapping[str, tuple[str, float]] = {
    "read": ("--rw=randread --bs=4k", 60.4),
    "write": ("--rw=randwrite --bs=4k", 8.4),
    "one-die": ("--rw=randread --bs=64k", 10 + 16 * 50 + 6.4),
}


def timed(name: str, parameters: Mapping[str, int], load: str) -> list[str]:
    """Lines of a script that measure a load of 4 KiB on such a drive, unless it says otherwise."""
    arguments = " ".join(f"{key}={value}" for key, value in parameters.items())
    return [
        f"insmod /lib/modules/extra/vflash.ko {arguments}",
        "fio --eta=never --output-format=json --output=/tmp/out --name=r --filename=/dev/vflash0 --direct=1 "
        f"--ioengine=libaio --bs=4k {load}",
        f"emit {name} /tmp/out",
        "rmmod vflash",
    ]


@pytest.mark.vm
@pytest.mark.parametrize("label", kernels.LABELS)
def test_times(label: str, tmp_path: Path) -> None:
    """A request takes what the parameters say, `dilation` times; one slot serves one request at a time."""
    script = ["set -e"]
    for k in (1, 10):
        for name, (load, _) in LOADS.items():
            dies = 1 if name == "one-die" else 8
            script += timed(f"{name}.{k}", {**TIMES, "dies": dies, "dilation": k}, f"--number_ios=200 {load}")
    script += timed(
        "slots.10", {**TIMES, "slots": 1, "dilation": 10}, "--iodepth=16 --number_ios=400 --rw=randread"
    )
    where = Machine(kernels.resolve([label], print)[0], smp=1)
    outcome, records = run(where, "\n".join(script), tmp_path)
    assert outcome.reason == "ok", outcome.complaint
    took = {name: json.loads(content)["jobs"][0] for name, content in records.items()}
    for name, (load, in_drive_us) in LOADS.items():
        side = "write" if "randwrite" in load else "read"
        for k in (1, 10):
            mean_us = took[f"{name}.{k}"][side]["clat_ns"]["mean"] / 1000
            assert k * in_drive_us <= mean_us <= k * in_drive_us + HOST_US, (name, k, mean_us)
    assert took["slots.10"]["read"]["iops"] == pytest.approx(1e6 / 604, rel=0.03)
