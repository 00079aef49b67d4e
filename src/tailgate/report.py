# SPDX-License-Identifier: GPL-2.0-only
"""One self-contained HTML file: bandwidth-latency plots, the paper's values beside ours, how it was done."""

import html
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from plotly.offline import get_plotlyjs

from tailgate import analysis, paper, results
from tailgate.results import Measurement, Point, Run

#: Percentile -> marker, as in the legend; the colour is the load.
SYMBOLS: Mapping[str, str] = {"p50": "circle", "p99": "diamond", "p99.9": "square"}
#: Low to high load: distinguishable in grey, on white and on black.
COLOURS = ("#3b6fd4", "#2a9d8f", "#c9a227", "#d1495b")
PUBLISHED = "#9b5de5"
FEW_LOADS = 4
#: Where a logarithmic latency axis is labelled.
TICKS_MS = [m * 10**e for e in (-2, -1, 0, 1, 2) for m in (1, 2, 5)]


@dataclass(frozen=True)
class Loaded:
    """A run as the report shows it."""

    folder: Path
    run: Run
    measurements: list[Measurement]
    points: list[Point]
    published: list[paper.Published]
    environment: Mapping[str, Any]


def load(folder: Path) -> Loaded:
    """Read a run's folder; UsageError if it is none, or holds no point."""
    run = results.read_run(folder)
    measurements, points = results.read_points(folder, run)
    published = paper.load(folder / "sources" / Path(run.spec.paper.file).name, run.spec.sweep)
    environment = folder / "environment.json"
    about = json.loads(environment.read_text()) if environment.is_file() else {}
    return Loaded(folder, run, measurements, points, published, about)


def write(folders: Sequence[Path], path: Path) -> None:
    """Write the report of these runs."""
    runs = [load(folder) for folder in folders]
    package = resources.files("tailgate")
    body = "\n".join(_section(loaded, i) for i, loaded in enumerate(runs))
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


def ms(us: float | None) -> str:
    """Microseconds as milliseconds with three significant digits."""
    if us is None or math.isnan(us):
        return "–"
    return f"{us / 1000:.{max(0, 2 - math.floor(math.log10(max(us, 1) / 1000)))}f}" if us else "0"


def interval_words(ci: analysis.Interval, n: int) -> str:
    """`12.9 to 13.4`, or `at least 12.9 (n 400)`."""
    low, high = ci
    if math.isnan(low):
        return "no samples"
    return f"at least {ms(low)} (n {n})" if high is None else f"{ms(low)} to {ms(high)}"


def finding(run: Run, points: Sequence[Point]) -> str:
    """The answer in a sentence: what the first K2 of the experiment does to the tail at full load."""
    rt_name, bg_name = run.spec.flow_of("real-time"), run.spec.flow_of("background")
    full = {p.scheduler.label: p for p in points if p.variant is None and p.background_rate >= 1}
    ours = next((p for p in full.values() if p.scheduler.name == "k2"), None)
    none = full.get("none")
    if not ours or not none:
        return ""
    pairs = [(p.flow(rt_name), p.flow(bg_name)) for p in (none, ours)]
    (rt0, bg0), (rt1, bg1) = pairs
    if not rt0 or not bg0 or not rt1 or not bg1:
        return ""
    text = (
        f"At full load the reader's p99.9 is {ms(rt1.lat_us['p99.9'])} ms under {ours.scheduler.label} and "
        f"{ms(rt0.lat_us['p99.9'])} ms under none: "
        f"{rt0.lat_us['p99.9'] / rt1.lat_us['p99.9']:.1f} times lower, at the price of "
        f"{1 - bg1.mib_s / bg0.mib_s:.0%} of the background's throughput."
    )
    if none.published and ours.published:
        text += (
            f" In the paper: {none.published.p999_us / ours.published.p999_us:.1f} times, "
            f"at {1 - ours.published.mib_s / none.published.mib_s:.0%}."
        )
    return text


def _colour(rate: float) -> str:
    """The colour of a load: piecewise linear through COLOURS."""
    at = min(max(rate, 0.0), 1.0) * (len(COLOURS) - 1)
    i = min(int(at), len(COLOURS) - 2)
    parts = [
        round(int(COLOURS[i][c : c + 2], 16) * (1 - at + i) + int(COLOURS[i + 1][c : c + 2], 16) * (at - i))
        for c in (1, 3, 5)
    ]
    return "#" + "".join(f"{p:02x}" for p in parts)


# --- plots ------------------------------------------------------------------------------------------------


def _traces(loaded: Loaded, label: str) -> list[dict[str, object]]:
    """The plotly traces of one scheduler's panel: our percentiles over throughput, the paper's points."""
    run = loaded.run
    rt_name, bg_name = run.spec.flow_of("real-time"), run.spec.flow_of("background")
    points = [p for p in loaded.points if p.variant is None and p.scheduler.label == label]
    points.sort(key=lambda p: p.background_rate)
    traces: list[dict[str, object]] = []
    for key, symbol in SYMBOLS.items():
        rows = [(p, rt, p.flow(bg_name)) for p in points if (rt := p.flow(rt_name)) and rt.histogram.n]
        trace: dict[str, object] = {
            "type": "scatter",
            # Between few loads a line would claim what was not measured.
            "mode": "lines+markers" if len(rows) > FEW_LOADS else "markers",
            "name": key,
            "x": [bg.mib_s if bg else 0.0 for _, _, bg in rows],
            "y": [rt.lat_us[key] / 1000 for _, rt, _ in rows],
            "line": {"width": 1, "color": "#8a93a0", "dash": "solid" if key == "p99.9" else "dot"},
            "marker": {
                "symbol": symbol,
                "size": 8,
                "color": [_colour(p.background_rate) for p, _, _ in rows],
            },
            "text": [_hover(p, rt, key) for p, rt, _ in rows],
            "hovertemplate": "%{text}<extra></extra>",
        }
        if key in analysis.INTERVALS:
            ends = [(rt.lat_us[key], *rt.ci_us[key]) for _, rt, _ in rows]
            trace["error_y"] = {
                "type": "data",
                "symmetric": False,
                "array": [((high if high is not None else v) - v) / 1000 for v, _, high in ends],
                "arrayminus": [(v - low) / 1000 for v, low, _ in ends],
                "thickness": 1,
                "width": 2,
                "color": "#8a93a0",
            }
        traces.append(trace)
    name = next(s.paper for s in run.spec.schedulers if s.label == label)
    rows_paper = [p for p in loaded.published if p.scheduler == name]
    if rows_paper:
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": "paper, p99.9",
                "x": [p.mib_s for p in rows_paper],
                "y": [p.p999_us / 1000 for p in rows_paper],
                "marker": {"symbol": "x-thin", "size": 9, "line": {"width": 2, "color": PUBLISHED}},
                "text": [
                    f"paper, {p.source} ({p.where})<br>{p.mib_s:.0f} MiB/s, p99.9 {ms(p.p999_us)} ms"
                    for p in rows_paper
                ],
                "hovertemplate": "%{text}<extra></extra>",
            }
        )
    return traces


def _hover(point: Point, rt: results.PointFlow, key: str) -> str:
    text = f"{load_words(point.background_rate)}<br>{key} {ms(rt.lat_us[key])} ms"
    if key in analysis.INTERVALS:
        text += f"<br>95 %: {interval_words(rt.ci_us[key], rt.histogram.n)}"
    return text


def load_words(background_rate: float) -> str:
    """A load as tables name it."""
    if background_rate >= 1:
        return "full"
    return f"{background_rate:.0%}"


def _ranges(all_traces: Iterable[list[dict[str, Any]]]) -> tuple[list[float], list[float], list[float]]:
    """x, y linear, y logarithmic (decades): the same for all panels, the paper's points included."""
    traces = [t for traces in all_traces for t in traces]
    xs = [x for t in traces for x in t["x"]] or [1.0]
    ys = [y for t in traces for y in t["y"] if y > 0] or [1.0]
    tops = [
        y + up for t in traces if "error_y" in t for y, up in zip(t["y"], t["error_y"]["array"], strict=True)
    ]
    top = max([*ys, *tops])
    return (
        [-0.04 * max(xs), 1.08 * max(xs)],
        [0, 1.06 * top],
        [math.log10(min(ys) * 0.7), math.log10(top * 1.3)],
    )


def _panels(loaded: Loaded, number: int) -> str:
    measured = dict.fromkeys(p.scheduler.label for p in loaded.points if p.variant is None)
    traces = {label: _traces(loaded, label) for label in measured}
    x, y, y_log = _ranges(traces.values())
    out = []
    for i, (label, data) in enumerate(traces.items()):
        dilation = max(p.dilation for p in loaded.points if p.scheduler.label == label and p.variant is None)
        layout = {
            "margin": {"l": 38, "r": 8, "t": 8, "b": 30},
            "showlegend": False,
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"size": 11, "family": "inherit"},
            "hovermode": "closest",
            "dragmode": False,
            "xaxis": {"range": x, "fixedrange": True, "zeroline": False, "nticks": 5},
            "yaxis": {
                "range": y,
                "fixedrange": True,
                "zeroline": False,
                "nticks": 6,
                "tickvals": TICKS_MS,
                "tickmode": "auto",
            },
        }
        plot = f"plot-{number}-{i}"
        note = f" <small>time dilated {dilation}×</small>" if dilation > 1 else ""
        embedded = json.dumps({"data": data, "layout": layout}).replace("</", "<\\/")
        out.append(
            f'<figure><h3>{_e(label)}{note}</h3><div class="plot" id="{plot}" role="img" '
            f'aria-label="Bandwidth-latency plot of {_e(label)}; the figures are in the table below" '
            f"data-linear='{json.dumps(y)}' data-log='{json.dumps(y_log)}'></div>"
            f'<script type="application/json" id="{plot}-data">{embedded}</script></figure>'
        )
    return "\n".join(out)


_SHAPES = {
    "circle": '<circle cx="6" cy="6" r="4.5" fill="currentColor"/>',
    "diamond": '<path d="M6 0 12 6 6 12 0 6z" fill="currentColor"/>',
    "square": '<rect x="1.5" y="1.5" width="9" height="9" fill="currentColor"/>',
    "x-thin": '<path d="M1 1 11 11M11 1 1 11" stroke="currentColor" stroke-width="2" fill="none"/>',
}


def _key() -> str:
    def shape(symbol: str) -> str:
        return f'<svg viewBox="0 0 12 12" aria-hidden="true">{_SHAPES[symbol]}</svg>'

    names = {"p50": "median", "p99": "p99", "p99.9": "p99.9"}
    spans = [f"<span>{shape(symbol)}{names[key]}</span>" for key, symbol in SYMBOLS.items()]
    spans.append(f'<span class="published">{shape("x-thin")}paper, p99.9 (Tables II and III)</span>')
    gradient = ", ".join(COLOURS)
    spans.append(
        f'<span>no load <i class="ramp" style="background: linear-gradient(90deg, {gradient})"></i>'
        " full load</span>"
    )
    return (
        f'<div class="key">{"".join(spans)}<span class="scale" role="group" '
        'aria-label="Scale of the latency axis">'
        '<button type="button" value="linear" aria-pressed="true">linear</button>'
        '<button type="button" value="log" aria-pressed="false">log</button></span></div>'
    )


# --- tables -----------------------------------------------------------------------------------------------


def _table(loaded: Loaded) -> str:
    run = loaded.run
    points = [p for p in loaded.points if p.variant is None]
    marks = list(dict.fromkeys(mark for p in points for mark in p.marks))
    rows = [
        _row(run, p, marks, i + 1 == len(points) or points[i + 1].scheduler.label != p.scheduler.label)
        for i, p in enumerate(points)
    ]
    notes = "".join(f"<li>{_e(mark)}</li>" for mark in marks)
    return f"""<p class="soft" id="about-table">Latency of the real-time reader in ms. 95 % intervals:
distribution-free, by order statistics in a run, by bootstrap across seeds. Paper: Table II, at its highest
throughput; ours divided by the paper's in brackets.</p>
<div class="wide" tabindex="0" role="region" aria-label="Table of all points">
<table aria-describedby="about-table">
<thead><tr><th class="text">scheduler</th><th>load</th><th>background<br>MiB/s</th><th>paper</th>
<th>median</th><th>p99</th><th>95 %</th><th>p99.9</th><th>95 %</th><th>paper</th><th>n</th>
<th>CPU idle</th></tr></thead>
<tbody>
{"".join(rows)}</tbody>
</table>
</div>
{f'<ol class="notes soft">{notes}</ol>' if notes else ""}"""


def _row(run: Run, p: Point, marks: Sequence[str], last: bool) -> str:
    rt, bg = p.flow(run.spec.flow_of("real-time")), p.flow(run.spec.flow_of("background"))
    numbers = ", ".join(str(marks.index(m) + 1) for m in p.marks)
    mark = f' <small class="warn">({numbers})</small>' if numbers else ""
    mib_s = f"{bg.mib_s:.0f}" if bg else "–"
    cells = [
        f'<th scope="row">{_e(p.scheduler.label)}{mark}</th>',
        f"<td>{load_words(p.background_rate)}</td>",
    ]
    cells.append(f"<td>{mib_s}</td>")
    published = p.published
    if published and bg:
        ratio = bg.mib_s / published.mib_s
        cells.append(f'<td class="published">{published.mib_s:.0f} <small>({ratio:.2f})</small></td>')
    else:
        cells.append("<td></td>")
    if rt is None or not rt.histogram.n:
        cells.append('<td class="text" colspan="6">no real-time request was completed</td>')
    else:
        cells.append(f"<td>{ms(rt.lat_us['p50'])}</td>")
        for key in analysis.INTERVALS:
            cells.append(f"<td>{ms(rt.lat_us[key])}</td>")
            cells.append(f"<td><small>{_e(interval_words(rt.ci_us[key], rt.histogram.n))}</small></td>")
        if published:
            ratio = rt.lat_us["p99.9"] / published.p999_us
            cells.append(f'<td class="published">{ms(published.p999_us)} <small>({ratio:.2f})</small></td>')
        else:
            cells.append("<td></td>")
    cells.append(f"<td>{rt.histogram.n if rt else 0}</td><td>{p.idle:.0%}</td>")
    return f"<tr{' class=last' if last else ''}>{''.join(cells)}</tr>\n"


def differences(loaded: Loaded) -> list[tuple[str, str]]:
    """What another machine changes: (title, sentence) for each point of each variant."""
    return variant_sentences(loaded.run, loaded.points)


def variant_sentences(run: Run, points: Sequence[Point]) -> list[tuple[str, str]]:
    """(title of the variant, sentence) for each of its points that the main run has too."""
    rt_name, bg_name = run.spec.flow_of("real-time"), run.spec.flow_of("background")
    main = {(p.scheduler.label, p.background_rate): p for p in points if p.variant is None}
    out = []
    for p in points:
        twin = main.get((p.scheduler.label, p.background_rate))
        if p.variant is None or twin is None:
            continue
        flows = [(q.flow(bg_name), q.flow(rt_name)) for q in (p, twin)]
        if any(bg is None or rt is None or not rt.histogram.n for bg, rt in flows):
            continue
        (bg, rt), (bg1, rt1) = flows
        assert bg
        assert rt
        assert bg1
        assert rt1
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
    text = (
        "Latency here is fio's clat of the synchronous reader: from its system call to the call's return. "
        f"The paper's is the {run.spec.paper.latency}."
    )
    rt_name = run.spec.flow_of("real-time")
    alone = [(p.block_us, rt.lat_us["mean"]) for p in points if p.block_us and (rt := p.flow(rt_name))]
    if alone:
        gaps = [fio - block for block, fio in alone]
        low, high = min(gaps), max(gaps)
        between = f"{low:.0f}" if round(low) == round(high) else f"{low:.0f} to {high:.0f}"
        text += (
            f" With the reader alone, ours is {between} us longer in the mean "
            f"(by the kernel's own iostats, the block layer takes "
            f"{sum(b for b, _ in alone) / len(alone):.0f} us of it)."
        )
    return text


def machine_words(loaded: Loaded) -> str:
    """Virtual time or not, and what that means for the figures."""
    modes = {m.mode for m in loaded.measurements}
    if modes == {"icount"}:
        return (
            "Virtual time: the guest's clock counts instructions (1 ns each), so the same run gives the same "
            "digits on any host; CPU costs are counts of instructions, not nanoseconds of a real CPU."
        )
    return (
        "Measured under KVM in wall time: figures vary from run to run, and are not comparable with those "
        "of virtual time."
    )


def _section(loaded: Loaded, number: int) -> str:
    run, spec = loaded.run, loaded.run.spec
    found = finding(run, loaded.points)
    variants = variant_sentences(run, loaded.points)
    extra = "".join(f"<li>{_e(title)}: {_e(text)}</li>" for title, text in variants)
    about = loaded.environment
    facts = {
        "Kernel": about.get("kernel"),
        "Drive": f"{spec.drive}: {about.get('drive_title', '')}",
        "Samples": f"{run.mode.rt_samples} real-time requests a point and seed ({run.mode_name}), "
        f"seeds {', '.join(map(str, run.mode.seeds))}",
        "Queue": ", ".join(f"{k} {v}" for k, v in spec.queue.items()),
        "Knobs": "; ".join(
            f"{s.label}: {', '.join(f'{k} {v}' for k, v in s.knobs.items())}"
            for s in run.schedulers
            if s.knobs
        ),
        "Machine": f"{about.get('qemu', '')}, {spec.machine.smp} CPU",
        "Load": f"fio {about.get('fio', '')}",
        "Measured": about.get("finished"),
        "Command": about.get("command"),
    }
    rows = "".join(f"<dt>{k}</dt><dd>{_e(v)}</dd>" for k, v in facts.items() if v)
    return f"""<section>
<h1>{_e(spec.title)}</h1>
<p class="soft">{_e(run.name)}, after {_e(spec.paper.figure)} of {_e(spec.paper.title)}</p>
{f'<p class="finding">{_e(found)}</p>' if found else ""}
{_key()}
<div class="panels">
{_panels(loaded, number)}
</div>
<p class="axes soft"><span>→ {_e(spec.paper.x)}</span><span>↑ {_e(spec.paper.y)}</span></p>
<h2>All points</h2>
{_table(loaded)}
{f'<h2>On another machine</h2><ul class="notes">{extra}</ul>' if extra else ""}
<h2>How this was measured</h2>
<p>{_e(where_measured(run, loaded.points))}</p>
<p>{_e(machine_words(loaded))}</p>
<dl>{rows}</dl>
</section>"""
