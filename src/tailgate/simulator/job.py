# SPDX-License-Identifier: GPL-2.0-only
"""A simulation of an unchanged fio job file and a few choices, without an experiment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tailgate.base.errors import UsageError, one_of
from tailgate.load import fiojob, workload
from tailgate.load.process import Process
from tailgate.simulator import settings, simulation
from tailgate.simulator.simulation import Simulation
from tailgate.spec import cgroups, machines
from tailgate.spec import drive as drives
from tailgate.spec.scheduler import Knob


@dataclass(frozen=True)
class Choices:
    """The options of `tailgate simulate` besides the job file, under the options' names.

    `drive` None: the default of every parameter. `cpus` None: the machine's number, or else 1. `seed` None: 1
    for the drive, and the job's own seed. `seconds` 0: no limit.
    """

    drive: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    scheduler: str = "none"
    knobs: Mapping[str, Knob] = field(default_factory=dict)
    weights: Mapping[str, int] = field(default_factory=dict)
    queue: Mapping[str, int] = field(default_factory=dict)
    machine: str = machines.DEFAULT
    parameters: Mapping[str, int] = field(default_factory=dict)
    cpus: int | None = None
    seed: int | None = None
    seconds: float = 0.0
    check: bool = False
    direct: bool = False


#: The longest simulation; the simulator counts nanoseconds in 64 bits.
SECONDS_MAX = 1e9


def simulation_of(file: Path, choices: Choices) -> Simulation:
    """The simulation of a job file. UsageError names the option, or file and line, that is not right."""
    job = fiojob.parse(file, choices.variables, derived=True, way_out="--variable {}=TEXT")
    flows = tuple(section.name for section in job.sections)
    _, machine = machines.load(choices.machine)
    seed = 1 if choices.seed is None else choices.seed
    if not 0 <= seed < 2**32:
        raise UsageError(f"--seed: expected 0 to {2**32 - 1}, got {seed}")
    if not 0 <= choices.seconds <= SECONDS_MAX:  # false for NaN, too
        raise UsageError(f"--seconds: expected 0 to {SECONDS_MAX:g}, got {choices.seconds:g}")
    cpus = machine.cpus or 1 if choices.cpus is None else choices.cpus
    if not 1 <= cpus <= 64:
        raise UsageError(f"--cpus: expected 1 to 64, got {cpus}")
    changes = simulation.by_owner(choices.parameters)
    drive = drives.load(choices.drive)[1] if choices.drive else drives.DEFAULTS
    own = dict(changes["drive"])
    dilation = own.pop("dilation", 1)  # of a point that the lab measured with dilated time
    values, driver = drives.split(drives.values(drive, own))
    device, processors = settings.queue_settings(choices.queue, "--queue")
    costs = {name: p.value for name, p in machine.costs.items()}
    processes = workload.processes(job, flows, drives.capacity(values), choices.seed, choices.direct)
    return Simulation(
        flows=flows,
        processes=tuple(processes),
        drive=values | {"seed": seed, "dilation": dilation},
        device=device | driver | changes["device"],
        scheduler=choices.scheduler,
        knobs=settings.check_scheduler(choices.scheduler, choices.knobs, "--scheduler"),
        weights=_weights(choices.weights, processes),
        machine=settings.machine_values(machine) | processors | changes["machine"] | {"cpus": cpus},
        costs=costs | changes["costs"],
        limit_ns=round(choices.seconds * 1e9),
        check=choices.check,
    )


def _weights(weights: Mapping[str, int], processes: Sequence[Process]) -> Mapping[str, int]:
    known = cgroups.with_parents(p.cgroup for p in processes)[1:]
    for path, weight in weights.items():
        if path not in known:
            expected = f"expected {one_of(known)}" if known else "no process has one (cgroup=)"
            raise UsageError(f"--weight: there is no cgroup {path}; {expected}")
        try:
            cgroups.check(path, {"io.mqfq.weight": weight})
        except ValueError as e:
            raise UsageError(f"--weight: {path}: {e}") from e
    return weights
