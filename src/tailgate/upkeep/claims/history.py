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
    return _commits(paths, "--max-count=1")[0]


def law_commit(paths: str) -> str:
    """The commit that last changed more than comments and blanks of C files, or any other file.

    `paths` as in last_commit(). UsageError without git.
    """
    commits = _commits(paths)
    later = _code(commits[0], paths)
    for commit, before in itertools.pairwise(commits):
        if (earlier := _code(before, paths)) != later:
            return commit
        later = earlier
    return commits[-1]


def without_comments(text: str) -> str:
    """C as the compiler sees it: a comment is a blank, and all blanks are alike."""
    return " ".join(_C.sub(lambda found: found[0] if found[0][0] == '"' else " ", text).split())


def _commits(paths: str, *options: str) -> list[str]:
    """The commits that changed files, the latest first; at least one."""
    try:
        found = _git("log", "--format=%H", *options, "--", *paths.split()).split()
    except subprocess.CalledProcessError:
        found = []
    if not found:
        raise UsageError(f"git knows no commit of {paths}: expected a checkout with its history")
    return found


def _code(commit: str, paths: str) -> dict[str, str]:
    """All files below `paths` at a commit, by name; of C without comments."""
    names = _git("ls-tree", "-r", "--name-only", "--full-tree", commit, "--", *paths.split()).split()
    texts = {name: _git("show", f"{commit}:{name}") for name in names}
    return {name: without_comments(t) if name.endswith(_C_FILES) else t for name, t in texts.items()}


def _git(*words: str) -> str:
    command = ["git", "-C", str(ROOT), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
