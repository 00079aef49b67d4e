# SPDX-License-Identifier: GPL-2.0-only
"""`tailgate tune`: find a scheduler and its knobs for a goal."""

from pathlib import Path
from typing import Annotated

import typer

from tailgate.base.command import FAILED, OK, application, epilog, flag, log
from tailgate.cli import complete, options

app = application()

EXAMPLES = """
tailgate tune --workload own.fio --drive 970evo \\
    --goal "min rt.lat_us.p99" --keep "background.iops >= 0.8 * none"
tailgate tune --workload kyber/r1-w256 --schedulers kyber \\
    --goal "min read.lat_us.p99" --keep "write.iops >= 0.8 * none"
tailgate tune --workload own.fio --quick --target vm \\
    --goal "max background.mib_s" --keep "rt.lat_us.p99.9 <= 2000"
"""


@app.command(
    epilog=epilog(
        EXAMPLES,
        "nothing that was tried keeps what must be kept, a profile does not in the guest, or a run failed",
    )
)
def tune(
    context: typer.Context,
    workload: Annotated[
        str,
        typer.Option(
            metavar="JOB.fio",
            help="A fio job file, or an experiment with its drive and machine.",
            autocompletion=complete.jobs,
        ),
    ],
    goal: Annotated[
        list[str],
        typer.Option(
            metavar='"min FLOW.FIGURE"',
            help="What is to be least (min) or most (max). A flow is a section of the job; rt stands for all "
            "with prioclass=1, background for the others, or for all if all have it. Figures: iops, mib_s, "
            "lat_us.mean, lat_us.p50 to lat_us.p99.99, lat_us.max. May be repeated.",
        ),
    ],
    keep: Annotated[
        list[str] | None,
        typer.Option(
            metavar='"FLOW.FIGURE >= N"',
            help="What must be kept: a limit (>= or <=) that is a number, or a share of what a scheduler "
            "gives with its default knobs, as in 0.8 * none. May be repeated.",
        ),
    ] = None,
    schedulers: Annotated[
        str | None, typer.Option(metavar="A,B", help="Only these.", show_default="all that are simulated")
    ] = None,
    target: Annotated[
        str,
        options.target(
            ("sim", "vm"),
            "sim: the simulator alone answers. vm: its profiles are measured in a virtual machine.",
        ),
    ] = "sim",
    trials: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Settings that are tried.", show_default="120; 44 with --quick"
        ),
    ] = None,
    repeats: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Most seeds of a setting near the front.",
            show_default="8; 3 with --quick",
        ),
    ] = None,
    quick: Annotated[bool, flag("--quick", "Fewer settings, shorter simulations, fewer seeds.")] = False,
    load: Annotated[
        str | None, typer.Option(metavar="LABEL", help="The load, of an experiment with several.")
    ] = None,
    drive: Annotated[str | None, options.drive("the experiment's; 970evo for a job file")] = None,
    variable: Annotated[list[str] | None, options.variable()] = None,
    cpus: Annotated[
        int | None, typer.Option(min=1, max=64, metavar="N", help="Processors.", show_default="as needed")
    ] = None,
    seed: Annotated[
        int, typer.Option(min=1, metavar="N", help="Of the search: another one tries other settings.")
    ] = 1,
    jobs: Annotated[int | None, options.jobs("Simulations")] = None,
    kernel: Annotated[str | None, options.kernel()] = None,
    json: Annotated[bool, flag("--json", "One JSON object on standard output.")] = False,
    out: Annotated[Path | None, options.out("searches")] = None,
) -> int:
    """Find the scheduler and the knobs that reach a goal, and what they cost.

    The simulator tries settings; what is near the best is repeated with other
    seeds. The answer is the front, on which nothing is better in everything,
    and three profiles of it with the lines that set them. A search that was
    stopped goes on where it was.
    """
    import json as json_format
    import os
    import sys
    from concurrent.futures.process import BrokenProcessPool

    from tailgate.base import paths
    from tailgate.base.progress import Progress
    from tailgate.show import report, tuned
    from tailgate.simulator.simulation import BrokenSimulationError
    from tailgate.tune import command
    from tailgate.tune import workload as workload_of

    options.only_for("vm", target, kernel=kernel)
    asked = command.SearchTask(
        workload=workload_of.Asked(
            workload, load, options.pairs("--variable", variable, str, "NAME=TEXT"), drive, cpus
        ),
        goals=tuple(goal),
        keeps=tuple(keep or ()),
        schedulers=tuple(options.words(schedulers) or ()) or None,
        mode="quick" if quick else "full",
        trials=trials,
        repeats=repeats,
        seed=seed,
    )
    console = log()
    how = command.SearchOptions(
        jobs or os.cpu_count() or 1,
        context.obj,
        report.of,
    )
    confirm = kernel or "backports" if target == "vm" else None
    try:
        done = command.tune(asked, out or paths.ROOT / "runs", how, confirm, Progress(console))
    except (BrokenProcessPool, BrokenSimulationError) as e:
        print(f"tailgate: {e}; the same command goes on where it was", file=sys.stderr)
        return FAILED
    tuned.write(done.answer, done.title, done.about, done.facts, done.folder / "report.html")
    tuned.show(done.answer, console)
    if done.broken:
        print(f"tailgate: {done.broken}", file=sys.stderr)
    console.print(f"report: {done.folder / 'report.html'}", highlight=False, soft_wrap=True)
    if json:
        print(json_format.dumps(done.to_json()))
    return OK if done.ok else FAILED
