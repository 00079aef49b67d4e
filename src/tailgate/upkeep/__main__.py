# SPDX-License-Identifier: GPL-2.0-only
"""Runs the maintainers' tools without the users' commands: `python -m tailgate.upkeep COMMAND ...`."""

import sys

from tailgate.base import command
from tailgate.upkeep.app import app

if __name__ == "__main__":
    sys.exit(command.run(app, "python -m tailgate.upkeep"))
