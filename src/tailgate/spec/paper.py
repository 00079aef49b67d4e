# SPDX-License-Identifier: GPL-2.0-only
"""The numbers of the papers, as files beside the experiments (`paper.csv`).

Columns: source, scheduler, workload, access_pattern, block_size_kib, metric, value, unit, note.
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tailgate.base.errors import UsageError
from tailgate.spec.experiment import Cells
from tailgate.spec.sweep import Sweep

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

#: Table II of the K2 paper pairs the highest throughput with its latency, Table III the highest latency with
#: its throughput.
_PAIRS = (
    ("max_bg_throughput", "rt_p99.9_latency_at_max_throughput", "at the highest throughput"),
    ("bg_throughput_at_max_p99.9_latency", "max_rt_p99.9_latency", "at the highest latency"),
)
_ACCESS = {"read": "read", "write": "write", "readwrite": "read/write"}
#: Units of the paper files, converted to those of results: (key, factor).
_UNITS: Mapping[str, tuple[str, float]] = {
    "MiB/s": ("mib_s", 1.0),
    "MB/s": ("mib_s", 1e6 / 2**20),
    "kIOPS": ("iops", 1e3),
    "IOPS": ("iops", 1.0),
    "ms": ("lat_us.p99.9", 1e3),
    "us": ("lat_us.p99.9", 1.0),
}
#: Units of the figures that `lines` select: (key, factor). The K2-split paper states the throughput of all
#: processes together and the p99; the Kyber paper states both for a reading and a writing flow.
_FIGURES: Mapping[tuple[str, str], tuple[str, float]] = {
    ("total_throughput", "MiB/s"): ("total_mib_s", 1.0),
    ("rt_p99_latency", "ms"): ("lat_us.p99", 1e3),
    ("read_throughput", "KIOPS"): ("read.iops", 1e3),
    ("read_p99_latency", "us"): ("read.lat_us.p99", 1.0),
    ("write_throughput", "KIOPS"): ("write.iops", 1e3),
    ("write_p99_latency", "us"): ("write.lat_us.p99", 1.0),
}

Row = Mapping[str, str]


@dataclass(frozen=True)
class Published:
    """One published point of a scheduler ("" for the drive itself).

    `values`: background throughput `mib_s` (MiB/s) or `iops`, or that of all flows `total_mib_s`; the
    real-time flow's `lat_us.p99.9` or `lat_us.p99` (us); or, of a flow, `read.iops` and `read.lat_us.p99`.
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

    @property
    def tail(self) -> tuple[str, float] | None:
        """The percentile of the real-time flow that the paper has: its name in `lat_us`, and its value
        in us.
        """
        prefix = "lat_us."
        tails = ((k.removeprefix(prefix), v) for k, v in self.values.items() if k.startswith(prefix))
        return next(tails, None)


def read(path: Path) -> list[Row]:
    """All lines of a paper's file. UsageError if it is not one."""
    try:
        with path.open(newline="", encoding="utf-8") as f:
            rows: list[Row] = list(csv.DictReader(line for line in f if not line.startswith("#")))
    except (OSError, UnicodeDecodeError) as e:
        raise UsageError(f"{path}: expected a readable CSV file ({e})") from e
    if not rows or set(COLUMNS) - set(rows[0]):
        raise UsageError(f"{path}: expected a header line with the columns {', '.join(COLUMNS)}")
    return rows


def load(path: Path, sweep: Sweep) -> list[Published]:
    """The published points of this load, Table II's before Table III's; none if the tables do not have it."""
    rows = read(path)
    if sweep.row:
        found = [r for r in rows if all(r.get(k) == v for k, v in sweep.row.items())]
        if len(found) != 1:
            words = ", ".join(f"{k} {v!r}" for k, v in sweep.row.items())
            raise UsageError(f"{path}: {len(found)} lines have {words}; expected exactly one")
        return [_published("", "", found)]
    if sweep.lines:
        return _by_scheduler(path, sweep.lines, rows)
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


def _by_scheduler(path: Path, columns: Mapping[str, str], rows: Sequence[Row]) -> list[Published]:
    sources: dict[str, str] = {}
    values: dict[str, dict[str, float]] = {}
    rounding: dict[str, dict[str, float]] = {}
    for row in rows:
        figure = _FIGURES.get((row["metric"].partition("@")[0], row["unit"]))
        if figure and all(row.get(k) == v for k, v in columns.items()):
            name, (key, factor) = row["scheduler"], figure
            sources.setdefault(name, row["source"])
            if key in values.setdefault(name, {}):
                raise UsageError(f"{path}: two lines have {columns} for {name}; expected one")
            values[name][key] = float(row["value"]) * factor
            digits = len(row["value"].partition(".")[2])
            rounding.setdefault(name, {})[key] = 0.5 * 10**-digits * factor
    if not values:
        raise UsageError(f"{path}: no line has {columns}; expected one for each scheduler")
    return [Published(name, sources[name], "", values[name], rounding[name]) for name in values]


def _published(scheduler: str, where: str, rows: Sequence[Row]) -> Published:
    values, rounding = {}, {}
    for row in rows:
        key, factor = _UNITS[row["unit"]]
        # The tables leave out zeros at the end of a latency: 16 stands for 16.00.
        digits = 2 if row["unit"] == "ms" else len(row["value"].partition(".")[2])
        values[key] = float(row["value"]) * factor
        rounding[key] = 0.5 * 10**-digits * factor
    return Published(scheduler, rows[0]["source"], where, values, rounding)


def cell(points: Sequence[Published], names: Sequence[str], highest: Cells) -> Published | None:
    """The published point of a scheduler, by its names in the paper, if the paper has one.

    For tables with two points, it is the point at the highest throughput or at the highest latency.
    """
    where = next(words for _, _, words in _PAIRS if words.endswith(highest))
    return next((p for p in points if p.scheduler in ("", *names) and p.where in ("", where)), None)
