# SPDX-License-Identifier: GPL-2.0-only
"""Common to all commands: one-line errors, exit statuses, and a quiet end on a closed pipe."""

import os
import re
import select
import shlex
import sys
import textwrap
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from typer.main import get_command

from tailgate.base.errors import UsageError, one_of

OK, FAILED, USAGE = 0, 1, 2
INTERRUPTED = 130  # as shells count: 128 + SIGINT
EXIT_STATUS = "Exit status: 0 done, 1 {failed}, 2 the command or a file is not right, 130 interrupted."
#: Width in characters of output that is not a terminal, where lines may be long.
LOG_WIDTH = 120


def application(help: str | None = None, completion: bool = False) -> typer.Typer:
    """An empty set of commands. With `completion` it has --install-completion and --show-completion."""
    return typer.Typer(
        help=help,
        add_completion=completion,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def epilog(examples: str, failed: str = "it failed") -> str:
    """The end of a command's help: its examples, one a line, and what the exit statuses mean."""
    lines = textwrap.indent(examples.strip(), "  ").replace("[", "\\[")
    return f"Examples:\n{lines}\n\n{EXIT_STATUS.format(failed=failed)}"


def flag(name: str, help: str) -> Any:
    """An option that is there or not."""
    return typer.Option(name, metavar="", help=help)


def log() -> Console:
    """Standard error, for progress and tables."""
    return Console(stderr=True, width=None if sys.stderr.isatty() else LOG_WIDTH)


def out() -> Console:
    """Standard output, for tables."""
    return Console(width=None if sys.stdout.isatty() else LOG_WIDTH)


def chosen(words: Sequence[str]) -> Callable[[str | list[str] | None], str | list[str] | None]:
    """A Typer callback that refuses values other than these words; a repeated option's value is a list."""

    def check(given: str | list[str] | None) -> str | list[str] | None:
        for value in [given] if isinstance(given, str) else given or []:
            if value not in words:
                raise typer.BadParameter(f"expected {one_of(words)}, got '{value}'")
        return given

    return check


def output_file(path: Path) -> Path:
    """A Typer callback that refuses a file that cannot be written, before hours of measuring."""
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise typer.BadParameter(f"expected a file in a folder that is there and writable, got '{path}'")
    return path


def output_folder(path: Path | None) -> Path | None:
    """A Typer callback that refuses a folder that can neither be written nor made."""
    there = next(p for p in (path.absolute(), *path.absolute().parents) if p.exists()) if path else None
    if there and not (there.is_dir() and os.access(there, os.W_OK)):
        raise typer.BadParameter(f"expected a folder that is writable, or can be made, got '{path}'")
    return path


def run(
    app: typer.Typer, name: str, arguments: Sequence[str] | None = None, resumes: Collection[str] = ()
) -> int:
    """Run the command `name` with these arguments, or the process's own; returns the exit status.

    A command returns its status, and finds its command line, quoted for a shell, in `context.obj`. `resumes`
    are the subcommands that continue where they were stopped.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    line = shlex.join([name, *arguments])
    try:
        status = get_command(app).main(arguments, prog_name=name, standalone_mode=False, obj=line)
        sys.stdout.flush()
    except UsageError as e:
        return _refuse(str(e))
    except typer.TyperException as e:
        return _refuse(_sentence(e, name))
    except MemoryError:
        _refuse("out of memory; expected fewer processes, a smaller iodepth, fewer requests or --jobs 1")
        return FAILED
    except OSError as e:
        if not isinstance(e, BrokenPipeError) or not _reader_has_ended():  # a reader such as head has ended
            _refuse(f"{e.filename or 'a write'}: {os.strerror(e.errno)}" if e.errno else str(e))
        if not e.filename:  # Python flushes standard output once more when it exits; that must not fail again
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    if status == INTERRUPTED:  # Typer turns KeyboardInterrupt into this status
        goes_on = bool(arguments) and arguments[0] in resumes
        more = "; the same command goes on where this one ended" if goes_on else ""
        print(f"tailgate: stopped{more}", file=sys.stderr)
    return int(status or OK)


def _reader_has_ended() -> bool:
    """Whether standard output is a pipe whose other end is closed."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return any(what & (select.POLLERR | select.POLLHUP) for _, what in poll.poll(0))


def _refuse(sentence: str) -> int:
    print(f"tailgate: {sentence}", file=sys.stderr)
    return USAGE


def _sentence(error: typer.TyperException, name: str) -> str:
    """Typer's error as one sentence, with the way out."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context else name
    parameter = getattr(error, "param", None)
    if parameter is not None and error.message:
        text = f"{parameter.get_error_hint()}: {_expected(error)}".replace("'", "", 2)
    else:
        text = error.format_message()
        text = text[:1].lower() + text[1:]
    text = " ".join(text.split()).rstrip(".")
    return f"{text}{'' if text.endswith('?') else ';'} `{path} --help` tells more"


def _expected(error: typer.TyperException) -> str:
    """The expected form of a value, and the given value, from pydantic's error, which Typer wraps."""
    from pydantic import ValidationError

    text = re.sub(r"^Input should be (?=greater|less)", "expected a number ", error.message)
    text = (
        re.sub(r"^Input should be ", "expected ", text).removeprefix("Value error, ").partition(", unable")[0]
    )
    if isinstance(error.__cause__, ValidationError) and text.startswith("expected "):
        return f"{text}, got {error.__cause__.errors()[0]['input']!r}"
    return text
