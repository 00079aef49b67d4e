# SPDX-License-Identifier: GPL-2.0-only
"""Operations a second (insert, dispatch, end) of K2, MQFQ and a model of mq-deadline, by number of CPUs.

MQFQ is also measured with one part replaced by the simple alternative, as in Figures 9 to 11 of its paper.

The CPUs, up to 64, are a model that counts the transfers of cache lines between them; threads.py measures on
threads of the host. sim/scale has the programs, and states what the model leaves out.
"""

import statistics
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tailgate.base.errors import UsageError
from tailgate.base.paths import ROOT
from tailgate.upkeep.bench.result import Result

SCALE = ROOT / "sim/scale"
INCLUDE = ROOT / "sim/include"

#: Requests that each CPU keeps outstanding.
DEPTH = 32
UNBOUNDED = 65535
MODEL_CPUS = (1, 2, 4, 8, 16, 32, 64)
MODEL_US, PAPER_US = 10_000, 5_000


@dataclass(frozen=True)
class Contender:
    """A queue with a bound; deadline has no bound. `t_kib` is MQFQ's T."""

    name: str
    queue: str
    bound: int = UNBOUNDED
    t_kib: int = 512


CONTENDERS = (
    Contender("k2", "k2"),
    Contender("k2_bound8", "k2", 8),
    Contender("deadline", "deadline"),
)
#: D for the fabric drive of the MQFQ paper, and its T of 64 requests (Table 1: 64 KiB; a request here has 4
#: KiB).
D, T_KIB = 128, 256
#: A T of 8 requests: most requests then report their tag to virtual time, and more of them wait for it.
SMALL_T_KIB = 32
#: A T that no flow reaches, so that virtual time is not used.
NO_T_KIB = 1_048_576
MQFQ = Contender("mqfq_d128", "mqfq", D, T_KIB)
#: Figure 8: MQFQ beside no scheduler, itself under one lock, K2, and models of bfq and deadline.
FAIR = (
    Contender("none", "none"),
    MQFQ,
    Contender("mqfq_one_lock", "serial", D, T_KIB),
    Contender("k2_d128", "k2", D),
    Contender("bfq", "bfq"),
    Contender("deadline", "deadline"),
)


def replacing(part: str, alternatives: Sequence[str], t_kib: int, ending: str = "") -> list[Contender]:
    """MQFQ, named after one of its parts, and MQFQ with that part replaced by each alternative."""
    return [Contender(part + ending, "mqfq", D, t_kib)] + [
        Contender(queue + ending, queue, D, t_kib) for queue in alternatives
    ]


#: By figure: a part of MQFQ, and its replacements.
PARTS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "fig9": ("mindicator", ("scan",)),
    "fig10": ("wheel", ("poll_1us", "poll_5us")),
    "fig11": ("tree", ("counter", "bitmap")),
}


def figure(name: str) -> list[Contender]:
    """The contenders of a figure, a key of PARTS. As in the paper, Figure 11 does not use virtual time."""
    part, alternatives = PARTS[name]
    if name == "fig11":
        return replacing(part, alternatives, NO_T_KIB)
    usual = replacing(part, alternatives, T_KIB)
    return usual + replacing(part, alternatives, SMALL_T_KIB, "_small_t")


@dataclass(frozen=True)
class Costs:
    """Costs in the model, in ps. The defaults are those of the figures in bench.json.

    `access`, `atomic` and `clock` are round figures with which one CPU of the model does about as many
    operations as one thread of an AMD EPYC (Zen 4); an uncontended atomic was measured at 2 ns there, a clock
    read at 24 ns. `near` is a transfer between CPUs that share a cache, measured at 16 ns there by
    ping_pong.c; `far` is one between CPUs that do not: up to 79.5 ns on Zen 4, and 15 to 19 ns near
    (AnandTech, "AMD Zen 4 Ryzen 9 7950X and Ryzen 5 7600X Review: Retaking The High-End", Core-to-Core
    Latency). `elsewhere` is a request's cost outside of the scheduler. `interrupt` is the cost for a CPU that
    another CPU, or a timer, asks to run its queue. `drive_ns` is a request's time in the drive; 0: none, so a
    CPU can submit immediately.
    """

    access: int = 200
    atomic: int = 2_000
    clock: int = 20_000
    near: int = 16_000
    far: int = 80_000
    elsewhere: int = 0
    interrupt: int = 0
    drive_ns: int = 0

    @property
    def words(self) -> list[str]:
        """The arguments of the program."""
        costs = (self.access, self.atomic, self.clock, self.near, self.far, self.elsewhere, self.interrupt)
        return [*(str(ps) for ps in costs), str(self.drive_ns)]


#: A request has no cost outside of its scheduler.
FREE = Costs()
#: Costs outside of the scheduler: 16 CPUs without one do 4 million requests a second, as in Figure 8 of
#: "Multi-Queue Fair Queueing" (ATC 2019). A request's time in the drive is that of drives/nvmf.toml, so a D
#: of 128 allows at most 5.3 million a second; interrupts cost as much as in machines/mqfq.toml.
PAPER = Costs(elsewhere=4_000_000, interrupt=1_000_000, drive_ns=24_000)
#: Each figure with those costs is the median of three runs with different costs `elsewhere`: CPUs that all
#: need exactly the same time for a request may by chance fall into step.
LIKE_THE_PAPER = [replace(PAPER, elsewhere=ps) for ps in (3_900_000, 4_000_000, 4_100_000)]

#: A program's output: name -> value.
Figures = Mapping[str, float]


def build(folder: Path, *flags: str, queues: Iterable[str] | None = None) -> None:
    """Compile the programs ping_pong, threads-QUEUE and model-QUEUE into a folder, with additional flags.

    For all queues, or for some.
    """
    common = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Wno-unused-function", *flags, f"-I{INCLUDE}"]
    _compile([*common, "-pthread", str(SCALE / "ping_pong.c"), "-o", str(folder / "ping_pong")])
    everyone = (*CONTENDERS, *FAIR, *(c for name in PARTS for c in figure(name)))
    for queue in sorted({c.queue for c in everyone} if queues is None else queues):
        # Without asserts, as in kernels; other tests check them.
        bound = [*common, "-DNDEBUG", f'-DQUEUE="queue_{queue}.h"']
        sources = [str(SCALE / name) for name in ("cpus.c", "threads.c")]
        _compile([*bound, "-flto", "-pthread", *sources, "-o", str(folder / f"threads-{queue}")])
        watched = folder / f"{queue}.o"
        instrumented = ["-fsanitize=thread", "-Wno-tsan", f"-I{SCALE / 'model'}"]
        _compile([*instrumented, *bound, "-c", str(SCALE / "cpus.c"), "-o", str(watched)])
        _compile([*common, str(SCALE / "model.c"), str(watched), "-o", str(folder / f"model-{queue}")])


def _compile(arguments: Sequence[str]) -> None:
    done = subprocess.run(["cc", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise UsageError(f"sim/scale does not compile: {done.stderr.strip().splitlines()[0]}")


def run(folder: Path, program: str, *arguments: object) -> Figures:
    """The output of a program, lines of name and value. UsageError if it fails."""
    command = [str(folder / program), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        raise UsageError(f"{' '.join(command)}: {done.stderr.strip() or f'exit status {done.returncode}'}")
    return {name: float(value) for name, value in map(str.split, done.stdout.splitlines())}


def model(folder: Path, contender: Contender, cpus: int, costs: Costs = FREE, *, us: int) -> Figures:
    """Operations a second of this many modelled CPUs in `us` of their time; transfers and runs for each
    operation.

    Transfers are of cache lines. A run is a CPU's check of its queue because another CPU, a timer, or the end
    of a request asked for it; it is in vain if no request could be dispatched.
    """
    program = f"model-{contender.queue}"
    return run(folder, program, cpus, DEPTH, contender.bound, contender.t_kib, us, *costs.words)


def measure(console: Console) -> list[Result]:
    """Model all; print a table for each group of contenders."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        build(folder)
        return [
            *_group(folder, console, "scale_model", CONTENDERS, [FREE], MODEL_US),
            *_group(folder, console, "scale_model_whole", FAIR, LIKE_THE_PAPER, PAPER_US),
            *(
                r
                for name in PARTS
                for r in _group(
                    folder, console, f"scale_model_{name}", figure(name), LIKE_THE_PAPER, PAPER_US
                )
            ),
        ]


#: Figures of the model: their names in bench.json, units, and whether higher is better.
OF_MODEL = {
    "operations_per_s": ("", "operations/s", True),
    "transfers_per_operation": (".transfers", "transfers/operation", False),
}
RUNS_OF_QUEUE = {
    "runs_per_operation": (".runs", "runs/operation", False),
    "vain_runs_per_operation": (".vain_runs", "runs/operation", False),
}


def _group(
    folder: Path,
    console: Console,
    prefix: str,
    contenders: Sequence[Contender],
    costs: Sequence[Costs],
    us: int,
) -> list[Result]:
    """Model the contenders for each number of CPUs: medians of the runs with each of these costs."""
    stated = (
        f"{', '.join(f'{c.elsewhere / 1e6:g}' for c in costs)} us a request beside the scheduler, "
        f"{costs[0].interrupt / 1e6:g} us an interrupt, {costs[0].drive_ns / 1000:g} us in the drive, "
        f"{costs[0].near / 1000:g} ns a transfer among 8 CPUs, {costs[0].far / 1000:g} ns beyond"
    )
    table = table_of(f"{prefix}: in the model, million operations a second ({stated})", MODEL_CPUS)
    out = []
    kinds = OF_MODEL | (RUNS_OF_QUEUE if prefix.endswith("fig10") else {})
    for contender in contenders:
        row = []
        for cpus in MODEL_CPUS:
            runs = [model(folder, contender, cpus, c, us=us) for c in costs]
            rates = [f["operations_per_s"] / 1e6 for f in runs]
            row.append(f"{statistics.median(rates):.2f}")
            context = (
                f"model of {cpus} CPUs, {DEPTH} outstanding each, bound {contender.bound}, "
                f"T {contender.t_kib // 4} requests; {stated}; "
                f"{min(rates):.2f} to {max(rates):.2f} million"
            )
            for name, (kind, unit, better) in kinds.items():
                value = round(median(runs, name), 4)
                out.append(
                    Result(f"{prefix}{kind}.{contender.name}.cpus{cpus}", value, unit, better, context)
                )
        table.add_row(contender.name, *row)
    console.print(table)
    return out


def median(runs: Sequence[Figures], name: str) -> float:
    """The median of one figure of several runs."""
    return statistics.median(run[name] for run in runs)


def table_of(title: str, counts: Sequence[int]) -> Table:
    """An empty table with a column for each number of CPUs."""
    table = Table(title=title, title_justify="left")
    table.add_column("CPUs")
    for count in counts:
        table.add_column(str(count), justify="right")
    return table
