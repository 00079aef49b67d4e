# SPDX-License-Identifier: GPL-2.0-only
"""The step that judges the search beside the grid of Kyber's targets, in a small form."""

from collections.abc import Sequence

import pytest

from tailgate.base.errors import UsageError
from tailgate.spec import experiment as experiments
from tailgate.tune.evaluate import SimulatedLoad
from tailgate.tune.space import Setting
from tailgate.upkeep.claims.lab import Lab
from tailgate.upkeep.claims.quantity import RUNS
from tailgate.upkeep.claims.steps import tune


class Short(SimulatedLoad):
    """The load for a fifth of a second, without its lead of three."""

    def __init__(self, spec: experiments.Experiment, *arguments: object) -> None:
        modes = {name: m.model_copy(update={"duration_s": 0.2}) for name, m in spec.modes.items()}
        sweeps = tuple(
            s.model_copy(update={"variables": {**s.variables, "SETTLE": "0"}}) for s in spec.sweeps
        )
        super().__init__(spec.model_copy(update={"modes": modes, "sweeps": sweeps}), *arguments)  # type: ignore[arg-type]


def test_the_search_beside_a_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune, "SimulatedLoad", Short)
    monkeypatch.setattr(tune, "SEEDS", range(1, 3))
    monkeypatch.setattr(tune, "TRIALS", 2)
    monkeypatch.setattr(tune, "ALL_TRIALS", 5)
    of_grid = [
        Setting("kyber", {"read_lat_nsec": r, "write_lat_nsec": w})
        for r, w in ((2_000_000, 10_000_000), (50_000, 100_000_000))
    ]
    monkeypatch.setattr(tune, "cells", lambda: of_grid)
    figures = {f.id.removeprefix("tune/sim/r1-w256/"): f.quantity.value for f in tune.tune_kyber(Lab())}
    for share in tune.SHARES:
        assert figures[f"keep-{share}/settings-over-cells"] == 1
        # The default is both a cell and the first that is tried.
        assert figures[f"keep-{share}/worst-over-best-cell"] >= figures[f"keep-{share}/median-over-best-cell"]
        assert figures[f"keep-{share}/median-over-best-cell"] <= 1
        assert 0 < figures[f"keep-{share}/all-schedulers-over-best-cell"] <= 1


def test_a_search_in_a_guest_is_timed_and_its_profiles_stand_beside_the_simulator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = {"rt.lat_us.p99": 1000.0, "background.iops": 800.0}
    confirmed = {"rt.lat_us.p99": 1100.0, "background.iops": 792.0}
    profiles = {"latency": {"values": values, "confirmed": confirmed}, "throughput": {"values": values}}
    asked: list[tuple[str, ...]] = []
    fault: dict[str, object] = {}

    def answered(self: Lab, *command: str, statuses: Sequence[int]) -> dict[str, object]:
        asked.append(command)
        assert statuses == (0, 1), "a profile that breaks the limit is a figure"
        return {"profiles": profiles, "confirmed_limits": [800.0]} | fault

    monkeypatch.setattr(Lab, "json", answered)
    made = {f.id.removeprefix("tune/vm/fig8/"): f.quantity.value for f in tune.tune_in_guest(Lab())}
    assert made.pop("minutes") < 1
    assert made == {
        "latency/rt.lat_us.p99-over-sim": pytest.approx(1.1),
        "latency/background.iops-over-sim": pytest.approx(0.99),
        "latency/background.iops-over-limit": pytest.approx(0.99),
    }
    assert len(asked) == RUNS
    # Each run is the same question, with a folder of its own: a folder that holds trials would be resumed.
    [command] = {c[: c.index("--out")] for c in asked}
    assert len(set(asked)) == RUNS
    assert command[0] == "tune"
    assert {"vm", "--quick"} <= set(command)
    fault["fault"] = "the guest panicked"
    with pytest.raises(UsageError, match="the guest panicked"):
        list(tune.tune_in_guest(Lab()))


def test_the_grid_is_that_of_the_experiment() -> None:
    assert len(tune.cells()) == 90
