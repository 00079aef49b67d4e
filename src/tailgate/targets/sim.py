# SPDX-License-Identifier: GPL-2.0-only
"""The target `sim`: the same schedulers and drive in a discrete-event simulator, in processes of this host.

Each point is a simulation of its own, so points run in parallel, in processes of this host or on the workers
of a Dask cluster. Their number changes no digit. Each point is written as it ends.
"""

import shlex
from collections.abc import Mapping, Sequence
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import cached_property
from pathlib import Path

from tailgate.base import paths
from tailgate.base.progress import Progress, duration
from tailgate.load import fiojob
from tailgate.load.loads import Loads
from tailgate.runs import folder as folders
from tailgate.runs.folder import Records
from tailgate.simulator import simulation
from tailgate.simulator.executor import executor
from tailgate.simulator.settings import simulated
from tailgate.simulator.simulation import BrokenSimulationError
from tailgate.spec import drive as drives
from tailgate.spec import machines
from tailgate.spec import plan as plans
from tailgate.spec.plan import Chunk, PlannedPoint, Run
from tailgate.targets import identity
from tailgate.targets.protocol import BrokenRunError
from tailgate.targets.sim_point import SimPlan

#: About how many I/Os one core simulates in a second; for estimates.
IOS_A_SECOND = 1e6
#: Seconds that a worker takes to start, its imports included.
START_S = 1.0
#: Modules of the lab that decide the simulation of a point and the measurement made of its outcome.
CODE = ("targets/sim_point.py",)


class SimTarget:
    """Everything that decides a simulated run's figures, and the means to simulate it."""

    def __init__(
        self, run: Run, path: Path, machine: str, dask: str | None = None, cpus: int | None = None
    ) -> None:
        """`path` is the experiment file, `machine` the name of a machine file, `dask` a scheduler's address.

        `cpus` replaces the machine's number of processors.
        """
        self.run = run
        self.path = path
        self.dask = dask
        self.build = simulation.build()
        self.drive_path, self.drive = drives.load(run.spec.drive)
        self.loads = Loads(run, path, self.drive)
        self.machine_path, self.machine = machines.load(machine)
        if cpus:
            self.machine = self.machine.with_cpus(cpus)
        self.plan = SimPlan(run, self.loads, self.drive, self.machine, self.build)

    @cached_property
    def identity(self) -> dict[str, object]:
        """Everything that decides the figures; equal identities give equal figures on any host."""
        return {
            "target": "sim",
            **identity.asked(self.run, self.loads, self.drive),
            "machine": {k: p.value for k, p in (self.machine.parameters | self.machine.costs).items()},
            "dilated": self.machine.dilated,
            "simulator": self.build,
            "code": identity.code(CODE),
        }

    @property
    def key(self) -> str:
        """Names the run's folder: a hash of its identity."""
        return identity.key(self.identity)

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
        """The simulated machine and the simulator's build."""
        return {"machine": self.machine.title, "simulator": self.build}

    @cached_property
    def points(self) -> list[PlannedPoint]:
        """The points, in the order of the run's chunks."""
        return [point for chunk in plans.chunks(self.run) for point in chunk.points]

    def replay(self, point: PlannedPoint, folder: Path) -> str:
        """The command that simulates one point again."""
        told, chunk = self.plan.simulation(point), point.chunk
        words = ["tailgate", "simulate", str(folders.place(folder, chunk) / f"{point.name}.fio")]
        words += ["--drive", self.run.spec.drive, "--machine", self.machine.name]
        words += ["--scheduler", told.scheduler]
        words += ["--cpus", str(told.machine["cpus"]), "--seed", str(chunk.seed)]
        for name, value in self.loads.knobs(chunk, self.plan.dilation(chunk)).items():
            words += ["--knob", f"{name}={value}"]
        for path, weight in told.weights.items():
            words += ["--weight", f"{path}={weight}"]
        for name, setting in self.run.spec.queue_of(chunk.scheduler).items():
            words += ["--queue", f"{name}={setting}"]
        own = {key: p.value for key, p in self.drive.parameters.items()}
        driver = drives.split(told.device)[1]
        for name, value in (driver | dict(told.drive)).items():
            if name != "seed" and own.get(name, 1 if name == "dilation" else None) != value:
                words += ["--set", f"{name}={value}"]
        return shlex.join(words)

    def check(self) -> None:
        """Let the simulator check every point. UsageError for a point that it would refuse."""
        if self.dask:
            with executor(1, self.dask):
                pass
        seen: set[tuple[str, str | None, int | None]] = set()
        for point in self.points:
            told = self.plan.simulation(point)
            key = (point.chunk.scheduler.label, point.chunk.sweep.label, point.chunk.variant)
            if key not in seen:
                seen.add(key)
                simulation.check(told, f"{self.path}: {point.words}")

    def announcement(self, records: Records, jobs: int) -> str:
        """Points, and an estimate of the time they take."""
        left = records.left(plans.chunks(self.run))
        ios = [self.ios(p) for p in left]
        wall = START_S + max([sum(ios) / jobs, *ios], default=0.0) / IOS_A_SECOND
        text = f"{self.run.name}: {len(left)} points, simulated on the machine {self.machine.name}"
        text += f"; about {duration(wall)}"
        if len(left) < len(self.points):
            text += f" ({len(self.points) - len(left)} points are there already)"
        asked = {s.label for s in self.run.schedulers}
        without = [s for s in self.run.spec.schedulers if not simulated(s)]
        if lacking := [s.label for s in without if s.label not in asked]:
            names = ",".join(lacking)
            ours = self.path.resolve().is_relative_to(paths.EXPERIMENTS)
            command = ["tailgate", "run", self.run.name if ours else str(self.path)]
            command += ["--target", "vm", "--schedulers", names]
            text += f"\n{names} is not simulated: {shlex.join(command)}"
        return text

    def ios(self, point: PlannedPoint) -> float:
        """An estimate of a point's number of I/O operations."""
        return self.loads.estimate(point.chunk, point.background_rate)[0]

    def measure(self, records: Records, chunks: Sequence[Chunk], jobs: int, progress: Progress) -> None:
        """Simulate those points of the chunks that have no record yet, the longest first."""
        left = sorted(records.left(chunks), key=self.ios, reverse=True)
        for chunk in chunks:
            if not records.complete(chunk):
                self._begin(records.folder, chunk)
        progress.begin(len(left), sum(self.ios(p) for p in left))
        with executor(min(jobs, len(left)) or 1, self.dask) as pool:
            try:
                futures = {pool.submit(simulation.simulate, self.plan.simulation(p)): p for p in left}
            except BrokenProcessPool as e:
                raise BrokenRunError(f"a process of the simulator died: {e}") from e
            for future in as_completed(futures):
                point = futures[future]
                try:
                    outcome = future.result()
                except BrokenProcessPool as e:
                    raise BrokenRunError(f"{point.words}: a process of the simulator died: {e}") from e
                except BrokenSimulationError as e:
                    again = self.replay(point, records.folder)
                    raise BrokenRunError(f"{point.words}: {e}\nto see it again: {again}") from e
                records.write(self.plan.measurement(point, outcome))
                progress.point(point.words, self.ios(point))
        for chunk in chunks:
            folders.end(records.folder, chunk)

    def _begin(self, folder: Path, chunk: Chunk) -> None:
        """Write the jobs of a chunk's points, and the traces that they replay, where `simulate` finds
        them.
        """
        folders.begin(folder, chunk, self.plan.conditions(chunk))
        place, dilation = folders.place(folder, chunk), self.plan.dilation(chunk)
        for point in chunk.points:
            (place / f"{point.name}.fio").write_text(fiojob.text(self.plan.job(point)))
        for name, text in self.loads.derive(chunk, 1.0, dilation).traces.items():
            (place / name).unlink(missing_ok=True)
            if dilation == 1:
                (place / name).symlink_to(Path("../../sources") / name)
            else:
                (place / name).write_text(text)
