# SPDX-License-Identifier: GPL-2.0-only
"""What `tailgate tune` makes of what was tried: the front, its profiles, dead regions."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.tuning import LATENCY, OBJECTIVES, RATE, candidates, tried

from tailgate.tune import dead
from tailgate.tune.front import INDIFFERENT, Candidate, dominated, front, price, profiles
from tailgate.tune.goal import Goal, Quantity
from tailgate.tune.space import Setting, Space

# --- the front --------------------------------------------------------------------------------------------

PAIRS = st.lists(st.tuples(st.floats(1, 1000), st.floats(1, 1000)), min_size=1, max_size=20)


#: In steps that are smaller than what counts as a difference.
STEPS = st.integers(0, 4).map(lambda i: 100 * 1.009**i)


@given(st.lists(st.tuples(STEPS, STEPS, STEPS), min_size=1, max_size=20))
def test_the_front_has_one_as_good_as_each_setting_that_was_given(
    values: list[tuple[float, float, float]],
) -> None:
    """Of three objectives, as what is as good may go round in a circle there."""
    third = Goal(Quantity("background", "lat_us.p50"), least=True)
    found = [c.values for c in front(candidates(values), (*OBJECTIVES, third))]
    share = 1 + 1e-9 + INDIFFERENT / (1 - INDIFFERENT)
    for v in values:
        assert any(f[0] <= v[0] * share and f[1] * share >= v[1] and f[2] <= v[2] * share for f in found), (
            "nothing on the front is as good"
        )


def test_small_steps_that_add_up_are_a_front() -> None:
    steps = [(100 * 1.009**i, 1000 * 1.009**i) for i in range(40)]
    found = [c.values for c in front(candidates(steps), OBJECTIVES)]
    assert len(found) >= 20
    assert found[0][0] <= 101
    assert found[-1][1] >= steps[-1][1] / 1.0101


def test_one_that_is_as_good_in_the_first_objective_and_better_in_another_stands() -> None:
    found = front(candidates([(100, 1000), (100.5, 1500)]), OBJECTIVES)
    assert [c.values for c in found] == [(100.5, 1500)]


@given(PAIRS)
def test_nothing_is_much_better_than_what_is_on_the_front(values: list[tuple[float, float]]) -> None:
    every = candidates(values)
    found = front(every, OBJECTIVES)
    assert found
    kept = [c.values for c in found]
    for candidate in found:
        assert not dominated(candidate.values, kept, OBJECTIVES, 0.011)
    assert min(v[0] for v in kept) <= 1.0102 * min(v[0] for v in values)
    assert max(v[1] for v in kept) * 1.0102 >= max(v[1] for v in values)


@given(PAIRS)
def test_profiles_are_ends_of_the_front_and_something_between(values: list[tuple[float, float]]) -> None:
    found = front(candidates(values), OBJECTIVES)
    named = profiles(found, OBJECTIVES)
    assert named["latency"].values[0] == min(c.values[0] for c in found)
    assert named["throughput"].values[1] == max(c.values[1] for c in found)
    assert named["balanced"] in found


@pytest.mark.parametrize("goal", [LATENCY, RATE])
def test_profiles_of_two_objectives_of_one_kind_are_ends_of_the_front_too(goal: Goal) -> None:
    objectives = (Goal(goal.quantity, False), Goal(replace(goal.quantity, flow="other"), False))
    found = front(candidates([(100, 1), (90, 50), (50, 100)]), objectives)
    named = {name: c.values for name, c in profiles(found, objectives).items()}
    assert {named["latency"], named["throughput"]} == {(100, 1), (50, 100)}
    assert named["balanced"] == (90, 50)


def test_of_two_settings_the_balanced_one_loses_less() -> None:
    found = front(candidates([(2.07, 62.4), (2.15, 73.6)]), OBJECTIVES)
    assert profiles(found, OBJECTIVES)["balanced"].values == (2.15, 73.6)


def test_differences_by_chance_make_no_front() -> None:
    found = front(candidates([(100, 1000), (100.5, 1001), (50, 995), (200, 2000)]), OBJECTIVES)
    assert [c.values for c in found] == [(50, 995), (200, 2000)]


def test_a_flow_that_completes_nothing_is_worse_than_any_latency() -> None:
    endless = float("inf")
    found = front(candidates([(500, 900), (endless, 900), (endless, 1000)]), OBJECTIVES)
    assert [c.values for c in found] == [(500, 900), (endless, 1000)]
    named = profiles(found, OBJECTIVES)
    assert [c.values[0] for c in named.values()] == [500, 500, endless]


def test_intervals_are_of_seeds_and_tell_candidates_apart() -> None:
    one = Candidate(Setting("k2", {}), [(10.0, 5.0), (10.1, 5.0), (9.9, 5.0)])
    other = Candidate(Setting("k2", {}), [(20.0, 5.0), (20.1, 5.0), (19.9, 5.0)])
    low, high = one.interval(0) or (0, 0)
    assert low < 10 < high
    assert not one.overlaps(other, OBJECTIVES)
    assert one.overlaps(Candidate(Setting("k2", {}), [(10.0, 5.0), (10.2, 5.0), (9.8, 5.0)]), OBJECTIVES)
    assert Candidate(Setting("k2", {}), [(10.0, 5.0)]).interval(0) is None


def test_the_price_is_in_words() -> None:
    assert price((1400, 49), (15_200, 100), OBJECTIVES) == (
        "p99 of rt 1.4 ms instead of 15.2; background \u221251%"
    )
    assert price((float("inf"), 100), (152, 100), OBJECTIVES) == "p99 of rt: none completed; background ±0%"
    assert price((140, 100), (float("inf"), 100), OBJECTIVES) == (
        "p99 of rt 140 us instead of none completed; background ±0%"
    )
    assert price((140, 100), (152, 100), OBJECTIVES) == "p99 of rt 140 us instead of 152; background ±0%"
    assert (
        price((140, 100), (152, 0), OBJECTIVES)
        == "p99 of rt 140 us instead of 152; background: some instead of none"
    )


# --- dead regions -----------------------------------------------------------------------------------------


def test_a_dead_region_is_a_box_without_anything_else_inside() -> None:
    space = Space(["kyber"])
    dull, sharp = (100.0, 50.0), (10.0, 40.0)
    found = [tried(r, w, dull) for r in (20_000, 2_000_000, 100_000_000) for w in (20_000, 1_000_000)]
    found += [tried(20_000, 100_000_000, sharp), tried(100_000_000, 100_000_000, dull)]
    [region, *_] = dead.regions(space, found)
    assert region.words == "kyber: any read_lat_nsec with write_lat_nsec from 20us to 1ms"
    assert region.tried == 6


def test_a_setting_that_was_tried_for_a_short_time_counts_in_a_dead_region() -> None:
    space, dull = Space(["kyber"]), (100.0, 50.0)
    found = [tried(r, 20_000, dull) for r in (20_000, 50_000, 200_000, 500_000)]
    other = replace(tried(100_000, 20_000, (5000.0, 50.0)), short=True)
    assert dead.regions(space, [*found, other]) == []
    # For a short time it gives what the others gave then, whatever these gave later.
    found = [replace(t, first=(90.0, 45.0)) for t in found]
    same = replace(tried(100_000, 20_000, (90.0, 45.0)), short=True)
    [region] = dead.regions(space, [same, *found])
    assert (region.tried, region.values) == (5, dull)


def test_settings_that_differ_are_no_dead_region() -> None:
    found = [tried(r, 20_000, (float(r), 1.0)) for r in (20_000, 50_000, 100_000, 2_000_000)]
    assert dead.regions(Space(["kyber"]), found) == []


def test_settings_that_complete_nothing_are_alike_and_unlike_any_other() -> None:
    endless = (float("inf"), 50.0)
    found = [tried(r, 20_000, endless) for r in (20_000, 50_000, 100_000, 2_000_000)]
    found.append(tried(100_000_000, 20_000, (10.0, 50.0)))
    [region] = dead.regions(Space(["kyber"]), found)
    assert (region.tried, region.values) == (4, endless)
