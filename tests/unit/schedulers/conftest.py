# SPDX-License-Identifier: GPL-2.0-only
"""The library `script`: schedulers of the simulator, compiled as there, obey a script."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.unit.programs import GCC, ROOT, UNDEFINED_SANITIZED, mutate
from tests.unit.scripts import Script, fails, watched

#: (command, answer), in order; it begins with `new` and ends with `end`
Conversation = list[tuple[str, str]]
Play = Callable[[Conversation], None]
Notice = Callable[[str, str, str, Callable[[Play], None]], None]


def compile_c(source: Path, out: Path, *flags: str) -> Path:
    """Compile one file as the simulator does; the object lands in the folder `out`."""
    into = out / f"{source.stem}.o"
    includes = [f"-I{ROOT / 'sim/single'}", f"-I{ROOT / 'sim/include'}"]
    subprocess.run([*GCC, "-fPIC", *flags, *includes, "-c", str(source), "-o", str(into)], check=True)
    return into


def compile_all(out: Path, *flags: str) -> list[Path]:
    """Compile the library's own file and all schedulers."""
    out.mkdir()
    sources = [ROOT / "tests/unit/schedulers/script.c", *(ROOT / "sim/schedulers").glob("*.c")]
    return [compile_c(source, out, *flags) for source in sorted(sources)]


def link(objects: list[Path], library: Path, *flags: str) -> Path:
    subprocess.run(["gcc", "-shared", *flags, *map(str, objects), "-o", str(library)], check=True)
    return library


def playing(script: Script) -> Play:
    """A function that plays a conversation with the library; a wrong answer raises AssertionError."""

    def play(conversation: Conversation) -> None:
        for command, expected in conversation:
            answer = script.ask(command)
            assert answer == expected, (
                f"{command!r} answers {answer!r} instead of {expected!r}\nreplay: {script.replay()}"
            )

    return play


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All schedulers."""
    out = tmp_path_factory.mktemp("script")
    objects = compile_all(out / "objects", "-O1", *UNDEFINED_SANITIZED)
    return link(objects, out / "script", *UNDEFINED_SANITIZED)


@pytest.fixture
def play(library: Path) -> Iterator[Play]:
    """Plays a conversation with the schedulers."""
    with watched():
        yield playing(Script(library))


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
        library = link(objects, tmp_path / "script")
        assert fails(lambda script: check(playing(script)), library), "the check does not notice it"

    return assert_noticed
