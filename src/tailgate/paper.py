# SPDX-License-Identifier: GPL-2.0-only
"""The numbers of the papers, as files beside the experiments (`paper.csv`).

Columns: source, scheduler, workload, access_pattern, block_size_kib, metric, value, unit, note.
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tailgate.errors import UsageError
from tailgate.experiment import Cells, Sweep

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
#: Units of the files in those of results: (key, factor).
_UNITS: Mapping[str, tuple[str, float]] = {
    "MiB/s": ("mib_s", 1.0),
    "MB/s": ("mib_s", 1e6 / 2**20),
    "kIOPS": ("iops", 1e3),
    "IOPS": ("iops", 1.0),
    "ms": ("lat_us.p99.9", 1e3),
    "us": ("lat_us.p99.9", 1.0),
}

Row = Mapping[str, str]


@dataclass(frozen=True)
class Published:
    """One published point of a scheduler ("" for the drive itself).

    `values`: background throughput `mib_s` (MiB/s) or `iops`, the real-time flow's `lat_us.p99.9` (us).
    `rounding`: half a unit of the last digit that the paper prints, by the same keys.
    """

    scheduler: str
    source: str
    where: str
    values: Mapping[str, float]
    rounding: Mapping[str, float]

    @property
    def mib_s(self) -> float | None:
        """The background's throughput in MiB/s."""
        return self.values.get("mib_s")

    @property
    def p999_us(self) -> float | None:
        """The real-time flow's p99.9 in us."""
        return self.values.get("lat_us.p99.9")


def read(path: Path) -> list[Row]:
    """All lines of a paper's file. UsageError if it is none."""
    try:
        with path.open(newline="", encoding="utf-8") as f:
            rows: list[Row] = list(csv.DictReader(line for line in f if not line.startswith("#")))
    except (OSError, UnicodeDecodeError) as e:
        raise UsageError(f"{path}: expected a readable CSV file ({e})") from e
    if not rows or set(COLUMNS) - set(rows[0]):
        raise UsageError(f"{path}: expected a header line with the columns {', '.join(COLUMNS)}")
    return rows


def load(path: Path, sweep: Sweep) -> list[Published]:
    """The published points of this load, Table II's before Table III's; none if the tables lack it."""
    rows = read(path)
    if sweep.row:
        found = [r for r in rows if all(r.get(k) == v for k, v in sweep.row.items())]
        if len(found) != 1:
            words = ", ".join(f"{k} {v!r}" for k, v in sweep.row.items())
            raise UsageError(f"{path}: {len(found)} lines have {words}; expected exactly one")
        return [_published("", "", found)]
    if not sweep.in_tables:
        return []
    pattern = f"{sweep.access} {_ACCESS[sweep.op]}"
    here = [
        r
        for r in rows
        if r["source"].startswith("Table ")
        and r["access_pattern"] == pattern
        and r["block_size_kib"] == str(sweep.block_size_kib)
    ]
    points = []
    for rate, latency, where in _PAIRS:
        rates = {r["scheduler"]: r for r in here if r["metric"] == rate and r["unit"] == "MiB/s"}
        latencies = {r["scheduler"]: r for r in here if r["metric"] == latency and r["unit"] == "ms"}
        points += [
            _published(name, where, [row, latencies[name]])
            for name, row in rates.items()
            if name in latencies and row["source"] == latencies[name]["source"]
        ]
    return points


def _published(scheduler: str, where: str, rows: Sequence[Row]) -> Published:
    values, rounding = {}, {}
    for row in rows:
        key, factor = _UNITS[row["unit"]]
        # The tables drop zeros at the end of a latency: 16 is 16.00.
        digits = 2 if row["unit"] == "ms" else len(row["value"].partition(".")[2])
        values[key] = float(row["value"]) * factor
        rounding[key] = 0.5 * 10**-digits * factor
    return Published(scheduler, rows[0]["source"], where, values, rounding)


def cell(points: Sequence[Published], scheduler: str | None, highest: Cells) -> Published | None:
    """The published point of this scheduler at its highest throughput or latency, if the paper has one."""
    where = next(words for _, _, words in _PAIRS if words.endswith(highest))
    return next((p for p in points if not p.where or (p.scheduler == scheduler and p.where == where)), None)
