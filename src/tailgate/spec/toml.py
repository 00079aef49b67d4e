# SPDX-License-Identifier: GPL-2.0-only
"""TOML files as pydantic models: one line that says what is wrong with a file, and where."""

import tomllib
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ValidationError

from tailgate.base.errors import UsageError, one_of

Model = TypeVar("Model", bound=BaseModel)


def load_toml(folder: Path, kind: str, name: str, model: type[Model]) -> tuple[Path, Model]:
    """The file `<name>.toml` of a folder of them. UsageError if there is none, or if it is not right."""
    path = folder / f"{name}.toml"
    if not path.is_file():
        known = sorted(p.stem for p in folder.glob("*.toml"))
        expected = one_of(known) if known else f"a file {path}"
        raise UsageError(f"there is no {kind} {name}; expected {expected}")
    return path, parse_toml(path, model)


def parse_toml(path: Path, model: type[Model]) -> Model:
    """Read a TOML file into a model. UsageError: one line with file, key (or line) and what was expected."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as e:
        raise UsageError(f"{path}: expected a readable TOML file ({e.strerror})") from e
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise UsageError(f"{path}: not valid TOML: {e}") from e
    try:
        return model.model_validate(data)
    except ValidationError as e:
        raise UsageError(f"{path}: {_explain(e, model)}") from e


# What pydantic's kinds of error expect, in the words of TOML.
_EXPECTED: Mapping[str, str] = {
    "int_type": "an integer",
    "int_parsing": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "float_parsing": "a number",
    "string_type": "a string",
    "tuple_type": "an array",
    "dict_type": "a table",
    "model_type": "a table",
    "greater_than": "a number above {gt}",
    "greater_than_equal": "a number of at least {ge}",
    "less_than_equal": "a number of at most {le}",
    "too_short": "at least {min_length} of them",
}


def _explain(error: ValidationError, model: type[BaseModel]) -> str:
    """The first finding of pydantic in one clause: key, what was expected, what stood there."""
    # An unknown key is the likeliest reason for a missing one, so it is told first.
    errors = sorted(error.errors(), key=lambda e: e["type"] != "extra_forbidden")
    found = errors[0]
    loc = _location(found["loc"])
    key = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in loc).lstrip(".")
    kind, given = found["type"], found["input"]
    if kind == "extra_forbidden":
        return f"{key}: unknown key; expected {one_of(_keys_at(model, loc[:-1]))}"
    if kind == "missing":
        return f"{key}: missing; expected {_describe(model, loc)}"
    if kind == "value_error":
        message = str(found["ctx"]["error"])
        return f"{key}: {message}" if key else message
    # A union reports each of its arms.
    expected = dict.fromkeys(
        _EXPECTED[e["type"]].format(**e.get("ctx", {}))
        if e["type"] in _EXPECTED
        else _lower(e["msg"].removeprefix("Input should be "))
        for e in errors
        if _location(e["loc"]) == loc
    )
    return f"{key}: expected {' or '.join(expected)}, got {given!r}"


def _location(loc: tuple[str | int, ...]) -> list[str | int]:
    return [part for part in loc if part not in _UNION_ARMS]


# Names that pydantic puts into a location for the arms of a union; no key of ours is called so.
_UNION_ARMS = frozenset({"int", "str", "float", "literal['auto']", "constrained-int", "[key]"})


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _keys_at(model: type[BaseModel], loc: Sequence[str | int]) -> list[str]:
    """The keys that the model at this location knows."""
    here: object = model
    for part in loc:
        here = _step(here, part)
    return (
        sorted(here.model_fields)
        if isinstance(here, type) and issubclass(here, BaseModel)
        else ["no such key"]
    )


def _describe(model: type[BaseModel], loc: Sequence[str | int]) -> str:
    here: object = model
    for part in loc:
        here = _step(here, part)
    if isinstance(here, type) and issubclass(here, BaseModel):
        return f"a table with {one_of(sorted(here.model_fields))}"
    if typing.get_origin(here) is Annotated:
        here = typing.get_args(here)[0]
    if typing.get_origin(here) is Literal:
        return one_of([repr(a) for a in typing.get_args(here)])
    origin = typing.get_origin(here)
    if origin is tuple:
        return "an array"
    if origin is dict:
        return "a table"
    return {str: "a string", int: "an integer", float: "a number"}.get(typing.cast(type, here), "a value")


def _step(here: object, part: str | int) -> object:
    """The type that stands at one step of a location inside a type."""
    if typing.get_origin(here) is Annotated:
        here = typing.get_args(here)[0]
    if isinstance(here, type) and issubclass(here, BaseModel):
        field = here.model_fields.get(str(part))
        return _table(field.annotation) if field else None
    origin, args = typing.get_origin(here), typing.get_args(here)
    if origin is tuple:
        return args[0]
    return args[1] if origin is dict else None


def _table(here: object) -> object:
    """Of a union the model in it, if there is one: what may be left out is described as what it is."""
    if typing.get_origin(here) not in (typing.Union, types.UnionType):
        return here
    arms = typing.get_args(here)
    return next((a for a in arms if isinstance(a, type) and issubclass(a, BaseModel)), here)
