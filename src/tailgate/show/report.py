# SPDX-License-Identifier: GPL-2.0-only
"""One self-contained HTML file: plots, the paper's values beside ours if there is a paper, and the method.

Everything is prepared here as plain values; templates/ has the HTML. All text is escaped there.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from plotly.offline import get_plotlyjs

from tailgate.base.errors import UsageError
from tailgate.papers import cells
from tailgate.papers.answers import published_in, read_points
from tailgate.runs.folder import read_run
from tailgate.runs.measurements import Measurement
from tailgate.runs.points import Point
from tailgate.show import flows, grids, paper_rows, rows, sentences, shares, waits
from tailgate.show.plots.drawing import Drawing, draw
from tailgate.spec import paper, plan
from tailgate.spec.plan import Run

if TYPE_CHECKING:
    from tailgate.targets.measure import Measured


@dataclass(frozen=True)
class Loaded:
    """A run with its points, as the report shows it."""

    folder: Path
    run: Run
    measurements: list[Measurement]
    points: list[Point]
    published: Mapping[str | None, Sequence[paper.Published]]  # by the load's label
    environment: Mapping[str, Any]


@dataclass(frozen=True)
class PaperComparison:
    """The paper's cells beside ours. `missing` is the command that measures the schedulers that no run
    has.
    """

    where: str
    cells: rows.HtmlTable
    errors: rows.HtmlTable
    missing: str
    changed: Sequence[str]


@dataclass(frozen=True)
class PointTables:
    """All points of a run: tables with a title each ("" for the only one), and their notes.

    `explained`: the explanation of latency and intervals is printed above. `published` says where the paper
    has its figures, "" if no point has one. With `numbered`, tables refer to notes by number.
    """

    target: str
    tables: Sequence[tuple[str, rows.HtmlTable]]
    notes: Sequence[str]
    numbered: bool = False
    explained: bool = False
    published: str = ""
    meaning: str = ""


@dataclass(frozen=True)
class Method:
    """The method of a run. `variants` are (title, sentence) of other machines, `facts` (name, text)."""

    target: str
    variants: Sequence[tuple[str, str]]
    sentences: Sequence[str]
    facts: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Section:
    """The runs of one experiment. `several`: there are more than one, so each is labelled with its target."""

    title: str
    about: str
    several: bool
    findings: Sequence[tuple[str, str]]
    drawing: Drawing | None
    comparison: PaperComparison | None
    stated: rows.HtmlTable
    points: Sequence[PointTables]
    how: Sequence[Method]


def load(folder: Path) -> Loaded:
    """Read a run's folder. UsageError if it is not a run's folder."""
    run = read_run(folder)
    return _loaded(folder, run, *read_points(folder, run))


def _loaded(folder: Path, run: Run, measurements: list[Measurement], points: list[Point]) -> Loaded:
    published = published_in(folder, run.spec)
    environment = folder / "environment.json"
    about = json.loads(environment.read_text()) if environment.is_file() else {}
    return Loaded(folder, run, measurements, points, published, about)


def of(measured: "Measured") -> None:
    """Write the report of one run into its folder."""
    folder = measured.folder
    loaded = _loaded(folder, measured.run, measured.measurements, measured.points)
    beside = [Loaded(folder, run, [], points, {}, {}) for run, points in measured.beside]
    render(_title([loaded]), [_section([loaded], beside)], folder / "report.html")


def complete(folders: Sequence[Path]) -> list[Path]:
    """The folders that `tailgate run` has completed and not replaced; all folders if there is no such one."""
    return [f for f in folders if f.suffix not in (".partial", ".previous")] or list(folders)


def write(folders: Sequence[Path], path: Path) -> None:
    """Write the report of these runs; those of one experiment share a section, beside the paper.

    UsageError for two runs whose figures would be in the same place.
    """
    runs = [load(folder) for folder in dict.fromkeys(folders)]
    groups: dict[str, list[Loaded]] = {}
    for r in runs:
        groups.setdefault(r.run.name, []).append(r)
    for group in groups.values():
        _check_apart(group)
    joined = [_with_all(group) for group in groups.values()]
    sections = [_section(group, _beside(group)) for group in joined]
    render(_title(runs), sections, path)


def _title(runs: Sequence[Loaded]) -> str:
    return " · ".join(dict.fromkeys(f"{r.run.name}: {r.run.spec.title}" for r in runs))


def _check_apart(group: Sequence[Loaded]) -> None:
    """UsageError if two runs of one experiment have the same scheduler and load on the same target."""
    found: dict[tuple[object, ...], Loaded] = {}
    for r in group:
        for chunk in plan.chunks(r.run):
            other = found.setdefault((r.run.target, chunk.sweep.label, chunk.scheduler.label), r)
            if other is not r:
                raise UsageError(
                    f"{other.folder} ({other.run.mode_name}) and {r.folder} ({r.run.mode_name}) are both of "
                    f"{r.run.name} on target {r.run.target}, and would stand in one place: choose one of them"
                )


def render(title: str, sections: Sequence[Section], path: Path) -> None:
    """Write the page of these sections."""
    package = resources.files("tailgate.show")
    environment = Environment(
        loader=PackageLoader("tailgate.show"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {}  # keep the order of keys
    page = environment.get_template("report.html").render(
        title=title,
        sections=sections,
        style=(package / "report.css").read_text(),
        script=(package / "report.js").read_text(),
        plotly=get_plotlyjs(),
    )
    path.write_text(page, encoding="utf-8")


def _with_all(group: Sequence[Loaded]) -> list[Loaded]:
    """The runs of one experiment, each with the loads and schedulers that any of the runs has."""
    specs = [r.run.spec for r in group]
    sweeps = {s.label: s for spec in reversed(specs) for s in spec.sweeps}
    schedulers = {s.label: s for spec in reversed(specs) for s in spec.schedulers}
    published = {label: rows for r in reversed(group) for label, rows in r.published.items()}
    every = {"sweeps": tuple(sweeps.values()), "schedulers": tuple(schedulers.values())}
    return [
        replace(r, run=replace(r.run, spec=r.run.spec.model_copy(update=every)), published=published)
        for r in group
    ]


def _section(group: Sequence[Loaded], beside: Sequence[Loaded]) -> Section:
    """The section of a group, filled with the runs beside it."""
    first = group[0]
    spec = first.run.spec
    filled = [*group, *beside]
    after = f", after {spec.paper.figure} of {spec.paper.title}" if spec.paper else ""
    compared = len(filled) > 1 or first.run.target == "sim" or len(spec.sweeps) > 1
    return Section(
        spec.title,
        first.run.name + after,
        len(group) > 1,
        [(r.run.target, found) for r in group if (found := sentences.finding(r.run, r.points))],
        draw(spec, [(r.run, r.points) for r in filled], first.published),
        _comparison(filled) if compared else None,
        paper_rows.of_stated(first.folder, [(r.run, r.points) for r in group]),
        [_points(r) for r in group],
        [_how(r) for r in group],
    )


def _beside(group: Sequence[Loaded]) -> list[Loaded]:
    """The schedulers that simulated runs lack, from runs of the target vm in the same folder."""
    there = {s.label for r in group for s in r.run.schedulers}
    found: list[Loaded] = []
    for r in group:
        for run, points in cells.beside(r.folder, r.run, there):
            found.append(Loaded(r.folder, run, [], points, {}, {}))
            there |= {s.label for s in run.schedulers}
    return found


def _comparison(group: Sequence[Loaded]) -> PaperComparison | None:
    """The paper's cells beside ours; None if no point belongs to one."""
    first = group[0]
    spec = first.run.spec
    found = cells.of(spec, [(r.run.target, p) for r in group for p in r.points], first.published)
    targets = list(dict.fromkeys(t for c in found for t in c.ours))
    if not targets:
        return None
    return PaperComparison(
        sentences.where_published(spec),
        paper_rows.of_cells(found, targets),
        paper_rows.of_errors(found, targets),
        cells.missing(spec, first.run.name, [r.run for r in group]),
        cells.changed(c.scheduler.name for c in found if c.ours),
    )


def _points(loaded: Loaded) -> PointTables:
    run, points = loaded.run, loaded.points
    if waits.matter(points):
        waiting = [("", rows.of_waits(points))]
        return PointTables(run.target, waiting, rows.marks_of(points), meaning=waits.NOTE)
    if run.spec.plot == "shares":
        loads = [(here[0].sweep.words, rows.of_shares(here, points)) for here in shares.loads(points)]
        return PointTables(run.target, loads, rows.marks_of(points), meaning=shares.NOTE)
    main = [p for p in points if p.variant is None]
    if run.spec.plot == "grid" or flows.alone(run, points):
        rest, matrices = grids.split(run, points)
        tables = [("", rows.of_flows(rest))] if rest else []
        tables += [(m.title, rows.of_matrix(m)) for m in matrices]
        return PointTables(run.target, tables, rows.marks_of(main), meaning=flows.NOTE)
    return PointTables(
        run.target,
        [("", rows.of_points(run.spec, main))],
        rows.marks_of(main),
        numbered=True,
        explained=True,
        published=sentences.where_published(run.spec) if any(p.published for p in main) else "",
    )


def _how(loaded: Loaded) -> Method:
    run, spec, about = loaded.run, loaded.run.spec, loaded.environment
    samples = f"{run.mode.rt_samples} real-time requests a point and seed" if run.mode.rt_samples else ""
    if run.mode.duration_s:
        samples = "; ".join(filter(None, (samples, f"{run.mode.duration_s:g} s a point that has none")))
    facts = {
        "Kernel": about.get("kernel"),
        "Drive": f"{spec.drive}: {about.get('drive_title', '')}",
        "Samples": f"{samples} ({run.mode_name}), seeds {', '.join(map(str, run.mode.seeds))}",
        "Queue": ", ".join(f"{k} {v}" for k, v in spec.queue.items()),
        "Knobs": _knobs(run),
        "Machine": ", ".join(filter(None, (about.get("qemu", ""), f"{spec.machine.smp} CPU"))),
        "Load": f"fio {about.get('fio', '')}",
        "Measured": about.get("finished"),
        "Command": about.get("command"),
    }
    modes = {m.conditions.mode for m in loaded.measurements}
    return Method(
        run.target,
        sentences.variant_sentences(run, loaded.points),
        [sentences.where_measured(run, loaded.points), sentences.machine_words(modes)],
        [(name, str(text)) for name, text in facts.items() if text],
    )


def _knobs(run: Run) -> str:
    """Each scheduler's knobs; the schedulers of a grid together, each knob with all its values."""
    found: dict[str, dict[str, dict[str, None]]] = {}
    for s in run.schedulers:
        for knob, value in s.knobs.items():
            knobs = found.setdefault(s.name if run.spec.plot == "grid" else s.label, {})
            knobs.setdefault(knob, {})[str(value)] = None
    told = {
        label: ", ".join(f"{knob} {' / '.join(values)}" for knob, values in knobs.items())
        for label, knobs in found.items()
    }
    return "; ".join(f"{label}: {knobs}" for label, knobs in told.items())
