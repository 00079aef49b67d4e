# SPDX-License-Identifier: GPL-2.0-only
"""A new user's path, by the documents' own commands: an experiment, and a scheduler, in the simulator."""

import re
from pathlib import Path

import pytest
from tests.unit.checkout import Checkout
from tests.unit.documents import blocks


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path / "tailgate")


def test_an_experiment_by_contributing_md(checkout: Checkout) -> None:
    pytest.importorskip("tailgate_sim", reason="make sim builds it")
    job, new, by_hand, run, *rest = blocks("CONTRIBUTING.md", "Add an experiment of your own")
    assert not rest
    checkout.write("own/own.fio", job)
    page = checkout.report_of(new)
    for word in ("mine", "rt", "background", "mq-deadline", "k2-8", "k2-auto"):
        assert re.search(rf"\b{word}\b", page), word

    checkout.write("own/own.toml", by_hand)
    simulated, in_a_guest = run.splitlines()
    assert in_a_guest == simulated.replace("--target sim ", "")
    page = checkout.report_of(simulated)
    for word in ("My reader beside my backup", "rt", "background", "none", "k2-8"):
        assert re.search(rf"\b{word}\b", page), word


def test_a_scheduler_by_its_page(checkout: Checkout) -> None:
    """The copy of `fifo` is built into the simulator, and does what `fifo` does."""
    job, _, by_hand, _ = blocks("CONTRIBUTING.md", "Add an experiment of your own")
    checkout.write("own/own.fio", job)
    checkout.write("own/own.toml", by_hand)
    copy, simulate, measure, _ = blocks("docs/adding-a-scheduler.md", "Start from a copy")
    checkout.sh(copy)
    _, _, said = checkout.sh(simulate).partition("simulator: ready\n")
    fifo, _, its_last_line_and_mine = said.partition("\nfifo: ")
    its_last_line, _, mine = its_last_line_and_mine.partition("\n")
    assert mine == f"{fifo}\nmine: {its_last_line}\n", said
    assert re.match(r"2\.000 s, \d{4,} requests", its_last_line)

    added, simulated, in_a_guest = measure.splitlines()
    assert in_a_guest == simulated.replace("--target sim ", "")
    assert "mine-4" in checkout.report_of(f"{added}\n{simulated}")
