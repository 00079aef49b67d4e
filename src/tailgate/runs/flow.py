# SPDX-License-Identifier: GPL-2.0-only
"""The results of one flow in a point."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tailgate.runs.histogram import Histogram, merge, merge_some


@dataclass(frozen=True, kw_only=True)
class Flow:
    """The results of one flow in a point, in undilated units."""

    name: str
    op: str
    ios: int
    iops: float
    mib_s: float
    #: Completion latency, as fio's `clat`.
    histogram: Histogram
    #: Time from insertion into the scheduler to dispatch; None if the target does not measure it.
    delay: Histogram | None = None
    #: Time in the block layer; None if the target does not measure it.
    block: Histogram | None = None


def with_total(directions: Sequence[Flow]) -> list[Flow]:
    """The flows of one name, one for each direction; both reads and writes become `name.read`, `name.write`
    and their total `name`.
    """
    if len(directions) != 2:
        return list(directions)
    total = Flow(
        name=directions[0].name,
        op="readwrite",
        ios=sum(f.ios for f in directions),
        iops=sum(f.iops for f in directions),
        mib_s=sum(f.mib_s for f in directions),
        histogram=merge(f.histogram for f in directions),
        delay=merge_some(f.delay for f in directions),
        block=merge_some(f.block for f in directions),
    )
    return [*(replace(f, name=f"{f.name}.{f.op}") for f in directions), total]
