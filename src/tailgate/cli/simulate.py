# SPDX-License-Identifier: GPL-2.0-only
"""`tailgate simulate`: one fio job file as it is, on one drive, under one scheduler."""

from pathlib import Path
from typing import Annotated

import typer

from tailgate.base.command import FAILED, OK, application, epilog, flag
from tailgate.base.errors import UsageError
from tailgate.cli import complete, options

app = application()

EXAMPLES = """
tailgate simulate experiments/k2/fig8.fio --drive 970evo \\
    --seconds 2 --scheduler k2 --knob inflight_max=8
tailgate simulate own.fio --variable BS=4k --json
tailgate simulate own.fio --drive 980pro --scheduler k2 \\
    --watch "read.lat_us.mean <= 600"
"""


@app.command(epilog=epilog(EXAMPLES, "the simulator broke one of its own rules"))
def simulate(
    job: Annotated[
        Path, typer.Argument(metavar="JOB.fio", help="The job file.", autocompletion=complete.jobs)
    ],
    drive: Annotated[str | None, options.drive("the parameters' own defaults, flash/flash.h")] = None,
    variable: Annotated[list[str] | None, options.variable()] = None,
    scheduler: Annotated[str, typer.Option(metavar="NAME", help="The scheduler.")] = "none",
    knob: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="A knob of the scheduler; may be repeated."),
    ] = None,
    weight: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CGROUP=NUMBER",
            help="io.mqfq.weight of a cgroup of the job (cgroup=a/b), or of one above it; may be repeated.",
        ),
    ] = None,
    queue: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=NUMBER", help="A setting of the queue, such as nr_requests=64; may be repeated."
        ),
    ] = None,
    machine: Annotated[
        str,
        typer.Option(metavar="NAME", help="One of machines/.", autocompletion=complete.machines),
    ] = "paper",
    parameter: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=NUMBER",
            help="A parameter of the drive (flash/flash.h), or of the machine, its costs or the queue "
            "(sim/simulate.hpp), instead of a file's; may be repeated.",
        ),
    ] = None,
    cpus: Annotated[
        int | None, typer.Option(metavar="N", help="Processors.", show_default="the machine's, or else 1")
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(metavar="N", help="Of the drive, and instead of the job's randseed.", show_default="1"),
    ] = None,
    seconds: Annotated[
        float,
        typer.Option(
            metavar="S", help="End at the latest after this time.", show_default="when the job ends"
        ),
    ] = 0.0,
    watch: Annotated[
        str | None,
        typer.Option(
            metavar='"read.lat_us.mean <= US"',
            help="Rehearse `tailgate watch`: the scheduler's knobs move, so that this is kept.",
        ),
    ] = None,
    move: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KNOB=FROM..TO",
            help="With --watch: a knob that moves, and its limits; may be repeated.",
            show_default="see tailgate watch",
        ),
    ] = None,
    check: Annotated[
        bool, flag("--check", "Test at every step that no request is lost, and K2's order, bounds and floor.")
    ] = False,
    direct: Annotated[
        bool, flag("--direct", "Take buffered I/O of the job (direct=0, fio's default) for direct I/O.")
    ] = False,
    json: Annotated[bool, flag("--json", "One JSON object on standard output.")] = False,
) -> int:
    """Simulate one fio job file, without an experiment.

    Every option of the file is modelled, or cannot change a figure of the
    model, or is refused. The same command gives the same digits on any host.
    """
    import json as json_format
    import sys

    from tailgate.show import simulated
    from tailgate.simulator import simulation
    from tailgate.simulator.job import Choices, simulation_of
    from tailgate.simulator.simulation import BrokenSimulationError
    from tailgate.watch import meter
    from tailgate.watch.command import rehearse
    from tailgate.watch.way import way_of

    choices = Choices(
        drive=drive,
        variables=options.pairs("--variable", variable, str, "NAME=TEXT"),
        scheduler=scheduler,
        knobs=options.pairs("--knob", knob, _number_or_word, "KEY=VALUE"),
        weights=options.pairs("--weight", weight, int, "CGROUP=NUMBER"),
        queue=options.pairs("--queue", queue, int, "KEY=NUMBER"),
        machine=machine,
        parameters=options.pairs("--set", parameter, int, "KEY=NUMBER"),
        cpus=cpus,
        seed=seed,
        seconds=seconds,
        check=check,
        direct=direct,
    )
    told = simulation_of(job, choices)
    if move and not watch:
        raise UsageError("--move is for --watch only")
    kept = meter.keep(watch, "--watch") if watch else None
    way = way_of(scheduler, move or (), "--move") if kept else None
    simulation.check(told, str(job))
    moves = None
    try:
        if kept and way:
            outcome, moves = rehearse(told, kept, way)
        else:
            outcome = simulation.simulate(told)
    except BrokenSimulationError as e:
        print(f"tailgate: {e}", file=sys.stderr)
        return FAILED
    if json:
        print(json_format.dumps(simulated.to_json(told, outcome, moves)))
    else:
        simulated.show(told, outcome, moves)
    return OK


def _number_or_word(text: str) -> int | str:
    return text if text[:1].isalpha() else int(text)
