# SPDX-License-Identifier: GPL-2.0-only
"""`tailgate report`: the HTML file of several runs."""

from pathlib import Path
from typing import Annotated

import typer

from tailgate.base.command import OK, application, epilog, log, output_file

app = application()

EXAMPLES = """
tailgate report runs/k2/fig8/0123456789ab
tailgate report runs/k2/fig8/*/ --out both.html     a guest's beside the simulator's
"""


@app.command(epilog=epilog(EXAMPLES, "an error in Tailgate"))
def report(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN", help="A run directory, as `tailgate run` prints it.")
    ],
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="The file to write.", callback=output_file)
    ] = Path("report.html"),
) -> int:
    """Write one HTML file with the plots of one or several runs, from their raw files."""
    from tailgate.show import report

    chosen = report.complete(runs)
    report.write(chosen, out)
    for folder in (f for f in runs if f not in chosen):
        log().print(f"report: left out {folder}, which is not complete, or replaced", highlight=False)
    log().print(f"report: {out}", highlight=False)
    return OK
