# SPDX-License-Identifier: GPL-2.0-only
"""The error for a user's mistake."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tailgate.base.errors import UsageError


@contextmanager
def refused(begins: str, contains: str = "") -> Iterator[None]:
    """Expect UsageError in one line with this beginning and this content."""
    with pytest.raises(UsageError) as caught:
        yield
    said = str(caught.value)
    assert said.startswith(begins)
    assert contains in said
    assert "\n" not in said
