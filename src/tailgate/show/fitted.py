# SPDX-License-Identifier: GPL-2.0-only
"""The result of fitting a drive to a probe, for the terminal: parameters and remaining errors."""

from rich.console import Console

from tailgate.fitting.command import Fitted
from tailgate.show.plain import without_frame


def show(found: Fitted, console: Console) -> None:
    """Print the fitted parameters, and every figure of the probe beside the model's."""
    table = without_frame()
    table.add_column("figure (requests a second; us)")
    for heading in ("measured", "model", "ratio"):
        table.add_column(heading, justify="right")
    for residual in found.residuals:
        has = residual.model > 0 and residual.measured > 0
        ratio = f"{residual.model / residual.measured:.2f}" if has else "-"
        table.add_row(
            residual.words,
            f"{residual.measured:.4g}",
            f"{residual.model:.4g}" if residual.model else "-",
            ratio,
        )
    console.print(table)
    for name in sorted(found.fitted):
        console.print(f"{name} = {found.parameters[name]}", highlight=False)
    console.print(
        f"{len(found.residuals)} figures, off by {found.error:.1%} (root mean square)", highlight=False
    )
