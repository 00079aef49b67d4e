# SPDX-License-Identifier: GPL-2.0-only
"""The report's plots, in the papers' form, as plotly's JSON: curves, medians as bars, lines, tails."""

import html
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tailgate.runs.histogram import Histogram
from tailgate.runs.points import Point, PointFlow
from tailgate.show.words import interval_words, load_words, ms
from tailgate.spec import paper
from tailgate.spec.plan import Run

#: Percentile -> marker, as in the legend; the colour is the load.
SYMBOLS: Mapping[str, str] = {"p50": "circle", "p99": "diamond", "p99.9": "square"}
#: Marker of each of several real-time flows, of which only the p99.9 is drawn.
FLOW_SYMBOLS: Sequence[str] = ("square", "circle", "diamond", "x-thin")
#: Low to high load: distinguishable in grey, on white and on black.
COLOURS = ("#3b6fd4", "#2a9d8f", "#c9a227", "#d1495b")
PUBLISHED = "#9b5de5"
GREY = "#8a93a0"
FEW_LOADS = 4
#: Where a logarithmic latency axis is labelled.
TICKS_MS = [m * 10**e for e in (-3, -2, -1, 0, 1, 2) for m in (1, 2, 5)]

Trace = dict[str, Any]
Runs = Sequence[tuple[Run, Sequence[Point]]]
Published = Mapping[str | None, Sequence[paper.Published]]


def _colour(rate: float) -> str:
    """The colour of a load: piecewise linear through COLOURS."""
    at = min(max(rate, 0.0), 1.0) * (len(COLOURS) - 1)
    i = min(int(at), len(COLOURS) - 2)
    parts = [
        round(int(COLOURS[i][c : c + 2], 16) * (1 - at + i) + int(COLOURS[i + 1][c : c + 2], 16) * (at - i))
        for c in (1, 3, 5)
    ]
    return "#" + "".join(f"{p:02x}" for p in parts)


def _series(points: Sequence[Point]) -> list[tuple[str, str, str]]:
    """(flow, percentile, symbol) of what a panel draws."""
    flows = max((p.real_time for p in points), key=len, default=())
    if len(flows) > 1:
        return [(flow, "p99.9", symbol) for flow, symbol in zip(flows, FLOW_SYMBOLS, strict=False)]
    return [(flow, key, symbol) for flow in flows for key, symbol in SYMBOLS.items()]


def _traces(runs: Runs, load: str | None, label: str, published: Published) -> list[Trace]:
    """The traces of one panel: every run's percentiles over throughput, the paper's points."""
    traces: list[Trace] = []
    for run, all_points in runs:
        points = [
            p
            for p in all_points
            if p.variant is None and p.sweep.label == load and p.scheduler.label == label
        ]
        points.sort(key=lambda p: p.background_rate)
        # The simulator's markers are hollow where another target's stand beside them.
        hollow = "-open" if run.target == "sim" and len(runs) > 1 else ""
        for name, key, symbol in _series(points):
            rows = [(p, f) for p in points if (f := p.flow(name)) and f.histogram.n]
            several = name if len(points[0].real_time) > 1 else ""
            trace: Trace = {
                "type": "scatter",
                # Between few loads a line would claim what was not measured.
                "mode": "lines+markers" if len(rows) > FEW_LOADS else "markers",
                "name": " ".join(filter(None, (run.target, several, key))),
                "x": [p.bg.mib_s if p.bg else 0.0 for p, _ in rows],
                "y": [f.lat_us[key] / 1000 for _, f in rows],
                "line": {"width": 1, "color": GREY, "dash": "solid" if key == "p99.9" else "dot"},
                "marker": {
                    "symbol": symbol + hollow,
                    "size": 8,
                    "color": [_colour(p.background_rate) for p, _ in rows],
                },
                "text": [f"{run.target}, {_hover(p, f, key)}" for p, f in rows],
                "hovertemplate": "%{text}<extra></extra>",
            }
            trace["error_y"] = _interval_bars([f for _, f in rows], key, GREY)
            traces.append(trace)
    in_paper = next(s.paper for s in runs[0][0].spec.schedulers if s.label == label)
    rows_paper = [p for p in published[load] if p.scheduler == in_paper and p.mib_s and p.p999_us]
    if rows_paper:
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": "paper, p99.9",
                "x": [p.mib_s for p in rows_paper],
                "y": [(p.p999_us or 0) / 1000 for p in rows_paper],
                "marker": {"symbol": "x-thin", "size": 9, "line": {"width": 2, "color": PUBLISHED}},
                "text": [
                    f"paper, {p.source} ({p.where})<br>{p.mib_s:.0f} MiB/s, p99.9 {ms(p.p999_us)} ms"
                    for p in rows_paper
                ],
                "hovertemplate": "%{text}<extra></extra>",
            }
        )
    return traces


def _interval_bars(flows: Sequence[PointFlow], key: str, colour: str) -> Trace:
    """The 95 % intervals of a percentile, in ms; an end that does not exist is at the value itself."""
    ends = [(f.lat_us[key], *f.ci_us[key]) for f in flows]
    return {
        "type": "data",
        "symmetric": False,
        "array": [((high if high is not None else v) - v) / 1000 for v, _, high in ends],
        "arrayminus": [(v - low) / 1000 for v, low, _ in ends],
        "thickness": 1,
        "width": 2,
        "color": colour,
    }


def _hover(point: Point, flow: PointFlow, key: str) -> str:
    text = f"{load_words(point.background_rate)}<br>{key} {ms(flow.lat_us[key])} ms"
    return f"{text}<br>95 %: {interval_words(flow.ci_us[key], flow.histogram.n)}"


def _ranges(all_traces: Iterable[list[Trace]]) -> tuple[list[float], list[float], list[float]]:
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


def _figure(
    plot: str, title: str, note: str, what: str, data: list[Trace], layout: Trace, scales: str
) -> str:
    common = {
        "margin": {"l": 38, "r": 8, "t": 8, "b": 30},
        "showlegend": False,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"size": 11, "family": "inherit"},
        "hovermode": "closest",
        "dragmode": False,
    }
    embedded = json.dumps({"data": data, "layout": common | layout}).replace("</", "<\\/")
    return (
        f'<figure><h3>{html.escape(title)}{note}</h3><div class="plot" id="{plot}" role="img" '
        f'aria-label="{html.escape(what)}; the figures are in the table below" {scales}></div>'
        f'<script type="application/json" id="{plot}-data">{embedded}</script></figure>'
    )


def curves(runs: Runs, published: Published, number: int) -> str:
    """Bandwidth-latency plots: a panel for each load and scheduler, over shared axes."""
    measured = dict.fromkeys(
        (p.sweep.label, p.scheduler.label) for _, points in runs for p in points if p.variant is None and p.rt
    )
    # Panels of one load stand together.
    order = [s.label for s in runs[0][0].spec.sweeps]
    panels = sorted(measured, key=lambda panel: order.index(panel[0]))
    traces = {panel: _traces(runs, *panel, published) for panel in panels}
    x, y, y_log = _ranges(traces.values())
    words = {s.label: s.words for s in runs[0][0].spec.sweeps}
    out = []
    for i, ((load, label), data) in enumerate(traces.items()):
        shown = [
            p for _, points in runs for p in points if (p.sweep.label, p.scheduler.label) == (load, label)
        ]
        dilation = max(p.dilation for p in shown if p.variant is None)
        notes = [words[load]] if len(words) > 1 else []
        notes += [f"time dilated {dilation}×"] if dilation > 1 else []
        note = f" <small>{html.escape('; '.join(notes))}</small>" if notes else ""
        layout = {
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
        scales = f"data-linear='{json.dumps(y)}' data-log='{json.dumps(y_log)}'"
        what = f"Bandwidth-latency plot of {label}"
        out.append(_figure(f"plot-{number}-{i}", label, note, what, data, layout, scales))
    return "\n".join(out)


def medians(runs: Runs, number: int) -> str:
    """Bars of the median latency and the median delay in the scheduler, without a limit to the background."""
    out = []
    for i, (run, points) in enumerate(runs):
        full = [p for p in points if p.variant is None and p.background_rate >= 1 and p.rt]
        labels = [p.scheduler.label for p in full]
        delays = [p.rt.delay.percentile(0.5) if p.rt and p.rt.delay and p.rt.delay.n else 0.0 for p in full]
        values = (
            ("median latency", COLOURS[0], [p.rt.lat_us["p50"] if p.rt else 0.0 for p in full]),
            ("scheduler delay", COLOURS[3], delays),
        )
        data: list[Trace] = [
            {
                "type": "bar",
                "orientation": "h",
                "name": name,
                "x": us,
                "y": labels,
                "marker": {"color": colour},
                "hovertemplate": f"{name} %{{x:.2f}} us<extra></extra>",
            }
            for name, colour, us in values
        ]
        layout = {
            "barmode": "group",
            "margin": {"l": 78, "r": 8, "t": 8, "b": 30},
            "xaxis": {"fixedrange": True, "title": {"text": "us"}},
            "yaxis": {"fixedrange": True, "autorange": "reversed"},
        }
        what = "Bars of median latency and median scheduler delay"
        out.append(_figure(f"plot-{number}-{i}", run.target, "", what, data, layout, ""))
    return "\n".join(out)


def sizes(runs: Runs, number: int) -> str:
    """p99 of the real-time flow over the background's block size, a panel for each other kind of load."""
    panels: dict[tuple[int, str], dict[str, list[Point]]] = {}
    for i, (_, points) in enumerate(runs):
        for p in points:
            if p.variant is None and p.background_rate >= 1 and p.rt:
                lines = panels.setdefault((i, p.sweep.words_without_size), {})
                lines.setdefault(p.scheduler.label, []).append(p)
    labels = _labels(runs)
    out = []
    for i, ((run, words), lines) in enumerate(panels.items()):
        data = [
            trace
            for label, points in lines.items()
            for trace in _over_sizes(label, points, _line_colour(labels, label))
        ]
        ticks = sorted({p.sweep.block_size_kib for points in lines.values() for p in points})
        layout = {
            "xaxis": {
                "type": "log",
                "fixedrange": True,
                "tickvals": ticks,
                "ticktext": list(map(str, ticks)),
            },
            "yaxis": {"fixedrange": True, "rangemode": "tozero", "zeroline": False},
        }
        what = f"p99 over the background's block size, {words}"
        out.append(
            _figure(f"plot-{number}-{i}", f"{runs[run][0].target}: {words}", "", what, data, layout, "")
        )
    return "\n".join(out)


def _over_sizes(label: str, points: Sequence[Point], colour: str) -> list[Trace]:
    flows = [(p.sweep.block_size_kib, p.rt) for p in points if p.rt]
    flows.sort(key=lambda pair: pair[0])
    published = [
        (p.sweep.block_size_kib, p.published.values["lat_us.p99"] / 1000)
        for p in points
        if p.published and "lat_us.p99" in p.published.values
    ]
    line: Trace = {
        "type": "scatter",
        "mode": "lines+markers",
        "name": label,
        "x": [kib for kib, _ in flows],
        "y": [f.lat_us["p99"] / 1000 for _, f in flows],
        "line": {"width": 1.5, "color": colour},
        "error_y": _interval_bars([f for _, f in flows], "p99", colour),
        "hovertemplate": f"{label}, %{{x}} KiB: p99 %{{y:.2f}} ms<extra></extra>",
    }
    paper: Trace = {
        "type": "scatter",
        "mode": "markers",
        "name": f"{label}, paper",
        "x": [kib for kib, _ in published],
        "y": [p99 for _, p99 in published],
        "marker": {"symbol": "square-open", "size": 9, "color": colour},
        "hovertemplate": f"{label}, %{{x}} KiB, paper: p99 %{{y:.2f}} ms<extra></extra>",
    }
    return [line, paper] if published else [line]


def ccdf(runs: Runs, number: int) -> str:
    """The share of real-time requests that take at least so long: a panel for each load."""
    panels: dict[tuple[int, str], dict[str, PointFlow]] = {}
    for i, (_, points) in enumerate(runs):
        for p in points:
            if p.variant is None and p.background_rate >= 1 and p.rt and p.rt.histogram.n:
                panels.setdefault((i, p.sweep.words), {})[p.scheduler.label] = p.rt
    labels = _labels(runs)
    out = []
    for i, ((run, words), lines) in enumerate(panels.items()):
        data: list[Trace] = [
            {
                "type": "scatter",
                "mode": "lines",
                "name": label,
                "x": (flow.histogram.values_us / 1000).tolist(),
                "y": _at_least(flow.histogram),
                "line": {"width": 1.5, "shape": "vh", "color": _line_colour(labels, label)},
                "hovertemplate": f"{label}: %{{y:.2%}} take %{{x:.2f}} ms or longer<extra></extra>",
            }
            for label, flow in lines.items()
        ]
        layout = {
            "xaxis": {"fixedrange": True, "rangemode": "tozero", "zeroline": False},
            "yaxis": {"type": "log", "fixedrange": True, "tickformat": ".2~%", "dtick": 1},
        }
        title = f"{runs[run][0].target}: {words}"
        what = f"Complementary distribution of latency, {words}"
        out.append(_figure(f"plot-{number}-{i}", title, "", what, data, layout, ""))
    return "\n".join(out)


def _at_least(histogram: Histogram) -> list[float]:
    """For each value of the histogram the share of samples that are as large or larger."""
    above = histogram.counts[::-1].cumsum()[::-1]
    return (above / histogram.n).tolist()  # type: ignore[no-any-return]


def _labels(runs: Runs) -> list[str]:
    return list(dict.fromkeys(p.scheduler.label for _, points in runs for p in points))


def _line_colour(labels: Sequence[str], label: str) -> str:
    palette = (*COLOURS, PUBLISHED, GREY)
    return palette[labels.index(label) % len(palette)]


def key_of_lines(runs: Runs) -> str:
    """The legend of `sizes` and `ccdf`."""
    labels = _labels(runs)
    spans = [
        f'<span style="color: {_line_colour(labels, label)}">&#9679; {html.escape(label)}</span>'
        for label in labels
    ]
    return f'<div class="key">{"".join(spans)}</div>'


_SHAPES = {
    "circle": '<circle cx="6" cy="6" r="4.5" fill="currentColor"/>',
    "diamond": '<path d="M6 0 12 6 6 12 0 6z" fill="currentColor"/>',
    "square": '<rect x="1.5" y="1.5" width="9" height="9" fill="currentColor"/>',
    "x-thin": '<path d="M1 1 11 11M11 1 1 11" stroke="currentColor" stroke-width="2" fill="none"/>',
    "open": '<rect x="2" y="2" width="8" height="8" stroke="currentColor" stroke-width="2" fill="none"/>',
}


def key_of_curves(runs: Runs) -> str:
    """The legend of `curves`, and the switch of their latency axis."""

    def shape(symbol: str) -> str:
        return f'<svg viewBox="0 0 12 12" aria-hidden="true">{_SHAPES[symbol]}</svg>'

    points = [p for _, points in runs for p in points]
    series = _series(points)
    several = len({flow for flow, _, _ in series}) > 1
    names = {"p50": "median", "p99": "p99", "p99.9": "p99.9"}
    spans = [
        f"<span>{shape(symbol)}{f'p99.9 of {flow}' if several else names[key]}</span>"
        for flow, key, symbol in series
    ]
    if len(runs) > 1:
        spans.append(f"<span>{shape('open')}hollow: the simulator</span>")
    if runs[0][0].spec.paper:
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


def key_of_medians() -> str:
    """The legend of `medians`."""
    spans = (("median latency", COLOURS[0]), ("median scheduler delay", COLOURS[3]))
    return (
        '<div class="key">'
        + "".join(
            '<span><svg viewBox="0 0 12 12" aria-hidden="true">'
            f'<path d="M0 0h12v12H0z" fill="{colour}"/></svg>'
            f"{name}</span>"
            for name, colour in spans
        )
        + "</div>"
    )
