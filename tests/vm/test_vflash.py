# SPDX-License-Identifier: GPL-2.0-only
"""The block device vflash on stock kernels: the steps of two scripts; in virtual time, that it keeps time."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from tailgate.guest import kernels, labels, machine, modules, qemu
from tailgate.guest.machine import Job, Outcome
from tailgate.guest.qemu import VirtualMachine

HERE = Path(__file__).parent
#: fio, the system call and the interrupt: what a request takes beyond the drive, in virtual microseconds.
HOST_US = 15


def run(where: VirtualMachine, script: str, out: Path) -> tuple[Outcome, dict[str, bytes]]:
    """The outcome of the script in a machine that has vflash and k2, and what it emitted."""
    built = modules.build(where.kernel)
    records: dict[str, bytes] = {}
    job = Job(
        script,
        modules=("ext4", "crc32c_generic", "mq-deadline"),
        module_files=[built / "vflash.ko", built / "k2.ko"],
        programs=("fio", "mke2fs", "blkdiscard"),
    )
    return machine.run(where, job, out, records.__setitem__), records


#: One kernel, as the schedulers' parts use the drive on the others; with `make vm-test-all` every kernel.
SOME: tuple[str, ...] = labels.LABELS if "TAILGATE_ALL_MACHINES" in os.environ else ("stable",)
ORDINARY: tuple[str, ...] = labels.ORDINARY
#: With `make vm-test-debug` kernels that look for faults, which need memory for their own accounts.
MEMORY_MIB = 1024
if "TAILGATE_DEBUG_KERNELS" in os.environ:
    SOME = ORDINARY = labels.DEBUG
    MEMORY_MIB = 2048


@pytest.mark.vm
@pytest.mark.parametrize(
    ("steps", "label", "mode"),
    [("vflash.sh", label, "tcg") for label in SOME]
    + [("vflash_attachments.sh", label, "icount") for label in ORDINARY],
)
def test_device(steps: str, label: str, mode: qemu.Mode, tmp_path: Path) -> None:
    script = "".join((HERE / name).read_text(encoding="utf-8") for name in ("vflash_lib.sh", steps))
    kernel = kernels.resolve([label], print)[0]
    outcome, _ = run(VirtualMachine(kernel, mode=mode, smp=2, memory_mib=MEMORY_MIB), script, tmp_path)
    said = outcome.complaint + outcome.log.read_text(encoding="utf-8")[-3000:]
    assert outcome.reason == "ok", said


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


def beside_readers(name: str, scheduler: str, attachment: int, bound: int) -> list[str]:
    """Lines of a script: a real-time reader beside 32 reads outstanding, of 1 ms each."""
    drive = f"attachment={attachment} dies=1 slots=1 read_ns=900000 read_fixed_ns=100000 transfer_ns=0"
    return [
        f"insmod /lib/modules/extra/vflash.ko {drive}",
        f"echo {scheduler} > /sys/block/vflash0/queue/scheduler",
        "echo 128 > /sys/block/vflash0/queue/nr_requests",
        *([f"echo {bound} > /sys/block/vflash0/queue/iosched/inflight_max"] if bound else []),
        "fio --eta=never --output-format=json --output=/tmp/out --filename=/dev/vflash0 --direct=1 --bs=4k "
        "--rw=randread --exitall --name=crowd --ioengine=libaio --iodepth=32 --time_based --runtime=60 "
        "--name=rt --startdelay=1 --ioengine=psync --prioclass=1 --thinktime=5000 --number_ios=60",
        f"emit {name} /tmp/out",
        "rmmod vflash",
    ]


@pytest.mark.vm
@pytest.mark.parametrize("label", labels.ORDINARY)
def test_what_the_driver_has_taken_is_not_overtaken(label: str, tmp_path: Path) -> None:
    """A request waits for one command behind usb-storage, whatever the scheduler's bound.

    Behind eMMC's driver for as many as the bound, of which one is in the card and one is prepared.
    """
    waits = {"usb.k2": (1, 64, 1), "usb.mq-deadline": (1, 0, 1), "mmc1.k2": (2, 1, 1), "mmc2.k2": (2, 2, 2)}
    script = ["set -e", "insmod /lib/modules/extra/k2.ko"]
    for name, (attachment, bound, _) in waits.items():
        script += beside_readers(name, name.partition(".")[2], attachment, bound)
    outcome, records = run(
        VirtualMachine(kernels.resolve([label], print)[0], smp=1), "\n".join(script), tmp_path
    )
    assert outcome.reason == "ok", outcome.complaint
    for name, (*_, others) in waits.items():
        rt = next(job for job in json.loads(records[name])["jobs"] if job["jobname"] == "rt")
        times = rt["read"]["clat_ns"]
        assert times["max"] / 1000 <= (others + 1) * (1000 + 2 * HOST_US), (name, times["max"])
        assert times["mean"] / 1000 >= others * 1000, (name, times["mean"])


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
@pytest.mark.parametrize("label", labels.LABELS)
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
    where = VirtualMachine(kernels.resolve([label], print)[0], smp=1)
    outcome, records = run(where, "\n".join(script), tmp_path)
    assert outcome.reason == "ok", outcome.complaint
    took = {name: json.loads(content)["jobs"][0] for name, content in records.items()}
    for name, (load, in_drive_us) in LOADS.items():
        side = "write" if "randwrite" in load else "read"
        for k in (1, 10):
            mean_us = took[f"{name}.{k}"][side]["clat_ns"]["mean"] / 1000
            assert k * in_drive_us <= mean_us <= k * in_drive_us + HOST_US, (name, k, mean_us)
    assert took["slots.10"]["read"]["iops"] == pytest.approx(1e6 / 604, rel=0.03)
