# SPDX-License-Identifier: GPL-2.0-only
"""The simulation of a point, and the measurement that is made of its outcome."""

from tailgate.load import fiojob, workload
from tailgate.load.loads import Loads
from tailgate.runs.flow import Flow, with_total
from tailgate.runs.histogram import Histogram, from_ns
from tailgate.runs.measurements import STATE, Conditions, Measurement, status
from tailgate.simulator.settings import check_scheduler, machine_values, queue_settings, weights
from tailgate.simulator.simulation import DIRECTIONS, Latencies, Outcome, Simulation
from tailgate.spec import drive as drives
from tailgate.spec.drive import Drive
from tailgate.spec.machines import SimulatedMachine
from tailgate.spec.plan import Chunk, PlannedPoint, Run


class SimPlan:
    """The simulation of each point of a run."""

    def __init__(self, run: Run, loads: Loads, drive: Drive, machine: SimulatedMachine, build: str) -> None:
        """`build` is the only build of the simulator that may run it."""
        self.run = run
        self.loads = loads
        self.drive = drive
        self.machine = machine
        self.build = build

    def cpus(self, chunk: Chunk) -> int:
        """The number of processors: the variant's, or else the larger of the machine's and the
        experiment's.
        """
        spec = self.run.spec
        if chunk.variant is not None:
            return spec.variants[chunk.variant].machine.smp
        return max(self.machine.cpus or 0, spec.machine.smp)

    def dilation(self, chunk: Chunk) -> int:
        """The factor by which time is dilated for a chunk: 1, unless the simulated machine is a guest."""
        return self.loads.dilation(chunk) if self.machine.dilated else 1

    def conditions(self, chunk: Chunk) -> Conditions:
        """The conditions under which a chunk is simulated."""
        return Conditions(
            smp=self.cpus(chunk), kernel=self.machine.name, mode="sim", dilation=self.dilation(chunk)
        )

    def job(self, point: PlannedPoint) -> fiojob.JobFile:
        """The fio job of one point, equal to the one that fio would run."""
        return self.loads.derive(point.chunk, point.background_rate, self.dilation(point.chunk), mount="")

    def simulation(self, point: PlannedPoint) -> Simulation:
        """The simulation of one point. UsageError for a load that is not modelled."""
        chunk, spec = point.chunk, self.run.spec
        job = self.job(point)
        # The simulator measures the idle share of processors while its first flow runs.
        first = self.loads.first(chunk.sweep).name
        flows = tuple(sorted((s.name for s in job.sections), key=lambda name: name != first))
        variant = {} if chunk.variant is None else spec.variants[chunk.variant].drive
        drive, driver = drives.split(drives.values(self.drive, chunk.sweep.drive | variant))
        drive |= {"seed": chunk.seed, "dilation": self.dilation(chunk)}
        where = f"{self.loads.path}: scheduler {chunk.scheduler.label}"
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

    def measurement(self, point: PlannedPoint, outcome: Outcome) -> Measurement:
        """The measurement of a point, from the outcome of its simulation."""
        spec, chunk = self.run.spec, point.chunk
        conditions = self.conditions(chunk)
        flows = tuple(
            flow
            for name, of_job in spec.flows.items()
            if of_job.section in outcome.flows
            for flow in with_total(_directions(name, of_job.section, outcome, conditions.dilation))
        )
        first = next(iter(spec.real_time(chunk.sweep)), None)
        alone = next((f for f in flows if f.name == first and f.op in DIRECTIONS), None)
        if point.background_rate or alone is None or alone.block is None or not alone.block.n:
            block_us = None
        else:
            block_us = alone.block.mean_us
        settings = self.loads.settings(chunk, conditions.dilation)
        return Measurement(
            point=point,
            conditions=conditions,
            idle=outcome.idle,
            status=status(self.run, point, flows, outcome.idle, conditions.mode),
            flows=flows,
            block_us=block_us,
            settings={name: str(value) for name, value in settings.items()},
            counters={
                "elapsed_ns": outcome.now_ns,
                "ios": outcome.ios,
                "events": outcome.events,
                **{f"drive.{name}": count for name, count in outcome.drive.items()},
                **{f"{STATE}{name}": count for name, count in outcome.state.items()},
            },
        )


def _directions(name: str, section: str, outcome: Outcome, dilation: int) -> list[Flow]:
    """The results of a flow in each direction with at least one I/O."""
    rate = outcome.rate(section)
    return [
        Flow(
            name=name,
            op=op,
            ios=d.ios,
            iops=d.ios * rate * dilation,
            # Rounded to whole bytes a second, as fio does.
            mib_s=round(d.bytes * rate) * dilation / 2**20,
            histogram=histogram(d.latency, dilation),
            delay=histogram(d.scheduler, dilation),
            block=histogram(d.block, dilation),
        )
        for op, d in zip(DIRECTIONS, outcome.flows[section][1], strict=True)
        if d.ios
    ]


def histogram(latencies: Latencies, dilation: int = 1) -> Histogram:
    """The simulator's latencies in undilated microseconds."""
    return from_ns(latencies.values_ns, latencies.counts, latencies.mean_ns, latencies.max_ns, dilation)
