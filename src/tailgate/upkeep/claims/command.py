# SPDX-License-Identifier: GPL-2.0-only
"""Measures what the README and docs/ promise, and judges it: `tailgate claims`.

Hours, and resumable: experiments go on in their run directories, and each step's outcome is kept in
runs/claims under a hash of all that decides its figures. The bounds in claims/*.toml are applied afterwards.
"""

import datetime
import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from tailgate.base.errors import UsageError, one_of
from tailgate.base.paths import ROOT, replace_text
from tailgate.guest.kernels import cached_kernels
from tailgate.guest.qemu import QEMU
from tailgate.upkeep.claims import age, check, model, results, tables
from tailgate.upkeep.claims.history import last_commit, law_commit
from tailgate.upkeep.claims.lab import KEPT, Lab
from tailgate.upkeep.claims.results import Step
from tailgate.upkeep.claims.steps import OF_RESULTS, bounds, by_topic, probed, search
from tailgate.upkeep.claims.steps import Step as Measure

#: What decides a figure, in the checkout: sources, pages aside, and the versions of what they are built and
#: run with.
SOURCES = ("sched", "flash", "kernel", "sim", "machines", "drives", "experiments", "src", "setup")
FILES = ("Makefile", "requirements.lock", "requirements-dev.lock")
LAWS = (bounds.LAW, probed.LAW, search.LAW)


def sources_key(root: Path = ROOT, laws: Iterable[str] | None = None) -> str:
    """Names what is measured: a hash of the sources, of what runs them, and of the held-out drives."""
    digest = hashlib.sha256()
    folders = [file for folder in SOURCES for file in sorted((root / folder).rglob("*"))]
    for file in (*folders, *(root / name for name in FILES)):
        if file.is_file() and file.suffix != ".md" and "__pycache__" not in file.parts:
            digest.update(str(file.relative_to(root)).encode() + b"\0" + file.read_bytes())
    for commit in map(law_commit, LAWS) if laws is None else laws:
        digest.update(commit.encode())
    for version in _versions():
        digest.update(version.encode())
    return digest.hexdigest()[:12]


def kept(key: str, name: str, folder: Path = tables.TABLES) -> Path:
    """Where a step's outcome is kept: for a table, which measures what its file names, under that file."""
    file = folder / f"{name.removeprefix('table-')}.toml"
    if name.startswith("table-") and file.is_file():
        name += f"-{hashlib.sha256(file.read_bytes()).hexdigest()[:12]}"
    return KEPT / key / f"{name}.json"


def _versions() -> Iterator[str]:
    """The versions of what guests are made of, as far as it is there."""
    for name in (QEMU, "fio"):
        if shutil.which(name):
            yield subprocess.run([name, "--version"], capture_output=True, text=True, check=True).stdout
    yield from sorted(kernel.release for kernel in cached_kernels().values())


def chosen(names: Sequence[str]) -> list[tuple[str, str, Measure]]:
    """Topic, name and step, by names of steps or topics; all if none is given. UsageError for another."""
    topics = by_topic()
    for name in names:
        if name not in topics and not any(name in steps for steps in topics.values()):
            known = [*topics, *(step for steps in topics.values() for step in steps)]
            raise UsageError(f"there is no topic or step {name}; expected {one_of(known)}")
    return [
        (topic, name, step)
        for topic, steps in topics.items()
        for name, step in steps.items()
        if not names or topic in names or name in names
    ]


def measure(names: Sequence[str], fresh: bool) -> None:
    """Measure what is not kept, or all of it if `fresh`; each step's results are written as it ends.

    UsageError as soon as something has changed that decides figures; nothing is kept of that step.
    """
    steps = chosen(names)
    build_simulator()
    key = sources_key()

    def unchanged() -> None:
        if sources_key() != key:
            raise UsageError(
                "sources have changed since this began: start it again; it goes on where it is now"
            )

    lab = Lab(fresh, unchanged)
    for i, (topic, name, step) in enumerate(steps, 1):
        file = kept(key, name)
        if not fresh and file.is_file() and name not in OF_RESULTS:
            store(topic, name, Step.model_validate_json(file.read_text()))
            continue
        print(f"claims: {i} of {len(steps)}: {str(step.__doc__).partition(chr(10))[0]}", file=sys.stderr)
        begun = commit()
        measured = results.step_of(step(lab), begun, datetime.date.today().isoformat())
        unchanged()
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_text(file, measured.model_dump_json())
        store(topic, name, measured)


def build_simulator() -> None:
    """Build it anew if its sources have changed: results are kept under the sources' names."""
    if subprocess.run(["make", "--silent", f"--directory={ROOT}", "sim"], check=False).returncode:
        raise UsageError("the simulator cannot be built: see above")


def store(topic: str, name: str, step: Step) -> None:
    """Put a step's results in the place of its earlier ones; the topic's other steps keep theirs."""
    steps = {**results.read().get(topic, {}), name: step}
    results.write(topic, {n: steps[n] for n in by_topic()[topic] if n in steps})


def commit() -> str:
    """The commit that last changed what decides figures; with `-dirty` if some of it is changed since."""
    paths = " ".join((*SOURCES, *FILES, ":!*.md"))
    command = ["git", "-C", str(ROOT), "status", "--porcelain", "--", *paths.split()]
    changed = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return last_commit(paths)[:7] + ("-dirty" if changed else "")


def judge() -> bool:
    """Print the verdicts of what is stored. Whether all that was measured holds."""
    stored = results.read()
    report = check.check(model.read(), results.by_id(stored), cache(law_commit))
    print("\n".join((*check.lines(report), *age.lines(stored))))
    return not report.misses


def main(names: Sequence[str], fresh: bool = False) -> bool:
    """Measure these steps and topics (none named: all), and judge what is stored. Whether all holds."""
    measure(names, fresh)
    return judge()


def write_tables() -> None:
    """Write the tables in README.md and docs/, and say which ones lack results."""
    for path in tables.write():
        print(f"claims: wrote {path}", file=sys.stderr)
    for name, lacks in tables.missing(results.by_id(results.read())):
        print(f"claims: table {name} is left as it is: {lacks} is not measured", file=sys.stderr)
