# SPDX-License-Identifier: GPL-2.0-only
"""An experiment that states only its differences from another one."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tailgate.spec.toml import read_toml


def expand_extends(data: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """An experiment's data, with the values of the file `extends` in the same folder where it has none.

    Tables are merged key by key. An array has only this file's entries, each merged with the other file's
    entry of the same label. ValueError if `extends` names no file in the folder, or a file that itself
    extends one.
    """
    if "extends" not in data:
        return dict(data)
    name = data["extends"]
    if not isinstance(name, str) or Path(name).name != name or not (folder / name).is_file():
        raise ValueError(f"extends: expected the name of a file beside the experiment, got {name!r}")
    other = read_toml(folder / name)
    if "extends" in other:
        raise ValueError(f"extends: expected a file that extends none itself, got {name}")
    merged: dict[str, Any] = _merged(other, data)
    return merged


def _merged(below: Any, above: Any) -> Any:
    """This file's value, `above`, merged over the other file's."""
    if isinstance(below, dict) and isinstance(above, dict):
        return below | {key: _merged(below.get(key), value) for key, value in above.items()}
    if isinstance(below, list) and isinstance(above, list):
        known = {entry["label"]: entry for entry in below if _has_label(entry)}
        return [_merged(known.get(entry["label"]), entry) if _has_label(entry) else entry for entry in above]
    return above


def _has_label(entry: Any) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("label"), str)
