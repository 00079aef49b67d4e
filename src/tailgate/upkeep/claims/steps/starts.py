# SPDX-License-Identifier: GPL-2.0-only
"""K2 in a guest: how soon `rt_target_us` `auto` finds its place, from a cold start."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from statistics import median

from tailgate.base.command import log
from tailgate.base.errors import UsageError
from tailgate.base.locks import only_one
from tailgate.base.paths import cache_dir
from tailgate.guest import machine, modules
from tailgate.guest.kernels import Kernel, resolve
from tailgate.guest.qemu import VirtualMachine
from tailgate.spec import drive as drives
from tailgate.upkeep.claims.lab import Lab
from tailgate.upkeep.claims.quantity import exact
from tailgate.upkeep.claims.results import Figure, Source
from tailgate.upkeep.claims.steps.auto import STARTS, WINDOW_S, place_s

DRIVE, KERNEL = "970evo", "backports"
#: Guests at a time; each has its share of the starts.
GUESTS = 2
#: Windows of a start. The second half of them is the place to be found.
WINDOWS = 16
#: Requests of 64 KiB: with smaller ones a guest is slower than the drive.
SCRIPT = """\
insmod /lib/modules/extra/vflash.ko {drive}
insmod /lib/modules/extra/k2.ko
load="--filename=/dev/vflash0 --direct=1 --rw=randread --bs=64k --norandommap --time_based --runtime=100000
	--eta=never --output-format=terse --thread"
fio $load --name=background --ioengine=libaio --iodepth=32 --numjobs=3 > /dev/null &
sector() {{ # that the drive has read
	awk '{{ print $3 }}' /sys/block/vflash0/stat
}}
for start in $(seq {starts}); do
	echo none > /sys/block/vflash0/queue/scheduler
	echo k2 > /sys/block/vflash0/queue/scheduler
	echo auto > /sys/block/vflash0/queue/iosched/rt_target_us || fail "no target"
	before=$(sector)
	usleep 500000
	[ $(sector) -gt $before ] || fail "no background"
	fio $load --name=rt --ioengine=psync --thinktime=2ms --prioclass=1 --prio=0 > /dev/null &
	until grep -q "constrains 1" /proc/tailgate-k2; do usleep 1000; done
	for window in $(seq 0 {windows}); do
		sector >> /tmp/sectors
		usleep {window_us}
	done
	kill -9 $!
	wait $!
	emit start-$start /tmp/sectors
	rm /tmp/sectors
done
"""


def found_after_s(sectors: Sequence[int]) -> float:
    """When the background has found its place, s, from what the drive had read at the ends of windows."""
    read = [after - before for before, after in pairwise(sectors)]
    steady = sum(read[WINDOWS // 2 :]) / (WINDOWS - WINDOWS // 2)
    return place_s(read[: WINDOWS // 2], steady, WINDOWS * WINDOW_S)


def starts_of(kernel: Kernel, guest: int) -> list[float]:
    """How long the starts of one guest took, s. UsageError if the guest fails."""
    took: list[float] = []

    def on_record(name: str, content: bytes) -> None:
        took.append(found_after_s([int(line) for line in content.split()]))
        log().print(f"guest {guest}, {name}: found after {took[-1]:g} s", highlight=False)

    built = modules.build(kernel)
    arguments = drives.module_arguments(drives.load(DRIVE)[1], {}, 1, guest)
    job = machine.Job(
        script=SCRIPT.format(
            drive=" ".join(arguments),
            starts=STARTS // GUESTS,
            windows=WINDOWS,
            window_us=round(WINDOW_S * 1e6),
        ),
        module_files=[built / "k2.ko", built / "vflash.ko"],
        limit_s=600,
        silent_s=1800,
    )
    place = cache_dir() / "starts" / str(guest)
    with only_one(place, "starting auto in"):
        outcome = machine.run(VirtualMachine(kernel), job, place, on_record)
    if outcome.reason != "ok":
        raise UsageError(f"guest {guest} ended early ({outcome.reason}): see {outcome.log}")
    return took


def auto_found_in_guest(lab: Lab) -> Iterator[Figure]:
    """K2: how soon `rt_target_us` `auto` finds its place in a guest, at up to 500 requests a second."""
    kernel = resolve([KERNEL], log().print)[0]
    with ThreadPoolExecutor(GUESTS) as pool:
        some = pool.map(lambda guest: starts_of(kernel, guest), range(1, GUESTS + 1))
        took = [seconds for of_guest in some for seconds in of_guest]
    source = Source("tailgate claims auto_found_in_guest", "vm", "virtual", tuple(range(1, GUESTS + 1)))
    start = f"auto-found/vm/{DRIVE}/64k-closed"
    yield Figure(f"{start}/median-s", exact(median(took), len(took)), source)
    yield Figure(f"{start}/worst-s", exact(max(took), len(took)), source)


STEPS = (auto_found_in_guest,)
