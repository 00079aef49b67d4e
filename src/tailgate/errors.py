# SPDX-License-Identifier: GPL-2.0-only
"""The one error that a user can cause."""


class UsageError(Exception):
    """One sentence that says what is wrong and a way out; the command prints it and exits with status 2."""
