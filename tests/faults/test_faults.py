# SPDX-License-Identifier: GPL-2.0-only
"""The table of faults, in a reduced form: each fault can be put back, each test exists, and a few are found.

`make faults` shows all of them.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.faults.rows import ROWS, SOURCES, SWARM, Row
from tests.faults.show import put_in, verdicts
from tests.unit.programs import ROOT

#: Faults that take seconds.
SOON = ("2", "13", "18g")
BY_NUMBER = {row.number: row for row in ROWS}


def test_each_fault_is_shown_or_has_a_reason() -> None:
    assert len(BY_NUMBER) == len(ROWS)
    for row in ROWS:
        assert bool(row.reason) != bool(row.edits and row.tests), row.number


@pytest.mark.parametrize("row", [row for row in ROWS if row.edits], ids=lambda row: row.number)
def test_each_fault_can_be_put_back(row: Row, tmp_path: Path) -> None:
    for name in SOURCES:
        shutil.copytree(ROOT / name, tmp_path / name)
    put_in(tmp_path, row.edits)


def test_each_test_exists() -> None:
    names = {test for row in ROWS for test in row.tests if test != SWARM}
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q"]
    done = subprocess.run(
        [*command, *sorted(names)],
        cwd=ROOT,
        env={**os.environ, "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert names == {line for line in done.stdout.splitlines() if "::" in line}


@pytest.mark.parametrize("number", SOON)
def test_a_fault_is_found(number: str) -> None:
    row = BY_NUMBER[number]
    tests = [test for test in row.tests if test != SWARM]
    assert all(verdicts(tests, row.edits).values())
