# SPDX-License-Identifier: GPL-2.0-only
"""The simulator and the virtual machine tell the same story: one experiment, the same job files, on both."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tailgate.papers import agreement

pytest.importorskip("tailgate_sim", reason="`make sim` builds it")

pytestmark = pytest.mark.vm

TAILGATE = Path(sys.executable).with_name("tailgate")
#: Percentiles for which the virtual machine's few samples suffice.
FIGURES = {"background": ("mib_s", "p50", "p99"), "rt": ("p50",)}
#: Reads and writes; the longest queues in the drive, and the shortest. `make claims` has mq-deadline and
#: kyber too, and reads alone.
WHICH = ("--loads", "mix", "--schedulers", "none,k2-8")
#: Of 6 points; percentiles of the background are those of reads, and those of writes.
FIGURES_COMPARED = 6 * 6
#: Too few in one short run: a handful of slow writes make their p99. `make claims` compares these over seeds.
FEW = re.compile(r".* at [35]0%: background.write.p99")
#: Where one short run's intervals are too wide to show agreement: 11 to 89 %, all others at most 5 %.
WIDE = re.compile(r".* at (30%: background.(read|write)|50%: background.write).p99")


def points(out: Path, *target: str) -> list[dict[str, Any]]:
    """The points of the experiment on a target."""
    run = [str(TAILGATE), "run", "model/agreement", "--quick", "--json", "--out", str(out)]
    run += [*WHICH, "--jobs", "1"]  # other tests have the other CPUs
    done = subprocess.run([*run, "--target", *target], stdout=subprocess.PIPE, check=True)
    found: list[dict[str, Any]] = json.loads(done.stdout)["points"]
    return found


def test_simulator_and_virtual_machine_agree(tmp_path: Path) -> None:
    """At three loads: nothing differs, and where a difference would be seen, agreement is shown."""
    simulated = points(tmp_path / "sim", "sim", "--machine", "guest-6.12")
    measured = points(tmp_path / "vm", "vm")
    compared = list(agreement.compare(simulated, measured, FIGURES))
    print("\n".join(str(c) for c in compared))
    assert len(compared) == FIGURES_COMPARED
    judged = [c for c in compared if not FEW.match(f"{c.point}: {c.figure}")]
    assert [str(c) for c in judged if c.verdict == "differs"] == []
    narrow = [c for c in compared if not WIDE.match(f"{c.point}: {c.figure}")]
    assert [str(c) for c in narrow if not c.agrees] == []
