# SPDX-License-Identifier: GPL-2.0-only
"""One self-contained HTML file: the paper's plots and values beside ours, how it was done."""

import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from plotly.offline import get_plotlyjs

from tailgate.papers import cells
from tailgate.papers.answers import published_in, read_points
from tailgate.papers.cells import Cell
from tailgate.runs.folder import read_run
from tailgate.runs.measurements import Measurement
from tailgate.runs.points import Point, PointFlow
from tailgate.show import plots, shares, waits
from tailgate.show.words import interval_words, load_words, ms
from tailgate.spec import paper
from tailgate.spec.experiment import Experiment
from tailgate.spec.plan import Run


@dataclass(frozen=True)
class Loaded:
    """A run as the report shows it."""

    folder: Path
    run: Run
    measurements: list[Measurement]
    points: list[Point]
    published: Mapping[str | None, Sequence[paper.Published]]  # by the load's label
    environment: Mapping[str, Any]


def load(folder: Path) -> Loaded:
    """Read a run's folder; UsageError if it is none, or holds no point."""
    run = read_run(folder)
    measurements, points = read_points(folder, run)
    published = published_in(folder, run.spec)
    environment = folder / "environment.json"
    about = json.loads(environment.read_text()) if environment.is_file() else {}
    return Loaded(folder, run, measurements, points, published, about)


def write(folders: Sequence[Path], path: Path) -> None:
    """Write the report of these runs; those of one experiment share a section, beside the paper."""
    runs = [load(folder) for folder in folders]
    groups: dict[str, list[Loaded]] = {}
    for r in runs:
        groups.setdefault(r.run.name, []).append(r)
    package = resources.files("tailgate.show")
    body = "\n".join(_section(group, i) for i, group in enumerate(groups.values()))
    title = " · ".join(dict.fromkeys(f"{r.run.name}: {r.run.spec.title}" for r in runs))
    path.write_text(
        f"""<!doctype html>
<!-- SPDX-License-Identifier: GPL-2.0-only (plotly.js inside: MIT) -->
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{_e(title)}</title>
<link rel="icon" href="data:,">
<style>
{(package / "report.css").read_text()}</style>
</head>
<body>
<main>
{body}
</main>
<script>{get_plotlyjs()}</script>
<script>
{(package / "report.js").read_text()}</script>
</body>
</html>
""",
        encoding="utf-8",
    )


def _e(text: object) -> str:
    return html.escape(str(text))


def finding(run: Run, points: Sequence[Point]) -> str:
    """The answer in a sentence: what the first K2 of the experiment does to the tail at full load."""
    # Writes end in the cache, whatever the scheduler.
    if len(run.spec.sweeps) > 1 or run.spec.sweeps[0].op == "write":
        return ""
    full = {p.scheduler.label: p for p in points if p.variant is None and p.background_rate >= 1}
    ours = next((p for p in full.values() if p.scheduler.name == "k2"), None)
    none = full.get("none")
    if not ours or not none:
        return ""
    rt0, bg0, rt1, bg1 = none.rt, none.bg, ours.rt, ours.bg
    if not rt0 or not bg0 or not rt1 or not bg1:
        return ""
    text = (
        f"At full load the real-time task's p99.9 is {ms(rt1.lat_us['p99.9'])} ms under "
        f"{ours.scheduler.label} and {ms(rt0.lat_us['p99.9'])} ms under none: "
        f"{rt0.lat_us['p99.9'] / rt1.lat_us['p99.9']:.1f} times lower, at the price of "
        f"{1 - bg1.mib_s / bg0.mib_s:.0%} of the background's throughput."
    )
    if none.published and ours.published:
        theirs, own = none.published.values, ours.published.values
        text += (
            f" In the paper: {theirs['lat_us.p99.9'] / own['lat_us.p99.9']:.1f} times, "
            f"at {1 - own['mib_s'] / theirs['mib_s']:.0%}."
        )
    return text


# --- tables -----------------------------------------------------------------------------------------------


def _table(loaded: Loaded, name: str) -> str:
    run = loaded.run
    points = [p for p in loaded.points if p.variant is None]
    several = len(run.spec.sweeps) > 1
    apart = any(sweep.rt_block_size_kib for sweep in run.spec.sweeps)
    beside = run.spec.paper is not None
    rate, tail = published_kinds(points)
    theirs = (f"<th>{rate}</th>", f"<th>{tail}</th>") if beside else ("", "")
    marks = list(dict.fromkeys(mark for p in points for mark in p.marks))
    rows = []
    for i, p in enumerate(points):
        after = points[i + 1] if i + 1 < len(points) else None
        last = not after or (after.scheduler, after.sweep) != (p.scheduler, p.sweep)
        rows.append(_row(p, marks, last, several, apart, beside))
    notes = "".join(f"<li>{_e(mark)}</li>" for mark in marks)
    published = f" Paper: {_e(_cells_words(run.spec))}; ours divided by the paper's in brackets."
    return f"""<p class="soft" id="{name}">Latency of the real-time task in ms. 95 % intervals:
by order statistics in a run, across seeds by how far their percentiles are apart.{
        published if any(p.published for p in points) else ""
    }</p>
<div class="wide" tabindex="0" role="region" aria-label="Table of all points">
<table aria-describedby="{name}">
<thead><tr><th class="text">scheduler</th>{'<th class="text">load</th>' if several else ""}<th>rate</th>
{"<th>real-time<br>MiB/s</th>" if apart else ""}<th>background<br>MiB/s</th>{theirs[0]}
<th>median</th><th>p99</th><th>95 %</th><th>p99.9</th><th>95 %</th>{theirs[1]}<th>n</th>
<th>CPU idle</th></tr></thead>
<tbody>
{"".join(rows)}</tbody>
</table>
</div>
{f'<ol class="notes soft">{notes}</ol>' if notes else ""}"""


def _waits(points: Sequence[Point]) -> str:
    """The same of an experiment with file systems: who waits for them, and for how long."""
    head = "".join(f"<th>{_e(first)}<br>{_e(second)}</th>" for first, second in waits.headings(points))
    rows = "".join(
        f'<tr><th scope="row">{_e(p.scheduler.label)}</th><td class="text">{_e(p.sweep.words)}</td>'
        f"{''.join(f'<td>{_e(cell)}</td>' for cell in waits.row(p, points))}</tr>\n"
        for p in points
    )
    marks = "".join(f"<li>{_e(mark)}</li>" for mark in dict.fromkeys(m for p in points for m in p.marks))
    return f"""<div class="wide" tabindex="0" role="region" aria-label="Table of all points">
<table><thead><tr><th class="text">scheduler</th><th class="text">file system</th>{head}</tr></thead>
<tbody>
{rows}</tbody></table></div>
<p class="soft">{_e(waits.NOTE)}</p>
{f'<ul class="notes soft">{marks}</ul>' if marks else ""}"""


def _shares(points: Sequence[Point]) -> str:
    """The same of an experiment whose flows share the drive, load by load."""
    tables = []
    for here in shares.loads(points):
        lines = shares.headings(here, points)
        head = "".join(f"<th>{_e(first)}<br>{_e(second)}</th>" for first, second in lines)
        rows = "".join(
            f'<tr><th scope="row">{_e(p.scheduler.label)}</th>'
            f"{''.join(f'<td>{_e(cell)}</td>' for cell in shares.row(p, here, points))}</tr>\n"
            for p in here
        )
        tables.append(f"""<h3>{_e(here[0].sweep.words)}</h3>
<div class="wide" tabindex="0" role="region" aria-label="Table of a load">
<table><thead><tr><th class="text">scheduler</th>{head}</tr></thead>
<tbody>
{rows}</tbody></table></div>""")
    marks = "".join(f"<li>{_e(mark)}</li>" for mark in dict.fromkeys(m for p in points for m in p.marks))
    notes = f'<ul class="notes soft">{marks}</ul>' if marks else ""
    return "\n".join([*tables, f'<p class="soft">{_e(shares.NOTE)}</p>', notes])


def _cells_words(spec: Experiment) -> str:
    if spec.paper is None:
        return ""
    if any(sweep.row for sweep in spec.sweeps):
        return "Table I"
    if lines := [s.lines["source"] for s in spec.sweeps if s.lines]:
        return ", ".join(dict.fromkeys(lines))
    table = "Table II" if spec.paper.cells == "highest throughput" else "Table III"
    return f"{table}, at its {spec.paper.cells}"


def published_rate(p: Point) -> str:
    """The paper's throughput at this point, and ours over its, in words; "" if it has none."""
    if not p.published or not p.bg:
        return ""
    total = p.published.values.get("total_mib_s")
    if total and p.rt:
        return f"{total:.3g} ({(p.rt.mib_s + p.bg.mib_s) / total:.2f})"
    theirs = p.published.mib_s
    return f"{theirs:.0f} ({p.bg.mib_s / theirs:.2f})" if theirs else ""


def published_tail(flow: PointFlow, tail: tuple[str, float]) -> str:
    """The paper's percentile of a flow in ms, and ours over its, in words."""
    name, us = tail
    return f"{ms(us)} ({flow.lat_us[name] / us:.2f})"


def published_kinds(points: Sequence[Point]) -> tuple[str, str]:
    """What headings call the paper's throughput and latency at these points.

    It is `paper` where they are as the K2 paper's, the background's throughput and the p99.9.
    """
    found = [p.published for p in points if p.published]
    rate = "paper, both" if any("total_mib_s" in p.values for p in found) else "paper"
    tails = {p.tail[0] for p in found if p.tail} - {"p99.9"}
    return rate, f"paper, {tails.pop()}" if tails else "paper"


def _row(p: Point, marks: Sequence[str], last: bool, several: bool, apart: bool, beside: bool) -> str:
    rt, bg = p.rt, p.bg
    numbers = ", ".join(str(marks.index(m) + 1) for m in p.marks)
    mark = f' <small class="warn">({numbers})</small>' if numbers else ""
    out = [f'<th scope="row">{_e(p.scheduler.label)}{mark}</th>']
    if several:
        out.append(f'<td class="text">{_e(p.sweep.words)}</td>')
    out.append(f"<td>{load_words(p.background_rate)}</td>")
    if apart:
        out.append(f"<td>{rt.mib_s:.3g}</td>" if rt else "<td>–</td>")
    out.append(f"<td>{bg.mib_s:.0f}</td>" if bg else "<td>–</td>")
    if beside:
        theirs = published_rate(p)
        out.append(f'<td class="published">{theirs}</td>' if theirs else "<td></td>")
    width = 6 if beside else 5
    if not p.real_time:
        out.append(
            f'<td class="text" colspan="{width}">{bg.iops / 1000 if bg else 0:.1f} k I/O a second</td>'
        )
    elif rt is None:
        out.append(f'<td class="text" colspan="{width}">no real-time request was completed</td>')
    else:
        out.append(f"<td>{ms(rt.lat_us['p50'])}</td>")
        for key in ("p99", "p99.9"):
            out.append(f"<td>{ms(rt.lat_us[key])}</td>")
            out.append(f"<td><small>{_e(interval_words(rt.ci_us[key], rt.histogram.n))}</small></td>")
        if beside:
            tail = p.published.tail if p.published else None
            out.append(f'<td class="published">{published_tail(rt, tail)}</td>' if tail else "<td></td>")
    out.append(f"<td>{rt.histogram.n if rt else 0}</td><td>{p.idle:.0%}</td>")
    return f"<tr{' class=last' if last else ''}>{''.join(out)}</tr>\n"


#: Headings of what is always told apart.
_APART = "<th>real-time</th><th>background</th>"


def _comparison(group: Sequence[Loaded], found: Sequence[Cell]) -> str:
    """The paper's cells, and each target's beside them with the ratio; what is far off is marked."""
    targets = list(dict.fromkeys(t for c in found for t in c.ours))
    if not targets:
        return ""
    keys = [k for k in cells.QUANTITIES if any(c.key == k for c in found)]
    head = "".join(
        f"<th>{cells.QUANTITIES[k][0]}{', ms' if k.startswith('lat') else ''}<br>paper</th>"
        + "".join(f"<th>{t}</th><th>ratio</th>{_APART if k == 'total_mib_s' else ''}" for t in targets)
        for k in keys
    )
    rows = []
    lines = cells.lines(found)
    for i, (words, label, line_cells) in enumerate(lines):
        last = i + 1 == len(lines) or lines[i + 1][0] != words
        line = [f'<th scope="row">{_e(label)}</th><td class="text">{_e(words)}</td>']
        for key in keys:
            cell = line_cells.get(key)
            line.append(f'<td class="published">{cells.show(key, cell.paper) if cell else ""}</td>')
            for target in targets:
                line.append(f"<td>{cells.show(key, cell.ours.get(target)) if cell else ''}</td>")
                line.append(_ratio(cell, target))
                if key == "total_mib_s":
                    shares = cell.apart.get(target, ()) if cell else ()
                    line += [f"<td>{v:.3g}</td>" for v in shares] or ["<td></td><td></td>"]
        rows.append(f"<tr{' class=last' if last else ''}>{''.join(line)}</tr>\n")
    spec = group[0].run.spec
    lacking = cells.missing(spec, group[0].run.name, [r.run for r in group])
    hint = f'<p class="soft">The missing rows: <code>{_e(lacking)}</code></p>' if lacking else ""
    sentences = cells.changed(c.scheduler.name for c in found if c.ours)
    notes = "".join(f'<p class="soft">{_e(sentence)}</p>' for sentence in sentences)
    return f"""<h2>The paper's cells</h2>
<p class="soft">{_e(_cells_words(spec))}. The ratio is ours over the paper's;
<span class="warn">marked</span> is what is off by more than 15 % in throughput or 25 % in latency, even where
the paper's rounding is set aside.</p>
<div class="wide" tabindex="0" role="region" aria-label="Table of the paper's cells">
<table><thead><tr><th class="text">scheduler</th><th class="text">load</th>{head}</tr></thead>
<tbody>
{"".join(rows)}</tbody></table></div>
{hint}
{notes}
{_errors(found, targets)}"""


def _ratio(cell: Cell | None, target: str) -> str:
    error = cell.error(target) if cell else None
    if cell is None or error is None:
        return "<td></td>"
    return f"<td{' class=warn' if cell.off(target) else ''}>{1 + error:.2f}</td>"


def _errors(found: Sequence[Cell], targets: Sequence[str]) -> str:
    """The errors by load: medians, signed and not, and the worst."""
    rows = []
    for target in targets:
        for s in cells.summaries(found, target):
            most = cells.QUANTITIES[s.key][1]
            off = f"<td{' class=warn' if s.off else ''}>{s.off} of {s.count}</td>"
            far = " class=warn" if s.median_size > most else ""
            rows.append(
                f'<tr><th scope="row">{_e(s.title)}</th><td class="text">{_e(target)}</td>'
                f'<td class="text">{cells.QUANTITIES[s.key][0]}</td><td>{s.median:+.0%}</td>'
                f"<td{far}>{s.median_size:.0%}</td><td>{s.worst:+.0%}</td>{off}</tr>\n"
            )
    return f"""<h2>Errors</h2>
<div class="wide" tabindex="0" role="region" aria-label="Table of errors">
<table><thead><tr><th class="text">load</th><th class="text">target</th><th class="text">figure</th>
<th>median</th><th>median size</th><th>worst</th><th>off</th></tr></thead>
<tbody>
{"".join(rows)}</tbody></table></div>"""


def _stated(group: Sequence[Loaded]) -> str:
    """What the paper's text says of the figure, beside what we measured."""
    first = group[0]
    rows = []
    for fact in cells.stated(first.folder, first.run.spec):
        ours = "; ".join(
            f"{r.run.target} {words}" for r in group if (words := cells.answer(fact, r.run.spec, r.points))
        )
        note = f" <small>{_e(fact['note'])}</small>" if fact["note"] else ""
        rows.append(
            f'<tr><th scope="row">{_e(fact["metric"].replace("_", " "))}</th>'
            f'<td class="text">{_e(fact["scheduler"])}</td><td class="text">{_e(fact["access_pattern"])}</td>'
            f"<td>{_e(fact['block_size_kib'])}</td>"
            f'<td class="published">{_e(fact["value"])} {_e(fact["unit"])}</td><td>{_e(ours)}</td>'
            f'<td class="text">{note}</td></tr>\n'
        )
    if not rows:
        return ""
    return f"""<h2>What the paper's text says</h2>
<div class="wide" tabindex="0" role="region" aria-label="Table of stated figures">
<table><thead><tr><th class="text">figure</th><th class="text">scheduler</th>
<th class="text">access</th><th>KiB</th>
<th>paper</th><th>ours</th><th class="text">note</th></tr></thead>
<tbody>
{"".join(rows)}</tbody></table></div>"""


def variant_sentences(run: Run, points: Sequence[Point]) -> list[tuple[str, str]]:
    """What another machine changes: (title of the variant, sentence) for each of its points."""
    main = {(p.scheduler.label, p.sweep.label, p.background_rate): p for p in points if p.variant is None}
    out = []
    for p in points:
        twin = main.get((p.scheduler.label, p.sweep.label, p.background_rate))
        if p.variant is None or twin is None:
            continue
        bg, rt, bg1, rt1 = p.bg, p.rt, twin.bg, twin.rt
        if not bg or not rt or not bg1 or not rt1:
            continue
        changes = [f"{bg.mib_s:.0f} MiB/s ({bg.mib_s / bg1.mib_s - 1:+.1%})"]
        changes += [
            f"{name} {ms(rt.lat_us[name])} ms ({rt.lat_us[name] / rt1.lat_us[name] - 1:+.1%})"
            for name in ("p50", "p99", "p99.9")
        ]
        out.append(
            (
                run.spec.variants[p.variant].title,
                f"{p.scheduler.label} at {load_words(p.background_rate)} load: {', '.join(changes)}; "
                f"time dilated {p.dilation} times, n {rt.histogram.n}",
            )
        )
    return out


# --- text -------------------------------------------------------------------------------------------------


def where_measured(run: Run, points: Sequence[Point]) -> str:
    """Where latency is taken, here and in the paper, and by how much the two differ on the idle drive."""
    if any(p.blocked for p in points):
        return "The time of an fdatasync is fio's: from the system call to its return."
    text = "Latency here is fio's clat of the synchronous task: from its system call to the call's return."
    if run.spec.paper:
        text += f" The paper's is the {run.spec.paper.latency}."
    alone = [(p.block_us, p.rt.lat_us["mean"]) for p in points if p.block_us and p.rt]
    if alone:
        gaps = [fio - block for block, fio in alone]
        low, high = min(gaps), max(gaps)
        between = f"{low:.0f}" if round(low) == round(high) else f"{low:.0f} to {high:.0f}"
        block = sum(b for b, _ in alone) / len(alone)
        whose = "in the simulator" if run.target == "sim" else "by the kernel's own iostats"
        text += (
            f" With the real-time task alone, ours is {between} us longer in the mean "
            f"({whose}, the block layer takes {block:.0f} us of it)."
        )
    return text


def machine_words(loaded: Loaded) -> str:
    """Virtual time or not, and what that means for the figures."""
    modes = {m.conditions.mode for m in loaded.measurements}
    if modes == {"sim"}:
        return (
            "Simulated: the same scheduler and drive code as in the kernel's modules, in a model of "
            "processors and block layer; the same run gives the same digits on any host."
        )
    if modes == {"icount"}:
        return (
            "Virtual time: the guest's clock counts instructions (1 ns each), so the same run gives the same "
            "digits on any host; CPU costs are counts of instructions, not nanoseconds of a real CPU."
        )
    return (
        "Measured under KVM in wall time: figures vary from run to run, and are not comparable with those "
        "of virtual time."
    )


def _section(group: Sequence[Loaded], number: int) -> str:
    first = group[0]
    spec = first.run.spec
    filled = [*group, *_beside(group)]
    runs = [(r.run, r.points) for r in filled]
    several = len(group) > 1
    findings = [
        f'<p class="finding">{_e(f"{r.run.target}: " if several else "")}{_e(found)}</p>'
        for r in group
        if (found := finding(r.run, r.points))
    ]
    x = spec.paper.x if spec.paper else "Background throughput (MiB/s)"
    y = spec.paper.y if spec.paper else "Latency of the real-time task (ms)"
    axes = f"<span>→ {_e(x)}</span><span>↑ {_e(y)}</span>"
    after = f", after {spec.paper.figure} of {spec.paper.title}" if spec.paper else ""
    if spec.plot == "bandwidth-latency":
        drawn = f"""{plots.key_of_curves(runs)}
<div class="panels">
{plots.curves(runs, first.published, number)}
</div>
<p class="axes soft">{axes}</p>"""
    elif spec.plot == "medians":
        drawn = f'{plots.key_of_medians()}\n<div class="panels">\n{plots.medians(runs, number)}\n</div>'
    elif spec.plot in ("sizes", "ccdf"):
        draw = plots.sizes if spec.plot == "sizes" else plots.ccdf
        drawn = f"""{plots.key_of_lines(runs)}
<div class="panels">
{draw(runs, number)}
</div>
<p class="axes soft">{axes}</p>"""
    else:
        drawn = ""
    compared = cells.of(spec, [(r.run.target, p) for r in filled for p in r.points], first.published)
    parts = [
        f"<h1>{_e(spec.title)}</h1>",
        f'<p class="soft">{_e(first.run.name + after)}</p>',
        *findings,
        drawn,
        _comparison(filled, compared)
        if len(filled) > 1 or first.run.target == "sim" or len(spec.sweeps) > 1
        else "",
        _stated(group),
    ]
    for i, r in enumerate(group):
        name = f": {r.run.target}" if several else ""
        if any(p.blocked for p in r.points):
            whole = _waits(r.points)
        elif spec.plot == "shares":
            whole = _shares(r.points)
        else:
            whole = _table(r, f"about-table-{number}-{i}")
        parts += [f"<h2>All points{_e(name)}</h2>", whole]
    for r in group:
        parts.append(_how(r, f": {r.run.target}" if several else ""))
    body = "\n".join(part for part in parts if part)
    return f"<section>\n{body}\n</section>"


def _beside(group: Sequence[Loaded]) -> list[Loaded]:
    """What a section's simulated runs lack, out of runs of the target vm that are there."""
    there = {s.label for r in group for s in r.run.schedulers}
    return [
        Loaded(r.folder, run, [], points, {}, {})
        for r in group
        for run, points in cells.beside(r.folder, r.run)
        if not there & {s.label for s in run.schedulers}
    ]


def _how(loaded: Loaded, name: str) -> str:
    run, spec = loaded.run, loaded.run.spec
    variants = variant_sentences(run, loaded.points)
    extra = "".join(f"<li>{_e(title)}: {_e(text)}</li>" for title, text in variants)
    about = loaded.environment
    samples = f"{run.mode.rt_samples} real-time requests a point and seed" if run.mode.rt_samples else ""
    if run.mode.duration_s:
        samples = "; ".join(filter(None, (samples, f"{run.mode.duration_s:g} s a point that has none")))
    facts = {
        "Kernel": about.get("kernel"),
        "Drive": f"{spec.drive}: {about.get('drive_title', '')}",
        "Samples": f"{samples} ({run.mode_name}), seeds {', '.join(map(str, run.mode.seeds))}",
        "Queue": ", ".join(f"{k} {v}" for k, v in spec.queue.items()),
        "Knobs": "; ".join(
            f"{s.label}: {', '.join(f'{k} {v}' for k, v in s.knobs.items())}"
            for s in run.schedulers
            if s.knobs
        ),
        "Machine": ", ".join(filter(None, (about.get("qemu", ""), f"{spec.machine.smp} CPU"))),
        "Load": f"fio {about.get('fio', '')}",
        "Measured": about.get("finished"),
        "Command": about.get("command"),
    }
    rows = "".join(f"<dt>{k}</dt><dd>{_e(v)}</dd>" for k, v in facts.items() if v)
    return f"""{f'<h2>On another machine</h2><ul class="notes">{extra}</ul>' if extra else ""}
<h2>How this was measured{_e(name)}</h2>
<p>{_e(where_measured(run, loaded.points))}</p>
<p>{_e(machine_words(loaded))}</p>
<dl>{rows}</dl>"""
