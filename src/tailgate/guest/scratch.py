# SPDX-License-Identifier: GPL-2.0-only
"""Folders for a machine's files while it runs, in the cache: the files are large, and /tmp may be in
memory.
"""

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tailgate.base.paths import cache_dir

PREFIX = "machine-"
#: Names that tempfile makes. Nothing else is removed, as TAILGATE_CACHE may be a folder with other files.
_OURS = re.compile(PREFIX + r"\w{8}")


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """A new folder, removed at the end of the block. Folders of killed processes are removed first.

    The process holds a lock on the folder; the kernel frees it when the process ends, however it ends.
    """
    at = cache_dir() / "scratch"
    at.mkdir(parents=True, exist_ok=True)
    with _locked(at):  # no other process may see a folder before its owner has locked it
        for old in at.iterdir():
            if _OURS.fullmatch(old.name) and old.is_dir():
                with contextlib.suppress(OSError), _locked(old, fcntl.LOCK_NB):
                    shutil.rmtree(old, ignore_errors=True)
        place = tempfile.TemporaryDirectory(prefix=PREFIX, dir=at)
        held = _lock(Path(place.name))
    try:
        with place as name:
            yield Path(name)
    finally:
        os.close(held)


@contextlib.contextmanager
def _locked(at: Path, how: int = 0) -> Iterator[None]:
    held = _lock(at, how)
    try:
        yield
    finally:
        fcntl.flock(held, fcntl.LOCK_UN)  # a child forked meanwhile also has the descriptor
        os.close(held)


def _lock(at: Path, how: int = 0) -> int:
    """A descriptor that holds a folder's lock. BlockingIOError with LOCK_NB if another process holds it."""
    opened = os.open(at, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | how)
    except OSError:
        os.close(opened)
        raise
    return opened
