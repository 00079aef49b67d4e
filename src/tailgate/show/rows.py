# SPDX-License-Identifier: GPL-2.0-only
"""The report's tables as rows of cells; templates/table.html turns them into HTML."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tailgate.runs.points import Point
from tailgate.show import flows, sentences, shares, waits
from tailgate.show.grids import Matrix
from tailgate.show.words import interval_words, load_words, ms
from tailgate.spec.experiment import Experiment

#: Styles. `text`: left-aligned; `published`: the paper's; `warn`: a large error; `interval` and `note`:
#: small.
Kind = Literal["", "text", "published", "warn", "interval", "note"]


@dataclass(frozen=True)
class TableCell:
    """The text of one cell, and how many columns it spans."""

    text: str = ""
    kind: Kind = ""
    columns: int = 1


@dataclass(frozen=True)
class Row:
    """A row: its name, and the cells after it. `marks` are numbers of notes; `last` ends a group."""

    name: str
    cells: Sequence[TableCell]
    marks: str = ""
    last: bool = False


@dataclass(frozen=True)
class Heading:
    """A column's heading, in one line or two."""

    lines: Sequence[str]
    text: bool = False


@dataclass(frozen=True)
class HtmlTable:
    """A table of the report; `label` describes it to readers who cannot see it."""

    label: str
    headings: Sequence[Heading]
    rows: Sequence[Row]


def numbers(*words: str) -> list[Heading]:
    """Headings of columns of numbers; a newline breaks one into two lines."""
    return [Heading(w.split("\n")) for w in words]


def texts(*words: str) -> list[Heading]:
    """Headings of columns of words."""
    return [Heading([w], text=True) for w in words]


def marks_of(points: Sequence[Point]) -> list[str]:
    """The notes that a reader of these points has to know, each once; tables refer to them by number,
    from 1.
    """
    return list(dict.fromkeys(mark for p in points for mark in p.marks))


def of_points(spec: Experiment, points: Sequence[Point]) -> HtmlTable:
    """All points: throughput and latency with intervals, and the paper's figures if the experiment has a
    paper.
    """
    rate, tail = sentences.published_kinds(points)
    several, apart = len(spec.sweeps) > 1, any(sweep.rt_block_size_kib for sweep in spec.sweeps)
    headings = [
        *texts("scheduler", *(["load"] if several else [])),
        *numbers("rate", *(["real-time\nMiB/s"] if apart else []), "background\nMiB/s"),
        *(numbers(rate) if spec.paper else []),
        *numbers("median", "p99", "95 %", "p99.9", "95 %"),
        *(numbers(tail) if spec.paper else []),
        *numbers("n", "CPU idle"),
    ]
    marks = marks_of(points)
    rows = []
    for i, p in enumerate(points):
        after = points[i + 1] if i + 1 < len(points) else None
        cells = [TableCell(p.sweep.words, "text")] if several else []
        cells.append(TableCell(load_words(p.background_rate)))
        if apart:
            cells.append(TableCell(f"{p.rt.mib_s:.3g}" if p.rt else "–"))
        cells.append(TableCell(f"{p.bg.mib_s:.0f}" if p.bg else "–"))
        if spec.paper:
            cells.append(_published(sentences.published_rate(p)))
        cells += _latency(p, beside=spec.paper is not None)
        cells += [TableCell(str(p.rt.histogram.n if p.rt else 0)), TableCell(f"{p.idle:.0%}")]
        referred = ", ".join(str(marks.index(m) + 1) for m in p.marks)
        last = not after or (after.scheduler, after.sweep) != (p.scheduler, p.sweep)
        rows.append(Row(p.scheduler.label, cells, referred, last))
    return HtmlTable("Table of all points", headings, rows)


def _published(text: str) -> TableCell:
    return TableCell(text, "published") if text else TableCell()


def _latency(p: Point, beside: bool) -> list[TableCell]:
    """The percentiles from the median to the paper's; the paper's value follows if `beside`."""
    width = 6 if beside else 5
    if not p.real_time:
        return [TableCell(f"{p.bg.iops / 1000 if p.bg else 0:.1f} k I/O a second", "text", width)]
    if p.rt is None:
        return [TableCell("no real-time request was completed", "text", width)]
    cells = [TableCell(ms(p.rt.lat_us["p50"]))]
    for key in ("p99", "p99.9"):
        cells.append(TableCell(ms(p.rt.lat_us[key])))
        cells.append(TableCell(interval_words(p.rt.ci_us[key], p.rt.histogram.n), "interval"))
    return [*cells, _published(sentences.published_tail(p, p.rt))] if beside else cells


def of_waits(points: Sequence[Point]) -> HtmlTable:
    """All points of an experiment with file systems: which tasks wait, and how long."""
    headings = [*texts("scheduler", "file system"), *map(Heading, waits.headings(points))]
    rows = [
        Row(p.scheduler.label, [TableCell(p.sweep.words, "text"), *map(TableCell, waits.row(p, points))])
        for p in points
    ]
    return HtmlTable("Table of all points", headings, rows)


def of_shares(here: Sequence[Point], points: Sequence[Point]) -> HtmlTable:
    """The points of one load, whose flows share the drive; `points` are all."""
    headings = [*texts("scheduler"), *map(Heading, shares.headings(here, points))]
    rows = [Row(p.scheduler.label, [TableCell(text) for text in shares.row(p, here, points)]) for p in here]
    return HtmlTable("Table of a load", headings, rows)


def of_flows(points: Sequence[Point]) -> HtmlTable:
    """These points, with a row's columns for each flow."""
    headings = [*texts("scheduler"), *map(Heading, flows.headings(points))]
    rows = [Row(p.scheduler.label, [TableCell(text) for text in flows.row(p, points)]) for p in points]
    return HtmlTable("Table of flows", headings, rows)


def of_matrix(matrix: Matrix) -> HtmlTable:
    """One figure of one flow: a row for each value of the first knob, a column for each of the second."""
    corner = Heading([f"{matrix.knobs[0]} ↓", f"{matrix.knobs[1]} →"], text=True)
    rows = [
        Row(name, [*map(TableCell, cells)]) for name, cells in zip(matrix.rows, matrix.texts, strict=True)
    ]
    return HtmlTable(matrix.title, [corner, *numbers(*matrix.columns)], rows)
