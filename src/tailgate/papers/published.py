# SPDX-License-Identifier: GPL-2.0-only
"""What papers measured on the drives of drives/, and the load on the drive model that gives the same figures.

`closed_loop.c` runs the loads, `calibrate.py` fits the drives.
"""

from collections.abc import Mapping

from tailgate.base.paths import ROOT
from tailgate.papers.facts import CalibrationCell, Facts

# --- drives/970evo.toml -------------------------------------------------------------------------------------

# Unless a cell says otherwise, the load is that of Section III-A, as closed_loop.c has it: three processes
# keep 32 requests each outstanding, and one process sends one request and then thinks for 2 ms. The paper
# does not state the 32: see docs/model.md.
_ALONE = {"rt": 0, "duration_ms": 1000}
_LAID_OUT = {"sequential": 1, "placement": 1}
_PAGES_SCATTERED = {"sequential": 1, "placement": 2}
_WRITE = {"write_percent": 100, "slc_mib": 0}  # 0: the cache does not run out
_MIXED = {"write_percent": 50, "slc_mib": 0}
_CACHE_FULL = {"slc_mib": 1, "slc_drain_ns": 0}


def _table_1(
    title: str, pattern: str, load: Mapping[str, int], figure: str, group: str = "", **row: str
) -> CalibrationCell:
    return CalibrationCell(
        f"Table I: {title}",
        {"source": "Table I", "access_pattern": pattern, **row},
        {**_ALONE, **load},
        figure,
        group,
    )


def _none(pattern: str, kib: int, load: Mapping[str, int], figure: str, group: str = "") -> CalibrationCell:
    metric = "max_bg_throughput" if figure == "mib_s" else "rt_p99.9_latency_at_max_throughput"
    row = {"source": "Table II", "scheduler": "none", "access_pattern": pattern, "block_size_kib": str(kib)}
    what = "MiB/s" if figure == "mib_s" else "p99.9"
    return CalibrationCell(
        f"none: {pattern} {kib} KiB, {what}", {**row, "metric": metric}, {"kib": kib, **load}, figure, group
    )


_IOPS, _RATE = {"metric": "device_iops_measurement"}, {"metric": "device_throughput_measurement"}
_ONE, _MANY = {"processes": 1, "depth": 1, "kib": 4}, {"processes": 4, "depth": 32, "kib": 4}
_STREAM = {"processes": 1, "depth": 32, "kib": 128, "sequential": 1}

_EVO_CELLS: tuple[CalibrationCell, ...] = (
    _table_1("random read, depth 1", "random read", _ONE, "iops", "read", workload="QD=1 threads=1", **_IOPS),
    _table_1("random read, 4 x 32", "random read", _MANY, "iops", workload="QD=32 threads=4", **_IOPS),
    _table_1("sequential read", "sequential read", {**_STREAM, **_LAID_OUT}, "mib_s", **_RATE),
    _table_1(
        "random write, depth 1",
        "random write",
        {**_ONE, **_WRITE},
        "iops",
        workload="QD=1 threads=1",
        **_IOPS,
    ),
    _table_1(
        "random write, 4 x 32, burst",
        "random write",
        {**_MANY, **_WRITE},
        "iops",
        "write",
        workload="QD=32 threads=4",
        note="burst",
        **_IOPS,
    ),
    _table_1(
        "random write, 4 x 32, sustained",
        "random write",
        {**_MANY, **_WRITE, **_CACHE_FULL},
        "iops",
        "full",
        workload="QD=32 threads=4",
        note="sustained",
        **_IOPS,
    ),
    _table_1(
        "sequential write, burst",
        "sequential write",
        {**_STREAM, **_WRITE},
        "mib_s",
        "write",
        note="burst",
        **_RATE,
    ),
    _table_1(
        "sequential write, sustained",
        "sequential write",
        {**_STREAM, **_WRITE, **_CACHE_FULL},
        "mib_s",
        "full",
        note="sustained",
        **_RATE,
    ),
    *(_none("random read", kib, {}, figure, "read") for kib in (4, 64) for figure in ("mib_s", "rt.p99.9")),
    *(
        _none("random read/write", kib, _MIXED, figure, "write")
        for kib in (4, 64)
        for figure in ("mib_s", "rt.p99.9")
    ),
    # The sweep ended at 900 MiB/s. These rows only say that the drive keeps up with that.
    *(
        _none("random write", kib, {**_WRITE, "rate_mib_s": 900}, figure)
        for kib in (4, 64)
        for figure in ("mib_s", "rt.p99.9")
    ),
    *(
        _none("sequential read", kib, _PAGES_SCATTERED, figure)
        for kib in (4, 64)
        for figure in ("mib_s", "rt.p99.9")
    ),
    # The highest throughput was measured before the cache was full, the latency after it was full.
    _none("sequential write", 4, {**_WRITE, "sequential": 1}, "mib_s"),
    _none("sequential write", 64, {**_WRITE, "sequential": 1}, "mib_s"),
    _none("sequential write", 64, {**_WRITE, **_CACHE_FULL, "sequential": 1}, "rt.p99.9"),
)

_EVO = Facts(
    paper=ROOT / "experiments" / "k2" / "paper.csv",
    cells=_EVO_CELLS,
    free={
        "read": ("read_ns", "read_fixed_ns"),
        "write": ("program_ns", "erase_ns", "buffer_kib"),
        "full": ("slc_full_program_ns",),
    },
    contradictions=(
        (
            "Table I: random read, 4 x 32",
            "none: random read 4 KiB, MiB/s",
            "both keep eight dies busy with random reads of 4 KiB, 128 and 97 outstanding",
        ),
    ),
)

# --- drives/foresee-emmc.toml -------------------------------------------------------------------------------
#
# Two processes have one request each outstanding, and the card serves one request at a time. So with any
# scheduler the two take turns, and a real-time request takes as long as one request of each. Rows of
# K2-split, which splits the other process's requests, are not fitted: the model has to predict them.

_PATTERNS = ("random read", "sequential read", "random write", "sequential write")
_KINDS = {"total_mib_s": ("total_throughput", "MiB/s"), "rt.p99": ("rt_p99_latency", "p99")}


def _turns(pattern: str, rt_kib: int, kib: int) -> dict[str, int]:
    return {
        "processes": 1,
        "depth": 1,
        "kib": kib,
        "rt_kib": rt_kib,
        "rt_think_ns": 0,
        "sequential": int("sequential" in pattern),
        "write_percent": 100 * int("write" in pattern),
    }


def _table_3(
    pattern: str, rt_kib: int, kib: int, figure: str, scheduler: str = "", fitted: bool = False
) -> CalibrationCell:
    metric, what = _KINDS[figure]
    name = f"Table 3, {scheduler.partition('(')[0]}" if scheduler else "Table 3"
    scheduler = scheduler or ("K2" if kib == 512 else f"K2+max_sectors_kb(max={kib}KiB)")
    return CalibrationCell(
        f"{name}: {pattern}, {rt_kib} and {kib} KiB, {what}",
        {
            "source": "Table 3",
            "scheduler": scheduler,
            "access_pattern": pattern,
            "block_size_kib": str(rt_kib),
            "metric": metric,
        },
        _turns(pattern, rt_kib, kib),
        figure,
        pattern.split()[1] if fitted else "",
    )


def _text(source: str, scheduler: str, pattern: str, kib: int, metric: str) -> CalibrationCell:
    row = {"source": source, "scheduler": scheduler, "access_pattern": pattern, "metric": metric}
    title = f"{source.rpartition(' / ')[2]}, {scheduler}: {pattern}, 64 and {kib} KiB, p99"
    return CalibrationCell(title, row, _turns(pattern, 64, kib), "rt.p99")


#: K2-split by its largest command; the paper's 14 is taken for a misprint.
_SPLIT = {4: "K2-split(max=4KiB)", 16: "K2-split(max=14KiB)", 64: "K2-split(max=64KiB)"}
_ONE_OUTSTANDING = "rt_p99_latency@bg_outstanding=1"
_FORESEE = Facts(
    paper=ROOT / "experiments" / "k2-split" / "paper.csv",
    cells=(
        *(_table_3(p, 4, kib, "total_mib_s", fitted=True) for p in _PATTERNS for kib in (4, 512)),
        # The rare long reads are fitted to the rows with short reads; the rare long writes, whose number
        # grows with the volume written, to the rows with large writes.
        *(
            _table_3(p, 4, kib, "rt.p99", fitted=kib == (4 if "read" in p else 512))
            for kib in (4, 512)
            for p in _PATTERNS
        ),
        *(_table_3(p, 64, 512, figure) for p in _PATTERNS for figure in _KINDS),
        *(
            _table_3(p, rt_kib, kib, figure, scheduler)
            for p in ("random read", "random write")
            for rt_kib in (4, 64)
            for kib, scheduler in _SPLIT.items()
            for figure in _KINDS
        ),
        _text("Section 5.1 / Figure 5a", "K2", "random read", 512, "rt_p99_latency@bg_bs=512KiB"),
        _text("Section 3.4 / Figure 3a", "none", "random read", 512, "rt_p99_latency@bg_bs=512KiB"),
        _text("Section 3.4 / Figure 3a", "none", "random read", 4, "rt_p99_latency@bg_bs=4KiB"),
        _text("Section 3.3 / Figure 2a", "none", "random read", 4, _ONE_OUTSTANDING),
        _text("Section 3.3 / Figure 2b", "none", "sequential read", 4, _ONE_OUTSTANDING),
        _text("Section 3.3 / Figure 2c", "none", "random write", 4, _ONE_OUTSTANDING),
    ),
    free={
        "read": ("read_fixed_ns", "transfer_ns", "read_rare_ns"),
        "write": ("write_fixed_ns", "write_transfer_ns", "erase_ns"),
    },
    contradictions=(
        *(
            (
                f"Table 3: {p}, 64 and 512 KiB, p99",
                f"Table 3: {p}, 64 and 512 KiB, MiB/s",
                "a real-time request waits for one of 512 KiB, so on average it takes as long as both",
            )
            for p in _PATTERNS
        ),
        (
            "Table 3: random read, 64 and 512 KiB, p99",
            "Figure 5a, K2: random read, 64 and 512 KiB, p99",
            "the same load, printed twice",
        ),
        (
            "Table 3, K2-split: random read, 64 and 4 KiB, MiB/s",
            "Table 3, K2-split: random read, 4 and 64 KiB, MiB/s",
            "commands of the same two sizes take turns",
        ),
        (
            "Figure 3a, none: random read, 64 and 4 KiB, p99",
            "Figure 2a, none: random read, 64 and 4 KiB, p99",
            "the same load, printed twice",
        ),
    ),
)

# --- drives/p3700.toml, drives/nvmf.toml --------------------------------------------------------------------
#
# The paper has, for each of the two drives, the highest rate of random reads without a scheduler, and the
# number outstanding that reaches it (its "internal parallelism"). The rate is fitted; the number decided how
# long a read takes.


def _peak(kib: int, threads: int, parallelism: int, row: Mapping[str, str]) -> Facts:
    row = {"scheduler": "nosched", "metric": "throughput_peak", **row}
    reads = f"{row['source']}: random reads, {kib} KiB"
    load = {"rt": 0, "duration_ms": 200, "kib": kib}
    return Facts(
        paper=ROOT / "experiments" / "mqfq" / "paper.csv",
        cells=(
            CalibrationCell(
                f"{reads}, {threads} x 128",
                row,
                {**load, "processes": threads, "depth": 128},
                "iops",
                "link",
            ),
            CalibrationCell(
                f"{reads}, {parallelism} outstanding",
                row,
                {**load, "processes": 1, "depth": parallelism},
                "iops",
            ),
        ),
        free={"link": ("transfer_ns",)},
        contradictions=(),
    )


_P3700 = _peak(4, 24, 64, {"source": "Section 4.2", "workload": "MQ-SSD setup"})
_NVMF = _peak(1, 32, 128, {"source": "Section 4.2 / Figure 8", "workload": "NVMf setup"})

# --- drives/980pro.toml -------------------------------------------------------------------------------------


_ROWS = ("R1", "R256", "W1", "W256", "R1-W1", "R1-W256", "R256-W1", "R256-W256")
#: Cells that are not fitted: the slow requests while the drive reads and writes at once, and the rates of
#: R256-W256, in which the drive writes a third faster than in two other rows where writes saturate it too.
_LEFT_OVER = (
    ("R1-W1", "write.p99"),
    ("R256-W1", "write.p99"),
    ("R256-W1", "read.p99"),
    ("R256-W256", "read.iops"),
    ("R256-W256", "write.iops"),
)


def _table_2(load: str, flow: str, figure: str) -> CalibrationCell:
    metric = f"{flow}_throughput" if figure == "iops" else f"{flow}_p99_latency"
    row = {"scheduler": "none", "workload": load, "access_pattern": f"random {flow}", "metric": metric}
    return CalibrationCell(
        f"Table 2: {load}, {flow}s, {'a second' if figure == 'iops' else figure}",
        {"source": f"Table 2 row {_ROWS.index(load) + 1}", **row},
        {},
        f"{flow}.{figure}",
        "" if (load, f"{flow}.{figure}") in _LEFT_OVER else "all",
        load.lower(),
    )


_PRO = Facts(
    paper=ROOT / "experiments" / "kyber" / "paper.csv",
    cells=tuple(
        _table_2(load, flow, figure)
        for load in _ROWS
        for flow in ("read", "write")
        if flow[0].upper() in load
        for figure in ("iops", "p99")
    ),
    free={
        "all": (
            "read_ns",
            "read_fixed_ns",
            "write_fixed_ns",
            "write_rare_ns",
            "program_ns",
            "drain_kib_ns",
            "stall_kib",
            "stall_ns",
        )
    },
    contradictions=(
        (
            "Table 2: R256-W256, writes, a second",
            "Table 2: W256, writes, a second",
            "the drive is saturated with writes in both, and with R1-W256 in a third",
        ),
    ),
    experiment="kyber/table2",
)

# --- drives/optane900p.toml ---------------------------------------------------------------------------------
#
# Nothing is fitted: the manufacturer's rates and the p99 of R1 decide the drive. The paper's text does not
# state its Kyber targets, nor the rate of writes of R256-W256 without a scheduler, to compare with 202 500
# writes a second.

_READS_FIRST, _EQUAL = "kyber-10us-100ms", "kyber-10us-10us"


def _optane(source: str, load: str, setting: str, words: str, flow: str, metric: str) -> CalibrationCell:
    row = {"scheduler": words, "workload": f"{load}, Intel Optane 900P", "metric": f"{flow}_{metric}"}
    figure = "iops" if metric == "throughput" else "p99"
    what = f"{flow}s, {'a second' if figure == 'iops' else figure}"
    return CalibrationCell(
        f"{source.partition(' (')[0]}: {load}, {words}: {what}",
        {"source": source, "access_pattern": f"random {flow}", **row},
        {},
        f"{flow}.{figure}",
        label=load.lower(),
        scheduler=setting,
    )


_SECTION_4, _O_7, _O_8 = "Section 4 (Optane)", "Section 5 O-7 (Optane)", "Section 5 (Optane)"
_KYBER_READS, _KYBER_EQUAL = "Kyber (reads prioritised)", "Kyber equal targets"
_OPTANE = Facts(
    paper=ROOT / "experiments" / "kyber" / "paper.csv",
    cells=(
        _optane(_SECTION_4, "R1", "none", "none", "read", "latency"),
        _optane(_O_7, "R1-W256", "none", "none", "read", "p99_latency"),
        _optane(_O_7, "R1-W256", "none", "none", "write", "throughput"),
        _optane(_O_7, "R1-W256", _READS_FIRST, _KYBER_READS, "read", "p99_latency"),
        _optane(_O_7, "R1-W256", _READS_FIRST, _KYBER_READS, "write", "throughput"),
        _optane(_O_8, "R256-W256", _READS_FIRST, _KYBER_READS, "write", "throughput"),
        _optane(_O_8, "R256-W256", _EQUAL, _KYBER_EQUAL, "read", "throughput"),
        _optane(_O_8, "R256-W256", _EQUAL, _KYBER_EQUAL, "write", "throughput"),
    ),
    free={},
    contradictions=(),
    experiment="kyber/optane",
)

#: By the drive's name.
FACTS: Mapping[str, Facts] = {
    "970evo": _EVO,
    "foresee-emmc": _FORESEE,
    "p3700": _P3700,
    "nvmf": _NVMF,
    "980pro": _PRO,
    "optane900p": _OPTANE,
}
