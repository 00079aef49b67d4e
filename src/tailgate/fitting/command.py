# SPDX-License-Identifier: GPL-2.0-only
"""`tailgate calibrate --target`: probe a drive, fit a drive file to what it shows, tell what is left over."""

import hashlib
import math
import os
import statistics
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tailgate.base.errors import UsageError
from tailgate.base.paths import replace_text
from tailgate.base.progress import Progress
from tailgate.fitting.fit import ASSUMED, Fit
from tailgate.fitting.model import Model
from tailgate.fitting.probe import READS, WRITES, FigureName, Probed, ProbeLoad, Tail, figures, ratios, tail
from tailgate.fitting.steps import Steps
from tailgate.spec import drive as drives
from tailgate.spec import drive_file
from tailgate.spec import experiment as experiments
from tailgate.spec.drive import Drive, Parameter
from tailgate.targets.measure import MeasureOptions, TargetOptions, measure, target_of
from tailgate.targets.resolve import resolve

#: What only writes show.
OF_WRITES = frozenset({"write_fixed_ns", "buffer_kib", "program_ns", "erase_ns", "admission"})


#: A drive file that has every parameter with its unit.
UNITS_OF = "unseen-1"


@dataclass(frozen=True)
class ProbeResidual:
    """What is left over of a figure: measured, of the model (0: it has none), and `log` of probe.ratios()."""

    load: ProbeLoad
    name: FigureName
    measured: float
    model: float
    log: float

    @property
    def words(self) -> str:
        """The figure in words."""
        flow = f"{self.name.flow} " if self.load.experiment == WRITES else ""
        kind = self.load.experiment.partition("/")[2]
        return f"{kind}, {self.load.label}: {flow}{self.name.figure}"


@dataclass(frozen=True)
class Fitted:
    """The parameters, which of them were fitted, and what is left over."""

    parameters: Mapping[str, int]
    fitted: frozenset[str]
    residuals: Sequence[ProbeResidual]

    @property
    def error(self) -> float:
        """The root mean square of what is left over, as a share; a figure the model lacks is e times off."""
        return math.exp(math.sqrt(statistics.fmean(one.log**2 for one in self.residuals))) - 1


def calibrate(
    drive: Path, target: str, writes: bool, out: Path, options: MeasureOptions, progress: Progress
) -> Fitted:
    """Probe a drive and write the file `out`. UsageError; nothing is written then.

    `drive` is the file of the drive that the virtual machine or the simulator has. The fit does not see it.
    """
    if out.suffix != ".toml":
        raise UsageError(f"{out}: expected a name that ends in .toml, as a drive file has")
    if out.exists():
        raise UsageError(f"{out} is there already: remove it, or choose another name")
    if not out.parent.is_dir():
        raise UsageError(f"{out}: there is no folder {out.parent}")
    if not os.access(out.parent, os.W_OK):
        raise UsageError(f"{out}: {out.parent} cannot be written to")
    drives.load(str(drive))
    names = [READS, *([WRITES] if writes else [])]
    probed: dict[ProbeLoad, dict[FigureName, float]] = {}
    late, folder = Tail(0.0, 0.0), out.parent  # until there is a run
    for name in names:
        path = experiments.find(name)
        run = resolve(path, "full", None, None, target, None, str(drive))
        measured = measure(target_of(run, path, TargetOptions(), progress), None, options, progress)
        folder = measured.folder
        if measured.broken:
            raise UsageError(f"{name}: {measured.broken}")
        if measured.fault:
            progress.note(f"{name}: {measured.fault}; the fit takes them as they are")
        for m in measured.measurements:
            probed[ProbeLoad(name, m.sweep.label or "")] = figures(m.flows)
            if (name, m.sweep.label) == (READS, "one-4k"):
                late = tail(m.flows[0].histogram)
    found = fit(names, probed, late, folder, progress)
    replace_text(out, text(found, out.stem, options.command))
    return found


def fit(names: Sequence[str], probed: Probed, late: Tail, folder: Path, progress: Progress) -> Fitted:
    """Fit the parameters to what was probed by these experiments. `folder` keeps the steps that are done."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        model = Model(names, pool)
        its = Fit(model, probed, late, progress.note)
        decides = (model.identity, [sorted(map(repr, one.items())) for one in probed.values()], late, _code())
        identity = hashlib.sha256(repr(decides).encode()).hexdigest()
        try:
            parameters = its.run(Steps(folder, identity, its.steps(), progress).do)
        finally:
            progress.end()
        own = model.probe({**ASSUMED, **parameters}, model.loads())
    residuals = [
        ProbeResidual(load, name, probed[load][name], own[load].get(name, 0.0), log)
        for load, name, log in ratios(probed, own)
    ]
    fitted = frozenset(parameters) - (frozenset() if WRITES in names else OF_WRITES)
    return Fitted(parameters, fitted, residuals)


def _code() -> list[bytes]:
    """The code of the fit."""
    return [(Path(__file__).parent / name).read_bytes() for name in ("fit.py", "model.py", "probe.py")]


def text(found: Fitted, name: str, command: str) -> str:
    """The drive file."""
    units = {key: p.unit for key, p in drives.load(UNITS_OF)[1].parameters.items()}
    parameters = {}
    for key, value in {"queues": 4, **ASSUMED, **found.parameters}.items():
        source = "probed" if key in found.fitted else "not seen from outside: assumed"
        if key in OF_WRITES - found.fitted:
            source = "not probed, as writing was not asked for"
        parameters[key] = Parameter(value=value, unit=units[key], source=source)
    comments = [
        f"Written by `{command}`.",
        f"The model is off by {found.error:.1%} (root mean square) of what was measured.",
    ]
    title = f"A drive that was probed from outside: {name}"
    return drive_file.text(comments, Drive(name=name, title=title, parameters=parameters))
