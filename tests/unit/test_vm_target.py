# SPDX-License-Identifier: GPL-2.0-only
"""The target vm and the command around it, with a machine that only pretends to boot."""

import json
import re
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tailgate import main as cli
from tailgate.base.paths import ROOT
from tailgate.guest import kernels, kvm, machine, modules, programs
from tailgate.guest.kernels import Kernel
from tailgate.guest.machine import Job, Outcome
from tailgate.guest.qemu import VirtualMachine
from tailgate.runs.folder import read_measurements, read_run
from tailgate.runs.measurements import digits
from tailgate.simulator.knobs import declared
from tailgate.spec import drive, experiment, plan
from tailgate.spec.scheduler import Knob, Scheduler
from tailgate.targets import vm
from tailgate.targets.resolve import resolve
from tailgate.targets.vm_chunk import experiment_knobs, our_module

OnRecord = Callable[[str, bytes], None]


class Guests:
    """Replaces machine.run: answers each point with invented figures, equal for equal input."""

    def __init__(self, fake_point: Callable[..., dict[str, bytes]]) -> None:
        self.fake_point = fake_point
        self.jobs: list[tuple[VirtualMachine, Job]] = []
        self.chunks: list[str] = []  # of these jobs
        self.idle: Callable[[int], float] = lambda dilation: 0.9
        self.broken: dict[str, str] = {}  # chunk's name -> reason
        self.stop_after: int | None = None
        self.odd: set[int] = set()  # these boots, from 1, give other digits
        self.more: dict[str, bytes] = {}  # of each point
        self.lock = threading.Lock()

    def run(self, where: VirtualMachine, job: Job, out: Path, on_record: OnRecord) -> Outcome:
        with self.lock:
            self.jobs.append((where, job))
            self.chunks.append(out.parent.name)
            odd = len(self.jobs) in self.odd
            if self.stop_after is not None and len(self.jobs) > self.stop_after:
                raise KeyboardInterrupt
        out.mkdir(parents=True, exist_ok=True)
        (out / "log").write_text("[ 1.0] something went by\n")
        chunk = out.parent.name
        reason = self.broken.get(chunk, "ok")
        points = [line for line in job.script.splitlines() if line.startswith("point p")]
        for i, line in enumerate(points):
            dilation = int(re.findall(r"dilation=(\d+)", line)[0])
            content = job.files[f"/lab/p{i}.fio"]
            assert isinstance(content, bytes)
            text = content.decode()
            ends = re.findall(r"number_ios=(\d+)", text)
            samples = int(ends[0]) if ends else 100
            rate = 0.0 if "[background]" not in text else 0.25 if "rate=" in text else 1.0
            settings = job.files["/lab/settings"]
            assert isinstance(settings, bytes)
            bound = re.findall(r"inflight_max (\d+)", settings.decode())
            files = self.fake_point(
                np.random.default_rng(i + 100 * odd),
                int(bound[0]) if bound else 96,
                rate,
                samples,
                dilation,
                self.idle(dilation),
            )
            for name, data in (self.more | files).items():
                on_record(f"p{i}.{name}", data)
            if reason != "ok":
                break
        return Outcome(
            code=0 if reason == "ok" else 99,
            reason=reason,  # type: ignore[arg-type]
            complaint="" if reason == "ok" else "WARNING: at block/blk-mq.c",
            wall_s=1.0,
            cpu_s=1.0,
            virtual_s=2.0,
            marks={},
            log=out / "log",
        )


@pytest.fixture
def guests(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fake_point: Callable[..., dict[str, bytes]]
) -> Guests:
    """A lab whose kernel, modules, drive and machines are all pretended."""
    made = Guests(fake_point)
    root = tmp_path / "kernel"
    kernel = Kernel("backports", "1.2.3-amd64", root, root / "vmlinux", root / "btf", root / "headers")
    kernel.vmlinux.parent.mkdir()
    kernel.vmlinux.write_text("vmlinux")
    folder = tmp_path / "modules"
    folder.mkdir()
    for name in ("k2.ko", "k2_experiments.ko", "vflash.ko"):
        (folder / name).write_text(name)
    (tmp_path / "drives").mkdir()
    (tmp_path / "drives" / "970evo.toml").write_text(
        'name = "970evo"\ntitle = "T"\n[parameters.dies]\nvalue = 8\nunit = "dies"\nsource = "s"\n'
    )
    monkeypatch.setattr(machine, "run", made.run)
    monkeypatch.setattr(machine, "stop_all", lambda: None)
    monkeypatch.setattr(kvm, "works", lambda: False)
    monkeypatch.setattr(kernels, "resolve", lambda labels, progress: [kernel])
    monkeypatch.setattr(modules, "build", lambda kernel: folder)
    monkeypatch.setattr(drive, "DRIVES", tmp_path / "drives")
    return made


def run(tmp_path: Path, *arguments: str) -> int:
    return cli.main(["run", "k2/fig8", "--quick", "--out", str(tmp_path / "runs"), *arguments])


def the_run(tmp_path: Path) -> Path:
    return next(p for p in (tmp_path / "runs/k2/fig8").iterdir() if p.is_dir() and "." not in p.name)


def test_run_leaves_a_complete_directory(
    guests: Guests, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, "--json") == 0
    captured = capsys.readouterr()
    out = json.loads(captured.out)  # nothing but the object on standard output
    assert len(out["points"]) == 21
    assert "under k2-8" in captured.err
    folder = the_run(tmp_path)
    for name in ("spec.json", "environment.json", "points.parquet", "results.json", "report.html"):
        assert (folder / name).is_file()
    assert {p.name for p in (folder / "sources").iterdir()} == {
        "fig8.toml",
        "fig8.fio",
        "paper.csv",
        "970evo.toml",
        "k2.ko",
        "vflash.ko",
    }
    assert json.loads((folder / "results.json").read_text()) == out
    assert {p.name for p in (folder / "chunks/none.seed1").iterdir()} == {
        *("chunk.json", "guest"),
        *(
            f"p{i}.{kind}"
            for i in range(3)
            for kind in ("fio", "json", "settings", "before", "after", "fio.json")
        ),
    }
    assert "number_ios=400" in (folder / "chunks/none.seed1/p0.fio").read_text()
    assert cli.main(["report", str(folder), "--out", str(tmp_path / "again.html")]) == 0
    assert (tmp_path / "again.html").stat().st_size > 4_000_000


def test_longest_boots_first(guests: Guests, tmp_path: Path) -> None:
    run(tmp_path, "--jobs", "1")
    bounds = [
        int(found[0]) if (found := re.findall(rb"inflight_max (\d+)", settings)) else 96
        for _, job in guests.jobs
        if isinstance(settings := job.files["/lab/settings"], bytes)
    ]
    assert bounds == sorted(bounds, reverse=True)


def test_script_and_settings(guests: Guests, tmp_path: Path) -> None:
    run(tmp_path, "--schedulers", "kyber,k2-16")
    by_scheduler = {re.findall(r"SCHEDULER=(\S+)", job.script)[0]: job for _, job in guests.jobs}
    kyber, k2 = by_scheduler["kyber"], by_scheduler["k2"]
    assert "MODULE='modprobe kyber-iosched'" in kyber.script
    assert kyber.modules == ["kyber-iosched"]
    assert "MODULE='insmod /lib/modules/extra/k2.ko'" in k2.script
    assert "point p2 dies=8 dilation=1 seed=1" in k2.script
    settings = k2.files["/lab/settings"]
    assert isinstance(settings, bytes)
    assert "nr_requests 1023\n" in settings.decode()
    assert "iosched/inflight_max 16\n" in settings.decode()


def own_experiment(tmp_path: Path, scheduler: str) -> Path:
    """k2/fig8 with another scheduler in place of k2."""
    folder = tmp_path / "own"
    folder.mkdir()
    for file in experiment.find("k2/fig8").parent.iterdir():
        text = file.read_text()
        (folder / file.name).write_text(text.replace('name = "k2"', f'name = "{scheduler}"'))
    return folder / "fig8.toml"


def test_a_scheduler_needs_no_line_in_the_lab(guests: Guests, tmp_path: Path) -> None:
    """The module has the scheduler's name."""
    path = own_experiment(tmp_path, "fifo")
    (tmp_path / "modules/fifo.ko").write_text("fifo.ko")
    out = str(tmp_path / "runs")
    assert cli.main(["run", str(path), "--quick", "--schedulers", "none,k2-8", "--out", out]) == 0
    none, ours = sorted((job for _, job in guests.jobs), key=lambda job: "fifo" in job.script)
    assert "MODULE=''" in none.script
    assert "MODULE='insmod /lib/modules/extra/fifo.ko'" in ours.script
    assert sorted(file.name for file in ours.module_files) == ["fifo.ko", "vflash.ko"]


def test_a_scheduler_that_nobody_has(
    guests: Guests, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = own_experiment(tmp_path, "cfq")
    assert cli.main(["run", str(path), "--quick", "--out", str(tmp_path / "runs")]) == 2
    assert "neither Linux nor kernel/ has a scheduler cfq" in capsys.readouterr().err
    assert not guests.jobs


def test_time_in_the_scheduler_is_taken_where_it_is_shown(guests: Guests, tmp_path: Path) -> None:
    """The time of requests with the real-time task's priority, class 1 and level 0, from the kernel's
    histogram.
    """
    run(tmp_path, "--schedulers", "kyber")
    assert "TIMED=''" in guests.jobs.pop()[1].script
    reads = guests.fake_point

    def writes(*arguments: object) -> dict[str, bytes]:
        files = reads(*arguments)
        swapped = {b'"read"': b'"-"', b'"write"': b'"read"', b'"-"': b'"write"'}
        for old, new in swapped.items():
            files["fio.json"] = files["fio.json"].replace(old, new)
        return files

    guests.fake_point = writes
    guests.more = {"delays": b"{ ns:       2503 } hitcount:          5\n{ ns:   96261 } hitcount:   1\n"}
    out = str(tmp_path / "runs")
    assert cli.main(["run", "k2/fig7", "--quick", "--out", out, "--schedulers", "kyber"]) == 0
    assert "TIMED=8192" in guests.jobs.pop()[1].script
    (folder,) = (tmp_path / "runs/k2/fig7").glob("*/")
    flow = read_measurements(folder, read_run(folder))[0].flow("rt")
    assert flow
    assert flow.delay
    assert flow.delay.counts.tolist() == [5, 1]
    assert flow.delay.max_us == 96.261 / 32


def test_cgroups_are_told_in_the_guest(guests: Guests, tmp_path: Path) -> None:
    """Only where a scheduler's row has some; a queue's own setting stands beside the scheduler's."""
    labels = "none-8,k2-8,io-cost-77"
    out = str(tmp_path / "runs")
    arguments = ["--quick", "--out", out, "--schedulers", labels, "--loads", "4k", "--jobs", "1"]
    assert cli.main(["run", "k2/controls", *arguments]) == 0
    names = (chunk.partition(".")[0] for chunk in guests.chunks)
    by_label = {name: job for name, (_, job) in zip(names, guests.jobs, strict=True)}
    assert {label for label, job in by_label.items() if "/lab/cgroups" in job.files} == {"io-cost-77"}
    told = by_label["io-cost-77"].files["/lab/cgroups"]
    assert isinstance(told, bytes)
    assert b"min=77.00 max=77.00\n" in told
    few = by_label["none-8"].files["/lab/settings"]
    assert isinstance(few, bytes)
    assert b"nr_requests 8\n" in few
    (file,) = tmp_path.rglob("results.json")
    points = {p["label"]: p for p in json.loads(file.read_text())["points"]}
    assert points["io-cost-77"]["cgroups"]["rt"] == {"io.weight": 10000}
    assert "cgroups" not in points["none-8"]


def test_file_system_is_made_in_the_guest(
    guests: Guests, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its own programs; what the drive keeps is asked for, and a floor is a rate."""
    monkeypatch.setattr(programs, "find", lambda name: Path(__file__))
    out = str(tmp_path / "runs")
    arguments = ["run", "k2/inversion", "--quick", "--out", out, "--schedulers", "k2-8-floor", "--jobs", "1"]
    cli.main(arguments)
    by_type = {re.findall(r"FILE_SYSTEM=(\S+)", job.script)[0]: job for _, job in guests.jobs}
    assert set(by_type) == {"ext4", "xfs", "f2fs"}
    xfs = by_type["xfs"]
    assert "FILE_SYSTEM_MIB=512\n" in xfs.script
    assert "point p0 dies=8 memory_backed=1 capacity_mib=16384 dilation=4 seed=1" in xfs.script
    assert list(xfs.modules) == ["xfs", "crc32c_generic"]
    assert list(xfs.programs) == ["fio", "mkfs.xfs", "xfs_repair"]
    settings = xfs.files["/lab/settings"]
    assert isinstance(settings, bytes)
    assert "iosched/be_floor_iops 100\n" in settings.decode()


def test_complete_run_is_not_measured_again(guests: Guests, tmp_path: Path) -> None:
    """What is made of its records is what was made of the measurements."""
    assert run(tmp_path) == 0
    count = len(guests.jobs)
    derived = [the_run(tmp_path) / name for name in ("points.parquet", "results.json", "report.html")]
    before = [file.read_bytes() for file in derived]
    assert run(tmp_path) == 0
    assert len(guests.jobs) == count == 7
    assert [file.read_bytes() for file in derived] == before


def test_damaged_record_is_measured_again(
    guests: Guests, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is measured with its chunk, which is one boot, in a complete run and in one that was stopped."""
    run(tmp_path)
    before = [digits(m) for m in read_measurements(the_run(tmp_path), read_run(the_run(tmp_path)))]
    record = the_run(tmp_path) / "chunks/k2-8.seed1/p1.json"
    record.write_text('{"ios": 1')
    assert run(tmp_path) == 0
    assert "a record of the run is damaged" in capsys.readouterr().err
    assert (len(guests.jobs), guests.chunks[7:]) == (8, ["k2-8.seed1"])
    assert [digits(m) for m in read_measurements(the_run(tmp_path), read_run(the_run(tmp_path)))] == before
    guests.stop_after = 8 + 3
    assert run(tmp_path, "--fresh", "--jobs", "1") == 130
    [partial] = (tmp_path / "runs/k2/fig8").glob("*.partial")
    sorted(partial.rglob("p0.json"))[0].write_text("")
    guests.stop_after = None
    guests.jobs.clear()
    assert run(tmp_path, "--fresh", "--jobs", "1") == 0
    assert len(guests.jobs) == 7 - 3 + 1


def test_only_how_a_complete_run_is_shown_changes(
    guests: Guests, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another title and other numbers of the paper measure nothing again, and the report has them."""
    path = own_experiment(tmp_path, "k2")
    arguments = ["run", str(path), "--quick", "--out", str(tmp_path / "runs"), "--json"]
    assert cli.main(arguments) == 0
    (folder,) = (tmp_path / "runs/own/fig8").glob("*/")
    records = {file: file.stat().st_mtime_ns for file in folder.rglob("p?.json")}
    environment = (folder / "environment.json").read_text()
    title = experiment.load(path).title
    path.write_text(path.read_text().replace(title, "A new title"))
    paper = path.with_name("paper.csv")
    paper.write_text(paper.read_text().replace("559", "558"))
    capsys.readouterr()
    assert cli.main(arguments) == 0
    printed = json.loads(capsys.readouterr().out)
    assert len(guests.jobs) == 7
    assert {file: file.stat().st_mtime_ns for file in folder.rglob("p?.json")} == records
    assert (folder / "environment.json").read_text() == environment
    assert read_run(folder).spec.title == "A new title"
    assert "<h1>A new title</h1>" in (folder / "report.html").read_text()
    assert json.loads((folder / "results.json").read_text()) == printed
    assert 558 in [f["paper"]["mib_s"] for p in printed["points"] for f in p["flows"] if "paper" in f]


def test_fresh_measures_again_and_compares(
    guests: Guests, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(tmp_path)
    capsys.readouterr()
    assert run(tmp_path, "--fresh") == 0
    assert len(guests.jobs) == 14
    assert "every digit equals the run before" in capsys.readouterr().err
    guests.idle = lambda dilation: 0.91  # no digit of fio's
    run(tmp_path, "--fresh")
    assert "every digit equals" in capsys.readouterr().err
    names = {p.name for p in (tmp_path / "runs/k2/fig8").iterdir() if p.is_dir()}
    assert {n.partition(".")[2] for n in names} == {"", "previous"}


def test_third_measurement_decides(
    guests: Guests, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("--schedulers", "none", "--jobs", "1", "--fresh")
    run(tmp_path, *arguments)
    first = read_measurements(the_run(tmp_path), read_run(the_run(tmp_path)))
    for odd, verdict in ({2}, "the third equals the first, and stands"), ({5, 6}, "equals the second"):
        guests.odd = odd
        capsys.readouterr()
        assert run(tmp_path, *arguments) == 0
        said = capsys.readouterr().err
        assert "none.seed1 differ from the run before; a third time" in said
        assert verdict in said
        now = read_measurements(the_run(tmp_path), read_run(the_run(tmp_path)))
        same = [digits(m) for m in first] == [digits(m) for m in now]
        assert same == (odd == {2})
        guests.jobs.extend(guests.jobs[:1])  # so that the second round's boots are the fifth and the sixth


def test_other_input_is_another_run(guests: Guests, tmp_path: Path) -> None:
    run(tmp_path, "--schedulers", "none")
    run(tmp_path, "--schedulers", "none", "--seeds", "1,2")
    assert len([p for p in (tmp_path / "runs/k2/fig8").iterdir() if p.is_dir()]) == 2


def test_busy_cpu_is_dilated(guests: Guests, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    guests.idle = lambda dilation: min(0.9, 0.3 * dilation)
    assert run(tmp_path, "--schedulers", "kyber", "--json") == 0
    captured = capsys.readouterr()
    assert {p["dilation"] for p in json.loads(captured.out)["points"]} == {4}
    assert "idle for only 30%" in captured.err
    assert "time dilated 4 times" in captured.err
    assert "not dilated" in captured.err
    settings = guests.jobs[-1][1].files["/lab/settings"]
    assert isinstance(settings, bytes)
    assert "iosched/read_lat_nsec 8000\n" in settings.decode()
    assert "nr_requests 1023\n" in settings.decode()


def test_broken_guest_fails_and_the_rest_stays(
    guests: Guests, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    guests.broken = {"k2-8.seed1": "kernel warning"}
    assert run(tmp_path, "--jobs", "1", "--json") == 1
    captured = capsys.readouterr()
    assert "k2-8.seed1: kernel warning" in captured.err
    assert "WARNING: at block/blk-mq.c" in captured.err
    assert len(json.loads(captured.out)["points"]) >= 4 * 3 + 1
    assert all(p.name.endswith(".partial") for p in (tmp_path / "runs/k2/fig8").iterdir() if p.is_dir())
    measured = len(guests.jobs)
    guests.broken = {}
    assert run(tmp_path, "--jobs", "1") == 0  # goes on with the broken boot
    assert len(guests.jobs) == 7 + 1
    assert measured < 8


def test_what_is_no_measurement_breaks_the_run(
    guests: Guests, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = guests.fake_point
    guests.fake_point = lambda *arguments: whole(*arguments) | {"after": b"nothing"}
    assert run(tmp_path, "--schedulers", "none") == 1
    said = capsys.readouterr().err
    assert "none.seed1 at no load: the guest sent no measurement: no counters in the guest's sample" in said
    assert not list(tmp_path.rglob("p?.json"))


def test_interrupted_run_goes_on(guests: Guests, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    guests.stop_after = 3
    assert run(tmp_path, "--jobs", "1") == 130
    guests.stop_after = None
    guests.jobs.clear()
    assert run(tmp_path, "--jobs", "1") == 0
    assert len(guests.jobs) == 7 - 3


def test_variants_only_where_the_mode_has_them(guests: Guests) -> None:
    def names(mode: experiment.ModeName) -> list[str]:
        path = experiment.find("k2/fig8")
        return [c.name for c in plan.chunks(resolve(path, mode, ["none", "bfq"], None))]

    assert names("quick") == ["none.seed1", "bfq.seed1"]
    assert names("full") == ["none.seed1", "bfq.seed1", "none.seed1.variant0"]


def test_first_dilation_follows_the_rate(guests: Guests) -> None:
    for name, expected in (("k2/fig8", 1), ("k2/fig2", 16)):
        path = experiment.find(name)
        resolved = resolve(path, "quick", None, None)
        [kernel] = kernels.resolve(["backports"], print)
        made = vm.GuestTarget(resolved, path, kernel, modules.build(kernel))
        assert made.plan.attempt(plan.chunks(resolved)[0]).dilation == expected


def test_slow_points_are_announced(
    guests: Guests, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["run", "k2/fig2", "--schedulers", "none", "--out", str(tmp_path / "runs")]) == 0
    said = capsys.readouterr().err
    assert "time dilated 16 times" in said
    assert re.search(r"the slowest point, of none\.seed1, alone takes about \d+:\d\d min", said)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "k2/fig99"], "there is no experiment k2/fig99"),
        (["run", "k2/fig8", "--target", "/dev/sda"], "--target: expected vm or sim, got '/dev/sda'"),
        (
            ["run", "k2/inversion", "--target", "sim"],
            "inversion.toml: the simulator has no file systems; --target vm measures this",
        ),
        (["run", "k2/fig8", "--machine", "ideal"], "--machine is for --target sim only"),
        (["run", "k2/fig8", "--schedulers", "cfq"], "there is no scheduler cfq; expected none, mq-deadline"),
        (["report", "/nowhere"], "/nowhere: expected the folder of a run"),
    ],
)
def test_usage_errors(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(arguments) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("tailgate: ")
    assert message in lines[0]


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["list"]) == 0
    assert "k2/fig8" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("knobs", "module"),
    [
        ({"inflight_max": 8, "rt_target_us": "auto"}, "k2"),
        ({"ahead_lo_kib": 8}, "k2_experiments"),
        ({"rt_target_us": "auto", "bound_mode": "placebo"}, "k2_experiments"),
        ({"bound_mode": "ahead"}, "k2_experiments"),
    ],
)
def test_k2_has_the_module_that_has_its_knobs(knobs: dict[str, Knob], module: str) -> None:
    assert our_module(Scheduler(label="k2", name="k2", knobs=knobs)) == module


def test_knobs_for_experiments_are_told_from_the_products() -> None:
    """docs/k2/reference.md has one row for each knob of the product."""
    rows = (ROOT / "docs/k2/reference.md").read_text().partition("\n| removed")[0]
    product = {knob for knob in declared()["k2"] if f"| `{knob}`" in rows}
    assert experiment_knobs() == declared()["k2"].keys() - product
