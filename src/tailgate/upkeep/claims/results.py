# SPDX-License-Identifier: GPL-2.0-only
"""Results as the tool writes them: `claims/results/<topic>.json`, one line for each figure.

A file holds, by step: the commit and date of the measurement, and its commands, each with its target, clock,
seeds and figures. `interval` of a figure is [low, high] (95 %; null: no end is known), "exact", or "none: "
and the reason.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ValidationError

from tailgate.base.errors import UsageError
from tailgate.base.paths import replace_text
from tailgate.upkeep.claims.model import FOLDER
from tailgate.upkeep.claims.quantity import INTERVAL, Quantity

RESULTS = FOLDER / "results"

#: "virtual": simulated, or counted by instructions. "wall": the host's clock. "model": worked out.
Clock = Literal["virtual", "wall", "model"]


@dataclass(frozen=True)
class Source:
    """Where figures come from. `law`: what decides the held-out drives of this run, and its commit."""

    command: str
    target: str
    clock: Clock
    seeds: tuple[int, ...] = ()
    law: tuple[str, str] | None = None


@dataclass(frozen=True)
class Figure:
    """One figure that a step yields."""

    id: str
    quantity: Quantity
    source: Source


class Stored(BaseModel, extra="forbid", frozen=True):
    """A figure in a results file."""

    id: str
    value: float
    interval: tuple[float | None, float | None] | str
    n: int | None = None

    @property
    def quantity(self) -> Quantity:
        """The figure as a number with an interval."""
        if isinstance(self.interval, str):
            return Quantity(self.value, self.value, self.value, self.interval, self.n)
        low, high = self.interval
        return Quantity(
            self.value,
            -math.inf if low is None else low,
            math.inf if high is None else high,
            INTERVAL,
            self.n,
        )


class Run(BaseModel, extra="forbid", frozen=True):
    """One command and its figures."""

    command: str
    target: str
    clock: Clock
    seeds: tuple[int, ...] = ()
    law: tuple[str, str] | None = None
    figures: tuple[Stored, ...]


class Step(BaseModel, extra="forbid", frozen=True):
    """What a step measured at a commit (YYYY-MM-DD)."""

    commit: str
    date: str
    runs: tuple[Run, ...]


@dataclass(frozen=True)
class Result:
    """A stored figure with all that is known of it."""

    figure: Stored
    run: Run
    step: Step
    step_name: str


class _File(BaseModel, extra="forbid", frozen=True):
    steps: dict[str, Step]


def step_of(figures: Iterable[Figure], commit: str, date: str) -> Step:
    """Figures in the form of a results file, by command. UsageError: an id that is there twice."""
    by_source: dict[Source, list[Stored]] = {}
    seen: set[str] = set()
    for figure in figures:
        if figure.id in seen:
            raise UsageError(f"a step yields {figure.id} twice; expected an id of its own for each figure")
        seen.add(figure.id)
        by_source.setdefault(figure.source, []).append(_stored(figure))
    runs = tuple(
        Run(command=s.command, target=s.target, clock=s.clock, seeds=s.seeds, law=s.law, figures=tuple(some))
        for s, some in by_source.items()
    )
    return Step(commit=commit, date=date, runs=runs)


def _stored(figure: Figure) -> Stored:
    quantity = figure.quantity
    interval: tuple[float | None, float | None] | str = quantity.how
    if quantity.how == INTERVAL:
        interval = _end(quantity.low), _end(quantity.high)
    value = _round(quantity.value)
    return Stored(id=figure.id, value=value, interval=interval, n=quantity.n)


def _round(value: float) -> float:
    return float(f"{value:.7g}")


def _end(value: float) -> float | None:
    return _round(value) if math.isfinite(value) else None


def read(folder: Path | None = None) -> dict[str, dict[str, Step]]:
    """Steps by topic and name, of RESULTS if no folder is given. UsageError: a file that is not right."""
    folder = RESULTS if folder is None else folder
    return {path.stem: _read_file(path) for path in sorted(folder.glob("*.json"))}


def _read_file(path: Path) -> dict[str, Step]:
    try:
        return _File.model_validate({"steps": json.loads(path.read_text())}).steps
    except (json.JSONDecodeError, ValidationError) as e:
        reason = str(e).replace("\n", " ")
        raise UsageError(f"{path}: not results as `tailgate claims` writes them: {reason}") from e


def write(topic: str, steps: Mapping[str, Step], folder: Path | None = None) -> None:
    """Write one topic's file, into RESULTS if no folder is given: a line for each figure."""
    folder = RESULTS if folder is None else folder
    folder.mkdir(parents=True, exist_ok=True)
    replace_text(folder / f"{topic}.json", "".join(_lines(steps)))


def _lines(steps: Mapping[str, Step]) -> Iterator[str]:
    yield "{\n"
    for i, (name, step) in enumerate(steps.items()):
        head = json.dumps({"commit": step.commit, "date": step.date})[1:-1]
        yield f" {json.dumps(name)}: {{{head}, "
        yield '"runs": [\n'
        for j, run in enumerate(step.runs):
            about = run.model_dump(mode="json", exclude={"figures"}, exclude_defaults=True)
            yield f'  {json.dumps(about)[:-1]}, "figures": [\n'
            figures = [f.model_dump(mode="json", exclude_defaults=True) for f in run.figures]
            yield ",\n".join(f"   {json.dumps(f)}" for f in figures)
            yield f"\n  ]}}{',' if j + 1 < len(step.runs) else ''}\n"
        yield f" ]}}{',' if i + 1 < len(steps) else ''}\n"
    yield "}\n"


def by_id(stored: Mapping[str, Mapping[str, Step]]) -> dict[str, Result]:
    """All figures by id. UsageError: an id that two steps have."""
    found: dict[str, Result] = {}
    for steps in stored.values():
        for name, step in steps.items():
            for run in step.runs:
                for figure in run.figures:
                    if figure.id in found:
                        raise UsageError(
                            f"claims/results: {figure.id} is there twice, of {found[figure.id].step_name} "
                            f"and of {name}; measure one of them again with `tailgate claims --fresh`"
                        )
                    found[figure.id] = Result(figure, run, step, name)
    return found
