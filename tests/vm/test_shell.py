# SPDX-License-Identifier: GPL-2.0-only
"""`tailgate vm` as a person meets it: on a terminal."""

import pytest
from tests.vm.terminal import PROMPT, shell

from tailgate.main import main

pytestmark = pytest.mark.vm


def test_a_shell_with_everything_loaded() -> None:
    with shell("--smp", "1") as terminal:
        terminal.type(b"cd /sys/block/vflash0/queue && echo k2 > scheduler\n")
        terminal.until(PROMPT)
        terminal.type(b"grep -c '^vflash0 inflight ' /proc/tailgate-k2\n")
        terminal.until(b"\n1\r")
        terminal.until(PROMPT)
        terminal.type(b"echo now; sleep 1000\n")
        terminal.until(b"\nnow")
        terminal.type(b"\x03")
        terminal.until(PROMPT)


def test_a_machine_that_does_not_start_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["vm", "--smp", "1000"]) == 1
    assert "Invalid SMP CPUs 1000" in capfd.readouterr().err
