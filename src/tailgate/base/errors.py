# SPDX-License-Identifier: GPL-2.0-only
"""The one class of errors that a user can cause."""

from collections.abc import Sequence


class UsageError(Exception):
    """One sentence that says what is wrong and a way out; the command prints it and exits with status 2."""


def one_of(words: Sequence[str]) -> str:
    """`a`, `a or b`, `a, b or c`."""
    words = [str(w) for w in words]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
