# SPDX-License-Identifier: GPL-2.0-only
"""Says, while slow tests run, how far they are: with each slow test the time so far and what is left.

What is left is estimated from what each test took the last time it ran.
"""

import time

import pytest

SLOW_S = 5.0


class Left:
    """Elapsed and remaining time of this session."""

    def __init__(self, config: pytest.Config) -> None:
        assert config.cache is not None
        self.cache = config.cache
        self.took: dict[str, float] = self.cache.get("tailgate/took", {})
        self.begin = time.monotonic()
        self.remaining: dict[str, None] = {}
        self.total = 0

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.remaining = dict.fromkeys(item.nodeid for item in session.items)
        self.total = len(self.remaining)

    def seconds_left(self) -> float:
        known = [self.took[i] for i in self.remaining if i in self.took]
        mean = sum(known) / len(known) if known else (time.monotonic() - self.begin) / max(1, self.done())
        return sum(known) + mean * (len(self.remaining) - len(known))

    def done(self) -> int:
        return self.total - len(self.remaining)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> object:
        begin = time.monotonic()
        result = yield
        took = time.monotonic() - begin
        self.remaining.pop(item.nodeid, None)
        self.took[item.nodeid] = round(took, 2)
        terminal = item.config.pluginmanager.get_plugin("terminalreporter")
        if took > SLOW_S and terminal is not None:
            so_far, left = (
                f"{int(s) // 60}:{int(s) % 60:02}"
                for s in (time.monotonic() - self.begin, self.seconds_left())
            )
            where = f"{self.done()}/{self.total}"
            terminal.write_line(
                f"  [{where}] {took:.0f} s {item.nodeid} ({so_far} so far, about {left} left)"
            )
        return result

    def pytest_sessionfinish(self) -> None:
        self.cache.set("tailgate/took", self.took)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Left(config))
