# SPDX-License-Identifier: GPL-2.0-only
"""Drives that are drawn by chance."""

import pytest

from tailgate.main import main
from tailgate.spec import drive
from tailgate.upkeep import draw


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_drives_that_are_there_are_those_of_their_seeds(
    seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    path, loaded = drive.load(f"unseen-{seed}")
    assert main(["draw", str(seed)]) == 0
    assert capsys.readouterr().out == path.read_text()
    assert loaded.name == path.stem


def test_every_number_is_in_its_range_and_seeds_differ() -> None:
    found = [draw.drawn(seed) for seed in range(200)]
    for one in draw.RANGES:
        values = [numbers[one.key] for numbers in found]
        assert one.least <= min(values) <= max(values) <= one.most
        middle = (one.least * one.most) ** 0.5
        assert 0.35 < sum(value < middle for value in values) / len(values) < 0.65
    assert {numbers["admission"] for numbers in found} == {0, 1}
    assert len({tuple(numbers.values()) for numbers in found}) == 200


def test_noisy_is_the_970_evo_but_for_its_noise() -> None:
    noisy, other = drive.load("noisy")[1].parameters, drive.load("970evo")[1].parameters
    differ = {key for key in noisy if key not in other or noisy[key].value != other[key].value}
    assert differ == {"read_spread_percent", "read_rare_ppm", "read_rare_ns", "admission"}
    assert set(other) <= set(noisy)
