# SPDX-License-Identifier: GPL-2.0-only
"""The lab's interface to the simulator: the input of a simulation and its outcome, in plain values.

A Simulation is picklable, so that it can be run in another process or on another machine, which calls
`simulate`. This module imports little, because each of those processes imports it.
"""

import dataclasses
import hashlib
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from tailgate.base.errors import UsageError
from tailgate.load.process import Process
from tailgate.spec import cgroups

#: Schedulers of the kernel that the simulator lacks.
NOT_SIMULATED = frozenset({"bfq"})
DIRECTIONS = ("read", "write")


#: Called with the block layer's counters so far (Sample in sim/simulate.hpp); returns knobs to change.
Watcher = Callable[[Any], Mapping[str, int]]


class BrokenSimulationError(Exception):
    """A simulation broke one of its own rules, or ran on another build than requested: an error in
    Tailgate.
    """


@dataclass(frozen=True)
class Simulation:
    """The input of a simulation. Names are those of sim/simulate.hpp; in `drive`, those of flash/flash.h.

    `drive` may also have vflash's `write_cache`. `flows` are the names of the processes' flows in the
    outcome. `build`, if not empty, is the only `build()` that may run it. `weights` are io.mqfq.weight of
    cgroups, by path.
    """

    flows: tuple[str, ...]
    processes: tuple[Process, ...]
    drive: Mapping[str, int]
    device: Mapping[str, int] = dataclasses.field(default_factory=dict)
    scheduler: str = "none"
    knobs: Mapping[str, int] = dataclasses.field(default_factory=dict)
    machine: Mapping[str, int] = dataclasses.field(default_factory=dict)
    costs: Mapping[str, int] = dataclasses.field(default_factory=dict)
    limit_ns: int = 0
    check: bool = False
    build: str = ""
    weights: Mapping[str, int] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True)
class Latencies:
    """A histogram of latencies: ascending values in ns, the middles of fio's bins, and their counts."""

    values_ns: tuple[int, ...]
    counts: tuple[int, ...]
    min_ns: int
    max_ns: int
    mean_ns: float

    @property
    def n(self) -> int:
        """The number of samples."""
        return sum(self.counts)


@dataclass(frozen=True)
class Direction:
    """One direction of a flow. `block` and `scheduler` are times within the block layer and the scheduler."""

    ios: int
    bytes: int
    latency: Latencies
    block: Latencies
    scheduler: Latencies
    #: Latencies by ioprio, if requests have priorities of their own.
    priorities: Mapping[int, Latencies] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a simulation. `flows` by name: counted time in ns, and (reads, writes).

    `found` has the values that the scheduler chose for knobs set to `auto`, if it reports them.
    """

    flows: Mapping[str, tuple[float, tuple[Direction, Direction]]]
    idle: float
    now_ns: int
    ios: int
    events: int
    drive: Mapping[str, int]
    found: Mapping[str, int]
    #: The scheduler's state at the end, if it reports one: kyber's tokens as read_tokens, write_tokens.
    state: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def rate(self, flow: str) -> float:
        """The factor from a count of this flow to a rate per second; 0 if the flow ran for no time."""
        runtime_ns = self.flows[flow][0]
        return 1e9 / runtime_ns if runtime_ns else 0.0


def module() -> ModuleType:
    """The simulator's Python module. UsageError if it is not there."""
    try:
        return importlib.import_module("tailgate_sim")
    except ImportError as e:
        raise UsageError(f"the simulator is not built ({e}); `make setup-check sim` builds it") from e


@lru_cache
def build() -> str:
    """Identifies the simulator's build: a hash of the files of its module."""
    file = module().__file__
    assert file is not None
    path = Path(file)
    files = (
        sorted(p for p in path.parent.glob("*") if p.suffix in (".py", ".so"))
        if path.stem == "__init__"
        else [path]
    )
    digest = hashlib.sha256()
    for one in files:
        digest.update(one.name.encode() + b"\0" + one.read_bytes())
    return digest.hexdigest()


def check(simulation: Simulation, where: str) -> None:
    """Let the simulator check a simulation, in a run of 1 ns. UsageError, beginning with `where`."""
    # Only one request of each process: more might never end on a drive and a machine that take no time.
    once = tuple(
        dataclasses.replace(p, ios_max=1, start_ns=0, ramp_ns=0, trace=p.trace[:1])
        for p in simulation.processes
    )
    try:
        simulate(dataclasses.replace(simulation, processes=once, limit_ns=1, check=False))
    except UsageError as e:
        raise UsageError(f"{where}: {e}") from e


#: Fields of a machine and a device that one number cannot set, and what sets them.
NOT_SET: Mapping[str, str] = {
    "cpus": "--cpus",
    "costs": "the name of one cost, such as submit",
    "drive": "the name of one of a drive's parameters, such as read_ns",
}


def by_owner(values: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """Parameters by owner: the fields of `costs`, `machine` and `device`; all others are `drive`."""
    sim = module()
    owners = {"costs": sim.Costs(), "machine": sim.Machine(), "device": sim.Device()}
    out: dict[str, dict[str, int]] = {name: {} for name in (*owners, "drive")}
    for key, value in values.items():
        if key in NOT_SET:
            raise UsageError(f"--set: {key} is no parameter; expected {NOT_SET[key]}")
        owner = next((name for name, one in owners.items() if hasattr(one, key)), "drive")
        out[owner][key] = value
    return out


def simulate(simulation: Simulation, every_ns: int = 0, watcher: Watcher | None = None) -> Outcome:
    """Run a simulation. UsageError for an impossible one, BrokenSimulationError for an error in the
    simulator.

    The watcher is called every `every_ns` of simulated time.
    """
    if simulation.build and simulation.build != build():
        raise BrokenSimulationError(
            "this process has another build of the simulator: install the same everywhere"
        )
    sim = module()
    config = _config(sim, simulation)
    try:
        result = sim.simulate(config, every_ns, watcher)
    except sim.UsageError as e:
        raise UsageError(str(e)) from e
    except RuntimeError as e:
        raise BrokenSimulationError(str(e)) from e
    flows = {
        name: (flow.runtime_ns, (_direction(flow.directions[0]), _direction(flow.directions[1])))
        for name, flow in zip(simulation.flows, result.flows, strict=True)
    }
    counts = (result.idle, result.now_ns, result.ios, result.events)
    return Outcome(flows, *counts, dict(result.drive), dict(result.found), dict(result.state))


def _config(sim: ModuleType, simulation: Simulation) -> Any:
    config = sim.Config()
    costs = _filled(sim.Costs(), simulation.costs)
    config.machine = _filled(sim.Machine(), {**simulation.machine, "costs": costs})
    drive = dict(simulation.drive)
    # Of vflash's own parameters, the simulator's block layer only has this one.
    write_cache = drive.pop("write_cache", 0)
    config.device = _filled(sim.Device(), {"write_cache": write_cache, **simulation.device, "drive": drive})
    config.scheduler = _filled(
        sim.Scheduler(), {"name": simulation.scheduler, "knobs": dict(simulation.knobs)}
    )
    paths = cgroups.with_parents([*(p.cgroup for p in simulation.processes), *simulation.weights])
    config.cgroups = [_cgroup(sim, path, paths, simulation.weights) for path in paths]
    config.processes = [_process(sim, process, paths) for process in simulation.processes]
    config.limit_ns = simulation.limit_ns
    config.check = simulation.check
    return config


def _cgroup(sim: ModuleType, path: str, paths: Sequence[str], weights: Mapping[str, int]) -> object:
    fields = {"parent": paths.index(cgroups.parent(path))}
    return _filled(sim.Cgroup(), fields | ({"weight": weights[path]} if path in weights else {}))


def _process(sim: ModuleType, process: Process, paths: Sequence[str]) -> object:
    # asdict() would copy every request of a trace.
    fields = {f.name: getattr(process, f.name) for f in dataclasses.fields(process)}
    fields["cgroup"] = paths.index(process.cgroup)
    fields["distribution"] = getattr(sim.Distribution, process.distribution.upper())
    fields["block_sizes"] = [list(sizes) for sizes in process.block_sizes]
    fields["zones"] = [[sim.ZoneShare(*zone) for zone in zones] for zones in process.zones]
    fields["priorities"] = [[sim.PriorityShare(*one) for one in shares] for shares in process.priorities]
    fields["ends_what"] = getattr(sim.Ends, process.ends_what.upper())
    directions = (sim.Direction.READ, sim.Direction.WRITE)
    fields["trace"] = [
        sim.TracedIo(t.at_ns, directions[t.direction], t.offset, t.bytes) for t in process.trace
    ]
    return _filled(sim.Process(), fields)


def _filled(target: object, fields: Mapping[str, object]) -> object:
    """Set fields of a simulator's object. UsageError for a field that it lacks, or a value that it
    refuses.
    """
    for name, value in fields.items():
        try:
            # Drive and machine files have numbers for the simulator's switches.
            setattr(target, name, bool(value) if isinstance(getattr(target, name), bool) else value)
        except AttributeError as e:
            raise UsageError(f"{name}: the simulator has no such parameter") from e
        except TypeError as e:
            raise UsageError(f"{name}: the simulator does not take {value!r}") from e
    return target


def _direction(d: Any) -> Direction:
    priorities = {p.ioprio: _exact(p) for p in d.priorities}
    return Direction(d.ios, d.bytes, _exact(d), _latencies(d.block), _latencies(d.scheduler), priorities)


def _exact(result: Any) -> Latencies:
    """The histogram `latency` of a result, with its exact mean, least and largest value."""
    latency = _latencies(result.latency)
    if result.ios:
        latency = dataclasses.replace(
            latency, min_ns=round(result.min_ns), max_ns=round(result.max_ns), mean_ns=result.mean_ns
        )
    return latency


def _latencies(histogram: Any) -> Latencies:
    """A histogram whose mean, least and largest value are those of its bins."""
    values, counts = tuple(histogram.values_ns.tolist()), tuple(histogram.counts.tolist())
    if not values:
        return Latencies((), (), 0, 0, 0.0)
    mean = sum(v * c for v, c in zip(values, counts, strict=True)) / sum(counts)
    return Latencies(values, counts, values[0], values[-1], mean)
