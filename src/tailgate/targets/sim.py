# SPDX-License-Identifier: GPL-2.0-only
"""The target `sim`: the same schedulers and drive in a discrete-event simulator, in this host's processes.

Each point is a simulation of its own, so points run side by side, in processes of this host or on the workers
of a Dask cluster; on how many changes no digit. Each is written as it ends.
"""

import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tailgate.base.progress import Progress, duration
from tailgate.load import fiojob, workload
from tailgate.load.loads import Loads, load_name
from tailgate.runs.folder import complete, digest, set_complete
from tailgate.simulator import simulation
from tailgate.simulator.executor import executor
from tailgate.simulator.settings import check_scheduler, machine_values, queue_settings, simulated, weights
from tailgate.simulator.simulation import DIRECTIONS, BrokenSimulationError, Outcome, Simulation
from tailgate.spec import drive as drives
from tailgate.spec import machines, plan
from tailgate.spec.plan import Chunk, Run
from tailgate.targets.protocol import BrokenRunError

#: I/Os that one core simulates in a second, about; for estimates.
IOS_A_SECOND = 1e6
#: A worker's start, its imports included.
START_S = 1.0


@dataclass(frozen=True)
class PointPlan:
    """One point of a run: the chunk, and which of its rates."""

    chunk: Chunk
    i: int

    @property
    def rate(self) -> float:
        """The background's rate."""
        return self.chunk.background_rates[self.i]

    @property
    def words(self) -> str:
        """The point in words."""
        return f"{self.chunk.name} at {load_name(self.rate)}"


class SimTarget:
    """Everything that decides a simulated run's digits, and the means to simulate it."""

    def __init__(self, run: Run, path: Path, machine: str, dask: str | None = None) -> None:
        """`path` is the experiment file, `machine` names a machine file, `dask` is a scheduler's address."""
        self.run = run
        self.path = path
        self.dask = dask
        self.build = simulation.build()
        self.drive_path, self.drive = drives.load(run.spec.drive)
        self.loads = Loads(run, path, self.drive)
        self.machine_path, self.machine = machines.load(machine)

    # --- identity -----------------------------------------------------------------------------------------

    @cached_property
    def identity(self) -> dict[str, object]:
        """All that decides the digits; runs with equal identities give equal figures on any host."""
        package = Path(__file__).resolve().parents[1]
        code = [Path(__file__), package / "spec" / "drive.py", package / "spec" / "arrivals.py"]
        code += sorted((package / "load").glob("*.py")) + sorted((package / "simulator").glob("*.py"))
        jobs = [
            *(p.read_bytes() for p in self.loads.files),
            *(t.encode() for t in self.loads.traces.values()),
        ]
        return {
            "target": "sim",
            "experiment": self.run.spec.model_dump(mode="json"),
            "mode": self.run.mode.model_dump(mode="json"),
            "schedulers": [s.label for s in self.run.schedulers],
            "variants": list(self.run.variants),
            "jobs": [hashlib.sha256(data).hexdigest() for data in jobs],
            "drive": {k: p.value for k, p in self.drive.parameters.items()},
            "machine": {k: p.value for k, p in (self.machine.parameters | self.machine.costs).items()},
            "dilated": self.machine.dilated,
            "simulator": self.build,
            "code": [hashlib.sha256(p.read_bytes()).hexdigest() for p in code],
        }

    @property
    def key(self) -> str:
        """Names the run's folder: a hash of its identity."""
        return digest(self.identity)

    @property
    def repeatable(self) -> bool:
        """Always."""
        return True

    @property
    def sources(self) -> Mapping[str, bytes]:
        """The machine, and traces that are replayed."""
        texts = {name: text.encode() for name, text in self.loads.traces.items()}
        return {self.machine_path.name: self.machine_path.read_bytes()} | texts

    @property
    def environment(self) -> Mapping[str, object]:
        """The machine that is simulated, and by what."""
        return {"machine": self.machine.title, "simulator": self.build}

    # --- what a point is ----------------------------------------------------------------------------------

    @cached_property
    def places(self) -> list[PointPlan]:
        """The points, in the order of the run's chunks."""
        return [PointPlan(c, i) for c in plan.chunks(self.run) for i in range(len(c.background_rates))]

    def cpus(self, chunk: Chunk) -> int:
        """The number of processors: the variant's, or the machine's own, or else the experiment's."""
        spec = self.run.spec
        if chunk.variant is not None:
            return spec.variants[chunk.variant].machine.smp
        return self.machine.cpus or spec.machine.smp

    def dilation(self, chunk: Chunk) -> int:
        """How much slower than life a chunk is simulated: 1, unless the machine is a guest."""
        return self.loads.dilation(chunk) if self.machine.dilated else 1

    def job(self, place: PointPlan) -> fiojob.JobFile:
        """The fio job of one point, the one that fio would run."""
        return self.loads.derive(place.chunk, place.rate, self.dilation(place.chunk), mount="")

    def simulation(self, place: PointPlan) -> Simulation:
        """What is simulated for one point. UsageError for what is not modelled."""
        chunk, spec = place.chunk, self.run.spec
        job = self.job(place)
        # The simulator takes the first flow's time for the share of it that the processors are idle.
        first = self.loads.first(chunk.sweep).name
        flows = tuple(sorted((s.name for s in job.sections), key=lambda name: name != first))
        variant = {} if chunk.variant is None else spec.variants[chunk.variant].drive
        drive, driver = drives.split(drives.values(self.drive, chunk.sweep.drive | variant))
        drive |= {"seed": chunk.seed, "dilation": self.dilation(chunk)}
        where = f"{self.path}: scheduler {chunk.scheduler.label}"
        device, processors = queue_settings(spec.queue_of(chunk.scheduler), where)
        return Simulation(
            flows=flows,
            processes=tuple(workload.processes(job, flows, drives.capacity(drive))),
            drive=drive,
            device=device | driver,
            scheduler=chunk.scheduler.name,
            knobs=check_scheduler(chunk.scheduler.name, self.loads.knobs(chunk, self.dilation(chunk)), where),
            weights=weights(chunk.scheduler),
            machine=machine_values(self.machine) | processors | {"cpus": self.cpus(chunk)},
            costs={name: p.value for name, p in self.machine.costs.items()},
            build=self.build,
        )

    def replay(self, place: PointPlan, folder: Path) -> str:
        """The command that simulates one point again."""
        told = self.simulation(place)
        words = ["tailgate", "simulate", str(folder / "chunks" / place.chunk.name / f"p{place.i}.fio")]
        words += ["--drive", self.drive.name, "--machine", self.machine.name, "--scheduler", told.scheduler]
        words += ["--cpus", str(told.machine["cpus"]), "--seed", str(place.chunk.seed)]
        for name, value in self.loads.knobs(place.chunk, self.dilation(place.chunk)).items():
            words += ["--knob", f"{name}={value}"]
        for path, weight in told.weights.items():
            words += ["--weight", f"{path}={weight}"]
        for name, setting in self.run.spec.queue_of(place.chunk.scheduler).items():
            words += ["--queue", f"{name}={setting}"]
        own = {key: p.value for key, p in self.drive.parameters.items()}
        driver = drives.split(told.device)[1]
        for name, value in (driver | dict(told.drive)).items():
            if name != "seed" and own.get(name, 1 if name == "dilation" else None) != value:
                words += ["--set", f"{name}={value}"]
        return shlex.join(words)

    # --- measuring ----------------------------------------------------------------------------------------

    def check(self) -> None:
        """Let the simulator look at every point. UsageError for what it would refuse."""
        if self.dask:
            with executor(1, self.dask):
                pass
        seen: set[tuple[str, str | None, int | None]] = set()
        for place in self.places:
            told = self.simulation(place)
            key = (place.chunk.scheduler.label, place.chunk.sweep.label, place.chunk.variant)
            if key not in seen:
                seen.add(key)
                simulation.check(told, f"{self.path}: {place.words}")

    def announcement(self, folder: Path, jobs: int) -> str:
        """Points, and an estimate of the time they take."""
        left = self.left(folder, plan.chunks(self.run))
        ios = [self.ios(p) for p in left]
        wall = START_S + max([sum(ios) / jobs, *ios], default=0.0) / IOS_A_SECOND
        text = f"{self.run.name}: {len(left)} points, simulated on the machine {self.machine.name}"
        text += f"; about {duration(wall)}"
        if len(left) < len(self.places):
            text += f" ({len(self.places) - len(left)} points are there already)"
        asked = {s.label for s in self.run.schedulers}
        without = [s for s in self.run.spec.schedulers if not simulated(s)]
        if lacking := [s.label for s in without if s.label not in asked]:
            names = ",".join(lacking)
            text += (
                f"\n{names} is not simulated: tailgate run {self.run.name} --target vm --schedulers {names}"
            )
        return text

    def left(self, folder: Path, chunks: Sequence[Chunk]) -> list[PointPlan]:
        """The points of these chunks that `folder` does not hold yet."""
        names = {c.name for c in chunks}
        return [
            p
            for p in self.places
            if p.chunk.name in names and not (folder / "chunks" / p.chunk.name / f"p{p.i}.fio.json").is_file()
        ]

    def ios(self, place: PointPlan) -> float:
        """Estimate of a point's number of I/O operations."""
        return self.loads.estimate(place.chunk, place.rate)[0]

    def measure(self, folder: Path, chunks: Sequence[Chunk], jobs: int, progress: Progress) -> None:
        """Simulate those points of the chunks that `folder` does not hold yet, the longest first.

        BrokenRunError as soon as one breaks; what was simulated until then stays in the folder.
        """
        left = sorted(self.left(folder, chunks), key=self.ios, reverse=True)
        for chunk in chunks:
            if not complete(folder, chunk):
                self._begin(folder, chunk)
        progress.begin(len(left), sum(self.ios(p) for p in left))
        with executor(min(jobs, len(left)) or 1, self.dask) as pool:
            futures = {pool.submit(simulation.simulate, self.simulation(p)): p for p in left}
            for future in as_completed(futures):
                place = futures[future]
                try:
                    outcome = future.result()
                except BrokenProcessPool as e:
                    raise BrokenRunError(f"{place.words}: a process of the simulator died: {e}") from e
                except BrokenSimulationError as e:
                    again = self.replay(place, folder)
                    raise BrokenRunError(f"{place.words}: {e}\nto see it again: {again}") from e
                self._write(folder, place, outcome)
                progress.point(place.words, self.ios(place))
        for chunk in chunks:
            set_complete(folder, chunk)

    def _begin(self, folder: Path, chunk: Chunk) -> None:
        place = folder / "chunks" / chunk.name
        place.mkdir(parents=True, exist_ok=True)
        about = {
            "dilation": self.dilation(chunk),
            "smp": self.cpus(chunk),
            "kernel": self.machine.name,
            "mode": "sim",
            "background_rates": list(chunk.background_rates),
            "complete": False,
        }
        (place / "chunk.json").write_text(json.dumps(about) + "\n")
        # Where the derived jobs look for them.
        for name, text in self.loads.derive(chunk, 1.0, self.dilation(chunk)).traces.items():
            (place / name).unlink(missing_ok=True)
            if self.dilation(chunk) == 1:
                (place / name).symlink_to(Path("../../sources") / name)
            else:
                (place / name).write_text(text)

    def _write(self, folder: Path, place: PointPlan, outcome: Outcome) -> None:
        base = folder / "chunks" / place.chunk.name
        sections = {flow.section: name for name, flow in self.run.spec.flows.items()}
        more = {
            "idle": outcome.idle,
            "flows": {
                sections[section]: {
                    word: {"block": d.block, "scheduler": d.scheduler}
                    for word, d in zip(DIRECTIONS, directions, strict=True)
                    if d.ios
                }
                for section, (_, directions) in outcome.flows.items()
            },
            "now_ns": outcome.now_ns,
            "ios": outcome.ios,
            "events": outcome.events,
            "drive": outcome.drive,
        }
        settings = self.loads.settings(place.chunk, self.dilation(place.chunk))
        text = "".join(f"{k}:{v}\n" for k, v in settings.items())
        (base / f"p{place.i}.fio").write_text(fiojob.text(self.job(place)))
        (base / f"p{place.i}.settings").write_text(text)
        (base / f"p{place.i}.sim.json").write_text(json.dumps(more) + "\n")
        # This one says that the point is there, so it comes last and whole.
        unfinished = base / f"p{place.i}.fio.json.part"
        unfinished.write_text(json.dumps(outcome.fio()) + "\n")
        unfinished.rename(base / f"p{place.i}.fio.json")


# --- from what users set to what the simulator is told ------------------------------------------------------


# --- where it runs ------------------------------------------------------------------------------------------
