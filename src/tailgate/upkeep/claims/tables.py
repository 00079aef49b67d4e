# SPDX-License-Identifier: GPL-2.0-only
"""Tables of results in README.md and docs/: `make docs` writes them between two comments.

    <!-- claims: name -->
    <!-- end -->

`claims/tables/<name>.toml` says what stands there. A cell is text with places for results: {id} is a result
with its interval, {value:id} the result alone, {short:id} with three digits, {ms:id} and {k:id} over 1000,
{million:id} over a million, {percent:id} a deviation with its sign, {command:id} the command that measured
it, {step:id} the `tailgate claims` that does, {holds:id} whether it keeps its claims' bounds, {verdict:id}
the verdict on an observation (observations.py) in words. {judged:id} is
the result with its interval, and says so if it misses a bound; {judged:id & id2} if either does. {maybe:id}
is the result with three digits, or "-" if its step had none to give. What claims do not measure, a table
names a run for: {./run/load/scheduler/rate/flow/figure}, or {value:./...}, is one point's `mib_s` or
percentile in us; a load without a label is "-". A flow may be a pattern: the largest percentile of all flows
that it matches. A cell ./run/load/scheduler/rate stands for the table's `figures` of that point, a cell each,
or one cell if they are to be `together`.

Where rows differ in a few words only, `template` has their cells with $1, $2 and so on in place of these
words, and a row has the words. A row with as many cells as `template` is complete as it is.

A block stays as it is where there is no such file, and until all its results are measured. Blocks named in
`TEXTS` are no tables but sentences, and need no file.
"""

import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, model_validator

from tailgate.base.errors import UsageError, one_of
from tailgate.base.paths import ROOT
from tailgate.spec.toml import load_toml
from tailgate.upkeep.claims import check, model, observations, results
from tailgate.upkeep.claims.lab import Answer, Lab, Options, us
from tailgate.upkeep.claims.quantity import Quantity, largest, rounded
from tailgate.upkeep.claims.results import Figure, Result

TABLES = model.FOLDER / "tables"
#: Letters to a line of a page.
WIDTH = 144
#: The topic of what is measured for tables, and the first part of its ids.
TOPIC = "tables"

_BLOCK = re.compile(r"(<!-- claims: (?P<name>[\w-]+) -->\n)(?P<body>.*?)(<!-- end -->)", re.DOTALL)
_OPENED = re.compile(r"<!-- claims: ")

#: How a place shows its result.
_FORMS: Mapping[str, Callable[[Result], str]] = {
    "value": lambda result: rounded(result.figure.value),
    "short": lambda result: rounded(result.figure.value, 3),
    "ms": lambda result: rounded(result.figure.value / 1e3, 3),
    "k": lambda result: rounded(result.figure.value / 1e3, 3),
    "million": lambda result: f"{result.figure.value / 1e6:.2f}",
    "percent": lambda result: _percent(result.figure.value),
    "command": lambda result: f"`{result.run.command}`",
    "step": lambda result: f"`tailgate claims {result.step_name}`",
    "verdict": lambda result: _verdict(result),
    "holds": lambda result: "yes" if all(v.holds for v in check.judged(model.read(), result)) else "no",
}
_JUDGED = "judged"
#: The form of a result that its step may not give.
_MAYBE = "maybe"
#: In a template, the place of a row's word.
_WORD = re.compile(r"\$([1-9])")
_PLACE = re.compile(rf"\{{(?:({'|'.join((*_FORMS, _MAYBE, _JUDGED))}):)?([^{{}}]+)\}}")


class Table(BaseModel, extra="forbid", frozen=True):
    """A table: names of its columns, and rows of as many cells.

    `figures` are flow/figure, or form:flow/figure. `runs` have an `experiment` and options of Lab.run.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    template: tuple[str, ...] = ()
    figures: tuple[str, ...] = ()
    together: bool = False
    runs: dict[str, dict[str, str | tuple[str, ...]]] = {}

    def cells(self) -> Iterator[list[str]]:
        """The rows, with the template filled in and the figures of points in their place."""
        for row in self.rows:
            yield [
                made
                for cell in self._complete(row)
                for made in (self._of_point(cell) if cell.startswith("./") else [cell])
            ]

    def _complete(self, row: Sequence[str]) -> Sequence[str]:
        if not self.template or len(row) == len(self.template):
            return row
        return [_WORD.sub(lambda found: row[int(found[1]) - 1], cell) for cell in self.template]

    @model_validator(mode="after")
    def _rows_have_the_words(self) -> Self:
        words = max((int(i) for cell in self.template for i in _WORD.findall(cell)), default=0)
        for row in self.rows:
            if self.template and len(row) not in (words, len(self.template)):
                expected = f"expected {words} words or {len(self.template)} cells"
                raise ValueError(f"row '{row[0]}': {expected}, got {len(row)}")
        return self

    @model_validator(mode="after")
    def _runs_have_known_options(self) -> Self:
        known = ("experiment", *Options.__annotations__)
        for name, run in self.runs.items():
            if unknown := [key for key in run if key not in known]:
                raise ValueError(f"runs.{name}.{unknown[0]}: unknown key; expected {one_of(known)}")
            if "experiment" not in run:
                raise ValueError(f"runs.{name}.experiment: missing")
        return self

    def _of_point(self, point: str) -> list[str]:
        asked = [figure.rpartition(":") for figure in self.figures]
        found = [f"{{{form or 'value'}:{point}/{figure}}}" for form, _, figure in asked]
        return [", ".join(found)] if self.together else found

    def places(self) -> list[str]:
        """Ids of results that the cells need, as they stand there."""
        pairs = [pair for row in self.cells() for cell in row for pair in _PLACE.findall(cell)]
        found = [which for form, place in pairs if form != _MAYBE for which in place.split(" & ")]
        return list(dict.fromkeys(found))


def pages() -> list[Path]:
    """The pages that may have tables."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def write() -> list[Path]:
    """Write all tables; the pages that changed."""
    stored = results.by_id(results.read())
    changed = []
    for path in pages():
        text = path.read_text()
        if (new := filled(text, stored, str(path))) != text:
            path.write_text(new)
            changed.append(path)
    return changed


def names(text: str) -> list[str]:
    """The tables of a page."""
    return [found["name"] for found in _BLOCK.finditer(text)]


def filled(text: str, stored: Mapping[str, Result], page: str, folder: Path = TABLES) -> str:
    """A page with its tables made anew. UsageError: a table that is not right, or has no end."""
    if len(_OPENED.findall(text)) != len(_BLOCK.findall(text)):
        raise UsageError(f"{page}: expected <!-- end --> below each <!-- claims: NAME -->, each on its line")

    def table(found: re.Match[str]) -> str:
        name = found["name"]
        if name in TEXTS:
            return f"{found[1]}{textwrap.fill(TEXTS[name](stored), WIDTH)}\n{found[4]}"
        if not (folder / f"{name}.toml").is_file():
            return found[0]
        described = load_toml(folder, "table", name, Table)[1]
        if any(_id(place, name) not in stored for place in described.places()):
            return found[0]
        body = "\n".join(rendered(described, stored, name))
        return f"{found[1]}{body}\n{found[4]}"

    return _BLOCK.sub(table, text)


def _verdicts(stored: Mapping[str, Result]) -> str:
    """How many results miss their bound.

    Held-out drives are left out, so that the text does not depend on which commit a checkout is at.
    """
    report = check.check(model.read(), stored, lambda _: "")
    by_interval = sum(v.misses_by_interval for v in report.misses)
    noisy = sum("noisy" in v.result.figure.id.split("/") for v in report.misses)
    return (
        f"Of the {len(report.verdicts)} results with a promised bound, {len(report.misses)} miss it, "
        f"{by_interval} of these only by the end of their interval. {noisy} of the misses are on the drive "
        "`noisy`, which has rare long reads. Held-out drives, which are drawn anew when the code that they "
        "test changes, are not counted."
    )


#: The sentences in pages that are made from all results, by the name of their block.
TEXTS: Mapping[str, Callable[[Mapping[str, Result]], str]] = {"verdicts": _verdicts}


def missing(stored: Mapping[str, Result], folder: Path = TABLES) -> Iterator[tuple[str, str]]:
    """Tables that cannot be made yet, each with a result that they lack."""
    for name in _names(folder):
        lacks = [i for i in ids(name, folder) if i not in stored]
        if lacks:
            yield name, lacks[0]


def ids(name: str, folder: Path = TABLES) -> list[str]:
    """The results in a table."""
    return [_id(place, name) for place in load_toml(folder, "table", name, Table)[1].places()]


def rendered(table: Table, stored: Mapping[str, Result], name: str) -> Iterator[str]:
    """The table's lines in Markdown. UsageError: a row of another length."""
    yield f"| {' | '.join(table.columns)} |"
    yield f"|{' --- |' * len(table.columns)}"
    for row in table.cells():
        if len(row) != len(table.columns):
            expected = f"expected {len(table.columns)} cells in each row"
            raise UsageError(f"claims/tables/{name}.toml: {expected}, got {len(row)} in '{row[0]}'")
        yield f"| {' | '.join(_cell(cell, stored, name) for cell in row)} |"


def _cell(cell: str, stored: Mapping[str, Result], name: str) -> str:
    def shown(place: re.Match[str]) -> str:
        which = _id(place[2], name)
        if place[1] == _MAYBE:
            return _FORMS["short"](stored[which]) if which in stored else "-"
        if place[1] == _JUDGED:
            return _judged([stored[_id(each, name)] for each in place[2].split(" & ")])
        result = stored[which]
        return _FORMS[place[1]](result) if place[1] else check.shown(result.figure)

    return _PLACE.sub(shown, cell)


def _judged(found: Sequence[Result]) -> str:
    topics = model.read()
    text = check.shown(found[0].figure)
    if misses := [v for result in found for v in check.judged(topics, result) if not v.holds]:
        text += ", **missed**" + (
            " by the interval's end" if all(v.misses_by_interval for v in misses) else ""
        )
    return text


def _verdict(result: Result) -> str:
    name = result.figure.id.removeprefix(f"{observations.START}/").removesuffix("/verdict")
    return observations.words(model.read(), name, round(result.figure.value))


def _percent(deviation: float) -> str:
    percent = round(100 * deviation)
    return f"{percent:+d} %".replace("-", "\N{MINUS SIGN}") if percent else "0 %"


def _id(place: str, name: str) -> str:
    return f"{TOPIC}/{name}/{place.removeprefix('./')}" if place.startswith("./") else place


def steps(folder: Path = TABLES) -> dict[str, Callable[[Lab], Iterator[Figure]]]:
    """What measures the tables that name runs, by `table-<name>`."""
    return {f"table-{name}": step for name in _names(folder) if (step := _step(name, folder))}


def _names(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.toml"))


def _step(name: str, folder: Path) -> Callable[[Lab], Iterator[Figure]] | None:
    table = load_toml(folder, "table", name, Table)[1]
    if not table.runs:
        return None

    def step(lab: Lab) -> Iterator[Figure]:
        found = {run: _measured(lab, **asked) for run, asked in table.runs.items()}
        for place in table.places():
            if place.startswith("./"):
                run, *which = place.removeprefix("./").split("/")
                if run not in found or len(which) != 5:
                    expected = (
                        f"./RUN/LOAD/SCHEDULER/RATE/FLOW/FIGURE with one of the runs {one_of(list(found))}"
                    )
                    raise UsageError(f"claims/tables/{name}.toml: {place}: expected {expected}")
                yield found[run].figure(_id(place, name), _quantity(found[run], which, name))

    step.__name__ = f"table-{name}"
    step.__doc__ = f"The table {name}."
    return step


def _measured(lab: Lab, experiment: Any, **options: Any) -> Answer:
    """The options keep the order of the file, which is that of the command."""
    return lab.run(experiment, **options)


def _quantity(answer: Answer, which: list[str], name: str) -> Quantity:
    load, label, rate, flow, figure = which
    points = [
        p
        for p in answer.points
        if (p["load"] or "-", p["label"], f"{p['sweep']['background_rate']:g}") == (load, label, rate)
    ]
    if len(points) != 1:
        expected = f"expected one point {load}/{label}/{rate} of {answer.source.command}"
        raise UsageError(f"claims/tables/{name}.toml: {expected}, got {len(points)}")
    (point,) = points
    flows = [f["flow"] for f in point["flows"] if fnmatchcase(f["flow"], flow)]
    if not flows or (figure == "mib_s" and len(flows) > 1):
        expected = f"expected {'one flow' if figure == 'mib_s' else 'a flow'} {flow} of {load}/{label}/{rate}"
        raise UsageError(f"claims/tables/{name}.toml: {expected}, got {', '.join(flows) or 'none'}")
    return (
        answer.mib_s(point, flows[0]) if figure == "mib_s" else largest([us(point, f, figure) for f in flows])
    )
