# SPDX-License-Identifier: GPL-2.0-only
"""`tailgate tune`: what is asked, the space of settings, loads, the command."""

import json
import re
from pathlib import Path

import pytest
from filelock import FileLock
from rich.console import Console
from tests.unit.refusal import refused
from tests.unit.tuning import ASKED, FLOWS, MEMBERS, flow

from tailgate import main as cli
from tailgate.base.errors import UsageError
from tailgate.base.progress import Progress
from tailgate.load import template
from tailgate.load.loads import Loads
from tailgate.spec import experiment as experiments
from tailgate.spec import plan
from tailgate.spec.plan import Run
from tailgate.tune import command, goal, workload
from tailgate.tune.evaluate import SimulatedLoad
from tailgate.tune.front import sysfs
from tailgate.tune.goal import Quantity, question
from tailgate.tune.space import LEFT, SEARCHED, Setting, Space

# --- what is asked ----------------------------------------------------------------------------------------


def test_a_quantity_of_several_flows_adds_rates_and_merges_latencies() -> None:
    flows = [flow("a", [10, 20], 100), flow("b", [30, 40], 50), flow("rt", [1], 7)]
    assert Quantity("background", "iops").of(flows, MEMBERS) == 150
    assert Quantity("background", "lat_us.max").of(flows, MEMBERS) == 40
    assert Quantity("background", "lat_us.p50").of(flows, MEMBERS) == 20
    assert Quantity("rt", "lat_us.mean").of([flows[0]], MEMBERS) == float("inf")


def test_a_direction_is_found_where_the_other_one_completed_nothing() -> None:
    reads, members = [flow("a", [10], 100)], {"a.read": ["a.read"], "a.write": ["a.write"]}
    assert Quantity("a.read", "iops").of(reads, members) == 100
    assert Quantity("a.write", "iops").of(reads, members) == 0
    assert Quantity("a.write", "lat_us.p99").of(reads, members) == float("inf")


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
    assert most.missed(500, float("inf")) <= 0
    assert most.missed(float("inf"), float("inf")) <= 0


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


def test_of_a_scheduler_with_two_knobs_both_start_at_an_end_too() -> None:
    space = Space(["kyber", "k2"])
    corners = list(space.starts())[-4:]
    ends = [[c[a.name] for a in space.axes["kyber"]] for c in corners]
    most = [len(a.values) - 1 for a in space.axes["kyber"]]
    assert ends == [[0, 0], [0, most[1]], [most[0], 0], most]


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


def test_sysfs_lines_have_all_that_was_simulated_whatever_was_set_before() -> None:
    setting = Setting("kyber", {"read_lat_nsec": 2_000_000, "write_lat_nsec": 50_000})
    assert sysfs(setting, {"nomerges": 2, "nr_requests": "default"}, "sda") == [
        "echo none > /sys/block/sda/queue/scheduler",
        "echo kyber > /sys/block/sda/queue/scheduler",
        "echo 2 > /sys/block/sda/queue/nomerges",
        "echo 2000000 > /sys/block/sda/queue/iosched/read_lat_nsec",
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
    assert sysfs(few, {"nr_requests": 1023}, "sda") == [
        "echo none > /sys/block/sda/queue/scheduler",
        "echo 8 > /sys/block/sda/queue/nr_requests",
    ]
    # without a scheduler the kernel refuses more requests than the drive has tags
    assert sysfs(Setting("none", {}), {"nr_requests": 1023, "nomerges": 2}, "sda") == [
        "echo none > /sys/block/sda/queue/scheduler",
        "echo 2 > /sys/block/sda/queue/nomerges",
    ]


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
    assert set(workload.members(spec, [])) == {"reader", "backup-job", "rt", "background"}
    assert workload.members(spec, [])["background"] == ["backup-job"]


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        ("background", "b", "a flow is called background, which stands for background, b; expected another"),
        ("rt", "b", "a flow is called rt, which stands for none; expected another name for it"),
        ("background", "rt\nprioclass=1", None),
    ],
)
def test_a_section_is_called_like_a_group_only_if_it_is_all_of_it(
    one: str, other: str, words: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "own.fio"
    name, _, option = other.partition("\n")
    path.write_text(f"[{one}]\nrw=randread\n[{name}]\nrw=randread\n{option}\n")
    spec, _ = workload.experiment_of(workload.Asked(str(path)))
    if words is None:
        assert workload.members(spec, []) == {name: [name] for name in (one, "rt")}
        return
    with pytest.raises(UsageError) as e:
        workload.members(spec, [])
    assert words in str(e.value)


@pytest.mark.parametrize(
    ("options", "mixed"),
    [
        ("rw=randread", False),
        ("rw=randwrite", False),
        ("rw=randrw", True),
        ("rw=randrw\nrwmixread=100", False),
        ("rw=write\nverify=crc32c", True),
        ("read_iolog=reads.log", False),
        ("read_iolog=both.log", True),
    ],
)
def test_only_a_section_that_reads_and_writes_has_its_directions(
    options: str, mixed: bool, tmp_path: Path
) -> None:
    for name, second in (("reads", "read"), ("both", "write")):
        lines = ["fio version 3 iolog", "0 /dev/x add", "0 /dev/x open", "1 /dev/x read 0 4096"]
        (tmp_path / f"{name}.log").write_text("\n".join([*lines, f"2 /dev/x {second} 4096 4096", ""]))
    path = tmp_path / "own.fio"
    path.write_text(f"[global]\nfilename=/dev/nvme0n1\ndirect=1\n[a]\n{options}\n[b]\nrw=read\n")
    spec, folder = workload.experiment_of(workload.Asked(str(path)))
    load = SimulatedLoad(spec, "quick", folder / workload.FILE)
    directions = {"a.read", "a.write"} if mixed else set()
    assert set(workload.members(spec, load.mixed)) == {"a", "b", "background"} | directions


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


def test_a_written_experiment_extends_none(tmp_path: Path) -> None:
    spec, folder = workload.experiment_of(workload.Asked("kyber/r1-w256"))
    path = workload.write(spec, [Setting("none", {}).as_scheduler()], folder, tmp_path / "confirm")
    assert experiments.load(path).queue == spec.queue
    assert {p.name for p in path.parent.iterdir()} == {"workload.toml", "flows.fio"}


def test_a_job_file_elsewhere_is_refused_and_stays(tmp_path: Path) -> None:
    """It would be written by its name, and ../ from the folder of the search is a file of the user's."""
    job, own = tmp_path / "own.fio", tmp_path / "own/own.toml"
    template.write("own", None, own.parent)
    job.write_text(text := (own.parent / "own.fio").read_text())
    for name in ("../own.fio", str(job)):
        own.write_text(re.sub(r"(?m)^job = .*", f'job = "{name}"', own.read_text()))
        with refused(f"{own}: job: expected the name of a file beside the experiment"):
            workload.experiment_of(workload.Asked(str(own)))
    assert job.read_text() == text


def test_a_drive_that_a_variable_names_is_the_guest_s_too(job: Path, tmp_path: Path) -> None:
    job.write_text(JOB.replace("/dev/nvme0n1", "${DEV}") + "write_lat_log=${LOG}\n")
    given = {"DEPTH": "16", "DEV": "/dev/nvme0n1", "LOG": "/dev/shm/log"}
    asked = workload.Asked(str(job), variables=given)
    spec, folder = workload.experiment_of(asked)
    path = workload.write(spec, [Setting("none", {}).as_scheduler()], folder, tmp_path / "confirm")
    assert experiments.load(path).sweeps[0].variables == {**given, "DEV": "/dev/vflash0"}


def test_a_drive_in_a_trace_is_the_guest_s_too(tmp_path: Path) -> None:
    lines = "fio version 3 iolog\n0 {0} add\n0 {0} open\n1 {0} read 0 4096\n"
    (tmp_path / "a.log").write_text(lines.format("/dev/nvme0n1"))
    job = tmp_path / "own.fio"
    job.write_text("[a]\nfilename=/dev/nvme0n1\ndirect=1\nread_iolog=a.log\n")
    spec, folder = workload.experiment_of(workload.Asked(str(job)))
    path = workload.write(spec, [Setting("none", {}).as_scheduler()], folder, tmp_path / "confirm")
    assert (path.parent / "a.log").read_text() == lines.format("/dev/vflash0")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (workload.Asked("kyber/table2"), "several loads: choose one with --load; expected r1"),
        (workload.Asked("kyber/table2", load="r7"), "there is no load r7; expected r1"),
        (workload.Asked("kyber/r1-w1", variables={"A": "1"}), "--variable is for a job file"),
        (workload.Asked("no/such"), "there is no experiment no/such"),
        (workload.Asked("no/such.fio"), "there is no job file no/such.fio"),
    ],
)
def test_loads_that_there_are_not(asked: workload.Asked, words: str) -> None:
    with pytest.raises(UsageError) as e:
        workload.experiment_of(asked)
    assert words in str(e.value)


@pytest.mark.parametrize("name", ['a"b', "\N{ROCKET}"])
def test_a_job_file_may_have_any_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / f"{name}.fio"
    path.write_text(JOB.replace("${DEPTH}", "8"))
    assert workload.experiment_of(workload.Asked(str(path)))[0].title == name


@pytest.mark.parametrize(("cpus", "simulated"), [(None, 4), (1, 1), (16, 16)])
def test_as_many_processors_as_asked_are_simulated(cpus: int | None, simulated: int, job: Path) -> None:
    asked = workload.Asked(str(job), variables={"DEPTH": "8"}, cpus=cpus)
    spec, folder = workload.experiment_of(asked)
    load = SimulatedLoad(spec, "quick", folder / workload.FILE, cpus)
    chunk = plan.Chunk(Setting("none", {}).as_scheduler(), spec.sweeps[0], 1, (1.0,), 10, 1.0)
    assert load.plan.cpus(chunk) == simulated


def test_a_job_on_a_far_processor_has_as_many(job: Path) -> None:
    job.write_text(JOB.replace("cpus_allowed=2", "cpus_allowed=8"))
    spec, folder = workload.experiment_of(workload.Asked(str(job), variables={"DEPTH": "8"}))
    SimulatedLoad(spec, "quick", folder / workload.FILE).check([Setting("none", {})])


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
    assert least["sysfs"][:2] == [f"echo {s} > /sys/block/DRIVE/queue/scheduler" for s in ("none", "k2")]
    assert "echo 1023 > /sys/block/DRIVE/queue/nr_requests" in least["sysfs"]
    assert "latency: k2" in captured.err
    [folder] = (tmp_path / "runs" / "tune").glob("own-*")
    assert "What was tried, and the front" in (folder / "report.html").read_text()
    # The same command again gives the same digits.
    assert cli.main(words) == 0
    again = json.loads(capsys.readouterr().out)
    assert again == found
    # At the same time it would change what the first one keeps there.
    before = (folder / "simulations.jsonl").read_bytes()
    with FileLock(folder.parent / f".{folder.name}.lock"):
        assert cli.main(words) == 2
    assert f"another command is searching in {folder}: wait for it" in capsys.readouterr().err
    assert (folder / "simulations.jsonl").read_bytes() == before


def test_a_search_does_not_go_on_with_another_trace(tmp_path: Path) -> None:
    job = tmp_path / "own.fio"
    job.write_text("[a]\nfilename=/dev/nvme0n1\ndirect=1\nread_iolog=a.log\n")
    how = command.SearchOptions(1, "", lambda folder: None)
    asked = command.SearchTask(
        workload.Asked(str(job)),
        ("max a.iops", "min a.lat_us.p99"),
        (),
        ("none",),
        "quick",
        trials=1,
        repeats=1,
    )
    found = []
    for offset in (4096, 8192, 4096):
        lines = ["fio version 3 iolog", "0 /dev/x add", "0 /dev/x open", f"1 /dev/x read {offset} 4096", ""]
        (tmp_path / "a.log").write_text("\n".join(lines))
        progress = Progress(Console(quiet=True))
        found.append(command.tune(asked, tmp_path / "runs", how, None, progress).folder)
    assert found[0] == found[2]
    assert found[0] != found[1]
    # So it is with everything else that decides the figures of a simulated run.
    spec, folder = workload.experiment_of(workload.Asked(str(job)))
    assert SimulatedLoad(spec, "quick", folder / workload.FILE).identity.keys() >= {
        "machine",
        "code",
        "drive",
    }


def test_nothing_keeps_what_must_be_kept(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["tune", "--workload", str(job), "--variable", "DEPTH=8", "--out", str(tmp_path / "runs")]
    words += ["--goal", "min rt.lat_us.p99", "--keep", "background.iops >= 3 * none"]
    assert cli.main([*words, "--quick", "--trials", "2", "--repeats", "1", "--schedulers", "kyber"]) == 1
    said = capsys.readouterr().err.replace("\n", " ")
    found = re.search(r"keeps what must be kept \(background.iops >= 3 \* none is ([0-9]+)\)", said)
    assert found, said
    assert int(found[1]) > 1000, "in I/Os a second, as it was asked"


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
