# SPDX-License-Identifier: GPL-2.0-only
"""`tailgate blktests DIR`: a checkout of blktests judges a scheduler beside mq-deadline.

Each test runs once under each of the two; if the scheduler does worse, both run it again. A difference counts
if the scheduler fails in most runs and mq-deadline in none, or if the kernel's report names the scheduler's
code. The tests take hours; an interrupted run continues where it ended.
"""

import hashlib
import json
import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tailgate.base.command import log
from tailgate.base.errors import UsageError
from tailgate.base.locks import only_one
from tailgate.base.paths import ROOT
from tailgate.base.progress import Progress, duration
from tailgate.guest import kernels, modules
from tailgate.guest import machine as vm
from tailgate.upkeep.blktests import guests, images
from tailgate.upkeep.blktests.store import Store, read
from tailgate.upkeep.blktests.verdicts import RUNS, Difference, Result, compare

BASELINE = "mq-deadline"
GROUPS = ("block", "loop", "scsi", "zbd", "nvme")
LABELS = ("backports", "stable")
#: Seconds assumed for a test that has not run here yet.
GUESS_S = 20.0
RUNS_FOLDER = ROOT / "runs" / "blktests"
#: The committed short form of the same results.
RECORDS = ROOT / "claims" / "blktests"


@dataclass(frozen=True)
class Side:
    """One of the two schedulers on one kernel."""

    guest: guests.Guest
    store: Store


@dataclass(frozen=True)
class KernelResults:
    """The results of one kernel: by test, of the scheduler and of mq-deadline; and where these differ."""

    kernel: str
    scheduler: str
    results: Mapping[str, tuple[Sequence[Result], Sequence[Result]]]
    differences: Sequence[Difference]


def main(
    checkout: Path,
    wanted: Sequence[str],
    labels: Sequence[str],
    scheduler: str,
    limit_s: int,
    json_only: bool,
) -> bool:
    """Run the wanted groups and tests (without names: all) on these kernels (without names: all).

    Prints the report of each kernel, or with `json_only` all results as JSON. Returns whether no difference
    counts.
    """
    progress = Progress(log())
    source = checkout.resolve()
    if scheduler == BASELINE:
        raise UsageError(f"{BASELINE} is what schedulers are compared with: choose another one")
    tests = select(source, wanted or GROUPS)
    reports = []
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for kernel in kernels.resolve(labels or LABELS, progress.note):
            with only_one(RUNS_FOLDER / kernel.release, "running blktests in"):
                sides = _sides(kernel, scheduler, source, limit_s, progress)
                reports.append(_judge(kernel, sides, tests, limit_s, progress))
            if not json_only:
                print("\n".join(lines(reports[-1])), flush=True)
    finally:
        vm.stop_all()
        signal.signal(signal.SIGTERM, previous)
    if json_only:
        print(json.dumps([asdict(report) for report in reports], indent=1))
    return not any(difference.counts for report in reports for difference in report.differences)


def select(source: Path, wanted: Sequence[str]) -> list[str]:
    """The tests of a checkout that groups ("loop") and names ("loop/001") select. UsageError if none."""
    images.check_checkout(source)
    out: list[str] = []
    for name in wanted:
        folder = source / "tests" / name
        if folder.is_dir():
            found = sorted(f"{name}/{file.name}" for file in folder.iterdir())
        else:
            found = [name] if folder.is_file() else []
        found = [test for test in found if re.fullmatch(r"\w+/\d{3}", test)]
        if not found:
            raise UsageError(f"{source} has no test or group {name}: see its folder tests")
        out += [test for test in found if test not in out]
    return out


def _sides(
    kernel: kernels.Kernel, scheduler: str, source: Path, limit_s: int, progress: Progress
) -> tuple[Side, Side]:
    """The scheduler and the baseline, with the files that their guests need."""
    built = modules.build(kernel) / f"{scheduler}.ko"
    if not built.exists() and not is_stock(kernel, scheduler):
        raise UsageError(f"neither Tailgate nor {kernel.release} has a scheduler {scheduler}: check the name")
    disks = images.make(kernel, source, progress.note)
    mode = guests.mode()

    def side(name: str, module: Path | None) -> Side:
        guest = guests.Guest(kernel, name, module, **disks, mode=mode)
        digest = hashlib.sha256()
        for part in guest.identity(limit_s):
            digest.update(part)
        own = f"{name}-{digest.hexdigest()[:12]}"
        store = Store(RUNS_FOLDER / kernel.release / own, RECORDS / kernel.release / f"{own}.json")
        store.recall()
        return Side(guest, store)

    return side(scheduler, built if built.exists() else None), side(BASELINE, None)


def is_stock(kernel: kernels.Kernel, scheduler: str) -> bool:
    """Whether a kernel contains this scheduler, as a module or built in."""
    folder = kernel.root / "lib/modules" / kernel.release
    known = "".join((folder / f"modules.{index}").read_text() for index in ("dep", "builtin"))
    return bool(re.search(rf"^kernel/block/{re.escape(scheduler)}(-iosched)?\.ko", known, re.MULTILINE))


def _judge(
    kernel: kernels.Kernel, sides: tuple[Side, Side], tests: Sequence[str], limit_s: int, progress: Progress
) -> KernelResults:
    """Run the tests that have no result yet, and compare."""
    progress.note(f"{kernel.label} ({kernel.release}): {sides[0].guest.scheduler} beside {BASELINE}")
    results = {side.guest.scheduler: side.store.folder for side in sides}
    for name, folder in results.items():
        progress.note(f"  results of {name}: {folder}")
    expected = _expected()
    missing = [(side, [t for t in tests if not side.store.results(t)]) for side in sides]
    todo = [expected.get(test, GUESS_S) for _, names in missing for test in names]
    progress.begin(len(todo), sum(todo))
    try:
        for group in dict.fromkeys(test.partition("/")[0] for test in tests):
            members = [test for test in tests if test.partition("/")[0] == group]
            for side in sides:
                _run(side, [t for t in members if not side.store.results(t)], limit_s, expected, progress)
            for number in range(2, RUNS + 1):
                again = [test for test in members if _unsettled(test, sides)]
                for side in sides:
                    names = [test for test in again if len(side.store.results(test)) < number]
                    _run(side, names, limit_s, {}, progress)
    finally:
        progress.end()
    found = {test: (sides[0].store.results(test), sides[1].store.results(test)) for test in tests}
    name = sides[0].guest.scheduler
    differences = [d for test, (ours, theirs) in found.items() for d in compare(test, ours, theirs, name)]
    return KernelResults(f"{kernel.label} ({kernel.release})", name, found, differences)


def _unsettled(test: str, sides: tuple[Side, Side]) -> bool:
    """Whether the scheduler did worse so far; not if the baseline has failed too."""
    ours, theirs = (side.store.results(test) for side in sides)
    return any(result.failed for result in ours) and not any(result.failed for result in theirs)


def _run(
    side: Side, tests: Sequence[str], limit_s: int, expected: Mapping[str, float], progress: Progress
) -> None:
    """Run these tests once under one scheduler; each result is stored at once."""
    name = side.guest.scheduler

    def keep(result: Result, files: Mapping[str, bytes]) -> None:
        side.store.add(result, files)
        statuses = ", ".join(dict.fromkeys(verdict.status for verdict in result.verdicts.values()))
        line = f"{result.test} {name}: {statuses} ({duration(result.seconds)})"
        if expected:
            progress.point(line, expected.get(result.test, GUESS_S))
        else:
            progress.note(f"  again: {line}")

    if tests:
        try:
            guests.run(side.guest, tests, limit_s, side.store.folder / "guest", keep)
        except guests.StoppedError as e:
            raise KeyboardInterrupt from e


def _expected() -> dict[str, float]:
    """Seconds that each test took in its last run here, with any kernel and scheduler."""
    out: dict[str, float] = {"": GUESS_S}
    for file in sorted(RUNS_FOLDER.glob("*/*/*/result.json"), key=lambda path: path.stat().st_mtime):
        if result := read(file):
            out[result.test] = result.seconds + 1
    return out


# --- what is printed ---------------------------------------------------------------------------------------


def lines(report: KernelResults) -> Iterator[str]:
    """The report of one kernel: figures by group, differences, and the kernel's reports."""
    yield f"\n{report.kernel}: {report.scheduler} beside {BASELINE}"
    width = max(len(report.scheduler), len(BASELINE)) + 2
    yield f"  {'group':8}{'':{width}}{'tests':>8}{'passed':>8}{'failed':>8}{'not run':>9}{'time':>12}"
    for group in dict.fromkeys(test.partition("/")[0] for test in report.results):
        for index, name in enumerate((report.scheduler, BASELINE)):
            first = [both[index][0] for test, both in report.results.items() if test.startswith(f"{group}/")]
            failed = sum(result.failed for result in first)
            left_out = sum(all(v.status == "not run" for v in r.verdicts.values()) for r in first)
            took = duration(sum(result.seconds for result in first))
            yield (
                f"  {group:8}{name:{width}}{len(first):8}{len(first) - failed - left_out:8}{failed:8}"
                f"{left_out:9}{took:>12}"
            )
    for title, wanted in (("count", True), ("do not count", False)):
        found = [difference for difference in report.differences if difference.counts == wanted]
        yield f"  differences that {title}: {len(found) or 'none'}"
        for difference in found:
            where = f" ({difference.where})" if difference.where else ""
            yield (
                f"    {difference.test}{where}: {report.scheduler} {', '.join(difference.scheduler)}; "
                f"{BASELINE} {', '.join(difference.baseline)}"
            )
            yield from (f"      {reason}" for reason in difference.reasons)
    for index, name in enumerate((report.scheduler, BASELINE)):
        yield f"  complaints of the kernel under {name}:"
        yield from _complaints([result for both in report.results.values() for result in both[index]]) or [
            "    none"
        ]


def _complaints(results: Sequence[Result]) -> list[str]:
    out: dict[str, None] = {}
    for result in results:
        for complaint in result.complaints:
            times = f" ({complaint.count} times)" if complaint.count > 1 else ""
            out[f"    {result.test}: {complaint.headline}{times}"] = None
    return list(out)
