# SPDX-License-Identifier: GPL-2.0-only
"""The command `tailgate simulate`: one fio job file as it is, on one drive, under one scheduler."""

import argparse
import json
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from tailgate.base.arguments import Parser
from tailgate.base.errors import UsageError, one_of
from tailgate.load import fiojob, workload
from tailgate.load.workload import Process
from tailgate.runs import points
from tailgate.runs import statistics as analysis
from tailgate.simulator import settings, simulation
from tailgate.simulator.simulation import DIRECTIONS, BrokenSimulationError, Latencies, Outcome, Simulation
from tailgate.spec import cgroups, machines
from tailgate.spec import drive as drives
from tailgate.spec.scheduler import Knob
from tailgate.targets.sim_point import histogram

OK, FAILED = 0, 1
LOG_WIDTH = 120


def main(arguments: Sequence[str]) -> int:
    """Run the command; the exit status."""
    options = _parser().parse_args(arguments)
    told = _simulation(options)
    simulation.check(told, str(options.job))
    try:
        outcome = simulation.simulate(told)
    except BrokenSimulationError as e:
        print(f"tailgate: {e}", file=sys.stderr)
        return FAILED
    if options.json:
        print(json.dumps(to_json(told, outcome)))
    else:
        _show(told, outcome)
    return OK


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="tailgate simulate",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=textwrap.dedent("""\
            Simulate one fio job file. Every option of it is modelled, or cannot change a figure of the
            model, or is refused. The same command gives the same digits on any host."""),
        epilog=textwrap.dedent("""\
            example:
              tailgate simulate experiments/k2/fig8.fio --drive 970evo --scheduler k2 --knob inflight_max=8

            exit status: 0 done, 1 an invariant was broken, 2 the command or a file is not right"""),
    )
    parser.add_argument("job", type=Path, metavar="JOB.fio", help="the job file")
    parser.add_argument(
        "--drive",
        metavar="NAME",
        help="one of drives/ (default: the parameters' own defaults, flash/flash.h)",
    )
    parser.add_argument(
        "--variable",
        type=_pair(str, "NAME=TEXT"),
        action="append",
        default=[],
        metavar="NAME=TEXT",
        help="what ${NAME} stands for in the job file; may be repeated",
    )
    parser.add_argument("--scheduler", default="none", metavar="NAME", help="default: none")
    parser.add_argument(
        "--knob",
        type=_pair(_number_or_word, "KEY=VALUE"),
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="of the scheduler; may be repeated",
    )
    parser.add_argument(
        "--weight",
        type=_pair(int, "CGROUP=NUMBER"),
        action="append",
        default=[],
        metavar="CGROUP=NUMBER",
        help="io.mqfq.weight of a cgroup of the job (cgroup=a/b), or of one above it; may be repeated",
    )
    parser.add_argument(
        "--queue",
        type=_pair(int, "KEY=NUMBER"),
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="setting of the queue, such as nr_requests=64; may be repeated",
    )
    parser.add_argument(
        "--machine",
        default=machines.DEFAULT,
        metavar="NAME",
        help=f"one of machines/ (default: {machines.DEFAULT})",
    )
    parser.add_argument(
        "--set",
        type=_pair(int, "KEY=NUMBER"),
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a parameter of the drive (flash/flash.h), or of the machine, its costs or the queue "
        "(sim/simulate.hpp), instead of a file's; may be repeated",
    )
    parser.add_argument("--cpus", type=int, metavar="N", help="default: the machine's, or else 1")
    parser.add_argument(
        "--seed", type=int, metavar="N", help="of the drive, and instead of the job's randseed (default: 1)"
    )
    parser.add_argument(
        "--seconds", type=float, default=0.0, metavar="S", help="end at the latest after this time"
    )
    parser.add_argument(
        "--check", action="store_true", help="test every invariant at every step, which takes longer"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    return parser


T = TypeVar("T", int, str, Knob)


def _number_or_word(text: str) -> Knob:
    return text if text.isalpha() else int(text)


def _pair(kind: Callable[[str], T], expected: str) -> Callable[[str], tuple[str, T]]:
    def parse(text: str) -> tuple[str, T]:
        key, equals, value = text.partition("=")
        try:
            if key and equals:
                return key.strip(), kind(value)
        except ValueError:
            pass
        raise argparse.ArgumentTypeError(f"expected {expected}, got '{text}'")

    return parse


def _simulation(options: argparse.Namespace) -> Simulation:
    job = fiojob.parse(options.job, dict(options.variable), derived=True)
    flows = tuple(section.name for section in job.sections)
    _, machine = machines.load(options.machine)
    seed = 1 if options.seed is None else options.seed
    if not 0 <= seed < 2**32:
        raise UsageError(f"--seed: expected 0 to {2**32 - 1}, got {seed}")
    if options.seconds < 0:
        raise UsageError(f"--seconds: expected a time, got {options.seconds}")
    cpus = machine.cpus or 1 if options.cpus is None else options.cpus
    if not 1 <= cpus <= 64:
        raise UsageError(f"--cpus: expected 1 to 64, got {cpus}")
    changes = simulation.by_owner(dict(options.set))
    drive = drives.load(options.drive)[1] if options.drive else drives.DEFAULTS
    own = dict(changes["drive"])
    dilation = own.pop("dilation", 1)  # the lab's, of a point that was measured slower than life
    values, driver = drives.split(drives.values(drive, own))
    device, processors = settings.queue_settings(dict(options.queue), "--queue")
    costs = {name: p.value for name, p in machine.costs.items()}
    processes = workload.processes(job, flows, drives.capacity(values), options.seed)
    return Simulation(
        flows=flows,
        processes=tuple(processes),
        drive=values | {"seed": seed, "dilation": dilation},
        device=device | driver | changes["device"],
        scheduler=options.scheduler,
        knobs=settings.check_scheduler(options.scheduler, dict(options.knob), "--scheduler"),
        weights=_weights(dict(options.weight), processes),
        machine=settings.machine_values(machine) | processors | changes["machine"] | {"cpus": cpus},
        costs=costs | changes["costs"],
        limit_ns=round(options.seconds * 1e9),
        check=options.check,
    )


def _weights(weights: dict[str, int], processes: Sequence[Process]) -> dict[str, int]:
    known = cgroups.with_parents(p.cgroup for p in processes)[1:]
    for path, weight in weights.items():
        if path not in known:
            expected = f"expected {one_of(known)}" if known else "no process has one (cgroup=)"
            raise UsageError(f"--weight: there is no cgroup {path}; {expected}")
        try:
            cgroups.check(path, {"io.mqfq.weight": weight})
        except ValueError as e:
            raise UsageError(f"--weight: {path}: {e}") from e
    return weights


def to_json(told: Simulation, outcome: Outcome) -> dict[str, object]:
    """The object that `--json` prints; times in us."""
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
            }
            for name, (_, directions) in outcome.flows.items()
            for word, d in zip(DIRECTIONS, directions, strict=True)
            if d.ios
        ],
        "idle": outcome.idle,
        "seconds": outcome.now_ns / 1e9,
        "ios": outcome.ios,
        "drive": dict(outcome.drive),
    }


def _latencies(latencies: Latencies) -> dict[str, float]:
    return points.latencies(histogram(latencies)) if latencies.n else {}


def _show(told: Simulation, outcome: Outcome) -> None:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="dim")
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
            figures = [f"{v:.1f}" for v in _latencies(d.latency).values()]
            rate = outcome.rate(name)
            table.add_row(
                name, word, str(d.ios), f"{d.ios * rate:.0f}", f"{d.bytes * rate / 2**20:.1f}", *figures
            )
    # What is not a terminal has no width.
    console = Console(width=None if sys.stdout.isatty() else LOG_WIDTH)
    console.print(table)
    console.print(
        f"{told.scheduler}: {outcome.now_ns / 1e9:.3f} s, {outcome.ios} requests, "
        f"processors idle {outcome.idle:.0%}",
        highlight=False,
    )
