# SPDX-License-Identifier: GPL-2.0-only
"""What a fit to a probed drive leaves over, for the terminal."""

from rich.console import Console

from tailgate.fitting.command import Fitted
from tailgate.show.plain import without_frame


def show(found: Fitted, console: Console) -> None:
    """The fitted parameters, and every figure of the probe beside the model's."""
    table = without_frame()
    table.add_column("figure (requests a second; us)")
    for heading in ("measured", "model", "ratio"):
        table.add_column(heading, justify="right")
    for left in found.left:
        has = left.model > 0 and left.measured > 0
        ratio = f"{left.model / left.measured:.2f}" if has else "-"
        table.add_row(left.words, f"{left.measured:.4g}", f"{left.model:.4g}" if left.model else "-", ratio)
    console.print(table)
    for name in sorted(found.fitted):
        console.print(f"{name} = {found.parameters[name]}", highlight=False)
    console.print(f"{len(found.left)} figures, off by {found.error:.1%} (root mean square)", highlight=False)
