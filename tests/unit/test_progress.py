# SPDX-License-Identifier: GPL-2.0-only
"""What a person sees while points are measured."""

import io
import sys

import pytest
from rich.console import Console

from tailgate.base.progress import Progress, duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0 s"), (59.4, "59 s"), (65, "1:05 min"), (3599, "59:59 min"), (7500, "2:05 h")],
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_line_for_each_point_where_there_is_no_terminal() -> None:
    out, now = io.StringIO(), [0.0]
    progress = Progress(Console(file=out, width=100), lambda: now[0])
    progress.begin(3, 40.0)
    now[0] = 10.0
    progress.point("none at full load", 20.0)
    progress.point("none at full load", 0.0)  # measured again: not counted twice
    now[0] = 15.0
    progress.point("bfq at [25%] load", 10.0)
    progress.end()
    lines = out.getvalue().splitlines()
    assert lines[0] == "  1 of 3: none at full load; 10 s so far, about 10 s left"
    assert lines[2] == "  2 of 3: bfq at [25%] load; 15 s so far, about 5 s left"


@pytest.mark.parametrize(("term", "shown"), [("xterm", "1 of 1 points"), ("dumb", "  1 of 1: none; ")])
def test_a_moving_line_on_a_terminal_that_can(term: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", term)
    out = io.StringIO()
    progress = Progress(Console(file=out, width=100, force_terminal=True))
    progress.begin(1, 1.0)
    progress.point("none", 1.0)
    progress.end()
    assert shown in out.getvalue()


def test_a_second_count_takes_the_first_ones_line_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else standard output would stay the line's, and what is printed there would be lost."""
    monkeypatch.setenv("TERM", "xterm")
    progress = Progress(Console(file=io.StringIO(), width=100, force_terminal=True))
    standard = sys.stdout
    progress.begin(1, 1.0)
    progress.begin(1, 1.0)
    progress.end()
    assert sys.stdout is standard
