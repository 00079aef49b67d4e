# SPDX-License-Identifier: GPL-2.0-only
"""The loads of a probe on the drive model, with any parameters."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace

from tailgate.fitting.probe import Figures, Probed, ProbeLoad, figures
from tailgate.load.loads import Loads
from tailgate.simulator import simulation
from tailgate.spec import drive as drives
from tailgate.spec import experiment as experiments
from tailgate.spec import machines, plan
from tailgate.spec.plan import PlannedPoint
from tailgate.targets.resolve import resolve
from tailgate.targets.sim_point import SimPlan

Parameters = Mapping[str, int]
#: Seed of the simulated drive. It differs from that of every probed drive, or the fit would know its random
#: numbers.
SEED = 101


class Model:
    """The loads of some experiments, simulated on the machine that they name."""

    def __init__(self, names: Sequence[str], pool: Executor) -> None:
        """`pool` runs the simulations; threads suffice, as the simulator releases Python's global lock."""
        self._pool = pool
        self._points: dict[ProbeLoad, tuple[SimPlan, PlannedPoint]] = {}
        for name in names:
            path = experiments.find(name)
            run = resolve(path, "full", None, None, "sim")
            _, drive = drives.load(run.spec.drive)
            _, machine = machines.load(run.spec.machine.simulated)
            its = SimPlan(run, Loads(run, path, drive), drive, machine, simulation.build())
            for chunk in plan.chunks(run):
                [point] = chunk.points
                self._points[ProbeLoad(name, chunk.sweep.label or "")] = (its, point)

    def loads(self, *names: str) -> list[ProbeLoad]:
        """The loads of these experiments; without arguments, of all."""
        return [load for load in self._points if not names or load.experiment in names]

    @property
    def identity(self) -> str:
        """All that decides its figures but the drive's parameters: loads, machine, the simulator's build."""
        return repr([(load, its.simulation(point)) for load, (its, point) in self._points.items()])

    def probe(self, parameters: Parameters, loads: Sequence[ProbeLoad], seed: int = SEED) -> Probed:
        """The figures of a drive with these parameters under these loads. `seed` is the drive's."""
        own = {**drives.split(parameters)[0], "seed": seed}
        told = []
        for load in loads:
            its, point = self._points[load]
            simulated = its.simulation(point)
            told.append(replace(simulated, drive=own | {"dilation": simulated.drive["dilation"]}))
        outcomes = self._pool.map(simulation.simulate, told)
        found: dict[ProbeLoad, Figures] = {}
        for load, outcome in zip(loads, outcomes, strict=True):
            its, point = self._points[load]
            found[load] = figures(its.measurement(point, outcome).flows)
        return found
