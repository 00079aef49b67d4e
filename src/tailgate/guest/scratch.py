# SPDX-License-Identifier: GPL-2.0-only
"""Folders for a machine's files while it runs, below the cache: they are large, and /tmp may be memory."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tailgate.base.paths import cache_dir


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """A new folder, removed at the end of the block. What killed processes left is removed first."""
    at = cache_dir() / "scratch"
    at.mkdir(parents=True, exist_ok=True)
    for old in at.iterdir():
        if not Path("/proc", old.name.partition("-")[0]).exists():
            shutil.rmtree(old, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f"{os.getpid()}-", dir=at) as name:
        yield Path(name)
