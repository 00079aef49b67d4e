# SPDX-License-Identifier: GPL-2.0-only
"""The program `script`: schedulers of the simulator, compiled as there, obey a script."""

import shlex
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.unit.programs import GCC, ROOT, SANITIZED, mutate

LIMIT_S = 20.0
#: (command, answer), in order
Conversation = list[tuple[str, str]]
Play = Callable[[Conversation], None]
Notice = Callable[[str, str, str, Callable[[Play], None]], None]


def compile_c(source: Path, out: Path, *flags: str) -> Path:
    """Compile one file as the simulator does; the object lands in the folder `out`."""
    into = out / f"{source.stem}.o"
    includes = [f"-I{ROOT / 'sim/single'}", f"-I{ROOT / 'sim/include'}"]
    subprocess.run([*GCC, *flags, *includes, "-c", str(source), "-o", str(into)], check=True)
    return into


def compile_all(out: Path, *flags: str) -> list[Path]:
    """Compile the program's own file and all schedulers."""
    out.mkdir()
    sources = [ROOT / "tests/unit/schedulers/script.c", *(ROOT / "sim/schedulers").glob("*.c")]
    return [compile_c(source, out, *flags) for source in sorted(sources)]


def link(objects: list[Path], program: Path, *flags: str) -> Path:
    subprocess.run(["gcc", *flags, *map(str, objects), "-o", str(program)], check=True)
    return program


class Script:
    """The program, kept running; each conversation begins with `new` and ends with `end`."""

    def __init__(self, program: Path) -> None:
        self.program = program
        self.process = self.start()

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def stop(self) -> str:
        """End the program and return what it complained of."""
        said = self.process.communicate()[1]
        return f"{said}exit status {self.process.returncode}" if self.process.returncode else said

    def play(self, conversation: Conversation) -> None:
        """Say it all and compare the answers; a program that loops is killed."""
        timer = threading.Timer(LIMIT_S, self.process.kill)
        timer.start()
        try:
            wrong = self.first_wrong(conversation)
        finally:
            timer.cancel()
        if wrong is None:
            return
        number, answer = wrong
        if answer:
            self.process.kill()
            self.stop()
        else:
            answer = self.stop()
        self.process = self.start()
        command, expected = conversation[number]
        lines = " ".join(shlex.quote(line) for line, _ in conversation[: number + 1])
        raise AssertionError(
            f"{command!r} answers {answer.strip()!r} instead of {expected!r}\n"
            f"replay: printf '%s\\n' {lines} | {self.program}"
        )

    def first_wrong(self, conversation: Conversation) -> tuple[int, str] | None:
        """The number of the first wrong answer and the answer; empty if the program died."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        # in parts that fit into a pipe
        for first in range(0, len(conversation), 500):
            part = conversation[first : first + 500]
            self.process.stdin.write("".join(f"{command}\n" for command, _ in part))
            self.process.stdin.flush()
            for number, (_, expected) in enumerate(part, first):
                answer = self.process.stdout.readline()
                if not answer or answer.strip() != expected:
                    return number, answer
        return None


@pytest.fixture(scope="session")
def play(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Play]:
    """Play a conversation with the program; a wrong answer raises AssertionError."""
    out = tmp_path_factory.mktemp("script")
    script = Script(link(compile_all(out / "objects", "-O1", *SANITIZED), out / "script", *SANITIZED))
    yield script.play
    said = script.stop()
    assert not said, said


@pytest.fixture(scope="session")
def plain_objects(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return compile_all(tmp_path_factory.mktemp("plain") / "objects")


@pytest.fixture
def assert_noticed(plain_objects: list[Path], tmp_path: Path) -> Notice:
    """A check fails with a mistake in a scheduler: its file, what stands there, what stands there instead."""

    def assert_noticed(name: str, old: str, new: str, check: Callable[[Play], None]) -> None:
        for folder in ("sched", "sim/schedulers"):
            shutil.copytree(ROOT / folder, tmp_path / folder)
        mutate(tmp_path / "sched", old, new)
        broken = compile_c(tmp_path / "sim/schedulers" / name, tmp_path, "-w")
        objects = [broken if o.name == broken.name else o for o in plain_objects]
        script = Script(link(objects, tmp_path / "script"))
        try:
            with pytest.raises(AssertionError):
                check(script.play)
        finally:
            script.process.kill()
            script.stop()

    return assert_noticed
