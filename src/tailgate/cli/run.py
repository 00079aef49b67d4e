# SPDX-License-Identifier: GPL-2.0-only
"""`tailgate run`: measure an experiment."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tailgate.base.command import FAILED, OK, application, epilog, flag, log
from tailgate.base.errors import UsageError
from tailgate.cli import complete, options

if TYPE_CHECKING:
    from tailgate.spec.experiment import ModeName

app = application()

EXAMPLES = """
tailgate run k2/fig8 --quick          a minute: three loads, 400 requests each
tailgate run k2/fig8                  nine loads, 4000 each
tailgate run k2/fig8 --target sim     the same in the simulator: seconds
tailgate run k2/fig8 --quick --schedulers none,k2-8 --json > points.json
tailgate run own/experiment.toml      an experiment of your own
"""


@app.command(epilog=epilog(EXAMPLES, "a run failed, or measured the CPU instead of the drive"))
def run(
    context: typer.Context,
    experiment: Annotated[
        str,
        typer.Argument(
            metavar="EXPERIMENT",
            help="As `tailgate list` prints it, or a .toml file.",
            autocompletion=complete.experiments,
        ),
    ],
    target: Annotated[
        str,
        options.target(("vm", "sim"), "Where: vm, a virtual machine, or sim, the simulator."),
    ] = "vm",
    quick: Annotated[
        bool, flag("--quick", "Few loads, 400 real-time requests a point: enough for a p99.")
    ] = False,
    full: Annotated[
        bool, flag("--full", "All loads, 4000 a point: enough for a p99.9. The default.")
    ] = False,
    claims: Annotated[bool, flag("--claims", "Full load, 10 000 a point, several seeds.")] = False,
    schedulers: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="Only these labels of the experiment.",
            show_default="all",
            autocompletion=complete.schedulers,
        ),
    ] = None,
    loads: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="Only these loads, by label; * stands for any letters.",
            show_default="all",
        ),
    ] = None,
    drive: Annotated[str | None, options.drive("the experiment's")] = None,
    seeds: Annotated[
        str | None,
        typer.Option(metavar="1,2", help="Each seed is a measurement.", show_default="the mode's"),
    ] = None,
    jobs: Annotated[int | None, options.jobs("Boots or simulations")] = None,
    kernel: Annotated[str | None, options.kernel()] = None,
    machine: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="sim: the machine, one of machines/.",
            show_default="the experiment's",
            autocompletion=complete.machines,
        ),
    ] = None,
    dask: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="sim: on the workers of this Dask scheduler, tcp://HOST:PORT.",
            show_default="processes of this host",
        ),
    ] = None,
    fresh: Annotated[
        bool, flag("--fresh", "Measure again, even what is there; compares the digits.")
    ] = False,
    json: Annotated[bool, flag("--json", "The points as one JSON object on standard output.")] = False,
    out: Annotated[Path | None, options.out("runs")] = None,
) -> int:
    """Measure an experiment: a table on standard error, and a run directory with the report.

    A run directory is named by everything that decides its figures. A run
    that was stopped goes on there, one boot being the unit; --fresh measures
    even what is there.
    """
    import json as json_format
    import os

    from tailgate.base.progress import Progress
    from tailgate.runs import export
    from tailgate.show import report, summary
    from tailgate.spec.experiment import find
    from tailgate.targets.measure import MeasureOptions, TargetOptions, measure, target_of
    from tailgate.targets.resolve import resolve

    options.only_for("vm", target, kernel=kernel)
    options.only_for("sim", target, machine=machine, dask=dask)
    path = find(experiment)
    resolved = resolve(
        path,
        _mode(quick, full, claims),
        options.words(schedulers),
        _seeds(seeds),
        target,
        options.words(loads),
        drive,
    )
    console = log()
    progress = Progress(console)
    measured = measure(
        target_of(resolved, path, TargetOptions(kernel or "backports", machine, dask), progress),
        out,
        MeasureOptions(
            jobs=jobs or os.cpu_count() or 1,
            fresh=fresh,
            command=context.obj,
            report=report.of,
        ),
        progress,
    )
    summary.show(measured, console)
    if json:
        print(json_format.dumps(export.to_json(resolved, measured.points)))
    return OK if measured.ok else FAILED


def _mode(quick: bool, full: bool, claims: bool) -> "ModeName":
    if quick + full + claims > 1:
        raise UsageError("--quick, --full and --claims exclude each other: choose one")
    return "quick" if quick else "claims" if claims else "full"


def _seeds(text: str | None) -> tuple[int, ...] | None:
    from tailgate.spec.experiment import SEED_MAX

    words = options.words(text)
    if words is None:
        return None
    if not all(w.isdecimal() and 0 < int(w) <= SEED_MAX for w in words):
        raise UsageError(f"--seeds: expected numbers from 1 to {SEED_MAX}, such as 1,2,3, got '{text}'")
    return tuple(dict.fromkeys(int(w) for w in words))
