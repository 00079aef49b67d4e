# SPDX-License-Identifier: GPL-2.0-only
"""Shows that a fault is covered: put back in a copy of the checkout, tests fail that otherwise pass."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

from tests.faults.rows import SOURCES, SWARM, Edit
from tests.swarm.faults import WITHIN, compile_swarm, play
from tests.unit.programs import ROOT, mutate

#: Of the checkout's own folder, and anywhere, what no test reads.
LEFT_OUT_OF_ROOT = (".git", ".venv", "build", "runs")
LEFT_OUT = ("__pycache__", ".*_cache", ".hypothesis")
#: How long a guest with a fault awaits a condition, in seconds of the host: shorter than usual.
PATIENCE_S = 100


class BrokenEditError(Exception):
    """With the edit a test could not even begin: it does not compile, or needs something that is missing."""


def left_out(folder: str, names: list[str]) -> set[str]:
    """Those of a folder's names that are not copied, as shutil.copytree() asks for them."""
    of_root = set(LEFT_OUT_OF_ROOT) if Path(folder) == ROOT else set()
    return of_root.intersection(names) | shutil.ignore_patterns(*LEFT_OUT)(folder, names)


@contextmanager
def copy_with(edits: Iterable[Edit]) -> Iterator[Path]:
    """A copy of the checkout with these edits."""
    with tempfile.TemporaryDirectory(prefix="tailgate-fault-") as scratch:
        tree = Path(scratch) / "tree"
        shutil.copytree(ROOT, tree, ignore=left_out)
        put_in(tree, edits)
        yield tree


def put_in(tree: Path, edits: Iterable[Edit]) -> None:
    """Edit the sources of a tree. AssertionError where a text does not stand there exactly once."""
    for old, new in edits:
        mutate(tree, old, new, SOURCES)


def outcomes(tree: Path, tests: Sequence[str], patience_s: int | None = None) -> Mapping[str, str]:
    """What pytest says of each test in a tree: "" where it passed, or a line that says why not.

    BrokenEditError where one could not begin.
    """
    report = tree / "report.xml"
    command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}"]
    patience = {"TAILGATE_PATIENCE_S": str(patience_s)} if patience_s else {}
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), **patience}
    environment.pop("PYTEST_XDIST_WORKER", None)  # or what is built once would be kept between runs
    done = subprocess.run([*command, *tests], cwd=tree, env=environment, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise BrokenEditError(done.stdout + done.stderr)
    found = {}
    for test, case in zip(tests, ElementTree.parse(report).iter("testcase"), strict=True):
        assert test.endswith(f"::{case.get('name')}"), f"{test} has run as {case.get('name')}"
        if (wrong := case.find("error")) is not None or (wrong := case.find("skipped")) is not None:
            raise BrokenEditError(f"{test}: {wrong.get('message')}\n{wrong.text}")
        failed = case.find("failure")
        found[test] = "" if failed is None else reason(failed)
    return found


def reason(failure: ElementTree.Element) -> str:
    """Why a test failed, in a line: what a guest said, or the first line of the exception."""
    said = re.search(r"FAIL: .*|the guest ended in this part: .*|BUG.*", failure.text or "")
    return said[0] if said else (failure.get("message") or "no reason given").splitlines()[0]


def broken_law(tree: Path) -> str:
    """What the swarm test says of a tree: "" where all laws hold, or the law and when it broke."""
    with tempfile.TemporaryDirectory() as scratch:
        found = play(compile_swarm(Path(scratch), tree / "sched"), "k2", 1, WITHIN)
    return f"{found[1]} (scenario {found[0]})" if found else ""


def verdicts(
    tests: Sequence[str], edits: Iterable[Edit] = (), patience_s: int | None = None
) -> Mapping[str, str]:
    """What the tests say of the checkout with these edits: "" for each that passes, or why it fails."""
    with copy_with(edits) as tree:
        own = [test for test in tests if test != SWARM]
        found = dict(outcomes(tree, own, patience_s)) if own else {}
        if SWARM in tests:
            found[SWARM] = broken_law(tree)
    return found
