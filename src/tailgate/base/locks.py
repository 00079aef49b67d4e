# SPDX-License-Identifier: GPL-2.0-only
"""A lock that only one process can hold."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from tailgate.base.errors import UsageError


@contextmanager
def only_one(folder: Path, what: str) -> Iterator[None]:
    """Hold a folder's lock. UsageError tells a second command to wait.

    `what` says what the holder does, as in "measuring". The folder need not exist.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder.parent / f".{folder.name}.lock", timeout=0):
            yield
    except Timeout as e:
        raise UsageError(f"another command is {what} {folder}: wait for it, or stop it") from e
