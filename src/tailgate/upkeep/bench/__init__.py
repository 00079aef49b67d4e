# SPDX-License-Identifier: GPL-2.0-only
"""What the code itself costs: `make bench`, into bench.json.

Four kinds of figures: lines of code, instructions per I/O in a virtual machine, operations a second on many
CPUs, and how fast the simulator is.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from tailgate.base.arguments import Parser
from tailgate.guest.labels import ORDINARY
from tailgate.upkeep.bench import instructions, lines, scale, simulator

KINDS = ("lines", "instructions", "scale", "simulator")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit status. UsageError where something cannot be measured."""
    options = _parser().parse_args(arguments)
    console = Console(stderr=True, width=None if sys.stderr.isatty() else 120)
    kinds = options.only or KINDS
    found = []
    if "lines" in kinds:
        found += lines.measure(console, options.kernel or ORDINARY)
    if "scale" in kinds:
        found += scale.measure(console)
    if "simulator" in kinds:
        found += simulator.measure(console)
    if "instructions" in kinds:
        found += instructions.measure(console, options.kernel or ORDINARY, options.quick, options.since)
    entries = {r.name: asdict(r) for r in found}
    if options.only and options.out.is_file():
        entries = {e["name"]: e for e in json.loads(options.out.read_text())} | entries
    options.out.write_text(json.dumps(list(entries.values()), indent=1) + "\n")
    console.print(f"bench: wrote {options.out}", highlight=False)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="tailgate bench", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--only",
        action="append",
        choices=KINDS,
        help="measure this kind, and leave the others' figures as they are; may be repeated",
    )
    parser.add_argument(
        "--kernel", action="append", choices=ORDINARY, help="for instructions and lines; default: all"
    )
    parser.add_argument("--quick", action="store_true", help="without the shares of k2's features")
    parser.add_argument(
        "--since",
        metavar="COMMIT",
        action="append",
        default=[],
        help="also what k2 takes more than at that commit, built in the same run; may be repeated",
    )
    parser.add_argument("--out", type=Path, default=Path("bench.json"), metavar="FILE")
    return parser
