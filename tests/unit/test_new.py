# SPDX-License-Identifier: GPL-2.0-only
"""`tailgate new experiment`: what is written can be run, and nothing is overwritten."""

import json
from pathlib import Path

import pytest
from tests.unit.refusal import refused

from tailgate import main as cli
from tailgate.load import template
from tailgate.load.traces import TRACE_HEADER
from tailgate.spec import experiment

JOB = """[global]
filename=/dev/vflash0
direct=1
ioengine=libaio
[bulk load]
rw=randrw:4
bs=128k,64k
iodepth=8
[reader]
rw=read
prioclass=1
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_what_is_written_runs_at_once(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["new", "experiment", "mine"]) == 0
    said = capsys.readouterr().out
    assert {path.name for path in here.iterdir()} == {"mine.toml", "mine.fio"}
    assert "SPDX" not in (here / "mine.toml").read_text() + (here / "mine.fio").read_text()
    pytest.importorskip("tailgate_sim", reason="make sim builds it")
    arguments = said.splitlines()[-1].split()
    assert arguments == ["tailgate", "run", "mine.toml", "--target", "sim", "--quick"]
    assert cli.main([*arguments[1:], "--out", "runs", "--json"]) == 0
    points = json.loads(capsys.readouterr().out)["points"]
    rates = (0.0, 0.5, 1.0)
    assert {(p["label"], p["sweep"]["background_rate"]) for p in points} == {
        (label, rate) for label in ("none", "mq-deadline", "k2-8", "k2-auto") for rate in rates
    }
    alone = {p["sweep"]["background_rate"]: p for p in points if p["label"] == "none"}
    [background] = (f for f in alone[1.0]["flows"] if f["flow"] == "background")
    assert background["mib_s"] == pytest.approx(template.FULL_RATE, rel=0.02)


def test_a_comment_stands_above_every_key_of_the_template(here: Path) -> None:
    cli.main(["new", "experiment", "mine"])
    block: list[str] = []
    for line in [*(here / "mine.toml").read_text().splitlines(), ""]:
        if line:
            block.append(line)
        else:
            assert block[0].startswith("#") or block[0] in ("[modes.full]", "[[schedulers]]"), block
            block = []


def test_a_job_file_that_is_there_is_used(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its sections become flows, by their class; what it does is told as far as it is known."""
    job = here / "own.fio"
    job.write_text(JOB)
    assert cli.main(["new", "experiment", "backup", "--from", "own.fio"]) == 0
    assert not (here / "backup.fio").exists()
    assert job.read_text() == JOB
    spec = experiment.load(here / "backup.toml")
    assert spec.job == "own.fio"
    assert {name: (f.section, f.role) for name, f in spec.flows.items()} == {
        "reader": ("reader", "real-time"),
        "bulk-load": ("bulk load", "background"),
    }
    sweep = spec.sweeps[0]
    assert (sweep.access, sweep.op) == ("random", "readwrite")
    assert (sweep.block_size_kib, sweep.rt_block_size_kib) == (128, 4)
    assert "This is a guess" in (here / "backup.toml").read_text()


def test_a_job_file_of_another_folder_is_copied(here: Path) -> None:
    (here / "own.fio").write_text(JOB)
    assert cli.main(["new", "experiment", "backup", "--from", "own.fio", "--out", "sub/folder"]) == 0
    assert (here / "sub/folder/backup.fio").read_text() == JOB
    assert experiment.load(here / "sub/folder/backup.toml").job == "backup.fio"


def test_traces_are_copied_with_the_job_that_replays_them(here: Path) -> None:
    (here / "own.fio").write_text(JOB.replace("rw=read\n", "read_iolog=one.log:two.log\n"))
    for name in ("one.log", "two.log"):
        (here / name).write_text(f"{TRACE_HEADER}\n0 /dev/vflash0 add\n")
    template.write("backup", here / "own.fio", here / "sub")
    assert {p.name for p in (here / "sub").iterdir()} == {"backup.toml", "backup.fio", "one.log", "two.log"}
    assert (here / "sub/two.log").read_text() == (here / "two.log").read_text()
    with refused(f"{here / 'sub/one.log'} is there already"):
        template.write("again", here / "own.fio", here / "sub")
    (here / "one.log").unlink()
    with refused(f"{here / 'own.fio'}:10: read_iolog"):
        template.write("other", here / "own.fio", here / "other")
    assert not (here / "other").exists()


def test_without_a_real_time_flow_points_end_by_time(here: Path) -> None:
    (here / "own.fio").write_text(JOB.replace("prioclass=1\n", ""))
    template.write("own", here / "own.fio", here)
    spec = experiment.load(here / "own.toml")
    assert {flow.role for flow in spec.flows.values()} == {"background"}
    assert all(mode.duration_s and not mode.rt_samples for mode in spec.modes.values())


@pytest.mark.parametrize("there", ["mine.toml", "mine.fio"])
def test_nothing_is_overwritten(here: Path, there: str, capsys: pytest.CaptureFixture[str]) -> None:
    (here / there).write_text("mine")
    assert cli.main(["new", "experiment", "mine"]) == 2
    assert f"{there} is there already: remove it, or choose another name" in capsys.readouterr().err
    assert [path.name for path in here.iterdir()] == [there]
    assert (here / there).read_text() == "mine"


def test_of_a_job_with_real_time_flows_only_all_are_the_load(here: Path) -> None:
    (here / "own.fio").write_text(JOB.replace("[bulk load]\n", "[bulk load]\nprioclass=1\n"))
    template.write("own", here / "own.fio", here)
    spec = experiment.load(here / "own.toml")
    assert {flow.role for flow in spec.flows.values()} == {"background"}


def test_an_option_that_is_not_simulated_is_refused(here: Path) -> None:
    job = here / "own.fio"
    job.write_text("[reader]\nnumber_ios=5\n")
    with refused(f"{job}:2: number_ios must not stand here"):
        template.write("mine", job, here)
    assert [path.name for path in here.iterdir()] == ["own.fio"]


def test_sections_whose_flows_would_have_one_name_are_refused(here: Path) -> None:
    (here / "own.fio").write_text(JOB + "[bulk-load]\nrw=read\n")
    with refused("own.fio:12", "[bulk load] and [bulk-load] would both be called bulk-load"):
        template.write("own", Path("own.fio"), here / "out")
    assert not (here / "out").exists()


def test_more_processors_than_an_experiment_may_have(here: Path) -> None:
    (here / "own.fio").write_text(JOB.replace("iodepth=8", "cpus_allowed=0,96-127"))
    with refused(f"{here / 'own.fio'}: cpus_allowed: expected processors 0 to 63, got 127"):
        template.write("mine", here / "own.fio", here)
