# SPDX-License-Identifier: GPL-2.0-only
"""Results on disk: for each run of a test a folder with all files that the guest sent and `result.json`.

Beside them is a record: one committed file with the same results, so that results of a night's run are not
lost. Folder and record are named after everything that decides verdicts, so a run with another module
replaces no record.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from tailgate.base.errors import UsageError
from tailgate.base.paths import replace_text
from tailgate.upkeep.blktests.verdicts import Complaint, Result, Verdict


@dataclass(frozen=True)
class Store:
    """The results of one scheduler on one kernel. The folder is named after everything that decides
    verdicts.
    """

    folder: Path
    record: Path

    def recall(self) -> None:
        """Copy the results that the folder lacks from the record. UsageError if the record cannot be read."""
        if not self.record.exists():
            return
        try:
            found = [_load(data) for data in json.loads(self.record.read_text())]
        except (ValueError, KeyError, TypeError, AssertionError) as e:
            raise UsageError(f"{self.record} is damaged: delete it, or take it from git again") from e
        seen: Counter[str] = Counter()
        for result in found:
            seen[result.test] += 1
            if seen[result.test] > len(self.results(result.test)):
                self._keep(result)

    def results(self, test: str) -> list[Result]:
        """All runs of a test so far, the first one first."""
        out: list[Result] = []
        while (result := read(self._at(test, len(out)) / "result.json")) is not None:
            out.append(result)
        return out

    def add(self, result: Result, files: Mapping[str, bytes]) -> None:
        """Store one more run of a test."""
        at = self._at(result.test, len(self.results(result.test)))
        for name, content in files.items():
            path = at / "files" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        self._keep(result)
        self._write_record()

    def _keep(self, result: Result) -> None:
        at = self._at(result.test, len(self.results(result.test)))
        at.mkdir(parents=True, exist_ok=True)
        replace_text(at / "result.json", json.dumps(asdict(result), indent=1) + "\n")

    def _write_record(self) -> None:
        found = (read(file) for file in sorted(self.folder.glob("*/result.json")))
        lines = ",\n".join(json.dumps(asdict(result)) for result in found if result)
        self.record.parent.mkdir(parents=True, exist_ok=True)
        replace_text(self.record, f"[\n{lines}\n]\n")

    def _at(self, test: str, number: int) -> Path:
        return self.folder / f"{test.replace('/', '-')}.{number + 1}"


def read(file: Path) -> Result | None:
    """The result in a file; None if the file has no readable one."""
    try:
        return _load(json.loads(file.read_text()))
    except (OSError, ValueError, KeyError, TypeError, AssertionError):
        return None


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
