# SPDX-License-Identifier: GPL-2.0-only
"""When two runs of one experiment count as agreeing."""

from typing import Any

import pytest

from tailgate.papers import agreement


def point(
    mib_s: float = 100.0, p99: float = 1000.0, ci: list[float | None] | None = None, rate: float = 1.0
) -> dict[str, Any]:
    flow = {"flow": "background", "mib_s": mib_s, "lat_us": {"p99": p99}, "ci_us": {"p99": ci or [p99, p99]}}
    return {
        "scheduler": "k2",
        "knobs": {"inflight_max": 8},
        "sweep": {"op": "read", "background_rate": rate},
        "flows": [flow],
    }


def compared(one: dict[str, Any], two: dict[str, Any]) -> dict[str, bool]:
    return {
        c.figure: c.agrees
        for c in agreement.compare([one], [two], {"background": ("mib_s", "p99"), "rt": ()})
    }


@pytest.mark.parametrize(("ours", "agrees"), [(104.9, True), (95.1, True), (105.1, False), (94.9, False)])
def test_throughput_within_five_percent(ours: float, agrees: bool) -> None:
    assert compared(point(mib_s=ours), point())["background.mib_s"] is agrees


@pytest.mark.parametrize(("ours", "agrees"), [(1099.0, True), (901.0, True), (1101.0, False), (899.0, False)])
def test_percentiles_within_ten_percent(ours: float, agrees: bool) -> None:
    assert compared(point(p99=ours), point())["background.p99"] is agrees


def test_overlapping_intervals_agree_also_where_one_has_no_upper_end() -> None:
    far = point(p99=1500, ci=[1150, 1900])
    assert compared(far, point(ci=[900, 1200]))["background.p99"]
    assert not compared(far, point(ci=[900, 1100]))["background.p99"]
    assert compared(far, point(ci=[900, None]))["background.p99"]


def test_only_the_same_points_are_compared() -> None:
    assert compared(point(rate=0.5), point()) == {}


def test_a_difference_is_told_in_a_line() -> None:
    (line,) = (str(c) for c in agreement.compare([point(mib_s=50)], [point()], {"background": ("mib_s",)}))
    assert line == "DIFFERS   0.500  k2-8 beside reads at 100%: background.mib_s 50 and 100"


def test_reads_and_writes_of_a_flow_are_compared_apart() -> None:
    mixed = point()
    mixed["flows"] += [{**mixed["flows"][0], "flow": f"background.{d}"} for d in ("read", "write")]
    assert list(compared(mixed, mixed)) == ["background.mib_s", "background.read.p99", "background.write.p99"]
