# SPDX-License-Identifier: GPL-2.0-only
"""What the code itself costs: `make bench`, into bench.json.

Five kinds of figures: lines of code, instructions per I/O in a virtual machine, operations a second on many
CPUs in a model and on this host's threads, and how fast the simulator is.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from tailgate.base.command import log
from tailgate.guest.labels import ORDINARY
from tailgate.upkeep.bench import instructions, lines, scale, simulator, threads


def main(only: Sequence[str], labels: Sequence[str], quick: bool, since: Sequence[str], out: Path) -> None:
    """Measure these kinds (none named: all) with these kernels, and write the file.

    `quick` leaves out the shares of k2's features; `since` are commits that k2 is compared with. UsageError
    where something cannot be measured.
    """
    console = log()
    labels = labels or ORDINARY
    found = []
    if not only or "lines" in only:
        found += lines.measure(console, labels)
    if not only or "scale" in only:
        found += scale.measure(console)
    if not only or "threads" in only:
        found += threads.measure(console)
    if not only or "simulator" in only:
        found += simulator.measure(console)
    if not only or "instructions" in only:
        found += instructions.measure(console, labels, quick, since)
    entries = {r.name: asdict(r) for r in found}
    if only and out.is_file():
        entries = {e["name"]: e for e in json.loads(out.read_text())} | entries
    out.write_text(json.dumps(list(entries.values()), indent=1) + "\n")
    console.print(f"bench: wrote {out}", highlight=False)
