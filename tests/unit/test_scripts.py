# SPDX-License-Identifier: GPL-2.0-only
"""A check fails with a library that answers wrongly, crashes or loops; not with one that answers."""

import subprocess
import time
from pathlib import Path

import pytest
from tests.unit import scripts
from tests.unit.programs import GCC, ROOT
from tests.unit.scripts import Script, fails, watched

SOURCE = f"""
#include <string.h>
#include "{ROOT}/tests/unit/answer.h"

static void obey(const char *line)
{{
	if (!strcmp(line, "loop"))
		for (;;)
			;
	if (!strcmp(line, "crash"))
		abort();
	say("%s.", line);
}}
"""


@pytest.fixture
def library(tmp_path: Path) -> Path:
    (tmp_path / "script.c").write_text(SOURCE)
    out = tmp_path / "script"
    subprocess.run([*GCC, "-shared", "-fPIC", str(tmp_path / "script.c"), "-o", str(out)], check=True)
    return out


@pytest.mark.parametrize("line", ["crash", "loop"])
def test_a_library_that_does_not_answer_fails(
    library: Path, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(script: Script) -> None:
        script.ask(line)

    monkeypatch.setattr(scripts, "LIMIT_S", 1)
    assert fails(check, library)


def test_what_does_not_end_is_ended(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the clock: it uses no CPU time, and would end as a success."""

    def check(_: Script) -> None:
        with watched():
            time.sleep(60)

    monkeypatch.setattr(scripts, "WATCHDOG_S", 1)
    assert fails(check, library)


def test_an_answer_is_right_or_wrong(library: Path) -> None:
    def check(script: Script) -> None:
        assert script.ask("hello") == answer

    answer = "hello."
    assert not fails(check, library)
    answer = "good-bye."
    assert fails(check, library)


def test_a_broken_check_is_no_failure(library: Path) -> None:
    with pytest.raises(RuntimeError, match="the check itself is broken"):
        fails(lambda script: print(int(script.ask("hello"))), library)


def test_commands_are_replayed(library: Path) -> None:
    script = Script(library)
    for line in ("old", "new one", "it's"):
        script.ask(line)
    done = subprocess.run(script.replay(), shell=True, cwd=ROOT, capture_output=True, text=True)  # noqa: S602
    assert (done.returncode, done.stdout) == (0, "new one.\nit's.\n")
