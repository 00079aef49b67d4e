# SPDX-License-Identifier: GPL-2.0-only
"""Bandwidth-latency curves: percentiles of the real-time flows over the background's throughput."""

import math
from collections.abc import Iterable, Mapping, Sequence

from tailgate.runs.points import Point, PointFlow
from tailgate.show.plots.panel import (
    COLOURS,
    GREY,
    PUBLISHED,
    Panel,
    Published,
    Runs,
    Trace,
    interval_bars,
)
from tailgate.show.words import interval_words, load_words, ms
from tailgate.spec import paper
from tailgate.spec.plan import Run

#: Percentile -> marker, as in the legend; the colour is the load.
SYMBOLS: Mapping[str, str] = {"p50": "circle", "p99": "diamond", "p99.9": "square"}
#: Marker of each real-time flow where there are several; then only the p99.9 is drawn.
FLOW_SYMBOLS: Sequence[str] = ("square", "circle", "diamond", "x-thin")
FEW_LOADS = 4
#: Labels of a logarithmic latency axis.
TICKS_MS = [m * 10**e for e in (-3, -2, -1, 0, 1, 2) for m in (1, 2, 5)]


def panels(runs: Runs, published: Published) -> list[Panel]:
    """A panel for each load and scheduler, over shared axes."""
    measured = dict.fromkeys(
        (p.sweep.label, p.scheduler.label) for _, points in runs for p in points if p.variant is None and p.rt
    )
    # Panels of one load stand together.
    order = [s.label for s in runs[0][0].spec.sweeps]
    places = sorted(measured, key=lambda place: order.index(place[0]))
    traces = {place: _traces(runs, *place, published) for place in places}
    x, y, y_log = _ranges(traces.values())
    words = {s.label: s.words for s in runs[0][0].spec.sweeps}
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
    out = []
    for (load, label), data in traces.items():
        shown = [
            p for _, points in runs for p in points if (p.sweep.label, p.scheduler.label) == (load, label)
        ]
        dilation = max(p.dilation for p in shown if p.variant is None)
        notes = [words[load]] if len(words) > 1 else []
        notes += [f"time dilated {dilation}×"] if dilation > 1 else []
        about = f"Bandwidth-latency plot of {label}"
        out.append(Panel(label, about, data, layout, "; ".join(notes), y, y_log))
    return out


def series(points: Sequence[Point]) -> list[tuple[str, str, str]]:
    """(flow, percentile, symbol) of each series in a panel."""
    flows = max((p.real_time for p in points), key=len, default=())
    if len(flows) > 1:
        return [(flow, "p99.9", symbol) for flow, symbol in zip(flows, FLOW_SYMBOLS, strict=False)]
    return [(flow, key, symbol) for flow in flows for key, symbol in SYMBOLS.items()]


def _traces(runs: Runs, load: str | None, label: str, published: Published) -> list[Trace]:
    """The traces of one panel: every run's percentiles over throughput, the paper's points."""
    traces = [trace for run, points in runs for trace in _measured(run, points, load, label, len(runs) > 1)]
    names = next(s.papers for s in runs[0][0].spec.schedulers if s.label == label)
    rows = [p for p in published[load] if p.scheduler in names and p.mib_s and p.p999_us]
    return [*traces, _paper(rows)] if rows else traces


def _measured(run: Run, points: Sequence[Point], load: str | None, label: str, beside: bool) -> list[Trace]:
    """One run's percentiles; `beside`: the panel also shows another run's."""
    here = [p for p in points if p.variant is None and (p.sweep.label, p.scheduler.label) == (load, label)]
    here.sort(key=lambda p: p.background_rate)
    # The simulator's markers are hollow if the panel also shows another target's.
    hollow = "-open" if run.target == "sim" and beside else ""
    traces = []
    for name, key, symbol in series(here):
        rows = [(p, f) for p in here if (f := p.flow(name)) and f.histogram.n]
        several = name if len(here[0].real_time) > 1 else ""
        trace: Trace = {
            "type": "scatter",
            # With few loads, a line would suggest values between them that were not measured.
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
            "error_y": interval_bars([f for _, f in rows], key, GREY),
        }
        traces.append(trace)
    return traces


def _paper(rows: Sequence[paper.Published]) -> Trace:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "paper, p99.9",
        "x": [p.mib_s for p in rows],
        "y": [(p.p999_us or 0) / 1000 for p in rows],
        "marker": {"symbol": "x-thin", "size": 9, "line": {"width": 2, "color": PUBLISHED}},
        "text": [
            f"paper, {p.source} ({p.where})<br>{p.mib_s:.0f} MiB/s, p99.9 {ms(p.p999_us)} ms" for p in rows
        ],
        "hovertemplate": "%{text}<extra></extra>",
    }


def _colour(rate: float) -> str:
    """The colour of a load: piecewise linear through COLOURS."""
    at = min(max(rate, 0.0), 1.0) * (len(COLOURS) - 1)
    i = min(int(at), len(COLOURS) - 2)
    parts = [
        round(int(COLOURS[i][c : c + 2], 16) * (1 - at + i) + int(COLOURS[i + 1][c : c + 2], 16) * (at - i))
        for c in (1, 3, 5)
    ]
    return "#" + "".join(f"{p:02x}" for p in parts)


def _hover(point: Point, flow: PointFlow, key: str) -> str:
    text = f"{load_words(point.background_rate)}<br>{key} {ms(flow.lat_us[key])} ms"
    return f"{text}<br>95 %: {interval_words(flow.ci_us[key], flow.histogram.n)}"


def _ranges(all_traces: Iterable[list[Trace]]) -> tuple[list[float], list[float], list[float]]:
    """Ranges of x, linear y and logarithmic y (in decades), equal for all panels; they include the paper's
    points.
    """
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
