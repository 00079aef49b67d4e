# SPDX-License-Identifier: GPL-2.0-only
"""Real job files: what is read, what is derived, what is refused with file and line."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.refusal import refused

from tailgate import main as cli
from tailgate.base.errors import UsageError
from tailgate.base.paths import EXPERIMENTS
from tailgate.load import fiojob
from tailgate.load.fiojob import PointLoad
from tailgate.runs import evidence

LOAD = PointLoad(
    real_time=("rt",),
    background=("background",),
    background_mib_s=None,
    rt_samples=400,
    limit_s=30,
    seed=7,
    dilation=1,
    lead_s=0.05,
    sampler="true",
)


EXPERIMENT = """
title = "A file with a variable"
drive = "970evo"
job = "own.fio"
[[sweeps]]
access = "random"
op = "read"
block_size_kib = 4
full_rate_mib_s = 100
[flows]
rt = { section = "rt", role = "background" }
[machine]
iops_max = 10000
[queue]
nr_requests = 64
[[schedulers]]
label = "none"
name = "none"
[modes.full]
duration_s = 1
background_rates = [1.0]
seeds = [1]
limit_s = 10
"""


def job(tmp_path: Path, text: str) -> fiojob.JobFile:
    path = tmp_path / "job.fio"
    path.write_text(text)
    return fiojob.parse(path)


def derive(parsed: fiojob.JobFile, load: PointLoad) -> str:
    return fiojob.text(fiojob.derive(parsed, load))


def options(derived: str) -> dict[str, dict[str, str]]:
    out: dict[str, dict[str, str]] = {}
    current: dict[str, str] = {}
    for line in derived.splitlines():
        if line.startswith("["):
            current = out.setdefault(line[1:-1], {})
        elif line and line[0] != ";":
            key, _, value = line.partition("=")
            current[key] = value
    return out


def test_global_is_inherited_and_overridden(tmp_path: Path) -> None:
    parsed = job(
        tmp_path,
        "# comment\n[global]\nbs=4k\nrw = randread\n\n[a]\nbs=64k\n"
        "; another\n[global]\ndirect=1\n[b]\nnorandommap\n",
    )
    a, b = parsed.sections
    assert {k: o.value for k, o in a.options.items()} == {"rw": "randread", "bs": "64k"}
    assert {k: o.value for k, o in b.options.items()} == {
        "bs": "4k",
        "rw": "randread",
        "direct": "1",
        "norandommap": "",
    }
    assert a.options["bs"].line == 7


def test_derived_job_ends_with_the_reader(tmp_path: Path) -> None:
    derived = options(derive(fiojob.parse(EXPERIMENTS / "k2/fig8.fio"), LOAD))
    assert list(derived) == ["background", "rt"]
    assert derived["rt"]["number_ios"] == "400"
    assert derived["rt"]["exitall"] == "1"
    assert derived["rt"]["randseed"] == derived["background"]["randseed"] == "7"
    assert derived["rt"]["startdelay"] == derived["background"]["ramp_time"] == "50000us"
    assert "ramp_time" not in derived["rt"]
    assert "rate" not in derived["background"]
    assert derived["rt"]["thinktime"] == "2000us"


def test_figures_stay_those_of_each_section(tmp_path: Path) -> None:
    """With these options fio would merge the figures of all sections, or of reads and writes."""
    parsed = job(
        tmp_path, "[global]\ngroup_reporting\nunified_rw_reporting=1\n[rt]\nbs=4k\n[background]\nbs=64k\n"
    )
    for section in options(derive(parsed, LOAD)).values():
        assert not {"group_reporting", "unified_rw_reporting"} & section.keys()


def test_dilation_scales_every_time_and_rate(tmp_path: Path) -> None:
    parsed = job(
        tmp_path,
        "[background]\nnumjobs=2\nrate_iops=1000,,500\nthinktime=1ms\n"
        "[rt]\nthinktime=2000\nmax_latency=1s\nrate_min=64k\n",
    )
    derived = options(derive(parsed, replace(LOAD, dilation=4, background_mib_s=100)))
    assert derived["background"]["rate_iops"] == "250,,125"
    assert derived["background"]["thinktime"] == "4000us"
    assert derived["background"]["rate"] == str(100 * 2**20 // 2 // 4)
    assert derived["rt"]["thinktime"] == "8000us"
    assert derived["rt"]["max_latency"] == "4000000us"
    assert derived["rt"]["rate_min"] == "16384"
    assert derived["rt"]["runtime"] == "120000000us"
    assert derived["rt"]["startdelay"] == "200000us"


def test_a_rate_of_0_is_no_limit_whatever_the_dilation(tmp_path: Path) -> None:
    parsed = job(tmp_path, "[background]\nrate=0,1m\n[rt]\nrate_iops=0\n")
    derived = options(derive(parsed, replace(LOAD, dilation=4)))
    assert derived["background"]["rate"] == f"0,{2**20 // 4}"
    assert derived["rt"]["rate_iops"] == "0"


def test_a_mix_with_steps_has_two_shares_of_the_rate(tmp_path: Path) -> None:
    parsed = job(tmp_path, "[background]\nrw=rw:8k\nrwmixread=25\n[rt]\nbs=4k\n")
    derived = options(derive(parsed, replace(LOAD, background_mib_s=100)))
    assert derived["background"]["rate"] == f"{25 * 2**20},{75 * 2**20}"


def test_options_have_their_first_names(tmp_path: Path) -> None:
    """As in fio, the later one of an option's two names counts."""
    parsed = job(
        tmp_path, "[global]\nbs=4k\nrw=randread\n[background]\nblocksize=8k\nreadwrite=randrw\n[rt]\n"
    )
    derived = options(derive(parsed, replace(LOAD, background_mib_s=2)))["background"]
    assert (derived["bs"], derived["rw"], derived["rate"]) == ("8k", "randrw", f"{2**20},{2**20}")
    assert not {"blocksize", "readwrite"} & derived.keys()


@pytest.mark.parametrize(
    ("shares", "reads"),
    [
        ("rwmixread=70", 70),
        ("rwmixwrite=70", 30),
        ("rwmixread=70\nrwmixwrite=80", 20),
        ("rwmixwrite=80\nrwmixread=70", 70),
    ],
)
def test_of_two_shares_of_a_mix_the_later_one_counts(tmp_path: Path, shares: str, reads: int) -> None:
    parsed = job(tmp_path, f"[background]\nrw=randrw\n{shares}\n[rt]\n")
    derived = options(derive(parsed, replace(LOAD, background_mib_s=100)))
    assert derived["background"]["rate"] == f"{reads * 2**20},{(100 - reads) * 2**20}"


@pytest.mark.parametrize("option", ["startdelay=1s", "loops=2"])
def test_what_the_lab_decides_for_a_real_time_section_is_refused(option: str, tmp_path: Path) -> None:
    parsed = job(tmp_path, f"[background]\n{option}\n[rt]\n{option}\n")
    with pytest.raises(
        UsageError, match=r"job\.fio:4: (startdelay|loops): expected none in a real-time section"
    ):
        derive(parsed, LOAD)


def test_traces_are_found_beside_the_job_and_dilated(tmp_path: Path) -> None:
    (tmp_path / "t.log").write_text("fio version 3 iolog\n0 /dev/x open\n150 /dev/x read 4096 512\n")
    [trace] = fiojob.traces(job(tmp_path, "[a]\nread_iolog=t.log\n"))
    assert fiojob.dilate_trace(trace.read_text(), 4) == (
        "fio version 3 iolog\n0 /dev/x open\n600 /dev/x read 4096 512\n"
    )
    with pytest.raises(UsageError, match=r":2: read_iolog: expected the name of a file beside the job file"):
        fiojob.traces(job(tmp_path, "[a]\nread_iolog=other.log\n"))
    (tmp_path / "binary.log").write_bytes(b"\x07\xff\xfe")  # as blktrace writes them
    with refused(f"{tmp_path}/job.fio:2: read_iolog: expected a readable trace, as text ("):
        fiojob.traces(job(tmp_path, "[a]\nread_iolog=binary.log\n"))


def test_one_process_of_several_samples_the_machine(tmp_path: Path) -> None:
    """fio runs the command for each process, into one file, and stops if one command fails."""
    load = replace(LOAD, sampler="echo sampled")
    several = options(derive(job(tmp_path, "[background]\n[rt]\nnumjobs=4\n"), load))["rt"]
    one = options(derive(job(tmp_path, "[background]\n[rt]\n"), load))["rt"]
    assert one["exec_prerun"] == one["exec_postrun"] == "echo sampled"
    for key in ("exec_prerun", "exec_postrun"):
        for _ in range(4):
            subprocess.run(["sh", "-c", f"{several[key]} > {key}.txt"], cwd=tmp_path, check=True)
        assert (tmp_path / f"{key}.txt").read_text() == "sampled\n"


def test_processes_enter_their_cgroup_before_their_first_request(tmp_path: Path) -> None:
    """Each process enters for itself, and one runs the sampler; a section without a cgroup is not moved."""
    parsed = job(
        tmp_path,
        "[global]\nioengine=null\nsize=1m\nrw=read\n[background]\nnumjobs=3\n[rt]\nnumjobs=2\nthinktime=100us\n[other]\n",
    )
    load = replace(
        LOAD, real_time=("rt", "other"), rt_samples=10, lead_s=0.5, limit_s=5, sampler="echo sampled"
    )
    groups = {section: str(tmp_path / section) for section in ("rt", "background")}
    for folder in groups.values():
        Path(folder).mkdir()
    made = options(derive(parsed, replace(load, cgroups=groups)))
    assert "exec_prerun" not in made["other"]
    assert made["rt"]["exec_postrun"].endswith(" || echo sampled")
    # A file where the kernel has cgroup.procs: it keeps what was written last, so here each appends.
    # On a busy host a process might be ended by another one before it has begun.
    path = tmp_path / "point.fio"
    derived = derive(parsed, replace(load, cgroups=groups))
    assert "\nexitall=1\n" in derived
    path.write_text(derived.replace("> ", ">> ").replace("\nexitall=1\n", "\n"))
    done = subprocess.run(
        ["fio", "--output-format=normal", path], capture_output=True, check=True, cwd=tmp_path, text=True
    )
    entered = {name: (Path(groups[name]) / "cgroup.procs").read_text().split() for name in groups}
    says = {name: re.findall(rf"^{name}: .*: pid=(\d+):", done.stdout, re.MULTILINE) for name in groups}
    assert {name: len(pids) for name, pids in entered.items()} == {"rt": 2, "background": 3}
    # fio's processes share its output, where a line is lost now and then on a busy host
    assert all(says[name] and set(says[name]) <= set(pids) for name, pids in entered.items())
    assert (tmp_path / "rt.prerun.txt").read_text() == "sampled\n"


def test_threads_cannot_enter_a_cgroup(tmp_path: Path) -> None:
    parsed = job(tmp_path, "[background]\nthread\n[rt]\n")
    with pytest.raises(UsageError, match=r"job\.fio:2: thread: expected processes, as these enter a cgroup"):
        derive(parsed, replace(LOAD, cgroups={"background": "/cg/background"}))
    derive(parsed, replace(LOAD, cgroups={"rt": "/cg/rt"}))


def test_no_background_at_no_load() -> None:
    derived = options(derive(fiojob.parse(EXPERIMENTS / "k2/fig8.fio"), replace(LOAD, background_mib_s=0)))
    assert list(derived) == ["rt"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bs=4k\n", ":1: expected a section such as [global] before 'bs'"),
        ("[global]\nbs=4k\n", ": expected at least one section besides [global]"),
        ("[a\n", ":1: expected a section such as [reader], got '[a'"),
        ("[a]\n[a]\n", ":2: section [a] stands twice"),
        (
            "[a]\nthinktime=2 bananas\n",
            ":2: thinktime: expected a whole number with us, ms, s, m, h or d, got",
        ),
        ("[global]\nruntime=0.5s\n[a]\n", ":2: runtime: expected a whole number"),
        ("[a]\nrate=fast\n", ":2: rate: expected a whole number with k, m or g"),
        ("[a]\n\nnumber_ios=5\n", ":3: number_ios must not stand here: the lab sets it"),
        ("[a]\ntime_based\n", ":2: time_based must not stand here"),
        ("[a]\nio_limit=1g\n", ":2: io_limit must not stand here: the lab sets it"),
        ("[a]\nwait_for_previous\n", ":2: wait_for_previous must not stand here"),
        ("[a]\ninclude other.fio\n", ":2: include is not followed"),
        ("[a]\nwhat is this\n", ":2: expected option=value, got 'what is this'"),
    ],
)
def test_refused_with_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    with refused(f"{tmp_path / 'job.fio'}{message}"):
        job(tmp_path, text)


@pytest.mark.parametrize(
    ("words", "way_out"),
    [
        (["simulate", "own.fio"], "--variable POOL=TEXT"),
        (["tune", "--workload", "own.fio", "--goal", "max reader.mib_s"], "--variable POOL=TEXT"),
        (["new", "experiment", "mine", "--from", "own.fio"], "a value in its place"),
        (["run", "own.toml", "--target", "sim"], "POOL in the experiment's variables"),
    ],
    ids=lambda words: words[0] if isinstance(words, list) else "",
)
def test_a_variable_without_a_value_is_told_as_the_command_takes_it(
    words: list[str],
    way_out: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.fio").write_text("[rt]\nrw=randread\ndirect=1\nsize=${POOL}\n")
    Path("own.toml").write_text(EXPERIMENT)
    assert cli.main(words) == 2
    assert capsys.readouterr().err.endswith(f"own.fio:4: ${{POOL}} has no value; expected {way_out}\n")


def test_missing_section_names_those_that_are_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"flow rt names \[reader\], but the sections are \[a\], \[b\]"):
        job(tmp_path, "[a]\n[b]\n").section("reader", "flow rt")


def test_point_without_samples_ends_by_time(tmp_path: Path) -> None:
    derived = options(
        derive(fiojob.parse(EXPERIMENTS / "k2/fig8.fio"), replace(LOAD, rt_samples=0, limit_s=2))
    )
    assert not {"number_ios", "exitall"} & set(derived["rt"])
    assert derived["rt"]["runtime"] == "2000000us"


@pytest.mark.parametrize("name", ["fig8", "fig2", "inversion"])
def test_fio_takes_what_is_derived(tmp_path: Path, name: str) -> None:
    parsed = fiojob.parse(EXPERIMENTS / f"k2/{name}.fio")
    for mib_s in (None, 0.0, 132.5):
        path = tmp_path / "point.fio"
        real_time = tuple(s.name for s in parsed.sections if s.name != "background")
        load = replace(LOAD, real_time=real_time, background_mib_s=mib_s, dilation=16)
        path.write_text(derive(parsed, load))
        subprocess.run(["fio", "--parse-only", path], check=True)


def test_fio_ends_as_the_derivation_counts_on(tmp_path: Path) -> None:
    """number_ios with exitall ends all jobs; neither the reader nor the background counts the lead."""
    parsed = job(
        tmp_path,
        "[global]\nioengine=null\nsize=1g\nbs=64k\nrw=randread\n"
        "[background]\nnumjobs=2\nrate=1\n[rt]\nthinktime=2ms\n",
    )
    path = tmp_path / "point.fio"
    path.write_text(
        derive(parsed, replace(LOAD, background_mib_s=50, rt_samples=100, lead_s=0.3, limit_s=20))
    )
    done = subprocess.run(
        ["fio", "--output-format=json+", path], capture_output=True, check=True, cwd=tmp_path, text=True
    )
    jobs = evidence.parse_fio(done.stdout)["jobs"]
    reader = next(j for j in jobs if j["jobname"] == "rt")
    assert reader["read"]["total_ios"] == reader["read"]["clat_ns"]["N"] == 100
    for other in (j for j in jobs if j["jobname"] == "background"):
        # The background runs as long as the reader, not the lead of 0.3 s longer.
        assert abs(other["read"]["runtime"] - reader["read"]["runtime"]) < 200
        # A busy host may be slower.
        assert 0 < other["read"]["bw_bytes"] < 1.25 * 25 * 2**20
