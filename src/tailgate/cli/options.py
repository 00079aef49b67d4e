# SPDX-License-Identifier: GPL-2.0-only
"""Options that several commands have, and the conversion of their values."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import typer

from tailgate.base.command import chosen, output_folder
from tailgate.base.errors import UsageError, one_of
from tailgate.cli import complete
from tailgate.guest.labels import LABELS

T = TypeVar("T")


def drive(default: str, help: str = "One of drives/, or a .toml file.") -> Any:
    """--drive; `default` describes the drive used without it."""
    return typer.Option(metavar="NAME", help=help, show_default=default, autocompletion=complete.drives)


def variable() -> Any:
    """--variable; `pairs` converts its values."""
    return typer.Option(metavar="NAME=TEXT", help="What ${NAME} stands for in the job file; may be repeated.")


def target(targets: Sequence[str], help: str) -> Any:
    """--target, one of `targets`."""
    return typer.Option(
        metavar="TARGET", help=help, callback=chosen(targets), autocompletion=complete.words(targets)
    )


def kernel() -> Any:
    """--kernel, the guest's kernel."""
    return typer.Option(
        metavar="LABEL",
        help=f"vm: the guest's kernel, {one_of(LABELS)}: of Debian's release or its backports; "
        "-rt has PREEMPT_RT.",
        show_default="backports",
        callback=chosen(LABELS),
        autocompletion=complete.words(LABELS),
    )


def jobs(what: str) -> Any:
    """--jobs; `what` names the things that run in parallel."""
    return typer.Option(min=1, metavar="N", help=f"{what} at once.", show_default="one a CPU")


def out(what: str) -> Any:
    """--out, the folder in which `what` is kept."""
    return typer.Option(
        metavar="DIR",
        help=f"Where {what} are kept.",
        show_default="runs in the checkout",
        callback=output_folder,
    )


def only_for(target: str, given: str, **options: object) -> None:
    """UsageError if one of these options has a value although another target was given."""
    for name, value in options.items():
        if value is not None and given != target:
            raise UsageError(f"--{name} is for --target {target} only")


def words(text: str | None) -> list[str] | None:
    """The words of a list with commas; None if there is none."""
    return None if text is None else [w.strip() for w in text.split(",") if w.strip()]


def pairs(option: str, given: Sequence[str] | None, kind: Callable[[str], T], form: str) -> dict[str, T]:
    """The values of an option that may be repeated, by key. UsageError for a value that is not of `form`."""
    found = {}
    for text in given or ():
        key, equals, value = text.partition("=")
        try:
            if not key.strip() or not equals:
                raise ValueError
            found[key.strip()] = kind(value)
        except ValueError as e:
            raise UsageError(f"{option}: expected {form}, got '{text}'") from e
    return found
