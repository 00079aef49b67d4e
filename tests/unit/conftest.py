# SPDX-License-Identifier: GPL-2.0-only
"""Fixtures of tests without a machine: a run with invented latencies, as a target leaves it; K2."""

import json
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tests.unit.k2_programs import compile_library
from tests.unit.programs import UNDEFINED_SANITIZED
from tests.unit.scripts import Script, watched

from tailgate.runs import evidence
from tailgate.runs import folder as folders
from tailgate.runs.folder import write_run
from tailgate.runs.histogram import Histogram
from tailgate.runs.measurements import Conditions
from tailgate.spec import experiment as experiments
from tailgate.spec import plan
from tailgate.spec.experiment import ModeName
from tailgate.spec.plan import Run


def timer_list(now_ns: int, idle_ns: int, cpus: int = 1) -> str:
    """The lines of /proc/timer_list that the lab reads, with the kernel's spacing."""
    lines = ["Timer List Version: v0.10", f"now at {now_ns} nsecs", ""]
    for cpu in range(cpus):
        lines += [f"cpu: {cpu}", f"  .idle_sleeptime : {idle_ns} nsecs", "  .iowait_sleeptime: 1000 nsecs"]
    return "\n".join(lines) + "\n"


def stat(reads: int, read_ms: int) -> str:
    """/sys/block/*/stat."""
    return f"{reads:8} 0 {reads * 128} {read_ms:8} 0 0 0 0 0 {read_ms} {read_ms} 0 0 0 0 0 0\n"


def bins(samples_us: npt.NDArray[np.float64], dilation: int = 1) -> dict[str, object]:
    """fio's `clat_ns` object for these samples."""
    exact = np.sort(samples_us * 1000 * dilation)
    step = 2.0 ** (np.floor(np.log2(exact)) - 6)  # 64 bins to an octave, as fio has them
    ns = (np.round(exact / step) * step).astype(int)
    values, counts = np.unique(ns, return_counts=True)
    return {
        "min": int(ns[0]),
        "max": int(ns[-1]),
        "mean": float(ns.mean()),
        "N": len(ns),
        "bins": {str(v): int(c) for v, c in zip(values, counts, strict=True)},
    }


def side(samples_us: npt.NDArray[np.float64], seconds: float, kib: int, k: int) -> dict[str, object]:
    """One direction of a fio job."""
    iops = len(samples_us) / seconds / k
    return {
        "total_ios": len(samples_us),
        "iops": iops,
        "bw_bytes": round(iops * kib * 1024),
        "clat_ns": bins(samples_us, k),
    }


NOTHING = {"total_ios": 0, "iops": 0.0, "bw_bytes": 0, "clat_ns": {"N": 0, "mean": 0.0, "max": 0}}


def point_files(
    random: np.random.Generator,
    bound: int,
    rate: float,
    samples: int,
    dilation: int,
    idle: float,
) -> dict[str, bytes]:
    """The files that a guest sends for one point, by the suffixes of their names."""
    typical = 250 + 100 * bound * rate**4
    rt = random.gamma(30, typical / 30, max(1, samples))
    jobs = [{"jobname": "rt", "read": side(rt, 4.0, 64, dilation), "write": NOTHING}]
    if rate:
        mib_s = 560 * rate * (0.85 + 0.15 * min(1, bound / 64))
        each = random.gamma(30, typical / 30, round(mib_s * 16 * 4 / 3))
        jobs += [
            {"jobname": "background", "read": side(each, 4.0, 64, dilation), "write": NOTHING}
            for _ in range(3)
        ]
    said = "rt : Saving output of prerun in rt.prerun.txt\n"
    after = timer_list(2 * 10**9, 10**8 + round(idle * 10**9)) + stat(
        10 + samples, 5 + samples * 240 * dilation // 1000
    )
    return {
        "settings": b"scheduler:[none] bfq\nnr_requests:1023\n",
        "before": (timer_list(10**9, 10**8) + stat(10, 5)).encode(),
        "after": after.encode(),
        "fio.json": (said + json.dumps({"jobs": jobs}) + "\n").encode(),
    }


def scaled(histogram: Histogram, by: float) -> Histogram:
    """A histogram with all samples multiplied by `by`."""
    return replace(
        histogram,
        values_us=histogram.values_us * by,
        mean_us=histogram.mean_us * by,
        max_us=histogram.max_us * by,
    )


def write(
    folder: Path,
    mode: ModeName = "quick",
    dilation: int = 1,
    idle: float = 0.85,
    mode_name: str = "icount",
    name: str = "k2/fig8",
    schedulers: Sequence[str] = (),
) -> Run:
    """Write a whole run folder; returns its run. Latencies grow with the load and the bound.

    A run of the simulator has mode_name "sim".
    """
    path = experiments.find(name)
    spec = experiments.load(path)
    simulated = mode_name == "sim"
    variants = tuple(i for i, v in enumerate(spec.variants) if mode in v.modes and not simulated)
    chosen = tuple(s for s in spec.schedulers if not schedulers or s.label in schedulers)
    target = "sim" if simulated else "vm"
    run = Run(name, spec, mode, spec.modes[mode].on(target), chosen, variants, target)
    random = np.random.default_rng(1)
    (folder / "sources").mkdir(parents=True)
    for file in (path, *(path.parent / name for _, name in spec.files_beside)):
        shutil.copy(file, folder / "sources")
    write_run(folder, run)
    (folder / "environment.json").write_text(
        json.dumps({"kernel": "1.2.3", "qemu": "QEMU emulator", "fio": "3.33", "command": "tailgate run"})
    )
    for chunk in plan.chunks(run):
        place = folders.place(folder, chunk)
        conditions = Conditions(smp=1, kernel="1.2", mode=mode_name, dilation=dilation)
        folders.begin(folder, chunk, conditions)
        bound = int(chunk.scheduler.knobs.get("inflight_max", 96))
        for point in chunk.points:
            sent = point_files(random, bound, point.background_rate, chunk.rt_samples, dilation, idle)
            for end, content in sent.items():
                if not simulated:
                    (place / f"{point.name}.{end}").write_bytes(content)
            measured = evidence.measurement(run, point, conditions, sent)
            if simulated:
                flows = [
                    replace(f, delay=scaled(f.histogram, 0.1), block=f.histogram) if f.name == "rt" else f
                    for f in measured.flows
                ]
                measured = replace(measured, flows=tuple(flows))
            folders.write(folder, measured)
        folders.end(folder, chunk)
    return run


@pytest.fixture(scope="session")
def fake_run() -> Callable[..., Run]:
    """`write`, as a fixture, because tests cannot import from here."""
    return write


@pytest.fixture(scope="session")
def fake_point() -> Callable[..., dict[str, bytes]]:
    """`point_files`, as a fixture, because tests cannot import from here."""
    return point_files


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the programs of tests/unit/k2."""
    return tmp_path_factory.mktemp("k2")


@pytest.fixture(scope="session")
def k2_library(programs: Path) -> Path:
    """K2 as a library that obeys commands."""
    return compile_library(programs, *UNDEFINED_SANITIZED)


@pytest.fixture
def script(k2_library: Path) -> Iterator[Script]:
    """K2, driven by commands."""
    with watched():
        yield Script(k2_library)


@pytest.fixture
def records_read(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files of records that were read, in order."""
    found: list[Path] = []

    def read_text(path: Path, *arguments: Any, read: Any = Path.read_text, **more: Any) -> str:
        if re.fullmatch(r"p\d+\.json", path.name):
            found.append(path)
        return str(read(path, *arguments, **more))

    monkeypatch.setattr(Path, "read_text", read_text)
    return found
