# SPDX-License-Identifier: GPL-2.0-only
"""`tailgate vm` as a person meets it: on a terminal."""

import os
import pty
import select
import sys
import time

import pytest

pytestmark = pytest.mark.vm

LIMIT_S = 300


def test_a_shell_with_everything_loaded() -> None:
    child, terminal = pty.fork()
    if child == 0:
        command = "import sys; from tailgate.main import main; sys.exit(main(['vm', '--smp', '1']))"
        os.execv(sys.executable, [sys.executable, "-c", command])
    seen = b""

    def until(text: bytes) -> None:
        nonlocal seen
        end = time.monotonic() + LIMIT_S
        while text not in seen:
            ready, _, _ = select.select([terminal], [], [], max(0.0, end - time.monotonic()))
            assert ready, seen.decode(errors="replace")
            try:
                seen += os.read(terminal, 4096)
            except OSError:  # the other side is closed
                break
        assert text in seen, seen.decode(errors="replace")
        seen = seen.partition(text)[2]

    try:
        until(b"guest# ")
        os.write(terminal, b"cd /sys/block/vflash0/queue && echo k2 > scheduler\n")
        until(b"guest# ")
        os.write(terminal, b"grep -c '^vflash0 inflight ' /proc/tailgate-k2\n")
        until(b"\n1\r")
        until(b"guest# ")
        os.write(terminal, b"echo now; sleep 1000\n")
        until(b"\nnow")
        os.write(terminal, b"\x03")
        until(b"guest# ")
        os.write(terminal, b"exit\n")
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
    finally:
        os.close(terminal)
