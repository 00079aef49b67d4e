# SPDX-License-Identifier: GPL-2.0-only
"""What steps measure with: the commands of Tailgate, and their figures as quantities."""

import json
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tailgate.base.errors import UsageError
from tailgate.base.paths import ROOT
from tailgate.guest import kvm
from tailgate.upkeep import draw
from tailgate.upkeep.claims.history import law_commit
from tailgate.upkeep.claims.quantity import Quantity, exact, once, within
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
    """Runs the commands. `fresh`: measures even what is there."""

    fresh: bool = False

    def run(self, *arguments: str, law: tuple[str, str] | None = None) -> Answer:
        """`tailgate run`. UsageError if the run fails."""
        result = self.json(
            "run", *arguments, *(("--fresh",) if self.fresh and "--fresh" not in arguments else ())
        )
        command = f"tailgate run {shlex.join(arguments)}".replace(f"{ROOT}/", "")
        seeds = tuple(result.get("seeds", ()))
        source = Source(command, result["target"], clock(result["target"]), seeds, law)
        return Answer(source, tuple(result["points"]))

    def run_anew(self, *arguments: str) -> Answer:
        """`tailgate run` where nothing was measured before, for the clock. UsageError if the run fails."""
        with tempfile.TemporaryDirectory() as folder:
            return self.run(*arguments, "--out", folder)

    def json(self, *command: str, statuses: Sequence[int] = (0,)) -> dict[str, Any]:
        """The object that a command prints. UsageError if it prints none, or ends with another status."""
        asked = [*WITH_US, str(TAILGATE), *command, "--json"]
        done = subprocess.run(asked, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode not in statuses or not done.stdout:
            raise UsageError(f"tailgate {shlex.join(command)} failed: see what it printed above")
        result: dict[str, Any] = json.loads(done.stdout)
        return result

    def bench(self, kind: str, *arguments: str) -> dict[str, float]:
        """Figures of `tailgate bench` of one kind, by name."""
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "bench.json"
            command = [*WITH_US, str(TAILGATE), "bench", "--only", kind, *arguments, "--out", str(out)]
            subprocess.run(command, check=True)
            return {entry["name"]: entry["value"] for entry in json.loads(out.read_text())}

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
            path.write_text("\n".join(draw.lines(held_out_seed(commit, i), name)) + "\n")
            yield name, path, (law, commit[:12])


def clock(target: str) -> Clock:
    """The clock that a target measures with on this host."""
    return "wall" if target == "vm" and kvm.works() else "virtual"


def held_out_seed(commit: str, number: int) -> int:
    """The seed of a held-out drive: from the commit's first twelve digits, and its number."""
    return int(commit[:12], 16) * 16 + number


def noted(source: Source, command: str) -> Source:
    """A source with another command: several commands that made one figure."""
    return replace(source, command=command)
