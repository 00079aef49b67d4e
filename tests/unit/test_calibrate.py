# SPDX-License-Identifier: GPL-2.0-only
"""The fit of a drive file, in a reduced form, and what the drive file of the K2 paper's drive is off by."""

import math
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tailgate.base.errors import UsageError
from tailgate.base.paths import DRIVES
from tailgate.main import main
from tailgate.papers.facts import Facts
from tailgate.papers.published import FACTS
from tailgate.spec import drive, drive_file
from tailgate.upkeep import calibrate
from tailgate.upkeep.calibrate import ClosedLoop
from tailgate.upkeep.claims import model
from tailgate.upkeep.claims.steps import simulator

EVO, FORESEE = FACTS["970evo"], FACTS["foresee-emmc"]


@pytest.fixture(scope="module")
def loop() -> Iterator[ClosedLoop]:
    with ClosedLoop() as compiled:
        yield compiled


@pytest.fixture(scope="module")
def parameters() -> dict[str, int]:
    return values_of("970evo")


def values_of(name: str) -> dict[str, int]:
    return {key: p.value for key, p in drive.load(name)[1].parameters.items()}


@pytest.mark.parametrize("facts", FACTS.values(), ids=FACTS)
def test_each_cell_is_one_line_of_the_paper(facts: Facts) -> None:
    values = facts.published()
    assert len(values) == len(facts.cells)
    assert set(values) == {cell.title for cell in facts.cells}
    fitted = {cell.title for cell in facts.cells if cell.group}
    for loser, winner, _ in facts.contradictions:
        assert loser in values
        assert loser not in fitted
        assert winner in values


def test_figures_are_the_papers() -> None:
    values = EVO.published()
    assert values["none: random read 64 KiB, MiB/s"] == 559
    assert values["none: random read 64 KiB, p99.9"] == 13150
    assert values["Table I: sequential write, sustained"] == pytest.approx(320e6 / 2**20)
    assert FORESEE.published()["Table 3: random read, 4 and 512 KiB, MiB/s"] == 81.02


def test_only_the_kernel_without_a_scheduler_is_fitted() -> None:
    for cell in EVO.cells:
        assert cell.row["source"] == "Table I" or cell.row["scheduler"] == "none"


def test_only_lone_commands_are_fitted_on_the_card() -> None:
    for cell in FORESEE.cells:
        assert cell.load["processes"] * cell.load["depth"] == 1
        assert not cell.group or cell.load["rt_kib"] == 4


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
    said = list[str]()
    start = {**parameters, "read_ns": 70000}
    found = calibrate.fit(loop, start, ["read_ns"], EVO, samples=300, evaluations=15, progress=said.append)
    assert found["read_ns"] == pytest.approx(parameters["read_ns"], rel=0.03)
    assert {**found, "read_ns": 0} == {**start, "read_ns": 0}
    assert len(said) == 1
    assert said[0].startswith("read_ns ")


def test_the_drive_file_is_as_near_as_the_documents_say(loop: ClosedLoop, parameters: dict[str, int]) -> None:
    """docs/model/drives.md quotes these bounds; the paper's own figures differ as much between its tables."""
    found = calibrate.residuals(loop, parameters, EVO.cells, EVO.published(), samples=4000)
    off = {r.cell.title: abs(math.log(r.ratio)) for r in found if r.cell.group}
    limits = {"read": 0.05, "write": 0.12, "full": 0.06}
    for residual in found:
        if residual.cell.group:
            assert off[residual.cell.title] < limits[residual.cell.group], residual
    keeps_up = [r for r in found if "random write" in r.cell.title and r.cell.title.endswith("MiB/s")]
    assert [round(r.ratio, 2) for r in keeps_up] == [1.0, 1.0]
    text = calibrate.report(found, EVO)
    assert "contradiction in the paper: Table I: random read, 4 x 32: 195 k" in text
    assert len(text.splitlines()) == 1 + len(EVO.cells) + 1 + len(EVO.contradictions)


def test_the_card_is_as_near_as_the_documents_say(loop: ClosedLoop) -> None:
    """docs/model/drives.md quotes these bounds, of what was fitted and of what was not."""
    found = calibrate.residuals(
        loop, values_of("foresee-emmc"), FORESEE.cells, FORESEE.published(), samples=4000
    )
    ratios = {r.cell.title: r.ratio for r in found}
    fitted = [r for r in found if r.cell.group]
    assert len(fitted) == 12
    for residual in fitted:
        assert abs(math.log(residual.ratio)) < 0.05, residual
    assert ratios["Table 3: sequential read, 4 and 512 KiB, p99"] == pytest.approx(1, abs=0.05)
    left_over = (
        ("K2-split: random read", "p99", 0.9, 1.01),
        ("K2-split: random read", "MiB/s", 0.85, 1.17),
        ("K2-split: random write", "p99", 0.54, 0.79),
        ("K2-split: random write", "MiB/s", 0.96, 1.33),
    )
    for rows, figure, least, most in left_over:
        split = [v for title, v in ratios.items() if rows in title and title.endswith(figure)]
        assert len(split) == 6
        assert all(least < ratio < most for ratio in split), (rows, figure, split)
    assert ratios["Table 3: random read, 64 and 512 KiB, MiB/s"] == pytest.approx(1.11, abs=0.03)
    text = calibrate.report(found, FORESEE)
    pair = "Table 3: random read, 64 and 512 KiB"
    assert f"contradiction in the paper: {pair}, p99: 3.26 ms; {pair}, MiB/s: 7.44 ms, -56% apart" in text


@pytest.mark.parametrize(("name", "reached"), [("p3700", 0.72), ("nvmf", 0.65)])
def test_the_drives_of_mqfq_reach_their_peaks(loop: ClosedLoop, name: str, reached: float) -> None:
    """With the published parallelism; with half of it less, which docs/model/drives.md quotes."""
    facts, values = FACTS[name], values_of(name)
    found = calibrate.residuals(loop, values, facts.cells, facts.published(), samples=0)
    assert [r.ratio for r in found] == pytest.approx([1, 1], abs=0.01)
    load = dict(facts.cells[1].load)
    half = loop.run({k: v for k, v in values.items() if k != "queues"} | load | {"depth": load["depth"] // 2})
    assert half["iops"] / found[1].paper == pytest.approx(reached, abs=0.01)


def test_the_drive_of_the_kyber_paper_is_as_near_as_the_documents_say() -> None:
    """What is fitted; and beside reads a lone writer has the p99 that it has alone, unlike the paper's."""
    facts = FACTS["980pro"]
    with calibrate.model_of(facts, "980pro") as simulated:
        found = calibrate.residuals(simulated, values_of("980pro"), facts.cells, facts.published(), samples=0)
    for residual in found:
        if residual.cell.group:
            assert abs(math.log(residual.ratio)) < math.log(1.12), residual
    writer = {r.cell.label: r.model for r in found if r.cell.figure == "write.p99"}
    assert writer["w1"] == pytest.approx(writer["r1-w1"], rel=0.05)
    assert writer["w1"] == pytest.approx(writer["r256-w1"], rel=0.05)
    text = calibrate.report(found, facts)
    assert "contradiction in the paper: Table 2: R256-W256, writes, a second: 93 k; Table 2: W256" in text


def test_all_residuals_of_the_optane_drive_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing of it is fitted, and a lone reader beside 256 writes has a third of the paper's p99."""
    path, _ = drive.load("optane900p")
    assert main(["calibrate", str(path), "--check"]) == 0
    said = capsys.readouterr().out
    assert "fitted" not in said
    ratios = {
        title.strip(): float(ratio)
        for title, ratio in re.findall(r"^(Section \S.*?)  +[\d.]+ +[\d.]+ +([\d.]+)", said, re.MULTILINE)
    }
    assert len(ratios) == len(FACTS["optane900p"].cells) == 8
    low = ratios.pop("Section 5 O-7: R1-W256, none: reads, p99")
    assert low == pytest.approx(0.32, abs=0.05)
    assert all(0.8 < ratio < 1.2 for ratio in ratios.values()), ratios


def test_what_is_promised_of_the_drive_of_the_kyber_paper_is_what_was_fitted() -> None:
    """The claim names each figure, as others of the same table were left out of the fit."""
    [claim] = [c for c in model.read()["simulator"].claim if c.id == "drives-980pro"]
    fitted = {simulator.title(cell) for cell in FACTS["980pro"].cells if cell.group}
    assert set(claim.results) == {f"drives/980pro/{title}/error" for title in fitted}


def test_two_commands_of_one_slot_take_turns(loop: ClosedLoop) -> None:
    card = {"slots": 1, "dies": 1, "read_ns": 0, "read_fixed_ns": 100_000, "transfer_ns": 10_000}
    load = {"processes": 1, "depth": 1, "kib": 16, "rt_kib": 4, "rt_think_ns": 0, "rt_samples": 1000}
    figures = loop.run({**card, **load})
    assert figures["rt.p50"] == figures["rt.p99"] == 100 + 40 + 100 + 160
    assert figures["total_mib_s"] == pytest.approx(20 / 1024 / 400e-6, rel=0.01)


def test_values_are_put_into_the_file_and_all_else_stays() -> None:
    """Wherever in its table a value stands; one that is the same stays as it was written."""
    text = (
        "# A drive.\n[parameters.dies]\nvalue = 8_0 # few\nunit = 'dies'\n\n"
        '[parameters.read_ns]  # the chip\nfitted = true\nvalue = 1 # ns\nsource = "Table I"\n'
    )
    changed = drive_file.rewrite(text, {"read_ns": 25, "dies": 80})
    assert changed == text.replace("value = 1 #", "value = 25 #")


@pytest.mark.parametrize("path", sorted(DRIVES.glob("*.toml")), ids=lambda path: path.stem)
def test_a_file_with_the_same_values_stays_to_the_byte(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert drive_file.rewrite(text, values_of(path.stem)) == text


def test_what_cannot_be_fitted_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, _ = drive.load("970evo")
    text = path.read_text(encoding="utf-8")
    for old, new, message in (
        ('unit = "dies"', 'unit = "dies"\nfitted = true', "dies is marked as fitted"),
        (
            'name = "970evo"',
            'name = "other"',
            "no figures of a drive other; expected 970evo, foresee-emmc, p3700, nvmf, 980pro or optane900p",
        ),
    ):
        (tmp_path / "drive.toml").write_text(text.replace(old, new), encoding="utf-8")
        assert main(["calibrate", str(tmp_path / "drive.toml")]) == 2
        assert message in capsys.readouterr().err
    assert main(["calibrate", str(tmp_path / "none.toml")]) == 2
    assert "none.toml: expected a readable TOML file" in capsys.readouterr().err
    assert main(["calibrate", str(path), "--samples", "0"]) == 2
    assert "--samples: expected a number greater than or equal to 1, got '0'" in capsys.readouterr().err


def test_check_prints_and_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, _ = drive.load("970evo")
    copy = tmp_path / "970evo.toml"
    copy.write_bytes(path.read_bytes())
    assert main(["calibrate", str(copy), "--check", "--samples", "100"]) == 0
    assert "none: random read 64 KiB, p99.9" in capsys.readouterr().out
    assert copy.read_bytes() == path.read_bytes()
