# SPDX-License-Identifier: GPL-2.0-only
"""The target `sim`: the same schedulers and drive in a discrete-event simulator, in this host's processes.

Each point is a simulation of its own, so points run side by side, in processes of this host or on the workers
of a Dask cluster; on how many changes no digit. Each is written as it ends.
"""

import hashlib
import importlib
import json
import multiprocessing
import shlex
import signal
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tailgate import cgroups, fiojob, machines, results, simulation, workload
from tailgate import drive as drives
from tailgate.errors import UsageError
from tailgate.experiment import Knob, Scheduler, one_of
from tailgate.machines import Machine
from tailgate.progress import Progress, duration
from tailgate.results import Chunk, Run
from tailgate.simulation import DIRECTIONS, BrokenSimulationError, Outcome, Simulation
from tailgate.targets import BrokenRunError, complete, digest, set_complete
from tailgate.targets.loads import Loads, load_name

#: Settings of the queue that are fields of the simulator's Device.
DEVICE_SETTINGS = ("nr_requests", "max_sectors_kb")
#: Settings of the queue that have no say in the model, and those that do with one value only.
NEUTRAL_SETTINGS = frozenset({"rotational", "add_random", "iostats", "read_ahead_kb"})
ONLY_SETTINGS: Mapping[str, tuple[int, ...]] = {"wbt_lat_usec": (0,), "io_poll": (0,)}
#: I/Os that one core simulates in a second, about; for estimates.
IOS_A_SECOND = 1e6
DASK_ANSWERS_S = 5.0
#: A worker's start, its imports included.
START_S = 1.0


@dataclass(frozen=True)
class Place:
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


class Lab:
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
        code = [package / name for name in ("arrivals.py", "fiojob.py", "workload.py", "simulation.py")]
        code += [Path(__file__), Path(__file__).with_name("loads.py")]
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
    def places(self) -> list[Place]:
        """The points, in the order of the run's chunks."""
        return [Place(c, i) for c in results.chunks(self.run) for i in range(len(c.background_rates))]

    def cpus(self, chunk: Chunk) -> int:
        """The number of processors: the variant's, or the machine's own, or else the experiment's."""
        spec = self.run.spec
        if chunk.variant is not None:
            return spec.variants[chunk.variant].machine.smp
        return self.machine.cpus or spec.machine.smp

    def dilation(self, chunk: Chunk) -> int:
        """How much slower than life a chunk is simulated: 1, unless the machine is a guest."""
        return self.loads.dilation(chunk) if self.machine.dilated else 1

    def job(self, place: Place) -> fiojob.JobFile:
        """The fio job of one point, the one that fio would run."""
        return self.loads.derive(place.chunk, place.rate, self.dilation(place.chunk), mount="")

    def simulation(self, place: Place) -> Simulation:
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

    def replay(self, place: Place, folder: Path) -> str:
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
        left = self.left(folder, results.chunks(self.run))
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

    def left(self, folder: Path, chunks: Sequence[Chunk]) -> list[Place]:
        """The points of these chunks that `folder` does not hold yet."""
        names = {c.name for c in chunks}
        return [
            p
            for p in self.places
            if p.chunk.name in names and not (folder / "chunks" / p.chunk.name / f"p{p.i}.fio.json").is_file()
        ]

    def ios(self, place: Place) -> float:
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

    def _write(self, folder: Path, place: Place, outcome: Outcome) -> None:
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


def simulated(scheduler: Scheduler) -> bool:
    """Whether the simulator has it, with all that is set beside it.

    Of cgroups it has the weights of mqfq only. It throttles no writeback, and has all of a driver's tags,
    which are those of `none`.
    """
    few_tags = scheduler.name == "none" and "nr_requests" in scheduler.queue
    files = {file for settings in scheduler.cgroups.values() for file in settings}
    only_kernels = files - cgroups.SIMULATED or scheduler.queue.get("wbt_lat_usec") or few_tags
    return scheduler.name not in simulation.NOT_SIMULATED and not only_kernels


def weights(scheduler: Scheduler) -> dict[str, int]:
    """io.mqfq.weight of the cgroups that have one, by path."""
    return {
        path: settings["io.mqfq.weight"]
        for path, settings in scheduler.cgroups.items()
        if "io.mqfq.weight" in settings
    }


def queue_settings(settings: Mapping[str, Knob], where: str) -> tuple[dict[str, int], dict[str, int]]:
    """Settings below /sys/block/*/queue as fields of the simulator's Device and Machine.

    UsageError, beginning with `where`, for those that are not modelled.
    """
    device: dict[str, int] = {}
    machine: dict[str, int] = {}
    for name, value in settings.items():
        if not isinstance(value, int) or value < 0:
            raise UsageError(f"{where}: queue setting {name}: expected a number of at least 0, got {value!r}")
        if name in DEVICE_SETTINGS:
            device[name] = value
        elif name == "nomerges" and value in (0, 2):
            device["merges"] = value == 0
        elif name == "rq_affinity" and value in (0, 1, 2):
            machine["completes_where_submitted"] = value > 0
        elif name not in NEUTRAL_SETTINGS and value not in ONLY_SETTINGS.get(name, ()):
            known = {"nomerges": "0 or 2", "rq_affinity": "0, 1 or 2"}
            known |= {n: one_of([str(v) for v in values]) for n, values in ONLY_SETTINGS.items()}
            expected = f"expected {known[name]}, got {value}" if name in known else "not modelled"
            raise UsageError(f"{where}: queue setting {name}: {expected}")
    return device, machine


def check_scheduler(name: str, knobs: Mapping[str, Knob], where: str) -> dict[str, int]:
    """The knobs of a scheduler as numbers. UsageError, beginning with `where`, for what does not exist."""
    known: Mapping[str, Sequence[tuple[str, int, int, int, Sequence[str]]]] = simulation.module().schedulers()
    if name not in known:
        raise UsageError(f"{where}: the simulator has no scheduler {name}; expected {one_of(list(known))}")
    ranges = {knob: (least, most, automatic, words) for knob, least, most, automatic, words in known[name]}
    out = {}
    for knob, value in knobs.items():
        if knob not in ranges:
            expected = f"expected {one_of(list(ranges))}" if ranges else "it has none"
            raise UsageError(f"{where}: {name} has no knob {knob} in the simulator; {expected}")
        least, most, automatic, words = ranges[knob]
        if words:
            if value not in words:
                raise UsageError(f"{where}: {knob}: expected {one_of(words)}, got {value!r}")
            out[knob] = words.index(str(value))
            continue
        if value == "auto" and automatic:
            out[knob] = automatic
            continue
        if not isinstance(value, int) or not least <= value <= most:
            raise UsageError(f"{where}: {knob}: expected a number, {least} to {most}, got {value!r}")
        out[knob] = value
    return out


def machine_values(machine: Machine) -> dict[str, int]:
    """The machine's parameters other than its costs."""
    return {name: p.value for name, p in machine.parameters.items()}


# --- where it runs ------------------------------------------------------------------------------------------


@contextmanager
def executor(jobs: int, dask: str | None) -> Iterator[Executor]:
    """So many processes of this host, or, with the address of a Dask scheduler, its workers."""
    if dask is None:
        # A fork would take along the threads' locks; started anew, a worker has none.
        fresh = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(jobs, mp_context=fresh, initializer=_end_when_interrupted)
        try:
            yield pool
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
        return
    try:
        distributed = importlib.import_module("distributed")
    except ImportError as e:
        raise UsageError("--dask needs the Python package distributed; `make venv-dev` installs it") from e
    try:
        client = distributed.Client(dask, timeout=DASK_ANSWERS_S)
    except (OSError, ValueError) as e:
        raise UsageError(f"no Dask scheduler answers at {dask} ({e})") from e
    with client, client.get_executor(pure=False) as workers:
        yield workers


def _end_when_interrupted() -> None:
    # The terminal interrupts the workers too; what they would print about it helps nobody.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
