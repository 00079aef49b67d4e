# SPDX-License-Identifier: GPL-2.0-only
"""A drive file fitted to a drive that was probed in a virtual machine, beside the drive's own numbers."""

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tailgate.spec import drive as drives
from tailgate.upkeep.claims.lab import Lab, clock
from tailgate.upkeep.claims.quantity import exact, once
from tailgate.upkeep.claims.results import Figure, Source

#: What decides what is found: a change of these draws new drives.
LAW = " ".join(
    [*(f"src/tailgate/fitting/{name}.py" for name in ("fit", "model", "probe")), "experiments/probe"]
)
DRIVES = 5
#: The parameters that the probe is to recover.
RECOVERED = (
    "dies",
    "read_ns",
    "read_spread_percent",
    "read_fixed_ns",
    "transfer_ns",
    "write_fixed_ns",
    "buffer_kib",
    "program_ns",
    "erase_ns",
)
#: Rare reads, of which a probe of seconds sees a few.
RARE = ("read_rare_ppm", "read_rare_ns")


def calibrate_probed(lab: Lab) -> Iterator[Figure]:
    """Drives drawn by chance, probed in a virtual machine: each fitted number over the drive's own."""
    source = Source("tailgate claims calibrate_probed", "vm", clock("vm"), (1,))
    measured = once if source.clock == "wall" else exact
    for name, path, law in lab.held_out(LAW, DRIVES):
        own = {key: p.value for key, p in drives.load(str(path))[1].parameters.items()}
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "probed.toml"
            lab.calibrate(path, out)
            found = {key: p.value for key, p in drives.load(str(out))[1].parameters.items()}
        told = replace(source, law=law)
        start = f"calibrate/vm/{name}"
        for key in (*RECOVERED, *RARE):
            yield Figure(f"{start}/{key}/fitted-over-own", measured(found[key] / own[key]), told)
        yield Figure(f"{start}/admission/off", measured(abs(found["admission"] - own["admission"])), told)
        recovered = sum(abs(found[key] / own[key] - 1) <= 0.1 for key in RECOVERED)
        yield Figure(f"{start}/recovered", measured(recovered), told)


STEPS = (calibrate_probed,)
