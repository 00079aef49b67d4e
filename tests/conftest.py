# SPDX-License-Identifier: GPL-2.0-only
"""What all tests share: how random examples are drawn, and how far slow tests are.

With each slow test the time so far and what is left are told. What is left is estimated from what each test
took the last time it ran.
"""

import time
from collections.abc import Sequence

import pytest
from hypothesis import settings

# No verdict depends on the host's speed; a failure prints how to play it again.
settings.register_profile("tailgate", deadline=None, print_blob=True)
settings.load_profile("tailgate")

SLOW_S = 5.0


class Left:
    """Elapsed and remaining time of this session; its tests run in workers of pytest-xdist, or here."""

    def __init__(self, config: pytest.Config) -> None:
        assert config.cache is not None
        self.config = config
        self.cache = config.cache
        self.took: dict[str, float] = self.cache.get("tailgate/took", {})
        self.begin = time.monotonic()
        self.remaining: dict[str, None] = {}
        self.phases: dict[str, float] = {}
        self.total = 0
        self.workers = 0

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.expect([item.nodeid for item in session.items])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        self.expect(ids)

    def expect(self, tests: Sequence[str]) -> None:
        """A worker, or this process itself, has found these tests; all workers find the same."""
        if tests:
            self.workers += 1
            self.remaining = dict.fromkeys(tests)
            self.total = len(tests)

    def seconds_left(self) -> float:
        known = [self.took[i] for i in self.remaining if i in self.took]
        mean = sum(known) / len(known) if known else (time.monotonic() - self.begin) / max(1, self.done())
        return (sum(known) + mean * (len(self.remaining) - len(known))) / max(1, self.workers)

    def done(self) -> int:
        return self.total - len(self.remaining)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        took = self.phases.pop(report.nodeid, 0.0) + report.duration
        if report.when != "teardown":
            self.phases[report.nodeid] = took
            return
        self.remaining.pop(report.nodeid, None)
        self.took[report.nodeid] = round(took, 2)
        terminal = self.config.pluginmanager.get_plugin("terminalreporter")
        if took > SLOW_S and terminal is not None:
            so_far, left = (
                f"{int(s) // 60}:{int(s) % 60:02}"
                for s in (time.monotonic() - self.begin, self.seconds_left())
            )
            where = f"{self.done()}/{self.total}"
            terminal.write_line(
                f"  [{where}] {took:.0f} s {report.nodeid} ({so_far} so far, about {left} left)"
            )

    def pytest_sessionfinish(self) -> None:
        self.cache.set("tailgate/took", self.took)


def pytest_configure(config: pytest.Config) -> None:
    # a worker's tests are reported by who started it
    if not hasattr(config, "workerinput") and hasattr(config, "cache"):
        config.pluginmanager.register(Left(config))
