# SPDX-License-Identifier: GPL-2.0-only
"""The record of repeated runs, and that its busy loops end; pytest runs invented tests."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.unit.programs import ROOT, running, wait_for
from tests.vm import repeat

TESTS = """
import os
import time
from pathlib import Path
import pytest

HERE = Path(__file__).parent
PARENT = os.getppid()

@pytest.mark.vm
def test_it():
    beside = len(Path(f"/proc/{PARENT}/task/{PARENT}/children").read_text().split()) - 1
    with (HERE / "seen").open("a") as seen:
        print(beside, file=seen)
    if "hang" in os.environ:
        time.sleep(1000)
    number = len((HERE / "seen").read_text().split())
    assert number != 3, "the first time only"
    assert not (HERE / "bad").exists()

@pytest.mark.vm
def test_skipped():
    pytest.skip("not here")

@pytest.mark.vm
def test_good():
    pass
"""


def write_tests(folder: Path) -> None:
    (folder / "conftest.py").write_text("from tests.vm.again import pytest_runtest_protocol\n")
    (folder / "test_it.py").write_text(TESTS)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = vm\n")


def command(folder: Path, runs: int) -> list[str]:
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", str(folder)]
    out = folder / "out"
    options = ["--runs", str(runs), "--loops", "2", "--record", f"{out}.json", "--folder", str(out)]
    return [sys.executable, "-m", "tests.vm.repeat", *options, *pytest]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), **more}


def record(folder: Path, runs: int) -> tuple[int, Sequence[str]]:
    """The exit status, and the lines without the time and the commit."""
    done = subprocess.run(
        command(folder, runs), cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True, check=False
    )
    return done.returncode, [line.rsplit(", ", 2)[0] for line in done.stdout.splitlines()[:-1] if ":" in line]


def test_record(tmp_path: Path) -> None:
    """The first run that fails is the third, in which one test fails at first and passes then."""
    write_tests(tmp_path)
    first = ["run 1: 0 busy loops beside, 2 passed, 0 failed, 0 flaky"]
    first += ["run 2: 2 busy loops beside, 2 passed, 0 failed, 0 flaky"]
    assert record(tmp_path, 2) == (0, first)
    third = "run 3: 0 busy loops beside, 1 passed, 0 failed, 1 flaky"
    status, lines = record(tmp_path, 3)
    assert status == 1
    assert [line for line in lines if line.startswith("run")] == [*first, third]
    assert (tmp_path / "seen").read_text().split() == ["0", "2", "0", "0"]  # what had run did not run again
    (tmp_path / "bad").touch()
    status, lines = record(tmp_path, 4)
    assert status == 1
    assert "run 4: 2 busy loops beside, 1 passed, 1 failed, 0 flaky" in lines
    # Other modules, or other tests of them: what ran before does not count.
    out = tmp_path / "out.json"
    out.write_text(out.read_text().replace(repeat.sources(), "another"))
    (tmp_path / "bad").unlink()
    assert record(tmp_path, 1)[0] == 0
    assert len(json.loads(out.read_text())["runs"]) == 1


def test_what_cannot_run_is_no_run(tmp_path: Path) -> None:
    write_tests(tmp_path)
    (tmp_path / "conftest.py").write_text("raise RuntimeError\n")
    assert record(tmp_path, 2) == (2, [])
    assert not (tmp_path / "out.json").exists()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_loops_end_with_a_command_that_is_killed(tmp_path: Path, number: signal.Signals) -> None:
    write_tests(tmp_path)
    (tmp_path / "seen").touch()
    assert record(tmp_path, 1)[0] == 0  # the next run is one with loops
    with subprocess.Popen(command(tmp_path, 2), cwd=ROOT, env=environment(hang="1")) as parent:
        try:
            wait_for(lambda: len((tmp_path / "seen").read_text().split()) == 2)
            children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
            assert len(children) == 3
        finally:
            parent.send_signal(number)
    wait_for(lambda: not any(running(pid) for pid in children))
