# SPDX-License-Identifier: GPL-2.0-only
"""The commands that claims measure with end with the process that asked for them."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.programs import running, wait_for

PROGRAM = """
import sys
from pathlib import Path
from tailgate.upkeep.claims import lab
lab.TAILGATE = Path(sys.argv[1])
lab.Lab().run("k2/fig8")
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_command_ends_with_the_claims_that_asked_for_it(tmp_path: Path, number: signal.Signals) -> None:
    command, written = tmp_path / "tailgate", tmp_path / "pid"
    command.write_text(f"#!/bin/sh\necho $$ > {written}.new; mv {written}.new {written}; exec sleep 1000\n")
    command.chmod(0o755)
    with subprocess.Popen([sys.executable, "-c", PROGRAM, command]) as parent:
        try:
            wait_for(written.exists)
        finally:
            parent.send_signal(number)
    pid = written.read_text().strip()
    wait_for(lambda: not running(pid))
