# SPDX-License-Identifier: GPL-2.0-only
"""K2's bound that looks ahead, beside readers and drives on which it once failed, in the simulator."""

from dataclasses import replace

from tailgate.simulator.simulation import Simulation
from tailgate.upkeep.claims import simulations
from tailgate.upkeep.claims.simulations import reader

#: A drive on which one read in 1900 takes 2.6 ms more: longer than the reader's gap of 2 ms.
RARE = {
    "read_rare_ppm": 523,
    "read_rare_ns": 2_622_713,
    "read_ns": 41_060,
    "read_fixed_ns": 12_890,
    "dies": 9,
}


def auto_cell(load: str, scheduler: str, requests: int) -> Simulation:
    return simulations.of("k2/auto", "970evo", rt_samples=requests)[load, scheduler, 1.0]


def test_a_target_holds_the_background_for_all_of_a_gap() -> None:
    """Less does not help: a long read that begins at any time in a gap delays what comes after the gap."""
    usual = auto_cell("4k-clock", "k2-8", 16_000)
    found = reader(replace(usual, knobs={"rt_target_us": 200}, drive={**usual.drive, **RARE}))
    assert found.latency.percentile(0.99) < 400
    assert found.mib_s > 100


def test_a_target_near_the_idle_drive_leaves_most_of_the_background() -> None:
    """p99 of the idle drive is 84 us. With a background request in the drive, 84 us cannot be met."""
    told = replace(auto_cell("4k-closed", "k2-8", 8_000), knobs={"rt_tags": 25, "rt_target_us": 84})
    none = reader(auto_cell("4k-closed", "none", 1_000))
    found = reader(told)
    assert found.latency.percentile(0.99) < 90
    assert found.mib_s > 0.7 * none.mib_s


def test_a_reader_that_soon_asks_again_meets_its_target() -> None:
    """It works for 200 us between reads of 142 us: too short for the background to leave."""
    usual = auto_cell("16k-closed", "auto", 4_000)
    *others, real_time = usual.processes
    found = reader(replace(usual, processes=(*others, replace(real_time, think_ns=200_000))))
    assert found.latency.percentile(0.99) < 300


def test_set_by_hand_it_looks_ahead_from_the_first_requests_on() -> None:
    """Reads take 1.9 ms beside the fallback of 384 KiB, 0.4 ms when they are predicted."""
    by_hand = simulations.of("k2/frontier", "970evo", rt_samples=2_000)["64k", "ahead-384-64-400", 1.0]
    assert reader(by_hand).latency.percentile(0.99) < 900
