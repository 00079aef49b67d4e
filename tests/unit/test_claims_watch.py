# SPDX-License-Identifier: GPL-2.0-only
"""The step that compares knobs that move with those that stay: its arithmetic, and its job."""

from concurrent.futures import Executor
from contextlib import nullcontext

import pytest

from tailgate.load import fiojob
from tailgate.upkeep.claims.lab import Lab
from tailgate.upkeep.claims.steps import watch
from tailgate.upkeep.claims.steps.watch import Case, Knobs, Phases


def phases(*figures: tuple[float, float]) -> Phases:
    return dict(zip(watch.PHASES, figures, strict=True))


#: Reads in us and writes in MiB/s: one setting is good for two phases, the other for the other two.
FIXED = {
    1: phases((300, 100), (300, 100), (2000, 0), (2000, 0)),
    64: phases((900, 400), (900, 400), (500, 200), (500, 200)),
}
MOVING = phases((600, 200), (600, 95), (600, 190), (620, 210))


def test_a_phase_counts_where_the_limit_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(pool: Executor, case: Case, knobs: Knobs, limit_us: int | None) -> list[Phases]:
        return [MOVING if limit_us else FIXED[int(knobs["inflight_max"])]] * len(watch.SEEDS)

    monkeypatch.setattr(watch, "_all_seeds", measured)
    monkeypatch.setattr(watch, "executor", lambda *_: nullcontext())
    monkeypatch.setattr(
        watch, "CASES", {"k2": Case("k2", "real time", {}, [{"inflight_max": n} for n in FIXED])}
    )
    monkeypatch.setattr(watch, "LIMITS", (600,))
    monkeypatch.setattr(watch, "TARGETS", {})
    found = {f.id.removeprefix("watch/sim/k2/600/"): f.quantity.value for f in watch.watch_phases(Lab())}
    assert found["least-over-best-of-a-phase"] == pytest.approx(0.95)
    assert found["over-best-of-all-phases"] == pytest.approx((200 + 95 + 190 + 210) / 400)
    assert found["one-setting-over-best-of-each-phase"] == pytest.approx(400 / 600)
    assert found["mean-over-limit"] == pytest.approx(620 / 600)
    assert found["four/write-mib-s"] == 210


def test_the_settings_that_stay_are_each_another_one() -> None:
    for case in watch.CASES.values():
        assert all(case.fixed.count(knobs) == 1 for knobs in case.fixed)
        assert set(case.always) <= {knob for knobs in case.fixed for knob in knobs}


def test_the_job_has_the_phases() -> None:
    job = fiojob.parse(watch.JOB, {"CLASS": "1"}, derived=True)
    assert [s.name for s in job.sections] == [
        f"{name}-{op}" for name in watch.PHASES for op in ("read", "write")
    ]
