# SPDX-License-Identifier: GPL-2.0-only
"""The terminal's output when a run ends."""

import os
from pathlib import Path

from rich.console import Console

from tailgate.show import table
from tailgate.show.words import load_words
from tailgate.targets.measure import Measured


def show(measured: Measured, console: Console) -> None:
    """Print the table, the notes and the report's place; errors come last."""
    if measured.points:
        table.show(console, measured.run, measured.points, measured.folder, measured.beside)
        place = _short(measured.folder / "report.html")
        console.print(f"report: {place}", highlight=False, soft_wrap=True)
    if measured.cpu_bound:
        words = ", ".join(
            f"{m.scheduler.label} at {load_words(m.background_rate)} load" for m in measured.cpu_bound
        )
        console.print(
            f"tailgate: the CPU, not the drive, was measured: {words}", highlight=False, markup=False
        )
    if measured.broken:
        console.print(f"tailgate: {measured.broken}", highlight=False, markup=False, soft_wrap=True)


def _short(path: Path) -> str:
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)
