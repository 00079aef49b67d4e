# SPDX-License-Identifier: GPL-2.0-only
"""Plays scenarios until stopped: `play SCHEDULER [SEED]`; or prints the table of faults: `faults`."""

import secrets
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.swarm import faults


def main() -> int:
    match sys.argv[1:]:
        case ["faults"]:
            return faults.main()
        case ["play", scheduler, *seed] if len(seed) <= 1:
            first = seed[0] if seed else str(secrets.randbelow(1 << 31))
            print(f"from seed {first} on", flush=True)
            with tempfile.TemporaryDirectory() as scratch:
                program = faults.compile_swarm(Path(scratch))
                return subprocess.run([program, scheduler, first, "0"], check=False).returncode
        case _:
            print(__doc__, file=sys.stderr)
            return 2


try:
    sys.exit(main())
except KeyboardInterrupt:
    sys.exit(130)
