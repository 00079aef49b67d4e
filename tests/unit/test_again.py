# SPDX-License-Identifier: GPL-2.0-only
"""A test in virtual machines that failed is run once more, and stays red: pytest runs invented tests."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONFTEST = """
from tests.vm.again import pytest_runtest_protocol, pytest_terminal_summary
"""
TESTS = """
import pytest
from tests.vm.again import AGAIN

runs = []

@pytest.fixture(scope="session")
def shared():
    return object()

def run(request, shared, *passes):
    runs.append(request.node.name)
    time = runs.count(request.node.name)
    assert request.node.stash.get(AGAIN, False) == (time == 2)
    print(f"{request.node.name}, run {time}")
    assert passes[time - 1], "it failed"

@pytest.mark.vm
def test_good(request, shared):
    run(request, shared, True)

@pytest.mark.vm
def test_flaky(request, shared, tmp_path):
    (tmp_path / "new").mkdir()
    run(request, shared, False, True)

@pytest.mark.vm
def test_bad(request, shared):
    run(request, shared, False, False)

def test_elsewhere(request, shared):
    run(request, shared, False)

@pytest.mark.vm
def test_skipped():
    pytest.skip("not here")

@pytest.mark.vm
def test_last(request, shared):
    run(request, shared, False, True)
"""


@pytest.mark.parametrize("workers", [0, 1])
def test_what_failed_is_run_again_and_stays_red(tmp_path: Path, workers: int) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = vm\n")
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "--numprocesses", str(workers), str(tmp_path)]
    path = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    env = {**os.environ, "PYTHONPATH": path, "PYTEST_ADDOPTS": ""}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    said = done.stdout
    assert done.returncode == 1, said
    assert re.search(r"^4 failed, 1 passed, 1 skipped", said, re.MULTILINE), said
    assert sorted(re.findall(r"^FLAKY .*::(\w+)$", said, re.MULTILINE)) == ["test_flaky", "test_last"], said
    parts = re.split(r"^_+ (test_\w+) _+$", said.partition("= PASSES =")[0], flags=re.MULTILINE)
    of = dict(zip(parts[1::2], parts[2::2], strict=True))
    flaky = of["test_flaky"]
    assert flaky.index("flaky: failed, and passed") < flaky.index("it failed") < flaky.index("--- again")
    second = flaky.partition("--- again")[2].partition("Captured stdout")[0]
    assert "test_flaky, run 2" in second
    assert "test_flaky, run 1" not in second
    assert "failed, and failed again" in of["test_bad"]
    assert of["test_bad"].count("AssertionError: it failed") == 2
    assert "test_elsewhere, run 2" not in said
