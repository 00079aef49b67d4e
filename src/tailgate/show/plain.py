# SPDX-License-Identifier: GPL-2.0-only
"""Parts that the terminal's tables and notes share."""

from collections.abc import Callable, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tailgate.runs.points import Point


def without_frame() -> Table:
    """An empty table without a frame, to which the caller adds columns."""
    return Table(box=SIMPLE_HEAD, pad_edge=False, header_style="dim")


def of_numbers(names: str, headings: Sequence[str]) -> Table:
    """A table of one column of names and columns of numbers."""
    table = without_frame()
    table.add_column(names, no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def show_marks(console: Console, points: Sequence[Point], about: Callable[[Sequence[Point]], str]) -> None:
    """Print the notes that a reader has to know; `about` says which points each note applies to."""
    for mark in dict.fromkeys(mark for p in points for mark in p.marks):
        words = about([p for p in points if mark in p.marks])
        console.print(f"[yellow]{escape(mark)}[/yellow]: {escape(words)}", highlight=False)
