# SPDX-License-Identifier: GPL-2.0-only
"""Knobs that move while the load changes, beside settings that stay."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

from tailgate.base.paths import ROOT
from tailgate.simulator import job
from tailgate.simulator.executor import executor
from tailgate.simulator.simulation import Outcome, simulate
from tailgate.spec.scheduler import Knob
from tailgate.upkeep.claims.lab import Lab
from tailgate.upkeep.claims.quantity import exact
from tailgate.upkeep.claims.results import Figure, Source
from tailgate.watch import command, meter
from tailgate.watch.way import WAYS

JOB = ROOT / "experiments/watch/phases.fio"
DRIVE, MACHINE, CPUS = "980pro", "kyber", 2
QUEUE = {"nomerges": 2, "nr_requests": 1023}
PHASES, PHASE_S = ("one", "two", "three", "four"), 8
SEEDS = (1, 2, 3)
#: Limits of the mean latency of reads, in us.
LIMITS = (600, 900)
#: A mean keeps a limit that it is above by no more than this.
TOLERANCE = 1.05
CORES = 2

Knobs = Mapping[str, Knob]
#: Of each phase, by name: the mean latency of its reads in us, and the rate of its writes in MiB/s.
Phases = Mapping[str, tuple[float, float]]

BOUNDS = (1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 28, 32, 40, 48, 64, 256)
READ_TARGETS_NS = (50_000, 1_000_000, 1_500_000, 2_000_000, 3_000_000, 5_000_000, 100_000_000)
WRITE_TARGETS_NS = (2_000_000, 10_000_000, 20_000_000, 50_000_000, 100_000_000)
#: Bounds of K2 on writes not yet programmed, each beside bounds on requests that are not small.
DEBTS_KIB, DEBT_BOUNDS = (32, 128, 512, 2048), (32, 64, 256)


@dataclass(frozen=True)
class Case:
    """A scheduler, the class of the reads, what is always set, and the settings that stay."""

    scheduler: str
    reads: str
    always: Knobs
    fixed: Sequence[Knobs]


BY_PROCESS = {"flow_by": "process"}
CASES: Mapping[str, Case] = {
    "kyber": Case(
        "kyber",
        "best effort",
        {},
        [{"read_lat_nsec": r, "write_lat_nsec": w} for r in READ_TARGETS_NS for w in WRITE_TARGETS_NS],
    ),
    "k2": Case(
        "k2",
        "real time",
        {},
        [
            *({"inflight_max": n} for n in BOUNDS),
            *({"inflight_max": n, "write_debt_kib_max": k} for n in DEBT_BOUNDS for k in DEBTS_KIB),
        ],
    ),
    # t_kib and flow_by change no figure here: real-time reads go first, and one process writes.
    "mqfq": Case("mqfq", "real time", {}, [{"d": d} for d in BOUNDS]),
    "mqfq-fair": Case(
        "mqfq",
        "best effort",
        BY_PROCESS,
        [BY_PROCESS | {"d": d, "t_kib": t} for d in BOUNDS for t in (4, 64, 1024)],
    ),
}
CLASSES = {"real time": "1", "best effort": "2"}
#: K2's own control in the kernel, of p99 of the real-time requests.
TARGETS: Mapping[str, Knobs] = {
    "rt-target-auto": {"rt_target_us": "auto"},
    "rt-target-800": {"rt_target_us": 800},
    "rt-target-3200": {"rt_target_us": 3200},
}


def measured(case: Case, knobs: Knobs, seed: int, limit_us: int | None) -> Phases:
    """One simulation; with a limit the knobs move from where they are."""
    choices = job.Choices(
        drive=DRIVE,
        variables={"CLASS": CLASSES[case.reads]},
        scheduler=case.scheduler,
        knobs=knobs,
        queue=QUEUE,
        machine=MACHINE,
        cpus=CPUS,
        seed=seed,
    )
    told = job.simulation_of(JOB, choices)
    if limit_us is None:
        return phases(simulate(told))
    return phases(command.rehearse(told, meter.Keep("read", limit_us), WAYS[case.scheduler])[0])


def phases(outcome: Outcome) -> Phases:
    """The figures of each phase."""
    found = {}
    for name in PHASES:
        reads = outcome.flows[f"{name}-read"][1][0].latency
        written = outcome.flows[f"{name}-write"][1][1].bytes
        found[name] = reads.mean_ns / 1000, written / PHASE_S / 2**20
    return found


def kept(one: Phases, limit_us: int) -> dict[str, float]:
    """The rate of writes of each phase, 0 where the limit was not kept."""
    return {name: rate if us <= TOLERANCE * limit_us else 0.0 for name, (us, rate) in one.items()}


def watch_phases(lab: Lab) -> Iterator[Figure]:
    """Four loads after each other, the knobs of each scheduler moving, beside many that stay; three seeds."""
    del lab
    source = Source("tailgate claims watch_phases", "sim", "virtual", SEEDS)
    with executor(CORES, None) as pool:
        for label, case in CASES.items():
            fixed = [_all_seeds(pool, case, knobs, None) for knobs in case.fixed]
            for limit in LIMITS:
                start = f"watch/sim/{label}/{limit}"
                moving = _all_seeds(pool, case, case.always, limit)
                shares, wholes, over, singles = [], [], [], []
                for number in range(len(SEEDS)):
                    rates = [kept(one[number], limit) for one in fixed]
                    best = {name: max(one[name] for one in rates) for name in PHASES}
                    mine = kept(moving[number], limit)
                    within = [name for name in PHASES if best[name]]
                    shares.append(min(mine[name] / best[name] for name in within))
                    single = max(sum(one.values()) for one in rates)
                    wholes.append(sum(mine.values()) / single)
                    singles.append(single / sum(best.values()))
                    over.append(max(moving[number][name][0] / limit for name in within))
                yield Figure(f"{start}/least-over-best-of-a-phase", exact(min(shares)), source)
                yield Figure(f"{start}/over-best-of-all-phases", exact(min(wholes)), source)
                yield Figure(f"{start}/one-setting-over-best-of-each-phase", exact(min(singles)), source)
                yield Figure(f"{start}/mean-over-limit", exact(max(over)), source)
                yield from _figures(start, moving[0], source)
        for label, knobs in TARGETS.items():
            yield from _figures(
                f"watch/sim/k2/{label}", _all_seeds(pool, CASES["k2"], knobs, None)[0], source
            )


def _all_seeds(pool: Executor, case: Case, knobs: Knobs, limit_us: int | None) -> list[Phases]:
    return [f.result() for f in [pool.submit(measured, case, knobs, seed, limit_us) for seed in SEEDS]]


def _figures(start: str, one: Phases, source: Source) -> Iterator[Figure]:
    for name, (us, rate) in one.items():
        yield Figure(f"{start}/{name}/read-us", exact(us), source)
        yield Figure(f"{start}/{name}/write-mib-s", exact(rate), source)


STEPS = (watch_phases,)
