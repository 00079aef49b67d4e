# SPDX-License-Identifier: GPL-2.0-only
"""`tailgate tune --target vm`, from a job file to profiles that a guest has confirmed, in a reduced form."""

import json
from pathlib import Path

import pytest

from tailgate.main import main

pytestmark = pytest.mark.vm

JOB = """[global]
filename=/dev/vflash0
direct=1
norandommap
[rt]
rw=randread
bs=4k
ioengine=psync
thinktime=1ms
prioclass=1
[background]
rw=randread
bs=64k
ioengine=libaio
iodepth=32
"""


def test_what_the_simulator_proposes_is_confirmed_in_a_guest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Few settings of K2 beside none: enough for all steps, not for a good answer."""
    (tmp_path / "own.fio").write_text(JOB)
    line = ["tune", "--workload", str(tmp_path / "own.fio"), "--goal", "min rt.lat_us.p99", "--quick"]
    line += ["--keep", "background.iops >= 0.5 * none"]
    line += ["--schedulers", "k2", "--trials", "4", "--repeats", "1"]
    assert main([*line, "--target", "vm", "--json", "--out", str(tmp_path / "runs")]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert set(answer["profiles"]) == {"latency", "balanced", "throughput"}
    for name, profile in answer["profiles"].items():
        assert profile["scheduler"] == "k2", name
        for figure, value in profile["confirmed"].items():
            assert value == pytest.approx(profile["values"][figure], rel=0.5), (name, figure)
    assert "bfq" in answer["confirmed_beside"], "it is not simulated, and stands beside what was found"
    assert answer["confirmed_reference"].keys() == answer["references"]["none"].keys()
