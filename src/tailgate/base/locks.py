# SPDX-License-Identifier: GPL-2.0-only
"""One process at a time."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from tailgate.base.errors import UsageError


@contextmanager
def only_one(folder: Path, what: str) -> Iterator[None]:
    """Of two commands that would fill the same folder at once the second is told to wait. UsageError.

    `what` says what they do, as in "measuring". The folder need not be there.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder.parent / f".{folder.name}.lock", timeout=0):
            yield
    except Timeout as e:
        raise UsageError(f"another command is {what} {folder}: wait for it, or stop it") from e
