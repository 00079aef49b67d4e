# SPDX-License-Identifier: GPL-2.0-only
"""Experiments whose flows share a drive: several background flows, the table of their shares, the report."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tailgate import main as cli
from tailgate.base import paths
from tailgate.base.errors import UsageError
from tailgate.load.loads import Loads
from tailgate.papers.answers import read_points
from tailgate.runs.folder import read_run
from tailgate.show import shares
from tailgate.spec import experiment, plan
from tailgate.targets.resolve import resolve

pytest.importorskip("tailgate_sim", reason="make sim builds it")

JOB = """[global]
filename=/dev/vflash0
direct=1
rw=randread
norandommap
ioengine=libaio
iodepth=32

[a]
bs=8k

[b]
bs=4k
numjobs=3
"""

EXPERIMENT = """
title = "Two that share"
drive = "970evo"
job = "own.fio"
[paper]
file = "paper.csv"
title = "P"
figure = "Figure 5"
x = "x"
y = "y"
latency = "l"
plot = "shares"
[[sweeps]]
label = "both"
access = "random"
op = "read"
block_size_kib = 8
full_rate_mib_s = 400
in_tables = false
[[sweeps]]
label = "alone"
access = "random"
op = "read"
block_size_kib = 8
full_rate_mib_s = 400
flows = ["a"]
schedulers = ["none"]
in_tables = false
[flows]
a = { section = "a", role = "background", cgroup = "a" }
b = { section = "b", role = "background", cgroup = "b" }
[machine]
smp = 4
iops_max = 140000
simulated = "ideal"
[queue]
nr_requests = 1023
nomerges = 2
wbt_lat_usec = 0
[[schedulers]]
label = "none"
name = "none"
[[schedulers]]
label = "mqfq"
name = "mqfq"
knobs = { d = 16, t_kib = 64 }
cgroups.b."io.mqfq.weight" = 300
[modes.quick]
duration_s = 0.3
background_rates = [1.0]
seeds = [1]
limit_s = 10
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "own" / "own.toml"
    path.parent.mkdir()
    path.write_text(EXPERIMENT)
    path.with_name("own.fio").write_text(JOB)
    path.with_name("paper.csv").write_text((paths.EXPERIMENTS / "mqfq/paper.csv").read_text())
    return path


def test_a_rate_is_that_of_all_background_processes(own: Path) -> None:
    run = resolve(own, "quick", ["none"], None, "sim")
    both = plan.chunks(run)[0]
    job = Loads(run, own).derive(both, 0.5)
    rates = {s.name: s.options["rate"].value for s in job.sections}
    assert rates == dict.fromkeys("ab", str(200 * 2**20 // 4))  # of four processes


def test_a_load_needs_some_background(own: Path) -> None:
    own.write_text(EXPERIMENT.replace('"background"', '"real-time"'))
    with pytest.raises(UsageError, match='none has role = "background"; expected at least one'):
        experiment.load(own)


def test_shares_are_shown(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = own.parents[1] / "runs"
    assert cli.main(["run", str(own), "--target", "sim", "--quick", "--out", str(out), "--json"]) == 0
    captured = capsys.readouterr()
    points = json.loads(captured.out)["points"]
    rates = {(p["label"], p["load"], f["flow"]): f["mib_s"] for p in points for f in p["flows"]}
    assert rates["mqfq", "both", "b"] == pytest.approx(3 * rates["mqfq", "both", "a"], rel=0.05)
    ratio = rates["mqfq", "both", "b"] / rates["mqfq", "both", "a"]
    assert f"1.00 : {ratio:.2f}" in captured.err
    assert "slowed" in captured.err

    (folder,) = (out / "own" / "own").glob("*/results.json")
    _, read = read_points(folder.parent, read_run(folder.parent))
    [here] = shares.loads(read)
    times = {p.scheduler.label: shares.slowed(p, "a", read) for p in here}
    assert times == {
        label: pytest.approx(rates["none", "alone", "a"] / rates[label, "both", "a"], rel=1e-4)
        for label in ("none", "mqfq")
    }
    assert shares.slowed(here[0], "b", read) is None
    starved = replace(here[1], flows=tuple(f for f in here[1].flows if f.name != "a"))
    assert len(shares.row(starved, here, read)) == len(shares.headings(here, read))
    report = folder.with_name("report.html").read_text()
    assert all(cell in report for cell in shares.row(here[1], here, read))


def test_points_of_equal_rates_are_compared(own: Path) -> None:
    """`tailgate new` writes several rates where no flow is real-time."""
    own.write_text(EXPERIMENT.replace("background_rates = [1.0]", "background_rates = [0.05, 1.0]"))
    out = own.parents[1] / "runs"
    assert cli.main(["run", str(own), "--target", "sim", "--quick", "--out", str(out)]) == 0
    [folder] = (out / "own" / "own").glob("*/")
    _, read = read_points(folder, read_run(folder))
    [here] = shares.loads(read)
    headings = shares.headings(here, read)
    assert headings[0] == ("load", "")
    of_none, slowed = headings.index(("all", "of none's")), headings.index(("a", "slowed"))
    found = {(p.scheduler.label, p.background_rate): shares.row(p, here, read) for p in here}
    assert [row[0] for row in found.values()] == ["5%", "full"] * 2
    rates = {key: p.bg.mib_s for p in here if (key := (p.scheduler.label, p.background_rate)) and p.bg}
    of_a = {
        (p.scheduler.label, p.sweep.label, p.background_rate): f.mib_s for p in read if (f := p.flow("a"))
    }
    for (label, rate), row in found.items():
        assert len(row) == len(headings)
        assert row[slowed] == f"{of_a['none', 'alone', rate] / of_a[label, 'both', rate]:.2f}"
        assert row[of_none] == f"{rates[label, rate] / rates['none', rate]:.2f}"
    report = (folder / "report.html").read_text()
    assert all(f">{cell}<" in report for row in found.values() for cell in row)
    full = [p for p in here if p.background_rate == 1]
    assert shares.headings(full, read)[0] == ("a", "MiB/s")
