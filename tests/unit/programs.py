# SPDX-License-Identifier: GPL-2.0-only
"""Common code of tests that compile programs: compiler flags, running a program, mutating its sources."""

import math
import os
import resource
import secrets
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from filelock import FileLock

ROOT = Path(__file__).parents[2]
GCC = ("gcc", "-std=gnu11", "-g", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function")
THREAD_SANITIZED = ("-fsanitize=thread", "-Wno-tsan")
SANITIZED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
#: For a library that Python loads: the address sanitizer would have to be loaded before Python.
UNDEFINED_SANITIZED = ("-fsanitize=undefined", "-fno-sanitize-recover=all")
#: The first seed of this run of the tests; TAILGATE_SEED repeats the seed that a failed run printed.
SEED = int(os.environ.get("TAILGATE_SEED", secrets.randbelow(1 << 31)))

#: Ends a test that hangs. No host that works is so slow that a test takes this long.
WATCHDOG_S = 1800


def fixed_addresses() -> tuple[str, ...]:
    """Command prefix that switches address randomization off: some layouts break the thread sanitizer."""
    prefix = ("setarch", os.uname().machine, "-R")
    if shutil.which("setarch") and subprocess.run([*prefix, "true"], capture_output=True).returncode == 0:
        return prefix
    return ()


def built_once(factory: pytest.TempPathFactory, name: str, build: Callable[[Path], object]) -> Path:
    """A folder that `build` fills once: one worker of pytest-xdist fills it, the others wait."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    with FileLock(folder.with_suffix(".lock")):
        if not folder.exists():
            made = factory.mktemp(name)
            build(made)
            made.rename(folder)
    return folder


def run_program(program: Path, *arguments: int | str, prefix: tuple[str, ...] = ()) -> str:
    """Run a program to its end; an empty answer means success."""
    command = [*prefix, str(program), *map(str, arguments)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=WATCHDOG_S)
    except subprocess.TimeoutExpired:
        return f"hangs: {shlex.join(command)}"
    if done.returncode == 0:
        return ""
    return f"{done.stdout}{done.stderr}exit status {done.returncode} of {shlex.join(command)}"


def complains(wrong: Path, *arguments: int | str) -> bool:
    """Whether a program with a mistake reports an error. Being ended by the watchdog does not count."""
    said = run_program(wrong, *arguments)
    return bool(said) and not said.startswith("hangs")


def hangs(right: Path, wrong: Path, *arguments: int | str) -> bool:
    """Whether a program with a mistake takes ten times the CPU time of the right one."""
    before = cpu_s()
    assert run_program(right, *arguments) == ""
    limit_s = math.ceil(10 * (cpu_s() - before)) + 1
    said = run_program(wrong, *arguments, prefix=("prlimit", f"--cpu={limit_s}:{2 * limit_s}"))
    return f"exit status {-signal.SIGXCPU} " in said


def cpu_s() -> float:
    """CPU time of programs that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def running(pid: str) -> bool:
    """Whether a process runs. A zombie does not count: there may be no parent to reap it."""
    try:
        return _stat(pid)[0] != "Z"
    except OSError:
        return False


def _stat(pid: int | str) -> list[str]:
    """/proc/<pid>/stat from the state on, which follows the name. OSError if there is no such process."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def wait_for(condition: Callable[[], bool], limit_s: float = 300) -> None:
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def mutate(tree: Path, old: str, new: str, folders: Sequence[str] = (".",)) -> None:
    """Replace text that appears exactly once in the C and C++ sources and Makefiles of a tree's folders."""
    endings = ("*.[ch]", "*.[ch]pp", "Makefile")
    sources = (source for folder in folders for ending in endings for source in (tree / folder).rglob(ending))
    texts = {source: source.read_text() for source in sources}
    found = [source for source, text in texts.items() for _ in range(text.count(old))]
    assert len(found) == 1, f"{old!r} stands in {len(found)} places: mend the mutation"
    found[0].write_text(texts[found[0]].replace(old, new))
