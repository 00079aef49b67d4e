# SPDX-License-Identifier: GPL-2.0-only
"""What claims measure with: a run in this process, its command, and commands that are timed."""

import json
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.programs import running, wait_for
from tests.unit.test_own_experiment import EXPERIMENT, JOB

from tailgate.base.errors import UsageError
from tailgate.base.paths import ROOT
from tailgate.main import main as tailgate
from tailgate.upkeep.claims import lab
from tailgate.upkeep.claims.lab import Lab, Options, command_line


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """An experiment that is simulated in a moment."""
    (tmp_path / "own.fio").write_text(JOB)
    path = tmp_path / "tiny.toml"
    path.write_text(EXPERIMENT.replace("rt_samples = 400", "rt_samples = 20").replace("[1]", "[1, 2]"))
    return path


def test_a_run_gives_what_its_command_prints(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = Options(mode="quick", target="sim", schedulers=("none", "k2-8"), jobs=1, out=tmp_path / "runs")
    found = Lab().run(str(tiny), **options)
    shown = capsys.readouterr()
    assert not shown.out
    for word in ("2 of 8", "k2-8", "report: "):
        assert word in shown.err, "progress and table"
    assert (found.source.target, found.source.clock, found.source.seeds) == ("sim", "virtual", (1, 2))
    name, *words = shlex.split(found.source.command)
    assert name == "tailgate"
    assert tailgate([*words, "--json"]) == 0
    again = capsys.readouterr()
    assert "measured before" in again.err
    assert list(found.points) == json.loads(again.out)["points"]
    assert [(p["label"], p["sweep"]["background_rate"]) for p in found.points] == [
        (label, rate) for label in ("none", "k2-8") for rate in (0, 1)
    ]


def test_a_fresh_lab_measures_again(tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for fresh in (False, True):
        Lab(fresh).run(str(tiny), mode="quick", target="sim", schedulers=("none",), out=tmp_path / "runs")
    assert "measured again: every digit equals the run before" in capsys.readouterr().err


def test_a_run_that_fails_is_told(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tailgate.targets.measure.Measured.fault", "the guest panicked")
    with pytest.raises(UsageError, match=r"tailgate run .*tiny.toml --quick .* failed: the guest panicked"):
        Lab().run(str(tiny), mode="quick", target="sim", out=tmp_path / "runs")


def test_nothing_is_measured_once_the_sources_have_changed(tiny: Path, tmp_path: Path) -> None:
    """The folder of a run is named by the sources, and this process still has the old ones."""

    def changed() -> None:
        raise UsageError("changed")

    runs = tmp_path / "runs"
    with pytest.raises(UsageError, match="changed"):
        Lab(unchanged=changed).run(str(tiny), mode="quick", target="sim", out=runs)
    assert not runs.exists()


def test_a_command_has_the_options_in_their_order() -> None:
    drive = str(ROOT / "runs/claims/drives/1234567/held-out-1.toml")
    options = Options(loads=("random-read-*k", "4k"), mode="claims", target="sim", drive=drive, jobs=2)
    assert command_line("k2/fig8", options) == (
        f"tailgate run k2/fig8 --loads 'random-read-*k,4k' --claims --target sim --drive {drive} --jobs 2"
    )


PROGRAM = """
import sys
from pathlib import Path
from tailgate.upkeep.claims import lab
lab.TAILGATE = Path(sys.argv[1])
lab.Lab().anew("run", "k2/fig8")
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_command_ends_with_the_claims_that_asked_for_it(tmp_path: Path, number: signal.Signals) -> None:
    command, written = tmp_path / "tailgate", tmp_path / "pid"
    command.write_text(f"#!/bin/sh\necho $$ > {written}.new; mv {written}.new {written}; exec sleep 1000\n")
    command.chmod(0o755)
    with subprocess.Popen([sys.executable, "-c", PROGRAM, command]) as parent:
        try:
            wait_for(written.exists)
        finally:
            parent.send_signal(number)
    pid = written.read_text().strip()
    wait_for(lambda: not running(pid))


@pytest.mark.parametrize(
    ("script", "fails"), [("echo {}; exit 1", True), ("exit 0", True), ("echo {}", False)]
)
def test_a_timed_command_must_answer(
    script: str, fails: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = tmp_path / "tailgate"
    command.write_text(f"#!/bin/sh\n{script}\n")
    command.chmod(0o755)
    monkeypatch.setattr(lab, "TAILGATE", command)
    if fails:
        with pytest.raises(UsageError, match="tailgate run x failed: see what it printed above"):
            Lab().anew("run", "x")
    else:
        assert Lab().anew("run", "x") == {}
