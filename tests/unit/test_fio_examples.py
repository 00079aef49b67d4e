# SPDX-License-Identifier: GPL-2.0-only
"""fio's own examples in the simulator: each runs, or says in one line why not.

The files are those of Debian's package fio-examples, or of the folder that FIO_EXAMPLES names, such as
`examples` of a checkout of fio. `pytest -s` prints the tally.
"""

import json
import os
from pathlib import Path

import pytest

from tailgate import main as cli
from tailgate.base.command import USAGE
from tailgate.base.errors import UsageError
from tailgate.load import fiojob, workload

pytest.importorskip("tailgate_sim", reason="`make sim` builds it")

FOLDER = Path(os.environ.get("FIO_EXAMPLES", "/usr/share/doc/fio/examples"))
if not list(FOLDER.glob("*.fio")):
    pytest.skip(
        f"no examples in {FOLDER}: `setup/host.sh check` installs fio-examples", allow_module_level=True
    )

#: By the number of files: those of fio 3.33, and those of fio 3.42, which has libblkio-io_uring.fio too.
ACCEPTED_MIN = {86: 34, 107: 35}
#: 128 GiB, for those whose files are larger than the drive; one has 30 processes, each 124 GiB further on.
CAPACITY_MIB = {"cross-stripe-verify.fio": 4 << 20}
#: What the examples leave to the environment.
VARIABLES = {"FIO_RW": "randread", "FIO_IODEPTH": "4", "FIO_BS": "8k"}
CHECKED = ("cmdprio-bssplit.fio", "cmdprio-percentage.fio", "flow.fio", "jesd219.fio", "ssd-test.fio")
#: What no block device is asked for.
OTHER_ENGINES = ("cpuio.fio", "netio.fio", "null.fio", "rados.fio", "libpmem.fio", "falloc.fio")


def arguments(path: Path) -> list[str]:
    capacity = CAPACITY_MIB.get(path.name, 128 << 10)
    variables = [f"--variable={name}={value}" for name, value in VARIABLES.items()]
    drive = [f"--set=capacity_mib={capacity}", "--set=unit_kib=32", "--set=fetch_kib=32"]
    return [str(path), "--seconds=0.01", *drive, "--direct", "--json", *variables]


def outcome(path: Path, capsys: pytest.CaptureFixture[str], *more: str) -> str:
    """Why the example is refused; "" if it has run, and something has been read or written."""
    status = cli.main(["simulate", *arguments(path), *more])
    printed, told = capsys.readouterr()
    if status == USAGE:
        assert told.startswith(f"tailgate: {path}:")
        assert told.count("\n") == 1
        assert not printed
        return told.strip()
    assert (status, told) == (0, "")
    assert json.loads(printed)["ios"] > 0
    return ""


def is_buffered(path: Path) -> bool:
    """Whether a job is refused without --direct, and says so."""
    job = fiojob.parse(path, VARIABLES, derived=True)
    try:
        workload.processes(job, [section.name for section in job.sections], 4 << 40)
    except UsageError as e:
        return "--direct takes it for direct I/O" in str(e)
    return False


def test_examples_run_or_say_why_not(capsys: pytest.CaptureFixture[str]) -> None:
    paths = sorted(FOLDER.glob("*.fio"))
    told = {path.name: outcome(path, capsys) for path in paths}
    accepted = [path.name for path in paths if not told[path.name]]
    buffered = [name for name in accepted if is_buffered(FOLDER / name)]
    with capsys.disabled():
        plain = [name for name in accepted if name not in buffered]
        print(f"\nof {len(paths)}, {len(plain)} run as they stand: {', '.join(plain)}")
        print(f"{len(buffered)} more with --direct: {', '.join(buffered)}")
        print("\n".join(why for why in told.values() if why))
    assert len(accepted) >= ACCEPTED_MIN.get(len(paths), 34)
    assert not set(OTHER_ENGINES) & set(accepted)


@pytest.mark.parametrize("name", CHECKED)
def test_examples_break_no_rule(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome(FOLDER / name, capsys, "--check", "--scheduler=k2", "--knob=inflight_max=8") == ""


def test_priorities_are_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    """A fifth of the reads is real time, all else idle; K2 serves them before the others."""
    path = FOLDER / "cmdprio-percentage.fio"
    more = ["--seconds=1", "--scheduler=k2", "--knob=inflight_max=2"]
    assert cli.main(["simulate", *arguments(path), *more]) == 0
    [flow] = json.loads(capsys.readouterr().out)["flows"]
    urgent, idle = flow["priorities"]
    assert (urgent["class"], urgent["level"], idle["class"], idle["level"]) == (1, 0, 3, 0)
    assert urgent["ios"] + idle["ios"] == flow["ios"]
    assert urgent["ios"] / flow["ios"] == pytest.approx(0.2, abs=0.05)
    assert urgent["lat_us"]["p50"] < 0.8 * idle["lat_us"]["p50"]
