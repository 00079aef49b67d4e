# SPDX-License-Identifier: GPL-2.0-only
"""Random knobs, loads, drives, faults and freezes against each scheduler's laws; and faults to be found.

A failure prints the seed, the law, and the shortest scenario found; `swarm SCHEDULER -` plays it again.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.swarm.faults import FAULTS, Fault, compile_swarm, find, with_fault
from tests.swarm.found import FOUND, Found
from tests.unit.programs import ROOT, SANITIZED, SEED, built_once, mutate

SCENARIOS = 2000
#: Least mean number of requests in a scenario: with very few requests, every law holds.
REQUESTS = 1000
#: Number of scenarios under sanitizers, which take ten times as long.
SANITIZED_SCENARIOS = 150
#: Number of scenarios for the faults that are found soon; `make swarm-faults` looks for all faults.
FOUND_WITHIN = 2000
SOON = [(scheduler, fault) for scheduler, faults in FAULTS.items() for fault in faults if fault.found_soon]


SCHEDULERS = pytest.mark.parametrize("scheduler", FAULTS)


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def build(folder: Path) -> None:
        compile_swarm(folder, flags=("-Werror", *SANITIZED))

    return built_once(tmp_path_factory, "swarm-sanitized", build) / "swarm"


@pytest.fixture(scope="module")
def swarm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def build(folder: Path) -> None:
        compile_swarm(folder, flags=("-Werror",))

    return built_once(tmp_path_factory, "swarm", build) / "swarm"


def play(program: Path, *arguments: str, scenario: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *arguments], input=scenario, capture_output=True, text=True, check=False)


@SCHEDULERS
def test_laws_hold(swarm: Path, scheduler: str) -> None:
    done = play(swarm, scheduler, str(SEED), str(SCENARIOS))
    assert done.returncode == 0, done.stdout
    said = re.search(r"(\d+) requests: every law held", done.stdout)
    assert said
    assert int(said[1]) > REQUESTS * SCENARIOS


@SCHEDULERS
def test_laws_hold_under_sanitizers(sanitized: Path, scheduler: str) -> None:
    done = play(sanitized, scheduler, str(SEED), str(SANITIZED_SCENARIOS))
    assert done.returncode == 0, f"TAILGATE_SEED={SEED}: {done.stdout}{done.stderr}"


@SCHEDULERS
def test_a_seed_means_the_same_each_time(swarm: Path, scheduler: str) -> None:
    first, second = (play(swarm, scheduler, str(SEED), "20").stdout for _ in range(2))
    assert first == second
    assert "requests: every law held" in first


@pytest.mark.parametrize(("scheduler", "fault"), SOON, ids=[fault.what for _, fault in SOON])
def test_faults_are_found(swarm: Path, scheduler: str, fault: Fault) -> None:
    assert find(scheduler, fault, 1, FOUND_WITHIN, swarm.parent)


def test_each_fault_can_be_put_back(tmp_path: Path) -> None:
    """`make swarm-faults` looks for all of these, which takes hours."""
    for number, fault in enumerate(fault for faults in FAULTS.values() for fault in faults):
        shutil.copytree(ROOT / "sched", tmp_path / str(number))
        mutate(tmp_path / str(number), fault.old, fault.new)


@pytest.mark.parametrize("found", FOUND, ids=[found.what for found in FOUND])
def test_what_once_broke_a_law_does_not_any_more(swarm: Path, tmp_path: Path, found: Found) -> None:
    assert play(swarm, found.scheduler, "-", scenario=found.scenario).stdout == "every law held\n"
    fault = Fault(found.what, found.old, found.new)
    broken = with_fault(found.scheduler, fault, tmp_path, swarm.parent)
    assert play(broken, found.scheduler, "-", scenario=found.scenario).returncode == 1


def test_what_is_printed_can_be_played(swarm: Path, tmp_path: Path) -> None:
    scheduler, fault = SOON[0]
    program = with_fault(scheduler, fault, tmp_path, swarm.parent)
    done = play(program, scheduler, "1", "20000")
    assert done.returncode == 1
    law, _, scenario = done.stdout.partition("as short as it was found:\n")[2].partition("\n")
    again = play(program, scheduler, "-", scenario=scenario)
    assert (again.returncode, again.stdout.strip()) == (1, law)


@pytest.mark.parametrize("text", ["task level=1 depht=2\n", "nonsense\n", "knob knob=none value=1\n"])
def test_what_is_not_a_scenario_is_refused(swarm: Path, text: str) -> None:
    done = play(swarm, "k2", "-", scenario=text)
    assert done.returncode == 2
    assert done.stderr.startswith("swarm: not understood: ")
