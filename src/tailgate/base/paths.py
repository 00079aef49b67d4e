# SPDX-License-Identifier: GPL-2.0-only
"""Paths of the checkout, and of the cache for what Tailgate can fetch or build again."""

import os
from pathlib import Path

import platformdirs

#: The checkout.
ROOT = Path(__file__).resolve().parents[3]
EXPERIMENTS = ROOT / "experiments"
DRIVES = ROOT / "drives"
MACHINES = ROOT / "machines"


def cache_dir() -> Path:
    """`$TAILGATE_CACHE`, else `tailgate` in the user's cache folder. The folder need not exist yet."""
    if own := os.environ.get("TAILGATE_CACHE"):
        return Path(own).absolute()
    return platformdirs.user_cache_path("tailgate")


def replace_text(path: Path, text: str) -> None:
    """Write a file atomically: it has the old or the new content at any time, even after a loss of power."""
    new = path.with_name(f".{path.name}.{os.getpid()}")
    with new.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
