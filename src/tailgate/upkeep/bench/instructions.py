# SPDX-License-Identifier: GPL-2.0-only
"""Instructions per I/O of each scheduler, side by side on one kernel.

Method: a guest with one CPU in virtual time, where an instruction takes a nanosecond; null_blk; 4 KiB random
direct reads by `iobench.c`; elapsed time less idle time, divided by the number of I/Os. A scheduler adds the
difference between its figure and that of `none` in the same boot. Merging and statistics are on, writeback
throttling is off.

Instructions are not time: cache misses and contention are not included.
"""

import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from string import Template

from rich.console import Console

from tailgate.base.errors import UsageError
from tailgate.base.locks import only_one
from tailgate.base.paths import ROOT, cache_dir
from tailgate.guest import machine, modules
from tailgate.guest.kernels import Kernel, resolve
from tailgate.guest.qemu import VirtualMachine
from tailgate.upkeep.bench import costs
from tailgate.upkeep.bench.contenders import (
    CONTENDERS,
    LOADS,
    ON,
    OURS,
    STEPS,
    WITHOUT,
    Contender,
    Load,
    before,
)
from tailgate.upkeep.bench.result import Result

# The kernel still works for a while after booting; waiting costs nothing in virtual time.
PREPARE = """\
modprobe bfq; modprobe kyber-iosched
sleep 20
queue=/sys/block/nullb0/queue
"""
LOAD_DEVICE = Template("""\
modprobe null_blk queue_mode=2 irqmode=$irqmode completion_nsec=$completion_ns submit_queues=1 \\
	hw_queue_depth=$slots nr_devices=1 gb=1 bs=4096
""")
MEASURE = Template("""\
$load_module
echo $scheduler > $$queue/scheduler
echo 0 > $$queue/wbt_lat_usec
echo 0 > $$queue/nomerges
[ $scheduler = none ] || echo 256 > $$queue/nr_requests
$settings
${ionice}iobench /dev/nullb0 $depth $ios $batch > /tmp/result || fail "iobench on $scheduler"
emit "$load/$contender" /tmp/result
echo none > $$queue/scheduler
$unload_module
""")

# The virtual drive with about null_blk's latency and no waiting for a die: the difference is its own code.
MEASURE_VFLASH = """\
insmod /lib/modules/extra/vflash.ko capacity_mib=1024 dies=255 read_ns=0 read_fixed_ns=100000
echo none > /sys/block/vflash0/queue/scheduler
iobench /dev/vflash0 32 30000 1 > /tmp/result || fail "iobench on vflash"
emit "qd32/vflash" /tmp/result
rmmod vflash
"""


def script(loads: Sequence[Load], contenders: Sequence[Contender]) -> str:
    """The guest's script: every load for every contender, in one boot."""
    parts = [PREPARE]
    for load in loads:
        parts.append(
            LOAD_DEVICE.substitute(irqmode=load.irqmode, completion_ns=load.completion_ns, slots=load.slots)
        )
        for c in contenders:
            if c.loads and load.name not in c.loads:
                continue
            settings = list(c.settings)
            module = c.module
            if c.scheduler in OURS:
                settings.insert(0, (f"iosched/{OURS[c.scheduler]}", str(load.bound)))
                module = module or f"{c.scheduler}.ko"
            parts.append(
                MEASURE.substitute(
                    load_module=f"insmod /lib/modules/extra/{module}" if module else "",
                    unload_module=f"rmmod {c.scheduler}" if module else "",
                    scheduler=c.scheduler,
                    settings="\n".join(f"echo {value} > $queue/{name}" for name, value in settings),
                    ionice="ionice -c 1 -n 0 " if c.rt else "",
                    depth=load.depth,
                    ios=load.ios,
                    batch=load.batch,
                    load=load.name,
                    contender=c.name,
                )
            )
        parts.append("rmmod null_blk\n")
    return "".join([*parts, MEASURE_VFLASH])


def compile_guest_program(name: str, folder: Path) -> Path:
    """A static executable of `<name>.c`."""
    out = folder / name
    command = ["cc", "-O2", "-static", "-o", str(out), str(Path(__file__).parent / f"{name}.c")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UsageError(f"{name}.c does not compile: {done.stderr.strip().splitlines()[0]}")
    return out


def has_commit(commit: str) -> bool:
    """Whether this checkout's history has a commit; a shallow clone may not."""
    command = ["git", "-C", str(ROOT), "rev-parse", "--quiet", "--verify", f"{commit}^{{commit}}"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@contextmanager
def module_of(kernel: Kernel, commit: str) -> Iterator[Path]:
    """k2.ko of a commit, built on demand. UsageError if there is no such commit."""
    if not has_commit(commit):
        raise UsageError(f"there is no commit {commit} here: fetch the whole history")
    with tempfile.TemporaryDirectory() as scratch:
        folder, tar = Path(scratch) / "checkout", Path(scratch) / "tar"
        command = ["git", "-C", str(ROOT), "archive", "--output", str(tar), commit]
        done = subprocess.run(
            [*command, "kernel", "sched", "flash"], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise UsageError(f"k2 of {commit} cannot be built: {done.stderr.strip().splitlines()[0]}")
        folder.mkdir()
        subprocess.run(["tar", "-x", "-C", str(folder), "-f", str(tar)], check=True)
        yield modules.build(kernel, out=Path(scratch) / "built", checkout=folder) / "k2.ko"


def count(kernel: Kernel, quick: bool, since: Sequence[str]) -> dict[str, dict[str, float]]:
    """Instructions per I/O by load and contender on one kernel; `since`: commits of k2 to compare with."""
    built = modules.build(kernel)
    # kernel/Makefile uses KCFLAGS itself
    bare = modules.build(
        kernel, ["KCPPFLAGS=-DK2_STATISTICS=0"], built.with_name(f"{built.name}-without-statistics")
    )
    if (bare / "k2.ko").read_bytes() == (built / "k2.ko").read_bytes():
        raise UsageError(f"{bare}/k2.ko has statistics: what they cost cannot be counted")
    contenders = (*CONTENDERS, *(() if quick else (*WITHOUT, *STEPS, *ON)), *map(before, since))
    figures: dict[str, dict[str, float]] = {load.name: {} for load in LOADS}

    def on_record(name: str, content: bytes) -> None:
        load, _, contender = name.partition("/")
        figures[load][contender] = float(content)

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "k2-bare.ko").write_bytes((bare / "k2.ko").read_bytes())
        more = [folder / "k2-bare.ko"]
        for commit in since:
            with module_of(kernel, commit) as module:
                more.append(folder / before(commit).module)
                more[-1].write_bytes(module.read_bytes())
        job = machine.Job(
            script=script(LOADS, contenders),
            files={"/bin/iobench": compile_guest_program("iobench", folder)},
            modules=("null_blk", "bfq", "kyber-iosched"),
            module_files=(*(built / f"{name}.ko" for name in (*OURS, "fifo", "vflash")), *more),
            programs=(),
            limit_s=600,
            silent_s=1800,
        )
        place = cache_dir() / "bench" / kernel.release
        with only_one(place, "counting instructions in"):
            outcome = machine.run(VirtualMachine(kernel), job, place, on_record)
    if outcome.reason != "ok":
        raise UsageError(
            f"the benchmark on {kernel.release} ended early ({outcome.reason}): see {outcome.log}"
        )
    return figures


def measure(console: Console, labels: Sequence[str], quick: bool, since: Sequence[str] = ()) -> list[Result]:
    """Count on the kernels of these labels in parallel; print a table for each.

    With `since`, commits, k2 of these commits is counted too, built in the same run.
    """

    def say(line: str) -> None:
        console.print(line, highlight=False)

    kernels = resolve(labels, say)
    rows = 1 + len(LOADS) * (len(CONTENDERS) + (0 if quick else len(WITHOUT)) + len(since))
    rows += 0 if quick else len(ON) + len(LOADS) * len(STEPS)
    say(f"bench: {rows} figures on each of {len(kernels)} kernels, about 2 minutes each")
    with ThreadPoolExecutor(len(kernels)) as pool:
        runs = {k: pool.submit(count, k, quick, since) for k in kernels}
        figures = {k: run.result() for k, run in runs.items()}
    out = []
    for kernel, by_load in figures.items():
        console.print(costs.table(kernel, by_load))
        if not quick:
            console.print(costs.price_table(kernel, by_load))
            console.print(costs.part_table(kernel, by_load))
        out += costs.results(kernel, by_load)
    return out
