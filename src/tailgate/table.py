# SPDX-License-Identifier: GPL-2.0-only
"""The table of a run for a terminal."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tailgate import report
from tailgate.results import Point, Run


def show(console: Console, run: Run, points: Sequence[Point]) -> None:
    """Print the points, the answer in a sentence, what another machine changes, the notes to the marks."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="dim")
    table.add_column("scheduler", no_wrap=True)
    for heading in (
        "load",
        "background\nMiB/s",
        "paper\n(ours/paper)",
        "p50\nms",
        "p99\nms",
        "p99.9\nms",
        "95 % interval\nof the p99.9",
        "paper\n(ours/paper)",
        "n",
        "CPU\nidle",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    main = [p for p in points if p.variant is None]
    marks = list(dict.fromkeys(mark for p in main for mark in p.marks))
    previous = ""
    for p in main:
        label = p.scheduler.label
        if previous and label != previous:
            table.add_section()
        numbers = ",".join(str(marks.index(m) + 1) for m in p.marks)
        table.add_row(
            escape("" if label == previous else label)
            + (f" [yellow]({numbers})[/yellow]" if numbers else ""),
            *_cells(run, p),
        )
        previous = label
    console.print(table)
    if found := report.finding(run, points):
        console.print(escape(found), highlight=False)
    for title, sentence in report.variant_sentences(run, points):
        console.print(escape(f"{title}, {sentence}"), highlight=False)
    dilations = sorted({p.dilation for p in points if p.dilation > 1})
    if dilations:
        times = " or ".join(map(str, dilations))
        console.print(f"Time dilated {times} times where marked in the report; all figures are undilated.")
    for i, mark in enumerate(marks, 1):
        console.print(f"[yellow]({i})[/yellow] {escape(mark)}", highlight=False)
    console.print(escape(report.where_measured(run, points)), style="dim", highlight=False)


def _cells(run: Run, p: Point) -> list[str]:
    rt, bg = p.flow(run.spec.flow_of("real-time")), p.flow(run.spec.flow_of("background"))
    paper = p.published
    cells = [report.load_words(p.background_rate), f"{bg.mib_s:.0f}" if bg else "-"]
    cells.append(f"{paper.mib_s:.0f} ({bg.mib_s / paper.mib_s:.2f})" if paper and bg else "")
    if rt is None or not rt.histogram.n:
        return [*cells, "", "", "none", "", "", "0", f"{p.idle:.0%}"]
    cells += [report.ms(rt.lat_us[name]) for name in ("p50", "p99", "p99.9")]
    low, high = rt.ci_us["p99.9"]
    cells.append(f"at least {report.ms(low)}" if high is None else f"{report.ms(low)} to {report.ms(high)}")
    latency = rt.lat_us["p99.9"]
    cells.append(f"{report.ms(paper.p999_us)} ({latency / paper.p999_us:.2f})" if paper else "")
    return [*cells, str(rt.histogram.n), f"{p.idle:.0%}"]
