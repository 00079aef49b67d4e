# SPDX-License-Identifier: GPL-2.0-only
"""What steps measure with: Tailgate's own measurements, and their figures as quantities."""

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypedDict, Unpack

from tailgate.base.command import log
from tailgate.base.errors import UsageError
from tailgate.base.paths import ROOT
from tailgate.base.progress import Progress
from tailgate.fitting import command as fitting
from tailgate.guest import kvm
from tailgate.guest.labels import ORDINARY
from tailgate.runs import export
from tailgate.show import fitted, report, summary
from tailgate.spec import experiment as experiments
from tailgate.spec.experiment import ModeName
from tailgate.targets.measure import MeasureOptions, TargetOptions, measure, target_of
from tailgate.targets.resolve import resolve
from tailgate.upkeep import bench, draw
from tailgate.upkeep.bench.result import Result
from tailgate.upkeep.claims.history import law_commit
from tailgate.upkeep.claims.quantity import Quantity, exact, once, seconds, within
from tailgate.upkeep.claims.results import Clock, Figure, Source

TAILGATE = Path(sys.executable).with_name("tailgate")
KEPT = ROOT / "runs" / "claims"
#: Commands end with us, however we end.
WITH_US = ("setpriv", "--pdeathsig", "TERM", "--")

Point = Mapping[str, Any]


def flow(point: Point, name: str) -> Mapping[str, Any]:
    """A point's flow of this name."""
    found: Mapping[str, Any] = next(f for f in point["flows"] if f["flow"] == name)
    return found


def us(point: Point, name: str, percentile: str) -> Quantity:
    """A percentile of a flow's latency, microseconds, with its interval."""
    of = flow(point, name)
    value, n = float(of["lat_us"][percentile]), of.get("ios")
    if (ends := of.get("ci_us", {}).get(percentile)) is None:
        return once(value, n)
    low, high = ends
    return within(value, low, high, n)


class Options(TypedDict, total=False):
    """Options of `tailgate run`. A command that is told has them in the order in which they were given."""

    mode: ModeName
    target: str
    schedulers: Sequence[str]
    loads: Sequence[str]
    drive: str
    machine: str
    kernel: str
    jobs: int
    out: Path


def command_line(experiment: str, options: Mapping[str, object]) -> str:
    """The command that measures this, as a shell takes it."""
    words = ["tailgate", "run", experiment]
    for name, value in options.items():
        if name == "mode":
            words.append(f"--{value}")
        else:
            words += [f"--{name}", ",".join(value) if isinstance(value, (list, tuple)) else str(value)]
    return shlex.join(words)


@dataclass(frozen=True)
class Answer:
    """What `tailgate run` measured."""

    source: Source
    points: tuple[Point, ...]

    def figure(self, name: str, quantity: Quantity) -> Figure:
        """A figure of this run."""
        return Figure(name, quantity, self.source)

    def by(self, *keys: str) -> dict[Any, Point]:
        """Points by one key or several; `rate` is the background's."""

        def value(point: Point, key: str) -> Any:
            return point["sweep"]["background_rate"] if key == "rate" else point[key]

        return {
            value(p, keys[0]) if len(keys) == 1 else tuple(value(p, key) for key in keys): p
            for p in self.points
        }

    def mib_s(self, point: Point, name: str) -> Quantity:
        """A flow's throughput, MiB/s: the same in every run in virtual time."""
        return self._rate(point, name, "mib_s")

    def iops(self, point: Point, name: str) -> Quantity:
        """A flow's requests a second, in thousands: the same in every run in virtual time."""
        return self._rate(point, name, "iops") / 1e3

    def _rate(self, point: Point, name: str, key: str) -> Quantity:
        of = flow(point, name)
        return (once if self.source.clock == "wall" else exact)(float(of[key]), of.get("ios"))

    def saturated(self, scheduler: str, smp: int = 1, **knobs: int) -> Point:
        """The point of a scheduler with these knobs, without a limit on the background's rate."""
        for point in self.points:
            if point["scheduler"] != scheduler or point["smp"] != smp:
                continue
            if point["sweep"]["background_rate"] == 1 and all(
                point["knobs"].get(k) == v for k, v in knobs.items()
            ):
                return point
        raise UsageError(f"the run has no saturated point of {scheduler} {knobs} with {smp} CPUs")


@dataclass(frozen=True)
class Lab:
    """Measures; with `fresh` also what was measured before.

    `unchanged` raises UsageError if the sources have changed since this process began. A run's folder is
    named by the sources of now, and this process would measure with those of then.
    """

    fresh: bool = False
    unchanged: Callable[[], None] = lambda: None

    def run(self, experiment: str, law: tuple[str, str] | None = None, **options: Unpack[Options]) -> Answer:
        """What `tailgate run` measures, and shows on standard error. UsageError if the run fails."""
        self.unchanged()
        path, command = experiments.find(experiment), command_line(experiment, options)
        run = resolve(
            path,
            options.get("mode", "full"),
            options.get("schedulers"),
            None,
            options.get("target", "vm"),
            options.get("loads"),
            options.get("drive"),
        )
        progress = Progress(log())
        where = TargetOptions(options.get("kernel", TargetOptions.kernel), options.get("machine"))
        how = self._options(command, options.get("jobs"))
        measured = measure(target_of(run, path, where, progress), options.get("out"), how, progress)
        summary.show(measured, progress.console)
        if measured.fault:
            raise UsageError(f"{command} failed: {measured.fault}")
        told: Mapping[str, Any] = export.to_json(run, measured.points)
        command = command.replace(f"{ROOT}/", "")
        source = Source(command, run.target, clock(run.target), run.mode.seeds, law)
        return Answer(source, tuple(told["points"]))

    def calibrate(self, drive: Path, out: Path) -> None:
        """What `tailgate calibrate --writes` does in a virtual machine. UsageError if it fails."""
        self.unchanged()
        words = ("tailgate", "calibrate", str(drive), "--target", "vm", "--writes", "--out", str(out))
        progress = Progress(log())
        found = fitting.calibrate(drive, "vm", True, out, self._options(shlex.join(words)), progress)
        fitted.show(found, progress.console)

    def bench(self, kind: str, quick: bool = False, since: Sequence[str] = ()) -> dict[str, Result]:
        """Figures of `tailgate bench` of one kind, by name."""
        return {r.name: r for r in bench.kinds(log(), ORDINARY, quick, since)[kind]()}

    def anew(self, *command: str, statuses: Sequence[int] = (0,)) -> dict[str, Any]:
        """The object that a command prints where nothing was measured before, for the clock.

        The command is a process of its own, as what is timed is what a user waits for: the interpreter starts
        and imports, and caches are empty. UsageError if it prints no object, or ends with another status.
        """
        with tempfile.TemporaryDirectory() as folder:
            asked = [*WITH_US, str(TAILGATE), *command, "--out", folder, "--json"]
            done = subprocess.run(asked, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode not in statuses or not done.stdout:
            raise UsageError(f"tailgate {shlex.join(command)} failed: see what it printed above")
        result: dict[str, Any] = json.loads(done.stdout)
        return result

    def _options(self, command: str, jobs: int | None = None) -> MeasureOptions:
        return MeasureOptions(jobs or os.cpu_count() or 1, self.fresh, command, report.of)

    def held_out(self, law: str, count: int) -> Iterator[tuple[str, Path, tuple[str, str]]]:
        """Random drives that were not known when a law was written: name, file, the law with its commit.

        They are drawn by seeds taken from the commit that last changed the law, so they cannot
        be known before the change; better comments change no law.
        """
        commit = law_commit(law)
        for i in range(1, count + 1):
            name = f"held-out-{i}"
            path = KEPT / "drives" / commit[:12] / f"{name}.toml"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(draw.text(held_out_seed(commit, i), name))
            yield name, path, (law, commit[:12])


def timed(lab: Lab, *command: str) -> tuple[Quantity, tuple[int, ...]]:
    """How long a `run` takes where nothing was measured before, s, and its seeds."""
    answers: list[Mapping[str, Any]] = []
    took = seconds(lambda: answers.append(lab.anew(*command)))
    return took, tuple(answers[-1]["seeds"])


def clock(target: str) -> Clock:
    """The clock that a target measures with on this host."""
    return "wall" if target == "vm" and kvm.works() else "virtual"


def held_out_seed(commit: str, number: int) -> int:
    """The seed of a held-out drive: from the commit's first twelve digits, and its number."""
    return int(commit[:12], 16) * 16 + number


def noted(source: Source, command: str) -> Source:
    """A source with another command: several commands that made one figure."""
    return replace(source, command=command)
