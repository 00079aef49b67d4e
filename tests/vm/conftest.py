# SPDX-License-Identifier: GPL-2.0-only
"""What the tests in virtual machines share."""

from collections.abc import Callable
from typing import TypeVar

import pytest
from tests.vm.again import pytest_runtest_protocol, pytest_terminal_summary

__all__ = ["pytest_runtest_protocol", "pytest_terminal_summary", "same_twice"]

T = TypeVar("T")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A long test that shares no guest comes first: last, it would keep one worker busy and no other."""
    items.sort(key=lambda item: item.path.name != "test_watch.py")


def run_twice(measure: Callable[[], T]) -> T:
    """What two runs in virtual time give, which must be the same.

    On rare occasions idle counters differ by nanoseconds for a reason that lies in QEMU; and where its main
    loop may not have the host's CPU first (qemu.py), a busy host disturbs some runs. So two of at most five
    must agree.
    """
    results: list[T] = []
    for _ in range(5):
        result = measure()
        if result in results:
            return result
        results.append(result)
    raise AssertionError(f"{len(results)} runs, all different:\n" + "\n".join(map(str, results)))


@pytest.fixture
def same_twice() -> Callable[[Callable[[], T]], T]:
    """`run_twice`."""
    return run_twice
