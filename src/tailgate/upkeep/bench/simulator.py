# SPDX-License-Identifier: GPL-2.0-only
"""How fast the simulator is, and how much memory it takes."""

import re
import statistics
import time
from pathlib import Path

from rich.console import Console

from tailgate.load.process import Process
from tailgate.simulator import executor, settings, simulation
from tailgate.simulator.simulation import Simulation
from tailgate.spec import drive as drives
from tailgate.spec import experiment as experiments
from tailgate.spec import machines
from tailgate.targets import sim
from tailgate.targets.resolve import resolve
from tailgate.upkeep.bench.result import Result

DRIVE = "970evo"
SCHEDULERS = ("none", "k2")
#: The default machine, whose processors have costs, and one without costs.
MACHINES = (machines.DEFAULT, "ideal")
PROCESSES, DEPTH = 3, 32
IOS, RUNS = 1_000_000, 5
LARGEST_OF = "k2/table2"


def load(scheduler: str, machine: str, ios: int) -> Simulation:
    """Three processes read 4 KiB at random places, 96 outstanding in all; `ios` reads, or a few fewer."""
    values, driver = drives.split(drives.values(drives.load(DRIVE)[1], {}))
    _, processors = machines.load(machine)
    processes = [Process(depth=DEPTH, ios_max=ios // PROCESSES, seed=i) for i in range(PROCESSES)]
    return Simulation(
        flows=("readers",),
        processes=tuple(processes),
        drive=values | {"seed": 1},
        device=driver,
        scheduler=scheduler,
        machine=settings.machine_values(processors) | {"cpus": processors.cpus or 1},
        costs={name: p.value for name, p in processors.costs.items()},
    )


def speed(told: Simulation) -> float:
    """Simulated I/Os for each second of CPU time, on one core."""
    begin = time.process_time()
    outcome = simulation.simulate(told)
    return outcome.ios / (time.process_time() - begin)


def largest() -> tuple[str, Simulation]:
    """The experiments' point with the most I/Os: in words, and as a simulation."""
    path = experiments.find(LARGEST_OF)
    its = sim.SimTarget(resolve(path, "full", None, None, "sim"), path, machines.DEFAULT)
    point = max(its.points, key=its.ios)
    return f"{LARGEST_OF}, {point.words}", its.plan.simulation(point)


def memory_mib(told: Simulation) -> float:
    """The peak memory in MiB of a process that ran only this simulation, Python included."""
    with executor.executor(1, None) as pool:
        pool.submit(simulation.simulate, told).result()
        status = pool.submit(Path("/proc/self/status").read_text).result()
    found = re.search(r"^VmHWM:\s*(\d+) kB$", status, re.MULTILINE)
    assert found is not None
    return int(found[1]) / 1024


def measure(console: Console) -> list[Result]:
    """Measure all; print a line for each."""
    out = []
    for machine in MACHINES:
        for scheduler in SCHEDULERS:
            told = load(scheduler, machine, IOS)
            values = [speed(told) for _ in range(RUNS)]
            name = f"sim.iops_per_core.{scheduler}"
            if machine != machines.DEFAULT:
                name += f".{machine}"
            spread = f"{min(values) / 1e6:.2f} to {max(values) / 1e6:.2f} million in {RUNS} runs"
            context = f"machine {machine}, {DRIVE}, 4 KiB random reads, 96 outstanding; median, {spread}"
            out.append(Result(name, round(statistics.median(values)), "I/Os per CPU second", True, context))
    words, told = largest()
    memory = round(memory_mib(told), 1)
    out.append(Result("sim.memory_mib", memory, "MiB", False, f"a process that simulated {words}"))
    for r in out:
        console.print(f"{r.name}: {r.value:,} {r.unit} ({r.context})", highlight=False)
    return out
