# SPDX-License-Identifier: GPL-2.0-only
"""The record of a measured point: one JSON object, from which the measurement is read back to the last bit.

    {"version": 1, "background_rate": 0.25,
     "smp": 1, "kernel": "6.12", "mode": "icount", "dilation": 1,   the conditions of the measurement
     "idle": 0.93, "status": "ok",
     "flows": [{"name": "rt", "op": "read", "ios": 400, "iops": 3021.1, "mib_s": 188.8,
                "latency": H, "delay": H or null, "block": H or null}, ...],
     "block_us": 240.2 or null, "blocked": {"task": "fio", "us": 80.0} or null,
     "settings": {"nr_requests": "1023", ...}, "counters": {"idle_ns": 93000000, ...}}

H is a histogram: {"values_us": [...], "counts": [...], "mean_us": 240.2 or null, "max_us": 310.0 or null};
null means no sample. The fields are those of `Measurement`, `Flow` and `Histogram`.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from tailgate.runs.flow import Flow
from tailgate.runs.histogram import Histogram
from tailgate.runs.measurements import Blocked, Conditions, Measurement
from tailgate.spec.plan import PlannedPoint

#: Version of the form above. Another form gets another number; runs with records of older versions are not
#: read.
VERSION = 1


def to_text(m: Measurement) -> str:
    """The record. Floats are written with as many digits as they need (`repr`)."""
    record = {
        "version": VERSION,
        "background_rate": m.point.background_rate,
        **asdict(m.conditions),
        "idle": m.idle,
        "status": m.status,
        "flows": [_flow(f) for f in m.flows],
        "block_us": m.block_us,
        "blocked": asdict(m.blocked) if m.blocked else None,
        "settings": dict(m.settings),
        "counters": dict(m.counters),
    }
    return json.dumps(record, allow_nan=False) + "\n"


def from_text(text: str, point: PlannedPoint) -> Measurement:
    """The measurement of a point from its record. ValueError if it has another form."""
    record: dict[str, Any] = json.loads(text)
    if not isinstance(record, dict):
        raise ValueError("expected an object")
    if record.get("version") != VERSION:
        raise ValueError(f"expected a record of version {VERSION}, got {record.get('version')}")
    return Measurement(
        point=point,
        conditions=Conditions(**{key: record[key] for key in ("smp", "kernel", "mode", "dilation")}),
        idle=record["idle"],
        status=record["status"],
        flows=tuple(_read_flow(f) for f in record["flows"]),
        block_us=record["block_us"],
        blocked=Blocked(**record["blocked"]) if record["blocked"] else None,
        settings=record["settings"],
        counters=record["counters"],
    )


def _flow(f: Flow) -> dict[str, object]:
    return {
        "name": f.name,
        "op": f.op,
        "ios": f.ios,
        "iops": f.iops,
        "mib_s": f.mib_s,
        "latency": _histogram(f.histogram),
        "delay": f.delay and _histogram(f.delay),
        "block": f.block and _histogram(f.block),
    }


def _read_flow(record: Mapping[str, Any]) -> Flow:
    return Flow(
        **{key: record[key] for key in ("name", "op", "ios", "iops", "mib_s")},
        histogram=_read_histogram(record["latency"]),
        delay=record["delay"] and _read_histogram(record["delay"]),
        block=record["block"] and _read_histogram(record["block"]),
    )


def _histogram(h: Histogram) -> dict[str, object]:
    mean, top = (None if math.isnan(value) else float(value) for value in (h.mean_us, h.max_us))
    return {"values_us": h.values_us.tolist(), "counts": h.counts.tolist(), "mean_us": mean, "max_us": top}


def _read_histogram(record: Mapping[str, Any]) -> Histogram:
    mean, top = (math.nan if record[key] is None else record[key] for key in ("mean_us", "max_us"))
    values, counts = (
        np.array(record["values_us"], dtype=np.float64),
        np.array(record["counts"], dtype=np.int64),
    )
    return Histogram(values, counts, mean, top)
