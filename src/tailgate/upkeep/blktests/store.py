# SPDX-License-Identifier: GPL-2.0-only
"""Results on disk: a folder for each run of a test, with all that the guest sent and `result.json`."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from tailgate.upkeep.blktests.verdicts import Complaint, Result, Verdict


@dataclass(frozen=True)
class Store:
    """The results of one scheduler on one kernel. Its folder's name stands for all that decides verdicts."""

    folder: Path

    def results(self, test: str) -> list[Result]:
        """All runs of a test so far, the first one first."""
        out: list[Result] = []
        while (file := self._at(test, len(out)) / "result.json").is_file():
            out.append(_load(json.loads(file.read_text())))
        return out

    def add(self, result: Result, files: Mapping[str, bytes]) -> None:
        """Keep one more run of a test."""
        at = self._at(result.test, len(self.results(result.test)))
        for name, content in files.items():
            path = at / "files" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        at.mkdir(parents=True, exist_ok=True)
        new = at / "result.json.new"
        new.write_text(json.dumps(asdict(result), indent=1) + "\n")
        new.replace(at / "result.json")  # an interrupted run leaves no half of one

    def _at(self, test: str, number: int) -> Path:
        return self.folder / f"{test.replace('/', '-')}.{number + 1}"


def _load(data: dict[str, object]) -> Result:
    verdicts, complaints = data["verdicts"], data["complaints"]
    assert isinstance(verdicts, dict)
    assert isinstance(complaints, list)
    return Result(
        str(data["test"]),
        float(str(data["seconds"])),
        {where: Verdict(**verdict) for where, verdict in verdicts.items()},
        tuple(Complaint(**complaint) for complaint in complaints),
    )
