# SPDX-License-Identifier: GPL-2.0-only
"""The share of real-time requests that take at least a given time (complementary distribution)."""

from tailgate.runs.histogram import Histogram
from tailgate.runs.points import PointFlow
from tailgate.show.plots.panel import Panel, Runs, Trace, labels, line_colour


def panels(runs: Runs) -> list[Panel]:
    """A panel for each run and load."""
    found: dict[tuple[int, str], dict[str, PointFlow]] = {}
    for i, (_, points) in enumerate(runs):
        for p in points:
            if p.variant is None and p.background_rate >= 1 and p.rt and p.rt.histogram.n:
                found.setdefault((i, p.sweep.words), {})[p.scheduler.label] = p.rt
    every = labels(runs)
    out = []
    for (i, words), lines in found.items():
        data: list[Trace] = [
            {
                "type": "scatter",
                "mode": "lines",
                "name": label,
                "x": (flow.histogram.values_us / 1000).tolist(),
                "y": _at_least(flow.histogram),
                "line": {"width": 1.5, "shape": "vh", "color": line_colour(every, label)},
                "hovertemplate": f"{label}: %{{y:.2%}} take %{{x:.2f}} ms or longer<extra></extra>",
            }
            for label, flow in lines.items()
        ]
        layout = {
            "xaxis": {"fixedrange": True, "rangemode": "tozero", "zeroline": False},
            "yaxis": {"type": "log", "fixedrange": True, "tickformat": ".2~%", "dtick": 1},
        }
        about = f"Complementary distribution of latency, {words}"
        out.append(Panel(f"{runs[i][0].target}: {words}", about, data, layout))
    return out


def _at_least(histogram: Histogram) -> list[float]:
    """For each value of the histogram, the share of samples that are at least as large."""
    above = histogram.counts[::-1].cumsum()[::-1]
    return (above / histogram.n).tolist()  # type: ignore[no-any-return]
