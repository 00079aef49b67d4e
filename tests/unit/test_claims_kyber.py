# SPDX-License-Identifier: GPL-2.0-only
"""What `tailgate claims kyber` makes of grids: effects and their sizes, from invented points."""

import csv
import statistics
from collections.abc import Mapping
from typing import Any

import pytest

from tailgate.base.paths import ROOT
from tailgate.upkeep.claims import results
from tailgate.upkeep.claims.lab import Answer, Lab
from tailgate.upkeep.claims.quantity import exact
from tailgate.upkeep.claims.results import Figure, Source
from tailgate.upkeep.claims.steps import kyber, kyber_stated
from tailgate.upkeep.claims.steps.kyber import MOST, READ_LEAST, WRITE_LEAST, Cell, Grid
from tailgate.upkeep.claims.steps.kyber_stated import Stated

ANSWER = Answer(Source("tailgate run x", "sim", "virtual", (1,)), ())


def point(kiops: tuple[float, float], p99_us: tuple[float, float]) -> dict[str, Any]:
    return {
        "flows": [
            {
                "flow": name,
                "ios": 1000,
                "iops": 1e3 * kiops[i],
                "lat_us": {"p99": p99_us[i]},
                "ci_us": {"p99": (p99_us[i], p99_us[i])},
            }
            for i, name in enumerate(("read", "write"))
        ]
    }


#: Reads that go first are quick, and cost half of the writes; writes that go first leave few reads.
CELLS: dict[Cell, dict[str, Any]] = {
    (READ_LEAST, WRITE_LEAST): point((100, 70), (14_000, 16_000)),
    (READ_LEAST, MOST): point((300, 35), (2_000, 4_000)),
    (MOST, WRITE_LEAST): point((2.5, 70), (84_000, 16_000)),
    (MOST, MOST): point((100, 70), (14_000, 16_000)),
}
GRID = Grid(ANSWER, CELLS, point((60, 70), (16_000, 16_000)))


def test_a_protected_reader_has_its_gain_and_its_price() -> None:
    made = {f.id.removeprefix("kyber/sim/"): f.quantity.value for f in kyber.reads_protected(GRID)}
    assert made == {
        "o-5/p99-over-none": 0.125,
        "o-5/writes-over-most": 0.5,
        "g-2/p99-over-lowest": 1.0,
        "g-2/writes-over-most": 0.5,
    }


def test_shares_move_with_the_read_target() -> None:
    made = {f.id.removeprefix("kyber/sim/o-6/"): f.quantity.value for f in kyber.shares(GRID)}
    assert made["reads-least-target-over-most"] == 40
    assert made["least-step"] == 3  # of the two columns: 300 over 100, and 100 over 2.5
    assert made["dead/read/most-over-least"] == made["dead/write/most-over-least"] == 1


def test_the_spread_is_of_all_cells() -> None:
    made = {f.id.removeprefix("kyber/sim/o-4/"): f.quantity.value for f in kyber.without_effect(GRID)}
    assert made == {"read/highest-p99-over-lowest": 42, "write/highest-p99-over-lowest": 4}


def test_what_is_outside_of_the_dead_space_stands_beside_it() -> None:
    made = {f.id.removeprefix("x/"): f.quantity.value for f in kyber.outside_of_dead(GRID, "x")}
    # Both corners with equal targets, the low ones and the high ones, give what a dead cell gives.
    assert made == {"cells-like-dead": 2, "p99-of-dead-over-lowest": 7, "most-reads-over-dead": 3}
    [spread] = kyber.effective(GRID, "x")
    assert spread.quantity.value == 120


def test_equal_targets_stand_beside_the_most_of_the_corners() -> None:
    made = {f.id: f.quantity.value for f in kyber.same_targets(ANSWER, CELLS, "x")}
    assert made == {"x/reads-over-most": pytest.approx(1 / 3), "x/writes-over-most": 1}


def cells_of(*loads: str | None, labels: Mapping[str, Cell]) -> Answer:
    """A run of the invented cells: all of them for each load, under these labels."""
    points = [
        {
            "load": load,
            "label": name,
            "scheduler": "kyber",
            "knobs": {"read_lat_nsec": cell[0], "write_lat_nsec": cell[1]},
            **CELLS[cell],
        }
        for load in loads
        for name, cell in labels.items()
    ]
    return Answer(ANSWER.source, ({"load": loads[0], "label": "none", "scheduler": "none"}, *points))


def test_each_stated_cell_stands_beside_the_papers(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def run(self: Lab, experiment: str, **_: object) -> Answer:
        asked.append(experiment)
        corners = {kyber.label(cell): cell for cell in CELLS}
        if experiment == "kyber/optane":
            first, equal = (READ_LEAST, MOST), (READ_LEAST, WRITE_LEAST)
            return cells_of(
                "r1-w256", "r256-w256", labels={"kyber-10us-100ms": first, "kyber-10us-10us": equal}
            )
        if experiment == "kyber/fig4":
            loads = [
                f"{system}-{load}" for system in ("ext4", "f2fs", "xfs") for load in ("r1-w256", "r256-w256")
            ]
            return cells_of(*loads, labels=corners)
        return cells_of(None, labels=corners)

    monkeypatch.setattr(Lab, "run", run)
    made = {
        f.id.removeprefix("kyber/stated/"): f.quantity.value
        for step in kyber_stated.STEPS
        for f in step(Lab())
    }
    assert made["grids/r1-w256-50us-100ms/read/p99-over-paper"] == pytest.approx(2_000 / 1_400)
    assert made["grids/r256-w256-100ms-20us/read/iops-over-paper"] == pytest.approx(2.5 / 2.6)
    assert made["grids/r1-w1-lowest/write/p99-over-paper"] == pytest.approx(4_000 / 23.4)
    assert made["grids/r1-w1-highest/write/p99-over-paper"] == pytest.approx(16_000 / 27.3)
    assert made["grids/r256-w256-dead/read/p99-over-paper"] == pytest.approx(14_000 / 5_000)
    assert made["optane/r256-w256-10us-10us/write/iops-over-paper"] == pytest.approx(70 / 203.1)
    assert made["file-systems/r1-w256-worst-highest/read/p99-over-paper"] == pytest.approx(84_000 / 249.9)
    assert made["file-systems/f2fs-r256-w256-lowest/read/iops-over-paper"] == pytest.approx(2.5 / 229.7)
    ratios = {
        group: [ratio for name, ratio in made.items() if name.startswith(f"{group}/")]
        for group in ("grids", "optane", "file-systems")
    }
    assert {group: len(some) for group, some in ratios.items()} == {
        "grids": 11,
        "optane": 5,
        "file-systems": 20,
    }
    for group, some in ratios.items():
        assert made[f"median/{group}"] == statistics.median(some)
    assert made["median/raw-drives"] == statistics.median(ratios["grids"] + ratios["optane"])
    assert len(asked) == len(set(asked))


@pytest.mark.parametrize("lacks", ["", "file-systems/b/read/iops"])
def test_the_median_of_all_stated_cells_is_of_all_or_not_there(
    monkeypatch: pytest.MonkeyPatch, lacks: str
) -> None:
    """Without the guests' cells it would be the raw drives', under another name."""
    number = Stated("a", ("r1-w1",), kyber_stated.with_kyber, "read", "p99", 1)
    for name in ("GRIDS", "OPTANE"):
        monkeypatch.setattr(kyber_stated, name, (number,))
    monkeypatch.setattr(kyber_stated, "FILES", (number, number))
    values = {
        "grids/a/read/p99": 1.0,
        "optane/a/read/p99": 2.0,
        "file-systems/a/read/p99": 4.0,
        "file-systems/b/read/iops": 8.0,
    }
    figures = [
        Figure(f"kyber/stated/{name}-over-paper", exact(value), ANSWER.source)
        for name, value in values.items()
        if name != lacks
    ]
    others = [Figure("kyber/stated/median/grids", exact(100.0), ANSWER.source)]
    stored = {"kyber": {"stated": results.step_of([*figures, *others], "abc1234", "2026-01-01")}}
    monkeypatch.setattr(results, "read", lambda: stored)
    made = {f.id: f.quantity.value for f in kyber_stated.kyber_stated_all(Lab())}
    assert made == ({} if lacks else {"kyber/stated/median/all": 3.0})


def test_each_number_is_the_papers() -> None:
    """As papers' figures are recorded: in thousands a second, us or ms."""
    with (ROOT / "experiments/kyber/paper.csv").open() as lines:
        rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    known = {
        float(row["value"]) * {"ms": 1000}.get(row["unit"], 1)
        for row in rows
        if row["unit"] in ("KIOPS", "us", "ms")
    }
    for number in (*kyber_stated.GRIDS, *kyber_stated.OPTANE, *kyber_stated.FILES):
        assert number.value in known, number


def test_a_guest_stands_beside_the_simulator_with_the_guests_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str | None]] = []

    def run(self: Lab, experiment: str, target: str, machine: str | None = None, **_: object) -> Answer:
        asked.append((target, machine))
        slower = 0.5 if target == "vm" else 1.0
        points = [
            {"label": label, **point((100 * slower, 70), (2_000, 4_000)), "state": state}
            for label, state in (
                ("none", {}),
                ("kyber-50us-100ms", {"read_tokens": 256 * slower, "write_tokens": 1}),
            )
        ]
        return Answer(ANSWER.source, tuple(points))

    monkeypatch.setattr(Lab, "run", run)
    made = {f.id.removeprefix("kyber/vm/agreement/"): f.quantity.value for f in kyber.kyber_agreement(Lab())}
    assert made["r1-w256/none/read/iops-over-sim"] == 0.5
    assert made["r256-w256/none/write/p99-over-sim"] == 1
    assert "r1-w256/none/read/tokens" not in made
    assert made["r1-w256/kyber-50us-100ms/read/tokens"] == 128
    assert made["r1-w256/kyber-50us-100ms/read/tokens-over-sim"] == 0.5
    assert set(asked) == {("vm", None), ("sim", "guest-6.12")}


def test_file_systems_show_what_goes_first_gains_and_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(self: Lab, experiment: str, **_: object) -> Answer:
        points = [
            {"load": f"{system}-{load}", "label": kyber.label(cell), **CELLS[cell]}
            for system in ("ext4", "xfs", "f2fs")
            for load in ("r1-w256", "r256-w256")
            for cell in CELLS
        ]
        return Answer(ANSWER.source, tuple(points))

    monkeypatch.setattr(Lab, "run", run)
    made = {f.id.removeprefix("kyber/vm/"): f.quantity.value for f in kyber.kyber_files(Lab())}
    assert made["o-9/ext4/p99-over-worst-other"] == pytest.approx(2 / 84)
    assert made["o-9/ext4/p99-over-best-other"] == pytest.approx(2 / 14)
    assert made["o-9/xfs/writes-over-most"] == 0.5
    assert made["o-10/xfs/reads-first/reads-over-most-of-others"] == 3
    assert made["o-10/xfs/reads-first/writes-over-most-of-others"] == 0.5
    assert made["o-10/ext4/writes-first/writes-over-most-of-others"] == 1
    assert made["o-10/ext4/writes-first/reads-over-most-of-others"] == pytest.approx(2.5 / 300)
    assert made["o-11/f2fs/reads-most-over-least"] == 120
    assert made["o-11/f2fs/equal/reads-over-most"] == pytest.approx(1 / 3)
    assert len(made) == 3 * 10
