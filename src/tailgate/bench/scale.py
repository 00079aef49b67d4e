# SPDX-License-Identifier: GPL-2.0-only
"""Operations a second (insert, dispatch, end) of K2, MQFQ and a model of mq-deadline, by number of CPUs.

Twice: on threads of this host, as many as it has CPUs, and in a model of up to 64 CPUs that counts the
transfers of cache lines between them. sim/scale has the programs, and says what the model leaves out.
"""

import os
import statistics
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tailgate.bench.result import Result
from tailgate.errors import UsageError
from tailgate.experiment import ROOT

SCALE = ROOT / "sim/scale"
INCLUDE = ROOT / "sim/include"

#: Requests that each CPU keeps outstanding.
DEPTH = 32
UNBOUNDED = 65535
RUNS, RUN_MS = 9, 200
MODEL_CPUS = (1, 2, 4, 8, 16, 32, 64)
MODEL_US = 10_000


@dataclass(frozen=True)
class Contender:
    """A queue with a bound; deadline has none."""

    name: str
    queue: str
    bound: int = UNBOUNDED


CONTENDERS = (
    Contender("k2", "k2"),
    Contender("k2_bound8", "k2", 8),
    Contender("deadline", "deadline"),
)
#: MQFQ beside no scheduler, and beside itself under one lock, with D as in its paper.
FAIR = (
    Contender("none", "none"),
    Contender("mqfq_d128", "mqfq", 128),
    Contender("mqfq_one_lock", "serial", 128),
    Contender("deadline", "deadline"),
)


@dataclass(frozen=True)
class Costs:
    """What the model's CPUs pay, in ps. The defaults are those of the figures in bench.json.

    `access`, `atomic` and `clock` are round figures by which one CPU of the model does about what one thread
    of an AMD EPYC (Zen 4) does; an uncontended atomic was measured at 2 ns there, a clock read at 24 ns.
    `near` is a transfer between CPUs that share a cache, measured at 16 ns there by ping_pong.c; `far` is one
    between CPUs that do not: up to 79.5 ns on Zen 4, and 15 to 19 ns near (AnandTech, "AMD Zen 4 Ryzen 9
    7950X and Ryzen 5 7600X Review: Retaking The High-End", Core-to-Core Latency). `elsewhere` is what a
    request costs beside its scheduler.
    """

    access: int = 200
    atomic: int = 2_000
    clock: int = 20_000
    near: int = 16_000
    far: int = 80_000
    elsewhere: int = 0

    @property
    def words(self) -> list[str]:
        """As the program takes them."""
        costs = (self.access, self.atomic, self.clock, self.near, self.far, self.elsewhere)
        return [str(ps) for ps in costs]


#: A request costs so much beside its scheduler that 16 CPUs without one do 4 million a second, as in Figure 8
#: of "Multi-Queue Fair Queueing" (ATC 2019).
PAPER = Costs(elsewhere=4_000_000)

#: What it prints: name -> value.
Figures = Mapping[str, float]


def build(folder: Path, *flags: str) -> None:
    """Compile the programs ping_pong, threads-QUEUE and model-QUEUE into a folder, with these flags too."""
    common = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Wno-unused-function", *flags, f"-I{INCLUDE}"]
    _compile([*common, "-pthread", str(SCALE / "ping_pong.c"), "-o", str(folder / "ping_pong")])
    for queue in sorted({c.queue for c in (*CONTENDERS, *FAIR)}):
        # What asserts are there for is tested elsewhere: kernels have none.
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
    """What a program prints: lines of name and value. UsageError if it fails."""
    command = [str(folder / program), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        raise UsageError(f"{' '.join(command)}: {done.stderr.strip() or f'exit status {done.returncode}'}")
    return {name: float(value) for name, value in map(str.split, done.stdout.splitlines())}


def threads(folder: Path, contender: Contender, count: int, ms: int) -> Figures:
    """`operations_per_s` of so many threads, and their `cpu_share`. UsageError if a request is lost."""
    return run(folder, f"threads-{contender.queue}", count, DEPTH, contender.bound, ms)


def model(folder: Path, contender: Contender, cpus: int, costs: Costs = Costs(), *, us: int) -> Figures:
    """`operations_per_s` and `transfers_per_operation` of so many CPUs, after `us` of their time."""
    program = f"model-{contender.queue}"
    return run(folder, program, cpus, DEPTH, contender.bound, us, *costs.words)


def measure(console: Console) -> list[Result]:
    """Measure and model all; print a table."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        build(folder)
        none = " and nothing else costs anything"
        whole = f" and all else {PAPER.elsewhere / 1e6:g} us a request"
        return [
            *_on_threads(folder, console),
            *_in_the_model(folder, console, CONTENDERS, "scale_model", Costs(), none),
            *_in_the_model(folder, console, FAIR, "scale_model_whole", PAPER, whole),
        ]


def _on_threads(folder: Path, console: Console) -> list[Result]:
    counts = range(1, max(2, len(os.sched_getaffinity(0))) + 1)
    # One after the other in turns: what disturbs the host disturbs all alike.
    runs: dict[tuple[str, int], list[Figures]] = {}
    for _ in range(RUNS):
        for contender in CONTENDERS:
            for count in counts:
                runs.setdefault((contender.name, count), []).append(threads(folder, contender, count, RUN_MS))
    table = _table("On threads of this host, million operations a second", counts)
    for contender in CONTENDERS:
        medians = [_median(runs[contender.name, count], "operations_per_s") for count in counts]
        table.add_row(contender.name, *(f"{m / 1e6:.2f}" for m in medians))
    console.print(table)
    out = []
    for (name, count), figures in runs.items():
        rates = [f["operations_per_s"] / 1e6 for f in figures]
        context = f"{count} threads, {DEPTH} outstanding each, null drive; they had "
        context += (
            f"{_median(figures, 'cpu_share'):.0%} of their CPUs; median of {RUNS} runs of {RUN_MS} ms, "
        )
        context += f"{min(rates):.2f} to {max(rates):.2f} million"
        value = round(_median(figures, "operations_per_s"))
        out.append(Result(f"scale.{name}.threads{count}", value, "operations/s", True, context))
    if len(os.sched_getaffinity(0)) > 1:
        ns = run(folder, "ping_pong")["transfer_ns"]
        context = (
            "a cache line between two CPUs of this host: half a turn, median of 1001 series of 1000 turns"
        )
        out.append(Result("scale.transfer_ns", ns, "ns", False, context))
    return out


def _median(runs: Sequence[Figures], figure: str) -> float:
    return statistics.median(run[figure] for run in runs)


def _in_the_model(
    folder: Path,
    console: Console,
    contenders: Sequence[Contender],
    prefix: str,
    costs: Costs,
    beside: str,
) -> list[Result]:
    stated = (
        f"a transfer takes {costs.near / 1000:g} ns among 8 CPUs, {costs.far / 1000:g} ns beyond,{beside}"
    )
    table = _table(f"In the model, million operations a second ({stated})", MODEL_CPUS)
    out = []
    for contender in contenders:
        row = []
        for cpus in MODEL_CPUS:
            figures = model(folder, contender, cpus, costs, us=MODEL_US)
            row.append(f"{figures['operations_per_s'] / 1e6:.2f}")
            context = f"model of {cpus} CPUs, {DEPTH} outstanding each, null drive; {stated}"
            for figure, unit, better in (
                ("operations_per_s", "operations/s", True),
                ("transfers_per_operation", "transfers/operation", False),
            ):
                kind = prefix if better else f"{prefix}.transfers"
                name = f"{kind}.{contender.name}.cpus{cpus}"
                out.append(Result(name, figures[figure], unit, better, context))
        table.add_row(contender.name, *row)
    console.print(table)
    return out


def _table(title: str, counts: Sequence[int]) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("CPUs")
    for count in counts:
        table.add_column(str(count), justify="right")
    return table
