# SPDX-License-Identifier: GPL-2.0-only
"""The step that judges the search beside the grid of Kyber's targets, in a small form."""

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from types import SimpleNamespace

import pytest

from tailgate.base.errors import UsageError
from tailgate.simulator.executor import executor
from tailgate.spec import experiment as experiments
from tailgate.tune.evaluate import Given, SimulatedLoad, Wanted
from tailgate.tune.search import Budget, Search
from tailgate.tune.space import SEARCHED, Setting, Space
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
    monkeypatch.setattr(tune, "ALL_SEEDS", (1, 2))
    of_grid = [
        Setting("kyber", {"read_lat_nsec": r, "write_lat_nsec": w})
        for r, w in ((2_000_000, 10_000_000), (50_000, 100_000_000))
    ]
    monkeypatch.setattr(tune, "cells", lambda: of_grid)
    figures = {f.id.removeprefix("tune/sim/r1-w256/"): f.quantity.value for f in tune.tune_kyber(Lab())}
    for share in tune.SHARES:
        # Of two cells: what a search tries, and `none` that its limit refers to.
        assert figures[f"keep-{share}/settings-over-cells"] == 3 / 2
        # The default is both a cell and the first that is tried.
        assert figures[f"keep-{share}/worst-over-best-cell"] >= figures[f"keep-{share}/median-over-best-cell"]
        assert figures[f"keep-{share}/median-over-best-cell"] <= 1
        assert 0 < figures[f"keep-{share}/all-schedulers-over-best-cell"] <= 1
        # Five settings are the defaults of five schedulers.
        of_schedulers = {name: figures.get(f"keep-{share}/{name}/best-over-best-cell") for name in SEARCHED}
        assert of_schedulers["kyber"]
        assert min(ratio for ratio in of_schedulers.values() if ratio) == pytest.approx(
            figures[f"keep-{share}/all-schedulers-over-best-cell"]
        )


def test_what_a_search_simulates_is_counted_and_not_supposed(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a second seed a search simulates more than its trials and the references."""
    given: list[Wanted] = []

    class Counted(Short):
        def evaluate(self, wanted: Sequence[Wanted], pool: Executor) -> Iterator[Given]:
            given.extend(wanted)
            return super().evaluate(wanted, pool)

    monkeypatch.setattr(tune, "SimulatedLoad", Counted)
    a = tune.asked(0.8)
    with executor(1, None) as pool:
        search = Search(a.question, a.members, Space(["kyber"]), a.load("quick"), Budget(2, 2, 1))
        search.run(pool)
    assert search.simulated == len({(w.setting.label, w.seed) for w in given}) > 3


def test_a_search_in_a_guest_is_timed_and_its_profiles_stand_beside_the_simulator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = {"rt.lat_us.p99": 1000.0, "background.iops": 800.0}
    confirmed = {"rt.lat_us.p99": 1100.0, "background.iops": 792.0}
    profiles = {"latency": {"values": values, "confirmed": confirmed}, "throughput": {"values": values}}
    asked: list[list[str]] = []
    fault: dict[str, object] = {}

    def answered(command: list[str], **_: object) -> SimpleNamespace:
        asked.append(command)
        answer = {"profiles": profiles, "confirmed_limits": [800.0]} | fault
        # a profile that breaks the limit is a figure
        return SimpleNamespace(returncode=1, stdout=json.dumps(answer))

    monkeypatch.setattr("subprocess.run", answered)
    made = {f.id.removeprefix("tune/vm/fig8/"): f.quantity.value for f in tune.tune_in_guest(Lab())}
    assert made.pop("minutes") < 1
    assert made == {
        "latency/rt.lat_us.p99-over-sim": pytest.approx(1.1),
        "latency/background.iops-over-sim": pytest.approx(0.99),
        "latency/background.iops-over-limit": pytest.approx(0.99),
    }
    assert len(asked) == RUNS
    # Each run is the same question, with a folder of its own: a folder that holds trials would be resumed.
    [command] = {tuple(c[: c.index("--out")]) for c in asked}
    assert len(set(map(tuple, asked))) == RUNS
    assert "tune" in command
    assert {"vm", "--quick"} <= set(command)
    fault["fault"] = "the guest panicked"
    with pytest.raises(UsageError, match="the guest panicked"):
        list(tune.tune_in_guest(Lab()))


def test_the_grid_is_that_of_the_experiment() -> None:
    assert len(tune.cells()) == 90
