# SPDX-License-Identifier: GPL-2.0-only
"""What one flow of a point did."""

from dataclasses import dataclass

from tailgate.runs.statistics import Histogram


@dataclass(frozen=True)
class Flow:
    """What one flow of a point did, in undilated units."""

    name: str
    op: str
    ios: int
    iops: float
    mib_s: float
    histogram: Histogram
    #: From insertion into the scheduler to dispatch, where the target can tell.
    delay: Histogram | None = None
