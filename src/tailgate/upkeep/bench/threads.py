# SPDX-License-Identifier: GPL-2.0-only
"""Measures what scale.py models: operations a second on threads of this host, each on a CPU of its own."""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from tailgate.upkeep.bench.result import Result
from tailgate.upkeep.bench.scale import (
    CONTENDERS,
    DEPTH,
    FAIR,
    FREE,
    MODEL_CPUS,
    PAPER,
    PARTS,
    Contender,
    Costs,
    Figures,
    build,
    figure,
    median,
    run,
    table_of,
)

RUNS, RUN_MS = 5, 200


def threads(folder: Path, contender: Contender, count: int, costs: Costs = FREE, *, ms: int) -> Figures:
    """`operations_per_s` of `count` threads, and their `cpu_share`. UsageError if a request is lost.

    Only the costs `elsewhere` and `drive_ns` are used; the other costs are the host's own.
    """
    costs_ns = (costs.elsewhere // 1000, costs.drive_ns)
    bounds = (contender.bound, contender.t_kib)
    return run(folder, f"threads-{contender.queue}", count, DEPTH, *bounds, *costs_ns, ms)


def measure(console: Console) -> list[Result]:
    """Measure all; print a table for each group of contenders."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        build(folder)
        return [
            *_group(folder, console, "threads", CONTENDERS, FREE),
            *_group(folder, console, "threads_whole", FAIR, PAPER),
            *(r for name in PARTS for r in _group(folder, console, f"threads_{name}", figure(name), PAPER)),
            *_transfer(folder),
        ]


def _group(
    folder: Path, console: Console, prefix: str, contenders: Sequence[Contender], costs: Costs
) -> list[Result]:
    """Measure the contenders for each number of threads."""
    cpus = len(os.sched_getaffinity(0))
    counts = [count for count in MODEL_CPUS if count <= max(2, cpus)]
    # The contenders run in turns, so that a disturbance of the host affects all equally.
    runs: dict[tuple[str, int], list[Figures]] = {}
    for _ in range(RUNS):
        for contender in contenders:
            for count in counts:
                figures = threads(folder, contender, count, costs, ms=RUN_MS)
                runs.setdefault((contender.name, count), []).append(figures)
    drive = (
        f"{costs.elsewhere / 1e6:g} us a request beside the scheduler, "
        f"{costs.drive_ns / 1000:g} us in the drive"
    )
    table = table_of(f"{prefix}: on {cpus} CPUs of this host, million operations a second ({drive})", counts)
    for contender in contenders:
        medians = [median(runs[contender.name, count], "operations_per_s") for count in counts]
        table.add_row(contender.name, *(f"{m / 1e6:.2f}" for m in medians))
    console.print(table)
    out = []
    for (name, count), of_one in runs.items():
        rates = [f["operations_per_s"] / 1e6 for f in of_one]
        context = (
            f"{count} threads on {cpus} CPUs, {DEPTH} outstanding each; {drive}; "
            f"they had {median(of_one, 'cpu_share'):.0%} of their CPUs; "
            f"median of {RUNS} runs of {RUN_MS} ms, {min(rates):.2f} to {max(rates):.2f} million"
        )
        value = round(median(of_one, "operations_per_s"))
        out.append(Result(f"{prefix}.{name}.cpus{count}", value, "operations/s", True, context))
    return out


def _transfer(folder: Path) -> list[Result]:
    if len(os.sched_getaffinity(0)) < 2:
        return []
    ns = run(folder, "ping_pong")["transfer_ns"]
    context = "a cache line between two CPUs of this host: half a turn, median of 1001 series of 1000 turns"
    return [Result("threads.transfer_ns", ns, "ns", False, context)]
