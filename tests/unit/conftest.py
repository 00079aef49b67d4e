# SPDX-License-Identifier: GPL-2.0-only
"""A run directory as the target vm leaves it, with invented latencies: for tests that need no machine."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tailgate import experiment as experiments
from tailgate import results
from tailgate.experiment import ModeName
from tailgate.results import Run

FIG8 = experiments.EXPERIMENTS / "k2" / "fig8.toml"


def timer_list(now_ns: int, idle_ns: int, cpus: int = 1) -> str:
    """The lines of /proc/timer_list that count, in the kernel's own odd spacing."""
    lines = ["Timer List Version: v0.10", f"now at {now_ns} nsecs", ""]
    for cpu in range(cpus):
        lines += [f"cpu: {cpu}", f"  .idle_sleeptime : {idle_ns} nsecs", "  .iowait_sleeptime: 1000 nsecs"]
    return "\n".join(lines) + "\n"


def stat(reads: int, read_ms: int) -> str:
    """/sys/block/*/stat."""
    return f"{reads:8} 0 {reads * 128} {read_ms:8} 0 0 0 0 0 {read_ms} {read_ms} 0 0 0 0 0 0\n"


def bins(samples_us: npt.NDArray[np.float64], dilation: int = 1) -> dict[str, object]:
    """fio's `clat_ns` object for these samples."""
    ns = np.sort(np.round(samples_us * 1000 * dilation / 64).astype(int) * 64)
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
    random: np.random.Generator, bound: int, rate: float, samples: int, dilation: int, idle: float
) -> dict[str, bytes]:
    """What a guest sends for one point, by the ends of the names."""
    typical = 250 + 100 * bound * rate**4
    rt = random.gamma(30, typical / 30, samples)
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


def write(
    folder: Path, mode: ModeName = "quick", dilation: int = 1, idle: float = 0.85, mode_name: str = "icount"
) -> Run:
    """Write the whole folder; the run that it belongs to. Latencies grow with the load and the bound."""
    spec = experiments.load(FIG8)
    variants = tuple(i for i, v in enumerate(spec.variants) if mode in v.modes)
    run = Run("k2/fig8", spec, mode, spec.modes[mode], spec.schedulers, variants)
    random = np.random.default_rng(1)
    (folder / "sources").mkdir(parents=True)
    for file in (FIG8, FIG8.with_suffix(".fio"), FIG8.parent / run.spec.paper.file):
        shutil.copy(file, folder / "sources")
    results.write_run(folder, run)
    (folder / "environment.json").write_text(
        json.dumps({"kernel": "1.2.3", "qemu": "QEMU emulator", "fio": "3.33", "command": "tailgate run"})
    )
    for chunk in results.chunks(run):
        place = folder / "chunks" / chunk.name
        place.mkdir(parents=True)
        bound = int(chunk.scheduler.knobs.get("inflight_max", 96))
        for i, rate in enumerate(chunk.background_rates):
            files = point_files(random, bound, rate, chunk.rt_samples, dilation, idle)
            for name, content in files.items():
                (place / f"p{i}.{name}").write_bytes(content)
        about = {"dilation": dilation, "smp": 1, "kernel": "1.2", "mode": mode_name, "complete": True}
        (place / "chunk.json").write_text(json.dumps(about))
    return run


@pytest.fixture(scope="session")
def fake_run() -> Callable[..., Run]:
    """`write`, for tests, which cannot import from here."""
    return write


@pytest.fixture(scope="session")
def fake_point() -> Callable[..., dict[str, bytes]]:
    """`point_files`, for tests, which cannot import from here."""
    return point_files
