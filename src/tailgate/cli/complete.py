# SPDX-License-Identifier: GPL-2.0-only
"""Completions for the shell."""

from collections.abc import Callable, Iterable
from pathlib import Path

import typer

from tailgate.base.errors import UsageError
from tailgate.base.paths import DRIVES, MACHINES


def words(known: Iterable[str]) -> Callable[[str], list[str]]:
    """A completion that offers these words."""
    return lambda incomplete: [word for word in known if word.startswith(incomplete)]


def experiments(incomplete: str) -> list[str]:
    """The experiments of the checkout, and .toml files."""
    from tailgate.spec.experiment import names

    return words([*names(), *_files(incomplete, ".toml")])(incomplete)


def jobs(incomplete: str) -> list[str]:
    """The fio job files."""
    return words(_files(incomplete, ".fio"))(incomplete)


def _files(incomplete: str, suffix: str) -> list[str]:
    """Files with this suffix, and folders, in the folder typed so far."""
    folder, slash, _ = incomplete.rpartition("/")
    try:
        found = sorted(Path(f"{folder}{slash}" or ".").iterdir())
    except OSError:
        return []
    return [
        f"{folder}{slash}{path.name}{'/' if path.is_dir() else ''}"
        for path in found
        if path.suffix == suffix or path.is_dir()
    ]


def drives(incomplete: str) -> list[str]:
    """The drive files by name."""
    return words(sorted(path.stem for path in DRIVES.glob("*.toml")))(incomplete)


def machines(incomplete: str) -> list[str]:
    """The machine files by name."""
    return words(sorted(path.stem for path in MACHINES.glob("*.toml")))(incomplete)


def schedulers(context: typer.Context, incomplete: str) -> list[str]:
    """Labels of the experiment given before; the labels typed so far come first: `none,k2-8`."""
    from tailgate.spec import experiment

    # Words before an option without a value yet are in args, not in params.
    for word in (context.params.get("experiment"), *context.args):
        try:
            spec = experiment.load(experiment.find(str(word)))
        except UsageError:
            continue
        before, comma, last = incomplete.rpartition(",")
        labels = [s.label for s in spec.schedulers if s.label not in before.split(",")]
        return [f"{before}{comma}{label}" for label in labels if label.startswith(last)]
    return []
