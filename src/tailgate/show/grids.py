# SPDX-License-Identifier: GPL-2.0-only
"""Schedulers that are a grid of two knobs: each flow's throughput and p99 as matrices over the two."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from tailgate.runs.points import Point, PointFlow
from tailgate.show.flows import load
from tailgate.show.words import digits
from tailgate.spec.grid import words
from tailgate.spec.plan import Run
from tailgate.spec.scheduler import Knob, Scheduler


@dataclass(frozen=True)
class Matrix:
    """One figure of one flow: `values[i][j]` is at value i of the first knob and value j of the second.

    `title` names flow, figure and unit. A value of None was not measured. `knobs` are the names of the two
    knobs; `rows` and `columns` are their values in words.
    """

    title: str
    knobs: tuple[str, str]
    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[float | None]]

    @property
    def texts(self) -> list[list[str]]:
        """The values with three significant digits; a dash for what was not measured."""
        return [[digits(value) for value in row] for row in self.values]


@dataclass(frozen=True)
class _Grid:
    """Two knobs with several values each, and the schedulers' labels by pair of values."""

    knobs: tuple[str, str]
    values: tuple[list[Knob], list[Knob]]
    labels: dict[tuple[Knob, Knob], str]


def matrices(run: Run, points: Sequence[Point]) -> list[Matrix]:
    """For each grid and load: throughput in kIOPS and p99 of each flow, and each number of the schedulers'
    state. Empty without a grid.

    A knob's value that no chosen scheduler has gets no row or column.
    """
    groups: dict[tuple[str | None, float], list[Point]] = {}
    for p in points:
        if p.variant is None:
            groups.setdefault((p.sweep.label, p.background_rate), []).append(p)
    found, grids = [], _grids(run)
    for (name, grid), here in itertools.product(grids.items(), groups.values()):
        at = {p.scheduler.label: p for p in here}
        pairs = [[at.get(grid.labels.get((r, c), "")) for c in grid.values[1]] for r in grid.values[0]]
        where = [name] if len(grids) > 1 else []
        where += [load(here[0])] if len(groups) > 1 else []
        for flow in run.spec.flows_in(here[0].sweep):
            cells = [[p.flow(flow) if p else None for p in row] for row in pairs]
            found += _of_flow(", ".join([*where, flow]), grid, cells)
        for state in dict.fromkeys(name for row in pairs for p in row if p for name in p.state):
            numbers = [[p.state.get(state) if p else None for p in row] for row in pairs]
            found.append(_matrix(", ".join([*where, state]), grid, numbers))
    return found


def split(run: Run, points: Sequence[Point]) -> tuple[list[Point], list[Matrix]]:
    """The points that are shown as a row each, and the matrices that show the other points.

    There are matrices only if the experiment has a grid and its plot is "grid".
    """
    main = [p for p in points if p.variant is None]
    if run.spec.plot != "grid":
        return main, []
    inside = {label for grid in _grids(run).values() for label in grid.labels.values()}
    return [p for p in main if p.scheduler.label not in inside], matrices(run, points)


def _of_flow(title: str, grid: _Grid, cells: Sequence[Sequence[PointFlow | None]]) -> list[Matrix]:
    """Throughput and p99 of a flow. The p99 is in us if all its values are below 1 ms, otherwise in ms."""
    p99_us = [[f.lat_us["p99"] if f and f.histogram.n else None for f in row] for row in cells]
    unit, us = ("us", 1) if all(v is None or v < 1000 for row in p99_us for v in row) else ("ms", 1000)
    return [
        _matrix(f"{title}: {figure}", grid, values)
        for figure, values in (
            ("kIOPS", [[f.iops / 1000 if f else None for f in row] for row in cells]),
            (f"p99, {unit}", [[None if v is None else v / us for v in row] for row in p99_us]),
        )
    ]


def _matrix(title: str, grid: _Grid, values: Sequence[Sequence[float | None]]) -> Matrix:
    rows, columns = ([words(k, v) for v in vs] for k, vs in zip(grid.knobs, grid.values, strict=True))
    return Matrix(title, grid.knobs, rows, columns, values)


def _grids(run: Run) -> dict[str, _Grid]:
    """The grids by the schedulers' name."""
    names = dict.fromkeys(s.name for s in run.schedulers)
    found = {name: _grid([s for s in run.spec.schedulers if s.name == name], run) for name in names}
    return {name: grid for name, grid in found.items() if grid}


def _grid(schedulers: Sequence[Scheduler], run: Run) -> _Grid | None:
    """The grid of the schedulers with one name; None unless exactly two knobs vary and identify each
    scheduler.
    """
    values: dict[str, list[Knob]] = {}
    for knob, value in (pair for s in schedulers for pair in s.knobs.items()):
        if value not in values.setdefault(knob, []):
            values[knob].append(value)
    varying = [knob for knob, several in values.items() if len(several) > 1]
    if len(varying) != 2:
        return None
    first, second = varying
    pairs = [(s.knobs[first], s.knobs[second]) for s in schedulers if s.knobs.keys() >= {first, second}]
    if len(set(pairs)) < len(pairs):
        return None
    labels = {
        (s.knobs[first], s.knobs[second]): s.label
        for s in run.schedulers
        if s in schedulers and s.knobs.keys() >= {first, second}
    }
    rows, columns = (
        [v for v in values[k] if any(pair[i] == v for pair in labels)] for i, k in enumerate(varying)
    )
    return _Grid((first, second), (rows, columns), labels) if labels else None
