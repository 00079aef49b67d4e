# SPDX-License-Identifier: GPL-2.0-only
"""The table of a run for a terminal."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tailgate.papers import cells
from tailgate.papers.answers import published_in
from tailgate.runs.points import Point, PointFlow
from tailgate.show import flows, grids, sentences, shares, waits
from tailgate.show.plain import of_numbers, show_marks, without_frame
from tailgate.show.words import load_words, ms
from tailgate.spec.plan import Run
from tailgate.spec.sweep import Sweep

#: Narrower terminals get no intervals, numbers of samples and idle shares; the report has them.
WIDE = 112


def show(
    console: Console,
    run: Run,
    points: Sequence[Point],
    folder: Path | None = None,
    beside: Sequence[tuple[Run, list[Point]]] = (),
) -> None:
    """Print the points, the result in a sentence, the effect of another machine, and the notes.

    An experiment that repeats a table of the paper is printed as that table, beside the paper's; `folder` is
    the run's, `beside` has points that it lacks (`cells.beside`). An experiment whose real-time tasks use a
    file system also shows how long they wait for it. Schedulers that are a grid are shown as matrices.
    """
    if waits.matter(points):
        _show_waits(console, points)
        return
    if run.spec.plot == "shares":
        _show_shares(console, run, points)
        return
    if run.spec.plot == "none" and folder and all(published_in(folder, run.spec).values()):
        _show_cells(console, [(run, list(points)), *beside], folder)
        return
    if run.spec.plot == "grid" or flows.alone(run, points):
        _show_flows(console, run, points)
        return
    wide = console.width >= WIDE
    main = [p for p in points if p.variant is None]
    marks = list(dict.fromkeys(mark for p in main for mark in p.marks))
    for sweep in run.spec.sweeps:
        here = [p for p in main if p.sweep == sweep]
        if len(run.spec.sweeps) > 1 and here:
            console.print(f"[bold]{escape(sweep.words)}[/bold]", highlight=False)
        if here:
            console.print(_points(here, marks, wide, _apart(sweep, here), run.spec.paper is not None))
    if found := sentences.finding(run, points):
        console.print(escape(found), highlight=False)
    for title, sentence in sentences.variant_sentences(run, points):
        console.print(escape(f"{title}, {sentence}"), highlight=False)
    for sentence in cells.changed(p.scheduler.name for p in main if p.published):
        console.print(escape(sentence), highlight=False)
    _show_dilation(console, points)
    for i, mark in enumerate(marks, 1):
        console.print(f"[yellow]({i})[/yellow] {escape(mark)}", highlight=False)
    console.print(escape(sentences.where_measured(run, points)), style="dim", highlight=False)


def _show_dilation(console: Console, points: Sequence[Point]) -> None:
    dilations = sorted({p.dilation for p in points if p.dilation > 1})
    if dilations:
        times = " or ".join(map(str, dilations))
        console.print(f"Time dilated {times} times where the report says so; all figures are undilated.")


def _apart(sweep: Sweep, points: Sequence[Point]) -> bool:
    """Whether to show the throughput of the real-time flow; otherwise the share of the background's full rate
    is shown.
    """
    return bool(sweep.rt_block_size_kib) and all(p.background_rate == 1 for p in points)


def _points(points: Sequence[Point], marks: Sequence[str], wide: bool, apart: bool, beside: bool) -> Table:
    """The points of one load; `beside`: with the paper's figures."""
    rate, tail = sentences.published_kinds(points)
    headings = [
        *(["rt\nMiB/s"] if apart else ["load"]),
        "backgr.\nMiB/s",
        *([f"{rate}\n(ours/its)"] if beside else []),
        "p50\nms",
        "p99\nms",
        "p99.9\nms",
    ]
    headings += ["95 % interval\nof the p99.9"] if wide else []
    headings += [f"{tail}\n(ours/its)"] if beside else []
    headings += ["n", "CPU\nidle"] if wide else []
    table = of_numbers("scheduler", headings)
    previous = ""
    for p in points:
        label = p.scheduler.label
        if previous and label != previous:
            table.add_section()
        numbers = ",".join(str(marks.index(m) + 1) for m in p.marks)
        name = escape("" if label == previous else label)
        previous = label
        table.add_row(
            name + (f" [yellow]({numbers})[/yellow]" if numbers else ""), *_row(p, wide, apart, beside)
        )
        for flow in p.real_time[1:]:
            empty = ["", ""] if beside else [""]
            table.add_row("", escape(flow), *empty, *_latency(p.flow(flow), "", wide, beside))
    return table


def _show_waits(console: Console, points: Sequence[Point]) -> None:
    table = of_numbers("scheduler", ["\n".join(lines) for lines in waits.headings(points)])
    previous = None
    for p in points:
        if p.sweep != previous:
            if previous:
                table.add_section()
            table.add_row(f"[bold]{escape(p.sweep.words)}[/bold]")
        previous = p.sweep
        table.add_row(*map(escape, (p.scheduler.label, *waits.row(p, points))))
    console.print(table)
    show_marks(console, points, lambda ps: "; ".join(f"{p.scheduler.label}, {p.sweep.words}" for p in ps))
    console.print(waits.NOTE, style="dim", highlight=False)


def _show_shares(console: Console, run: Run, points: Sequence[Point]) -> None:
    for here in shares.loads(points):
        console.print(f"[bold]{escape(here[0].sweep.words)}[/bold]", highlight=False)
        table = of_numbers("scheduler", ["\n".join(lines) for lines in shares.headings(here, points)])
        for p in here:
            table.add_row(*map(escape, (p.scheduler.label, *shares.row(p, here, points))))
        console.print(table)
    show_marks(console, points, _labels_and_loads)
    console.print(shares.NOTE, style="dim", highlight=False)


def _show_flows(console: Console, run: Run, points: Sequence[Point]) -> None:
    """Each flow by itself: the schedulers of a grid as matrices over its two knobs, each other scheduler as a
    row.
    """
    rest, matrices = grids.split(run, points)
    if rest:
        table = of_numbers("scheduler", ["\n".join(lines) for lines in flows.headings(rest)])
        for p in rest:
            table.add_row(*map(escape, (p.scheduler.label, *flows.row(p, rest))))
        console.print(table)
    for matrix in matrices:
        _show_matrix(console, matrix)
    for first, second in dict.fromkeys(m.knobs for m in matrices):
        console.print(f"Rows of a matrix: {first}; columns: {second}.", highlight=False)
    show_marks(console, points, _some_labels)
    _show_dilation(console, points)
    where = f"{flows.NOTE} {sentences.where_measured(run, points)}"
    console.print(escape(where), style="dim", highlight=False)


def _labels_and_loads(points: Sequence[Point]) -> str:
    return "; ".join(dict.fromkeys(f"{p.scheduler.label}, {p.sweep.label}" for p in points))


def _some_labels(points: Sequence[Point]) -> str:
    """The first three of the points' schedulers, and the number of the others."""
    labels = list(dict.fromkeys(p.scheduler.label for p in points))
    return ", ".join(labels[:3]) + (f" and {len(labels) - 3} more" if len(labels) > 3 else "")


def _show_matrix(console: Console, matrix: grids.Matrix) -> None:
    console.print(f"[bold]{escape(matrix.title)}[/bold]", highlight=False)
    table = without_frame()
    for heading in ("", *matrix.columns):
        table.add_column(escape(heading), justify="right", no_wrap=True)
    for name, texts in zip(matrix.rows, matrix.texts, strict=True):
        table.add_row(f"[dim]{escape(name)}[/dim]", *texts)
    console.print(table)


def _show_cells(console: Console, runs: Sequence[tuple[Run, list[Point]]], folder: Path) -> None:
    """The cells of the first of these runs; the others have points that it lacks."""
    run, points = runs[0]
    published = published_in(folder, run.spec)
    compared = cells.of(run.spec, [(r.target, p) for r, ps in runs for p in ps], published)
    targets = list(dict.fromkeys(t for c in compared for t in c.ours))
    keys = [key for key in cells.QUANTITIES if any(c.key == key for c in compared)]
    headings = []
    for key in keys:
        unit = "ms, " if cells.is_latency(key) else ""
        paper = "MiB/s,\npaper" if key == "total_mib_s" else f"{cells.QUANTITIES[key][0]}\n{unit}paper"
        headings += [paper, *(h for t in targets for h in _cell_headings(key, t))]
    table = of_numbers("scheduler", headings)
    table.padding = (0, 1, 0, 0)
    previous = ""
    for words, label, line in cells.lines(compared):
        if words != previous:
            if previous:
                table.add_section()
            table.add_row(f"[bold]{escape(words)}[/bold]")
        previous = words
        row = [escape(label)]
        for key in keys:
            cell = line.get(key)
            row.append(cells.show(key, cell.paper) if cell else "")
            for target in targets:
                error = cell.error(target) if cell else None
                row.append(cells.show(key, cell.ours.get(target)) if cell else "")
                ratio = "" if error is None else f"{1 + error:.2f}"
                row.append(f"[yellow]{ratio}[/yellow]" if cell and cell.off(target) else ratio)
                if key == "total_mib_s":
                    row += (
                        [f"{v:.3g}" for v in cell.apart[target]]
                        if cell and target in cell.apart
                        else ["", ""]
                    )
        table.add_row(*row)
    console.print(table)
    for target in targets:
        errors = of_numbers(f"errors of {target}", ["figure", "median", "median size", "worst", "off"])
        for s in cells.summaries(compared, target):
            name = cells.QUANTITIES[s.key][0]
            sizes = f"{s.median:+.0%}", f"{s.median_size:.0%}", f"{s.worst:+.0%}"
            errors.add_row(escape(s.title), name, *sizes, f"{s.off} of {s.count}")
        console.print(errors)
    console.print(
        "Off, and marked in the table: by more than 15 % in throughput or 25 % in latency, the paper's "
        "rounding set aside.",
        highlight=False,
    )
    for sentence in cells.changed(c.scheduler.name for c in compared if c.ours):
        console.print(escape(sentence), highlight=False)
    lacking = cells.missing(run.spec, run.name, [r for r, _ in runs])
    if lacking:
        console.print(f"The missing rows: {escape(lacking)}", highlight=False)
    for mark in dict.fromkeys(mark for p in points for mark in p.marks):
        about = [p for p in points if mark in p.marks]
        if len({p.scheduler.label for p in about}) == 1:
            console.print(f"[yellow]{escape(mark)}[/yellow]", highlight=False)
        else:
            where = "; ".join(f"{p.scheduler.label}, {p.sweep.words}" for p in about)
            console.print(f"[yellow]{escape(mark)}[/yellow]: {escape(where)}", highlight=False)


def _cell_headings(key: str, target: str) -> list[str]:
    return (
        [target, "ratio"] if key != "total_mib_s" else ["both\n" + target, "ratio", "real-\ntime", "backgr."]
    )


def _row(p: Point, wide: bool, apart: bool, beside: bool) -> list[str]:
    row = [(f"{p.rt.mib_s:.3g}" if p.rt else "-") if apart else load_words(p.background_rate)]
    row.append(f"{p.bg.mib_s:.{1 if apart else 0}f}" if p.bg else "-")
    row += [sentences.published_rate(p)] if beside else []
    row += _latency(p.rt, sentences.published_tail(p, p.rt) if p.rt else "", wide, beside)
    return [*row, f"{p.idle:.0%}"] if wide else row


def _latency(flow: PointFlow | None, theirs: str, wide: bool, beside: bool) -> list[str]:
    if flow is None or not flow.histogram.n:
        return ["", "", "none", *([""] if wide else []), *([""] if beside else []), *(["0"] if wide else [])]
    cells = [ms(flow.lat_us[name]) for name in ("p50", "p99", "p99.9")]
    if wide:
        low, high = flow.ci_us["p99.9"]
        cells.append(f"at least {ms(low)}" if high is None else f"{ms(low)} to {ms(high)}")
    cells += [theirs] if beside else []
    return [*cells, str(flow.histogram.n)] if wide else cells
