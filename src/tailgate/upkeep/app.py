# SPDX-License-Identifier: GPL-2.0-only
"""The maintainers' commands; the code that does a command's work is imported when it runs."""

from pathlib import Path
from typing import Annotated

import typer

from tailgate.base.command import FAILED, OK, application, chosen, epilog, flag, log, output_file
from tailgate.base.errors import UsageError, one_of
from tailgate.guest.labels import ORDINARY

app = application("Maintainers' tools: claims, benchmarks, fitting of drives, outside judges.")

PANEL = "Maintainers"
BENCH_KINDS = ("lines", "scale", "threads", "simulator", "instructions")


@app.command(
    rich_help_panel=PANEL,
    epilog=epilog(
        "tailgate claims --check\ntailgate claims bounds\ntailgate claims --fresh frontier",
        "a claim does not hold, or a run failed",
    ),
)
def claims(
    steps: Annotated[
        list[str] | None,
        typer.Argument(metavar="STEP", help="Only these steps or topics.", show_default="all"),
    ] = None,
    check: Annotated[bool, flag("--check", "Judge the stored results; measure nothing.")] = False,
    docs: Annotated[
        bool, flag("--docs", "Write the tables in README.md and docs/; measure nothing.")
    ] = False,
    fresh: Annotated[bool, flag("--fresh", "Measure again what was measured before.")] = False,
) -> int:
    """Measure every figure that is promised anywhere (hours), and judge it.

    What was measured with the same sources is kept, so that a run that was
    stopped goes on where it ended. A name that is no step lists the steps.
    """
    from tailgate.upkeep.claims import command

    if check + docs > 1 or ((check or docs) and (steps or fresh)):
        raise UsageError("--check and --docs measure nothing: give one of them, without steps and --fresh")
    if docs:
        command.write_tables()
        return OK
    return OK if (command.judge() if check else command.main(steps or (), fresh)) else FAILED


@app.command(
    rich_help_panel=PANEL,
    epilog=epilog("tailgate bench\ntailgate bench --only instructions --kernel stable --quick"),
)
def bench(
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND",
            help=f"Measure this kind, and leave the others' figures as they are: {one_of(BENCH_KINDS)}; "
            "may be repeated.",
            show_default="all",
            callback=chosen(BENCH_KINDS),
        ),
    ] = None,
    kernel: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LABEL",
            help=f"For instructions and lines: {one_of(ORDINARY)}; may be repeated.",
            show_default="all",
            callback=chosen(ORDINARY),
        ),
    ] = None,
    quick: Annotated[bool, flag("--quick", "Without the shares of k2's features.")] = False,
    since: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COMMIT",
            help="Also what k2 takes more than at that commit, built in the same run; may be repeated.",
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="The file to write.", callback=output_file)
    ] = Path("bench.json"),
) -> int:
    """Measure what the code itself costs: instructions per I/O, CPUs, the simulator, lines."""
    from tailgate.upkeep import bench

    bench.main(only or (), kernel or (), quick, since or (), out)
    return OK


@app.command(
    rich_help_panel=PANEL,
    epilog=epilog(
        "tailgate calibrate drives/970evo.toml --check\n"
        "tailgate calibrate drives/970evo.toml --write\n"
        "tailgate calibrate drives/unseen-1.toml --target vm --writes --out probed.toml"
    ),
)
def calibrate(
    context: typer.Context,
    drive: Annotated[Path, typer.Argument(metavar="FILE", help="A drive file, such as drives/970evo.toml.")],
    check: Annotated[bool, flag("--check", "Fit nothing: only print what is left over.")] = False,
    write: Annotated[bool, flag("--write", "Put the fitted values into the drive file.")] = False,
    samples: Annotated[int, typer.Option(min=1, metavar="N", help="Real-time requests a load.")] = 8000,
    evaluations: Annotated[
        int, typer.Option(min=1, metavar="N", help="Of the model, at most, for each group of figures.")
    ] = 200,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="TARGET",
            help="Probe the drive instead: vm, in a virtual machine that has it, or sim, in the simulator.",
            callback=chosen(("vm", "sim")),
        ),
    ] = None,
    writes: Annotated[bool, flag("--writes", "Probe with writes too, which overwrite the drive.")] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The drive file that a probe writes; it must be new.")
    ] = None,
) -> int:
    """Fit a drive file to what a paper measured on that drive, or to a drive.

    Parameters that say `fitted = true` are fitted, and what is left over is
    printed: the paper's figures beside the model's (minutes). With --target
    the drive is probed from outside, and a new file is fitted to what it
    shows; FILE only says which drive the target has.
    """
    import os

    from tailgate.base.progress import Progress
    from tailgate.show import fitted, report

    if target is None:
        from tailgate.upkeep import calibrate

        if writes or out:
            raise UsageError("--writes and --out are for a probe: say --target too")
        calibrate.main(drive, check, write, samples, evaluations)
        return OK
    from tailgate.fitting import command
    from tailgate.targets.measure import MeasureOptions

    if out is None or check or write:
        raise UsageError("--target probes a drive: expected --out FILE, and neither --check nor --write")
    measuring = MeasureOptions(os.cpu_count() or 1, False, context.obj, report.of)
    console = log()
    found = command.calibrate(drive, target, writes, out, measuring, Progress(console))
    fitted.show(found, console)
    console.print(f"wrote {out}", highlight=False, soft_wrap=True)
    return OK


@app.command(rich_help_panel=PANEL, epilog=epilog("tailgate draw 4 > drives/unseen-4.toml"))
def draw(seed: Annotated[int, typer.Argument(metavar="SEED", help="Any whole number.")]) -> int:
    """Print the file of a random drive: every number drawn from a stated range."""
    from tailgate.upkeep import draw

    print(draw.text(seed), end="")
    return OK


@app.command(
    rich_help_panel=PANEL,
    epilog=epilog(
        "tailgate blktests ../blktests\ntailgate blktests ../blktests loop block/005 --kernel stable",
        "a difference counts",
    ),
)
def blktests(
    checkout: Annotated[Path, typer.Argument(metavar="DIR", help="A checkout of linux-blktests/blktests.")],
    tests: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEST", help="Groups and tests.", show_default="block loop scsi zbd nvme"),
    ] = None,
    kernel: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LABEL",
            help="The guest's kernel; may be repeated.",
            show_default="backports and stable",
        ),
    ] = None,
    scheduler: Annotated[str, typer.Option(metavar="NAME", help="The scheduler to judge.")] = "k2",
    # In emulation, the longest tests take ten minutes on two cores.
    limit: Annotated[int, typer.Option(min=1, metavar="S", help="Seconds for a test.")] = 900,
    json: Annotated[bool, flag("--json", "Print all results as JSON.")] = False,
) -> int:
    """Let a checkout of blktests judge a scheduler beside mq-deadline (hours).

    Each test runs once under each of the two; where the scheduler does worse,
    both run it again. A difference counts if the scheduler fails in most runs
    and mq-deadline in none, or if the kernel's report has the scheduler's code
    in it. A run that is interrupted goes on where it ended.
    """
    from tailgate.upkeep.blktests import command

    holds = command.main(checkout, tests or (), kernel or (), scheduler, limit, json_only=json)
    return OK if holds else FAILED
