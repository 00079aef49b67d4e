# SPDX-License-Identifier: GPL-2.0-only
"""What a user's mistake leads to."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tailgate.base.errors import UsageError


@contextmanager
def refused(begins: str, contains: str = "") -> Iterator[None]:
    """UsageError in one line, which begins so and contains that."""
    with pytest.raises(UsageError) as caught:
        yield
    said = str(caught.value)
    assert said.startswith(begins)
    assert contains in said
    assert "\n" not in said
