# SPDX-License-Identifier: GPL-2.0-only
"""Fit a drive file's free parameters to what the K2 paper measured without a scheduler; print what is left.

`closed_loop.c` puts the paper's loads on the drive model (`flash/`), without a computer around it. Only Table
I and the rows of `none` are fitted; every other row of the paper is left for the model to predict. The
structure of the model was chosen with all rows in sight: docs/model.md.
"""

import argparse
import csv
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tailgate.drive import Drive
from tailgate.errors import UsageError
from tailgate.experiment import ROOT, parse_toml

PAPER = ROOT / "experiments" / "k2" / "paper.csv"
SOURCE = Path(__file__).with_name("closed_loop.c")

#: Units of paper.csv in the model's: I/O per second, MiB/s, microseconds.
_UNITS = {"kIOPS": 1e3, "MB/s": 1e6 / 2**20, "MiB/s": 1.0, "ms": 1e3}

# A load is Section III-A's unless a cell says otherwise, as closed_loop.c has it: three processes keep 32
# requests outstanding each, one more sends one and thinks for 2 ms. The paper does not state the 32:
# docs/model.md.
_ALONE = {"rt": 0, "duration_ms": 1000}
_LAID_OUT = {"sequential": 1, "placement": 1}
_PAGES_SCATTERED = {"sequential": 1, "placement": 2}
_WRITE = {"write_percent": 100, "slc_mib": 0}  # 0: the cache does not run out
_MIXED = {"write_percent": 50, "slc_mib": 0}
_CACHE_FULL = {"slc_mib": 1, "slc_drain_ns": 0}


@dataclass(frozen=True)
class Cell:
    """A figure of the paper, and the load on the model that gives the same figure.

    `row` are columns of paper.csv that choose one line; `load` are keys of closed_loop.c and of the drive,
    `figure` is a key of its output. `group` is the group of `FREE` that is fitted to it, "" if none is.
    """

    title: str
    row: Mapping[str, str]
    load: Mapping[str, int]
    figure: str
    group: str = ""


def _table_1(
    title: str, pattern: str, load: Mapping[str, int], figure: str, group: str = "", **row: str
) -> Cell:
    return Cell(
        f"Table I: {title}",
        {"source": "Table I", "access_pattern": pattern, **row},
        {**_ALONE, **load},
        figure,
        group,
    )


def _none(pattern: str, kib: int, load: Mapping[str, int], figure: str, group: str = "") -> Cell:
    metric = "max_bg_throughput" if figure == "mib_s" else "rt_p99.9_latency_at_max_throughput"
    row = {"source": "Table II", "scheduler": "none", "access_pattern": pattern, "block_size_kib": str(kib)}
    what = "MiB/s" if figure == "mib_s" else "p99.9"
    return Cell(
        f"none: {pattern} {kib} KiB, {what}", {**row, "metric": metric}, {"kib": kib, **load}, figure, group
    )


_IOPS, _RATE = {"metric": "device_iops_measurement"}, {"metric": "device_throughput_measurement"}
_ONE, _MANY = {"processes": 1, "depth": 1, "kib": 4}, {"processes": 4, "depth": 32, "kib": 4}
_STREAM = {"processes": 1, "depth": 32, "kib": 128, "sequential": 1}

CELLS: tuple[Cell, ...] = (
    _table_1("random read, depth 1", "random read", _ONE, "iops", "read", workload="QD=1 threads=1", **_IOPS),
    _table_1("random read, 4 x 32", "random read", _MANY, "iops", workload="QD=32 threads=4", **_IOPS),
    _table_1("sequential read", "sequential read", {**_STREAM, **_LAID_OUT}, "mib_s", **_RATE),
    _table_1(
        "random write, depth 1",
        "random write",
        {**_ONE, **_WRITE},
        "iops",
        workload="QD=1 threads=1",
        **_IOPS,
    ),
    _table_1(
        "random write, 4 x 32, burst",
        "random write",
        {**_MANY, **_WRITE},
        "iops",
        "write",
        workload="QD=32 threads=4",
        note="burst",
        **_IOPS,
    ),
    _table_1(
        "random write, 4 x 32, sustained",
        "random write",
        {**_MANY, **_WRITE, **_CACHE_FULL},
        "iops",
        "full",
        workload="QD=32 threads=4",
        note="sustained",
        **_IOPS,
    ),
    _table_1(
        "sequential write, burst",
        "sequential write",
        {**_STREAM, **_WRITE},
        "mib_s",
        "write",
        note="burst",
        **_RATE,
    ),
    _table_1(
        "sequential write, sustained",
        "sequential write",
        {**_STREAM, **_WRITE, **_CACHE_FULL},
        "mib_s",
        "full",
        note="sustained",
        **_RATE,
    ),
    *(_none("random read", kib, {}, figure, "read") for kib in (4, 64) for figure in ("mib_s", "rt.p99.9")),
    *(
        _none("random read/write", kib, _MIXED, figure, "write")
        for kib in (4, 64)
        for figure in ("mib_s", "rt.p99.9")
    ),
    # The sweep ended at 900 MiB/s: the drive must keep up, and that is all these rows say.
    *(
        _none("random write", kib, {**_WRITE, "rate_mib_s": 900}, figure)
        for kib in (4, 64)
        for figure in ("mib_s", "rt.p99.9")
    ),
    *(
        _none("sequential read", kib, _PAGES_SCATTERED, figure)
        for kib in (4, 64)
        for figure in ("mib_s", "rt.p99.9")
    ),
    # The highest throughput was seen before the cache was full, the latency after.
    _none("sequential write", 4, {**_WRITE, "sequential": 1}, "mib_s"),
    _none("sequential write", 64, {**_WRITE, "sequential": 1}, "mib_s"),
    _none("sequential write", 64, {**_WRITE, **_CACHE_FULL, "sequential": 1}, "rt.p99.9"),
)

#: Parameters that are fitted together, in this order.
FREE: Mapping[str, tuple[str, ...]] = {
    "read": ("read_ns", "read_fixed_ns"),
    "write": ("program_ns", "erase_ns", "buffer_kib"),
    "full": ("slc_full_program_ns",),
}

#: Cells that no one drive can meet together; the second one wins.
CONTRADICTIONS: tuple[tuple[str, str, str], ...] = (
    (
        "Table I: random read, 4 x 32",
        "none: random read 4 KiB, MiB/s",
        "both keep eight dies busy with random reads of 4 KiB, 128 and 97 outstanding",
    ),
)


@dataclass(frozen=True)
class Residual:
    """What the paper and the model say of a cell: I/O per second, MiB/s or microseconds."""

    cell: Cell
    paper: float
    model: float

    @property
    def ratio(self) -> float:
        """The model's value over the paper's."""
        return self.model / self.paper


class ClosedLoop:
    """The compiled closed_loop.c; `with` removes it again."""

    def __init__(self) -> None:
        compiler = shutil.which("cc") or shutil.which("gcc")
        if not compiler:
            raise UsageError("the fit needs a C compiler; install gcc")
        self._folder = tempfile.TemporaryDirectory(prefix="tailgate-")
        self._program = Path(self._folder.name) / "closed_loop"
        command = [compiler, "-std=gnu11", "-O2", f"-I{ROOT}", f"-I{ROOT / 'sim' / 'include'}"]
        done = subprocess.run(
            [*command, "-o", str(self._program), str(SOURCE)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise UsageError(f"closed_loop.c does not compile: {done.stderr.strip().splitlines()[0]}")

    def __enter__(self) -> "ClosedLoop":
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def run(self, keys: Mapping[str, int]) -> dict[str, float]:
        """One run: its figures, those of the real-time process as "rt.p99.9" and so on, in microseconds.

        Raises UsageError if the model refuses a key or a value.
        """
        command = [str(self._program), *(f"{k}={v}" for k, v in keys.items())]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise UsageError(done.stderr.strip())
        figures: dict[str, float] = {}
        for key, value in json.loads(done.stdout).items():
            if isinstance(value, dict):
                figures |= {f"{key}.{k}": float(v) for k, v in value.items()}
            else:
                figures[key] = float(value)
        return figures


def published(path: Path = PAPER) -> dict[str, float]:
    """The paper's value of each cell, by its title: I/O per second, MiB/s or microseconds."""
    with path.open(newline="", encoding="utf-8") as f:
        rows = list(csv.DictReader(line for line in f if not line.startswith("#")))
    values = {}
    for cell in CELLS:
        found = [r for r in rows if all(v in r[k] if k == "note" else r[k] == v for k, v in cell.row.items())]
        if len(found) != 1:
            raise UsageError(f"{path}: expected one line for {cell.title}, found {len(found)}")
        values[cell.title] = float(found[0]["value"]) * _UNITS[found[0]["unit"]]
    return values


def residuals(
    loop: ClosedLoop,
    parameters: Mapping[str, int],
    cells: Sequence[Cell],
    paper: Mapping[str, float],
    samples: int,
) -> list[Residual]:
    """The model beside the paper, with so many real-time requests in each load that has them."""
    loads: list[dict[str, int]] = []
    for cell in cells:
        load = {**cell.load, "rt_samples": samples}
        if load not in loads:
            loads.append(load)
    drive = {k: v for k, v in parameters.items() if k != "queues"}  # one for each process
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda load: loop.run({**drive, **load}), loads))
    return [
        Residual(
            cell, paper[cell.title], results[loads.index({**cell.load, "rt_samples": samples})][cell.figure]
        )
        for cell in cells
    ]


def fit(
    loop: ClosedLoop,
    parameters: Mapping[str, int],
    free: Sequence[str],
    paper: Mapping[str, float],
    samples: int,
    evaluations: int,
    progress: Callable[[str], None],
) -> dict[str, int]:
    """The parameters, with those in `free` fitted by least squares of log(model / paper).

    Group by group of `FREE`, over the group's cells, with at most `evaluations` of the model each.
    """
    try:
        from scipy.optimize import minimize
    except ModuleNotFoundError as e:
        raise UsageError("the fit needs scipy; `make venv-dev` installs it") from e

    fitted = dict(parameters)
    for group, names in FREE.items():
        chosen = [name for name in names if name in free]
        cells = [cell for cell in CELLS if cell.group == group]
        if not chosen:
            continue
        start = [math.log(fitted[name]) for name in chosen]
        # Steps of an eighth: the figures are not smooth, smaller ones would follow their noise.
        simplex = [start, *([v + 0.125 * (i == j) for j, v in enumerate(start)] for i in range(len(start)))]
        best = minimize(
            lambda x, cells, before, chosen: sum(
                math.log(r.ratio) ** 2
                for r in residuals(loop, before | _values(chosen, x), cells, paper, samples)
            ),
            start,
            args=(cells, dict(fitted), chosen),
            method="Nelder-Mead",
            options={"initial_simplex": simplex, "maxfev": evaluations, "xatol": 1e-3, "fatol": 1e-5},
        )
        fitted |= _values(chosen, best.x)
        error = math.exp(math.sqrt(best.fun / len(cells))) - 1
        progress(
            f"{', '.join(f'{name} {fitted[name]}' for name in chosen)}: {len(cells)} figures, "
            f"off by {error:.0%} (root mean square), {best.nfev} evaluations"
        )
    return fitted


def _values(names: Sequence[str], logarithms: Sequence[float]) -> dict[str, int]:
    return {name: round(math.exp(x)) for name, x in zip(names, logarithms, strict=True)}


def report(found: Sequence[Residual]) -> str:
    """The table of residuals and the list of contradictions, as text."""
    width = max(len(r.cell.title) for r in found)
    lines = [f"{'':{width}}  {'paper':>10} {'model':>10}  ratio"]
    for r in found:
        mark = "fitted" if r.cell.group else ""
        lines.append(
            f"{r.cell.title:{width}}  {_figure(r, r.paper)} {_figure(r, r.model)}  {r.ratio:5.2f}  {mark}"
        )
    lines.append("units: I/O per second, MiB/s, and for p99.9 microseconds")
    by_title = {r.cell.title: r for r in found}
    for loser, winner, why in CONTRADICTIONS:
        a, b = by_title[loser].paper, by_title[winner].paper * 1024 / by_title[winner].cell.load["kib"]
        lines.append(
            f"contradiction in the paper: {loser}: {a / 1e3:.0f} k; {winner}: {b / 1e3:.0f} k, "
            f"{a / b - 1:+.0%} apart; {why}; the second is fitted, the first is left over"
        )
    return "\n".join(lines)


def _figure(r: Residual, value: float) -> str:
    return f"{value:10.0f}" if value >= 1000 else f"{value:10.1f}"


def rewrite(text: str, values: Mapping[str, int]) -> str:
    """A drive file's text with these parameters' values replaced; all else stays as it is."""
    for name, value in values.items():
        text, count = re.subn(
            rf"(\[parameters\.{name}\]\s*\nvalue = )\d+", rf"\g<1>{value}", text, count=1, flags=re.MULTILINE
        )
        if count != 1:
            raise UsageError(f"the drive file has no line `value = ...` first in [parameters.{name}]")
    return text


def main(arguments: Sequence[str] | None = None) -> int:
    """`tailgate calibrate DRIVE_FILE`: fit, print; the exit status."""
    parser = argparse.ArgumentParser(
        prog="tailgate calibrate",
        description="Fit a drive file's parameters that say `fitted = true` to Table I and the `none` "
        "rows of the K2 paper, and print what is left over. Takes a few minutes.",
    )
    parser.add_argument("drive", type=Path, help="drive file, for example drives/970evo.toml")
    parser.add_argument("--check", action="store_true", help="fit nothing: only print what is left over")
    parser.add_argument("--write", action="store_true", help="put the fitted values into the drive file")
    parser.add_argument(
        "--samples", type=int, default=8000, help="real-time requests a load (default %(default)s)"
    )
    parser.add_argument(
        "--evaluations",
        type=int,
        default=200,
        help="of the model, at most, for each group (default %(default)s)",
    )
    options = parser.parse_args(arguments)
    try:
        if options.samples < 1 or options.evaluations < 1:
            raise UsageError("--samples and --evaluations: expected a number of at least 1")
        _calibrate(options)
    except UsageError as e:
        print(f"tailgate: {e}", file=sys.stderr)
        return 2
    return 0


def _calibrate(options: argparse.Namespace) -> None:
    drive = parse_toml(options.drive, Drive)
    parameters = {key: p.value for key, p in drive.parameters.items()}
    free = [key for key, p in drive.parameters.items() if p.fitted]
    known = [name for names in FREE.values() for name in names]
    if unknown := [name for name in free if name not in known]:
        raise UsageError(
            f"{options.drive}: {unknown[0]} is marked as fitted; what can be fitted is {', '.join(known)}"
        )
    paper = published()
    with ClosedLoop() as loop:
        if not options.check:
            parameters = fit(loop, parameters, free, paper, options.samples, options.evaluations, print)
        print(report(residuals(loop, parameters, CELLS, paper, options.samples)))
    if options.write:
        text = options.drive.read_text(encoding="utf-8")
        options.drive.write_text(rewrite(text, {name: parameters[name] for name in free}), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
