# SPDX-License-Identifier: GPL-2.0-only
"""The costs of the code itself: `make bench`, into bench.json.

Five kinds of figures: lines of code, instructions per I/O in a virtual machine, operations a second on many
CPUs in a model and on this host's threads, and how fast the simulator is.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from tailgate.base.command import log
from tailgate.base.errors import UsageError
from tailgate.base.paths import replace_text
from tailgate.guest.labels import ORDINARY
from tailgate.upkeep.bench import instructions, lines, scale, simulator, threads
from tailgate.upkeep.bench.result import Result


def kinds(
    console: Console, labels: Sequence[str], quick: bool, since: Sequence[str]
) -> Mapping[str, Callable[[], Sequence[Result]]]:
    """The function that measures each kind with these kernels, and prints a line for each figure.

    `quick` leaves out the shares of k2's features; `since` are commits that k2 is compared with.
    """
    return {
        "lines": lambda: lines.measure(console, labels),
        "scale": lambda: scale.measure(console),
        "threads": lambda: threads.measure(console),
        "simulator": lambda: simulator.measure(console),
        "instructions": lambda: instructions.measure(console, labels, quick, since),
    }


def main(only: Sequence[str], labels: Sequence[str], quick: bool, since: Sequence[str], out: Path) -> None:
    """Measure these kinds (without names: all) with these kernels, and write the file after each kind.

    Other figures stay in the file; without names they stay until all kinds are measured. `quick` and `since`
    are those of kinds(). UsageError if something cannot be measured.
    """
    console = log()
    by_kind = kinds(console, labels or ORDINARY, quick, since)
    before = _entries(out)
    measured: dict[str, dict[str, object]] = {}
    for kind in only or by_kind:
        measured |= {r.name: asdict(r) for r in by_kind[kind]()}
        _write(out, before | measured)
    if not only:
        _write(out, measured)  # drops the figures that no measurement gives any more
    console.print(f"bench: wrote {out}", highlight=False)


def _write(out: Path, entries: Mapping[str, object]) -> None:
    replace_text(out, json.dumps(list(entries.values()), indent=1) + "\n")


def _entries(out: Path) -> dict[str, dict[str, object]]:
    """The entries of a file of results, by name; none if there is no file. UsageError."""
    try:
        return {entry["name"]: entry for entry in json.loads(out.read_text())}
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError) as e:
        raise UsageError(f"--out: {out} has no results of bench: choose another file, or delete it") from e
