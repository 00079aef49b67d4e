# SPDX-License-Identifier: GPL-2.0-only
"""Runs the guests' tests again and again, every second time beside busy loops, and prints the record.

    python -m tests.vm.repeat [--runs N] [--loops N] [--record FILE] [--folder FOLDER] COMMAND...

COMMAND is pytest's. Exit status 1 if a test failed in any run, 2 if pytest could not run. A command that was
interrupted goes on after the last run in the record, which is committed, unless the modules or their tests
have changed since; each run names its commit, as the lab around them may have changed.
The output of each run is kept in the folder, by default build/vm-test-repeat.
"""

import argparse
import contextlib
import hashlib
import json
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.vm.again import FLAKY

from tailgate.upkeep.claims.history import last_commit

ROOT = Path(__file__).parents[2]
#: The modules and their tests.
SOURCES = ("sched", "flash", "kernel", "tests/vm")
#: Ends with us, however we end.
WITH_US = ("setpriv", "--pdeathsig")


class PytestError(Exception):
    """Pytest could not run the tests."""


@dataclass(frozen=True)
class Run:
    """One run of a commit; `bad` names the tests that failed, flaky ones too, `day` is when it ended."""

    number: int
    loops: int
    passed: int
    failed: int
    flaky: int
    seconds: int
    bad: Sequence[str]
    day: str
    commit: str

    def __str__(self) -> str:
        line = (
            f"run {self.number}: {self.loops} busy loops beside, {self.passed} passed, {self.failed} failed, "
            f"{self.flaky} flaky, {self.seconds // 60}:{self.seconds % 60:02}, {self.commit}"
        )
        return "\n".join([line, *(f"    {name}" for name in self.bad)])


@contextlib.contextmanager
def busy_loops(number: int) -> Iterator[None]:
    """Processes that want a CPU all the time; they end with the block, or with this process."""
    loop = [*WITH_US, "KILL", "--", sys.executable, "-c", "while True: pass"]
    with contextlib.ExitStack() as stack:
        for _ in range(number):
            stack.callback(stack.enter_context(subprocess.Popen(loop)).kill)
        yield


def run_once(number: int, loops: int, command: Sequence[str], folder: Path) -> Run:
    """Run the tests; PytestError if that is not possible."""
    report, log = folder / f"run{number}.xml", folder / f"run{number}.log"
    begin = time.monotonic()
    with busy_loops(loops), log.open("w") as out:
        tests = [*WITH_US, "TERM", "--", *command, f"--junitxml={report}"]
        status = subprocess.run(tests, stdout=out, stderr=subprocess.STDOUT, check=False).returncode
    if status not in (0, 1):
        raise PytestError(f"run {number}: pytest ended with {status}, see {log}")
    passed, failed, flaky = read(report)
    if (status == 1) != bool(failed or flaky):
        raise PytestError(f"run {number}: pytest ended with {status}, its report says otherwise: see {log}")
    seconds = round(time.monotonic() - begin)
    day, commit = time.strftime("%Y-%m-%d"), last_commit(".")[:7]
    return Run(number, loops, passed, len(failed), len(flaky), seconds, [*failed, *flaky], day, commit)


def read(report: Path) -> tuple[int, list[str], list[str]]:
    """From pytest's XML: how many tests passed, and which failed and were flaky."""
    passed, failed, flaky = 0, [], []
    for case in ET.parse(report).iter("testcase"):
        wrong = [*case.iter("failure"), *case.iter("error")]
        name = f"{case.get('classname')}::{case.get('name')}"
        if any(FLAKY in (element.text or "") for element in wrong):
            flaky.append(name)
        elif wrong:
            failed.append(name)
        elif case.find("skipped") is None:
            passed += 1
    return passed, failed, flaky


def sources() -> str:
    """Names the state of the sources."""
    digest = hashlib.sha256()
    for folder in SOURCES:
        for file in sorted((ROOT / folder).rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                digest.update(f"{file.relative_to(ROOT)}\0".encode() + file.read_bytes())
    return digest.hexdigest()


def repeat(runs: int, loops: int, command: Sequence[str], record: Path, folder: Path) -> int:
    """Run what is missing of the record, print it, and return the exit status."""
    folder.mkdir(parents=True, exist_ok=True)
    key = [sources(), loops]
    try:
        known = json.loads(record.read_text())
        done = [Run(**run) for run in known["runs"]] if known["key"] == key else []
    except (OSError, ValueError, KeyError, TypeError):
        done = []
    done = done[:runs]
    for run in done:
        print(f"{run} (before)")
    for number in range(len(done) + 1, runs + 1):
        done.append(run_once(number, 0 if number % 2 else loops, command, folder))
        print(done[-1], flush=True)
        record.write_text(json.dumps({"key": key, "runs": [asdict(run) for run in done]}, indent=1) + "\n")
    bad = sum(bool(run.failed or run.flaky) for run in done)
    print(f"{len(done)} runs, {bad} with failures")
    return 1 if bad else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.vm.repeat", description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--loops", type=int, default=4)
    parser.add_argument("--record", type=Path, default=ROOT / "claims" / "repeat.json")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "vm-test-repeat")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    try:
        return repeat(arguments.runs, arguments.loops, arguments.command, arguments.record, arguments.folder)
    except PytestError as e:
        print(e, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
