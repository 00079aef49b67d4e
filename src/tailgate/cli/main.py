# SPDX-License-Identifier: GPL-2.0-only
"""The command `tailgate`."""

import argparse
import importlib
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from tailgate.base.arguments import Parser
from tailgate.base.errors import UsageError
from tailgate.guest import labels
from tailgate.spec import experiment as experiments

OK, FAILED, USAGE = 0, 1, 2
LOG_WIDTH = 120
TARGETS = ("vm", "sim")
INTERRUPTED = 130  # as shells count: 128 + SIGINT

#: Commands that have a module of their own, which reads its own arguments: (module, one line of help).
DELEGATED: Mapping[str, tuple[str, str]] = {
    "doctor": ("tailgate.cli.doctor", "what this machine can do"),
    "vm": ("tailgate.cli.shell", "a shell in a machine with everything loaded, to try things"),
    "bench": (
        "tailgate.upkeep.bench",
        "what the code itself costs: instructions per I/O, CPUs, the simulator, lines",
    ),
    "simulate": ("tailgate.cli.simulate", "one fio job file in the simulator, without an experiment"),
    "calibrate": ("tailgate.upkeep.calibrate", "fit a drive file to published rows"),
    "blktests": ("tailgate.upkeep.blktests.command", "a checkout of blktests judges a scheduler, in guests"),
    "claims": ("tailgate.upkeep.claims", "measure every figure that is promised anywhere"),
}

EXAMPLES = """\
examples:
  tailgate list                          the experiments that are there
  tailgate run k2/fig8 --quick           a minute: three loads, 400 real-time requests each
  tailgate run k2/fig8                   nine loads, 4000 each; stop it and start it again as you like
  tailgate run k2/fig8 --quick --schedulers none,k2-8 --json > points.json
  tailgate run k2/fig8 --target sim      the same in the simulator: seconds
  tailgate run my/experiment.toml        an experiment of your own
  tailgate report RUN RUN                one HTML file of several run directories

exit status: 0 done, 1 a run failed, 2 the command or a file is not right
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit status."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    # What is not a terminal has no width; a log may have long lines.
    console = Console(stderr=True, width=None if sys.stderr.isatty() else LOG_WIDTH)
    try:
        if arguments and arguments[0] in DELEGATED:
            return _delegate(arguments[0], arguments[1:])
        options = _parser().parse_args(arguments)
        if options.command == "list":
            return _list()
        if options.command == "report":
            return _report(options, console)
        return _measure(options, arguments, console)
    except UsageError as e:
        print(f"tailgate: {e}", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        print("tailgate: stopped; the same command goes on where this one ended", file=sys.stderr)
        return INTERRUPTED


def _delegate(command: str, arguments: Sequence[str]) -> int:
    module, _ = DELEGATED[command]
    try:
        loaded = importlib.import_module(module)
    except ModuleNotFoundError as e:
        if e.name != module:
            raise
        raise UsageError(f"{command} is not in this version; `tailgate --help` lists what is") from e
    status: int = loaded.main(arguments)
    return status


def _parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = Parser(
        prog="tailgate",
        description="Measures what I/O schedulers do to the tail of a real-time reader, on a real kernel.",
        epilog=EXAMPLES,
        formatter_class=raw,
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command, (_, line) in DELEGATED.items():
        commands.add_parser(command, help=line, add_help=False)
    commands.add_parser("list", help="the experiments of this checkout")

    run = commands.add_parser(
        "run",
        help="measure an experiment; prints a table, writes a report",
        formatter_class=raw,
        description=textwrap.dedent("""\
            Measure an experiment: a table on standard error, and a run directory with the report.

            A run directory is named by everything that decides its figures. A run that was stopped
            goes on there, one boot being the unit; --fresh measures even what is there."""),
    )
    run.add_argument("experiment", metavar="EXPERIMENT", help="as `tailgate list` prints it, or a .toml file")
    run.add_argument(
        "--target",
        default="vm",
        metavar="TARGET",
        help="where: vm, a virtual machine (default), or sim, the simulator",
    )
    modes = run.add_mutually_exclusive_group()
    for mode, line in (
        ("quick", "few loads, 400 real-time requests a point: enough for a p99"),
        ("full", "all loads, 4000 a point: enough for a p99.9 (default)"),
        ("claims", "full load, 10 000 a point, several seeds"),
    ):
        modes.add_argument(f"--{mode}", dest="mode", action="store_const", const=mode, help=line)
    run.set_defaults(mode="full")
    run.add_argument(
        "--kernel",
        choices=labels.LABELS,
        help="vm: the guest's: the release's own (stable) or its backports' (default); -rt: with PREEMPT_RT",
    )
    run.add_argument("--schedulers", type=_words, metavar="A,B", help="only these labels of the experiment")
    run.add_argument(
        "--loads", type=_words, metavar="A,B", help="only these loads, by label; * stands for any letters"
    )
    run.add_argument("--drive", metavar="NAME", help="one of drives/, instead of the experiment's")
    run.add_argument("--seeds", type=_seeds, metavar="1,2", help="instead of the mode's")
    run.add_argument(
        "--jobs", type=_count, metavar="N", help="boots or simulations side by side (default: one a CPU)"
    )
    run.add_argument(
        "--machine",
        metavar="NAME",
        help="sim: the machine, one of machines/ (default: the experiment's; most have that of the K2 paper)",
    )
    run.add_argument(
        "--dask", metavar="ADDRESS", help="sim: on the workers of this Dask scheduler, tcp://HOST:PORT"
    )
    run.add_argument(
        "--fresh", action="store_true", help="measure again, even what is there; compares the digits"
    )
    run.add_argument("--json", action="store_true", help="the points as one JSON object on standard output")
    run.add_argument(
        "--out", type=Path, metavar="DIR", help="where runs are kept (default: runs in the checkout)"
    )

    again = commands.add_parser(
        "report",
        help="one HTML file with the plots people know",
        description="Make the report of one or several runs again, from their raw files.",
    )
    again.add_argument(
        "runs", nargs="+", type=Path, metavar="RUN", help="a run directory, as `tailgate run` prints it"
    )
    again.add_argument(
        "--out", type=Path, default=Path("report.html"), metavar="FILE", help="default: report.html"
    )
    return parser


def _words(text: str) -> list[str]:
    return [w.strip() for w in text.split(",") if w.strip()]


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got '{text}'")
    return int(text)


def _seeds(text: str) -> tuple[int, ...]:
    try:
        return tuple(dict.fromkeys(_count(w) for w in _words(text)))
    except argparse.ArgumentTypeError as e:
        raise argparse.ArgumentTypeError(f"expected numbers such as 1,2,3, got '{text}'") from e


def _list() -> int:
    for name in experiments.names():
        print(f"{name:12} {experiments.load(experiments.find(name)).title}")
    return OK


def _report(options: argparse.Namespace, console: Console) -> int:
    from tailgate.show import report

    report.write(options.runs, options.out)
    console.print(f"report: {options.out}", highlight=False)
    return OK


def _measure(options: argparse.Namespace, arguments: Sequence[str], console: Console) -> int:
    from tailgate.cli import run  # takes half a second to import

    return run.main(options, arguments, console)
