# SPDX-License-Identifier: GPL-2.0-only
"""Reads TOML files into pydantic models. An error is one line that says what is wrong, and where."""

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from tailgate.base.errors import UsageError, one_of

Model = TypeVar("Model", bound=BaseModel)


def load_toml(folder: Path, kind: str, name: str, model: type[Model]) -> tuple[Path, Model]:
    """The file `<name>.toml` in a folder. UsageError if there is none, or if it is invalid."""
    path = folder / f"{name}.toml"
    if not path.is_file():
        known = sorted(p.stem for p in folder.glob("*.toml"))
        expected = one_of(known) if known else f"a file {path}"
        raise UsageError(f"there is no {kind} {name}; expected {expected}")
    return path, parse_toml(path, model)


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a TOML file. UsageError if it cannot be read or parsed."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as e:
        raise UsageError(f"{path}: expected a readable TOML file ({e.strerror})") from e
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise UsageError(f"{path}: not valid TOML: {e}") from e


def parse_toml(
    path: Path, model: type[Model], prepare: Callable[[dict[str, Any]], dict[str, Any]] = dict
) -> Model:
    """Read a TOML file into a model. UsageError: one line with file, key (or line) and what was expected.

    `prepare` expands short forms in the file; ValueError if one is invalid.
    """
    written = read_toml(path)
    try:
        data = prepare(written)
    except ValueError as e:
        raise UsageError(f"{path}: {e}") from e
    try:
        return model.model_validate(data)
    except ValidationError as e:
        raise UsageError(f"{path}: {_explain(e.errors(), model, data)}") from e


#: TOML's names for types, in place of Python's, which pydantic uses.
_EXPECTED: Mapping[str, str] = {
    "tuple_type": "an array",
    "dict_type": "a table",
    "model_type": "a table",
    "too_short": "at least {min_length} of them",
}


def _explain(errors: Sequence[ErrorDetails], model: type[BaseModel], data: object) -> str:
    """The first error of pydantic in one clause: key, expected value, value found."""
    # An unknown key is the likeliest reason for a missing one, so it is reported first.
    found = min(errors, key=lambda e: e["type"] != "extra_forbidden")
    place = _place(found, data)
    key = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in place).lstrip(".")
    match found["type"]:
        case "extra_forbidden":
            return f"{key}: unknown key; expected {one_of(_known_keys(model, place[:-1]))}"
        case "missing":
            return f"{key}: missing; expected this key"
        case "value_error":
            message = str(found["ctx"]["error"])
            return f"{key}: {message}" if key else message
    # pydantic reports an error for each member of a union.
    expected = dict.fromkeys(_expected(e) for e in errors if _place(e, data) == place)
    return f"{key}: expected {' or '.join(expected)}, got {found['input']!r}"


def _expected(error: ErrorDetails) -> str:
    if error["type"] in _EXPECTED:
        return _EXPECTED[error["type"]].format(**error.get("ctx", {}))
    # For example `Input should be a valid integer, unable to parse string as an integer`.
    message = error["msg"].removeprefix("Input should be ").partition(", unable to")[0]
    return message[:1].lower() + message[1:]


def _place(error: ErrorDetails, data: Any) -> list[str | int]:
    """The keys that lead to an error, without the names of union members that pydantic puts among them."""
    place: list[str | int] = []
    for part in error["loc"]:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            continue
        place.append(part)
    return [*place, error["loc"][-1]] if error["type"] == "missing" else place


def _known_keys(model: type[BaseModel], place: Sequence[str | int]) -> list[str]:
    """The keys of the table at a place; indices, and names in a dict of models, are not fields of a model."""
    for part in place:
        if field := model.model_fields.get(str(part)):
            model = next(_models_in(field.annotation), model)
    return sorted(model.model_fields)


def _models_in(annotation: object) -> Iterator[type[BaseModel]]:
    """The models that an annotation names, such as Flow in dict[str, Flow]."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)
