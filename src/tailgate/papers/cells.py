# SPDX-License-Identifier: GPL-2.0-only
"""The paper's cells beside ours: the figure that each target measured for a cell, and its error.

A cell is one published figure: the throughput or the latency of a scheduler under a load. The error is
signed: our figure over the paper's, minus one.
"""

import math
import re
import statistics
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tailgate.base.errors import UsageError
from tailgate.papers.answers import read_points
from tailgate.runs.folder import read_run
from tailgate.runs.points import Point
from tailgate.spec import paper
from tailgate.spec.experiment import Experiment
from tailgate.spec.plan import Run
from tailgate.spec.scheduler import Scheduler
from tailgate.spec.sweep import Sweep

#: By key of a figure, its name in tables and the error above which it is marked.
QUANTITIES: Mapping[str, tuple[str, float]] = {
    "mib_s": ("MiB/s", 0.15),
    "total_mib_s": ("MiB/s in all", 0.15),
    "iops": ("IOPS", 0.15),
    "lat_us.p99": ("p99", 0.25),
    "lat_us.p99.9": ("p99.9", 0.25),
    "read.iops": ("reads/s", 0.15),
    "read.lat_us.p99": ("p99 reads", 0.25),
    "write.iops": ("writes/s", 0.15),
    "write.lat_us.p99": ("p99 writes", 0.25),
}
#: Changes in today's schedulers, since the paper, that change the measured figures.
CHANGED_SINCE: Mapping[str, str] = {
    "mq-deadline": "mq-deadline serves no lower class while a real-time request is in the drive, and so its "
    "background is slower than the paper's, whose kernel (4.15) had no classes in it."
}

#: Title of the cells by which the model is judged: predictions, under loads where the paper's K2 matters.
PREDICTED = "all random reads, and reads and writes, K2"


@dataclass(frozen=True)
class PaperCell:
    """One figure of the paper, and our figure by target in `ours`. The key gives the unit."""

    sweep: Sweep
    scheduler: Scheduler
    source: str
    key: str
    paper: float
    rounding: float
    ours: Mapping[str, float]
    #: For `total_mib_s` only, by target: the throughput of the real-time flow, and of the background.
    apart: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def error(self, target: str) -> float | None:
        """Our figure over the paper's, minus one; None if the target has no figure."""
        value = self.ours.get(target)
        return None if value is None else value / self.paper - 1

    def off(self, target: str) -> bool:
        """Whether the error is above the limit in QUANTITIES, after allowing for the paper's rounding."""
        value = self.ours.get(target)
        if value is None:
            return False
        nearest = min(max(value, self.paper - self.rounding), self.paper + self.rounding)
        return abs(value / nearest - 1) > QUANTITIES[self.key][1]


def of(
    spec: Experiment,
    points: Iterable[tuple[str, Point]],
    published: Mapping[str | None, Sequence[paper.Published]],
) -> list[PaperCell]:
    """Every published figure of an experiment's schedulers and loads, in the order of its file; none without
    a paper.

    `points` are (target, point) of all its runs; `published` is by the load's label.
    """
    answers: dict[tuple[str | None, str], dict[str, Point]] = {}
    for target, p in points:
        if p.published and p.variant is None:
            answers.setdefault((p.sweep.label, p.scheduler.label), {})[target] = p
    out: list[PaperCell] = []
    if spec.paper is None:
        return out
    for sweep in spec.sweeps:
        for scheduler in spec.schedulers:
            if sweep.schedulers and scheduler.label not in sweep.schedulers:
                continue
            cell = paper.cell(published[sweep.label], scheduler.papers, spec.paper.cells)
            if cell is None:
                continue
            here = answers.get((sweep.label, scheduler.label), {})
            for key, value in cell.values.items():
                ours = {t: v for t, p in here.items() if not math.isnan(v := figure(p, key))}
                apart = {t: (p.rt.mib_s, p.bg.mib_s) for t, p in here.items() if p.rt and p.bg}
                apart = apart if key == "total_mib_s" else {}
                out.append(
                    PaperCell(sweep, scheduler, cell.source, key, value, cell.rounding[key], ours, apart)
                )
    return out


def lines(cells: Iterable[PaperCell]) -> list[tuple[str, str, dict[str, PaperCell]]]:
    """Groups cells by load and scheduler: (the load in words, scheduler, cells by key).

    The load's label takes the place of its words where several loads have the same words.
    """
    groups: dict[tuple[str | None, str], list[PaperCell]] = {}
    for c in cells:
        groups.setdefault((c.sweep.label, c.scheduler.label), []).append(c)
    sweeps = {g[0].sweep.label: g[0].sweep.words for g in groups.values()}
    shared = {words for words, n in Counter(sweeps.values()).items() if n > 1}
    words = {label: label or w if w in shared else w for label, w in sweeps.items()}
    return [(words[label], scheduler, {c.key: c for c in g}) for (label, scheduler), g in groups.items()]


def changed(schedulers: Iterable[str]) -> list[str]:
    """Why some of these schedulers cannot be compared with the paper's, a sentence each."""
    return [CHANGED_SINCE[name] for name in dict.fromkeys(schedulers) if name in CHANGED_SINCE]


def figure(point: Point, key: str) -> float:
    """A point's figure by its key in QUANTITIES; NaN if it has none."""
    if key.startswith("lat_us."):
        return point.rt.lat_us[key.removeprefix("lat_us.")] if point.rt else math.nan
    name, dot, of_flow = key.partition(".")
    if dot:
        flow = point.flow(name)
        if flow is None:
            return math.nan
        return flow.iops if of_flow == "iops" else flow.lat_us[of_flow.removeprefix("lat_us.")]
    if point.bg is None or (key == "total_mib_s" and point.rt is None):
        return math.nan
    if key == "total_mib_s" and point.rt:
        return point.rt.mib_s + point.bg.mib_s
    return point.bg.mib_s if key == "mib_s" else point.bg.iops


def is_latency(key: str) -> bool:
    """Whether a key of QUANTITIES names a latency; tables print it in ms."""
    return "lat_us." in key


def show(key: str, value: float | None) -> str:
    """A figure as tables print it: MiB/s, thousands of I/O a second, or milliseconds."""
    if value is None or math.isnan(value):
        return "–"
    if is_latency(key):
        return f"{value / 1000:.3g}" if value < 100_000 else f"{value / 1000:.0f}"
    if key == "total_mib_s":
        return f"{value:.3g}"
    return f"{value:.0f}" if key == "mib_s" or value < 1000 else f"{value / 1000:.3g} k"


@dataclass(frozen=True)
class Summary:
    """The errors of several cells: median of the signed errors, median of their sizes, and the largest."""

    title: str
    key: str
    count: int
    median: float
    median_size: float
    worst: float
    off: int


def summaries(cells: Sequence[PaperCell], target: str) -> list[Summary]:
    """The errors of a target by load and over all loads. K2's, which are predictions, also apart."""
    groups: dict[tuple[str, str], list[PaperCell]] = {}
    for c in cells:
        for title in (c.sweep.words, "all loads"):
            groups.setdefault((title, c.key), []).append(c)
            if c.scheduler.name == "k2":
                groups.setdefault((f"{title}, K2", c.key), []).append(c)
        if c.scheduler.name == "k2" and c.sweep.access == "random" and c.sweep.op != "write":
            groups.setdefault((PREDICTED, c.key), []).append(c)
    if len({c.sweep.words for c in cells}) == 1:
        groups = {(t, key): g for (t, key), g in groups.items() if not t.startswith("all ")}
    # "all loads" comes last; within a load, throughput comes before latency.
    titles = sorted(dict.fromkeys(title for title, _ in groups), key=lambda t: t.startswith("all "))
    made = [
        _summary(title, key, groups[title, key], target)
        for title in titles
        for key in QUANTITIES
        if (title, key) in groups
    ]
    return [s for s in made if s]


def _summary(title: str, key: str, cells: Sequence[PaperCell], target: str) -> Summary | None:
    errors = [e for c in cells if (e := c.error(target)) is not None]
    if not errors:
        return None
    return Summary(
        title,
        key,
        len(errors),
        statistics.median(errors),
        statistics.median(abs(e) for e in errors),
        max(errors, key=abs),
        sum(c.off(target) for c in cells),
    )


# --- runs beside each other ---------------------------------------------------------------------------------


def beside(folder: Path, run: Run, there: Collection[str] = ()) -> list[tuple[Run, list[Point]]]:
    """Points of schedulers that a simulated run lacks, taken from complete runs of the target vm beside it.

    Schedulers with a label in `there` are not looked for. A scheduler is taken from the newest run that has
    it, under that run's loads, and never from a run in mode `quick`. Drive, queue, scheduler and load must be
    equal.
    """
    known = {*there, *(s.label for s in run.schedulers)}
    lacking = [s for s in run.spec.schedulers if s.label not in known]
    if run.target != "sim" or not lacking:
        return []
    found: list[tuple[Run, list[Point]]] = []
    candidates = [p for p in folder.parent.iterdir() if p != folder and "." not in p.name]
    candidates = [p for p in candidates if (p / "results.json").is_file()]
    for other in sorted(candidates, key=lambda p: (p / "results.json").stat().st_mtime, reverse=True):
        try:
            theirs = read_run(other)
        except UsageError:  # a run of another version of the lab
            continue
        same = (theirs.spec.drive, theirs.spec.queue) == (run.spec.drive, run.spec.queue)
        has = tuple(s for s in theirs.schedulers if s in lacking)
        if theirs.target != "vm" or theirs.mode_name == "quick" or not same or not has:
            continue
        _, points = read_points(other, theirs)
        points = [p for p in points if p.scheduler in has and p.sweep in run.spec.sweeps]
        has = tuple(s for s in has if any(p.scheduler == s for p in points))
        if has:
            found.append((replace(theirs, schedulers=has), points))
            lacking = [s for s in lacking if s not in has]
    return found


def missing(spec: Experiment, name: str, runs: Iterable[Run]) -> str:
    """The command that measures the schedulers that no run has; "" if none is missing."""
    there = {s.label for run in runs for s in run.schedulers}
    lacking = [s.label for s in spec.schedulers if s.label not in there]
    return f"tailgate run {name} --target vm --schedulers {','.join(lacking)}" if lacking else ""


# --- statements in the paper's text ------------------------------------------------------------------------


def stated(folder: Path, spec: Experiment) -> list[paper.Row]:
    """The rows of the paper's file in a run's folder that state something of the experiment's figure."""
    if spec.paper is None:
        return []
    # "5" also matches 5a to 5d, but not 51.
    figure = re.compile(rf"{re.escape(spec.paper.figure)}(?![0-9])")
    rows = paper.read(folder / "sources" / Path(spec.paper.file).name)
    return [row for row in rows if " / " in row["source"] and figure.search(row["source"])]


def answer(fact: paper.Row, spec: Experiment, points: Sequence[Point]) -> str:
    """The figure of our points that a stated fact is about, in words; "" if there is none."""
    value = next((take for pattern, take in _ANSWERS if re.fullmatch(pattern, fact["metric"])), None)
    if value is None:
        return ""
    about = [p for p in points if p.variant is None and _is_about(fact, p)]
    # Where the figure also shows other drives and mixes, only points of the usual ones are compared.
    about = [p for p in about if p.sweep.in_tables] or about
    groups: dict[tuple[str | None, str], list[Point]] = {}
    for p in about:
        groups.setdefault((p.sweep.label, p.scheduler.label), []).append(p)
    found = [v for group in groups.values() if (v := value(group)) is not None]
    if not found:
        return ""
    scale, unit = (1000.0, "ms") if "latency" in fact["metric"] else (1.0, "MiB/s")
    low, high = (f"{v / scale:.3g}" if scale > 1 else f"{v:.0f}" for v in (min(found), max(found)))
    return f"{low} {unit}" if low == high else f"{low} to {high} {unit}"


def _is_about(fact: paper.Row, p: Point) -> bool:
    if "@" in fact["metric"]:
        return fact["scheduler"] in p.scheduler.papers and bool(
            p.sweep.lines and all(fact.get(k) == v for k, v in p.sweep.lines.items())
        )
    op = {"read": "read", "write": "write", "readwrite": "read/write", "trim": "trim"}[p.sweep.op]
    pattern, size, who = fact["access_pattern"], fact["block_size_kib"], fact["scheduler"]
    return (
        (pattern in (f"{p.sweep.access} {op}", "") or pattern.startswith("all of"))
        and size in (str(p.sweep.block_size_kib), "")
        and (who.startswith(("all", "K2 ")) or who in (*p.scheduler.papers, ""))
    )


def _rates(group: Sequence[Point]) -> list[float]:
    return [p.bg.mib_s for p in group if p.bg]


def _tails(group: Sequence[Point], key: str = "p99.9") -> list[float]:
    return [p.rt.lat_us[key] for p in group if p.rt and p.background_rate]


def _least_loaded(group: Sequence[Point]) -> float | None:
    loaded = sorted((p for p in group if p.background_rate), key=lambda p: p.background_rate)
    return next(iter(_tails(loaded)), None)


#: By pattern of the metric, the function that computes our figure for a stated fact.
_ANSWERS: Sequence[tuple[str, Callable[[Sequence[Point]], float | None]]] = (
    (r"max_bg_throughput|saturation_throughput|bg_throughput", lambda g: max(_rates(g), default=None)),
    (r"bg_throughput_overload|bg_throughput_after_drop", lambda g: next(reversed(_rates(g)), None)),
    (r"rt_latency_low_load_max", _least_loaded),
    (r"rt_p99_latency@.*", lambda g: max(_tails(g, "p99"), default=None)),
    (r"rt_median_latency_m(ax|in)", lambda g: min(_tails(g, "p50"), default=None)),
    (
        r"(max_)?rt_(p99\.9_)?latency(_max|_at_saturation)?",
        lambda g: max(_tails(g), default=None),
    ),
)
