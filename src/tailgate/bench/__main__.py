# SPDX-License-Identifier: GPL-2.0-only
"""`python -m tailgate.bench` is `tailgate bench`."""

import sys

from tailgate import cli

if __name__ == "__main__":
    sys.exit(cli.main(["bench", *sys.argv[1:]]))
