# SPDX-License-Identifier: GPL-2.0-only
"""The report's tables that compare measured figures with the paper's."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from tailgate.papers import cells as papers
from tailgate.runs.points import Point
from tailgate.show.rows import Heading, HtmlTable, Row, TableCell, numbers, texts
from tailgate.spec.plan import Run


def of_cells(found: Sequence[papers.PaperCell], targets: Sequence[str]) -> HtmlTable:
    """The paper's cells, with each target's figure and its ratio to the paper's; large errors are marked."""
    keys = [k for k in papers.QUANTITIES if any(c.key == k for c in found)]
    headings = texts("scheduler", "load")
    for key in keys:
        headings += _headings(key, targets)
    lines = papers.lines(found)
    rows = []
    for i, (words, label, by_key) in enumerate(lines):
        row = [TableCell(words, "text")]
        for key in keys:
            row += _figures(key, by_key.get(key), targets)
        rows.append(Row(label, row, last=i + 1 == len(lines) or lines[i + 1][0] != words))
    return HtmlTable("Table of the paper's cells", headings, rows)


def _headings(key: str, targets: Sequence[str]) -> list[Heading]:
    unit = ", ms" if papers.is_latency(key) else ""
    apart = ["real-time", "background"] if key == "total_mib_s" else []
    ours = [word for target in targets for word in (target, "ratio", *apart)]
    return numbers(f"{papers.QUANTITIES[key][0]}{unit}\npaper", *ours)


def _figures(key: str, cell: papers.PaperCell | None, targets: Sequence[str]) -> list[TableCell]:
    """The columns of one quantity; empty cells if the paper does not have it."""
    out = [TableCell(papers.show(key, cell.paper) if cell else "", "published")]
    for target in targets:
        error = cell.error(target) if cell else None
        off = cell is not None and cell.off(target)
        out.append(TableCell(papers.show(key, cell.ours.get(target)) if cell else ""))
        out.append(TableCell("" if error is None else f"{1 + error:.2f}", "warn" if off else ""))
        if key == "total_mib_s":
            apart = cell.apart.get(target) if cell else None
            out += [TableCell(f"{v:.3g}") for v in apart] if apart else [TableCell(), TableCell()]
    return out


def of_errors(found: Sequence[papers.PaperCell], targets: Sequence[str]) -> HtmlTable:
    """The errors by load: median of the signed errors, median of their sizes, and the largest."""
    headings = [*texts("load", "target", "figure"), *numbers("median", "median size", "worst", "off")]
    rows = []
    for target in targets:
        for s in papers.summaries(found, target):
            name, most = papers.QUANTITIES[s.key]
            rows.append(
                Row(
                    s.title,
                    [
                        TableCell(target, "text"),
                        TableCell(name, "text"),
                        TableCell(f"{s.median:+.0%}"),
                        TableCell(f"{s.median_size:.0%}", "warn" if s.median_size > most else ""),
                        TableCell(f"{s.worst:+.0%}"),
                        TableCell(f"{s.off} of {s.count}", "warn" if s.off else ""),
                    ],
                )
            )
    return HtmlTable("Table of errors", headings, rows)


def of_stated(folder: Path, runs: Sequence[tuple[Run, Sequence[Point]]]) -> HtmlTable:
    """The figures that the paper's text states, beside those of the runs of one experiment.

    `folder` is a run's folder, which has the paper's file. There are no rows without a paper or such text.
    """
    spec = runs[0][0].spec
    rows = []
    for fact in papers.stated(folder, spec):
        answers = [(run.target, papers.answer(fact, run.spec, points)) for run, points in runs]
        ours = "; ".join(f"{target} {words}" for target, words in answers if words)
        rows.append(Row(fact["metric"].replace("_", " "), _fact(fact, ours)))
    headings = [*texts("figure", "scheduler", "access"), *numbers("KiB", "paper", "ours"), *texts("note")]
    return HtmlTable("Table of stated figures", headings, rows)


def _fact(fact: Mapping[str, str], ours: str) -> list[TableCell]:
    return [
        TableCell(fact["scheduler"], "text"),
        TableCell(fact["access_pattern"], "text"),
        TableCell(fact["block_size_kib"]),
        TableCell(f"{fact['value']} {fact['unit']}", "published"),
        TableCell(ours),
        TableCell(fact["note"], "note"),
    ]
