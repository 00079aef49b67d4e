# SPDX-License-Identifier: GPL-2.0-only
"""Lines of code by part, without comments and blank lines; beside them Linux' own schedulers.

A scheduler is a module kernel/NAME.c over an algorithm sched/NAME.h. The names of folders and files decide
the part of a file, so a new file is counted without further changes:

    kernel/FOLDER/*           code for any scheduler; programs that only the build runs are apart
    kernel/NAME.*, NAME_*     a scheduler's own kernel code
    sched/NAME.*, NAME_*      its algorithm
    sched/models/             not counted: other schedulers, for the simulator
    sched/                    shared, if another scheduler or the shared kernel code includes it; else K2's.
                              A part is a file name without ending, in its folder
    *experiments*             K2's, a part of its own in any folder
    sched/fair/               mqfq's
"""

import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tailgate.base.errors import UsageError
from tailgate.base.paths import ROOT
from tailgate.guest.kernels import block_layer, resolve
from tailgate.upkeep.bench.result import Result

#: Linux' own schedulers, for comparison: files of its folder block/.
LINUX = {"mq-deadline": "mq-deadline.c", "kyber": "kyber-iosched.c"}
#: Owner of parts that several schedulers share.
SHARED = "shared"
MODELS = "models"
EXPERIMENTS = "experiments"
#: Part that sums K2's parts that decide which request is dispatched: order, bounds and pieces.
DECIDES = "sched.decides"
#: K2's other parts of sched/: code that all bindings share, merging, and hooks for tracepoints.
DECIDES_NOT = ("sched.binding", "sched.merge", "sched.observe")
_INCLUDE = re.compile(r'^#include "(.+)"', re.MULTILINE)
#: Folders of sched/ with parts of one scheduler other than K2.
OWN_FOLDERS = {"fair": "mqfq"}

#: Files by owner, which is a scheduler or SHARED, and part.
Parts = Mapping[tuple[str, str], Sequence[Path]]


def count(file: Path) -> int:
    """Lines of a C file that are neither blank nor comment, as the compiler's preprocessor sees them."""
    command = ["gcc", "-fpreprocessed", "-dD", "-E", "-P", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UsageError(f"gcc does not read {file}: {done.stderr.strip() or 'no reason given'}")
    return sum(bool(line.strip()) for line in done.stdout.splitlines())


def parts(root: Path = ROOT) -> Parts:
    """All schedulers' files below sched/ and kernel/, by owner and part."""
    names = {file.stem for file in (root / "sched").glob("*.h")}
    schedulers = {file.stem for file in (root / "kernel").glob("*.c")} & names
    found: dict[tuple[str, str], list[Path]] = {}
    for folder in ("sched", "kernel"):
        for file in sorted((root / folder).rglob("*.[ch]")):
            if place := part_of(file.relative_to(root), schedulers):
                found.setdefault(place, []).append(file)
    others = [file for (owner, _), files in found.items() if owner != "k2" for file in files]
    included = {included for file in others for included in includes(file)}
    return {
        (
            SHARED if owner == "k2" and part.startswith("sched.") and included & set(files) else owner,
            part,
        ): files
        for (owner, part), files in found.items()
    }


def includes(file: Path) -> list[Path]:
    """The files that a C file includes by a relative path."""
    return [(file.parent / name).resolve() for name in _INCLUDE.findall(file.read_text())]


def part_of(file: Path, schedulers: Iterable[str]) -> tuple[str, str] | None:
    """Owner and part of a file, given by its path from the root; None if it belongs to no scheduler."""
    top, *folders = file.parts[:-1]
    owner = next((s for s in schedulers if file.stem == s or file.stem.startswith(f"{s}_")), None)
    if any(EXPERIMENTS in name for name in file.parts):
        return "k2", EXPERIMENTS
    if top == "kernel":
        if not folders:
            return (owner, "kernel") if owner else None
        return SHARED, f"kernel.{folders[0]}" if file.suffix == ".h" else f"kernel.{folders[0]}.{file.stem}"
    if folders and folders[0] == MODELS:
        return None
    owner = OWN_FOLDERS.get(folders[0]) if folders else owner
    if owner and owner != "k2":
        return owner, "sched"
    return "k2", ".".join(["sched", *folders, file.stem])


def sums(counted: Mapping[tuple[str, str], int]) -> dict[tuple[str, str], int]:
    """Lines of each owner: in all, as part ""; of parts in one folder, if there are several; and DECIDES."""
    out: dict[tuple[str, str], int] = {}
    for owner in dict.fromkeys(owner for owner, _ in counted):
        own = {part: lines for (its, part), lines in counted.items() if its == owner}
        total = sum(own.values())
        for top in dict.fromkeys(part.partition(".")[0] for part in own):
            lines = sum(n for part, n in own.items() if part.startswith(f"{top}."))
            if top not in own and lines < total:
                out[owner, top] = lines
        if owner == "k2":
            decides = (n for part, n in own.items() if part.startswith("sched.") and part not in DECIDES_NOT)
            out[owner, DECIDES] = sum(decides)
        out[owner, ""] = total
    return out


def table(root: Path, counted: Mapping[tuple[str, str], int], files: Parts) -> Table:
    """The parts of this checkout by owner, each owner with its sums."""
    out = Table(title="Lines of code, without comments and blank lines", title_justify="left")
    for heading in ("", "part", "files"):
        out.add_column(heading)
    out.add_column("lines", justify="right")
    total = sums(counted)
    for owner in dict.fromkeys(owner for owner, _ in counted):
        for (its, part), lines in counted.items():
            if its == owner:
                out.add_row(owner, part, names(root, files[owner, part]), str(lines))
        for (its, part), lines in total.items():
            if its == owner:
                what = "order, bounds, pieces" if part == DECIDES else "together"
                out.add_row(owner, part, what, str(lines), end_section=not part)
    return out


def names(root: Path, files: Sequence[Path]) -> str:
    """Files in a short form for a reader."""
    folders = dict.fromkeys(file.parent for file in files)
    return "; ".join(
        f"{folder.relative_to(root)}/: {', '.join(file.name for file in files if file.parent == folder)}"
        for folder in folders
    )


def measure(console: Console, labels: Sequence[str], root: Path = ROOT) -> list[Result]:
    """Count all parts here, and Linux' own schedulers in these kernels' sources; print a table."""

    def say(line: str) -> None:
        console.print(line, highlight=False)

    files = parts(root)
    counted = {place: sum(map(count, its)) for place, its in files.items()}
    shown = table(root, counted, files)
    out = [
        Result(f"lines.{owner}.{part}", lines, "lines", False, names(root, files[owner, part]))
        for (owner, part), lines in counted.items()
    ]
    for (owner, part), lines in sums(counted).items():
        out.append(Result(f"lines.{owner}.{part}".rstrip("."), lines, "lines", False, "together"))
    for kernel in resolve(labels, say):
        version, block = block_layer(kernel.label, say)
        for scheduler, name in LINUX.items():
            lines = count(block / name)
            where = f"block/{name} of Debian's source {version}"
            shown.add_row(scheduler, kernel.series, where, str(lines))
            series = kernel.series.replace(".", "_")
            out.append(Result(f"lines.{scheduler}.{series}", lines, "lines", False, where))
    console.print(shown)
    return out
