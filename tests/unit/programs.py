# SPDX-License-Identifier: GPL-2.0-only
"""What tests of programs share: flags of the compiler, a program's run to its end, its sources broken."""

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
#: The first seed of this run of the tests; TAILGATE_SEED replays what a failed one printed.
SEED = int(os.environ.get("TAILGATE_SEED", secrets.randbelow(1 << 31)))


def fixed_addresses() -> tuple[str, ...]:
    """Prefix of a command: the thread sanitizer dislikes some randomized address spaces."""
    prefix = ("setarch", os.uname().machine, "-R")
    if shutil.which("setarch") and subprocess.run([*prefix, "true"], capture_output=True).returncode == 0:
        return prefix
    return ()


def built_once(factory: pytest.TempPathFactory, name: str, build: Callable[[Path], object]) -> Path:
    """A folder that `build` fills; of several workers of pytest-xdist the first does, and the others wait."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    with FileLock(folder.with_suffix(".lock")):
        if not folder.exists():
            made = factory.mktemp(name)
            build(made)
            made.rename(folder)
    return folder


def run_program(
    program: Path, *arguments: int | str, prefix: tuple[str, ...] = (), limit_s: float = 120
) -> str:
    """Run to the end; an empty answer is success."""
    command = [*prefix, str(program), *map(str, arguments)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s)
    except subprocess.TimeoutExpired:
        return f"hangs: {shlex.join(command)}"
    if done.returncode == 0:
        return ""
    return f"{done.stdout}{done.stderr}exit status {done.returncode} of {shlex.join(command)}"


def complains(wrong: Path, *arguments: int | str) -> bool:
    """Whether a program with a mistake in it says so. To take long, as on a busy host, is not enough."""
    said = run_program(wrong, *arguments, limit_s=600)
    return bool(said) and not said.startswith("hangs")


def hangs(right: Path, wrong: Path, *arguments: int | str) -> bool:
    """Whether a program with a mistake in it takes ten times the CPU time of the right one."""
    before = cpu_s()
    assert run_program(right, *arguments, limit_s=300) == ""
    limit_s = math.ceil(10 * (cpu_s() - before)) + 1
    said = run_program(wrong, *arguments, prefix=("prlimit", f"--cpu={limit_s}:{2 * limit_s}"), limit_s=600)
    return f"exit status {-signal.SIGXCPU} " in said


def cpu_s() -> float:
    """What programs that have ended took."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def cpu_s_of(pid: int) -> float:
    """The CPU time that a process of ours has used so far, which may have ended but was not waited for."""
    user, system = _stat(pid)[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def running(pid: str) -> bool:
    """Nobody may be there to collect what is dead."""
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
    """Replace what stands exactly once in the C and C++ sources and Makefiles of a tree's folders."""
    endings = ("*.[ch]", "*.[ch]pp", "Makefile")
    sources = (source for folder in folders for ending in endings for source in (tree / folder).rglob(ending))
    texts = {source: source.read_text() for source in sources}
    found = [source for source, text in texts.items() for _ in range(text.count(old))]
    assert len(found) == 1, f"{old!r} stands in {len(found)} places: mend the mutation"
    found[0].write_text(texts[found[0]].replace(old, new))
