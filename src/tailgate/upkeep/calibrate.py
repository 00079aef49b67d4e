# SPDX-License-Identifier: GPL-2.0-only
"""Fit a drive file's free parameters to what a paper measured on that drive; print what is left.

`closed_loop.c` puts the paper's loads on the drive model (`flash/`), without a computer around it. Where the
computer decides as much, the paper's loads are an experiment, which is simulated.
`published.py` says which figures are fitted; every other one is left for the model to predict. The structure
of the model was chosen with all of them in sight: docs/model.md.
"""

import contextlib
import dataclasses
import json
import math
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tailgate.base.errors import UsageError, one_of
from tailgate.base.paths import ROOT, replace_text
from tailgate.papers.facts import CalibrationCell, Facts
from tailgate.papers.published import FACTS
from tailgate.runs.histogram import merge
from tailgate.simulator import simulation
from tailgate.spec import drive_file
from tailgate.spec.drive import OF_DRIVER, Drive
from tailgate.spec.toml import parse_toml
from tailgate.targets.sim_point import histogram
from tailgate.upkeep.claims import simulations

SOURCE = Path(__file__).with_name("closed_loop.c")


@dataclass(frozen=True)
class Residual:
    """What the paper and the model say of a cell: I/O per second, MiB/s or microseconds."""

    cell: CalibrationCell
    paper: float
    model: float

    @property
    def ratio(self) -> float:
        """The model's value over the paper's."""
        return self.model / self.paper


class ClosedLoop:
    """The compiled closed_loop.c; `with` removes it again."""

    def __init__(self) -> None:
        compiler = shutil.which("cc") or shutil.which("gcc")
        if not compiler:
            raise UsageError("the fit needs a C compiler; install gcc")
        self._folder = tempfile.TemporaryDirectory(prefix="tailgate-")
        self._program = Path(self._folder.name) / "closed_loop"
        command = [compiler, "-std=gnu11", "-O2", f"-I{ROOT}", f"-I{ROOT / 'sim' / 'include'}"]
        done = subprocess.run(
            [*command, "-o", str(self._program), str(SOURCE)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise UsageError(f"closed_loop.c does not compile: {done.stderr.strip().splitlines()[0]}")

    def __enter__(self) -> "ClosedLoop":
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def figures(self, cell: CalibrationCell, parameters: Mapping[str, int], samples: int) -> dict[str, float]:
        """Run a cell's load on a drive of these parameters. `samples`: real-time requests, if it has any."""
        return self.run({**parameters, **cell.load, "rt_samples": samples})

    def run(self, keys: Mapping[str, int]) -> dict[str, float]:
        """One run: its figures, those of the real-time process as "rt.p99.9" and so on, in microseconds.

        Raises UsageError if the model refuses a key or a value.
        """
        command = [str(self._program), *(f"{k}={v}" for k, v in keys.items())]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise UsageError(done.stderr.strip())
        figures: dict[str, float] = {}
        for key, value in json.loads(done.stdout).items():
            if isinstance(value, dict):
                figures |= {f"{key}.{k}": float(v) for k, v in value.items()}
            else:
                figures[key] = float(value)
        return figures


class Simulated:
    """The loads of an experiment, by their labels and those of their schedulers."""

    def __init__(self, experiment: str, drive: str) -> None:
        self._loads = {
            (load, scheduler): simulated
            for (load, scheduler, _), simulated in simulations.of(experiment, drive, "quick").items()
        }

    def figures(self, cell: CalibrationCell, parameters: Mapping[str, int], _: int) -> dict[str, float]:
        """One load: requests a second and the p99 in us of each flow, as "read.iops" and "read.p99"."""
        simulated = self._loads[cell.label, cell.scheduler]
        drive = {**simulated.drive, **parameters}
        outcome = simulation.simulate(dataclasses.replace(simulated, drive=drive))
        found: dict[str, float] = {}
        for flow, (_runtime, directions) in outcome.flows.items():
            latencies = merge([histogram(d.latency) for d in directions])
            found[f"{flow}.iops"] = outcome.rate(flow) * latencies.n
            found[f"{flow}.p99"] = latencies.percentile(0.99)
        return found


Model = ClosedLoop | Simulated


@contextlib.contextmanager
def model_of(facts: Facts, drive: str) -> Iterator[Model]:
    """What gives a drive's figures."""
    if facts.experiment:
        yield Simulated(facts.experiment, drive)
    else:
        with ClosedLoop() as loop:
            yield loop


def residuals(
    model: Model,
    parameters: Mapping[str, int],
    cells: Sequence[CalibrationCell],
    paper: Mapping[str, float],
    samples: int,
) -> list[Residual]:
    """The model beside the paper; loads with real-time requests have `samples` of them."""
    loads = [(cell.load, cell.label, cell.scheduler) for cell in cells]
    asked = [cell for i, cell in enumerate(cells) if loads.index(loads[i]) == i]
    drive = {k: v for k, v in parameters.items() if k != "queues" and k not in OF_DRIVER}  # one a process
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda cell: model.figures(cell, drive, samples), asked))
    of_load = {loads.index((c.load, c.label, c.scheduler)): r for c, r in zip(asked, results, strict=True)}
    return [
        Residual(cell, paper[cell.title], of_load[loads.index(load)][cell.figure])
        for cell, load in zip(cells, loads, strict=True)
    ]


def fit(
    model: Model,
    parameters: Mapping[str, int],
    free: Sequence[str],
    facts: Facts,
    samples: int,
    evaluations: int,
    progress: Callable[[str], None],
) -> dict[str, int]:
    """The parameters, with those in `free` fitted by least squares of log(model / paper).

    Group by group of `facts.free`, over the group's cells, with at most `evaluations` of the model each.
    """
    from scipy.optimize import minimize

    fitted, paper = dict(parameters), facts.published()
    for group, names in facts.free.items():
        chosen = [name for name in names if name in free]
        cells = [cell for cell in facts.cells if cell.group == group]
        if not chosen:
            continue
        start = [math.log(max(1, fitted[name])) for name in chosen]
        # Steps of an eighth: the figures are not smooth, smaller ones would follow their noise.
        simplex = [start, *([v + 0.125 * (i == j) for j, v in enumerate(start)] for i in range(len(start)))]
        best = minimize(
            lambda x, cells, before, chosen: sum(
                math.log(r.ratio) ** 2
                for r in residuals(model, before | _values(chosen, x), cells, paper, samples)
            ),
            start,
            args=(cells, dict(fitted), chosen),
            method="Nelder-Mead",
            options={"initial_simplex": simplex, "maxfev": evaluations, "xatol": 1e-3, "fatol": 1e-5},
        )
        fitted |= _values(chosen, best.x)
        error = math.exp(math.sqrt(best.fun / len(cells))) - 1
        progress(
            f"{', '.join(f'{name} {fitted[name]}' for name in chosen)}: {len(cells)} figures, "
            f"off by {error:.0%} (root mean square), {best.nfev} evaluations"
        )
    return fitted


def _values(names: Sequence[str], logarithms: Sequence[float]) -> dict[str, int]:
    return {name: max(1, round(math.exp(x))) for name, x in zip(names, logarithms, strict=True)}


def report(found: Sequence[Residual], facts: Facts) -> str:
    """The table of residuals and the list of contradictions, as text."""
    width = max(len(r.cell.title) for r in found)
    lines = [f"{'':{width}}  {'paper':>10} {'model':>10}  ratio"]
    for r in found:
        mark = "fitted" if r.cell.group else ""
        lines.append(
            f"{r.cell.title:{width}}  {_figure(r, r.paper)} {_figure(r, r.model)}  {r.ratio:5.2f}  {mark}"
        )
    lines.append("units: I/O per second, MiB/s, and for percentiles microseconds")
    by_title = {r.cell.title: r for r in found}
    for titles in facts.contradictions:
        loser, winner = by_title[titles[0]], by_title[titles[1]]
        a, b = loser.paper, winner.cell.like(loser.cell, winner.paper)
        fate = "the second is fitted, the first is" if winner.cell.group else "both are"
        lines.append(
            f"contradiction in the paper: {titles[0]}: {loser.cell.words(a)}; {titles[1]}: "
            f"{loser.cell.words(b)}, {a / b - 1:+.0%} apart; {titles[2]}; {fate} left over"
        )
    return "\n".join(lines)


def _figure(r: Residual, value: float) -> str:
    return f"{value:10.0f}" if value >= 1000 else f"{value:10.1f}"


def main(file: Path, check: bool, write: bool, samples: int, evaluations: int) -> None:
    """Fit a drive file, unless `check`, and print what is left over; with `write` the file is changed.

    `samples` are real-time requests a load, `evaluations` those of the model for each group, at most.
    """
    drive = parse_toml(file, Drive)
    facts = FACTS.get(drive.name)
    if facts is None:
        raise UsageError(f"{file}: no figures of a drive {drive.name}; expected {one_of(list(FACTS))}")
    parameters = {key: p.value for key, p in drive.parameters.items()}
    free = [key for key, p in drive.parameters.items() if p.fitted]
    known = [name for names in facts.free.values() for name in names]
    if unknown := [name for name in free if name not in known]:
        raise UsageError(
            f"{file}: {unknown[0]} is marked as fitted; what can be fitted is {', '.join(known)}"
        )
    with model_of(facts, drive.name) as model:
        if not check:
            parameters = fit(model, parameters, free, facts, samples, evaluations, print)
        paper = facts.published()
        print(report(residuals(model, parameters, facts.cells, paper, samples), facts))
    if write:
        text = file.read_text(encoding="utf-8")
        replace_text(file, drive_file.rewrite(text, {name: parameters[name] for name in free}))
