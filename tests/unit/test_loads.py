# SPDX-License-Identifier: GPL-2.0-only
"""What the project's experiments make of their job files, load by load."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.refusal import refused

from tailgate.load import fiojob
from tailgate.load.fiojob import JobFile
from tailgate.load.loads import Loads
from tailgate.spec import experiment, plan
from tailgate.spec.plan import Chunk
from tailgate.targets.resolve import resolve


def loads(name: str) -> tuple[Loads, dict[str | None, Chunk]]:
    """The loads of an experiment, and a chunk of each by its label."""
    path = experiment.find(name)
    run = resolve(path, "full", None, None)
    return Loads(run, path), {c.sweep.label: c for c in plan.chunks(run) if c.variant is None}


def options(job: JobFile, section: str) -> dict[str, str]:
    return {key: option.value for key, option in job.section(section, "the test").options.items()}


def sections(job: JobFile) -> list[str]:
    return [s.name for s in job.sections]


def test_one_job_file_for_ten_loads() -> None:
    made, chunks = loads("k2/table2")
    seen = {label: options(made.derive(chunk, 1.0), "background") for label, chunk in chunks.items()}
    assert len(seen) == 10
    assert (seen["random-read-4k"]["rw"], seen["random-read-4k"]["bs"]) == ("randread", "4k")
    assert (seen["sequential-write-64k"]["rw"], seen["sequential-write-64k"]["bs"]) == ("write", "64k")


def test_a_sweep_that_ended_below_saturation_ends_there() -> None:
    made, chunks = loads("k2/table2")
    full = {label: options(made.derive(chunk, 1.0), "background") for label, chunk in chunks.items()}
    assert "rate" not in full["random-read-4k"]
    assert full["random-write-4k"]["rate"] == str(300 * 2**20)  # of each of three processes
    half = options(made.derive(chunks["random-write-4k"], 0.5), "background")
    assert half["rate"] == str(150 * 2**20)


def test_a_mix_shares_its_rate() -> None:
    made, chunks = loads("k2/table2")
    even = options(made.derive(chunks["random-mixed-4k"], 0.5), "background")["rate"]
    assert even == f"{65 * 2**20},{65 * 2**20}"  # of 780 MiB/s
    made, chunks = loads("k2/fig4")
    reads, writes = options(made.derive(chunks["reader-beside-mixed"], 0.5), "background")["rate"].split(",")
    assert int(reads) == pytest.approx(4 * int(writes), rel=1e-6)


def test_without_a_real_time_flow_time_ends_a_point() -> None:
    made, chunks = loads("k2/table1")
    for chunk in chunks.values():
        job = made.derive(chunk, 1.0)
        assert sections(job) == ["load"]
        assert options(job, "load")["runtime"] == "4000000us"
        assert "number_ios" not in options(job, "load")


def test_a_longer_ramp_time_of_the_background_is_the_lead() -> None:
    made, chunks = loads("kyber/r1-w256")
    [chunk] = chunks.values()
    assert made.lead_s(chunk.sweep) == 3
    assert options(made.derive(chunk, 1.0, 4), "write")["ramp_time"] == "12000000us"
    made, chunks = loads("k2/table1")
    assert {made.lead_s(chunk.sweep) for chunk in chunks.values()} == {0.05}


def test_flows_that_take_no_part_are_left_out() -> None:
    made, chunks = loads("k2/fig11")
    assert sections(made.derive(chunks["one"], 1.0)) == ["background", "rt1"]
    job = made.derive(chunks["other-priority"], 1.0)
    assert sections(job) == ["background", "rt1", "rt2"]
    first, second = options(job, "rt1"), options(job, "rt2")
    assert (first["prio"], second["prio"], second["thinktime"]) == ("0", "1", "250us")
    assert ("exitall" in first, "exitall" in second) == (True, False)
    assert first["startdelay"] == second["startdelay"]


def test_dilation_is_in_what_is_set_beside_schedulers() -> None:
    """Rates of cgroups are divided, rounded up; times are multiplied; shares, weights and words are not."""
    path = experiment.find("k2/controls")
    run = resolve(path, "quick", None, None, loads=["4k", "writes"])
    made = Loads(run, path)
    chunks = {(c.scheduler.label, c.sweep.label): c for c in plan.chunks(run)}
    limited, cost = chunks["io-max-310", "4k"], chunks["io-cost-500us", "4k"]
    assert made.cgroups(limited, 1) == f"background io.max rbps={310 * 2**20}\n"
    assert made.cgroups(limited, 16) == f"background io.max rbps={310 * 2**16}\n"
    assert made.cgroups(limited, 3) == f"background io.max rbps={-(-310 * 2**20 // 3)}\n"
    model, qos, *weights = made.cgroups(cost, 16).splitlines()
    assert model.startswith(". io.cost.model ctrl=user model=linear rbps=")
    assert "rrandiops=8813 " in model  # of 141000
    assert qos == (
        ". io.cost.qos enable=1 ctrl=user rpct=99.00 rlat=8000 wpct=0.00 wlat=8000 min=10.00 max=150.00"
    )
    assert weights == ["rt io.weight 10000", "background io.weight 1"]
    throttled, none = chunks["wbt-2000us", "writes"], chunks["none", "writes"]
    assert [made.settings(throttled, k)["wbt_lat_usec"] for k in (1, 16)] == [2000, 32000]
    assert made.settings(none, 16)["wbt_lat_usec"] == 0
    assert made.cgroups(none, 1) == ""
    entered = options(made.derive(limited, 1.0), "background")["exec_prerun"]
    assert entered.startswith("echo $PPID > /cg/background/cgroup.procs || exit 1 && ")
    assert "exec_prerun" not in options(made.derive(limited, 1.0), "rt")
    assert "exec_prerun" not in options(made.derive(none, 1.0), "background")


def test_flows_enter_cgroups_that_are_told_nothing() -> None:
    path = experiment.find("k2/controls")
    run = resolve(path, "quick", ["none"], None, loads=["4k"])
    flows = {
        name: flow.model_copy(update={"cgroup": f"tenants/{name}"}) for name, flow in run.spec.flows.items()
    }
    made = Loads(replace(run, spec=run.spec.model_copy(update={"flows": flows})), path)
    [chunk] = plan.chunks(made.run)
    assert made.cgroups(chunk, 16) == "tenants/rt\ntenants/background\n"
    entered = options(made.derive(chunk, 1.0), "background")["exec_prerun"]
    assert entered.startswith("echo $PPID > /cg/tenants/background/cgroup.procs || exit 1 && ")
    simulated = options(made.derive(chunk, 1.0, mount=""), "background")
    assert simulated["cgroup"] == "tenants/background"
    assert "exec_prerun" not in simulated


@pytest.mark.parametrize("name", experiment.names())
def test_fio_takes_every_load(name: str, tmp_path: Path) -> None:
    made, chunks = loads(name)
    # Loads that differ in the drive alone have the same job.
    jobs = sorted({fiojob.text(made.derive(chunk, 0.5)) for chunk in chunks.values()})
    files = [tmp_path / f"{number}.fio" for number in range(len(jobs))]
    for file, job in zip(files, jobs, strict=True):
        file.write_text(job)
    done = subprocess.run(["fio", "--parse-only", *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_time_of_the_queue_is_a_number(tmp_path: Path) -> None:
    path = experiment.find("k2/controls")
    run = resolve(path, "quick", ["wbt-2000us"], None)
    [scheduler] = run.schedulers
    wrong = scheduler.model_copy(update={"queue": {"wbt_lat_usec": "abc"}})
    with refused(f"{path}: queue.wbt_lat_usec: expected a number, got 'abc'"):
        Loads(replace(run, schedulers=(wrong,)), path)
