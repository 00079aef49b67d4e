# SPDX-License-Identifier: GPL-2.0-only
"""The fit of a drive file, in a reduced form, and what the drive file of the K2 paper's drive is off by."""

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from tailgate import calibrate, drive
from tailgate.calibrate import ClosedLoop
from tailgate.errors import UsageError


@pytest.fixture(scope="module")
def loop() -> Iterator[ClosedLoop]:
    with ClosedLoop() as compiled:
        yield compiled


@pytest.fixture(scope="module")
def parameters() -> dict[str, int]:
    _, evo = drive.load("970evo")
    return {key: p.value for key, p in evo.parameters.items()}


def test_each_cell_is_one_line_of_the_paper() -> None:
    values = calibrate.published()
    assert set(values) == {cell.title for cell in calibrate.CELLS}
    assert values["none: random read 64 KiB, MiB/s"] == 559
    assert values["none: random read 64 KiB, p99.9"] == 13150
    assert values["Table I: sequential write, sustained"] == pytest.approx(320e6 / 2**20)


def test_only_the_kernel_without_a_scheduler_is_fitted() -> None:
    for cell in calibrate.CELLS:
        assert cell.row["source"] == "Table I" or cell.row["scheduler"] == "none"
    fitted = {cell.title for cell in calibrate.CELLS if cell.group}
    assert not fitted & {loser for loser, _, _ in calibrate.CONTRADICTIONS}
    assert all(winner in fitted for _, winner, _ in calibrate.CONTRADICTIONS)


def test_one_request_at_a_time_takes_what_the_parameters_say(loop: ClosedLoop) -> None:
    times = {"read_ns": 50000, "read_fixed_ns": 10000, "transfer_ns": 100}
    figures = loop.run({"processes": 1, "depth": 1, "kib": 4, "rt": 0, "duration_ms": 100, **times})
    assert figures["iops"] == pytest.approx(1e9 / 60400, rel=0.01)
    figures = loop.run({"processes": 1, "depth": 1, "kib": 4, "rt_samples": 100, **times})
    assert figures["rt.n"] == 100
    assert figures["rt.max"] <= 3 * 60.4


def test_a_rate_is_kept(loop: ClosedLoop) -> None:
    figures = loop.run({"kib": 64, "rate_mib_s": 100, "rt_samples": 500})
    assert figures["mib_s"] == pytest.approx(100, rel=0.02)


def test_same_seed_same_figures(loop: ClosedLoop) -> None:
    load = {"kib": 64, "write_percent": 50, "rt_samples": 200}
    assert loop.run(load) == loop.run(load)
    assert loop.run(load) != loop.run({**load, "seed": 2})


@pytest.mark.parametrize("wrong", [{"no_such_key": 1}, {"dies": 0}, {"kib": 0}, {"read_ns": -1}])
def test_bad_keys_are_refused_in_one_sentence(loop: ClosedLoop, wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError, match=r"^closed_loop: [^\n]+$"):
        loop.run({"rt_samples": 1, **wrong})


def test_the_fit_finds_its_way_back(loop: ClosedLoop, parameters: dict[str, int]) -> None:
    paper, said = calibrate.published(), list[str]()
    start = {**parameters, "read_ns": 70000}
    found = calibrate.fit(loop, start, ["read_ns"], paper, samples=300, evaluations=15, progress=said.append)
    assert found["read_ns"] == pytest.approx(parameters["read_ns"], rel=0.03)
    assert {**found, "read_ns": 0} == {**start, "read_ns": 0}
    assert len(said) == 1
    assert said[0].startswith("read_ns ")


def test_the_drive_file_is_as_near_as_the_documents_say(loop: ClosedLoop, parameters: dict[str, int]) -> None:
    """docs/model.md quotes these bounds; the paper's own figures are off by as much between its tables."""
    found = calibrate.residuals(loop, parameters, calibrate.CELLS, calibrate.published(), samples=4000)
    off = {r.cell.title: abs(math.log(r.ratio)) for r in found if r.cell.group}
    limits = {"read": 0.05, "write": 0.12, "full": 0.06}
    for residual in found:
        if residual.cell.group:
            assert off[residual.cell.title] < limits[residual.cell.group], residual
    keeps_up = [r for r in found if "random write" in r.cell.title and r.cell.title.endswith("MiB/s")]
    assert [round(r.ratio, 2) for r in keeps_up] == [1.0, 1.0]
    text = calibrate.report(found)
    assert "contradiction in the paper: Table I: random read, 4 x 32: 195 k" in text
    assert len(text.splitlines()) == 1 + len(calibrate.CELLS) + 1 + len(calibrate.CONTRADICTIONS)


def test_values_are_put_into_the_file_and_all_else_stays() -> None:
    text = '[parameters.dies]\nvalue = 8\nunit = "dies"\n\n[parameters.read_ns]\nvalue = 1\nfitted = true\n'
    assert calibrate.rewrite(text, {"read_ns": 25}) == text.replace("value = 1\n", "value = 25\n")
    with pytest.raises(UsageError, match="erase_ns"):
        calibrate.rewrite(text, {"erase_ns": 1})


def test_what_cannot_be_fitted_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, _ = drive.load("970evo")
    wrong = path.read_text(encoding="utf-8").replace('unit = "dies"', 'unit = "dies"\nfitted = true')
    (tmp_path / "drive.toml").write_text(wrong, encoding="utf-8")
    assert calibrate.main([str(tmp_path / "drive.toml")]) == 2
    assert "dies is marked as fitted" in capsys.readouterr().err
    assert calibrate.main([str(tmp_path / "none.toml")]) == 2
    assert calibrate.main([str(path), "--samples", "0"]) == 2


def test_check_prints_and_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, _ = drive.load("970evo")
    copy = tmp_path / "970evo.toml"
    copy.write_bytes(path.read_bytes())
    assert calibrate.main([str(copy), "--check", "--samples", "100"]) == 0
    assert "none: random read 64 KiB, p99.9" in capsys.readouterr().out
    assert copy.read_bytes() == path.read_bytes()
