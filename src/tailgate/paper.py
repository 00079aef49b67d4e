# SPDX-License-Identifier: GPL-2.0-only
"""The numbers of the papers, as files beside the experiments (`paper.csv`).

Columns: source, scheduler, workload, access_pattern, block_size_kib, metric, value, unit, note.
"""

import csv
from dataclasses import dataclass
from pathlib import Path

from tailgate.errors import UsageError
from tailgate.experiment import Sweep

COLUMNS = (
    "source",
    "scheduler",
    "workload",
    "access_pattern",
    "block_size_kib",
    "metric",
    "value",
    "unit",
    "note",
)

#: Table II of the K2 paper pairs the highest throughput with the latency there; Table III the highest latency
#: with the throughput there.
_PAIRS = (
    ("max_bg_throughput", "rt_p99.9_latency_at_max_throughput", "at the highest throughput"),
    ("bg_throughput_at_max_p99.9_latency", "max_rt_p99.9_latency", "at the highest latency"),
)
_ACCESS = {"read": "read", "write": "write", "readwrite": "read/write"}


@dataclass(frozen=True)
class Published:
    """One published point of a scheduler: background throughput (MiB/s) and the reader's p99.9 (us)."""

    scheduler: str
    source: str
    where: str
    mib_s: float
    p999_us: float


def load(path: Path, sweep: Sweep) -> list[Published]:
    """The published points of this sweep's access pattern and block size, Table II's before Table III's."""
    with path.open(newline="", encoding="utf-8") as f:
        rows = list(csv.DictReader(line for line in f if not line.startswith("#")))
    if not rows or set(COLUMNS) - set(rows[0]):
        raise UsageError(f"{path}: expected a header line with the columns {', '.join(COLUMNS)}")
    pattern = f"{sweep.access} {_ACCESS[sweep.op]}"
    here = [
        r for r in rows if r["access_pattern"] == pattern and r["block_size_kib"] == str(sweep.block_size_kib)
    ]
    points = []
    for rate, latency, where in _PAIRS:
        rates = {r["scheduler"]: r for r in here if r["metric"] == rate and r["unit"] == "MiB/s"}
        latencies = {r["scheduler"]: r for r in here if r["metric"] == latency and r["unit"] == "ms"}
        for name, row in rates.items():
            if name in latencies and row["source"] == latencies[name]["source"]:
                points.append(
                    Published(
                        name,
                        row["source"],
                        where,
                        float(row["value"]),
                        float(latencies[name]["value"]) * 1000,
                    )
                )
    return points


def at_saturation(points: list[Published], scheduler: str | None) -> Published | None:
    """The published point at the highest throughput of this scheduler, if the paper has one."""
    return next((p for p in points if p.scheduler == scheduler and p.where == _PAIRS[0][2]), None)
