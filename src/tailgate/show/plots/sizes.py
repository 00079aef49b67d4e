# SPDX-License-Identifier: GPL-2.0-only
"""p99 of the real-time flow over the background's block size."""

from collections.abc import Sequence

from tailgate.runs.points import Point
from tailgate.show.plots.panel import Panel, Runs, Trace, interval_bars, labels, line_colour


def panels(runs: Runs) -> list[Panel]:
    """A panel for each run and kind of load; loads that differ only in block size share a panel."""
    found: dict[tuple[int, str], dict[str, list[Point]]] = {}
    for i, (_, points) in enumerate(runs):
        for p in points:
            if p.variant is None and p.background_rate >= 1 and p.rt:
                lines = found.setdefault((i, p.sweep.words_without_size), {})
                lines.setdefault(p.scheduler.label, []).append(p)
    every = labels(runs)
    out = []
    for (i, words), lines in found.items():
        data = [
            trace
            for label, points in lines.items()
            for trace in _line(label, points, line_colour(every, label))
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
        about = f"p99 over the background's block size, {words}"
        out.append(Panel(f"{runs[i][0].target}: {words}", about, data, layout))
    return out


def _line(label: str, points: Sequence[Point], colour: str) -> list[Trace]:
    """A scheduler's line, and the paper's points where it has some."""
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
        "error_y": interval_bars([f for _, f in flows], "p99", colour),
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
