# SPDX-License-Identifier: GPL-2.0-only
"""Which commit of this checkout last changed files, and which one what their code does."""

import itertools
import re
import subprocess

from tailgate.base.errors import UsageError
from tailgate.base.paths import ROOT

#: Comments in C, and strings, which may look as if they held one.
_C = re.compile(r'"(?:\\.|[^"\\])*"|/\*.*?\*/|//[^\n]*', re.DOTALL)
_C_FILES = (".c", ".h")


def last_commit(paths: str) -> str:
    """The commit that last changed files (a list of paths, separated by blanks). UsageError without git."""
    return commits(paths, "--max-count=1")[0]


def law_commit(paths: str) -> str:
    """The commit that last changed more than comments and blanks of C files, or any other file.

    `paths` as in last_commit(). UsageError without git.
    """
    found = commits(paths)
    pairs = itertools.pairwise(found)
    return next((commit for commit, before in pairs if _code_differs(before, commit, paths)), found[-1])


def order() -> dict[str, int]:
    """All commits by their first seven digits; a later one has a larger number. UsageError without git."""
    return {commit[:7]: i for i, commit in enumerate(reversed(commits(".")))}


def without_comments(text: str) -> str:
    """C as the compiler sees it: a comment is a blank, and all blanks are alike."""
    return " ".join(_C.sub(lambda found: found[0] if found[0][0] == '"' else " ", text).split())


def commits(paths: str, *options: str) -> list[str]:
    """The commits that changed files, the latest first. UsageError without any, or without git."""
    try:
        found = _git("log", "--format=%H", *options, "--", *paths.split()).split()
    except subprocess.CalledProcessError:
        found = []
    if not found:
        raise UsageError(f"git knows no commit of {paths}: expected a checkout with its history")
    return found


def _code_differs(before: str, commit: str, paths: str) -> bool:
    """Whether two commits differ in more than comments and blanks of C files."""
    asked = ("diff", "--no-renames", "--name-status", before, commit, "--", *paths.split())
    for kind, name in (line.split("\t") for line in _git(*asked).splitlines()):
        if kind != "M" or not name.endswith(_C_FILES):
            return True
        if len({without_comments(_git("show", f"{c}:{name}")) for c in (before, commit)}) > 1:
            return True
    return False


def _git(*words: str) -> str:
    command = ["git", "-C", str(ROOT), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
