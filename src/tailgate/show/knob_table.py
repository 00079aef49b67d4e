# SPDX-License-Identifier: GPL-2.0-only
"""The knobs of schedulers as a table."""

import sys
from collections.abc import Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from tailgate.base.command import LOG_WIDTH
from tailgate.simulator.knobs import Knob


def show(knobs: Mapping[str, Sequence[Knob]]) -> None:
    """A table on standard output, scheduler by scheduler."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="dim")
    for heading in ("scheduler", "knob", "unit", "values", "default"):
        table.add_column(heading, no_wrap=heading != "values")
    table.add_column("what it is", overflow="fold")
    for scheduler, of_one in knobs.items():
        for i, knob in enumerate(of_one):
            default = "the drive's" if knob.default is None else str(knob.default)
            name = scheduler if i == 0 else ""
            table.add_row(name, knob.name, knob.unit, values(knob), default, knob.what)
    # What is not a terminal has no width.
    Console(width=None if sys.stdout.isatty() else LOG_WIDTH).print(table)


def values(knob: Knob) -> str:
    """What a knob accepts: `always, active`, or `1 to 65535, auto`."""
    if knob.words:
        return ", ".join(knob.words)
    steps = f" by {knob.step}" if knob.step > 1 else ""
    return f"{knob.least} to {knob.most}{steps}{', auto' if knob.automatic else ''}"
