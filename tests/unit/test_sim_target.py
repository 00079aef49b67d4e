# SPDX-License-Identifier: GPL-2.0-only
"""The target sim and the command simulate, with the simulator itself, on points that take no time."""

import itertools
import json
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
from filelock import FileLock

from tailgate import main as cli
from tailgate.base.paths import DRIVES, EXPERIMENTS, MACHINES
from tailgate.base.progress import Progress
from tailgate.load import fiojob, workload
from tailgate.runs.folder import read_measurements, read_run
from tailgate.runs.measurements import Conditions, Measurement, digits
from tailgate.simulator import simulation
from tailgate.simulator.simulation import BrokenSimulationError, Outcome, Simulation
from tailgate.spec.experiment import ModeName
from tailgate.targets import sim
from tailgate.targets.resolve import resolve

pytest.importorskip("tailgate_sim", reason="make sim builds it")

JOB = """[global]
filename=/dev/vflash0
direct=1
rw=randread
bs=${BS}
norandommap

[background]
ioengine=libaio
iodepth=8
numjobs=2
iomem_align=2m

[rt]
ioengine=psync
thinktime=100us
prioclass=1
"""

EXPERIMENT = """
title = "A small one"
drive = "970evo"
job = "small.fio"
[paper]
file = "paper.csv"
title = "P"
figure = "Figure 8"
x = "x"
y = "y"
latency = "l"
[[sweeps]]
access = "random"
op = "read"
block_size_kib = 64
full_rate_mib_s = 565
variables = { BS = "64k" }
drive = { trimmed_percent = 10 }
[flows]
reader = { section = "rt", role = "real-time" }
background = { section = "background", role = "background" }
[machine]
smp = 2
iops_max = 9500
[queue]
nr_requests = 64
nomerges = 0
wbt_lat_usec = 0
rq_affinity = 1
[[schedulers]]
label = "none"
name = "none"
[[schedulers]]
label = "bfq"
name = "bfq"
knobs = { slice_idle = 0 }
[[schedulers]]
label = "k2-4"
name = "k2"
knobs = { inflight_max = 4 }
[modes.quick]
rt_samples = 60
background_rates = [0.0, 0.5, 1.0]
seeds = [1]
limit_s = 10
[modes.full]
rt_samples = 60
background_rates = [1.0]
seeds = [1, 2]
limit_s = 10
[[variants]]
title = "3 CPUs"
modes = ["full"]
schedulers = ["none"]
background_rates = [1.0]
machine = { smp = 3, iops_max = 9500 }
drive = { queues = 3 }
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "small.fio").write_text(JOB)
    (folder / "small.toml").write_text(EXPERIMENT)
    (folder / "paper.csv").write_text((EXPERIMENTS / "k2/paper.csv").read_text())
    return folder / "small.toml"


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulations run in threads of this process, which start at once."""

    @contextmanager
    def threads(jobs: int, dask: str | None) -> Iterator[ThreadPoolExecutor]:
        pool = ThreadPoolExecutor(jobs)
        try:
            yield pool
        finally:
            pool.shutdown(cancel_futures=True)

    monkeypatch.setattr(sim, "executor", threads)


def run(small: Path, *arguments: str, mode: str = "--quick") -> int:
    out = small.parents[1] / "runs"
    return cli.main(["run", str(small), "--target", "sim", mode, "--out", str(out), *arguments])


def the_run(small: Path, suffix: str = "") -> Path:
    folders = (small.parents[1] / "runs/own/small").iterdir()
    return next(p for p in folders if p.is_dir() and re.fullmatch(r"\w+" + re.escape(suffix), p.name))


def measurements(small: Path) -> list[Measurement]:
    folder = the_run(small)
    return read_measurements(folder, read_run(folder))


def made(small: Path, mode: ModeName = "quick", machine: str = "ideal") -> sim.SimTarget:
    return sim.SimTarget(resolve(small, mode, None, None, "sim"), small, machine)


def test_processes_that_die_while_they_get_work_are_told(
    small: Path, here: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Dead:
        def submit(self, *_: object) -> None:
            raise BrokenProcessPool("they are gone")

    monkeypatch.setattr(sim, "executor", lambda *_: nullcontext(Dead()))
    assert run(small) == 1
    assert "a process of the simulator died: they are gone" in capsys.readouterr().err


def test_run_leaves_a_complete_directory(small: Path, here: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(small, "--json") == 0
    captured = capsys.readouterr()
    out = json.loads(captured.out)
    assert out["target"] == "sim"
    assert [(p["scheduler"], p["sweep"]["background_rate"]) for p in out["points"]] == [
        (name, rate) for name in ("none", "k2") for rate in (0.0, 0.5, 1.0)
    ]
    assert f"bfq is not simulated: tailgate run {small} --target vm --schedulers bfq" in captured.err
    folder = the_run(small)
    for name in ("spec.json", "environment.json", "points.parquet", "results.json", "report.html"):
        assert (folder / name).is_file()
    assert {p.name for p in (folder / "sources").iterdir()} >= {
        "small.toml",
        "small.fio",
        "paper.csv",
        "970evo.toml",
        "paper.toml",
    }
    assert json.loads((folder / "results.json").read_text()) == out
    chunk = folder / "chunks/k2-4.seed1"
    assert {p.name for p in chunk.iterdir()} == {
        "chunk.json",
        *(f"p{i}.{kind}" for i in range(3) for kind in ("fio", "json")),
    }
    assert "number_ios=60" in (chunk / "p2.fio").read_text()
    record = json.loads((chunk / "p2.json").read_text())
    assert record["settings"]["iosched/inflight_max"] == "4"
    assert record["counters"]["drive.slots_used_max"] >= 1


def test_a_drive_and_a_machine_may_be_called_like_the_experiment(small: Path, here: None) -> None:
    """Then the run keeps all three files."""
    own = small.rename(small.with_name("paper.toml"))  # as the machine
    drive = own.parents[1] / "paper.toml"
    drive.write_text((DRIVES / "970evo.toml").read_text())
    assert run(own, "--drive", str(drive)) == 0
    [kept] = own.parents[1].glob("runs/own/paper/*/sources")
    files = [kept / name for name in ("paper.toml", "other-paper.toml", "other-other-paper.toml")]
    wanted = [own, drive, MACHINES / "paper.toml"]
    assert [file.read_text() for file in files] == [file.read_text() for file in wanted]


def test_figures(small: Path, here: None) -> None:
    run(small)
    for m in measurements(small):
        reader = m.flow("reader")
        assert reader is not None
        assert (m.conditions, m.status) == (Conditions(4, "paper", "sim", 1), "ok")
        assert (reader.ios, reader.histogram.n) == (60, 60)
        assert reader.delay is not None
        background = m.flow("background")
        assert (background is None) == (m.background_rate == 0)
        if m.background_rate == 0.5:
            assert background is not None
            assert background.mib_s == pytest.approx(565 / 2, rel=0.1)
    full = [m.flow("reader") for m in measurements(small) if m.background_rate == 1]
    none, k2 = (f.histogram.percentile(0.5) for f in full if f)
    assert k2 < none


def test_times_of_a_dilated_machine_are_undilated(small: Path, here: None) -> None:
    small.write_text(EXPERIMENT.replace("iops_max = 9500\n[queue]", "iops_max = 95000\n[queue]"))
    assert run(small, "--machine", "guest-6.12", "--schedulers", "none") == 0
    alone = measurements(small)[0]
    reader = alone.flow("reader")
    assert (alone.background_rate, alone.conditions.dilation) == (0, 16)
    assert reader
    assert reader.block
    assert alone.block_us
    assert 70 < alone.block_us == reader.block.mean_us < reader.histogram.mean_us < 1000


def test_same_digits_on_any_number_of_processes(small: Path) -> None:
    found = []
    for jobs in ("1", "2"):
        assert run(small, "--jobs", jobs, "--fresh") == 0
        found.append([digits(m) for m in measurements(small)])
    assert found[0] == found[1]


def test_dask_cluster_gives_the_same_digits(small: Path, here: None, monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed")
    run(small)
    here_digits = [digits(m) for m in measurements(small)]
    monkeypatch.undo()
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=False
    ) as cluster:
        assert run(small, "--fresh", "--dask", cluster.scheduler_address) == 0
    assert [digits(m) for m in measurements(small)] == here_digits


def test_complete_run_is_not_simulated_again(
    small: Path, here: None, capsys: pytest.CaptureFixture[str]
) -> None:
    run(small)
    capsys.readouterr()
    assert run(small) == 0
    assert "measured before" in capsys.readouterr().err
    assert run(small, "--fresh") == 0
    assert "every digit equals the run before" in capsys.readouterr().err


def stop_after_two(
    self: Progress, name: str, weight: float, told: Callable[..., None] = Progress.point
) -> None:
    """Ctrl-C after two points, in the place of Progress.point."""
    told(self, name, weight)
    if self._done == 2:
        raise KeyboardInterrupt


def test_interrupted_run_goes_on_at_the_point(
    small: Path, here: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as m:
        m.setattr(Progress, "point", stop_after_two)
        assert run(small, "--jobs", "1") == 130
    there = sorted(the_run(small, ".partial").rglob("p?.json"))
    assert len(there) == 2
    before = [p.stat().st_mtime_ns for p in there]
    capsys.readouterr()
    assert run(small) == 0
    assert "4 points, simulated on the machine paper" in capsys.readouterr().err
    again = [the_run(small) / p.relative_to(p.parents[2]) for p in there]
    assert [p.stat().st_mtime_ns for p in again] == before


def test_interrupted_fresh_run_goes_on_with_fresh_alone(
    small: Path, here: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(small)
    with monkeypatch.context() as m:
        m.setattr(Progress, "point", stop_after_two)
        assert run(small, "--jobs", "1", "--fresh") == 130
    there = {p.name: p.stat().st_mtime_ns for p in the_run(small, ".partial").rglob("p?.json")}
    capsys.readouterr()
    assert run(small) == 0
    assert "measured before; --fresh goes on measuring again" in capsys.readouterr().err
    assert run(small, "--fresh") == 0
    assert "every digit equals the run before" in capsys.readouterr().err
    after = {p.name: p.stat().st_mtime_ns for p in the_run(small).rglob("p?.json")}
    assert there.items() <= after.items()
    assert not (the_run(small) / "fresh").exists()


def test_a_record_is_read_once_at_most(
    small: Path, here: None, monkeypatch: pytest.MonkeyPatch, records_read: list[Path]
) -> None:
    """None that was just measured; those of a stopped or complete run, and of one that is compared, once."""
    with monkeypatch.context() as m:
        m.setattr(Progress, "point", stop_after_two)
        assert run(small, "--jobs", "1") == 130
    assert records_read == []
    for arguments, count in ([], 2), ([], 6), (["--fresh"], 6):
        records_read.clear()
        assert run(small, *arguments) == 0
        assert len(records_read) == len(set(records_read)) == count


def test_what_was_measured_is_shown_as_it_is_from_its_records(small: Path, here: None) -> None:
    assert run(small) == 0
    folder = the_run(small)
    derived = [folder / name for name in ("points.parquet", "results.json", "report.html")]
    before = [file.read_bytes() for file in derived]
    assert run(small) == 0
    assert [file.read_bytes() for file in derived] == before
    assert cli.main(["report", str(folder), "--out", str(derived[-1])]) == 0
    assert derived[-1].read_bytes() == before[-1]


@pytest.mark.parametrize("text", ["", "[]", '{"ios": 1', '{"version": 1}'])
def test_damaged_record_is_measured_again(
    text: str, small: Path, here: None, capsys: pytest.CaptureFixture[str]
) -> None:
    run(small)
    before = [digits(m) for m in measurements(small)]
    damaged = sorted(the_run(small).rglob("p0.json"))[0]
    damaged.write_text(text)
    capsys.readouterr()
    assert cli.main(["report", str(the_run(small))]) == 2
    assert f"{damaged} is damaged" in capsys.readouterr().err
    assert run(small) == 0
    assert "a record of the run is damaged" in capsys.readouterr().err
    assert [digits(m) for m in measurements(small)] == before


def test_nothing_to_measure_is_refused(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = small.read_text().replace("[[sweeps]]\n", '[[sweeps]]\nschedulers = ["none"]\n', 1)
    small.write_text(text)
    assert run(small, "--schedulers", "k2-4") == 2
    assert "none of these schedulers has one of these loads" in capsys.readouterr().err
    assert not (small.parents[1] / "runs").exists()


def test_two_commands_do_not_measure_the_same_thing(
    small: Path, here: None, capsys: pytest.CaptureFixture[str]
) -> None:
    base = small.parents[1] / "runs/own/small"
    base.mkdir(parents=True)
    key = made(small, machine="paper").key
    with FileLock(base / f".{key}.lock"):
        assert run(small) == 2
    assert f"another command is measuring {base / key}: wait for it" in capsys.readouterr().err
    assert run(small) == 0


def test_broken_simulation_says_how_to_see_it_again(
    small: Path, here: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = simulation.simulate

    def break_one(told: Simulation) -> Outcome:
        if told.scheduler == "k2" and not told.limit_ns:
            raise BrokenSimulationError("two at once on die 3")
        return real(told)

    with monkeypatch.context() as m:
        m.setattr(simulation, "simulate", break_one)
        assert run(small, "--jobs", "1") == 1
    said = capsys.readouterr().err
    assert "two at once on die 3\nto see it again: tailgate simulate " in said
    assert run(small) == 0


def test_replay_gives_the_digits_of_the_point(
    small: Path, here: None, capsys: pytest.CaptureFixture[str]
) -> None:
    run(small)
    capsys.readouterr()
    target = made(small, machine="paper")
    for point, m in zip(target.points, measurements(small), strict=True):
        words = shlex.split(target.replay(point, the_run(small)))
        assert cli.main([*words[1:], "--json", "--check"]) == 0
        shown = json.loads(capsys.readouterr().out)
        reader, flow = next(f for f in shown["flows"] if f["flow"] == "rt"), m.flow("reader")
        assert flow is not None
        assert reader["ios"] == flow.ios
        assert reader["lat_us"]["p99"] == flow.histogram.percentile(0.99)
        assert reader["lat_us"]["mean"] == flow.histogram.mean_us


def test_trace_is_replayed_and_kept(small: Path, here: None, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [f"{100 * i} /dev/vflash0 read {65536 * i} 4096" for i in range(100)]
    small.with_name("open.log").write_text("\n".join(["fio version 3 iolog", *lines]) + "\n")
    text = JOB.replace(
        "[rt]\nioengine=psync\nthinktime=100us", "[rt]\nioengine=libaio\niodepth=32\nread_iolog=open.log"
    )
    small.with_name("small.fio").write_text(text)
    key = made(small).key
    assert run(small, "--machine", "ideal") == 0
    flow = measurements(small)[0].flow("reader")
    assert flow is not None
    assert flow.ios == 60
    assert flow.iops == pytest.approx(10_000, rel=0.05)  # one every 100 us, whatever becomes of them
    capsys.readouterr()
    target = made(small)
    words = shlex.split(target.replay(target.points[0], the_run(small)))
    assert cli.main([*words[1:], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["flows"][0]["ios"] == 60
    small.with_name("open.log").write_text("\n".join(["fio version 3 iolog", *lines[:-1]]) + "\n")
    assert made(small).key != key


def test_generated_arrivals_are_replayed_and_kept(
    small: Path, here: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """The response counts from the scheduled release: what comes at once waits for what came before it."""
    small.with_name("small.fio").write_text(JOB.replace("thinktime=100us", "filename=/dev/vflash0"))
    lines = 'variables = { BS = "64k" }\narrivals = { kind = "burst", period_us = 1000, burst = 4 }\n'
    text = EXPERIMENT.replace('variables = { BS = "64k" }\n', lines)
    small.write_text(text)
    key = made(small).key
    assert run(small, "--machine", "ideal") == 0
    alone = measurements(small)[0].flow("reader")
    assert alone is not None
    assert alone.ios == 60
    spread = [alone.histogram.percentile(q) for q in (0.1, 0.35, 0.6, 0.9)]
    assert all(b > 1.2 * a for a, b in itertools.pairwise(spread))
    target = made(small)
    assert [name for name in target.sources if name.endswith(".log")] == ["60.seed1.rt.0.log"]
    capsys.readouterr()
    words = shlex.split(target.replay(target.points[0], the_run(small)))
    assert cli.main([*words[1:], "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["flows"][0]["lat_us"]["p99"] == alone.histogram.percentile(0.99)
    small.write_text(text.replace("burst = 4", "burst = 3"))
    assert made(small).key != key


def test_another_drive(small: Path, here: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(small, "--json") == 0
    assert run(small, "--json", "--drive", "noisy") == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["drive"], second["drive"]) == ("970evo", "noisy")
    assert first["points"] != second["points"]
    assert run(small, "--drive", "none-such") == 2
    assert "there is no drive none-such; expected 970evo, " in capsys.readouterr().err


def test_written_job_is_the_simulated_one(small: Path) -> None:
    target = made(small)
    for point in target.points:
        told = target.plan.simulation(point)
        file = small.with_name("derived.fio")
        file.write_text(fiojob.text(target.plan.job(point)))
        job = fiojob.parse(file, derived=True)
        assert tuple(workload.processes(job, told.flows, 4096 << 20)) == told.processes
        assert told.flows[0] == "rt"


def test_what_is_told_to_the_simulator(small: Path) -> None:
    target = made(small, "full")
    none, k2 = (target.plan.simulation(p) for p in (target.points[0], target.points[2]))
    assert none.scheduler == "none"
    assert (k2.scheduler, k2.knobs) == ("k2", {"inflight_max": 4})
    assert none.device == {"nr_requests": 64, "merges": True}
    assert none.machine == {"completes_where_submitted": True, "cpus": 2}
    assert (none.drive["trimmed_percent"], none.drive["dies"], none.drive["seed"]) == (10, 8, 1)
    assert [target.plan.simulation(p).drive["seed"] for p in target.points[:2]] == [1, 2]
    variant = target.plan.simulation(target.points[-1])
    assert (variant.machine["cpus"], variant.drive["queues"]) == (3, 3)
    paper = made(small, machine="paper")
    assert paper.plan.simulation(paper.points[0]).machine["cpus"] == 4
    assert paper.plan.simulation(paper.points[0]).costs["submit"] > 0


def test_the_example_of_a_scheduler_is_simulated(small: Path, here: None) -> None:
    """`fifo` in the lab: with a bound of one, at most one is in the drive, and real-time gains nothing."""
    small.write_text(EXPERIMENT.replace('name = "k2"', 'name = "fifo"').replace("k2-4", "fifo-1"))
    small.write_text(small.read_text().replace("inflight_max = 4", "inflight_max = 1"))
    assert run(small, "--schedulers", "none,fifo-1") == 0
    told = [made(small).plan.simulation(point) for point in made(small).points]
    assert {t.knobs["inflight_max"] for t in told if t.scheduler == "fifo"} == {1}
    background = {
        m.scheduler.label: m.flow("background") for m in measurements(small) if m.background_rate == 1
    }
    none, fifo = background["none"], background["fifo-1"]
    assert none is not None
    assert fifo is not None
    assert 0 < fifo.mib_s < 0.5 * none.mib_s


def test_all_that_decides_is_in_the_key(small: Path) -> None:
    keys = {made(small).key, made(small, "full").key, made(small, machine="guest-6.12").key}
    small.with_name("small.fio").write_text(JOB.replace("iodepth=8", "iodepth=9"))
    keys.add(made(small).key)
    assert len(keys) == 4


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "k2"\n', 'name = "cfq"\n', "the simulator has no scheduler cfq; expected fifo, k2"),
        (
            "inflight_max = 4",
            "inflight = 4",
            "k2 has no knob inflight in the simulator; expected inflight_max",
        ),
        ("inflight_max = 4", "inflight_max = 0", "inflight_max: expected a number, 1 to"),
        ("inflight_max = 4", 'inflight_max = "x"', "inflight_max: expected a number, 1 to"),
        ("nomerges = 0", "nomerges = 1", "queue setting nomerges: expected 0 or 2, got 1"),
        ("nomerges = 0", "zoned = 1", "queue setting zoned: not modelled"),
        ("nomerges = 0", "nr_zones = -1", "queue setting nr_zones: expected a number of at least 0"),
        ("wbt_lat_usec = 0", "wbt_lat_usec = 75", "queue setting wbt_lat_usec: expected 0, got 75"),
        ("trimmed_percent = 10", "trimmed = 10", "drive: there is no parameter trimmed"),
        ("trimmed_percent = 10", "trimmed_percent = -1", "trimmed_percent: expected 0 to"),
        ("trimmed_percent = 10", "trimmed_percent = 101", "trimmed_percent: expected 0 to 100"),
        ("trimmed_percent = 10", "seed = 10", "seed is set by the lab"),
        ("iodepth=8", "iodepth=0", "small.fio:10: iodepth: expected a whole number, 1 to 65535"),
        ("iodepth=8", "iodepth=8\nsize=-1", "small.fio:11: size: expected a whole number of bytes"),
        ("iodepth=8", "iodepth=8\nverify_async=2", "small.fio:11: verify_async: not modelled"),
        ("thinktime=100us", "thinktime=100uss", "small.fio:16: thinktime: expected a whole number with us"),
        ("thinktime=100us", "thinktime=0.1ms", "small.fio:16: thinktime: expected a whole number with us"),
        ("direct=1", "direct=0", "small.fio:3: [rt]: expected direct=1"),
        ("\n[rt]", "\n[r", "small.fio:14: expected a section such as [reader], got '[r'"),
        ("prioclass=1\n", "priocl", "small.fio:17: priocl: not modelled"),
        (JOB[JOB.index("[rt]") :], "", "flow reader of"),
    ],
)
def test_bad_input_is_one_line_and_nothing_written(
    small: Path, here: None, old: str, new: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in (small, small.with_name("small.fio")):
        text = file.read_text()
        file.write_text(text.replace(old, new))
    assert run(small) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("tailgate: ")
    assert message in lines[0]
    assert not (small.parents[1] / "runs").exists()


def test_only_bfq_is_refused(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(small, "--schedulers", "bfq") == 2
    assert "the simulator has none of these schedulers; --target vm" in capsys.readouterr().err


@pytest.mark.parametrize(
    "more",
    [
        'cgroups.reader."io.weight" = 100',
        "queue = { wbt_lat_usec = 75 }",
    ],
)
def test_what_only_kernels_have_is_refused(
    small: Path, here: None, more: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """By name, and left out of a run of others: cgroups, writeback throttling."""
    text = small.read_text()
    small.write_text(text.replace('name = "none"\n', f'name = "none"\n{more}\n'))
    assert run(small, "--schedulers", "none") == 2
    assert "the simulator has none of these schedulers; --target vm" in capsys.readouterr().err
    assert run(small) == 0
    said = capsys.readouterr().err
    assert f"none,bfq is not simulated: tailgate run {small} --target vm --schedulers none,bfq" in said


def test_weights_of_cgroups_reach_the_simulator(
    small: Path, here: None, capsys: pytest.CaptureFixture[str]
) -> None:
    text = small.read_text().replace('"real-time" }', '"real-time", cgroup = "tenants/a" }')
    weights = "\n".join(
        f'cgroups."{path}"."io.mqfq.weight" = {n}' for path, n in (("tenants/a", 300), ("background", 50))
    )
    text = text.replace('label = "none"\nname = "none"\n', f'label = "m"\nname = "mqfq"\n{weights}\n')
    small.write_text(text.replace('schedulers = ["none"]', 'schedulers = ["m"]'))
    target = made(small)
    point = next(p for p in target.points if p.chunk.scheduler.label == "m" and p.background_rate == 1.0)
    told = target.plan.simulation(point)
    assert told.weights == {"tenants/a": 300, "background": 50}
    assert {(told.flows[p.flow], p.cgroup) for p in told.processes} == {
        ("rt", "tenants/a"),
        ("background", "background"),
    }
    assert "--weight tenants/a=300 --weight background=50" in target.replay(point, small.parent)
    assert run(small, "--schedulers", "m") == 0
    (job,) = (small.parents[1] / "runs").rglob("m.seed1/p1.fio")
    assert "\ncgroup=tenants/a\n" in job.read_text()


def test_missing_module_says_how_to_build_it(
    small: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "tailgate_sim", None)
    simulation.build.cache_clear()
    assert run(small) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "`make setup-check sim` builds it" in line


def test_another_build_is_refused(small: Path) -> None:
    target = made(small)
    told = target.plan.simulation(target.points[0])
    assert told.build == simulation.build()
    simulation.simulate(told)
    with pytest.raises(BrokenSimulationError, match="another build"):
        simulation.simulate(Simulation(told.flows, told.processes, told.drive, build="other"))


def test_dask_scheduler_that_is_not_there(
    small: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr("tailgate.simulator.executor.DASK_ANSWERS_S", 0.5)
    assert run(small, "--dask", "tcp://127.0.0.1:9") == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "no Dask scheduler answers at tcp://127.0.0.1:9" in line
    assert not (small.parents[1] / "runs").exists()


# --- the command simulate ---------------------------------------------------------------------------------


def simulate(small: Path, *arguments: str) -> int:
    job = small.with_name("small.fio")
    ended = job.with_name("ended.fio")
    ended.write_text(job.read_text().replace("[global]\n", "[global]\nnumber_ios=50\n"))
    return cli.main(["simulate", str(ended), "--variable", "BS=4k", *arguments])


def test_simulate_prints_one_object(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--drive", "970evo", "--scheduler", "k2", "--knob", "inflight_max=8", "--check", "--json"]
    outs = []
    for seed in ("1", "1", "2"):
        assert simulate(small, *arguments, "--seed", seed) == 0
        outs.append(capsys.readouterr().out)
    assert outs[0] == outs[1] != outs[2]
    shown = json.loads(outs[0])
    assert {(f["flow"], f["op"], f["ios"]) for f in shown["flows"]} == {
        ("background", "read", 100),
        ("rt", "read", 50),
    }
    assert shown["knobs"] == {"inflight_max": 8}


def test_simulate_prints_a_table(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate(small) == 0
    out = capsys.readouterr().out
    assert "background" in out
    assert "150 requests" in out


@pytest.mark.parametrize(("changes", "inside"), [([], 1), (["--set", "attachment=3", "--set", "slots=8"], 8)])
def test_a_drive_file_says_how_it_is_attached(
    small: Path, capsys: pytest.CaptureFixture[str], changes: list[str], inside: int
) -> None:
    assert simulate(small, "--drive", "foresee-emmc", "--json", *changes) == 0
    assert json.loads(capsys.readouterr().out)["drive"]["slots_used_max"] == inside


def test_parameters_go_where_they_belong() -> None:
    assert simulation.by_owner({"dies": 4, "submit": 5, "depth": 6, "tick_ns": 7}) == {
        "drive": {"dies": 4},
        "costs": {"submit": 5},
        "device": {"depth": 6},
        "machine": {"tick_ns": 7},
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--scheduler", "cfq"], "the simulator has no scheduler cfq"),
        (["--knob", "x=1"], "none has no knob x in the simulator; it has none"),
        (["--knob", "x"], "--knob: expected KEY=VALUE, got 'x'"),
        (
            ["--scheduler", "k2", "--knob", "bound_when=never"],
            "bound_when: expected always or active, got 'never'",
        ),
        (
            ["--scheduler", "k2", "--knob", "split_kib=8", "--queue", "max_sectors_kb=4"],
            "split_kib: expected no more than max_sectors_kb",
        ),
        (["--drive", "nope"], "there is no drive nope; expected"),
        (["--machine", "nope"], "there is no machine nope; expected"),
        (["--set", "dies=-1"], "dies: expected 0 to"),
        (["--set", "deis=4"], "there is no parameter deis"),
        (["--set", "cpus=1"], "--set: cpus is no parameter; expected --cpus"),
        (["--set", "costs=1"], "--set: costs is no parameter; expected the name of one cost, such as submit"),
        (["--set", "dies=4k"], "--set: expected KEY=NUMBER, got 'dies=4k'"),
        (["--set", "submit=-3"], "submit: the simulator does not take -3"),
        (["--queue", "nr_requests=-1"], "nr_requests: expected a number of at least 0"),
        (["--cpus", "0"], "--cpus: expected 1 to 64, got 0"),
        (["--seed", "-1"], "--seed: expected 0 to"),
        (["--seconds", "-1"], "--seconds: expected 0 to 1e+09, got -1"),
        (["--seconds", "nan"], "--seconds: expected 0 to 1e+09, got nan"),
        (["--seconds", "1e300"], "--seconds: expected 0 to 1e+09, got 1e+300"),
        (["--weight", "a=5"], "--weight: there is no cgroup a; no process has one (cgroup=)"),
        (["--variable", "BS=4x"], "bs: expected a whole number"),
    ],
)
def test_simulate_refuses_in_one_line(
    small: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert simulate(small, *arguments) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert message in lines[0]
