# SPDX-License-Identifier: GPL-2.0-only
"""One process of a job, as it is passed to the simulator."""

from dataclasses import dataclass
from typing import Literal

from tailgate.load.traces import TracedIo

Distribution = Literal["random", "zipf", "pareto", "normal", "zoned"]
#: Which processes exitall ends: those of the group, those that have started, or all.
Ends = Literal["group", "started", "all"]
#: `cpu` of a process that may run on any processor: it gets the next one in turn.
ANY_CPU = 2**32 - 1
#: `after` of a process that waits for no flow.
NO_FLOW = 2**32 - 1

BlockSizes = tuple[tuple[int, int], ...]
#: Parts of what a process uses: share of the requests in percent, begin and end in bytes.
Zones = tuple[tuple[int, int, int], ...]
#: Shares of the requests with a priority of their own: size in bytes (0: any), percent, ioprio.
Priorities = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class Process:
    """One process of a job, in the simulator's terms: sim/simulate.hpp says what each field means.

    Times in ns, sizes in bytes; pairs are for reads and writes. `cgroup` is a path, "" the root.
    """

    flow: int = 0
    synchronous: bool = False
    depth: int = 1
    cpu: int = ANY_CPU
    ioprio: int = 0
    share: tuple[int, int] = (100, 0)
    sequential: bool = False
    step: int = 0
    offset: int = 0
    size: int = 0
    block_sizes: tuple[BlockSizes, BlockSizes] = (((4096, 100),), ((4096, 100),))
    bytes_most: tuple[int, int] = (0, 0)
    align: int = 0
    distribution: Distribution = "random"
    distribution_parameter: float = 0.0
    zones: tuple[Zones, Zones] = ((), ())
    strided_range: int = 0
    strided_bytes: int = 0
    strided_gap: int = 0
    zone_bytes: int = 0
    zones_open_most: int = 0
    exhaustive: bool = False
    rate_bytes: tuple[int, int] = (0, 0)
    rate_ios: tuple[int, int] = (0, 0)
    rate_poisson: bool = False
    rate_least_bytes: tuple[int, int] = (0, 0)
    rate_least_ios: tuple[int, int] = (0, 0)
    rate_cycle_ns: int = 1_000_000_000
    offload: bool = False
    priorities: tuple[Priorities, Priorities] = ((), ())
    balance_group: int = 0
    balance_weight: int = 0
    balance_sleep_ns: int = 0
    target_ns: int = 0
    target_window_ns: int = 0
    target_percentile: float = 100.0
    target_stays: bool = False
    think_ns: int = 0
    think_spin_ns: int = 0
    think_blocks: int = 1
    through: bool = False
    start_ns: int = 0
    ramp_ns: int = 0
    runtime_ns: int = 0
    ios_max: int = 0
    bytes_max: int = 0
    loops: int = 1
    repeats: bool = True
    verifies: bool = False
    verify_backlog: int = 0
    verify_batch: int = 0
    passthrough: bool = False
    wave: int = 0
    after_flow: int = NO_FLOW
    group: int = 0
    ends_all: bool = False
    ends_what: Ends = "group"
    seed: int = 1
    trace: tuple[TracedIo, ...] = ()
    cgroup: str = ""
