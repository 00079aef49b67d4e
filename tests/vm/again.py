# SPDX-License-Identifier: GPL-2.0-only
"""Hooks for pytest: a test in virtual machines that failed is run once more, to tell what is flaky."""

from collections.abc import Sequence

import pytest
from _pytest.runner import runtestprotocol

#: Set in the stash of a test that is run once more.
AGAIN = pytest.StashKey[bool]()
FLAKY = "flaky: failed, and passed when it was run again on its own"
TWICE = "failed, and failed again on its own"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a test in virtual machines once more if it failed. It stays red, and says how that ended."""
    if item.get_closest_marker("vm") is None:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    if any(report.failed for report in reports):
        item.stash[AGAIN] = True
        item._report_sections.clear()  # of what the second run prints is the second report
        tell(reports, runtestprotocol(item, log=False, nextitem=nextitem))
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def tell(reports: Sequence[pytest.TestReport], again: Sequence[pytest.TestReport]) -> None:
    """Write into the failed one of a test's reports what both runs said."""
    failed = next(report for report in reports if report.failed)
    failed.duration += sum(report.duration for report in again)
    twice = next((report for report in again if report.failed), None)
    second = twice.longreprtext if twice else again[-1].capstdout
    failed.longrepr = (
        f"{TWICE if twice else FLAKY}\n\n--- the first time\n{failed.longreprtext}\n\n--- again\n{second}"
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the flaky tests at the end."""
    for report in [*terminalreporter.getreports("failed"), *terminalreporter.getreports("error")]:
        if FLAKY in report.longreprtext:
            terminalreporter.write_line(f"FLAKY {report.nodeid}", red=True)
