# SPDX-License-Identifier: GPL-2.0-only
"""The legends of the plots; templates/legend.html defines the shapes."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailgate.show.plots import curves, grids, medians
from tailgate.show.plots.panel import COLOURS, Runs, labels, line_colour


@dataclass(frozen=True)
class Entry:
    """One sign and its meaning. A shape has its own colour, or the text's."""

    shape: str
    words: str
    colour: str = ""
    published: bool = False


@dataclass(frozen=True)
class Legend:
    """`ramp`: a scale of colours from one of `ends` to the other, for a load or a value. `scales`: whether
    the reader can switch the scale of the latency axis.
    """

    entries: Sequence[Entry]
    ramp: Sequence[str] = ()
    ends: tuple[str, str] = ("no load", "full load")
    scales: bool = False


def of_curves(runs: Runs) -> Legend:
    """The meaning of markers, and the switch of the latency axis."""
    series = curves.series([p for _, points in runs for p in points])
    several = len({flow for flow, _, _ in series}) > 1
    names = {"p50": "median", "p99": "p99", "p99.9": "p99.9"}
    entries = [Entry(symbol, f"p99.9 of {flow}" if several else names[key]) for flow, key, symbol in series]
    if len(runs) > 1:
        entries.append(Entry("open", "hollow: the simulator"))
    if runs[0][0].spec.paper:
        entries.append(Entry("x-thin", "paper, p99.9 (Tables II and III)", published=True))
    return Legend(entries, ramp=COLOURS, scales=True)


def of_medians() -> Legend:
    """The meaning of the bars' colours."""
    return Legend(
        [
            Entry("bar", "median latency", medians.LATENCY),
            Entry("bar", "median scheduler delay", medians.DELAY),
        ]
    )


def of_lines(runs: Runs) -> Legend:
    """The line of each scheduler, for the plots `sizes` and `ccdf`."""
    every = labels(runs)
    return Legend([Entry("dot", label, line_colour(every, label)) for label in every])


def of_grids() -> Legend:
    """The meaning of the cells' colours and outlines."""
    corners = Entry("open", "both knobs at their lowest or highest value", grids.CORNER)
    return Legend([corners], ramp=grids.SCALE, ends=("lowest in the panel", "highest"))
