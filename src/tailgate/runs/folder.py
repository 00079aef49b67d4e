# SPDX-License-Identifier: GPL-2.0-only
"""A run is a directory: what was asked, where it ran, raw fio output, and the points made of it.

    spec.json           the resolved experiment, mode, drive: everything that decides the digits
    environment.json    kernel, modules, QEMU, fio, command line, times
    sources/            what was read: experiment, jobs, paper's numbers, drive, our modules
    chunks/<chunk>/     one scheduler, load and seed: chunk.json, and per point what the target left of it
    points.parquet      one row per point, seed and flow
    results.json        the same as `--json` prints
    report.html

A point of the target vm leaves the derived job (`p0.fio`), fio's JSON (`.fio.json`), the queue's settings
(`.settings`), and the machine's counters when the first real-time request started and the last ended
(`.before`, `.after`). A point of the simulator leaves the derived job, its figures as fio writes them
(`.fio.json`), and `.sim.json`:

    {"idle": share of the processors' time, "flows": {"rt": {"read": {"block": H, "scheduler": H}}}}

by flow and direction, where H is as fio's `clat_ns` ({"mean": ns, "max": ns, "bins": {ns: count}}): the time
in the block layer, and of it from insertion into the scheduler to dispatch. `.delay.json` of the target vm is
`flows` of that file, where the experiment asks and the guest can tell; it is made of `.delays`, the kernel's
own counts. `.blocked` is the kernel's own account of
the longest time that each task was blocked, where the load has a file system.

Raw files come first: everything below can be made again from them without measuring again. A run is
measured in `<key>.partial` and renamed to `<key>` when it is complete; from then on it is not written to.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from tailgate.base.errors import UsageError
from tailgate.base.paths import ROOT
from tailgate.spec.experiment import Experiment, Mode
from tailgate.spec.plan import Chunk, Run


def write_run(folder: Path, run: Run) -> None:
    """spec.json: what `read_run` reads back."""
    about = {
        "experiment": run.name,
        "target": run.target,
        "mode": run.mode_name,
        "resolved_mode": run.mode.model_dump(mode="json"),
        "schedulers": [s.label for s in run.schedulers],
        "variants": list(run.variants),
        "spec": run.spec.model_dump(mode="json"),
    }
    (folder / "spec.json").write_text(json.dumps(about, indent=1) + "\n")


def read_run(folder: Path) -> Run:
    """The run of a run directory. UsageError if the folder is none."""
    try:
        about = json.loads((folder / "spec.json").read_text())
        spec = Experiment.model_validate(about["spec"])
        return Run(
            about["experiment"],
            spec,
            about["mode"],
            Mode.model_validate(about["resolved_mode"]),
            tuple(s for s in spec.schedulers if s.label in about["schedulers"]),
            tuple(about["variants"]),
            about["target"],
        )
    except (OSError, ValueError, KeyError) as e:
        raise UsageError(
            f"{folder}: expected the folder of a run, as `tailgate run` prints it, such as {ROOT / 'runs'}/…"
        ) from e


def digest(identity: Mapping[str, object]) -> str:
    """The name of a run's folder: a hash of all that decides its digits."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:12]


def complete(folder: Path, chunk: Chunk) -> bool:
    """Whether a chunk was measured to its end in this folder."""
    about = folder / "chunks" / chunk.name / "chunk.json"
    return about.is_file() and bool(json.loads(about.read_text())["complete"])


def set_complete(folder: Path, chunk: Chunk) -> None:
    """Say that a chunk was measured to its end."""
    file = folder / "chunks" / chunk.name / "chunk.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"complete": True}) + "\n")
