# SPDX-License-Identifier: GPL-2.0-only
"""An experiment of one's own, which repeats no published figure: from the file to table, JSON and report."""

import json
from pathlib import Path

import pytest
from tests.unit.refusal import refused

from tailgate import main as cli
from tailgate.papers import cells
from tailgate.papers.answers import published_in, read_points
from tailgate.runs.folder import read_run
from tailgate.spec import experiment

JOB = """[global]
filename=/dev/vflash0
direct=1
rw=randread
norandommap
bs=4k

[rt]
ioengine=psync
thinktime=500
prioclass=1
prio=0

[background]
ioengine=libaio
iodepth=16
prioclass=2
prio=4
"""

EXPERIMENT = """
title = "My reader beside my backup"
drive = "970evo"
job = "own.fio"
[[sweeps]]
access = "random"
op = "read"
block_size_kib = 4
full_rate_mib_s = 300
[flows]
rt = { section = "rt", role = "real-time" }
background = { section = "background", role = "background" }
[machine]
iops_max = 140000
simulated = "ideal"
[queue]
nr_requests = 256
nomerges = 0
wbt_lat_usec = 0
[[schedulers]]
label = "none"
name = "none"
[[schedulers]]
label = "k2-8"
name = "k2"
knobs = { inflight_max = 8 }
[modes.quick]
rt_samples = 400
background_rates = [0.0, 1.0]
seeds = [1]
limit_s = 10
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "own" / "own.toml"
    path.parent.mkdir()
    path.write_text(EXPERIMENT)
    path.with_name("own.fio").write_text(JOB)
    return path


def test_it_is_run_shown_and_reported(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tailgate_sim", reason="make sim builds it")
    out = own.parents[1] / "runs"
    assert cli.main(["run", str(own), "--target", "sim", "--quick", "--out", str(out), "--json"]) == 0
    captured = capsys.readouterr()
    points = json.loads(captured.out)["points"]
    assert [(p["label"], p["sweep"]["background_rate"]) for p in points] == [
        (label, rate) for label in ("none", "k2-8") for rate in (0, 1)
    ]
    assert not any("paper" in flow for p in points for flow in p["flows"])
    assert "paper" not in captured.err.partition("report: ")[0]
    assert "ours/its" not in captured.err

    [results] = (out / "own" / "own").glob("*/results.json")
    folder = results.parent
    assert {p.name for p in (folder / "sources").iterdir()} >= {"own.toml", "own.fio"}
    run = read_run(folder)
    _, read = read_points(folder, run)
    assert cells.of(run.spec, [("sim", p) for p in read], published_in(folder, run.spec)) == []
    assert cells.stated(folder, run.spec) == []
    page = (folder / "report.html").read_text()
    words = page[page.index("<main>") : page.index("</main>")]
    assert "paper" not in words.replace("paper_bgcolor", "")  # the key of plotly's for the background
    assert words.count('class="plot"') == 2
    assert "Background throughput (MiB/s)" in words
    rows = [row.count("<th") + row.count("<td") for row in words.split("<tr")[1:] if "k2-8" in row]
    assert rows == [words[: words.index("</thead>")].count("<th") - words.count("<thead")] * 2


@pytest.mark.parametrize(
    ("role", "flows", "plot"),
    [
        ("real-time", "", "bandwidth-latency"),
        ("background", "", "shares"),
        ("background", 'flows = ["rt"]\n', "none"),
    ],
)
def test_it_is_drawn_by_what_its_loads_have(own: Path, role: str, flows: str, plot: str) -> None:
    text = EXPERIMENT.replace('"real-time"', f'"{role}"').replace("[[sweeps]]\n", f"[[sweeps]]\n{flows}")
    own.write_text(text.replace("rt_samples = 400", "rt_samples = 400\nduration_s = 1"))
    assert experiment.load(own).plot == plot


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'name = "k2"\n',
            'name = "k2"\npaper = "K2-8"\n',
            "schedulers[1].paper: expected [paper] too, whose name this is",
        ),
        (
            "[[sweeps]]\n",
            '[[sweeps]]\nrow = { source = "Table I" }\n',
            "sweeps[0].row: expected [paper] too, whose file has these lines",
        ),
    ],
)
def test_it_names_nothing_of_a_paper(own: Path, old: str, new: str, message: str) -> None:
    own.write_text(EXPERIMENT.replace(old, new))
    with refused(f"{own}: {message}"):
        experiment.load(own)
