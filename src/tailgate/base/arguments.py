# SPDX-License-Identifier: GPL-2.0-only
"""Command lines: what is wrong with one is told in one line, as everything that a user gets wrong."""

import argparse
from typing import NoReturn

from tailgate.base.errors import UsageError


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that raises UsageError instead of printing its usage."""

    def error(self, message: str) -> NoReturn:
        """UsageError with argparse's own words."""
        raise UsageError(f"{message.removeprefix('argument ')}; `{self.prog} --help` tells more")
