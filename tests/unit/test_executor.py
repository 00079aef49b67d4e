# SPDX-License-Identifier: GPL-2.0-only
"""Processes in which simulations run end with the command, also if it is killed."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.programs import running, wait_for

#: Says who its two workers are; one of them has work for an hour.
COMMAND = """
import time
from tailgate.simulator.executor import executor

if __name__ == "__main__":
    with executor(2, None) as pool:
        work = [pool.submit(time.sleep, seconds) for seconds in (0.1, 3600)]
        print(*pool._processes, flush=True)
        work[1].result()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_workers_end_with_a_command_that_is_killed(tmp_path: Path, number: signal.Signals) -> None:
    script = tmp_path / "command.py"
    script.write_text(COMMAND)
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as command:
        assert command.stdout
        workers = command.stdout.readline().split()
        try:
            assert len(workers) == 2
            assert all(map(running, workers))
        finally:
            command.send_signal(number)
    wait_for(lambda: not any(map(running, workers)))
