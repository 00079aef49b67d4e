# SPDX-License-Identifier: GPL-2.0-only
"""Which commit last changed what a law does, and what was measured before."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tailgate.base.errors import UsageError
from tailgate.base.paths import ROOT
from tailgate.upkeep.claims import age, history
from tailgate.upkeep.claims.command import LAWS
from tailgate.upkeep.claims.history import last_commit, law_commit, without_comments
from tailgate.upkeep.claims.results import Run, Step
from tailgate.upkeep.claims.steps import bounds

Commit = Callable[[str, str], str]


@pytest.fixture
def commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commit:
    """Write a file of a new repository, and commit that; the commit."""
    monkeypatch.setattr(history, "ROOT", tmp_path)

    def git(*words: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
        command = ["git", "-C", str(tmp_path), *who, *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    def write(name: str, text: str) -> str:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
        git("add", name)
        git("commit", "--quiet", "--message", name)
        return git("rev-parse", "HEAD")

    git("init", "--quiet")
    return write


def test_comments_and_blanks_of_c_are_no_law(commit: Commit) -> None:
    commit("law/a.h", "int a = 1;\n")
    law = commit("law/a.h", "int a = 2;\n")
    commit("law/a.h", "/* why\n * 2 */\nint  a = 2; // two\n")
    commit("other.c", "int b;\n")
    latest = commit("law/a.h", "/* because */\nint a = 2;\n")
    assert last_commit("law") == latest
    assert law_commit("law") == law


def test_any_change_of_code_or_of_another_file_is_one(commit: Commit) -> None:
    commit("law/a.h", "/* why */\nint a = 2;\n")
    changes = (
        ("a.h", "/* why */\nint a = 3;\n"),
        ("b.h", ""),
        ("c.toml", "a = 1\n"),
        ("c.toml", "a = 1 # one\n"),
    )
    for name, text in changes:
        law = commit(f"law/{name}", text)
        assert law_commit("law") == law
    assert law_commit("law/a.h law/b.h") != law_commit("law")


def test_what_feeds_and_sets_the_bounds_is_part_of_their_law(commit: Commit) -> None:
    decides = ("bounds/target.h", "activity.h", "learn.c", "settings.c", "k2.h")
    for name in (*decides, "k2.c"):
        commit(f"sched/{name}", "int a;\n")
    for name in decides:
        changed = commit(f"sched/{name}", "int b;\n")
        assert law_commit(bounds.LAW) == changed
    before = law_commit(bounds.LAW)
    commit("sched/learn.c", "/* b */ int b;\n")
    commit("sched/k2.c", "int b;\n")
    assert law_commit(bounds.LAW) == before


@pytest.mark.parametrize("law", LAWS)
def test_each_law_names_files_that_are_there(law: str) -> None:
    for path in law.split():
        assert list(ROOT.glob(path)), path


def test_a_law_that_never_changed_is_of_its_first_commit(commit: Commit) -> None:
    first = commit("law/a.h", "int a;\n")
    commit("law/a.h", "int a; /* a */\n")
    assert law_commit("law") == first


def test_a_file_that_goes_or_comes_back_is_a_change(commit: Commit, tmp_path: Path) -> None:
    commit("law/a.h", "int a;\n")
    commit("law/b.h", "int b;\n")
    (tmp_path / "law/b.h").unlink()
    subprocess.run(["git", "-C", str(tmp_path), "add", "--all"], check=True)
    law = commit("law/a.h", "/* a */ int a;\n")
    commit("law/a.h", "int a;\n")
    assert law_commit("law") == law


def measured(commit: str, *targets: str) -> Step:
    runs = tuple(Run(command="x", target=target, clock="virtual", figures=()) for target in targets)
    return Step(commit=commit[:7], date="2026-11-27", runs=runs)


def test_what_was_measured_before_the_code_changed_is_listed_by_the_commits_since(commit: Commit) -> None:
    commit("sched/a.c", "int a;\n")
    commit("kernel/a.c", "int a;\n")
    first = commit("flash/a.c", "int a;\n")
    simulator = commit("sim/a.c", "int a;\n")
    law = commit("sched/a.c", "int b;\n")
    commit("sched/a.c", "/* b */ int b;\n")
    commit("sched/README.md", "How b works.\n")
    latest = commit("other.c", "")
    steps = {
        "one": measured(first, "sim", "vm"),
        "two": measured(simulator, "sim"),
        "three": measured(f"{simulator[:7]}-dirty", "vm"),
        "new": measured(law, "sim", "vm"),
        "newest": measured(latest, "sim"),
        "unknown": measured("0000000", "sim"),
        "modelled": measured(first, "model"),
    }
    assert list(age.lines({"x": steps})) == [
        "Measured before the code changed, by the number of commits to it since:",
        "  sim (sched, flash, sim): 3: one, 2: two",
        "  vm (sched, kernel, flash): 2: one three",
    ]
    assert not list(age.lines({"x": {name: steps[name] for name in ("new", "newest", "modelled")}}))


@pytest.mark.usefixtures("commit")
def test_without_history() -> None:
    with pytest.raises(UsageError, match="git knows no commit of law"):
        law_commit("law")


def test_what_looks_like_a_comment_in_a_string_is_none() -> None:
    assert without_comments('a = "/* no */ \\" // no"; /* yes */ b; // yes\nc;') == (
        'a = "/* no */ \\" // no"; b; c;'
    )
