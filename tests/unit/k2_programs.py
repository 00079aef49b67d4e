# SPDX-License-Identifier: GPL-2.0-only
"""The programs of tests/unit/k2, compiled, the one that obeys commands, and what breaks K2."""

import select
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.unit.programs import GCC, ROOT, mutate


def compile_program(name: str, out: Path, *flags: str, root: Path = ROOT) -> Path:
    """Compile tests/unit/k2/<name>.c of a tree; the program lands in `out`."""
    sources = root / "tests/unit/k2"
    program = out / name
    own = ["-I", str(sources / "interleave")] if name == "interleave" else []
    includes = [*own, "-I", str(ROOT / "sim/include")]
    command = [*GCC, "-O1", "-pthread", *flags, *includes, str(sources / f"{name}.c"), "-o", str(program)]
    subprocess.run(command, check=True)
    return program


class Script:
    """The program `script`, asked line by line."""

    def __init__(self, program: Path) -> None:
        self.program = program
        self.lines: list[str] = []
        self.process = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [self.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def stop(self) -> str:
        if self.process.stdin is not None and not self.process.stdin.closed:
            self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        said = self.process.stderr.read().decode()
        self.process.stdout.close()
        self.process.stderr.close()
        return said

    def ask(self, line: str) -> str:
        if line.startswith("new "):
            self.lines = []
        self.lines.append(line)
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(line.encode() + b"\n")
        stdin.flush()
        ready, _, _ = select.select([stdout], [], [], 20)
        answer = stdout.readline() if ready else b""
        if not answer:
            self.process.kill()
            said = self.stop()
            self.process = self.start()
            raise AssertionError(f"the program {'died' if ready else 'hangs'} at {line!r}:\n{said}")
        return answer.decode().strip()

    def replay(self) -> str:
        """One line for a shell that does the same again."""
        return f"printf '%s\\n' {' '.join(shlex.quote(line) for line in self.lines)} | {self.program}"


@dataclass(frozen=True)
class Mutation:
    """A way to break K2, and the check that must notice."""

    name: str
    noticed_by: str  # a check of the program `script`; or "interleave", the program
    old: str
    new: str


def mutated(root: Path, mutation: Mutation) -> Path:
    """A copy of what a program needs, with the mutation in one of the files of sched/."""
    shutil.copytree(ROOT / "sched", root / "sched")
    shutil.copytree(ROOT / "tests/unit/k2", root / "tests/unit/k2")
    mutate(root / "sched", mutation.old, mutation.new)
    return root


def assert_noticed(mutation: Mutation, checks: Mapping[str, Callable[[Script], None]], root: Path) -> None:
    """One of these checks of `script` fails where this is broken; `root` takes what is compiled."""
    script = Script(compile_program("script", root, "-O0", root=mutated(root, mutation)))
    try:
        with pytest.raises(AssertionError):
            checks[mutation.noticed_by](script)
    finally:
        script.process.kill()
        script.stop()
