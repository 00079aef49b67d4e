# SPDX-License-Identifier: GPL-2.0-only
"""K2's latency target on a drive whose rare long reads last longer than a reader's gaps, in the simulator."""

from dataclasses import replace

from tailgate.upkeep.claims import simulations

#: One read in 1900 takes 2.6 ms more; the reader asks every 2 ms.
RARE = {
    "read_rare_ppm": 523,
    "read_rare_ns": 2_622_713,
    "read_ns": 41_060,
    "read_fixed_ns": 12_890,
    "dies": 9,
}


def test_a_target_holds_the_background_for_all_of_a_gap() -> None:
    """Less does not help: a long read that begins at any time in a gap delays what comes after the gap."""
    usual = simulations.of("k2/auto", "970evo", rt_samples=16_000)["4k-clock", "k2-8", 1.0]
    told = replace(usual, knobs={"rt_target_us": 200}, drive={**usual.drive, **RARE})
    found = simulations.reader(told)
    assert found.latency.percentile(0.99) < 400
    assert found.mib_s > 100
