# SPDX-License-Identifier: GPL-2.0-only
"""Plays scenarios of the swarm test.

python -m tests.swarm play SCHEDULER [SEED]      random scenarios, until stopped
python -m tests.swarm play SCHEDULER - < FILE    the scenario in a file
python -m tests.swarm faults                     prints the table of faults
"""

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
            seeds = [first] if first == "-" else [first, "0"]
            if first != "-":
                print(f"from seed {first} on", flush=True)
            with tempfile.TemporaryDirectory() as scratch:
                program = faults.compile_swarm(Path(scratch))
                return subprocess.run([program, scheduler, *seeds], check=False).returncode
        case _:
            print(__doc__, file=sys.stderr)
            return 2


try:
    sys.exit(main())
except KeyboardInterrupt:
    sys.exit(130)
