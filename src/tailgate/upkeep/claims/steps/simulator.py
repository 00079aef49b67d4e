# SPDX-License-Identifier: GPL-2.0-only
"""The simulator: beside the paper's tables, beside a guest, and how fast it is."""

import re
import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tailgate.papers import agreement as agreements
from tailgate.papers import cells
from tailgate.papers.answers import published_in, read_points
from tailgate.papers.cells import Summary
from tailgate.papers.facts import CalibrationCell
from tailgate.papers.published import FACTS
from tailgate.runs.folder import read_run
from tailgate.spec.drive import load as load_drive
from tailgate.spec.drive import values
from tailgate.upkeep.calibrate import model_of, residuals
from tailgate.upkeep.claims.lab import Answer, Lab, noted, timed
from tailgate.upkeep.claims.quantity import RUNS, exact, repeated
from tailgate.upkeep.claims.results import Figure, Source


def simulator_speed(lab: Lab) -> Iterator[Figure]:
    """I/Os that the simulator simulates in a second on one core, and its memory."""
    source = Source("tailgate bench --only simulator", "sim", "wall", (1,))
    runs = [lab.bench("simulator") for _ in range(RUNS)]
    for name in runs[0]:
        yield Figure(f"bench/simulator/{name}", repeated([run[name].value for run in runs]), source)


def agreement(lab: Lab) -> Iterator[Figure]:
    """The simulator's guest beside a guest: throughput, and percentiles of background and real-time task."""
    run = partial(lab.run, "model/agreement", mode="claims")
    simulated, measured = run(target="sim", machine="guest-6.12"), run(target="vm")
    source = noted(measured.source, f"{simulated.source.command}, and --target vm")
    figures = {"background": ("mib_s", "p50", "p99", "p99.9"), "rt": ("p50", "p99")}
    compared = list(agreements.compare(simulated.points, measured.points, figures))
    for name in ("mib_s", "p50", "p99", "p99.9"):
        some = [c for c in compared if c.figure.endswith(f".{name}")]
        for verdict, which in (("differs", "differ"), ("cannot tell", "cannot-tell")):
            count = exact(sum(c.verdict == verdict for c in some), len(some))
            yield Figure(f"agreement/vm/{name}/points-that-{which}", count, source)
        worst = max(some, key=lambda c: abs(c.ratio - 1))
        yield Figure(f"agreement/vm/{name}/furthest-from-1", exact(worst.ratio, len(some)), source)


def errors(folder: Path) -> dict[tuple[str, str], Summary]:
    """How far a simulated run is off the paper's cells, by the summary's title and figure."""
    run = read_run(folder)
    _, points = read_points(folder, run)
    published = published_in(folder, run.spec)
    of_run = cells.of(run.spec, [(run.target, p) for p in points], published)
    return {(s.title, s.key): s for s in cells.summaries(of_run, run.target)}


#: Real-time requests of a load: as many as `tailgate calibrate` takes.
SAMPLES = 8000


def title(cell: CalibrationCell) -> str:
    """A paper's figure as a part of an id."""
    return re.sub(r"[^a-z0-9.]+", "-", cell.title.lower())


def drives(lab: Lab) -> Iterator[Figure]:
    """The models of drives beside what papers measured on them: each figure, and its error."""
    for name, facts in FACTS.items():
        source = Source(f"tailgate calibrate drives/{name}.toml --check", "model", "virtual", (1,))
        parameters = values(load_drive(name)[1], {})
        with model_of(facts, name) as of_drive:
            for found in residuals(of_drive, parameters, facts.cells, facts.published(), SAMPLES):
                start = f"drives/{name}/{title(found.cell)}"
                n = SAMPLES if found.cell.figure.startswith("rt.") else None
                yield Figure(f"{start}/model", exact(found.model, n), source)
                yield Figure(f"{start}/error", exact(found.ratio - 1, n), source)


def of_table(name: str, found: Mapping[tuple[str, str], Summary], source: Source) -> Iterator[Figure]:
    """K2's random reads and mixes; and the bias of each load, of K2's rows and of all."""
    start = f"{name.removeprefix('k2/')}/sim"
    for key in ("mib_s", "lat_us.p99.9"):
        summary = found[cells.PREDICTED, key]
        figure = exact(summary.median_size, summary.count)
        yield Figure(f"{start}/predicted/{key}-median-error-size", figure, source)
        for (summarised, of), s in found.items():
            if of == key and summarised != cells.PREDICTED:
                load = summarised.removesuffix(", K2").replace(",", "").replace(" ", "-")
                rows = "" if summarised.endswith(", K2") else "-of-all"
                yield Figure(f"{start}/{load}/{key}-median-error{rows}", exact(s.median, s.count), source)


def paper_tables(lab: Lab) -> Iterator[Figure]:
    """Tables II and III on the simulator: how far off, and the same on one and on two processes."""
    points: dict[int, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        answers: dict[str, Answer] = {}
        for name, jobs in (("k2/table2", 2), ("k2/table2", 1), ("k2/table3", 2)):
            out = Path(folder) / str(jobs)
            answers[name] = lab.run(name, target="sim", jobs=jobs, out=out)
            if name == "k2/table2":
                points[jobs] = answers[name].points
        for name, answer in answers.items():
            (made,) = (Path(folder) / "2" / name).glob("*/results.json")
            source = noted(answer.source, f"tailgate run {name} --target sim")
            yield from of_table(name, errors(made.parent), source)
    same = exact(1 if points[1] == points[2] else 2, 2)
    source = noted(answers["k2/table2"].source, "tailgate run k2/table2 --target sim --jobs 2")
    yield Figure("repeats/sim/table2-jobs-1-and-2/different", same, source)


def table2_seconds(lab: Lab) -> Iterator[Figure]:
    """Table II on the simulator, from nothing, by the clock."""
    command = ("run", "k2/table2", "--target", "sim", "--jobs", "2")
    took, seeds = timed(lab, *command)
    source = Source(f"tailgate {' '.join(command)}", "sim", "wall", seeds)
    yield Figure("table2/sim/jobs-2/seconds", took, source)


STEPS = (simulator_speed, agreement, drives, paper_tables, table2_seconds)
