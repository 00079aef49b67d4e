# SPDX-License-Identifier: GPL-2.0-only
"""Stored results of simulations, so that none runs twice, in one search or after a stopped one is resumed."""

import contextlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tailgate.base.paths import replace_text
from tailgate.tune.evaluate import Wanted


@dataclass(frozen=True)
class Evaluation:
    """The result of one simulation: objectives, simulated seconds, and figures of each flow."""

    values: tuple[float, ...]
    seconds: float
    flows: Mapping[str, Mapping[str, float]]


class Memory:
    """Evaluations by setting, seed and share. With a file, those of earlier processes too, one a line."""

    def __init__(self, path: Path | None) -> None:
        """Only one process may use a file at a time."""
        self._path = path
        self._known: dict[str, Evaluation] = {}
        if path and path.exists():
            text = path.read_text(encoding="utf-8")
            # A process that was killed may have left an incomplete line.
            whole = text[: text.rfind("\n") + 1]
            if whole != text:
                replace_text(path, whole)
            for line in whole.splitlines():
                with contextlib.suppress(ValueError, KeyError, TypeError):  # damaged: simulated again
                    about = json.loads(line)
                    own = about["result"]
                    self._known[about["of"]] = Evaluation(tuple(own["values"]), own["seconds"], own["flows"])
        self._had = frozenset(self._known)

    @property
    def simulated(self) -> int:
        """The number of pairs of setting and seed, whatever share was simulated."""
        return len({name.rpartition(", ")[0] for name in self._known})

    def had(self, wanted: Wanted) -> bool:
        """Whether the file had this result when it was opened."""
        return _name(wanted) in self._had

    def settings(self, seed: int, share: float) -> int:
        """How many settings with this seed and share the file had when it was opened."""
        return sum(name.endswith(_how(seed, share)) for name in self._had)

    def of(
        self, wanted: Sequence[Wanted], simulate: Callable[[Sequence[Wanted]], Iterable[Evaluation]]
    ) -> list[Evaluation]:
        """The evaluations, in order. Missing ones are simulated; each is stored as soon as it is there."""
        new = [w for w in wanted if _name(w) not in self._known]
        for w, result in zip(new, simulate(new), strict=True):
            self._known[_name(w)] = result
            if self._path:
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"of": _name(w), "result": asdict(result)}) + "\n")
        return [self._known[_name(w)] for w in wanted]


def _name(wanted: Wanted) -> str:
    return wanted.setting.label + _how(wanted.seed, wanted.share)


def _how(seed: int, share: float) -> str:
    return f", seed {seed}, {share:g} of the time"
