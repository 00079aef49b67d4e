# SPDX-License-Identifier: GPL-2.0-only
"""The programs of sim/scale lose no request and notice a lost one; the model of CPUs keeps its own laws."""

import json
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from tests.unit.programs import built_once, mutate

from tailgate.base.errors import UsageError
from tailgate.base.paths import ROOT
from tailgate.main import main
from tailgate.simulator import simulation
from tailgate.upkeep import bench
from tailgate.upkeep.bench import scale, simulator, threads
from tailgate.upkeep.bench.result import Result
from tailgate.upkeep.bench.scale import CONTENDERS, FAIR, PARTS, Contender, Costs

K2, BOUNDED, DEADLINE = CONTENDERS
#: With a small D, so that queues wait for tokens.
REPLACED = {f: {c.name: replace(c, bound=8) for c in scale.figure(f)} for f in PARTS}
ALL = (*CONTENDERS, *FAIR[:-1], *(c for f in REPLACED.values() for c in f.values() if c.queue != "mqfq"))
US = 1000


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_once(tmp_path_factory, "scale", lambda folder: scale.build(folder, "-Werror"))


@pytest.mark.parametrize("contender", ALL, ids=lambda c: c.name)
@pytest.mark.parametrize("count", [1, 4])
def test_threads_lose_no_request(programs: Path, contender: Contender, count: int) -> None:
    """On a busy host a thread may get no CPU within 50 ms; then the threads get more time."""
    figures = threads.threads(programs, contender, count, ms=50)
    if not figures["operations_per_s"]:
        figures = threads.threads(programs, contender, count, ms=20_000)
    assert figures["operations_per_s"] > 0
    assert figures["cpu_share"] > 0


def test_threads_pay_what_a_request_costs(programs: Path) -> None:
    """The cost is an upper limit, because a busy host gives the threads less time."""
    costs = Costs(elsewhere=100_000_000, drive_ns=1_000)
    assert threads.threads(programs, K2, 1, costs, ms=200)["operations_per_s"] <= 10_000 * 1.1
    in_the_drive = Costs(drive_ns=10_000_000)
    assert threads.threads(programs, BOUNDED, 1, in_the_drive, ms=200)["operations_per_s"] <= 8 * 100 * 1.1


@pytest.mark.parametrize("contender", ALL, ids=lambda c: c.name)
def test_the_model_repeats_its_digits(programs: Path, contender: Contender) -> None:
    assert scale.model(programs, contender, 12, us=US) == scale.model(programs, contender, 12, us=US)


@pytest.mark.parametrize("contender", ALL, ids=lambda c: c.name)
def test_one_cpu_transfers_nothing(programs: Path, contender: Contender) -> None:
    assert scale.model(programs, contender, 1, us=US)["transfers_per_operation"] == 0


def test_costs_add_up(programs: Path) -> None:
    """K2 looks at the clock once for each operation, deadline never."""
    only_clock = Costs(access=0, atomic=0, clock=20_000, near=0, far=0)
    rate = scale.model(programs, K2, 1, only_clock, us=US)["operations_per_s"]
    assert rate == pytest.approx(50e6, rel=0.01)
    costs = Costs(access=200, atomic=0, clock=0)
    double = replace(costs, access=400)
    for contender in (K2, DEADLINE):
        single, half = (scale.model(programs, contender, 1, c, us=US) for c in (costs, double))
        assert single["operations_per_s"] == pytest.approx(2 * half["operations_per_s"], rel=0.01)


@pytest.mark.parametrize("contender", CONTENDERS, ids=lambda c: c.name)
@pytest.mark.parametrize("cpus", [2, 16])
def test_dearer_transfers_never_help(programs: Path, contender: Contender, cpus: int) -> None:
    rates = [
        scale.model(programs, contender, cpus, Costs(near=near, far=5 * near), us=US)["operations_per_s"]
        for near in (0, 4_000, 16_000, 64_000)
    ]
    assert rates == sorted(rates, reverse=True)


def like_the_paper(
    programs: Path, contender: Contender, cpus: int, figure: str = "operations_per_s"
) -> float:
    runs = [scale.model(programs, contender, cpus, costs, us=2 * US) for costs in scale.LIKE_THE_PAPER]
    return scale.median(runs, figure)


def test_mqfq_needs_its_structures_for_many_cpus(programs: Path) -> None:
    """With all that a request costs: 3/4 of none's on 16 CPUs, twice what one lock does on 32."""
    none, fair, one_lock = FAIR[:3]
    assert like_the_paper(programs, fair, 16) >= 0.75 * like_the_paper(programs, none, 16)
    assert like_the_paper(programs, fair, 32) >= 2 * like_the_paper(programs, one_lock, 32)


def test_no_more_than_the_bound_is_in_the_drive(programs: Path) -> None:
    """Requests are there for 24 us: 16 at a time are 667 thousand a second; without a bound all CPUs work."""
    few = Contender("mqfq", "mqfq", 16, scale.NO_T_KIB)
    assert like_the_paper(programs, few, 8) == pytest.approx(16 / 24e-6, rel=0.05)
    assert like_the_paper(programs, FAIR[0], 8) == pytest.approx(8 / 4e-6, rel=0.05)


def test_a_counter_of_tokens_is_dearer_than_the_tree(programs: Path) -> None:
    """Half as fast or less on 32 CPUs, as each request changes its cache line."""
    tree, counter, _ = scale.figure("fig11")
    assert like_the_paper(programs, tree, 32) >= 2 * like_the_paper(programs, counter, 32)


def test_polling_runs_queues_in_vain(programs: Path) -> None:
    """Twice as often as the wheel and more."""
    by_name = {c.name: c for c in scale.figure("fig10")}
    wheel, polls = (
        like_the_paper(programs, by_name[f"{name}_small_t"], 32, "vain_runs_per_operation")
        for name in ("wheel", "poll_1us")
    )
    assert polls >= 2 * wheel > 0


def test_the_far_cost_counts_from_the_ninth_cpu_on(programs: Path) -> None:
    for cpus, alike in ((8, True), (9, False)):
        figures = [scale.model(programs, K2, cpus, Costs(far=far), us=US) for far in (80_000, 160_000)]
        assert (figures[0] == figures[1]) is alike


@pytest.mark.parametrize(
    ("old", "new", "contender"),
    [
        ("\t\tset_bit(bit, &l->pending);", "\t\t;", K2),
        ("\tif (!k2_unblock(k2, K2_RELEASE_COMPLETION))", "\tif (true)", BOUNDED),
        ("\tk2->dispatched[level]++;\n", "", K2),
        ("\tmqfq_kick_throttled(mqfq, cpu);\n", "", REPLACED["fig10"]["poll_1us_small_t"]),
        ("\tatomic_inc(counter(t));\n", "", REPLACED["fig11"]["counter"]),
        ("\tatomic_inc(&t->nodes[hints[queue].word].tokens);\n", "", REPLACED["fig11"]["bitmap"]),
        ("\treturn scan(m, base);\n", "\treturn MINDICATOR_NONE;\n", REPLACED["fig9"]["scan_small_t"]),
    ],
    ids=["insertion", "wake", "account", "poll", "counter", "bitmap", "scan"],
)
def test_a_loss_is_noticed(
    old: str, new: str, contender: Contender, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("sched", "sim/scale", "sim/include"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    mutate(tmp_path, old, new)
    monkeypatch.setattr(scale, "SCALE", tmp_path / "sim/scale")
    scale.build(tmp_path, "-w", queues=[contender.queue])
    with pytest.raises(UsageError, match=r"waits for ever|was lost"):
        scale.model(tmp_path, contender, 4, us=US)


def test_bench_replaces_only_what_it_measures(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (scale, threads):
        monkeypatch.setattr(
            module, "build", lambda folder: shutil.copytree(programs, folder, dirs_exist_ok=True)
        )
    monkeypatch.setattr(threads, "RUNS", 1)
    monkeypatch.setattr(threads, "RUN_MS", 100)
    monkeypatch.setattr(scale, "MODEL_CPUS", (1, 2))
    monkeypatch.setattr(scale, "MODEL_US", US)
    monkeypatch.setattr(scale, "PAPER_US", US)
    out = tmp_path / "bench.json"
    old = [{"name": "sim.memory_mib", "value": 1.0}, {"name": "threads.k2.cpus1", "value": 0.0}]
    out.write_text(json.dumps(old))
    assert main(["bench", "--only", "scale", "--only", "threads", "--out", str(out)]) == 0
    entries = {e["name"]: e for e in json.loads(out.read_text())}
    assert entries["sim.memory_mib"]["value"] == 1
    for name in (
        "threads.k2.cpus1",
        "threads_whole.none.cpus2",
        "threads_fig10.poll_5us.cpus2",
        "scale_model.k2_bound8.cpus2",
        "scale_model_whole.bfq.cpus2",
        "scale_model_fig11.bitmap.cpus2",
    ):
        assert entries[name]["value"] > 0
        assert entries[name]["higher_is_better"]


def test_bench_keeps_what_it_measured_before_it_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> list[Result]:
        raise UsageError("the guest ended early")

    one = Result("lines.k2", 1.0, "lines", False, "together")
    monkeypatch.setattr(bench.lines, "measure", lambda *_: [one])
    monkeypatch.setattr(bench.scale, "measure", fails)
    out = tmp_path / "bench.json"
    assert main(["bench", "--out", str(out)]) == 2
    assert [e["name"] for e in json.loads(out.read_text())] == ["lines.k2"]
    # Other figures stay until all are measured.
    out.write_text(json.dumps([{"name": name, "value": 7.0} for name in ("threads.k2", "lines.k2")]))
    assert main(["bench", "--out", str(out)]) == 2
    found = {e["name"]: e["value"] for e in json.loads(out.read_text())}
    assert found == {"threads.k2": 7, "lines.k2": 1}
    for module in (bench.scale, bench.threads, bench.simulator, bench.instructions):
        monkeypatch.setattr(module, "measure", lambda *_: [])
    assert main(["bench", "--out", str(out)]) == 0
    assert [e["name"] for e in json.loads(out.read_text())] == ["lines.k2"]
    out.write_text("no results")
    monkeypatch.setattr(bench.lines, "measure", lambda *_: pytest.fail("measured in vain"))
    assert main(["bench", "--only", "lines", "--out", str(out)]) == 2
    assert "has no results of bench" in capsys.readouterr().err
    assert out.read_text() == "no results"


def test_bench_refuses_what_it_does_not_know(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "bench.json"
    assert main(["bench", "--only", "everything", "--out", str(out)]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "--only: expected lines, scale, threads, simulator or instructions, got 'everything'" in line
    assert not out.exists()


@pytest.mark.parametrize("machine", simulator.MACHINES)
@pytest.mark.parametrize("scheduler", simulator.SCHEDULERS)
def test_the_simulators_load_has_96_outstanding(scheduler: str, machine: str) -> None:
    told = simulator.load(scheduler, machine, ios=3000)
    assert sum(p.depth for p in told.processes) == 96
    assert simulation.simulate(told).ios == 3000


def test_speed_is_in_ios_per_second_of_cpu_time(monkeypatch: pytest.MonkeyPatch) -> None:
    told = simulator.load("none", "ideal", ios=3000)
    seconds = iter((10.0, 12.0))
    monkeypatch.setattr(time, "process_time", lambda: next(seconds))
    assert simulator.speed(told) == 1500


def test_memory_is_that_of_a_process_of_the_lab() -> None:
    assert 10 < simulator.memory_mib(simulator.load("k2", "ideal", ios=3000)) < 200


def test_the_largest_point_is_that_with_the_most_ios() -> None:
    """Small sequential writes, under the scheduler that holds nothing back."""
    words, told = simulator.largest()
    assert words == "k2/table2, none.sequential-write-4k.seed1 at full load"
    assert told.scheduler == "none"
    assert [p.depth for p in told.processes] == [32, 32, 32, 1]


def test_measuring_the_simulator_names_what_is_promised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulator, "IOS", 3000)
    monkeypatch.setattr(simulator, "RUNS", 1)
    monkeypatch.setattr(simulator, "largest", lambda: ("a point", simulator.load("none", "ideal", 3000)))
    names = {r.name for r in simulator.measure(Console(quiet=True))}
    assert names == {
        "sim.iops_per_core.none",
        "sim.iops_per_core.k2",
        "sim.iops_per_core.none.ideal",
        "sim.iops_per_core.k2.ideal",
        "sim.memory_mib",
    }
