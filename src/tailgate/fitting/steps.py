# SPDX-License-Identifier: GPL-2.0-only
"""The steps of a fit, each kept in a file once it is done: a fit that was interrupted goes on."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from tailgate.base.paths import replace_text
from tailgate.base.progress import Progress

Parameters = dict[str, int]
FILE = "fit.json"


class Steps:
    """The steps of one fit. `identity` identifies all that decides what they find."""

    def __init__(self, folder: Path, identity: str, weights: Mapping[str, float], progress: Progress) -> None:
        """`weights` has every step with its share of the time. FILE in `folder` keeps what they find."""
        self._path, self._identity, self._weights, self._progress = folder / FILE, identity, weights, progress
        self._done: dict[str, Parameters] = self._kept()
        left = [weight for name, weight in weights.items() if name not in self._done]
        progress.begin(len(left), sum(left), "fitting", "steps")

    def do(self, name: str, step: Callable[[], Parameters]) -> Parameters:
        """The parameters after a step; it is not run again if it was done before."""
        if name not in self._done:
            self._done[name] = step()
            replace_text(self._path, json.dumps({"identity": self._identity, "steps": self._done}))
            self._progress.point(name, self._weights[name])
        return self._done[name]

    def _kept(self) -> dict[str, Parameters]:
        """The steps of an earlier fit with this identity."""
        try:
            found = json.loads(self._path.read_text())
            return dict(found["steps"]) if found["identity"] == self._identity else {}
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return {}
