# SPDX-License-Identifier: GPL-2.0-only
"""An experiment's plot: its panels, legend and axis titles."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailgate.show.plots import ccdf, curves, grids, legends, medians, sizes
from tailgate.show.plots.legends import Legend
from tailgate.show.plots.panel import Panel, Published, Runs
from tailgate.spec.experiment import Experiment


@dataclass(frozen=True)
class Drawing:
    """An experiment's plot. `axes` are the titles of x and y; () if each panel has its own. `large`: panels
    with a value in each cell, two beside each other at most.
    """

    legend: Legend
    panels: Sequence[Panel]
    axes: Sequence[str] = ()
    large: bool = False


def draw(spec: Experiment, runs: Runs, published: Published) -> Drawing | None:
    """The plot in the form that the experiment asks for; None if it asks for tables only."""
    x = spec.paper.x if spec.paper else "Background throughput (MiB/s)"
    y = spec.paper.y if spec.paper else "Latency of the real-time task (ms)"
    match spec.plot:
        case "bandwidth-latency":
            return Drawing(legends.of_curves(runs), curves.panels(runs, published), (x, y))
        case "medians":
            return Drawing(legends.of_medians(), medians.panels(runs))
        case "sizes":
            return Drawing(legends.of_lines(runs), sizes.panels(runs), (x, y))
        case "ccdf":
            return Drawing(legends.of_lines(runs), ccdf.panels(runs), (x, y))
        case "grid" if panels := grids.panels(runs):
            return Drawing(legends.of_grids(), panels, (x, y), large=True)
    return None
