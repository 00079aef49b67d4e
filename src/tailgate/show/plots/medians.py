# SPDX-License-Identifier: GPL-2.0-only
"""Bars of the median latency and the median delay in the scheduler, without a limit to the background."""

from tailgate.show.plots.panel import COLOURS, Panel, Runs

LATENCY, DELAY = COLOURS[0], COLOURS[3]


def panels(runs: Runs) -> list[Panel]:
    """A panel for each run."""
    out = []
    for run, points in runs:
        full = [p for p in points if p.variant is None and p.background_rate >= 1 and p.rt]
        labels = [p.scheduler.label for p in full]
        latencies = [p.rt.lat_us["p50"] if p.rt else 0.0 for p in full]
        delays = [p.rt.delay.percentile(0.5) if p.rt and p.rt.delay and p.rt.delay.n else 0.0 for p in full]
        data = [
            {
                "type": "bar",
                "orientation": "h",
                "name": name,
                "x": us,
                "y": labels,
                "marker": {"color": colour},
                "hovertemplate": f"{name} %{{x:.2f}} us<extra></extra>",
            }
            for name, colour, us in (
                ("median latency", LATENCY, latencies),
                ("scheduler delay", DELAY, delays),
            )
        ]
        layout = {
            "barmode": "group",
            "margin": {"l": 78, "r": 8, "t": 8, "b": 30},
            "xaxis": {"fixedrange": True, "title": {"text": "us"}},
            "yaxis": {"fixedrange": True, "autorange": "reversed"},
        }
        out.append(Panel(run.target, "Bars of median latency and median scheduler delay", data, layout))
    return out
