# SPDX-License-Identifier: GPL-2.0-only
"""`tailgate tune`: what is asked, the space of settings, the search, the front, dead regions, the command."""

import json
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailgate import main as cli
from tailgate.base.errors import UsageError
from tailgate.load.loads import Loads
from tailgate.runs.flow import Flow
from tailgate.runs.histogram import Histogram
from tailgate.show import tuned
from tailgate.simulator.executor import executor
from tailgate.spec import experiment as experiments
from tailgate.spec import plan
from tailgate.spec.experiment import Mode
from tailgate.spec.plan import Run
from tailgate.tune import answer, dead, goal, workload
from tailgate.tune.evaluate import WHOLE, Given, SimulatedLoad, Wanted
from tailgate.tune.front import Candidate, dominated, front, price, profiles, sysfs
from tailgate.tune.goal import Goal, Quantity, question
from tailgate.tune.search import Budget, Search, Tried
from tailgate.tune.space import LEFT, SEARCHED, Setting, Space

FLOWS = ("rt", "background")
LATENCY = Goal(Quantity("rt", "lat_us.p99"), least=True)
RATE = Goal(Quantity("background", "iops"), least=False)
OBJECTIVES = (LATENCY, RATE)
ASKED = question(["min rt.lat_us.p99"], ["background.iops >= 0.8 * none"], FLOWS)
MEMBERS = {"rt": ["rt"], "background": ["a", "b"]}


def flow(name: str, latencies: Sequence[float], iops: float) -> Flow:
    values = np.array(sorted(latencies), dtype=float)
    histogram = Histogram(
        values, np.ones(len(values), dtype=np.int64), float(values.mean()), float(values.max())
    )
    return Flow(name=name, op="read", ios=len(latencies), iops=iops, mib_s=iops / 256, histogram=histogram)


# --- what is asked ----------------------------------------------------------------------------------------


def test_a_quantity_of_several_flows_adds_rates_and_merges_latencies() -> None:
    flows = [flow("a", [10, 20], 100), flow("b", [30, 40], 50), flow("rt", [1], 7)]
    assert Quantity("background", "iops").of(flows, MEMBERS) == 150
    assert Quantity("background", "lat_us.max").of(flows, MEMBERS) == 40
    assert Quantity("background", "lat_us.p50").of(flows, MEMBERS) == 20
    assert Quantity("rt", "lat_us.mean").of([flows[0]], MEMBERS) == float("inf")


def test_objectives_are_the_goals_and_then_what_is_kept_each_once() -> None:
    assert [str(q) for q in ASKED.quantities] == ["rt.lat_us.p99", "background.iops"]
    asked = question(
        ["max background.iops", "min rt.lat_us.p99"], ["rt.lat_us.p99 <= 500", "rt.iops >= 0.5 * k2"], FLOWS
    )
    assert [str(q) for q in asked.quantities] == ["background.iops", "rt.lat_us.p99", "rt.iops"]
    assert [g.least for g in asked.objectives] == [False, True, False]
    assert asked.references == ("none", "k2")


def test_a_limit_is_missed_by_a_share_of_it() -> None:
    [least] = ASKED.keeps
    assert least.limit({"none": 1000.0}) == 800
    assert least.missed(400, 800) == 0.5
    assert least.missed(801, 800) < 0
    [most] = question(["max rt.iops"], ["rt.lat_us.p99 <= 500"], FLOWS).keeps
    assert most.missed(750, most.limit({})) == 0.5
    assert most.missed(float("inf"), 500) > 0


@pytest.mark.parametrize(
    ("goals", "keeps", "words"),
    [
        (["min rt.p99"], [], '--goal: expected "min FLOW.FIGURE"'),
        (["least rt.iops"], [], '--goal: expected "min FLOW.FIGURE"'),
        (["min reader.iops"], [], "--goal: there is no flow reader; expected rt or background"),
        (["min rt.lat_us.p98"], [], "--goal: there is no figure lat_us.p98; expected iops, mib_s"),
        (["min rt.lat_us.p99"], [], "a goal alone has no price"),
        (["min rt.lat_us.p99"], ["background.iops > 5"], '--keep: expected "FLOW.FIGURE >= NUMBER"'),
        (["min rt.lat_us.p99"], ["background.iops >= 1.2.3"], "--keep: expected a number, got 1.2.3"),
        (["min rt.lat_us.p99"], ["rt.lat_us.p99 <= 5"], "a goal alone has no price"),
    ],
)
def test_what_is_not_asked_rightly(goals: list[str], keeps: list[str], words: str) -> None:
    with pytest.raises(UsageError) as e:
        question(goals, keeps, FLOWS)
    assert words in str(e.value)


# --- the space --------------------------------------------------------------------------------------------


def test_starts_are_defaults_first_and_then_one_knob_at_either_end() -> None:
    space = Space(["kyber", "k2"])
    starts = list(space.starts())
    assert [s["scheduler"] for s in starts[:2]] == ["kyber", "k2"]
    assert len({json.dumps(s, sort_keys=True) for s in starts}) == len(starts)
    defaults = [
        s for s in starts if all(s.get(a.name, a.start) == a.start for x in space.axes.values() for a in x)
    ]
    assert len(defaults) == 2
    assert space.defaults()[0].changed == {}


def test_values_are_in_the_order_in_which_a_knob_lets_more_pass() -> None:
    [latency, *_] = Space(["kyber"]).axes["kyber"]
    assert list(latency.values) == sorted(latency.values, key=int)
    own = {a.knob.name: a.values for a in Space(["k2"]).axes["k2"]}
    assert own["inflight_max"][0] == "auto"
    assert own["split_kib"][-1] == 0
    assert all(value % 4 == 0 for value in own["split_kib"] if isinstance(value, int))


def test_times_of_a_setting_are_dilated_and_words_are_not() -> None:
    of_kyber = Setting("kyber", {"read_lat_nsec": 50_000, "write_lat_nsec": 0}).as_scheduler("a")
    assert of_kyber.dilated == ("read_lat_nsec",)
    of_k2 = Setting("k2", {"rt_target_us": "auto", "inflight_max": 8}).as_scheduler("b")
    assert of_k2.dilated == ()
    assert Setting("kyber", {"read_lat_nsec": 50_000}).label == "kyber-50us"


def test_a_scheduler_that_is_not_searched() -> None:
    with pytest.raises(UsageError, match="--schedulers: bfq is not searched; expected none"):
        Space(["bfq"])


def test_sysfs_lines_have_what_differs_from_the_defaults() -> None:
    setting = Setting("kyber", {"read_lat_nsec": 2_000_000, "write_lat_nsec": 50_000})
    assert sysfs(setting, "sda") == [
        "echo kyber > /sys/block/sda/queue/scheduler",
        "echo 50000 > /sys/block/sda/queue/iosched/write_lat_nsec",
    ]


def test_the_queue_of_none_is_searched_and_left_alone_by_default() -> None:
    space = Space(["none"])
    assert space.defaults() == [Setting("none", {})]
    [axis] = space.axes["none"]
    assert axis.values[0] == 4
    assert axis.values[axis.start] == "default"
    [default, fewest] = space.starts()
    assert (default["none.nr_requests"], fewest["none.nr_requests"]) == (axis.start, 0)
    few = Setting("none", {"nr_requests": 8})
    assert few.as_scheduler().queue == {"nr_requests": 8}
    assert few.as_scheduler().knobs == {}
    assert sysfs(few, "sda") == [
        "echo none > /sys/block/sda/queue/scheduler",
        "echo 8 > /sys/block/sda/queue/nr_requests",
    ]


# --- the front --------------------------------------------------------------------------------------------

PAIRS = st.lists(st.tuples(st.floats(1, 1000), st.floats(1, 1000)), min_size=1, max_size=20)


def candidates(values: Sequence[tuple[float, float]]) -> list[Candidate]:
    return [Candidate(Setting("k2", {"inflight_max": i}), [v]) for i, v in enumerate(values)]


@given(PAIRS)
def test_nothing_is_much_better_than_what_is_on_the_front(values: list[tuple[float, float]]) -> None:
    every = candidates(values)
    found = front(every, OBJECTIVES)
    assert found
    kept = [c.values for c in found]
    for candidate in found:
        assert not dominated(candidate.values, kept, OBJECTIVES, 0.011)
    best = min(v[0] for v in values)
    assert min(v[0] for v in kept) <= best * 1.02 ** len(values)


@given(PAIRS)
def test_profiles_are_ends_of_the_front_and_something_between(values: list[tuple[float, float]]) -> None:
    found = front(candidates(values), OBJECTIVES)
    named = profiles(found, OBJECTIVES)
    assert named["latency"].values[0] == min(c.values[0] for c in found)
    assert named["throughput"].values[1] == max(c.values[1] for c in found)
    assert named["balanced"] in found


def test_of_two_settings_the_balanced_one_loses_less() -> None:
    found = front(candidates([(2.07, 62.4), (2.15, 73.6)]), OBJECTIVES)
    assert profiles(found, OBJECTIVES)["balanced"].values == (2.15, 73.6)


def test_differences_by_chance_make_no_front() -> None:
    found = front(candidates([(100, 1000), (100.5, 1001), (50, 995), (200, 2000)]), OBJECTIVES)
    assert [c.values for c in found] == [(50, 995), (200, 2000)]


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
    assert price((140, 100), (152, 100), OBJECTIVES) == "p99 of rt 140 us instead of 152; background ±0%"


# --- dead regions -----------------------------------------------------------------------------------------


def tried(read: int, write: int, values: tuple[float, float]) -> Tried:
    setting = Setting("kyber", {"read_lat_nsec": read, "write_lat_nsec": write})
    return Tried(setting, values, values, (0.0,), short=False)


def test_a_dead_region_is_a_box_without_anything_else_inside() -> None:
    space = Space(["kyber"])
    dull, sharp = (100.0, 50.0), (10.0, 40.0)
    found = [tried(r, w, dull) for r in (20_000, 2_000_000, 100_000_000) for w in (20_000, 1_000_000)]
    found += [tried(20_000, 100_000_000, sharp), tried(100_000_000, 100_000_000, dull)]
    [region, *_] = dead.regions(space, found)
    assert region.words == "kyber: any read_lat_nsec with write_lat_nsec from 20us to 1ms"
    assert region.tried == 6


def test_settings_that_differ_are_no_dead_region() -> None:
    found = [tried(r, 20_000, (float(r), 1.0)) for r in (20_000, 50_000, 100_000, 2_000_000)]
    assert dead.regions(Space(["kyber"]), found) == []


# --- the search -------------------------------------------------------------------------------------------


class Law(SimulatedLoad):
    """In place of the simulator a law: a low target of reads helps them, unless that of writes is low too."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.mode = Mode(duration_s=1, background_rates=(1.0,), seeds=(1,), limit_s=1)
        self.shares = (WHOLE,)
        self.left = stop_after
        self.asked: list[Wanted] = []

    def evaluate(self, wanted: Sequence[Wanted], pool: Executor) -> list[Given]:
        return [self._one(w) for w in wanted]

    def _one(self, wanted: Wanted) -> Given:
        if self.left is not None:
            if self.left == 0:
                raise KeyboardInterrupt
            self.left -= 1
        self.asked.append(wanted)
        knobs = wanted.setting.knobs
        read, write = int(knobs.get("read_lat_nsec", 10**9)), int(knobs.get("write_lat_nsec", 10**9))
        p99 = 100 + read / 1e5 if write > 20_000_000 else 10_000
        rate = 1000.0 if read > 200_000 or write <= 20_000_000 else 500.0
        noise = 1 + 0.001 * wanted.seed
        return Given((flow("rt", [p99 * noise], 1), flow("a", [1], rate)), seconds=1.0)


def searched(
    law: Law, trials: int = 30, storage: Path | None = None, seed: int = 1
) -> tuple[Search, list[Candidate]]:
    search = Search(ASKED, MEMBERS, Space(["kyber"]), law, Budget(trials, 4, seed), storage)
    with executor(1, None) as pool:
        return search, search.run(pool)


def test_the_search_finds_the_best_that_keeps_what_must_be_kept() -> None:
    search, found = searched(Law())
    done = answer.answer(search, found)
    assert done.front[0].values[0] <= 100 + 5  # at most 500 us for reads
    assert done.front[0].values[1] >= 800
    assert len(search.found) == 30
    best = done.best["kyber"]
    assert best is not None
    assert best.kept


def test_a_setting_is_tried_once() -> None:
    law = Law()
    searched(law)
    first = [w.setting.label for w in law.asked if w.seed == 1]
    assert len(set(first)) == len(first)


def test_a_search_that_was_stopped_goes_on_and_finds_the_same(tmp_path: Path) -> None:
    whole = Law()
    search, found = searched(whole)
    with pytest.raises(KeyboardInterrupt):
        searched(Law(stop_after=14), storage=tmp_path / "a")
    rest = Law()
    again, its = searched(rest, storage=tmp_path / "a")
    assert {t.setting.label for t in again.found} == {t.setting.label for t in search.found}
    assert sorted(c.values for c in its) == sorted(c.values for c in found)
    assert again.simulated_s == search.simulated_s
    # What was tried before is not tried again; the reference is.
    assert len(rest.asked) < len(whole.asked) - 8
    # With everything there, nothing is left but the reference.
    last = Law()
    searched(last, storage=tmp_path / "a")
    assert [w.setting.scheduler for w in last.asked] == ["none"]


def test_candidates_that_cannot_be_told_apart_are_repeated_to_the_last_seed() -> None:
    law = Law()
    _, found = searched(law)
    assert max(len(c.runs) for c in found) >= 3


def test_a_setting_that_is_two_profiles_is_measured_once_and_confirmed_for_both() -> None:
    search, candidates_ = searched(Law())
    found = answer.answer(search, candidates_)
    one = found.profiles[0]
    twice = replace(found, profiles=[one, replace(one, name="balanced")])
    assert list(answer.to_confirm(twice)) == ["none", "bfq", "latency"]
    told = answer.with_confirmed(twice, {"none": (200.0, 100.0), "latency": (100.0, 90.0)})
    assert [p.confirmed for p in told.profiles] == [(100.0, 90.0), (100.0, 90.0)]
    assert "confirmed_reference" in answer.to_json(told)


def test_bfq_which_is_not_simulated_stands_beside_what_was_confirmed() -> None:
    search, candidates_ = searched(Law())
    found = answer.answer(search, candidates_)
    assert not any("bfq" in sentence for sentence in tuned.sentences(found))
    told = answer.with_confirmed(found, {"none": (2000.0, 100.0), "bfq": (1500.0, 90.0)})
    [sentence] = [s for s in tuned.sentences(told) if "bfq" in s]
    assert "1.5 ms instead of 2" in sentence
    assert "−10%" in sentence
    assert answer.to_json(told)["confirmed_beside"] == {
        "bfq": dict(zip(map(str, told.question.quantities), (1500.0, 90.0), strict=True))
    }


# --- loads ------------------------------------------------------------------------------------------------

JOB = """
[global]
filename=/dev/nvme0n1
direct=1
norandommap
[backup job]
ioengine=libaio
iodepth=${DEPTH}
rw=randread
bs=64k
cpus_allowed=2
[reader]
ioengine=psync
thinktime=2ms
prioclass=1
rw=randread
bs=4k
"""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    path = tmp_path / "own.fio"
    path.write_text(JOB)
    return path


def test_a_job_file_becomes_an_experiment_with_a_flow_for_each_section(job: Path) -> None:
    spec, folder = workload.experiment_of(workload.Asked(str(job), variables={"DEPTH": "16"}))
    assert folder == job.parent
    assert spec.machine.smp == 3
    assert set(workload.members(spec)) >= {"reader", "backup-job", "rt", "background"}
    assert workload.members(spec)["background"] == ["backup-job"]


def test_a_written_experiment_is_the_one_that_was_meant(job: Path, tmp_path: Path) -> None:
    spec, folder = workload.experiment_of(workload.Asked(str(job), variables={"DEPTH": "16"}))
    settings = [Setting("none", {}), Setting("kyber", {"read_lat_nsec": 50_000, "write_lat_nsec": 100_000})]
    schedulers = [s.as_scheduler() for s in settings]
    path = workload.write(spec, schedulers, folder, tmp_path / "confirm")
    read = experiments.load(path)
    assert read.schedulers == tuple(schedulers)
    assert (read.flows, read.machine, read.queue) == (spec.flows, spec.machine, spec.queue)
    # The search is for the full load alone, and so is what confirms it.
    assert {m.background_rates for m in read.modes.values()} == {(1.0,)}
    assert {p.name for p in path.parent.iterdir()} == {"workload.toml", "own.fio"}
    # The guest's drive has a name of its own.
    assert (path.parent / "own.fio").read_text() == JOB.replace("/dev/nvme0n1", "/dev/vflash0")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (workload.Asked("kyber/table2"), "several loads: choose one with --load; expected r1"),
        (workload.Asked("kyber/table2", load="r7"), "there is no load r7; expected r1"),
        (workload.Asked("kyber/r1-w1", variables={"A": "1"}), "--variable is for a job file"),
        (workload.Asked("no/such"), "there is no experiment no/such"),
    ],
)
def test_loads_that_there_are_not(asked: workload.Asked, words: str) -> None:
    with pytest.raises(UsageError) as e:
        workload.experiment_of(asked)
    assert words in str(e.value)


# --- the command ------------------------------------------------------------------------------------------


def test_the_command_on_the_simulator(job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["tune", "--workload", str(job), "--variable", "DEPTH=8", "--out", str(tmp_path / "runs")]
    words += ["--goal", "min rt.lat_us.p99", "--keep", "background.iops >= 0.3 * none"]
    words += ["--quick", "--trials", "6", "--repeats", "1", "--schedulers", "k2,kyber", "--json"]
    assert cli.main(words) == 0
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert found["settings"] == 6
    assert set(found["profiles"]) == {"latency", "balanced", "throughput"}
    least = found["profiles"]["latency"]
    assert least["scheduler"] == "k2"
    assert least["values"]["rt.lat_us.p99"] < found["references"]["none"]["rt.lat_us.p99"]
    assert least["sysfs"][0] == "echo k2 > /sys/block/DRIVE/queue/scheduler"
    assert "latency: k2" in captured.err
    [folder] = (tmp_path / "runs" / "tune").iterdir()
    assert "What was tried, and the front" in (folder / "report.html").read_text()
    # The same command again gives the same digits.
    assert cli.main(words) == 0
    again = json.loads(capsys.readouterr().out)
    assert again == found


def test_nothing_keeps_what_must_be_kept(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["tune", "--workload", str(job), "--variable", "DEPTH=8", "--out", str(tmp_path / "runs")]
    words += ["--goal", "min rt.lat_us.p99", "--keep", "background.iops >= 3 * none"]
    assert cli.main([*words, "--quick", "--trials", "2", "--repeats", "1", "--schedulers", "kyber"]) == 1
    assert "nothing that was tried keeps what must be kept" in capsys.readouterr().err


def test_every_scheduler_that_is_searched_has_knobs_that_exist() -> None:
    for name, knobs in SEARCHED.items():
        for axis in Space([name]).axes[name]:
            assert axis.knob.name in knobs
            assert axis.values[axis.start] == (LEFT if axis.knob.default is None else axis.knob.default)
    assert goal.REFERENCE in SEARCHED


def test_the_time_of_a_guest_is_estimated_where_a_bound_is_automatic() -> None:
    spec, folder = workload.experiment_of(workload.Asked("k2/auto", load="4k-closed"))
    bound = Setting("k2", {"inflight_max": "auto"}).as_scheduler("a")
    run = Run(
        "own", spec.model_copy(update={"schedulers": (bound,)}), "quick", spec.modes["quick"], (bound,), ()
    )
    loads = Loads(run, folder / "own.toml")
    [chunk, *_] = plan.chunks(run)
    assert loads.estimate(chunk, 1.0)[0] > 0
