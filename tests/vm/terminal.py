# SPDX-License-Identifier: GPL-2.0-only
"""`tailgate vm` on a terminal, as a person has it."""

import os
import pty
import select
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

LIMIT_S = 300
PROMPT = b"guest# "


class Terminal:
    """What a person types and sees."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._unread = b""

    def type(self, keys: bytes) -> None:
        """Press these keys; a line ends with a newline."""
        os.write(self._descriptor, keys)

    def until(self, text: bytes) -> bytes:
        """Wait for this text; what came before it since the last call.

        AssertionError, with all of that, if it does not come.
        """
        end = time.monotonic() + LIMIT_S
        while text not in self._unread:
            ready, _, _ = select.select([self._descriptor], [], [], max(0.0, end - time.monotonic()))
            assert ready, self._unread.decode(errors="replace")
            try:
                self._unread += os.read(self._descriptor, 4096)
            except OSError:  # the other side is closed
                break
        assert text in self._unread, self._unread.decode(errors="replace")
        before, _, self._unread = self._unread.partition(text)
        return before


@contextmanager
def shell(*arguments: str) -> Iterator[Terminal]:
    """`tailgate vm` with these arguments, at its first prompt. At the end of the block it has to end well."""
    child, descriptor = pty.fork()
    if child == 0:
        command = "import sys; from tailgate.main import main; sys.exit(main(sys.argv[1:]))"
        os.execv(sys.executable, [sys.executable, "-c", command, "vm", *arguments])
    try:
        terminal = Terminal(descriptor)
        terminal.until(PROMPT)
        yield terminal
        terminal.type(b"exit\n")
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
    finally:
        os.close(descriptor)
