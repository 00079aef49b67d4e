# SPDX-License-Identifier: GPL-2.0-only
"""Rows of the instruction count: loads, schedulers, and features switched off or on."""

from collections.abc import Mapping
from dataclasses import dataclass


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
    """A row: a scheduler, with its changes if the share or the price of a feature is measured."""

    name: str
    scheduler: str
    module: str = ""  # if it is not the scheduler's own, which OURS has
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
    # with 8 slots the drive is the limit, and the CPU sleeps and wakes: equally for all contenders
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
# Each feature of k2 is measured by leaving it out. Merging is also left out of `none`.
WITHOUT = (
    Contender("k2 without rt_tags", "k2", settings=(("iosched/rt_tags", "0"),)),
    Contender("k2 without statistics", "k2", module="k2-bare.ko"),
    Contender("k2 without merging", "k2", settings=(("nomerges", "2"),)),
    Contender("none without merging", "none", settings=(("nomerges", "2"),)),
)

FEATURES = ("rt_tags", "statistics", "merging")

# mqfq's work for a request, in steps: each contender does more than the one below it.
STEPS = (
    Contender("mqfq by process", "mqfq", settings=(("iosched/flow_by", "process"),)),
    Contender(
        "mqfq by process without merging",
        "mqfq",
        settings=(("iosched/flow_by", "process"), ("nomerges", "2")),
    ),
    Contender("mqfq real-time without merging", "mqfq", settings=(("nomerges", "2"),), rt=True),
    Contender("fifo without merging", "fifo", module="fifo.ko", settings=(("nomerges", "2"),)),
)
#: By part of mqfq, the contender with it, and the one without it.
PARTS: Mapping[str, tuple[str, str]] = {
    "cgroup": ("mqfq", STEPS[0].name),
    "merging": (STEPS[0].name, STEPS[1].name),
    "flow, tag and virtual time": (STEPS[1].name, STEPS[2].name),
    "queue, token": (STEPS[2].name, STEPS[3].name),
    "any scheduler": (STEPS[3].name, "none without merging"),
}

# Features that are off by default, each switched on alone, with values that hold no request back here. The
# difference is the feature's price.
SWITCHED_ON: Mapping[str, tuple[str, str]] = {
    "bytes": ("inflight_kib_max", "65536"),
    "auto": ("rt_target_us", "auto"),
    "debt": ("write_debt_kib_max", "auto"),
    "target": ("rt_target_us", "1000000"),
    "active": ("bound_when", "active"),
    "no_floor": ("be_floor_iops", "0"),
    "discards": ("discard_kib_max", "1024"),
}
#: The load for the background, and for a real-time reader.
ON_LOADS = {False: "qd32", True: "qd1"}


def on_name(feature: str, rt: bool) -> str:
    """The name of the contender with one feature of SWITCHED_ON, or none of them, switched on."""
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
    """k2 of an earlier commit, to compare with this checkout's."""
    return Contender(f"k2 before {commit}", "k2", module=f"k2-{commit.replace('/', '-')}.ko")
