# SPDX-License-Identifier: GPL-2.0-only
"""Parses a test's files, and decides which differences between two schedulers count."""

import io
import itertools
import re
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from tailgate.guest.machine import COMPLAINT

#: How a test ended as a whole. blktests gives no verdict if the guest died or hung.
Ending = Literal["ended", "timeout", "died"]
#: Verdicts that are failures, from best to worst.
FAILURES = ("fail", "timeout", "died")

#: Key of the verdict of a whole test, where a test has several verdicts (drives, transports).
WHOLE = ""

#: Most lines of a kernel report.
REPORT_LINES = 60
_STAMP = re.compile(r"^\[ *\d+\.\d+\](?:\[[^\]]*\])? ?")
#: The module of a function in a trace.
_MODULE = re.compile(r"\+0x\S+ \[(\w+)\]")
#: Parts that differ between two reports of the same fault.
_VARYING = re.compile(r"0x[0-9a-f]+|\b[0-9a-f]{8,}\b|\+0x\S+|(?<=[:/#-])\d+|\bPID: \d+|\b\d+(\.\d+)?s?\b")


@dataclass(frozen=True)
class Verdict:
    """`status` is blktests' (pass, fail, not run), or timeout, or died. `reason` is for a reader."""

    status: str
    reason: str = ""

    @property
    def failed(self) -> bool:
        """Whether the verdict is a failure."""
        return self.status in FAILURES


@dataclass(frozen=True)
class Complaint:
    """A report of the kernel: its first line without the time, its full text, and how often it appeared."""

    headline: str
    text: str
    count: int = 1

    @property
    def kind(self) -> str:
        """A key that is equal for two reports of one fault."""
        return _VARYING.sub("*", self.headline)

    def names(self, scheduler: str) -> bool:
        """Whether code of this scheduler is in the report: `k2_insert+0x1/0x2 [k2]`, but not `k2(OE)`."""
        name = re.escape(scheduler)
        return bool(re.search(rf"\[{name}\]|\b{name}_\w", self.text))


@dataclass(frozen=True)
class Result:
    """One run of one test. `verdicts` are by drive and condition, under blktests' names of their folders."""

    test: str
    seconds: float
    verdicts: Mapping[str, Verdict]
    complaints: Sequence[Complaint] = ()

    @property
    def failed(self) -> bool:
        """Whether any of its verdicts is a failure."""
        return any(verdict.failed for verdict in self.verdicts.values())


def complaints(dmesg: str) -> tuple[Complaint, ...]:
    """The kernel's reports in a log; reports of one kind with the same modules in them are listed once.

    A report ends after REPORT_LINES lines, or where the next one begins.
    """
    lines = dmesg.splitlines()
    starts: list[int] = []
    for number, line in enumerate(lines):
        if not COMPLAINT.match(line):
            continue
        # "Call Trace:" belongs to the report above it, if there is one
        within = starts and number - starts[-1] < REPORT_LINES
        if not (within and "Call Trace" in line):
            starts.append(number)
    found: dict[tuple[str, frozenset[str]], Complaint] = {}
    for start, following in itertools.pairwise([*starts, len(lines)]):
        text = "\n".join(lines[start : min(following, start + REPORT_LINES)])
        new = Complaint(_STAMP.sub("", lines[start]), text)
        key = new.kind, frozenset(_MODULE.findall(text))
        before = found.get(key)
        found[key] = replace(before, count=before.count + 1) if before else new
    return tuple(found.values())


def parse(test: str, files: Mapping[str, bytes]) -> Result:
    """The result of a test, from the files that the guest sent; paths as guest/inside.sh makes them."""

    def text(name: str) -> str:
        return files.get(name, b"").decode(errors="replace")

    seconds, output = float(text("seconds").strip() or 0), text("output")
    found: dict[str, Verdict] = {}
    for path in files:
        if path.startswith("results/") and path.endswith(f"/{test}"):
            pairs = (line.partition("\t") for line in text(path).splitlines())
            fields = {key: value for key, _, value in pairs}
            where = path.removeprefix("results/").removesuffix(f"/{test}")
            found[where] = Verdict(fields.get("status", "fail"), _reason(fields))
    if text("code").strip() == "timeout":
        # it is not known which of its verdicts are missing
        found[WHOLE] = Verdict("timeout", f"after {seconds:.0f} s")
    elif not found:
        last = (output.strip().splitlines() or [""])[-1]
        # The test's group was left out; or it has no drive, and blktests prints nothing; or nothing ran.
        left_out = "[not run]" in output or (not last and text("code").strip() == "0")
        found[WHOLE] = Verdict("not run") if left_out else Verdict("fail", last or "no output")
    reasons = re.findall(r"^    (\S.*)$", output, re.MULTILINE)
    why = " ".join(reasons) if output.strip() else "it needs a drive that is not there"
    found = {
        where: Verdict("not run", why) if verdict.status == "not run" else verdict
        for where, verdict in found.items()
    }
    return Result(test, seconds, found, complaints(text("dmesg")))


def _reason(fields: Mapping[str, str]) -> str:
    reason = fields.get("reason", "")
    return f"exit status {fields.get('exit_status')}" if reason == "exit" else reason


def died(test: str, seconds: float, ending: Ending, log: str) -> Result:
    """The result of a test during which the guest died or fell silent, with the console's lines since its
    begin.
    """
    reports = complaints(log)
    reason = reports[0].headline if reports else (log.strip().splitlines() or ["without a word"])[-1]
    return Result(test, seconds, {WHOLE: Verdict(ending, reason)}, reports)


def unpack(archive: bytes) -> dict[str, bytes]:
    """The files of a tar archive by their paths."""
    out = {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in tar:
            if member.isfile() and (content := tar.extractfile(member)):
                out[member.name.removeprefix("./")] = content.read()
    return out


# --- comparing ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Difference:
    """A test that ended differently under the two schedulers. `counts` if it speaks against the scheduler."""

    test: str
    where: str
    scheduler: Sequence[str]
    baseline: Sequence[str]
    counts: bool
    reasons: Sequence[str] = field(default_factory=tuple)


#: Number of runs of a test under each scheduler if their verdicts differ.
RUNS = 3


def compare(
    test: str, scheduler: Sequence[Result], baseline: Sequence[Result], name: str
) -> list[Difference]:
    """Differences of a test, over all runs under each scheduler (at least one).

    A difference counts if the test failed under the scheduler in most runs and under the baseline in none, or
    if a kernel report has the scheduler's code in it, whatever the verdicts are. A verdict that the baseline
    passes and the scheduler's run lacks is listed and does not count.
    """
    out = []
    places = sorted({where for result in (*scheduler, *baseline) for where in result.verdicts})
    spread = WHOLE in places and len(places) > 1
    for where in [WHOLE] if spread else places:
        ours, theirs = ([_at(result, where) for result in results] for results in (scheduler, baseline))
        failed = [verdict for verdict in ours if verdict.failed]
        if {v.status for v in ours} == {v.status for v in theirs} and len({v.status for v in ours}) == 1:
            continue
        counts = 2 * len(failed) > len(ours) and not any(verdict.failed for verdict in theirs)
        out.append(
            Difference(
                test,
                where,
                [v.status for v in ours],
                [v.status for v in theirs],
                counts,
                sorted({v.reason for v in failed if v.reason}),
            )
        )
    ours_only = {c.kind: c for result in scheduler for c in result.complaints if c.names(name)}
    if ours_only and not any(difference.counts for difference in out):
        out = [
            Difference(
                test,
                WHOLE,
                [_at(result, WHOLE).status for result in scheduler],
                [_at(result, WHOLE).status for result in baseline],
                counts=True,
                reasons=[c.headline for c in ours_only.values()],
            )
        ]
    return out


def _at(result: Result, where: str) -> Verdict:
    """The verdict at `where`; the worst of all for the whole test, or if there is none at `where`."""
    if where in result.verdicts:
        return result.verdicts[where]
    order = ("pass", "not run", *FAILURES)
    return max(result.verdicts.values(), key=lambda verdict: order.index(verdict.status))
