# SPDX-License-Identifier: GPL-2.0-only
"""When two runs of one experiment count as agreeing."""

import math
from typing import Any

import pytest

from tailgate.papers import agreement
from tailgate.papers.agreement import Comparison


def point(
    mib_s: float = 100.0,
    p99: float = 1000.0,
    ci: list[float | None] | None = None,
    rate: float = 1.0,
    name: str = "p99",
) -> dict[str, Any]:
    flow = {"flow": "background", "mib_s": mib_s, "lat_us": {name: p99}, "ci_us": {name: ci or [p99, p99]}}
    return {
        "label": "k2-8",
        "load": None,
        "smp": 1,
        "scheduler": "k2",
        "knobs": {"inflight_max": 8},
        "sweep": {"op": "read", "background_rate": rate},
        "flows": [flow],
    }


def compared(one: dict[str, Any], two: dict[str, Any], name: str = "p99") -> dict[str, Comparison]:
    found = agreement.compare([one], [two], {"background": ("mib_s", name), "rt": ()})
    return {c.figure: c for c in found}


@pytest.mark.parametrize(("ours", "agrees"), [(104.9, True), (95.1, True), (105.1, False), (94.9, False)])
def test_throughput_within_five_percent(ours: float, agrees: bool) -> None:
    found = compared(point(mib_s=ours), point())["background.mib_s"]
    assert (found.agrees, found.detectable) == (agrees, 0.05)


@pytest.mark.parametrize(("ours", "agrees"), [(1099.0, True), (901.0, True), (1101.0, False), (899.0, False)])
def test_percentiles_within_ten_percent(ours: float, agrees: bool) -> None:
    found = compared(point(p99=ours), point())["background.p99"]
    assert (found.agrees, found.detectable) == (agrees, 0.10)


def test_percentiles_whose_intervals_are_apart_differ_however_wide_they_are() -> None:
    far = point(p99=1500, ci=[1150, 1900])
    assert compared(far, point(ci=[900, 1100]))["background.p99"].verdict == "differs"
    assert compared(far, point(ci=[900, 1200]))["background.p99"].verdict == "cannot tell"
    assert (
        compared(point(p99=1500, ci=[1150, None]), point(ci=[900, 1100]))["background.p99"].verdict
        == "differs"
    )


@pytest.mark.parametrize(
    ("ours", "theirs", "detectable"),
    [
        # The half-widths that face each other: the upper of the lower one, the lower of the higher one; the
        # larger sum counts.
        ([980, 1030], [960, 1010], 0.10),  # 7 %: what the tolerance lets pass is more
        ([980, 1100], [950, 1010], 0.15),
        ([800, 1010], [990, 1040], 0.24),
        ([980, 1010], [980, None], math.inf),
    ],
)
def test_the_smallest_difference_that_intervals_detect(
    ours: list[float | None], theirs: list[float | None], detectable: float
) -> None:
    found = compared(point(ci=ours), point(ci=theirs))["background.p99"]
    assert found.detectable == pytest.approx(detectable)


@pytest.mark.parametrize(("name", "most"), [("p50", 0.10), ("p99", 0.10), ("p99.9", 0.25)])
def test_equal_figures_agree_only_where_a_difference_would_have_shown(name: str, most: float) -> None:
    for width, verdict in ((0.98 * most, "agrees"), (1.02 * most, "cannot tell")):
        half = 1000 * width / 2
        twice = point(ci=[1000 - half, 1000 + half], name=name)
        found = compared(twice, twice, name)[f"background.{name}"]
        assert (found.verdict, found.agrees) == (verdict, verdict == "agrees")
        assert found.detectable == pytest.approx(max(width, 0.10))


def test_what_is_detectable_is_detected() -> None:
    """Moved by a little less than `detectable`, the same intervals overlap; moved by a little more, they do
    not.
    """
    first = point(ci=[900, 1080])
    for moved, differs in ((1.17, False), (1.19, True)):
        other = point(p99=1000 * moved, ci=[1000 * moved - 100, 1000 * moved + 90])
        found = compared(other, first)["background.p99"]
        assert found.detectable == pytest.approx(0.19)
        assert (found.verdict == "differs") is differs


def test_only_the_same_points_are_compared() -> None:
    """Points with the same load, scheduler, rate and number of processors; a variant is another point."""
    assert compared(point(rate=0.5), point()) == {}
    for key, other in (("load", "writes"), ("label", "k2-8-floor"), ("smp", 4)):
        assert compared({**point(), key: other}, point()) == {}
        both = [{**point(), key: other}, point(mib_s=50)]
        found = agreement.compare(both, both, {"background": ("mib_s",)})
        assert [c.ratio for c in found] == [1, 1]


def test_a_difference_is_told_in_a_line() -> None:
    (line,) = (str(c) for c in agreement.compare([point(mib_s=50)], [point()], {"background": ("mib_s",)}))
    assert (
        line
        == "DIFFERS      0.500  k2-8 beside reads at 100%: background.mib_s 50 and 100; detectable: from 5%"
    )


def test_reads_and_writes_of_a_flow_are_compared_apart() -> None:
    mixed = point()
    mixed["flows"] += [{**mixed["flows"][0], "flow": f"background.{d}"} for d in ("read", "write")]
    assert list(compared(mixed, mixed)) == ["background.mib_s", "background.read.p99", "background.write.p99"]
