# SPDX-License-Identifier: GPL-2.0-only
"""Writing drive files: a new one, and other values in one that is there."""

from collections.abc import Mapping, Sequence
from typing import Any

import tomlkit

from tailgate.spec.drive import Drive


def text(comments: Sequence[str], drive: Drive) -> str:
    """A drive file, below lines of comment and the licence's."""
    document = tomlkit.document()
    for line in ("SPDX-License-Identifier: GPL-2.0-only", *comments):
        document.add(tomlkit.comment(line))
    document.update(drive.model_dump(exclude_defaults=True))
    return tomlkit.dumps(document)


def rewrite(text: str, values: Mapping[str, int]) -> str:
    """A drive file's text with other values of these parameters, each of which it has; the rest stays."""
    document = tomlkit.parse(text)
    parameters: Any = document["parameters"]
    for name, value in values.items():
        if parameters[name]["value"] != value:  # one that stays keeps its form, such as 1_000
            parameters[name]["value"] = value
    return tomlkit.dumps(document)
