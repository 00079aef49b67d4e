# SPDX-License-Identifier: GPL-2.0-only
"""`tailgate watch` on a real kernel: the command itself runs in the guest, from the host's files."""

import json
import sys
from pathlib import Path

import pytest

from tailgate.guest import kernels, machine, modules, qemu
from tailgate.spec import drive as drives

pytestmark = pytest.mark.vm

#: Time is virtual, and the drive this much slower than life: Python shares emulated CPUs with fio and the
#: kernel, and starts while the drive is busy.
DILATION = 6
LIMIT_US = 600 * DILATION
#: A reader whose latency a single write more in the drive makes five times as long, and a writer.
SCRIPT = r"""
mkdir -p /host
mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose host /host || fail "no files of the host"
for place in proc sys dev; do mount --bind /$place /host/$place || fail "no /$place"; done
mount -t tmpfs none /host/run # not on /tmp, which the checkout may lie in
export TMPDIR=/run
insmod /lib/modules/extra/k2.ko && insmod /lib/modules/extra/vflash.ko $DRIVE || fail "modules do not load"
until [ -b /dev/vflash0 ]; do usleep 10000; done
echo k2 > /sys/block/vflash0/queue/scheduler
echo 2 > /sys/block/vflash0/queue/nomerges
BOUND=/sys/block/vflash0/queue/iosched/inflight_max
echo 32 > $BOUND
LOAD="--filename=/dev/vflash0 --direct=1 --norandommap --time_based --runtime=100000 --output-format=terse"
fio $LOAD --name=write --rw=write --bs=64k --ioengine=libaio --iodepth=32 > /dev/null &
fio $LOAD --name=read --rw=randread --bs=4k --ioengine=psync --prioclass=1 > /dev/null &
moved() { # FILE: awaits that watch, which says so in the file, has moved a knob
	until grep -q inflight_max $1; do
		kill -0 $pid || { wait $pid; fail "watch ended with $?: $(cat $1 /tmp/json)"; }
		usleep 100000
	done
}
chroot /host $WATCH --seconds 6 --json > /tmp/json 2> /tmp/said &
pid=$!
moved /tmp/said
usleep 1500000
cat /sys/block/vflash0/stat > /tmp/stat
grep "rt_completed\|rt_time_us" /proc/tailgate-k2 > /tmp/rt
usleep 3000000
cat /sys/block/vflash0/stat >> /tmp/stat
grep "rt_completed\|rt_time_us" /proc/tailgate-k2 >> /tmp/rt
wait $pid
echo $? $(cat $BOUND) > /tmp/first
chroot /host $WATCH_RT 2> /tmp/said.rt &
pid=$!
moved /tmp/said.rt
kill $pid
wait $pid
echo $? $(cat $BOUND) > /tmp/second
for file in json said stat rt first said.rt second; do emit $file /tmp/$file; done
"""


def test_it_keeps_a_latency_and_leaves_the_drive_as_it_was(tmp_path: Path) -> None:
    [kernel] = kernels.resolve(["backports"], print)
    built = modules.build(kernel)
    _, drive = drives.load("970evo")
    watch = f"{Path(sys.executable).parent}/tailgate watch vflash0 --keep"
    settings = {
        "DRIVE": " ".join(drives.module_arguments(drive, {}, DILATION, 1)),
        "WATCH": f"{watch} read.lat_us.mean<={LIMIT_US}",
        "WATCH_RT": f"{watch} rt.lat_us.mean<={LIMIT_US}",
    }
    script = "".join(f'{name}="{value}"\n' for name, value in settings.items()) + SCRIPT
    job = machine.Job(
        script,
        modules=("9p", "9pnet_virtio"),
        module_files=[built / "k2.ko", built / "vflash.ko"],
        limit_s=300,
    )
    share = ("-fsdev", "local,id=host,path=/,security_model=none,readonly=on")
    where = qemu.VirtualMachine(
        kernel, smp=2, memory_mib=6144, devices=(*share, "-device", "virtio-9p-pci,fsdev=host,mount_tag=host")
    )
    sent: dict[str, str] = {}

    def keep(name: str, content: bytes) -> None:
        sent[name] = content.decode()

    outcome = machine.run(where, job, tmp_path / "out", keep)
    assert outcome.reason == "ok", outcome.complaint
    assert sent["first"] == "0 32\n", sent["said"]
    assert sent["second"] == "0 32\n", sent["said.rt"]
    answer = json.loads(sent["json"])
    assert answer["restored"] == {"inflight_max": "32"}
    before, after = ([int(field) for field in line.split()] for line in sent["stat"].splitlines())
    mean_us = 1000 * (after[3] - before[3]) / (after[0] - before[0])
    assert mean_us <= 1.1 * LIMIT_US, sent["said"]
    # all reads are of class RT here, and no others: K2's own count of them is the block layer's
    completed, us, completed_then, us_then = (int(line.split()[2]) for line in sent["rt"].splitlines())
    assert completed_then - completed == pytest.approx(after[0] - before[0], rel=0.02)
    assert (us_then - us) / (completed_then - completed) == pytest.approx(mean_us, rel=0.02)
    assert "real-time requests take" in sent["said.rt"]
    bounds = [move["knobs"]["inflight_max"] for move in answer["moves"]]
    assert min(bounds) < 4, sent["said"]
