# SPDX-License-Identifier: GPL-2.0-only
"""An experiment that says only in what it differs from another one."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tailgate.spec.toml import read_toml


def expand_extends(data: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """An experiment's data, with what the file `extends` of the same folder says and this one does not.

    Tables are merged key by key. An array has the entries of this file alone, but each is merged with the
    other file's entry of that label. ValueError for what is no name of a file beside it, and for a file that
    extends one itself.
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
    """A value of this file, `above`, over the other file's."""
    if isinstance(below, dict) and isinstance(above, dict):
        return below | {key: _merged(below.get(key), value) for key, value in above.items()}
    if isinstance(below, list) and isinstance(above, list):
        known = {entry["label"]: entry for entry in below if _has_label(entry)}
        return [_merged(known.get(entry["label"]), entry) if _has_label(entry) else entry for entry in above]
    return above


def _has_label(entry: Any) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("label"), str)
