# SPDX-License-Identifier: GPL-2.0-only
"""Tables of results in README.md and docs/: `make docs` writes them between two comments.

    <!-- claims: name -->
    <!-- end -->

`claims/tables/<name>.toml` says what stands there. A cell is text in which {id} stands for a result with its
interval, {value:id} for the result alone, {command:id} for the command that measured it, and {misses} for the
number of results that do not keep their bound.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from pydantic import BaseModel

from tailgate.base.errors import UsageError, one_of
from tailgate.base.paths import ROOT
from tailgate.spec.toml import load_toml
from tailgate.upkeep.claims import check, model, results
from tailgate.upkeep.claims.lab import last_commit
from tailgate.upkeep.claims.results import Result

TABLES = model.FOLDER / "tables"

_BLOCK = re.compile(r"(<!-- claims: (?P<name>[\w-]+) -->\n)(?P<body>.*?)(<!-- end -->)", re.DOTALL)
_OPENED = re.compile(r"<!-- claims: ")
_PLACE = re.compile(r"\{(?:(value|command):)?([^{}]+)\}")


class Table(BaseModel, extra="forbid", frozen=True):
    """A table: names of its columns, and rows of as many cells."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def pages() -> list[Path]:
    """The pages that may have tables."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def write(paths: list[Path] | None = None) -> list[Path]:
    """Write all tables; the pages that changed."""
    stored = results.by_id(results.read())
    changed = []
    for path in pages() if paths is None else paths:
        text = path.read_text()
        if (new := filled(text, stored, str(path))) != text:
            path.write_text(new)
            changed.append(path)
    return changed


def filled(text: str, stored: Mapping[str, Result], page: str, folder: Path = TABLES) -> str:
    """A page with its tables made anew. UsageError: no such table, no such result, or no end."""
    blocks = len(_BLOCK.findall(text))
    if len(_OPENED.findall(text)) != blocks:
        raise UsageError(f"{page}: expected <!-- end --> below each <!-- claims: NAME -->, each on its line")

    def table(found: re.Match[str]) -> str:
        _, described = load_toml(folder, "table", found["name"], Table)
        body = "\n".join(rendered(described, stored, found["name"]))
        return f"{found[1]}{body}\n{found[4]}"

    return _BLOCK.sub(table, text)


def rendered(table: Table, stored: Mapping[str, Result], name: str) -> Iterator[str]:
    """The table's lines in Markdown. UsageError: a row of another length, or a result that is not there."""
    yield f"| {' | '.join(table.columns)} |"
    yield f"|{'---|' * len(table.columns)}"
    for row in table.rows:
        if len(row) != len(table.columns):
            expected = f"expected {len(table.columns)} cells in each row"
            raise UsageError(f"claims/tables/{name}.toml: {expected}, got {len(row)} in '{row[0]}'")
        yield f"| {' | '.join(_cell(cell, stored, name) for cell in row)} |"


def _cell(cell: str, stored: Mapping[str, Result], name: str) -> str:
    def shown(place: re.Match[str]) -> str:
        how, key = place.groups()
        if key == "misses":
            return str(_misses())
        if key not in stored:
            near = [known for known in stored if known.split("/")[0] == key.split("/")[0]]
            raise UsageError(
                f"claims/tables/{name}.toml: there is no result {key}; expected "
                f"{one_of(near[:5]) if near else 'an id of claims/results'}"
            )
        result = stored[key]
        if how == "command":
            return f"`{result.run.command}`"
        return f"{result.figure.value:.4g}" if how == "value" else check.shown(result.figure)

    return _PLACE.sub(shown, cell)


def _misses() -> int:
    report = check.check(model.read(), results.by_id(results.read()), cache(last_commit))
    return len(report.misses)
