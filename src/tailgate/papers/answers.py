# SPDX-License-Identifier: GPL-2.0-only
"""Which point of a run stands beside which of the paper's cells."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tailgate.runs.folder import read_measurements
from tailgate.runs.measurements import Measurement
from tailgate.runs.points import Point, merge_seeds
from tailgate.spec import paper
from tailgate.spec.experiment import Experiment
from tailgate.spec.plan import Run


def with_cells(
    points: Sequence[Point], spec: Experiment, published: Mapping[str | None, Sequence[paper.Published]]
) -> list[Point]:
    """The points; one point of each scheduler and load gets the paper's cell.

    It is the point with the highest throughput or, for Table III, with the highest p99.9. Of points whose
    throughputs differ by at most 1 %, the one with the highest rate is taken. `published` is by the load's
    label. Without a paper no point changes.
    """
    if spec.paper is None:
        return list(points)
    groups: dict[tuple[int | None, str | None, str], list[Point]] = {}
    for p in points:
        groups.setdefault((p.variant, p.sweep.label, p.scheduler.label), []).append(p)
    chosen = set()
    for group in groups.values():
        loaded = [p for p in group if p.bg and p.background_rate]
        if spec.paper.cells == "highest latency":
            answer = max((p for p in loaded if p.rt), key=_tail, default=None)
        elif any(p.background_rate == 1.0 for p in loaded):
            top = max(map(_rate, loaded))
            answer = max((p for p in loaded if _rate(p) >= 0.99 * top), key=lambda p: p.background_rate)
        else:
            answer = None
        chosen.add(id(answer))
    return [
        replace(p, published=paper.cell(published[p.sweep.label], p.scheduler.papers, spec.paper.cells))
        if id(p) in chosen
        else p
        for p in points
    ]


def _tail(point: Point) -> float:
    return point.rt.lat_us["p99.9"] if point.rt else 0.0


def _rate(point: Point) -> float:
    return point.bg.mib_s if point.bg else 0.0


def read_points(folder: Path, run: Run) -> tuple[list[Measurement], list[Point]]:
    """Everything in a run's folder: its measurements, and its points over all seeds with the paper's
    cells.
    """
    measurements = read_measurements(folder, run)
    return measurements, points_of(measurements, folder, run)


def points_of(measurements: Sequence[Measurement], folder: Path, run: Run) -> list[Point]:
    """The points over all seeds of a run's measurements, with the paper's rows that its folder holds."""
    return with_cells(merge_seeds(measurements, run.spec), run.spec, published_in(folder, run.spec))


def published_in(folder: Path, spec: Experiment) -> dict[str | None, list[paper.Published]]:
    """The paper's points that a run's folder holds, by the label of the load; none without a paper."""
    if spec.paper is None:
        return {sweep.label: [] for sweep in spec.sweeps}
    file = folder / "sources" / Path(spec.paper.file).name
    return {sweep.label: paper.load(file, sweep) for sweep in spec.sweeps}
