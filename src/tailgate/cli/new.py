# SPDX-License-Identifier: GPL-2.0-only
"""`tailgate new`: files to begin with."""

from pathlib import Path
from typing import Annotated

import typer

from tailgate.base.command import OK, application, epilog, output_folder
from tailgate.cli import complete

app = application("Write files to begin with.")

EXAMPLES = """
tailgate new experiment mine                      mine.toml and mine.fio
tailgate new experiment backup --from backup.fio  backup.toml for a job file that is there
tailgate run mine.toml --target sim --quick       measure it in the simulator
"""


@app.command(epilog=epilog(EXAMPLES, "an error in Tailgate"))
def experiment(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Letters, digits, - and _.")],
    job: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="JOB.fio",
            help="A fio job file of your own; if it lies in another folder, it and its traces are copied.",
            show_default="one is written",
            autocompletion=complete.jobs,
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Where the files are written.", callback=output_folder)
    ] = Path(),
) -> int:
    """Write a commented experiment, NAME.toml, and its fio job file, NAME.fio.

    It compares three schedulers under one load, and can be run as it is.
    Sections of the job file with prioclass=1 become real-time flows, whose
    latency counts, the others the background. No file is overwritten.
    """
    import shlex

    from tailgate.load import template

    experiment, beside = template.write(name, job, out)
    print(f"wrote {experiment} for the load in {beside}; to measure it:")
    print(f"  tailgate run {shlex.quote(str(experiment))} --target sim --quick")
    return OK
