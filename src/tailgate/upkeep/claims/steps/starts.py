# SPDX-License-Identifier: GPL-2.0-only
"""K2: how soon `rt_target_us` `auto` finds its place, from a cold start."""

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import pairwise
from statistics import median
from typing import Any

from tailgate.base.command import log
from tailgate.base.errors import UsageError
from tailgate.base.locks import only_one
from tailgate.base.paths import cache_dir
from tailgate.guest import machine, modules
from tailgate.guest.kernels import Kernel, resolve
from tailgate.guest.qemu import VirtualMachine
from tailgate.simulator.executor import executor
from tailgate.simulator.simulation import Simulation, simulate
from tailgate.spec import drive as drives
from tailgate.upkeep.claims import simulations
from tailgate.upkeep.claims.lab import Lab
from tailgate.upkeep.claims.quantity import exact
from tailgate.upkeep.claims.results import Figure, Source
from tailgate.upkeep.claims.steps.auto import EXPERIMENT

#: Starts from cold, and the length of each window in which the background is measured, s.
STARTS, WINDOW_S = 20, 0.25
#: The background has found its place when it has this share of what it has in the second half of the start.
PLACE = 0.9

#: Simulated drive -> windows of a start, and loads. On noisy, more than one in a hundred reads of 64 KiB meet
#: a rare long read.
SIMULATED: Mapping[str, tuple[int, Sequence[str]]] = {
    "970evo": (32, ("4k-closed", "4k-clock", "4k-poisson", "64k-closed")),
    "noisy": (320, ("64k-closed", "64k-clock")),
}
#: Requests of the reader in a second, at most.
REQUESTS_S = 600

DRIVE, KERNEL = "970evo", "backports"
#: Guests at a time; each has its share of the starts.
GUESTS = 2
#: Windows of a start in a guest.
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


def found_after_s(read: Sequence[float]) -> float:
    """When the background has found its place, s, from what was read by the ends of windows; the length of
    the start, if not in its first half.
    """
    windows = [after - before for before, after in pairwise(read)]
    half = len(windows) // 2
    steady = PLACE * sum(windows[half:]) / (len(windows) - half)
    found = (number for number, of_window in enumerate(windows[:half], 1) if of_window >= steady)
    return WINDOW_S * next(found, len(windows))


def simulated_start(simulated: Simulation, windows: int) -> float:
    """When the background has found its place in a simulation, s from the first request of the reader.

    Before it, the background runs alone for a part of a window.
    """
    alone_ns = max(process.start_ns for process in simulated.processes)
    of_window = round(WINDOW_S * 1e9) // alone_ns
    read: list[int] = []

    def watch(sample: Any) -> Mapping[str, int]:
        read.append(sample.completed[0].bytes - sample.real_time.bytes)
        return {}

    simulate(replace(simulated, limit_ns=(windows * of_window + 2) * alone_ns), alone_ns, watch)
    return found_after_s(read[: windows * of_window + 1 : of_window])


def spread(drive: str, took: Mapping[str, Sequence[float]], source: Source) -> Iterator[Figure]:
    """The median and the worst of the starts of each load."""
    for load, seconds in took.items():
        start = f"auto-found/{source.target}/{drive}/{load}"
        yield Figure(f"{start}/median-s", exact(median(seconds), len(seconds)), source)
        yield Figure(f"{start}/worst-s", exact(max(seconds), len(seconds)), source)


def auto_found(lab: Lab) -> Iterator[Figure]:
    """K2: how soon `rt_target_us` `auto` finds its place, from a cold start, 500 requests a second."""
    seeds = tuple(range(1, STARTS + 1))
    source = Source("tailgate claims auto_found", "sim", "virtual", seeds)
    for drive, (windows, loads) in SIMULATED.items():
        samples = round(REQUESTS_S * (windows + 1) * WINDOW_S)
        starts = [simulations.of(EXPERIMENT, drive, seed=seed, rt_samples=samples) for seed in seeds]
        with executor(os.cpu_count() or 1, None) as pool:
            took = {
                load: list(
                    pool.map(
                        partial(simulated_start, windows=windows), [s[load, "auto", 1.0] for s in starts]
                    )
                )
                for load in loads
            }
        yield from spread(drive, took, source)


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
    yield from spread(DRIVE, {"64k-closed": took}, source)


STEPS = (auto_found, auto_found_in_guest)
