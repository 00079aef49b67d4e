# SPDX-License-Identifier: GPL-2.0-only
"""The result of one simulation: a table, or the object of `tailgate simulate --json`."""

from collections.abc import Sequence
from dataclasses import asdict

from tailgate.base.command import out
from tailgate.runs import points
from tailgate.runs import statistics as analysis
from tailgate.show.moves import moved
from tailgate.show.plain import without_frame
from tailgate.simulator.simulation import DIRECTIONS, Direction, Latencies, Outcome, Simulation
from tailgate.targets.sim_point import histogram
from tailgate.watch.command import Move


def to_json(told: Simulation, outcome: Outcome, moves: Sequence[Move] | None = None) -> dict[str, object]:
    """The object that `--json` prints; times in us. `moves` are those of a rehearsal of `tailgate watch`."""
    return {
        "scheduler": told.scheduler,
        "knobs": dict(told.knobs),
        "seed": told.drive["seed"],
        "flows": [
            {
                "flow": name,
                "op": word,
                "ios": d.ios,
                "iops": d.ios * outcome.rate(name),
                "mib_s": d.bytes * outcome.rate(name) / 2**20,
                "lat_us": _latencies(d.latency),
                "block_us": _latencies(d.block),
                "scheduler_us": _latencies(d.scheduler),
                **({"priorities": _by_priority(d)} if d.priorities else {}),
            }
            for name, (_, directions) in outcome.flows.items()
            for word, d in zip(DIRECTIONS, directions, strict=True)
            if d.ios
        ],
        "idle": outcome.idle,
        "seconds": outcome.now_ns / 1e9,
        "ios": outcome.ios,
        "drive": dict(outcome.drive),
        **({} if moves is None else {"moves": [asdict(m) for m in moves]}),
    }


def _latencies(latencies: Latencies) -> dict[str, float]:
    return points.latencies(histogram(latencies)) if latencies.n else {}


def _by_priority(direction: Direction) -> list[dict[str, object]]:
    return [
        {"class": ioprio >> 13, "level": ioprio & 7, "ios": latency.n, "lat_us": _latencies(latency)}
        for ioprio, latency in direction.priorities.items()
    ]


def _figures(latencies: Latencies) -> list[str]:
    return [f"{v:.1f}" for v in _latencies(latencies).values()]


def show(told: Simulation, outcome: Outcome, moves: Sequence[Move] | None = None) -> None:
    """A table of the flows on standard output."""
    table = without_frame()
    table.add_column("flow", no_wrap=True)
    table.add_column("op")
    for heading in (
        "I/Os",
        "I/O/s",
        "MiB/s",
        *(f"{name}\nus" for name in ("mean", *analysis.PERCENTILES, "max")),
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, (_, directions) in outcome.flows.items():
        for word, d in zip(DIRECTIONS, directions, strict=True):
            if not d.ios:
                continue
            rate = outcome.rate(name)
            rates = f"{d.ios * rate:.0f}", f"{d.bytes * rate / 2**20:.1f}"
            table.add_row(name, word, str(d.ios), *rates, *_figures(d.latency))
            for ioprio, latency in d.priorities.items():
                label = f" class {ioprio >> 13} level {ioprio & 7}"
                its_rate = f"{latency.n * rate:.0f}"
                table.add_row(label, word, str(latency.n), its_rate, "", *_figures(latency))
    console = out()
    console.print(table)
    console.print(
        f"{told.scheduler}: {outcome.now_ns / 1e9:.3f} s, {outcome.ios} requests, "
        f"processors idle {outcome.idle:.0%}",
        highlight=False,
    )
    if moves is not None:
        console.print(moved(moves), highlight=False)
