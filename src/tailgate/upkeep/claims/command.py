# SPDX-License-Identifier: GPL-2.0-only
"""Measures what the README and docs/ promise, and judges it: `tailgate claims`.

Hours, and resumable: experiments go on in their run directories, and each step's outcome is kept in
runs/claims under a hash of all that decides its figures. The bounds in claims/*.toml are applied afterwards.
"""

import datetime
import hashlib
import subprocess
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from tailgate.base.arguments import Parser
from tailgate.base.errors import UsageError, one_of
from tailgate.base.paths import ROOT
from tailgate.upkeep.claims import check, model, results, tables
from tailgate.upkeep.claims.lab import KEPT, Lab, last_commit
from tailgate.upkeep.claims.results import Step
from tailgate.upkeep.claims.steps import STEPS, bounds, by_name, search

#: What decides a figure, in the checkout: sources, and the versions of what they are built and run with.
SOURCES = ("sched", "flash", "kernel", "sim", "machines", "drives", "experiments", "src", "setup")
FILES = ("Makefile", "requirements.lock", "requirements-dev.lock")
LAWS = (bounds.LAW, search.LAW)


def sources_key(root: Path = ROOT, laws: Iterable[str] | None = None) -> str:
    """Names what is measured: a hash of every source that can change a figure, and of the held-out drives."""
    digest = hashlib.sha256()
    folders = [file for folder in SOURCES for file in sorted((root / folder).rglob("*"))]
    for file in (*folders, *(root / name for name in FILES)):
        if file.is_file() and "__pycache__" not in file.parts:
            digest.update(str(file.relative_to(root)).encode() + b"\0" + file.read_bytes())
    for commit in map(last_commit, LAWS) if laws is None else laws:
        digest.update(commit.encode())
    return digest.hexdigest()[:12]


def chosen(names: Sequence[str]) -> list[str]:
    """Steps by their names or topics' names; all if none is given. UsageError for a name of neither."""
    known = by_name()
    if not names:
        return list(known)
    found: dict[str, None] = {}
    for name in names:
        if name in STEPS:
            found |= dict.fromkeys(step.__name__ for step in STEPS[name])
        elif name in known:
            found[name] = None
        else:
            raise UsageError(f"there is no topic or step {name}; expected {one_of([*STEPS, *known])}")
    return list(found)


def measure(names: Sequence[str], fresh: bool, kept: Path) -> None:
    """Measure what is not kept, or all of it if `fresh`; each step's results are written as it ends."""
    kept.mkdir(parents=True, exist_ok=True)
    lab, known = Lab(fresh), by_name()
    for i, name in enumerate(names, 1):
        topic, step = known[name]
        file = kept / f"{name}.json"
        if fresh or not file.is_file():
            print(f"claims: {i} of {len(names)}: {str(step.__doc__).partition(chr(10))[0]}", file=sys.stderr)
            measured = results.step_of(step(lab), commit(), datetime.date.today().isoformat())
            file.write_text(measured.model_dump_json())
        store(topic, name, Step.model_validate_json(file.read_text()))


def store(topic: str, name: str, step: Step, folder: Path | None = None) -> None:
    """Put a step's results in the place of its earlier ones; the topic's other steps keep theirs."""
    folder = folder or results.RESULTS
    stored = results.read(folder).get(topic, {})
    order = [s.__name__ for s in STEPS[topic]]
    steps = {**stored, name: step}
    results.write(topic, {n: steps[n] for n in order if n in steps}, folder)


def commit() -> str:
    """The checkout's commit, with `-dirty` if something in it is changed."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude", "*"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


def judge() -> int:
    """Print the verdicts of what is stored: 0 if all hold, 1 if one does not."""
    stored = results.by_id(results.read())
    report = check.check(model.read(), stored, cache(last_commit))
    print("\n".join(check.lines(report)))
    return 1 if report.misses else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """`tailgate claims [TOPIC or STEP...]`: 0 if all hold, 1 if one does not."""
    parser = Parser(prog="tailgate claims", description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="TOPIC or STEP", help="measure these only")
    parser.add_argument("--check", action="store_true", help="judge the stored results; measure nothing")
    parser.add_argument("--docs", action="store_true", help="write the tables in README.md and docs/")
    parser.add_argument("--fresh", action="store_true", help="measure again what was measured before")
    options = parser.parse_args(arguments)
    if (options.check or options.docs) and (options.names or options.fresh):
        raise UsageError("--check and --docs measure nothing; expected no names and no --fresh beside them")
    if options.docs:
        for path in tables.write():
            print(f"claims: wrote {path}", file=sys.stderr)
        return 0
    if not options.check:
        measure(chosen(options.names), options.fresh, KEPT / sources_key())
    return judge()


if __name__ == "__main__":
    sys.exit(main())
