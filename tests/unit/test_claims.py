# SPDX-License-Identifier: GPL-2.0-only
"""What the steps of `tailgate claims` make of invented runs."""

import fnmatch
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Unpack

import pytest

from tailgate.papers import cells
from tailgate.papers.answers import read_points
from tailgate.runs import export
from tailgate.spec import experiment
from tailgate.spec.plan import Run
from tailgate.upkeep.bench.result import Result
from tailgate.upkeep.claims.lab import Answer, Lab, Options, command_line
from tailgate.upkeep.claims.quantity import INTERVAL, RUNS, exact
from tailgate.upkeep.claims.results import Figure, Source
from tailgate.upkeep.claims.steps import bounds, code, k2, probed, search, simulator, split, target

SIMULATED = ("none", "mq-deadline", "kyber", "k2-8", "k2-16", "k2-32")
SOURCE = Source("tailgate run", "sim", "virtual")
HELD_OUT = ("held-out-1", "held-out-2", "held-out-3")


class Invented(Lab):
    """A lab whose runs give the points that a function invents from the experiment and the options."""

    def __init__(
        self, points: Callable[..., Sequence[Mapping[str, Any]]], bench: Mapping[str, float] | None = None
    ) -> None:
        super().__init__()
        self._points = points
        self._bench = {name: Result(name, value, "", True, "", 400) for name, value in (bench or {}).items()}

    def run(self, experiment: str, law: tuple[str, str] | None = None, **options: Unpack[Options]) -> Answer:
        source = Source(command_line(experiment, options), "sim", "virtual", (1,), law)
        return Answer(source, tuple(self._points(experiment, **options)))

    def bench(self, kind: str, quick: bool = False, since: Sequence[str] = ()) -> dict[str, Result]:
        return self._bench

    def held_out(self, law: str, count: int) -> Iterator[tuple[str, Path, tuple[str, str]]]:
        for name in HELD_OUT[:count]:
            yield name, Path(f"{name}.toml"), (law, "1234567")


def by_id(figures: Iterable[Figure]) -> dict[str, float]:
    """Values of figures by id."""
    return {f.id: f.quantity.value for f in figures}


def test_errors_of_a_table_are_those_of_what_is_predicted(
    fake_run: Callable[..., Run], tmp_path: Path
) -> None:
    fake_run(tmp_path, name="k2/table2", mode_name="sim", schedulers=SIMULATED)
    found = simulator.errors(tmp_path)
    made = by_id(simulator.of_table("k2/table2", found, SOURCE))
    for key in ("mib_s", "lat_us.p99.9"):
        summary = found[cells.PREDICTED, key]
        assert summary.count == 12
        assert made[f"table2/sim/predicted/{key}-median-error-size"] == summary.median_size
    bias = made["table2/sim/random-reads-64-KiB/lat_us.p99.9-median-error"]
    assert bias == found["random reads, 64 KiB, K2", "lat_us.p99.9"].median
    # Every load, and all loads together; of K2 and of all schedulers; throughput and latency.
    assert len(made) == 2 + 2 * 2 * (10 + 1)


def test_the_step_of_the_papers_tables_runs_both_and_compares_digits(
    fake_run: Callable[..., Run], tmp_path: Path
) -> None:
    asked: list[str] = []

    def points(name: str, target: str, jobs: int, out: Path) -> list[dict[str, Any]]:
        asked.append(name)
        folder = out / name / "key"
        fake_run(folder, name=name, mode_name=target, schedulers=SIMULATED)
        (folder / "results.json").touch()
        (folder.parent / ".key.lock").touch()
        return [{"jobs": jobs}]

    made = list(simulator.paper_tables(Invented(points)))
    assert asked == ["k2/table2", "k2/table2", "k2/table3"]
    values = by_id(iter(made))
    assert values["repeats/sim/table2-jobs-1-and-2/different"] == 2
    assert {f.source.seeds for f in made} == {(1,)}
    assert "table3/sim/predicted/lat_us.p99.9-median-error-size" in values
    assert not any("/tmp" in f.source.command for f in made)


def test_what_lasts_is_run_six_times_from_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def run(command: list[str], **_: object) -> SimpleNamespace:
        asked.append(command)
        return SimpleNamespace(returncode=0, stdout='{"seeds": [1, 2]}')

    monkeypatch.setattr("subprocess.run", run)
    (made,) = simulator.table2_seconds(Lab())
    folders = {Path(command[command.index("--out") + 1]) for command in asked}
    assert len(folders) == len(asked) == RUNS
    assert not any(folder.exists() for folder in folders)
    assert (made.source.clock, made.quantity.how, made.quantity.n) == ("wall", INTERVAL, RUNS)
    assert made.source.seeds == (1, 2)


@pytest.mark.parametrize("last", [2, 3])
def test_the_demo_step_compares_all_its_runs(last: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In each clone the second run takes the first one's place, which keeps a name that sorts later."""
    answers = [*[2] * (2 * RUNS - 1), last]

    def run(command: list[str], cwd: Path | None = None, **_: object) -> None:
        if "make" in command and cwd:
            folder = cwd / "runs/k2/fig8/1a2b3c"
            if folder.is_dir():
                folder.rename(f"{folder}.previous")
            folder.mkdir(parents=True)
            (folder / "results.json").write_text(json.dumps({"points": [answers.pop(0)]}))

    monkeypatch.setattr("subprocess.run", run)
    monkeypatch.setattr("tailgate.guest.kvm.works", lambda: False)
    assert by_id(code.demo(Lab()))["repeats/vm/demo/different"] == (1 if last == 2 else 2)


@pytest.mark.parametrize("answers", [[1, 1, 1], [1, 1, 2], [1, 2, 1], [1, 2, 3]])
def test_each_repetition_counts(answers: list[int]) -> None:
    """A repetition that differs is not outvoted by two equal ones."""
    left = list(answers)
    (made,) = k2.same_digits(Invented(lambda *_, **__: [{"value": left.pop(0)}]))
    assert (made.quantity.value, made.quantity.n) == (len(set(answers)), 3)


def test_splitting_compares_three_ways_beside_512_kib(fake_run: Callable[..., Run], tmp_path: Path) -> None:
    asked: list[str] = []

    def invented(name: str, schedulers: Sequence[str], **options: Any) -> list[dict[str, Any]]:
        asked.append(name)
        folder = tmp_path / str(len(asked))
        (loads,) = options.get("loads", ("*",))
        # the same loads as fig5's, but for the sizes between
        run = fake_run(
            folder, name=name.replace("fig5", "section5-1"), mode_name="sim", schedulers=schedulers
        )
        _, points = read_points(folder, run)
        points = [p for p in points if fnmatch.fnmatch(p.sweep.label or "", loads)]
        told: list[dict[str, Any]] = json.loads(json.dumps(export.to_json(run, points)))["points"]
        for point in told:
            way = 10 if point["knobs"]["split_kib"] else 20 if point["knobs"]["max_sectors_kb"] == 4 else 40
            for f in point["flows"]:
                f["lat_us"]["p99"] = way * (1 + point["sweep"]["block_size_kib"] / 5120)
        return told

    made = by_id(split.splitting(Invented(invented)))
    assert asked == ["k2-split/fig5", "k2-split/section5-1", *["k2-split/table3"] * 2]
    for where in ("sim", "vm"):
        start = f"split/{where}/random-read"
        assert made[f"{start}/p99-of-k2-over-split"] == pytest.approx(4)
        assert made[f"{start}/p99-of-max-sectors-over-split"] == pytest.approx(2)
        assert made[f"{start}/p99-largest-over-least-size"] == pytest.approx(1.1 / (1 + 4 / 5120))
    table = {key: value for key, value in made.items() if key.startswith("split-table3")}
    assert len(table) == 9
    assert set(table.values()) == {4}
    assert "split-table3/vm/random-read/rt-64k/p99-of-k2-over-split" in table


def test_automatic_compares_modes_under_the_same_load(fake_run: Callable[..., Run], tmp_path: Path) -> None:
    def invented(name: str, target: str, **options: object) -> list[dict[str, Any]]:
        folder = tmp_path / target
        run = fake_run(folder, name=name, mode_name="quick")
        _, points = read_points(folder, run)
        told: list[dict[str, Any]] = json.loads(json.dumps(export.to_json(run, points)))["points"]
        p99 = {"no-pause": 1500.0, "pauses": 1400.0, "bursts": 5000.0, "bursts-deep": 6000.0}
        mib_s = {"none": 85.0, "k2-split-4": 4.0, "k2-auto-2ms": 24.0 if target == "vm" else 19.0}
        for point in told:
            for f in point["flows"]:
                alone = point["sweep"]["background_rate"] == 0
                f["lat_us"]["p99"] = 1000.0 if alone else p99.get(point["load"], 0.0)
                f["mib_s"] = mib_s.get(point["label"], 83.0)
                if point["load"] == "alone" and point["label"] == "k2-auto-2ms":
                    f["mib_s"] = 82.0
        return told

    made = by_id(split.automatic(Invented(invented)))
    for where, growth in (("sim", 4.75), ("vm", 6.0)):
        start = f"split-auto/{where}"
        assert made[f"{start}/no-pause/p99-over-always"] == made[f"{start}/pauses/p99-over-always"] == 1
        assert made[f"{start}/alone/k2-auto-4/background-over-none"] == pytest.approx(83 / 85)
        assert made[f"{start}/alone/k2-auto-2ms/background-over-none"] == pytest.approx(82 / 85)
        assert made[f"{start}/target-2ms/p99-less-idle-us"] == 500
        assert made[f"{start}/target-2ms/background-over-always"] == growth
    assert made["split-auto/sim/bursts-deep/k2-auto-4/p99-us"] == 6000
    assert not any(key.startswith("split-auto/vm/bursts") for key in made)


def test_controls_are_compared_at_no_less_background() -> None:
    """A setting with too little does not count; a control that has none with enough has no such figure."""
    figures = {"ahead-auto": (400.0, 100.0), "mq-deadline-16": (399.0, 100.0)}
    figures |= {"mq-deadline": (550.0, 3000.0), "kyber-1us": (400.0, 150.0)}
    asked: list[str] = []

    def invented(name: str, schedulers: Sequence[str], **_: object) -> list[dict[str, Any]]:
        asked.extend(schedulers)
        points = []
        for label in asked:
            mib_s, us = figures.get(label, (300.0, 50.0))
            flows = [{"flow": "background", "mib_s": mib_s}, {"flow": "rt", "lat_us": {"p99": us}}]
            points.append({"label": label, "flows": flows})
        return points

    made = by_id(k2.controls(Invented(invented)))
    known = {s.label for s in experiment.load(experiment.find("k2/controls")).schedulers}
    assert set(asked) <= known
    assert made["controls/vm/4k/mq-deadline/p99-over-ahead"] == 30
    assert made["controls/vm/4k/kyber/p99-over-ahead"] == 1.5
    assert made["controls/vm/4k/io.max/background-over-ahead"] == 0.75
    assert "controls/vm/4k/io.max/p99-over-ahead" not in made


def test_who_waits_for_a_file_system_is_told_apart_by_the_floor() -> None:
    def point(floor: int, seconds: float) -> dict[str, object]:
        return {
            "knobs": {"be_floor_iops": floor},
            "sweep": {"file_system": "xfs"},
            "blocked": {"task": "fio", "us": seconds * 1e6},
        }

    made = by_id(k2.inversion(Invented(lambda *_, **__: [point(0, 2), point(400, 1.5)])))
    assert made == {"inversion/vm/xfs/no-floor/blocked-s": 2, "inversion/vm/xfs/floor/blocked-s": 1.5}


def test_preempt_rt_is_measured_beside_the_ordinary_kernels() -> None:
    asked: list[str] = []

    def invented(name: str, kernel: str, **_: object) -> list[dict[str, Any]]:
        asked.append(kernel)
        flows = [
            {"flow": "background", "mib_s": 400},
            {"flow": "rt", "lat_us": {"p50": 1, "p99": 2 + ("-rt" in kernel)}},
        ]
        point = {"scheduler": "k2", "smp": 1, "knobs": {"inflight_max": 8}, "flows": flows}
        return [{**point, "sweep": {"background_rate": 1}}]

    made = by_id(k2.preempt_rt(Invented(invented)))
    assert asked == ["stable", "stable-rt", "backports", "backports-rt"]
    assert list(made.values()) == [1, 1, 1.5] * 2


def test_switched_off_is_skipped_without_the_commit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = {"instructions_per_io.k2.qd1.6_1": 5000.0, "instructions_per_io.k2_since.201bcde.qd1.6_1": 101}
    lab = Invented(lambda *_: [], figures)
    monkeypatch.setattr(code, "has_commit", lambda _: True)
    (made,) = code.switched_off(lab)
    assert (made.id, made.quantity) == ("switched-off/201bcde/qd1.6_1", exact(101, 400))
    assert {f.quantity.n for f in code.instructions(lab)} == {400}
    monkeypatch.setattr(code, "has_commit", lambda _: False)
    assert not list(code.switched_off(lab))
    assert "skipped" in capsys.readouterr().err


def test_many_cpus_are_of_the_model_or_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """What explains them, transfers of cache lines and runs of queues, is no figure; runs in vain are."""
    figures = {
        "scale_model.transfers.k2.cpus2": 34.0,
        "scale_model_fig10.runs.wheel.cpus32": 0.7,
        "scale_model_fig10.vain_runs.wheel.cpus32": 0.2,
        "scale_model_whole.none.cpus16": 4e6,
        "scale_model_whole.mqfq_d128.cpus16": 3e6,
        "scale_model_whole.mqfq_d128.cpus32": 4e6,
        "scale_model_whole.mqfq_one_lock.cpus32": 2e6,
    }
    made = {f.id: f.source.target for f in code.scalability(Invented(lambda *_: [], figures))}
    assert made["bench/scale/scale_model_fig10.vain_runs.wheel.cpus32"] == "model"
    assert made["scale/model/cpus-32/mqfq-over-mqfq_one_lock"] == "model"
    assert not [name for name in made if ".transfers." in name or ".runs." in name]
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(16))
    on_threads = list(code.threads(Invented(lambda *_: [], {"threads.k2.cpus2": 7.0})))
    assert {f.source.target for f in on_threads} == {"host"}
    assert by_id(iter(on_threads)) == {"bench/threads/threads.k2.cpus2": 7, "bench/threads/cpus": 16}


def _arrivals_point(load: str, label: str, mib_s: float, us: float) -> dict[str, Any]:
    rt1 = {"flow": "rt1", "lat_us": {"p99": us, "p99.9": 2 * us}}
    rt2 = {"flow": "rt2", "lat_us": {"p99": us - 1, "p99.9": 2 * us - 1}}
    return {"load": load, "label": label, "flows": [{"flow": "background", "mib_s": mib_s}, rt1, rt2]}


def test_ahead_is_held_against_the_fixed_bounds_that_are_as_good() -> None:
    points = [
        _arrivals_point("periodic", label, mib_s, us)
        for label, mib_s, us in (
            ("none", 500, 3000),
            ("k2-8kib", 90, 130),
            ("k2-16kib", 170, 200),
            ("k2-24kib", 240, 200.5),
            ("k2-256kib", 360, 500),
            ("ahead-auto", 340, 200),
            ("placebo", 400, 250),
        )
    ]
    points += [
        _arrivals_point("poisson", label, mib_s, us)
        for label, mib_s, us in (
            ("none", 500, 3000), ("k2-8kib", 90, 130), ("k2-64kib", 400, 400), ("ahead-auto", 390, 404),
        )
    ]  # fmt: skip
    made = by_id(bounds.arrivals_on("970evo", ("periodic", "poisson"), Answer(SOURCE, tuple(points))))
    start = "arrivals/sim/970evo/periodic/ahead-auto/"
    assert made[f"{start}background-at-no-higher-p99"] == made[f"{start}background-at-no-higher-p99.9"] == 2
    assert made[f"{start}p99-at-no-less-background"] == 2.5, "256 KiB has more background and 500 us"
    assert made[f"{start}gain-over-placebo"] == 1.25, "it has more background, and a higher p99"
    start = "arrivals/sim/970evo/poisson/ahead-auto/"
    assert made[f"{start}background-at-no-higher-p99.9"] == 0.975
    assert f"{start}gain-over-placebo" not in made
    points[5]["flows"][1]["lat_us"] = points[5]["flows"][2]["lat_us"] = {"p99": 129, "p99.9": 129}
    alone = by_id(bounds.arrivals_on("noisy", ("periodic",), Answer(SOURCE, tuple(points))))
    start = "arrivals/sim/noisy/periodic/ahead-auto/"
    assert f"{start}background-at-no-higher-p99" not in alone
    assert alone[f"{start}background-over-8kib-p99"] == pytest.approx(340 / 90)
    assert alone[f"{start}p99-at-no-less-background"] == pytest.approx(500 / 129)


def test_a_fixed_bound_that_is_better_in_both_shows() -> None:
    """Where no fixed bound has so low a latency, equal background is what can still be lost."""
    points = {
        label: _arrivals_point("periodic", label, mib_s, us)
        for label, mib_s, us in (("none", 500, 3000), ("k2-8kib", 400, 180), ("ahead-auto", 340, 200))
    }
    made = by_id(bounds.beside_fixed(Answer(SOURCE, ()), "x", points, "ahead-auto", ("rt1",), "p99"))
    assert made["x/p99-at-no-less-background"] == 0.9
    assert made["x/background-at-no-higher-p99"] == 0.85


def test_a_bound_with_more_background_than_all_others_has_none_to_be_compared_with() -> None:
    """Beside none, with less background and a long latency, it would look better than it is."""
    points = {
        label: _arrivals_point("periodic", label, mib_s, us)
        for label, mib_s, us in (("none", 339, 3000), ("k2-8kib", 300, 180), ("ahead-auto", 340, 200))
    }
    made = by_id(bounds.beside_fixed(Answer(SOURCE, ()), "x", points, "ahead-auto", ("rt1",), "p99"))
    assert made == {"x/background-at-no-higher-p99": pytest.approx(340 / 300)}


def test_whether_a_target_is_in_reach_is_decided_by_fixed_bounds() -> None:
    """K2's own results do not decide it. Drives are the known ones and those drawn since."""
    known = {s.label for s in experiment.load(experiment.find("k2/target")).schedulers}
    asked: list[str] = []

    def point(load: str, label: str, mib_s: float, us: float) -> dict[str, Any]:
        flows = [{"flow": "background", "mib_s": mib_s}, {"flow": "rt1", "lat_us": {"p99": us}}]
        return {"load": load, "label": label, "flows": flows}

    def invented(name: str, schedulers: Sequence[str], **options: Any) -> list[dict[str, Any]]:
        assert set(schedulers) <= known
        if "target" not in options:
            return [
                point(load, label, mib_s, us)
                for load in options["loads"]
                for label, mib_s, us in (("k2-40kib", 340, 280), ("target-300", 300, 331))
            ]
        assert not any(label.endswith("-ahead") for label in schedulers)
        asked.append(options["drive"])
        figures = [("none", 550, 3000), ("k2-8kib", 90, 166), ("k2-40kib", 340, 280)]
        figures += [("target-150", 50, 200), ("target-300", 360, 334), ("target-200", 100, 165)]
        figures += [("target-100", 40, 105), ("target-4000", 400, 400)]
        return [point("changing", *figure) for figure in figures]

    lab = Invented(invented)
    made = by_id([*target.target(lab), *target.target_in_guest(lab)])
    assert asked == ["970evo", "noisy", *(f"{name}.toml" for name in HELD_OUT)]
    for drive in ("970evo", "noisy", *HELD_OUT):
        start = f"target/sim/{drive}/changing"
        assert made[f"{start}/target-150/p99-off-out-of-reach"] == pytest.approx(1 / 3)
        assert f"{start}/target-150/p99-off" not in made
        assert f"{start}/target-100/p99-off" not in made, "that it was met does not decide"
        assert made[f"{start}/target-300/p99-off"] == pytest.approx(334 / 300 - 1)
        assert made[f"{start}/target-300/background-at-no-higher-p99"] == pytest.approx(360 / 340)
        assert made[f"{start}/target-200/p99-off-below"] == pytest.approx(165 / 200 - 1)
        assert made[f"{start}/target-4000/p99-off"] == pytest.approx(-0.9)
        assert f"{start}/target-4000/p99-off-below" not in made, "none is below it too"
        assert made[f"{start}/target-200/background-over-8kib"] == pytest.approx(100 / 90)
    assert made["target/vm/970evo/poisson/target-300/p99-off"] == pytest.approx(331 / 300 - 1)
    assert made["target/vm/970evo/clock/target-300/background-over-40kib"] == pytest.approx(300 / 340)


def test_each_number_of_a_probed_drive_stands_beside_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Path, str, bool]] = []

    def probe(drive: Path, target: str, writes: bool, out: Path, *_: object) -> None:
        asked.append((drive, target, writes))
        text = drive.read_text()
        value = re.search(r"\[parameters.read_ns\]\s*value = (\d+)", text)
        assert value
        out.write_text(text.replace(value[0], value[0].replace(value[1], str(2 * int(value[1])))))

    monkeypatch.setattr("tailgate.fitting.command.calibrate", probe)
    monkeypatch.setattr("tailgate.show.fitted.show", lambda *_: None)
    monkeypatch.setattr("tailgate.upkeep.claims.lab.KEPT", tmp_path)
    monkeypatch.setattr(probed, "DRIVES", 2)
    made = list(probed.calibrate_probed(Lab()))
    values = by_id(iter(made))
    assert [(drive.stem, target, writes) for drive, target, writes in asked] == [
        ("held-out-1", "vm", True),
        ("held-out-2", "vm", True),
    ]
    assert values["calibrate/vm/held-out-1/read_ns/fitted-over-own"] == 2
    assert values["calibrate/vm/held-out-2/program_ns/fitted-over-own"] == 1
    assert values["calibrate/vm/held-out-2/admission/off"] == 0
    assert values["calibrate/vm/held-out-2/recovered"] == len(probed.RECOVERED) - 1
    assert {f.source.law and f.source.law[0] for f in made} == {probed.LAW}


@pytest.mark.parametrize(("needed", "found"), [(80, 91), (80, 108), (150, 91)])
def test_auto_is_compared_with_the_smallest_d_that_is_enough(
    needed: int, found: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = ("none", "mqfq", "mqfq-auto-d", "mqfq-auto-t", "mqfq-auto")
    monkeypatch.setattr(search, "told", lambda *_: dict.fromkeys(labels))
    # Throughput in percent of the drive's peak: it grows with D up to 97 at D = `needed`, and then to 100.
    monkeypatch.setattr(search, "mib_s", lambda _, d=512: min(100.0, 97.0 * d / needed))
    monkeypatch.setattr(
        "tailgate.simulator.simulation.simulate", lambda _: SimpleNamespace(found={"d": found, "t_kib": 4})
    )
    made = list(search.mqfq_auto(Invented(lambda *_: [])))
    values = by_id(iter(made))
    for drive in ("970evo", "p3700", "nvmf", *HELD_OUT[:2]):
        assert values[f"mqfq-auto/sim/{drive}/least-d"] == needed
        assert values[f"mqfq-auto/sim/{drive}/d-after-20-s-over-least"] == found / needed
    laws = {f.source.law for f in made if "held-out" in f.id}
    assert laws == {(search.LAW, "1234567")}
