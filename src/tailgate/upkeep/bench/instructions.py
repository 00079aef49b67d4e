# SPDX-License-Identifier: GPL-2.0-only
"""What an I/O costs in instructions, for each scheduler, side by side on one kernel.

Method: a guest with one CPU in virtual time, where an instruction is a nanosecond; null_blk, 4 KiB random
direct reads by `guest/iobench.c`; elapsed less idle time over the number of I/Os. What a scheduler adds is
its figure less that of `none` in the same boot. Merging and statistics are on, writeback throttling is off.

Instructions are not time: cache misses and contention are not in them.
"""

import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from string import Template

from rich.console import Console
from rich.table import Table

from tailgate.base.errors import UsageError
from tailgate.base.paths import ROOT, cache_dir
from tailgate.guest import machine, modules
from tailgate.guest.kernels import Kernel, resolve
from tailgate.guest.qemu import VirtualMachine
from tailgate.upkeep.bench.result import Result

GUEST = Path(__file__).parent


@dataclass(frozen=True)
class Load:
    """One way to drive the device: null_blk's completion mode, and iobench's arguments."""

    name: str
    irqmode: int  # 1: completion at once, in a soft interrupt; 2: by a timer
    completion_ns: int
    depth: int
    ios: int
    batch: int
    bound: int = 32
    slots: int = 64  # null_blk's hw_queue_depth


@dataclass(frozen=True)
class Contender:
    """A row: a scheduler, with what is different where the share or the price of a feature is measured."""

    name: str
    scheduler: str
    module: str = ""  # other than its own, which is that of OURS
    settings: tuple[tuple[str, str], ...] = ()  # file below queue/, value
    rt: bool = False  # the reader has real-time class
    loads: tuple[str, ...] = ()  # names; empty: all


#: Tailgate's schedulers, and the knob of each that bounds requests in flight.
OURS = {"k2": "inflight_max", "mqfq": "d"}
LOADS = (
    Load("qd1", 1, 0, 1, 20_000, 1),
    Load("qd32", 1, 0, 32, 30_000, 1),
    Load("qd32_batch16", 1, 0, 32, 40_000, 16),
    Load("qd32_bound8", 2, 100_000, 32, 30_000, 1, bound=8),
    # 8 in the drive make the drive the limit, and the CPU sleeps and wakes: here for all contenders alike
    Load("qd32_slots8", 2, 100_000, 32, 30_000, 1, bound=8, slots=8),
)
CONTENDERS = (
    Contender("none", "none"),
    Contender("mq-deadline", "mq-deadline"),
    Contender("kyber", "kyber"),
    Contender("bfq", "bfq"),
    Contender("k2", "k2"),
    Contender("mqfq", "mqfq"),
)
# Each feature of k2 is measured by leaving it out; merging also by leaving it out of `none`.
WITHOUT = (
    Contender("k2 without rt_tags", "k2", settings=(("iosched/rt_tags", "0"),)),
    Contender("k2 without statistics", "k2", module="k2-bare.ko"),
    Contender("k2 without merging", "k2", settings=(("nomerges", "2"),)),
    Contender("none without merging", "none", settings=(("nomerges", "2"),)),
)

FEATURES = ("rt_tags", "statistics", "merging")

# What mqfq does for a request in steps: each contender does more than the one below it.
STEPS = (
    Contender("mqfq by process", "mqfq", settings=(("iosched/flow_by", "process"),)),
    Contender(
        "mqfq by process without merging",
        "mqfq",
        settings=(("iosched/flow_by", "process"), ("nomerges", "2")),
    ),
    Contender("mqfq real-time without merging", "mqfq", settings=(("nomerges", "2"),), rt=True),
)
#: A part of mqfq -> the contender that has it, and the one that has not.
PARTS: Mapping[str, tuple[str, str]] = {
    "cgroup": ("mqfq", STEPS[0].name),
    "merging": (STEPS[0].name, STEPS[1].name),
    "flow, tag and virtual time": (STEPS[1].name, STEPS[2].name),
    "queue, token and the rest": (STEPS[2].name, "none without merging"),
}

# What is off by default, each switched on for itself, with values that hold nothing back here: what is left
# is its price.
SWITCHED_ON: Mapping[str, tuple[str, str]] = {
    "bytes": ("inflight_kib_max", "65536"),
    "ahead": ("bound_mode", "ahead"),
    "debt": ("write_debt_kib_max", "auto"),
    "target": ("rt_target_us", "1000000"),
    "active": ("bound_when", "active"),
    "no_floor": ("be_floor_iops", "0"),
    "discards": ("discard_kib_max", "1024"),
}
#: For the background, and for a real-time reader.
ON_LOADS = {False: "qd32", True: "qd1"}


def on_name(feature: str, rt: bool) -> str:
    """Name of the contender with a feature of SWITCHED_ON, or none of them, switched on."""
    return " ".join(["k2", *([f"with {feature}"] if feature else []), *(["real-time"] if rt else [])])


ON = (
    Contender(on_name("", True), "k2", rt=True, loads=(ON_LOADS[True],)),
    *(
        Contender(
            on_name(feature, rt),
            "k2",
            settings=((f"iosched/{knob}", value),),
            rt=rt,
            loads=(ON_LOADS[rt],),
        )
        for feature, (knob, value) in SWITCHED_ON.items()
        for rt in ON_LOADS
    ),
)


def before(commit: str) -> Contender:
    """k2 as it was at a commit, beside that of this checkout."""
    return Contender(f"k2 before {commit}", "k2", module=f"k2-{commit}.ko")


# Boot-time work of the kernel goes on for a while; waiting is free in virtual time.
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

# The virtual drive with a latency like null_blk's and no die to wait for: what is left is its own code.
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
            ours = c.scheduler in OURS
            if ours:
                settings.insert(0, (f"iosched/{OURS[c.scheduler]}", str(load.bound)))
            module = c.module or f"{c.scheduler}.ko"
            parts.append(
                MEASURE.substitute(
                    load_module=f"insmod /lib/modules/extra/{module}" if ours else "",
                    unload_module=f"rmmod {c.scheduler}" if ours else "",
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
    """A static executable of `guest/<name>.c`."""
    out = folder / name
    command = ["cc", "-O2", "-static", "-o", str(out), str(GUEST / f"{name}.c")]
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
    """k2.ko of a commit, built now. UsageError if there is no such commit."""
    if not has_commit(commit):
        raise UsageError(f"there is no commit {commit} here: fetch the whole history")
    with tempfile.TemporaryDirectory() as scratch:
        folder, tar = Path(scratch) / "checkout", Path(scratch) / "tar"
        command = ["git", "-C", str(ROOT), "archive", "--output", str(tar), commit]
        subprocess.run([*command, "kernel", "sched", "flash"], check=True)
        folder.mkdir()
        subprocess.run(["tar", "-x", "-C", str(folder), "-f", str(tar)], check=True)
        yield modules.build(kernel, out=Path(scratch) / "built", checkout=folder) / "k2.ko"


def count(kernel: Kernel, quick: bool, since: Sequence[str]) -> dict[str, dict[str, float]]:
    """Instructions per I/O by load and contender on one kernel; `since`: commits of k2 to be beside."""
    built = modules.build(kernel)
    bare = modules.build(
        kernel, ["KCFLAGS=-DK2_STATISTICS=0"], built.with_name(f"{built.name}-without-statistics")
    )
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
            module_files=(*(built / f"{name}.ko" for name in (*OURS, "vflash")), *more),
            programs=(),
            limit_s=600,
            wall_s=1800,
        )
        outcome = machine.run(VirtualMachine(kernel), job, cache_dir() / "bench" / kernel.release, on_record)
    if outcome.reason != "ok":
        raise UsageError(
            f"the benchmark on {kernel.release} ended early ({outcome.reason}): see {outcome.log}"
        )
    return figures


def results(kernel: Kernel, figures: dict[str, dict[str, float]]) -> list[Result]:
    """Entries of bench.json for one kernel: totals, what each adds to none, and ours by mq-deadline's."""
    series = kernel.series.replace(".", "_")
    out = []
    for load, by_contender in figures.items():
        none = by_contender["none"]
        deadline = by_contender["mq-deadline"] - none
        context = f"null_blk, 4 KiB random reads, {load}, Linux {kernel.release}, one CPU in virtual time"
        for c in CONTENDERS:
            name = f"instructions_per_io.{c.name}.{load}.{series}"
            out.append(Result(name, by_contender[c.name], "instructions", False, context))
        k2 = by_contender["k2"]
        for name in OURS:
            ratio = round((by_contender[name] - none) / deadline, 3)
            name = f"added_over_mq-deadline.{name}.{load}.{series}"
            out.append(Result(name, ratio, "ratio", False, context))
        for c_name, value in by_contender.items():
            if (commit := c_name.removeprefix("k2 before ")) != c_name:
                name = f"instructions_per_io.k2_since.{commit}.{load}.{series}"
                more = f"{context}; less k2 of an earlier commit"
                out.append(Result(name, round(k2 - value, 1), "instructions", False, more))
        for (feature, rt), price in prices(load, by_contender).items():
            name = f"instructions_per_io.price.{feature}.{'real-time' if rt else 'background'}.{series}"
            out.append(
                Result(name, price, "instructions", False, f"{context}; switched on, less k2 as it is")
            )
        for feature, share in shares(by_contender).items():
            name = f"instructions_per_io.share.{feature}.{load}.{series}"
            out.append(Result(name, share, "instructions", False, context))
        for part, cost in parts(by_contender).items():
            name = f"instructions_per_io.mqfq_part.{part}.{load}.{series}"
            out.append(Result(name, cost, "instructions", False, context))
    out.append(
        Result(
            f"instructions_per_io.vflash_own.{series}",
            vflash_own(figures),
            "instructions",
            False,
            f"vflash less null_blk without its timer, none, qd32, Linux {kernel.release}: at most that",
        )
    )
    return out


def vflash_own(figures: dict[str, dict[str, float]]) -> float:
    """What the virtual drive's code takes of a one-page I/O, at most: the timer interrupt is in it."""
    return round(figures["qd32"]["vflash"] - figures["qd32"]["none"], 1)


def shares(by_contender: dict[str, float]) -> dict[str, float]:
    """Instructions per I/O that each feature of k2 accounts for; empty if none was left out."""
    if "k2 without rt_tags" not in by_contender:
        return {}
    k2 = by_contender["k2"]
    merging_in_none = by_contender["none"] - by_contender["none without merging"]
    out = {feature: round(k2 - by_contender[f"k2 without {feature}"], 1) for feature in FEATURES}
    out["merging"] = round(out["merging"] - merging_in_none, 1)
    return out


def parts(by_contender: Mapping[str, float]) -> dict[str, float]:
    """Instructions per I/O of each part of mqfq, all that it adds; empty if they were not measured."""
    if STEPS[0].name not in by_contender:
        return {}
    out = {part: by_contender[has] - by_contender[has_not] for part, (has, has_not) in PARTS.items()}
    out["merging"] -= by_contender["none"] - by_contender["none without merging"]
    return {part: round(cost, 1) for part, cost in out.items()}


def prices(load: str, by_contender: Mapping[str, float]) -> dict[tuple[str, bool], float]:
    """Instructions per I/O that each feature takes when it is on, by whether the I/O is real-time."""
    return {
        (feature, rt): round(by_contender[on_name(feature, rt)] - by_contender[on_name("", rt)], 1)
        for rt, of_load in ON_LOADS.items()
        for feature in SWITCHED_ON
        if of_load == load and on_name(feature, rt) in by_contender
    }


def price_table(kernel: Kernel, figures: Mapping[str, Mapping[str, float]]) -> Table:
    """What is off by default: what it adds, when on, to an I/O of the background and to a real-time one."""
    out = Table(title=f"K2: instructions per I/O when it is on, Linux {kernel.release}", title_justify="left")
    out.add_column("knob")
    out.add_column("background", justify="right")
    out.add_column("real-time", justify="right")
    found = {
        key: v for load, by_contender in figures.items() for key, v in prices(load, by_contender).items()
    }
    for feature, (knob, _) in SWITCHED_ON.items():
        out.add_row(knob, *(f"{found[feature, rt]:+.0f}" for rt in ON_LOADS))
    return out


def part_table(kernel: Kernel, figures: Mapping[str, Mapping[str, float]]) -> Table:
    """What each part of mqfq takes."""
    out = Table(title=f"mqfq: instructions per I/O by part, Linux {kernel.release}", title_justify="left")
    out.add_column("load")
    for part in PARTS:
        out.add_column(part, justify="right")
    for load, by_contender in figures.items():
        out.add_row(load, *(f"{cost:+.0f}" for cost in parts(by_contender).values()))
    return out


def table(kernel: Kernel, figures: dict[str, dict[str, float]]) -> Table:
    """The figures of one kernel as people read them: none in total, the rest as what they add to it."""
    out = Table(title=f"Instructions per 4 KiB read on Linux {kernel.release}", title_justify="left")
    out.add_column("load")
    out.add_column("none", justify="right")
    for c in CONTENDERS[1:]:
        out.add_column(c.name, justify="right")
    for name in OURS:
        out.add_column(f"{name} / mq-deadline", justify="right")
    for feature in FEATURES:
        out.add_column(feature, justify="right")
    out.caption = (
        f"vflash's own code: at most {vflash_own(figures):.0f} (k2's last columns are shares of +k2)"
    )
    for load, by_contender in figures.items():
        none = by_contender["none"]
        added = {c.name: by_contender[c.name] - none for c in CONTENDERS[1:]}
        out.add_row(
            load,
            f"{none:.0f}",
            *(f"+{value:.0f}" for value in added.values()),
            *(f"{added[name] / added['mq-deadline']:.2f}" for name in OURS),
            *(f"{share:.0f}" for share in shares(by_contender).values()),
        )
    return out


def measure(console: Console, labels: Sequence[str], quick: bool, since: Sequence[str] = ()) -> list[Result]:
    """Count on the kernels of these labels, side by side; print a table for each.

    With `since`, commits, also what k2 took then, built in the same run.
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
        console.print(table(kernel, by_load))
        if not quick:
            console.print(price_table(kernel, by_load))
            console.print(part_table(kernel, by_load))
        out += results(kernel, by_load)
    return out
