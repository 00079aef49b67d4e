# SPDX-License-Identifier: GPL-2.0-only
"""Reads the documents: which lines are code, and the blocks of code below a heading."""

import subprocess
import textwrap
from collections.abc import Iterator
from pathlib import Path

from tests.unit.programs import ROOT


def listed(*patterns: str) -> list[Path]:
    """Files of the checkout that git does not ignore."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [ROOT / name for name in names if (ROOT / name).is_file()]


def lines(page: Path) -> Iterator[tuple[int, str, bool]]:
    """Each line's number, text, and whether it is code: fenced, or indented after an empty line."""
    fenced = indented = False
    before = ""
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.startswith("```"):
            fenced = not fenced
            continue
        if line.strip():
            indented = line.startswith("    ") and (indented or not before.strip())
        yield number, line, fenced or indented
        before = line


def blocks(page: str, heading: str) -> list[str]:
    """The blocks of code between a heading of a page and the next heading, not indented.

    `page` is its path in the checkout. AssertionError if it has no such heading.
    """
    found: list[list[str]] = []
    seen = below = was_code = False
    for _, line, is_code in lines(ROOT / page):
        if line.startswith("#") and not is_code:
            below = line.lstrip("# ") == heading
            seen |= below
        if below and is_code:
            if not was_code:
                found.append([])
            found[-1].append(line)
        was_code = is_code
    assert seen, f"{page} has no heading '{heading}'"
    return [textwrap.dedent("\n".join(block)).rstrip() + "\n" for block in found]
