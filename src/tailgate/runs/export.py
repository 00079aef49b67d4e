# SPDX-License-Identifier: GPL-2.0-only
"""Points as JSON and as Parquet."""

import json
import math
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tailgate.runs import statistics as analysis
from tailgate.runs.measurements import Measurement
from tailgate.runs.points import Point, PointFlow, latencies
from tailgate.spec.plan import Run
from tailgate.spec.scheduler import Scheduler
from tailgate.spec.sweep import Sweep


def knobs(run: Run, scheduler: Scheduler) -> dict[str, int | str]:
    """The scheduler's knobs and the queue's settings, undilated, as results carry them."""
    return scheduler.knobs | run.spec.queue | scheduler.queue


def sweep(load: Sweep, rate: float) -> dict[str, object]:
    """The load and its rate, as a point carries them."""
    own = load.rt_block_size_kib
    return {
        "access": load.access,
        "op": load.op,
        "block_size_kib": load.block_size_kib,
        **({"file_system": load.file_system.type} if load.file_system else {}),
        **({} if own is None else {"rt_block_size_kib": own}),
        **load.carried,
        "background_rate": rate,
    }


def to_json(run: Run, points: Sequence[Point]) -> dict[str, object]:
    """The object that `--json` prints. Figures that do not exist are null."""

    def flow(point: Point, f: PointFlow) -> dict[str, object]:
        out: dict[str, object] = {
            "flow": f.name,
            "op": f.op,
            "ios": f.ios,
            "iops": _round(f.iops),
            "mib_s": _round(f.mib_s),
            "lat_us": {k: _round(v) for k, v in f.lat_us.items()},
            "ci_us": {k: [_round(low), _round(high)] for k, (low, high) in f.ci_us.items()},
        }
        if f.delay is not None:
            out["scheduler_us"] = {k: _round(v) for k, v in latencies(f.delay).items()}
        if point.published:
            published = point.published.values.items()
            mine = {k.removeprefix(f.name + "."): v for k, v in published if k.startswith(f.name + ".")}
            # Figures that name no flow belong to the real-time flow, or to the first flow if none is
            # real-time.
            if not mine and f.name == (*point.real_time, *point.background)[0]:
                mine = dict(published)
            if mine:
                out["paper"] = {k: _round(v) for k, v in mine.items()}
        return out

    return {
        "experiment": run.name,
        "target": run.target,
        "drive": run.spec.drive,
        "seeds": list(run.mode.seeds),
        "points": [
            {
                "label": p.scheduler.label,
                "scheduler": p.scheduler.name,
                "knobs": knobs(run, p.scheduler),
                **({"cgroups": p.scheduler.cgroups} if p.scheduler.cgroups else {}),
                "load": p.sweep.label,
                "sweep": sweep(p.sweep, p.background_rate),
                "flows": [flow(p, f) for f in p.flows],
                "kernel": p.kernel,
                "smp": p.smp,
                "dilation": p.dilation,
                "idle": _round(p.idle),
                "status": p.status,
                **({"state": {name: _round(value) for name, value in p.state.items()}} if p.state else {}),
                **({"blocked": {"task": p.blocked.task, "us": _round(p.blocked.us)}} if p.blocked else {}),
            }
            for p in points
        ],
    }


def _round(value: float | None) -> float | int | None:
    """Six significant digits: more than fio's bins carry, and stable in print."""
    if value is None or math.isnan(value):
        return None
    rounded = float(f"{value:.6g}")
    return int(rounded) if rounded.is_integer() else rounded


def _title(run: Run, variant: int | None) -> str:
    return "" if variant is None else run.spec.variants[variant].title


def write_parquet(run: Run, measurements: Sequence[Measurement], path: Path) -> None:
    """One row per point, seed and flow, with the whole histogram. Times in us, undilated."""
    rows = [
        {
            "experiment": run.name,
            "target": run.target,
            "drive": run.spec.drive,
            "scheduler": m.scheduler.name,
            "label": m.scheduler.label,
            "knobs": json.dumps(knobs(run, m.scheduler)),
            "variant": _title(run, m.point.chunk.variant),
            "load": m.sweep.label or "",
            "access": m.sweep.access,
            "op": m.sweep.op,
            "block_size_kib": m.sweep.block_size_kib,
            "rt_block_size_kib": m.sweep.rt_block_size_kib or m.sweep.block_size_kib,
            "load_keys": json.dumps(m.sweep.carried),
            "background_rate": m.background_rate,
            "seed": m.point.chunk.seed,
            "flow": f.name,
            "flow_op": f.op,
            "ios": f.ios,
            "iops": f.iops,
            "mib_s": f.mib_s,
            "lat_mean_us": f.histogram.mean_us,
            **{f"lat_{name}_us": f.histogram.percentile(p) for name, p in analysis.PERCENTILES.items()},
            "lat_max_us": f.histogram.max_us,
            "histogram_us": f.histogram.values_us.tolist(),
            "histogram_count": f.histogram.counts.tolist(),
            "scheduler_us": None if f.delay is None else f.delay.values_us.tolist(),
            "scheduler_count": None if f.delay is None else f.delay.counts.tolist(),
            "kernel": m.conditions.kernel,
            "mode": m.conditions.mode,
            "smp": m.conditions.smp,
            "dilation": m.conditions.dilation,
            "idle": m.idle,
            "block_mean_us": m.block_us,
            "blocked_max_us": m.blocked.us if m.blocked else None,
            "status": m.status,
        }
        for m in measurements
        for f in m.flows
    ]
    schema = pa.schema(
        [
            *(
                (name, pa.string())
                for name in ("experiment", "target", "drive", "scheduler", "label", "knobs")
            ),
            *((name, pa.string()) for name in ("variant", "load", "access", "op")),
            ("block_size_kib", pa.int64()),
            ("rt_block_size_kib", pa.int64()),
            ("load_keys", pa.string()),
            ("background_rate", pa.float64()),
            ("seed", pa.int64()),
            ("flow", pa.string()),
            ("flow_op", pa.string()),
            ("ios", pa.int64()),
            ("iops", pa.float64()),
            ("mib_s", pa.float64()),
            ("lat_mean_us", pa.float64()),
            *((f"lat_{name}_us", pa.float64()) for name in analysis.PERCENTILES),
            ("lat_max_us", pa.float64()),
            ("histogram_us", pa.list_(pa.float64())),
            ("histogram_count", pa.list_(pa.int64())),
            ("scheduler_us", pa.list_(pa.float64())),
            ("scheduler_count", pa.list_(pa.int64())),
            ("kernel", pa.string()),
            ("mode", pa.string()),
            ("smp", pa.int64()),
            ("dilation", pa.int64()),
            ("idle", pa.float64()),
            ("block_mean_us", pa.float64()),
            ("blocked_max_us", pa.float64()),
            ("status", pa.string()),
        ]
    )
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
