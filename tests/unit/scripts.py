# SPDX-License-Identifier: GPL-2.0-only
"""A scheduler as a shared library with answer.h that obeys commands; and whether a check fails with one.

    printf '%s\\n' COMMAND... | python -m tests.unit.scripts LIBRARY

prints the answers to commands, one a line.
"""

import ctypes
import faulthandler
import os
import resource
import shlex
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.unit.programs import WATCHDOG_S

#: CPU time in which any check ends: several times what the longest one takes.
LIMIT_S = 60
FAILED, BROKEN = 1, 2


class Script:
    """The library, in this process. It has one state, which `new` at the beginning of a command sets up."""

    def __init__(self, library: Path) -> None:
        self.library = library
        self.lines: list[str] = []
        self._answer = ctypes.CDLL(str(library)).answer
        self._answer.restype = ctypes.c_char_p

    def ask(self, line: str) -> str:
        """The answer to a command."""
        if line.startswith("new "):
            self.lines = []
        self.lines.append(line)
        answer: bytes = self._answer(line.encode())
        return answer.decode().strip()

    def replay(self) -> str:
        """A shell command that repeats the commands since `new`."""
        lines = " ".join(shlex.quote(line) for line in self.lines)
        return f"printf '%s\\n' {lines} | {sys.executable} -m tests.unit.scripts {self.library}"


def fails(check: Callable[[Script], None], library: Path) -> bool:
    """Whether a check raises AssertionError with a library, or the library crashes or loops for ever.

    It has a process of its own, which may die.
    """
    with warnings.catch_warnings():
        # Python 3.12 warns of other threads. They are pytest-xdist's, whose locks the check does not take.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if not pid:
        status = BROKEN
        try:
            faulthandler.disable()  # a crash is no news
            resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_S, LIMIT_S))
            check(Script(library))
            status = 0
        except AssertionError:
            status = FAILED
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status == BROKEN:
        raise RuntimeError("the check itself is broken: see its traceback")
    return status != 0


@contextmanager
def watched() -> Iterator[None]:
    """Ends this process, with a traceback, if the block does not end: a library that loops cannot be left."""
    faulthandler.dump_traceback_later(WATCHDOG_S, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    script = Script(Path(sys.argv[1]))
    for line in sys.stdin:
        print(script.ask(line.rstrip("\n")))
