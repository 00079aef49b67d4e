# SPDX-License-Identifier: GPL-2.0-only
"""The command `tailgate`: the users' commands and the maintainers'."""

from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated

import typer

from tailgate.base import command
from tailgate.cli.app import app as users
from tailgate.upkeep.app import app as maintainers

EXAMPLES = """
tailgate list                          the experiments that are there
tailgate run k2/fig8 --quick           measure one, in about a minute
tailgate run k2/fig8 --target sim      the same in the simulator: seconds
tailgate report RUN RUN                one HTML file of several runs
tailgate run --help                    each command has its own help
"""

app = command.application(
    "Measure I/O schedulers, K2 and MQFQ among them, in virtual machines and in a simulator.", completion=True
)
app.add_typer(users)
app.add_typer(maintainers)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"tailgate {version('tailgate')}")
        raise typer.Exit


@app.callback(epilog=command.epilog(EXAMPLES, "a run failed or a claim does not hold"))
def options(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Measure what I/O schedulers do to the tail of a real-time reader's latency."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit status."""
    return command.run(app, "tailgate", arguments, resumes=("run", "tune", "claims"))
