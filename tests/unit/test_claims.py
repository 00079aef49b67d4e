# SPDX-License-Identifier: GPL-2.0-only
"""What is claimed of the paper's tables, from invented runs."""

import fnmatch
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tailgate.papers import cells
from tailgate.papers.answers import read_points
from tailgate.runs import export
from tailgate.spec import experiment
from tailgate.spec.plan import Run
from tailgate.upkeep import claims

SIMULATED = ("none", "mq-deadline", "kyber", "k2-8", "k2-16", "k2-32")


def test_errors_of_a_table_are_judged_by_what_is_predicted(
    fake_run: Callable[..., Run], tmp_path: Path
) -> None:
    fake_run(tmp_path, name="k2/table2", mode_name="sim", schedulers=SIMULATED)
    found = claims.errors(tmp_path)
    made = {c.claim: c for c in claims.of_table("k2/table2", found)}
    judged = [c for c in made.values() if c.bound != "stated"]
    assert [(c.bound, c.target) for c in judged] == [("<= 0.15", "sim"), ("<= 0.25", "sim")]
    for claim, key in zip(judged, ("mib_s", "lat_us.p99.9"), strict=True):
        summary = found[cells.PREDICTED, key]
        assert summary.count == 12
        assert claim.value == pytest.approx(summary.median_size, abs=1e-3)
        assert claim.holds == (summary.median_size <= float(claim.bound.split()[1]))
    bias = made["k2/table2: random reads, 64 KiB, K2: p99.9: median error"]
    assert bias.value == pytest.approx(found["random reads, 64 KiB, K2", "lat_us.p99.9"].median, abs=1e-3)
    # every load, all loads together; throughput and latency
    assert len(made) == 2 + 2 * (10 + 1)


def test_the_tables_step_runs_both_and_compares_digits(
    fake_run: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []

    def run_experiment(*arguments: str) -> dict[str, object]:
        asked.append(arguments)
        folder = Path(arguments[-1]) / arguments[0] / "key"
        fake_run(folder, name=arguments[0], mode_name="sim", schedulers=SIMULATED)
        (folder / "results.json").touch()
        (folder.parent / ".key.lock").touch()
        return {"points": [arguments[4]]}

    monkeypatch.setattr(claims, "run_experiment", run_experiment)
    made = {c.claim: c for c in claims.tables()}
    assert [a[0] for a in asked] == ["k2/table2", "k2/table2", "k2/table3"]
    assert not made["k2/table2 on 1 and on 2 processes gives the same digits"].holds
    assert made["k2/table2 on 2 processes, seconds"].bound == "<= 120"
    assert "k2/table3: all random reads, and reads and writes, K2: p99.9: median of the errors' sizes" in made


def test_a_step_replaces_its_claims_and_keeps_the_others() -> None:
    commands = {"a": "make", "b": "run", "c": "make", "x": "run"}
    old = [claims.stated(name, 1, command) for name, command in commands.items()]
    new = [claims.stated(name, 2, "run") for name in ("d", "b")]
    found = [(c.claim, c.value) for c in claims.replaced(old, new)]
    assert found == [("a", 1), ("b", 2), ("c", 1), ("d", 2)], "x is not what this command says any more"


@pytest.mark.parametrize("second", [2, 3])
def test_the_demo_step_compares_its_two_runs(second: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second run lies where the first did, which is kept beside it under a name that sorts behind."""
    answers = [2, second]

    def run(command: list[str], cwd: Path | None = None, **_: object) -> None:
        if command[0] == "make" and cwd:
            folder = cwd / "runs/k2/fig8/1a2b3c"
            if folder.is_dir():
                folder.rename(f"{folder}.previous")
            folder.mkdir(parents=True)
            (folder / "results.json").write_text(json.dumps({"points": [answers.pop(0)]}))

    monkeypatch.setattr("subprocess.run", run)
    same = next(c for c in claims.demo() if c.claim.endswith("same digits"))
    assert same.holds == (second == 2)


def test_splitting_compares_three_ways_beside_512_kib(
    fake_run: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def run_experiment(name: str, *arguments: str) -> dict[str, object]:
        asked.append(name)
        folder = tmp_path / str(len(asked))
        loads = arguments[arguments.index("--loads") + 1] if "--loads" in arguments else "*"
        schedulers = arguments[arguments.index("--schedulers") + 1].split(",")
        # the same loads as fig5's, but for the sizes between
        run = fake_run(
            folder, name=name.replace("fig5", "section5-1"), mode_name="sim", schedulers=schedulers
        )
        _, points = read_points(folder, run)
        points = [p for p in points if fnmatch.fnmatch(p.sweep.label or "", loads)]
        told: dict[str, object] = json.loads(json.dumps(export.to_json(run, points)))
        for point in told["points"]:  # type: ignore[attr-defined]
            way = 10 if point["knobs"]["split_kib"] else 20 if point["knobs"]["max_sectors_kb"] == 4 else 40
            for f in point["flows"]:
                f["lat_us"]["p99"] = way * (1 + point["sweep"]["block_size_kib"] / 5120)
        return told

    monkeypatch.setattr(claims, "run_experiment", run_experiment)
    made = list(claims.splitting())
    assert asked == ["k2-split/fig5", "k2-split/section5-1", *["k2-split/table3"] * 2]
    assert [c.value for c in made[:3]] == [pytest.approx(v, abs=1e-3) for v in (4, 2, 1.1 / (1 + 4 / 5120))]
    assert [c.holds for c in made[:6]] == [True, False, True] * 2
    assert [c.target for c in made] == ["sim"] * 3 + ["vm"] * 3 + ["sim"] * 8 + ["vm"]
    assert {(c.value, c.bound) for c in made[6:]} == {(4, ">= 1.8")}
    assert made[-1].claim.endswith("random reads, real-time 64 KiB: p99 of k2 over k2 that splits (vm)")


def test_automatic_compares_modes_under_the_same_load(
    fake_run: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_experiment(name: str, *arguments: str) -> dict[str, object]:
        folder = tmp_path / arguments[1]
        run = fake_run(folder, name=name, mode_name="quick")
        _, points = read_points(folder, run)
        told: dict[str, object] = json.loads(json.dumps(export.to_json(run, points)))
        p99 = {"no-pause": 1500.0, "pauses": 1400.0, "bursts": 5000.0, "bursts-deep": 6000.0}
        mib_s = {"none": 85.0, "k2-split-4": 4.0, "k2-auto-2ms": 24.0 if arguments[1] == "vm" else 19.0}
        for point in told["points"]:  # type: ignore[attr-defined]
            for f in point["flows"]:
                alone = point["sweep"]["background_rate"] == 0
                f["lat_us"]["p99"] = 1000.0 if alone else p99.get(point["load"], 0.0)
                f["mib_s"] = mib_s.get(point["label"], 83.0)
                if point["load"] == "alone" and point["label"] == "k2-auto-2ms":
                    f["mib_s"] = 82.0
        return told

    monkeypatch.setattr(claims, "run_experiment", run_experiment)
    made = list(claims.automatic())
    for target, growth, holds in (("sim", 4.75, False), ("vm", 6.0, True)):
        here = [c for c in made if c.target == target]
        bursts = [5000, 5000, 6000, 6000] if target == "sim" else []
        wanted = [1, 1, *bursts, 83 / 85, 82 / 85, 500, growth]
        assert [c.value for c in here] == [pytest.approx(v, abs=1e-3) for v in wanted]
        assert [c.holds for c in here][-4:] == [True, False, True, holds]


def test_controls_are_judged_at_no_less_background(monkeypatch: pytest.MonkeyPatch) -> None:
    """One with too little of it does not count; a control without any setting that has enough says so."""
    figures = {"ahead-auto": (400.0, 100.0), "mq-deadline-16": (399.0, 100.0)}
    figures |= {"mq-deadline": (550.0, 3000.0), "kyber-1us": (400.0, 150.0)}
    asked: list[str] = []

    def run_experiment(name: str, *arguments: str) -> dict[str, object]:
        asked.extend(arguments[-1].split(","))
        points = []
        for label in asked:
            mib_s, us = figures.get(label, (300.0, 50.0))
            flows = [{"flow": "background", "mib_s": mib_s}, {"flow": "rt", "lat_us": {"p99": us}}]
            points.append({"label": label, "flows": flows})
        return {"points": points}

    monkeypatch.setattr(claims, "run_experiment", run_experiment)
    made = {c.claim.removeprefix("k2/controls, 4 KiB, ").partition(":")[0]: c for c in claims.controls()}
    known = {s.label for s in experiment.load(experiment.find("k2/controls")).schedulers}
    assert set(asked) <= known
    judged = made["mq-deadline"]
    assert (judged.value, judged.bound, judged.holds) == (30, ">= 2", True)
    assert (made["kyber"].value, made["kyber"].holds) == (1.5, False)
    assert (made["io.max"].value, made["io.max"].bound, made["io.max"].holds) == (0.75, "<= 1", True)
    assert set(made) == set(claims.CONTROLS)


def test_who_waits_for_a_file_system_is_judged_with_a_floor_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def point(scheduler: str, floor: int, seconds: float) -> dict[str, object]:
        return {
            "scheduler": scheduler,
            "knobs": {"be_floor_iops": floor},
            "sweep": {"file_system": "xfs"},
            "blocked": {"task": "fio", "us": seconds * 1e6},
        }

    points = [point("k2", 0, 2), point("k2", 400, 1.5)]
    monkeypatch.setattr(claims, "run_experiment", lambda *arguments: {"points": points})
    without, judged = claims.inversion()
    assert (without.value, without.bound, without.holds) == (2, "stated", True)
    assert (judged.value, judged.bound, judged.holds) == (1.5, "<= 1", False)
    assert judged.claim == "k2/inversion: longest time a task was blocked, seconds, k2-8 with floor, xfs"


def test_preempt_rt_is_measured_beside_the_ordinary_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def run_experiment(name: str, *arguments: str) -> dict[str, object]:
        asked.append(arguments[1])
        flows = [
            {"flow": "background", "mib_s": 400},
            {"flow": "rt", "lat_us": {"p50": 1, "p99": 2 + ("-rt" in arguments[1])}},
        ]
        point = {"scheduler": "k2", "smp": 1, "knobs": {"inflight_max": 8}, "flows": flows}
        return {"points": [{**point, "sweep": {"background_rate": 1}}]}

    monkeypatch.setattr(claims, "run_experiment", run_experiment)
    made = list(claims.preempt_rt())
    assert asked == ["stable", "stable-rt", "backports", "backports-rt"]
    assert [c.value for c in made] == [1, 1, 1.5] * 2
    assert {c.bound for c in made} == {"stated"}


def test_switched_off_is_skipped_without_the_commit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = {"instructions_per_io.k2.qd1.6_1": 5000, "instructions_per_io.k2_since.201bcde.qd1.6_1": 101}
    monkeypatch.setattr(claims, "bench", lambda *_: figures)
    monkeypatch.setattr(claims, "has_commit", lambda _: True)
    [made] = claims.switched_off()
    assert (made.value, made.bound, made.holds) == (101, "<= 100", False)
    monkeypatch.setattr(claims, "has_commit", lambda _: False)
    assert not list(claims.switched_off())
    assert "skipped" in capsys.readouterr().err


def _arrivals_point(load: str, label: str, mib_s: float, us: float) -> dict[str, Any]:
    rt1 = {"flow": "rt1", "lat_us": {"p99": us, "p99.9": 2 * us}}
    rt2 = {"flow": "rt2", "lat_us": {"p99": us - 1, "p99.9": 2 * us - 1}}
    return {"load": load, "label": label, "flows": [{"flow": "background", "mib_s": mib_s}, rt1, rt2]}


def test_ahead_is_held_against_the_fixed_bounds_that_are_as_good(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        _arrivals_point("periodic", label, mib_s, us)
        for label, mib_s, us in (
            ("none", 500, 3000),
            ("k2-8kib", 90, 130),
            ("k2-16kib", 170, 200),
            ("k2-24kib", 240, 200.5),
            ("ahead-auto", 340, 200),
            ("placebo", 400, 100),
        )
    ]
    points += [
        _arrivals_point("poisson", label, mib_s, us)
        for label, mib_s, us in (("k2-8kib", 90, 130), ("k2-64kib", 400, 400), ("ahead-auto", 390, 404))
    ]
    monkeypatch.setattr(claims, "run_experiment", lambda *arguments: {"points": points})
    made = {c.claim: c for c in claims.arrivals_on("970evo", ("periodic", "poisson"), "k2/arrivals")}
    start = "k2/arrivals on sim, 970evo, periodic, ahead-auto: "
    assert made[f"{start}background over the most of a fixed bound on bytes with no higher p99"].value == 2
    assert made[f"{start}background over the most of a fixed bound on bytes with no higher p99.9"].value == 2
    assert not made[f"{start}p99 over the placebo's"].holds
    start = "k2/arrivals on sim, 970evo, poisson, ahead-auto: "
    claim = made[f"{start}background over the most of a fixed bound on bytes with no higher p99.9"]
    assert claim.holds
    assert claim.value == 0.975
    assert {c.command for c in made.values()} == {"tailgate run k2/arrivals --target sim"}
    points[4]["flows"][1]["lat_us"] = points[4]["flows"][2]["lat_us"] = {"p99": 129, "p99.9": 129}
    alone = {c.claim: c for c in claims.arrivals_on("970evo", ("periodic",), "k2/arrivals")}
    start = "k2/arrivals on sim, 970evo, periodic, ahead-auto: "
    what = "background over that of 8 KiB, as no fixed bound on bytes has so low a p99"
    assert alone[start + what].value == pytest.approx(340 / 90, abs=1e-3)
    elsewhere = {c.claim: c for c in claims.arrivals_on("noisy", ("periodic",), "k2/arrivals")}
    what = "background over that of 8 KiB, as no fixed bound on bytes has so low a p99"
    start = start.replace("970evo", "noisy")
    assert elsewhere[start + what].bound == ">= 1"
    assert elsewhere[f"{start}{what}.9"].bound == ">= 1"
    assert elsewhere[f"{start}p99.9 over the placebo's"].bound == "stated"


def test_a_target_is_held_to_a_tenth_on_each_drive(monkeypatch: pytest.MonkeyPatch) -> None:
    """But where the miss is before K2, and where no fixed bound has so low a p99; in guests three points."""
    known = {s.label for s in experiment.load(experiment.find("k2/target")).schedulers}
    drives: list[str] = []

    def point(load: str, label: str, mib_s: float, us: float) -> dict[str, object]:
        flows = [{"flow": "background", "mib_s": mib_s}, {"flow": "rt1", "lat_us": {"p99": us}}]
        return {"load": load, "label": label, "flows": flows}

    def run_experiment(name: str, *arguments: str) -> dict[str, object]:
        labels = set(arguments[arguments.index("--schedulers") + 1].split(","))
        assert labels <= known
        if "sim" not in arguments:
            loads = arguments[arguments.index("--loads") + 1].split(",")
            return {
                "points": [
                    point(load, label, mib_s, us)
                    for load in loads
                    for label, mib_s, us in (("k2-40kib", 340, 280), ("target-300", 300, 331))
                ]
            }
        assert not any(label.endswith("-ahead") for label in labels)
        drives.append(arguments[arguments.index("--drive") + 1])
        figures = [("none", 550, 3000), ("k2-8kib", 90, 160), ("k2-40kib", 340, 280)]
        figures += [("target-150", 50, 155), ("target-300", 360, 334)]
        return {"points": [point("changing", *figure) for figure in figures]}

    monkeypatch.setattr(claims, "run_experiment", run_experiment)
    made = {c.claim: c for c in claims.target()}
    assert drives == ["970evo", *claims.UNSEEN]
    off = "p99 over the target, less 1"
    for drive in drives:
        of = f"k2/target on sim, {drive}, changing"
        assert made[f"{of}, target-150: {off}"].bound == "stated"
        judged = made[f"{of}, target-300: {off}"]
        assert (judged.bound, judged.holds) == (
            ("stated", True) if drive == "unseen-1" else ("<= 0.1", False)
        )
        share = made[
            f"{of}, target-300: background over the most of a fixed bound on bytes with no higher p99"
        ]
        assert share.value == pytest.approx(360 / 340, abs=1e-3)
    guest = made[f"k2/target on vm, poisson, target-300: {off}"]
    assert (guest.value, guest.holds) == (0.103, False)
    assert not made["k2/target on vm, clock, target-300: background over that of 40 KiB"].holds


@pytest.mark.parametrize(("needed", "found", "holds"), [(80, 91, True), (80, 108, False), (150, 91, False)])
def test_auto_is_compared_with_the_smallest_d_that_is_enough(
    needed: int, found: int, holds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "AUTO_DRIVES", ("970evo",))
    labels = ("none", "mqfq", "mqfq-auto-d", "mqfq-auto-t", "mqfq-auto")
    monkeypatch.setattr(claims, "told_auto", lambda *_: dict.fromkeys(labels))
    # Throughput in percent of the drive's peak: it grows with D up to 97 at D = `needed`, and then to 100.
    monkeypatch.setattr(claims, "auto_mib_s", lambda _, d=512: min(100.0, 97.0 * d / needed))
    monkeypatch.setattr(
        "tailgate.simulator.simulation.simulate", lambda _: SimpleNamespace(found={"d": found})
    )
    made = list(claims.mqfq_auto())
    assert made[0].value == needed
    assert all(c.holds for c in made if " over that" in c.claim) == holds
