# SPDX-License-Identifier: GPL-2.0-only
"""Measures every figure that the README and docs/ promise, and writes claims.json: `make claims`.

Hours, and resumable: experiments go on in their run directories, and each step's outcome is kept in
runs/claims under a hash of the sources, so that an interrupted run measures only what is missing.
"""

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tailgate.base.errors import UsageError
from tailgate.base.paths import ROOT
from tailgate.guest.labels import ORDINARY
from tailgate.papers import agreement as agreements
from tailgate.papers import cells
from tailgate.papers.agreement import JsonObject
from tailgate.papers.answers import published_in, read_points
from tailgate.papers.cells import Summary
from tailgate.runs.folder import read_run
from tailgate.simulator import simulation
from tailgate.simulator.simulation import Simulation
from tailgate.spec import drive as drives
from tailgate.spec import experiment as experiments
from tailgate.targets import sim
from tailgate.targets.resolve import resolve
from tailgate.upkeep.bench.instructions import has_commit

TAILGATE = Path(sys.executable).with_name("tailgate")


@dataclass(frozen=True)
class Claim:
    """One entry of claims.json. `value` is measured; `holds` says whether it keeps `bound`."""

    claim: str
    target: str
    value: float
    bound: str
    holds: bool
    command: str


def at_least(claim: str, value: float, least: float, command: str, target: str = "vm") -> Claim:
    """A claim that a value is not below a bound."""
    return Claim(claim, target, round(value, 3), f">= {least:g}", value >= least, command)


def at_most(claim: str, value: float, most: float, command: str, target: str = "vm") -> Claim:
    """A claim that a value is not above a bound."""
    return Claim(claim, target, round(value, 3), f"<= {most:g}", value <= most, command)


def about_one(claim: str, value: float, command: str, target: str = "vm", off: float = 0.05) -> Claim:
    """A claim that a ratio is 1 within 5 %, or as far off as is said."""
    bound = f"{1 - off:g} to {1 + off:g}"
    return Claim(claim, target, round(value, 3), bound, 1 - off <= value <= 1 + off, command)


def stated(claim: str, value: float, command: str, target: str = "vm") -> Claim:
    """A figure that is printed and promises nothing."""
    return Claim(claim, target, round(value, 3), "stated", True, command)


# --- experiments --------------------------------------------------------------------------------------------


def run_experiment(*arguments: str) -> dict[str, Any]:
    """The JSON object that `tailgate run` prints. UsageError if the run fails."""
    done = subprocess.run(
        [TAILGATE, "run", *arguments, "--json"], stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        raise UsageError(f"tailgate run {' '.join(arguments)} failed: see what it printed above")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def flow(point: JsonObject, name: str) -> Mapping[str, Any]:
    """A point's flow of this name."""
    found: Mapping[str, Any] = next(f for f in point["flows"] if f["flow"] == name)
    return found


def saturated(result: Mapping[str, Any], scheduler: str, smp: int = 1, **knobs: int) -> JsonObject:
    """The point of a scheduler with these knobs, without a limit on the background's rate."""
    for point in result["points"]:
        if point["scheduler"] != scheduler or point["smp"] != smp:
            continue
        if point["sweep"]["background_rate"] == 1 and all(
            point["knobs"].get(k) == v for k, v in knobs.items()
        ):
            return dict(point)
    raise UsageError(f"the run has no saturated point of {scheduler} {knobs} with {smp} CPUs")


def figure_8() -> Iterator[Claim]:
    """K2, Figure 8, saturated: none beside the paper's row, K2 with bound 8 beside none, 4 CPUs beside 1."""
    command = "tailgate run k2/fig8 --claims"
    result = run_experiment("k2/fig8", "--claims")
    none, k2 = saturated(result, "none"), saturated(result, "k2", inflight_max=8)
    none_mib_s, k2_mib_s = (flow(p, "background")["mib_s"] for p in (none, k2))
    none_us, k2_us = (flow(p, "rt")["lat_us"]["p99.9"] for p in (none, k2))
    ours_over_paper = none_mib_s / 559, none_us / 13150
    for what, ratio in zip(("background", "rt.p99.9"), ours_over_paper, strict=True):
        claim = f"k2/fig8: none, saturated, {what}: ours over the paper's"
        yield Claim(claim, "vm", round(ratio, 3), "0.85 to 1.15", 0.85 <= ratio <= 1.15, command)
    yield at_least(
        "k2/fig8: p99.9 of none over that of k2 with bound 8, saturated", none_us / k2_us, 4, command
    )
    yield at_least(
        "k2/fig8: background of k2 with bound 8 over that of none, saturated",
        k2_mib_s / none_mib_s,
        0.8,
        command,
    )
    for scheduler, knobs in (("none", {}), ("k2", {"inflight_max": 8})):
        one, four = (saturated(result, scheduler, smp, **knobs) for smp in (1, 4))
        for name, key in (("background", "mib_s"), ("rt", "p99")):
            values = [
                flow(p, name)["mib_s"] if key == "mib_s" else flow(p, name)["lat_us"][key]
                for p in (one, four)
            ]
            claim = f"k2/fig8: {scheduler}, saturated, {name}.{key}: 4 CPUs over 1"
            yield stated(claim, values[1] / values[0], command)


def scheduler_tags() -> Iterator[Claim]:
    """Few scheduler tags do not make the real-time reader wait for the background's."""
    command = "tailgate run k2/tags --full"
    result = run_experiment("k2/tags", "--full")
    p99 = {
        tags: flow(saturated(result, "k2", nr_requests=tags), "rt")["lat_us"]["p99"]
        for tags in (4, 8, 64, 1023)
    }
    for tags in (8, 64):
        claim = f"k2/tags: rt.p99 with nr_requests {tags} over that with 1023"
        yield at_most(claim, p99[tags] / p99[1023], 1.2, command)
    yield stated("k2/tags: rt.p99 with nr_requests 4 over that with 1023", p99[4] / p99[1023], command)


# --- the rest -----------------------------------------------------------------------------------------------


def bench(kind: str, *arguments: str) -> dict[str, float]:
    """Figures of `tailgate bench` of one kind, by name."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "bench.json"
        subprocess.run([TAILGATE, "bench", "--only", kind, *arguments, "--out", str(out)], check=True)
        return {entry["name"]: entry["value"] for entry in json.loads(out.read_text())}


#: Most that K2 adds to none, over what mq-deadline adds, by load and kernel. Elsewhere: as much.
ADDED = {
    "qd1.6_1": 0.22,
    "qd32.6_1": 0.22,
    "qd32_batch16.6_1": 0.6,
    "qd1.6_12": 0.8,
    "qd32.6_12": 0.8,
    "qd32_batch16.6_12": 0.6,
}


def instructions() -> Iterator[Claim]:
    """What K2 adds to none, over what mq-deadline adds; the virtual drive's own code."""
    for name, value in bench("instructions").items():
        if name == "added_over_mq-deadline.k2.qd32_bound8.6_12":
            # Not promised: K2's bound lets the drive be the limit there, and the CPU sleep (docs/k2.md).
            yield stated(name, value, "make bench")
        elif name.startswith("added_over_mq-deadline."):
            most = ADDED.get(name.removeprefix("added_over_mq-deadline.k2."), 1.0)
            yield at_most(name, value, most, "make bench")
        elif ".price." in name:
            yield stated(name, value, "make bench")
        elif "vflash_own" in name:
            yield at_most(name, value, 2500, "make bench")


#: The last commit whose k2 knew neither splitting nor a bound on bytes, and the last before all that came
#: after these. For each: what came since, and how many instructions that may cost when it is off.
BEFORE = {"527fb48": ("splitting and all that came later", 200), "201bcde": ("all but splitting", 100)}


def switched_off() -> Iterator[Claim]:
    """What is off costs nothing: k2's instructions per I/O beside those before it knew of it."""
    known = [commit for commit in BEFORE if has_commit(commit)]
    for commit in BEFORE.keys() - known:
        print(f"claims: skipped: this clone has no commit {commit}", file=sys.stderr)
    if not known:
        return
    arguments = ("--quick", *(a for commit in known for a in ("--since", commit)))
    command = f"tailgate bench --only instructions {' '.join(arguments)}"
    for name, value in bench("instructions", *arguments).items():
        if ".k2_since." in name:
            commit, _, case = name.partition(".k2_since.")[2].partition(".")
            what, most = BEFORE[commit]
            claim = f"k2, {what} off: instructions per I/O more than at {commit}: {case}"
            # Not promised where the drive is the limit: how often the CPU sleeps there varies by more.
            sleeps = "slots8" in case or "bound8" in case
            yield stated(claim, value, command) if sleeps else at_most(claim, value, most, command)


def scalability() -> Iterator[Claim]:
    """Operations a second of K2, MQFQ and a deadline-style queue: on this host, and in the model."""
    command = "tailgate bench --only scale"
    found = bench("scale")
    for name, value in found.items():
        if name.startswith("scale_model") and ".transfers." not in name:
            yield stated(name, value, command, "model")
        elif name.startswith("scale"):
            yield stated(name, value, command, "host")
    whole = "scale_model_whole"
    for cpus, other, least in ((16, "none", 0.75), (32, "mqfq_one_lock", 2)):
        ratio = found[f"{whole}.mqfq_d128.cpus{cpus}"] / found[f"{whole}.{other}.cpus{cpus}"]
        yield at_least(f"{whole}: mqfq over {other}, {cpus} CPUs", ratio, least, command, "model")


def simulator() -> Iterator[Claim]:
    """I/Os that the simulator simulates in a second on one core, and its memory."""
    command = "tailgate bench --only simulator"
    for name, value in bench("simulator").items():
        if name.startswith("sim.iops_per_core."):
            yield at_least(name, value, 2e6, command, "sim")
        else:
            yield at_most(name, value, 200, command, "sim")


def same_digits() -> Iterator[Claim]:
    """Two runs of one chunk give the same figures; where they do not, a third decides."""
    arguments = ("k2/fig8", "--quick", "--fresh", "--schedulers", "k2-8")
    runs = [run_experiment(*arguments)["points"] for _ in range(2)]
    if runs[0] != runs[1]:
        runs.append(run_experiment(*arguments)["points"])
    same = runs[-1] in runs[:-1]
    yield Claim(
        "two runs of a chunk give identical figures", "vm", float(same), ">= 1", same,
        f"tailgate run {' '.join(arguments)}",
    )  # fmt: skip


def agreement() -> Iterator[Claim]:
    """The simulator's guest beside a guest: throughput, and percentiles of background and real-time task."""
    experiment = ("model/agreement", "--claims")
    command = f"tailgate run {' '.join(experiment)} --target sim --machine guest-6.12, and --target vm"
    simulated = run_experiment(*experiment, "--target", "sim", "--machine", "guest-6.12")
    measured = run_experiment(*experiment, "--target", "vm")
    figures = {"background": ("mib_s", "p50", "p99", "p99.9"), "rt": ("p50", "p99")}
    compared = list(agreements.compare(simulated["points"], measured["points"], figures))
    for name in ("mib_s", "p50", "p99", "p99.9"):
        some = [c for c in compared if c.figure.endswith(f".{name}")]
        worst = max(some, key=lambda c: abs(c.ratio - 1))
        differ = sum(c.verdict == "differs" for c in some)
        yield at_most(
            f"model/agreement: {name}: points that differ, of {len(some)}", differ, 0, command, "sim"
        )
        unknown = sum(c.verdict == "cannot tell" for c in some)
        claim = f"model/agreement: {name}: points whose intervals are too wide to tell, of {len(some)}"
        yield at_most(claim, unknown, 0, command, "sim")
        claim = f"model/agreement: {name}: the simulator's over the guest's, where that is furthest from 1"
        yield stated(claim, worst.ratio, command, "sim")
        print(f"claims: {name}: furthest from 1: {worst}", file=sys.stderr)


def errors(folder: Path) -> dict[tuple[str, str], Summary]:
    """How far a simulated run is off the paper's cells, by the summary's title and figure."""
    run = read_run(folder)
    _, points = read_points(folder, run)
    published = published_in(folder, run.spec)
    of_run = cells.of(run.spec, [(run.target, p) for p in points], published)
    return {(s.title, s.key): s for s in cells.summaries(of_run, run.target)}


def of_table(name: str, found: Mapping[tuple[str, str], Summary]) -> Iterator[Claim]:
    """What is promised of one table: K2's random reads and mixes; and the bias of those of 64 KiB."""
    command = f"tailgate run {name} --target sim"
    for key, most in (("mib_s", 0.15), ("lat_us.p99.9", 0.25)):
        what, value = cells.QUANTITIES[key][0], found[cells.PREDICTED, key].median_size
        claim = f"{name}: {cells.PREDICTED}: {what}: median of the errors' sizes"
        yield at_most(claim, value, most, command, "sim")
    for key in ("mib_s", "lat_us.p99.9"):
        loads = [s for (title, of), s in found.items() if of == key and title != cells.PREDICTED]
        for summary in (s for s in loads if s.title.endswith(", K2")):
            claim = f"{name}: {summary.title}: {cells.QUANTITIES[key][0]}: median error"
            yield stated(claim, summary.median, command, "sim")


def tables() -> Iterator[Claim]:
    """Tables II and III on the simulator: how far off, how long it takes, the same on 1 and 2 processes."""
    seconds: dict[int, float] = {}
    points: dict[int, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, jobs in (("k2/table2", 2), ("k2/table2", 1), ("k2/table3", 2)):
            out = Path(folder) / str(jobs)
            begin = time.monotonic()
            result = run_experiment(name, "--target", "sim", "--jobs", str(jobs), "--out", str(out))
            if name == "k2/table2":
                seconds[jobs], points[jobs] = time.monotonic() - begin, result["points"]
        for name in ("k2/table2", "k2/table3"):
            (made,) = (Path(folder) / "2" / name).glob("*/results.json")
            yield from of_table(name, errors(made.parent))
    command = "tailgate run k2/table2 --target sim --jobs 2"
    yield at_most("k2/table2 on 2 processes, seconds", seconds[2], 120, command, "sim")
    same = points[1] == points[2]
    yield Claim(
        "k2/table2 on 1 and on 2 processes gives the same digits", "sim", float(same), ">= 1", same, command
    )


def splitting() -> Iterator[Claim]:
    """K2-split, Section 5.1: p99 beside one background request of 4 to 512 KiB, whole and in pieces."""
    # As the paper has it: no pause, behind USB.
    which = ("--loads", "random-read-*k", "--schedulers", "k2,k2-max-sectors-4,k2-split-4")
    for name, target, how in (
        ("k2-split/fig5", "sim", ("--target", "sim")),
        ("k2-split/section5-1", "vm", ("--target", "vm", "--quick")),
    ):
        arguments = (*which, *how)
        command = f"tailgate run {name} {shlex.join(arguments)}"
        p99: dict[str, dict[int, float]] = {"k2": {}, "max_sectors_kb": {}, "split_kib": {}}
        for point in run_experiment(name, *arguments)["points"]:
            sweep, knobs = point["sweep"], point["knobs"]
            way = "split_kib" if knobs["split_kib"] else "max_sectors_kb"
            way = way if knobs["split_kib"] or knobs["max_sectors_kb"] == 4 else "k2"
            p99[way][sweep["block_size_kib"]] = flow(point, "rt")["lat_us"]["p99"]
        split = p99["split_kib"]
        what = f"{name}: random reads, p99"
        yield at_least(f"{what}: k2 over k2 that splits", p99["k2"][512] / split[512], 3, command, target)
        yield at_least(
            f"{what}: k2 with max_sectors_kb 4 over k2 that splits",
            p99["max_sectors_kb"][512] / split[512],
            2.5,
            command,
            target,
        )
        yield at_most(
            f"{what}: k2 that splits: largest over least of the background's block sizes",
            max(split.values()) / min(split.values()),
            1.15,
            command,
            target,
        )
    yield from table_3_of_splitting()


def table_3_of_splitting() -> Iterator[Claim]:
    """K2-split, Table 3: p99 beside one background request of 512 KiB, real-time requests of 4 and 64 KiB."""
    which = ("k2-split/table3", "--schedulers", "k2,k2-split-4")
    for arguments, target in (
        ((*which, "--target", "sim"), "sim"),
        ((*which, "--loads", "random-read-rt-64k", "--target", "vm", "--quick"), "vm"),
    ):
        command = f"tailgate run {shlex.join(arguments)}"
        p99: dict[tuple[str, str, int], dict[int, float]] = {}
        for point in run_experiment(*arguments)["points"]:
            sweep = point["sweep"]
            load = sweep["access"], sweep["op"], sweep["rt_block_size_kib"]
            p99.setdefault(load, {})[point["knobs"]["split_kib"]] = flow(point, "rt")["lat_us"]["p99"]
        for (access, op, kib), by_split in p99.items():
            claim = f"k2-split/table3: {access} {op}s, real-time {kib} KiB: p99 of k2 over k2 that splits"
            yield at_least(f"{claim} ({target})", by_split[0] / by_split[4], 1.8, command, target)


def preempt_rt() -> Iterator[Claim]:
    """K2, Figure 8, saturated: K2 with bound 8 on each PREEMPT_RT kernel beside the ordinary one."""
    for label in ORDINARY:
        points = []
        for kernel in (label, f"{label}-rt"):
            result = run_experiment("k2/fig8", "--kernel", kernel, "--schedulers", "k2-8", "--quick")
            points.append(saturated(result, "k2", inflight_max=8))
        command = f"tailgate run k2/fig8 --schedulers k2-8 --quick --kernel {label}, and {label}-rt"
        rates = [flow(p, "background")["mib_s"] for p in points]
        yield stated(f"k2/fig8: k2-8, background: {label}-rt over {label}", rates[1] / rates[0], command)
        for name in ("p50", "p99"):
            us = [flow(p, "rt")["lat_us"][name] for p in points]
            yield stated(f"k2/fig8: k2-8, rt.{name}: {label}-rt over {label}", us[1] / us[0], command)


def automatic() -> Iterator[Claim]:
    """K2 with bound_when active beside always, none, and the idle drive; a target of 2 ms."""
    for target, arguments in (
        ("sim", ("--target", "sim")),
        ("vm", ("--target", "vm", "--loads", "no-pause,pauses,alone")),
    ):
        command = f"tailgate run k2-split/auto {' '.join(arguments)}"
        found: dict[tuple[str, str, float], JsonObject] = {
            (p["label"], p["load"], p["sweep"]["background_rate"]): p
            for p in run_experiment("k2-split/auto", *arguments)["points"]
        }
        p99 = {key: flow(p, "rt")["lat_us"]["p99"] for key, p in found.items() if key[1] != "alone"}
        mib_s = {key: flow(p, "background")["mib_s"] for key, p in found.items() if key[2]}
        for load, words in (("no-pause", "no pause"), ("pauses", "pauses of 2 ms")):
            ratio = p99["k2-auto-4", load, 1] / p99["k2-split-4", load, 1]
            claim = f"k2-split/auto on {target}, {words}: p99 of auto over always"
            yield at_most(claim, ratio, 1.2, command, target)
        for load, words in (("bursts", ""), ("bursts-deep", " beside 32 outstanding")):
            for label in ("k2-auto-4", "k2-split-4") if target == "sim" else ():
                claim = f"k2-split/auto on {target}, first 20 after 1 s of silence{words}: p99 in us, {label}"
                yield stated(claim, p99[label, load, 1], command, target)
        for label in ("k2-auto-4", "k2-auto-2ms"):
            ratio = mib_s[label, "alone", 1] / mib_s["none", "alone", 1]
            claim = f"k2-split/auto on {target}, nothing real-time: background of {label} over none's"
            yield at_least(claim, ratio, 0.97, command, target)
        longer_us = p99["k2-auto-2ms", "no-pause", 1] - p99["none", "no-pause", 0]
        claim = f"k2-split/auto on {target}, rt_target_us 2000: p99 in us less the idle drive's"
        yield at_most(claim, longer_us, 770, command, target)
        ratio = mib_s["k2-auto-2ms", "no-pause", 1] / mib_s["k2-split-4", "no-pause", 1]
        claim = f"k2-split/auto on {target}, rt_target_us 2000: background over always-split's"
        yield at_least(claim, ratio, 5, command, target)


def frontier() -> Iterator[Claim]:
    """K2: bounds that look ahead beside none, the bound of 8, fixed bounds on bytes and the idle drive."""
    some = "none,k2-8,ahead-96-0-300,ahead-96-0-200,ahead-384-64-400"
    for target, tail, arguments in (
        ("sim", "p99.9", ("k2/frontier", "--full", "--target", "sim")),
        ("vm", "p99", ("k2/frontier", "--quick", "--loads", "4k,64k", "--schedulers", some)),
    ):
        command = f"tailgate run {shlex.join(arguments)}"
        found: dict[tuple[str, str, float], JsonObject] = {
            (p["label"], p["load"], p["sweep"]["background_rate"]): p
            for p in run_experiment(*arguments)["points"]
        }
        mib_s = {key: float(flow(p, "background")["mib_s"]) for key, p in found.items() if key[2]}
        us = {key: flow(p, "rt")["lat_us"] for key, p in found.items()}
        label, load = "ahead-96-0-300", "4k"
        claim = f"k2/frontier on {target}, closed loop, 4 KiB, {label}"
        ratio = us[label, load, 1][tail] / us["none", load, 0][tail]
        yield at_most(f"{claim}: {tail} over the idle drive's", ratio, 1.1, command, target)
        ratio = mib_s[label, load, 1] / mib_s["none", load, 1]
        yield at_least(f"{claim}: background over none's", ratio, 0.6, command, target)
        label = "ahead-96-0-200"
        claim = f"k2/frontier on {target}, closed loop, 4 KiB, {label}"
        ratio = us[label, load, 1][tail] / us["k2-8", load, 1][tail]
        yield at_most(f"{claim}: {tail} over k2-8's", ratio, 0.5, command, target)
        ratio = mib_s[label, load, 1] / mib_s["k2-8", load, 1]
        yield at_least(f"{claim}: background over k2-8's", ratio, 1.2, command, target)
        label, load = "ahead-384-64-400", "64k"
        claim = f"k2/frontier on {target}, closed loop, 64 KiB, {label}"
        ratio = us["none", load, 1][tail] / us[label, load, 1][tail]
        yield at_least(f"{claim}: {tail} of none over its own", ratio, 12, command, target)
        ratio = mib_s[label, load, 1] / mib_s["none", load, 1]
        yield at_least(f"{claim}: background over none's", ratio, 0.8, command, target)
        ratio = us[label, load, 1]["p50"] / us["k2-8", load, 1]["p50"]
        yield at_most(f"{claim}: p50 over k2-8's", ratio, 0.5, command, target)
        if target == "sim":
            yield from frontier_by_itself(mib_s, us, command)


def frontier_by_itself(
    mib_s: Mapping[tuple[str, str, float], float],
    us: Mapping[tuple[str, str, float], Mapping[str, float]],
    command: str,
) -> Iterator[Claim]:
    """With everything auto, in an open loop: beside fixed bounds on bytes."""
    for load, arrivals, least in (
        ("4k-clock", "by the clock", 1.05),
        ("4k-poisson", "Poisson arrivals", 0.95),
    ):
        claim = f"k2/frontier on sim, open loop, {arrivals}, 4 KiB, ahead-auto"
        ours = "ahead-auto", load, 1
        for name in ("p99", "p99.9"):
            no_worse = [
                mib_s[key]
                for key, lat in us.items()
                if key[0].endswith("kib") and key[1:] == ours[1:] and lat[name] <= us[ours][name]
            ]
            what = f"the most of a fixed bound on bytes with no higher {name}"
            if not no_worse:
                what = f"that of 8 KiB, as no fixed bound on bytes has so low a {name}"
            best = max(no_worse, default=mib_s["k2-8kib", *ours[1:]])
            yield at_least(f"{claim}: background over {what}", mib_s[ours] / best, least, command, "sim")


#: Of each control the settings of k2/controls that had the lowest p99 of those with enough background.
CONTROLS = {
    "none, few tags": ("none-16",),
    "mq-deadline": ("mq-deadline-16", "mq-deadline"),
    "kyber": ("kyber-1us",),
    "bfq": ("bfq-no-idle",),
    "io.max": ("io-max-420",),
    "io.cost": ("io-cost-77", "io-cost-85"),
}


def controls() -> Iterator[Claim]:
    """What users would reach for instead of K2's bound that looks ahead: p99 at its background or more."""
    labels = ["ahead-auto", *(label for some in CONTROLS.values() for label in some)]
    arguments = ("k2/controls", "--quick", "--loads", "4k", "--schedulers", ",".join(labels))
    command = f"tailgate run {shlex.join(arguments)}"
    found = {p["label"]: p for p in run_experiment(*arguments)["points"]}
    mib_s = {label: float(flow(p, "background")["mib_s"]) for label, p in found.items()}
    p99 = {label: float(flow(p, "rt")["lat_us"]["p99"]) for label, p in found.items()}
    for control, some in CONTROLS.items():
        claim = f"k2/controls, 4 KiB, {control}"
        if enough := [label for label in some if mib_s[label] >= mib_s["ahead-auto"]]:
            best = min(p99[label] for label in enough)
            what = "lowest p99 at the background of ahead-auto or more, over that of ahead-auto"
            yield at_least(f"{claim}: {what}", best / p99["ahead-auto"], 2, command)
        else:
            most = max(mib_s[label] for label in some)
            yield at_most(
                f"{claim}: most background over that of ahead-auto", most / mib_s["ahead-auto"], 1, command
            )


def erase_us(load: str) -> float:
    """What a read of 4 KiB takes that comes as its die begins to erase; a program comes before it as well."""
    experiment = experiments.load(experiments.find("k2/writes"))
    (changes,) = (sweep.drive for sweep in experiment.sweeps if sweep.label == load)
    ns = drives.values(drives.load(experiment.drive)[1], changes)
    read_ns = ns["read_fixed_ns"] + ns["read_ns"] + 4 * (ns["read_more_ns"] + ns["transfer_ns"])
    return (ns["erase_ns"] + ns["program_ns"] + read_ns) / 1000


def writes() -> Iterator[Claim]:
    """K2: real-time reads beside writes of the background, with and without a bound on what these owe.

    With the small buffer an erase and its program are half of what the fullest buffer makes a read wait:
    the tail is that, and no host has it lower at this rate of writes.
    """
    loads = ("preconditioned-4k-100", "preconditioned-64k-100")
    large = ("preconditioned-8m-4k-100", "preconditioned-8m-64k-100")
    some = ("--schedulers", "k2-8,k2-32-debt", "--loads")
    for target, tail, arguments in (
        ("sim", "p99.9", ("k2/writes", "--claims", "--target", "sim", *some, ",".join(loads + large))),
        ("vm", "p99", ("k2/writes", "--quick", *some, ",".join(loads))),
    ):
        command = f"tailgate run {shlex.join(arguments)}"
        found: dict[tuple[str, str], JsonObject] = {
            (p["label"], p["load"]): p
            for p in run_experiment(*arguments)["points"]
            if p["sweep"]["background_rate"]
        }
        for load in dict.fromkeys(load for _, load in found):
            ours, fixed = found["k2-32-debt", load], found["k2-8", load]
            claim = f"k2/writes on {target}, {load}, debt of writes auto, over k2-8's"
            over = {
                name: flow(ours, "rt")["lat_us"][name] / flow(fixed, "rt")["lat_us"][name]
                for name in ("p50", tail)
            }
            yield at_most(f"{claim}: p50", over["p50"], 0.2, command, target)
            if load not in large:
                yield stated(f"{claim}: {tail}", over[tail], command, target)
                if target == "sim":
                    what = "p99.9 over that of an erase, a program and a read"
                    ratio = flow(ours, "rt")["lat_us"][tail] / erase_us(load)
                    yield at_most(
                        f"k2/writes on sim, {load}, debt of writes auto: {what}", ratio, 1.05, command, target
                    )
            else:
                yield at_most(f"{claim}: {tail}", over[tail], 0.5, command, target)
            ratio = flow(ours, "background")["mib_s"] / flow(fixed, "background")["mib_s"]
            yield at_least(f"{claim}: background", ratio, 0.95, command, target)


#: Loads of k2/arrivals whose next request can be told from those before, and those where it cannot.
FORETOLD = ("periodic", "jitter-5", "jitter-20", "periodic-4", "jitter-5-4", "jitter-20-4")
NOT_FORETOLD = ("poisson", "bursts", "depth-4")
UNSEEN = ("noisy", "unseen-1", "unseen-2", "unseen-3")


def arrivals() -> Iterator[Claim]:
    """K2: the bound that finds itself beside fixed bounds on bytes and a placebo, on drives it never saw."""
    yield from arrivals_on("970evo", (*FORETOLD, *NOT_FORETOLD), "k2/arrivals", "--claims")
    for drive in UNSEEN:
        which = ("--drive", drive, "--loads", ",".join(FORETOLD))
        yield from arrivals_on(drive, FORETOLD, "k2/arrivals", "--claims", *which)


def arrivals_on(drive: str, loads: Sequence[str], *arguments: str) -> Iterator[Claim]:
    """The claims of one drive. A fixed bound is as good if it is for each of the real-time flows.

    On the other drives one in a thousand meets a rare long read: there the placebo's p99.9 may be as low.
    """
    arguments = (*arguments, "--target", "sim")
    command = f"tailgate run {shlex.join(arguments)}"
    found: dict[tuple[str, str], JsonObject] = {
        (p["load"], p["label"]): p for p in run_experiment(*arguments)["points"]
    }

    def mib_s(load: str, label: str) -> float:
        return float(flow(found[load, label], "background")["mib_s"])

    def us(load: str, label: str, name: str) -> list[float]:
        """Of each real-time flow."""
        flows = found[load, label]["flows"]
        return [float(f["lat_us"][name]) for f in flows if f["flow"] != "background"]

    def worst(load: str, label: str, name: str) -> float:
        return max(us(load, label, name))

    for load in loads:
        claim = f"k2/arrivals on sim, {drive}, {load}, ahead-auto"
        fixed = [label for of, label in found if of == load and label.endswith("kib")]
        for name in ("p99", "p99.9"):
            ours = us(load, "ahead-auto", name)
            no_worse = [
                mib_s(load, label)
                for label in fixed
                if all(theirs <= own for theirs, own in zip(us(load, label, name), ours, strict=True))
            ]
            what = f"the most of a fixed bound on bytes with no higher {name}"
            if not no_worse:
                what = f"that of 8 KiB, as no fixed bound on bytes has so low a {name}"
            ratio = mib_s(load, "ahead-auto") / max(no_worse, default=mib_s(load, "k2-8kib"))
            least = 0.95 if load in NOT_FORETOLD else 1
            yield at_least(f"{claim}: background over {what}", ratio, least, command, "sim")
            if load in NOT_FORETOLD:
                continue
            over = worst(load, "ahead-auto", name) / worst(load, "placebo", name)
            if name == "p99" or drive not in UNSEEN:
                yield at_most(f"{claim}: {name} over the placebo's", over, 1, command, "sim")
            else:
                yield stated(f"{claim}: {name} over the placebo's", over, command, "sim")
        if load not in NOT_FORETOLD:
            ratio = mib_s(load, "ahead-auto") / mib_s(load, "placebo")
            yield stated(f"{claim}: background over the placebo's", ratio, command, "sim")


#: By drive, load, label: 11 % above the target. Who begins to read again submits 32 requests at once, and a
#: reader on its CPU begins late, which K2 does not see.
BEFORE_K2 = {("unseen-1", "changing", "target-300")}


def target() -> Iterator[Claim]:
    """K2: a target for real-time p99, beside a sweep of fixed bounds, on drives that it never saw."""
    schedulers = experiments.load(experiments.find("k2/target")).schedulers
    labels = ",".join(s.label for s in schedulers if not s.label.endswith("-ahead"))
    for drive in ("970evo", *UNSEEN):
        arguments = ("k2/target", "--claims", "--target", "sim", "--drive", drive, "--schedulers", labels)
        command = f"tailgate run {shlex.join(arguments)}"
        found: dict[tuple[str, str], JsonObject] = {
            (p["load"], p["label"]): p for p in run_experiment(*arguments)["points"]
        }
        mib_s = {key: float(flow(p, "background")["mib_s"]) for key, p in found.items()}
        p99_us = {key: float(flow(p, "rt1")["lat_us"]["p99"]) for key, p in found.items()}
        for load, label in found:
            if not label.startswith("target-"):
                continue
            claim = f"k2/target on sim, {drive}, {load}, {label}"
            key, target_us = (load, label), int(label.removeprefix("target-"))
            off = p99_us[key] / target_us - 1
            fixed = [k for k in found if k[0] == load and k[1].endswith("kib") and p99_us[k] <= p99_us[key]]
            share = mib_s[key] / max((mib_s[k] for k in fixed), default=mib_s[load, "k2-8kib"])
            what = "the most of a fixed bound on bytes with no higher p99"
            if not fixed:  # it may be out of reach
                yield stated(f"{claim}: p99 over the target, less 1", off, command, "sim")
                yield stated(f"{claim}: background over that of 8 KiB", share, command, "sim")
                continue
            if (drive, *key) in BEFORE_K2:
                yield stated(f"{claim}: p99 over the target, less 1", off, command, "sim")
            else:
                yield at_most(f"{claim}: p99 over the target, less 1", off, 0.1, command, "sim")
            # Where the background has no more to send there is nothing to be had for a longer latency.
            if mib_s[key] < 0.95 * mib_s[load, "none"]:
                yield at_least(f"{claim}: p99 over the target, less 1: not below", off, -0.1, command, "sim")
            yield at_least(f"{claim}: background over {what}", share, 0.9, command, "sim")
    yield from target_in_guest()


def target_in_guest() -> Iterator[Claim]:
    """Three of its points in a guest, each beside the fixed bound with about the same p99."""
    fixed, ours, target_us = "k2-40kib", "target-300", 300
    some = ("--loads", "clock,poisson,changing", "--schedulers", f"{fixed},{ours}")
    arguments = ("k2/target", "--quick", *some)
    command = f"tailgate run {shlex.join(arguments)}"
    found = {(p["load"], p["label"]): p for p in run_experiment(*arguments)["points"]}
    for load in dict.fromkeys(load for load, _ in found):
        claim = f"k2/target on vm, {load}, {ours}"
        off = flow(found[load, ours], "rt1")["lat_us"]["p99"] / target_us - 1
        yield at_most(f"{claim}: p99 over the target, less 1", off, 0.1, command)
        yield at_least(f"{claim}: p99 over the target, less 1: not below", off, -0.1, command)
        mib_s, least = (flow(found[load, label], "background")["mib_s"] for label in (ours, fixed))
        yield at_least(f"{claim}: background over that of 40 KiB", mib_s / least, 0.9, command)


def shares_of(name: str, labels: str = "none,mqfq") -> tuple[dict[tuple[str, str], dict[str, float]], str]:
    """MiB/s by label of scheduler and load, then by flow, on target sim; and the command."""
    arguments = (name, "--claims", "--target", "sim", "--schedulers", labels)
    points = run_experiment(*arguments)["points"]
    rates = {(p["label"], p["load"]): {f["flow"]: float(f["mib_s"]) for f in p["flows"]} for p in points}
    return rates, f"tailgate run {shlex.join(arguments)}"


def mqfq_shares() -> Iterator[Claim]:
    """MQFQ, Figure 5: flows that none serves unequally by size or number of queues, and weights."""
    for name in ("mqfq/fig5", "mqfq/fig5-nvmf"):
        rates, command = shares_of(name)
        for load, flows in (
            ("size", ("large", "small")),
            ("queues", ("wide", "narrow")),
            ("one-queue", ("others", "lone")),
        ):
            claim = f"{name}, {load}: {flows[0]} over {flows[1]}"
            none, ours = (
                rates[label, load][flows[0]] / rates[label, load][flows[1]] for label in ("none", "mqfq")
            )
            yield stated(f"{claim}, none", none, command, "sim")
            yield about_one(f"{claim}, mqfq", ours, command, "sim")
        by_weight = rates["mqfq", "weights"]
        for flow_name, weight in (("two", 2), ("three", 3)):
            claim = f"{name}, weights: {flow_name} over {weight} times one, mqfq"
            yield about_one(claim, by_weight[flow_name] / by_weight["one"] / weight, command, "sim")
        below = rates["mqfq", "hierarchy"]
        for flow_name, weight in (("child-three", 3), ("neighbour", 8)):
            claim = f"{name}, hierarchy: {flow_name} over {weight} times child-one, mqfq"
            yield about_one(claim, below[flow_name] / below["child-one"] / weight, command, "sim")
        for load in ("size", "queues", "one-queue", "weights", "hierarchy"):
            all_of_it, none = (sum(rates[label, load].values()) for label in ("mqfq", "none"))
            claim = f"{name}, {load}: all flows of mqfq over none's"
            yield at_least(claim, all_of_it / none, 0.95, command, "sim")


def mqfq_slowdowns() -> Iterator[Claim]:
    """MQFQ, Figures 6 and 7: stand-ins beside a heavy flow, how many times slower than alone."""
    for name, app, most, labels in (
        ("mqfq/fig6", "graph-stand-in", 1.33, "none,mqfq"),
        ("mqfq/fig6-nvmf", "graph-stand-in", 1.33, "none,mqfq"),
        ("mqfq/fig7-nvmf", "store-stand-in", 1.05, "none,mqfq,mqfq-t4"),
    ):
        rates, command = shares_of(name, labels)
        alone = rates["none", app][app]
        slowed = {key: alone / of_flow[app] for key, of_flow in rates.items() if app in of_flow}
        yield stated(f"{name}: {app}, slowed by none, times", slowed["none", "both"], command, "sim")
        yield at_most(f"{name}: {app}, slowed by mqfq, times", slowed["mqfq", "both"], most, command, "sim")
        for label, load, what in (("mqfq-t4", "both", "with T of 4 KiB"), ("mqfq", app, "alone")):
            if (label, load) in slowed:
                claim = f"{name}: {app} {what}, slowed by mqfq, times"
                yield stated(claim, slowed[label, load], command, "sim")
        fio = rates["none", "fio"]["fio"] / rates["mqfq", "both"]["fio"]
        yield stated(f"{name}: fio, slowed by mqfq, times", fio, command, "sim")
        ratio = sum(rates["mqfq", "both"].values()) / sum(rates["none", "both"].values())
        yield at_least(f"{name}: both flows of mqfq over none's", ratio, 0.95, command, "sim")
    rates, command = shares_of("mqfq/fig7")
    both = rates["mqfq", "both"]
    yield about_one(
        "mqfq/fig7: store-stand-in over fio, mqfq", both["store-stand-in"] / both["fio"], command, "sim"
    )


def mqfq_read_write() -> Iterator[Claim]:
    """MQFQ: a reading and a writing tenant on a preconditioned drive, each slowed by the same factor."""
    rates, command = shares_of("mqfq/read-write", "none,mqfq-100,mqfq-auto")
    for load, flows in (
        ("4k", ("read-4k", "write-4k")),
        ("64k", ("read-64k", "write-64k")),
        ("small-reads", ("read-4k", "write-64k")),
        ("small-writes", ("read-64k", "write-4k")),
    ):
        for label in ("none", "mqfq-100", "mqfq-auto"):
            claim = f"mqfq/read-write, {load}, {label}"
            slowed = [rates["none", name][name] / rates[label, load][name] for name in flows]
            for name, times in zip(flows, slowed, strict=True):
                yield stated(f"{claim}: {name} slowed, times", times, command, "sim")
            ratio, what = slowed[0] / slowed[1], f"{claim}: slowing of {flows[0]} over that of {flows[1]}"
            if label == "mqfq-auto":
                yield about_one(what, ratio, command, "sim", 0.1)
            else:
                yield stated(what, ratio, command, "sim")


def rt_over_fair() -> Iterator[Claim]:
    """MQFQ: a real-time reader over two tenants of weights 1 and 3, beside K2 with the same bound."""
    labels = ",".join(f"{name}-{bound}" for bound in (8, 16, 32) for name in ("k2", "mqfq"))
    arguments = ("mqfq/rt-over-fair", "--claims", "--target", "sim", "--schedulers", f"none,{labels}")
    command = f"tailgate run {shlex.join(arguments)}"
    found = {p["label"]: p for p in run_experiment(*arguments)["points"]}
    mib_s = {label: [float(flow(p, name)["mib_s"]) for name in ("a", "b")] for label, p in found.items()}
    p999 = {label: float(flow(p, "rt")["lat_us"]["p99.9"]) for label, p in found.items()}
    for bound in (8, 16, 32):
        k2, ours = f"k2-{bound}", f"mqfq-{bound}"
        claim = f"mqfq/rt-over-fair, bound {bound}"
        yield at_most(f"{claim}: p99.9 of mqfq over k2's", p999[ours] / p999[k2], 1.1, command, "sim")
        ratio = sum(mib_s[ours]) / sum(mib_s[k2])
        yield at_least(f"{claim}: tenants of mqfq over k2's", ratio, 0.99, command, "sim")
        a, b = mib_s[ours]
        yield about_one(f"{claim}: b over 3 times a, mqfq", b / a / 3, command, "sim")
    yield stated(
        "mqfq/rt-over-fair: p99.9 of none over that of mqfq-8", p999["none"] / p999["mqfq-8"], command, "sim"
    )


def mqfq_in_guest() -> Iterator[Claim]:
    """MQFQ, Figures 5 and 6 in a guest: what flows get, and how far off the simulator's figures are."""
    figures: list[agreements.Comparison] = []
    rates: dict[tuple[str, str], dict[str, float]] = {}
    for arguments in (
        ("mqfq/fig5-four", "--quick", "--loads", "size,queues", "--schedulers", "none,mqfq"),
        # At first, who begins has the drive, and children weigh as if they were alone.
        ("mqfq/fig5-four", "--loads", "weights", "--schedulers", "mqfq"),
        ("mqfq/fig5-four", "--loads", "hierarchy", "--schedulers", "mqfq"),
        ("mqfq/fig6-guest", "--quick"),
    ):
        simulated = run_experiment(*arguments, "--target", "sim", "--machine", "guest-6.12")["points"]
        measured = run_experiment(*arguments, "--target", "vm")["points"]
        rates |= {
            (p["label"], p["load"]): {f["flow"]: float(f["mib_s"]) for f in p["flows"]} for p in measured
        }
        names = {f["flow"]: ("mib_s",) for p in measured for f in p["flows"]}
        figures += agreements.compare(simulated, measured, names)
    command = (
        "tailgate run mqfq/fig5-four and mqfq/fig6-guest, --target sim --machine guest-6.12, and --target vm"
    )
    for load, flows in (("size", ("large", "small")), ("queues", ("wide", "narrow"))):
        for label in ("none", "mqfq"):
            ratio = rates[label, load][flows[0]] / rates[label, load][flows[1]]
            claim = f"mqfq/fig5-four, {load}: {flows[0]} over {flows[1]}, {label}"
            yield (about_one if label == "mqfq" else stated)(claim, ratio, command)
    for load, first, others in (
        ("weights", "one", (("two", 2), ("three", 3))),
        ("hierarchy", "child-one", (("child-three", 3), ("neighbour", 8))),
    ):
        for name, weight in others:
            ratio = rates["mqfq", load][name] / rates["mqfq", load][first] / weight
            yield about_one(
                f"mqfq/fig5-four, {load}: {name} over {weight} times {first}, mqfq", ratio, command
            )
    app = "graph-stand-in"
    for label in ("none", "mqfq"):
        slowed = rates["none", app][app] / rates[label, "both"][app]
        yield stated(f"mqfq/fig6-guest: {app}, slowed by {label}, times", slowed, command)
    differ = sum(not c.agrees for c in figures)
    claim = f"mqfq in a guest: throughput of flows that differs, of {len(figures)}"
    yield at_most(claim, differ, 0, command, "sim")
    worst = max(figures, key=lambda c: abs(c.ratio - 1))
    claim = "mqfq in a guest: throughput, the simulator's over the guest's, where that is furthest from 1"
    yield stated(claim, worst.ratio, command, "sim")
    print(f"claims: throughput: furthest from 1: {worst}", file=sys.stderr)


def rt_over_fair_in_guest() -> Iterator[Claim]:
    """A real-time reader over two tenants, in a guest: MQFQ beside K2, and what bfq and io.cost do."""
    labels = "none,k2-8,mqfq-8,bfq,bfq-rt-1000,bfq-no-idle,io-cost-90,io-cost-70"
    arguments = ("mqfq/rt-over-fair", "--quick", "--schedulers", labels)
    command = f"tailgate run {shlex.join(arguments)}"
    found = {p["label"]: p for p in run_experiment(*arguments)["points"]}
    mib_s = {label: [float(flow(p, name)["mib_s"]) for name in ("a", "b")] for label, p in found.items()}
    p999 = {label: float(flow(p, "rt")["lat_us"]["p99.9"]) for label, p in found.items()}
    claim = "mqfq/rt-over-fair in a guest"
    yield at_most(f"{claim}: p99.9 of mqfq over k2's", p999["mqfq-8"] / p999["k2-8"], 1.1, command)
    ratio = sum(mib_s["mqfq-8"]) / sum(mib_s["k2-8"])
    yield at_least(f"{claim}: tenants of mqfq over k2's", ratio, 0.99, command)
    for label in found:
        a, b = mib_s[label]
        if label == "mqfq-8":
            yield about_one(f"{claim}: b over 3 times a, mqfq", b / a / 3, command)
            continue
        yield stated(f"{claim}, {label}: p99.9 over that of mqfq-8", p999[label] / p999["mqfq-8"], command)
        yield stated(f"{claim}, {label}: b over 3 times a", b / a / 3, command)
        yield stated(
            f"{claim}, {label}: tenants over those of mqfq-8", (a + b) / sum(mib_s["mqfq-8"]), command
        )


#: Drives for what finds itself: one that it was made with, two drawn by chance, two of the MQFQ paper.
AUTO_DRIVES = ("970evo", "unseen-1", "unseen-2", "p3700", "nvmf")


def told_auto(drive: str, duration_s: float) -> dict[str, Simulation]:
    """What `tailgate run mqfq/auto --target sim` simulates on a drive, by label of the scheduler."""
    path = experiments.find("mqfq/auto")
    run = resolve(path, "full", None, (1,), "sim", drive=drive)
    run = replace(run, mode=run.mode.model_copy(update={"duration_s": duration_s}))
    its = sim.SimTarget(run, path, str(run.spec.machine.simulated))
    return {point.chunk.scheduler.label: its.plan.simulation(point) for point in its.points}


def auto_mib_s(told: Simulation, **knobs: int) -> float:
    """All flows together, with some knobs set otherwise."""
    outcome = simulation.simulate(replace(told, knobs={**told.knobs, **knobs}))
    return sum(d.bytes * outcome.rate(name) for name, (_, ds) in outcome.flows.items() for d in ds) / 2**20


def least_d(told: Simulation, share: float, most: int = 512) -> int:
    """The smallest D with this share of what the largest brings, by bisection: throughput grows with D."""
    enough, too_few = most, 0
    wanted = share * auto_mib_s(told, d=most)
    while enough - too_few > 1:
        d = (enough + too_few) // 2
        enough, too_few = (d, too_few) if auto_mib_s(told, d=d) >= wanted else (enough, d)
    return enough


def mqfq_auto() -> Iterator[Claim]:
    """MQFQ: where `d` auto ends, beside the smallest D with 97 % of the peak; what `t_kib` auto costs."""
    command = "tailgate claims mqfq_auto"
    for drive in AUTO_DRIVES:
        short = told_auto(drive, 3)
        least = least_d(short["mqfq"], 0.97)
        yield stated(f"mqfq/auto, {drive}: the smallest D with 97 % of the peak", least, command, "sim")
        # The first search has ended; so has a later one.
        for seconds in (20, 45):
            found = simulation.simulate(told_auto(drive, seconds)["mqfq-auto-d"]).found["d"]
            claim = f"mqfq/auto, {drive}: D that auto has found after {seconds} s, over that"
            yield at_most(claim, found / least, 1.25, command, "sim")
            yield at_least(f"{claim}: not below", found / least, 0.75, command, "sim")
        long = told_auto(drive, 20)
        none = auto_mib_s(long["none"])
        for label, what in (("mqfq-auto-t", "t_kib auto, d 256"), ("mqfq-auto", "both auto")):
            ratio = auto_mib_s(long[label]) / none
            yield at_least(
                f"mqfq/auto, {drive}: {what}: throughput over none's, the first 20 s",
                ratio,
                0.95,
                command,
                "sim",
            )


def inversion() -> Iterator[Claim]:
    """File systems beside a real-time reader that saturates the drive: how long a task is blocked at most."""
    arguments = ("k2/inversion", "--quick", "--schedulers", "k2-8,k2-8-floor")
    command = f"tailgate run {' '.join(arguments)}"
    for point in run_experiment(*arguments)["points"]:
        floor = point["knobs"]["be_floor_iops"]
        blocked_s, file_system = point["blocked"]["us"] / 1e6, point["sweep"]["file_system"]
        with_floor = f"k2-8 {'with' if floor else 'without'} floor"
        claim = f"k2/inversion: longest time a task was blocked, seconds, {with_floor}, {file_system}"
        yield at_most(claim, blocked_s, 1, command) if floor else stated(claim, blocked_s, command)


def demo() -> Iterator[Claim]:
    """`make demo` in a new clone with an empty cache, and again: seconds, and the same digits."""
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "tailgate"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        environment = os.environ | {"TAILGATE_CACHE": str(Path(folder) / "cache")}
        seconds, points = [], []
        for _ in range(2):
            begin = time.monotonic()
            subprocess.run(["make", "demo"], cwd=clone, env=environment, check=True)
            seconds.append(time.monotonic() - begin)
            # A digest names the run; beside it lies what it replaced, under a name with a dot.
            (made,) = (f for f in (clone / "runs/k2/fig8").glob("*/results.json") if "." not in f.parent.name)
            points.append(json.loads(made.read_text())["points"])
    yield at_most("make demo in a new clone with an empty cache, seconds", seconds[0], 300, "make demo")
    yield at_most("make demo repeated, seconds", seconds[1], 90, "make demo")
    same = points[0] == points[1]
    yield Claim("make demo repeated gives the same digits", "vm", float(same), ">= 1", same, "make demo")


STEPS: tuple[Callable[[], Iterator[Claim]], ...] = (
    figure_8,
    scheduler_tags,
    instructions,
    switched_off,
    scalability,
    simulator,
    same_digits,
    agreement,
    tables,
    splitting,
    automatic,
    frontier,
    controls,
    writes,
    target,
    arrivals,
    preempt_rt,
    mqfq_shares,
    mqfq_slowdowns,
    mqfq_auto,
    mqfq_read_write,
    rt_over_fair,
    rt_over_fair_in_guest,
    mqfq_in_guest,
    inversion,
    demo,
)


def sources_key() -> str:
    """Names what is measured: a hash of every source that can change a figure."""
    digest = hashlib.sha256()
    for folder in ("sched", "flash", "kernel", "sim", "machines", "drives", "experiments", "src"):
        for file in sorted((ROOT / folder).rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts and file.name != Path(__file__).name:
                digest.update(str(file.relative_to(ROOT)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:12]


def replaced(recorded: Sequence[Claim], measured: Sequence[Claim]) -> list[Claim]:
    """What was recorded, with the claims that were measured in their places, and new ones at the end.

    What the same commands led to before, and do not now, is gone.
    """
    new = {c.claim: c for c in measured}
    commands = {c.command for c in measured}
    left = [c for c in recorded if c.claim in new or c.command not in commands]
    return [new.pop(c.claim, c) for c in left] + list(new.values())


def main(chosen: Sequence[str], fresh: bool) -> bool:
    """Measure these steps (none named: all) if they are not kept, or if `fresh`. Whether all claims hold."""
    names = {step.__name__: step for step in STEPS}
    for name in chosen:
        if name not in names:
            raise UsageError(f"there is no step {name}; expected one of {', '.join(names)}")
    kept = ROOT / "runs" / "claims" / sources_key()
    if fresh:
        shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True, exist_ok=True)
    for i, (name, step) in enumerate(names.items(), 1):
        file = kept / f"{name}.json"
        if file.is_file() or (chosen and name not in chosen):
            continue
        print(f"claims: {i} of {len(names)}: {str(step.__doc__).partition(chr(10))[0]}", file=sys.stderr)
        file.write_text(json.dumps([asdict(c) for c in step()]) + "\n")
    measured = [
        Claim(**entry)
        for name in names
        if (kept / f"{name}.json").is_file()
        for entry in json.loads((kept / f"{name}.json").read_text())
    ]
    record = ROOT / "claims.json"
    recorded = [Claim(**entry) for entry in json.loads(record.read_text())] if record.is_file() else []
    claims = replaced(recorded, measured) if chosen else measured
    record.write_text(json.dumps([asdict(c) for c in claims], indent=1) + "\n")
    for c in claims:
        print(
            f"{'holds' if c.holds else 'FAILS':6} {c.value:>10g}  {c.bound:>14}  {c.claim}", file=sys.stderr
        )
    return all(c.holds for c in claims)
