# SPDX-License-Identifier: GPL-2.0-only
"""K2's bounds: looking ahead beside fixed bounds, and the debt of writes."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from tailgate.spec import drive as drives
from tailgate.spec import experiment as experiments
from tailgate.spec.experiment import ModeName
from tailgate.upkeep.claims.lab import Answer, Lab, Point, us
from tailgate.upkeep.claims.quantity import Quantity, largest, smallest
from tailgate.upkeep.claims.results import Figure

#: What decides how K2 chooses its bounds: a change of these draws new held-out drives. k2.c, which asks the
#: bounds, chooses no number.
LAW = " ".join(
    ["sched/bounds", *(f"sched/{name}" for name in ("activity.h", "k2.h", "learn.c", "settings.c"))]
)
HELD_OUT = 3

Key = tuple[str, str, float]


def frontier(lab: Lab) -> Iterator[Figure]:
    """K2: bounds that look ahead beside none, the bound of 8, fixed bounds on bytes and the idle drive."""
    found = lab.run("k2/frontier", mode="claims", target="sim")
    yield from looking_ahead(found, "sim", "p99.9")
    points: dict[Key, Point] = found.by("label", "load", "rate")
    for load in ("4k-clock", "4k-poisson"):
        of_load = {key[0]: p for key, p in points.items() if key[1:] == (load, 1)}
        for name in ("p99", "p99.9"):
            start = f"frontier/sim/{load}/ahead-auto"
            yield from beside_fixed(found, start, of_load, "ahead-auto", ("rt",), name)


def frontier_in_guest(lab: Lab) -> Iterator[Figure]:
    """K2: three bounds that look ahead, in a guest."""
    some = ("none", "k2-8", "ahead-96-0-300", "ahead-96-0-200", "ahead-384-64-400")
    found = lab.run("k2/frontier", mode="quick", loads=("4k", "64k"), schedulers=some)
    yield from looking_ahead(found, "vm", "p99")


def looking_ahead(found: Answer, target: str, tail: str) -> Iterator[Figure]:
    """Three bounds that look ahead, each beside what it is to be better than; `tail` is a percentile."""
    points: dict[Key, Point] = found.by("label", "load", "rate")
    mib_s = {key: found.mib_s(p, "background") for key, p in points.items() if key[2]}
    tails = {key: us(p, "rt", tail) for key, p in points.items()}
    label, load = "ahead-96-0-300", "4k"
    start = f"frontier/{target}/{load}/{label}"
    ratio = tails[label, load, 1] / tails["none", load, 0]
    yield found.figure(f"{start}/{tail}-over-idle", ratio)
    ratio = mib_s[label, load, 1] / mib_s["none", load, 1]
    yield found.figure(f"{start}/background-over-none", ratio)
    label = "ahead-96-0-200"
    start = f"frontier/{target}/{load}/{label}"
    ratio = tails[label, load, 1] / tails["k2-8", load, 1]
    yield found.figure(f"{start}/{tail}-over-k2-8", ratio)
    ratio = mib_s[label, load, 1] / mib_s["k2-8", load, 1]
    yield found.figure(f"{start}/background-over-k2-8", ratio)
    label, load = "ahead-384-64-400", "64k"
    start = f"frontier/{target}/{load}/{label}"
    ratio = tails["none", load, 1] / tails[label, load, 1]
    yield found.figure(f"{start}/{tail}-of-none-over-its", ratio)
    ratio = mib_s[label, load, 1] / mib_s["none", load, 1]
    yield found.figure(f"{start}/background-over-none", ratio)
    ratio = us(points[label, load, 1], "rt", "p50") / us(points["k2-8", load, 1], "rt", "p50")
    yield found.figure(f"{start}/p50-over-k2-8", ratio)


def beside_fixed(
    found: Answer, start: str, points: Mapping[str, Point], ours: str, flows: Sequence[str], name: str
) -> Iterator[Figure]:
    """One bound beside the fixed bounds on bytes: at equal latency, and at equal background.

    At equal latency: its background over the most of a fixed bound that has no higher percentile for any
    real-time flow. If every fixed bound has a higher one, its background over that of 8 KiB is
    a figure that promises nothing. At equal background: the lowest percentile of a fixed bound,
    or of none, with no less background, over its own. If all have less, there is nothing to compare it with,
    and no such figure.
    """
    mib_s = {label: found.mib_s(p, "background") for label, p in points.items()}
    latency = {label: [us(p, f, name) for f in flows] for label, p in points.items()}
    fixed = [label for label in points if label.endswith("kib")]
    no_worse = [
        mib_s[label]
        for label in fixed
        if all(a.value <= b.value for a, b in zip(latency[label], latency[ours], strict=True))
    ]
    if no_worse:
        ratio = mib_s[ours] / largest(no_worse)
        yield found.figure(f"{start}/background-at-no-higher-{name}", ratio)
    else:
        yield found.figure(f"{start}/background-over-8kib-{name}", mib_s[ours] / mib_s["k2-8kib"])

    def worst(label: str) -> Quantity:
        return largest(latency[label])

    enough = [worst(label) for label in (*fixed, "none") if mib_s[label].value >= mib_s[ours].value]
    if enough:
        ratio = smallest(enough) / worst(ours)
        yield found.figure(f"{start}/{name}-at-no-less-background", ratio)


def erase_us(load: str) -> float:
    """What a read of 4 KiB takes that comes as its die begins to erase; a program comes before it as well."""
    experiment = experiments.load(experiments.find("k2/writes"))
    (changes,) = (sweep.drive for sweep in experiment.sweeps if sweep.label == load)
    ns = drives.values(drives.load(experiment.drive)[1], changes)
    read_ns = ns["read_fixed_ns"] + ns["read_ns"] + 4 * (ns["read_more_ns"] + ns["transfer_ns"])
    return (ns["erase_ns"] + ns["program_ns"] + read_ns) / 1000


def writes(lab: Lab) -> Iterator[Figure]:
    """K2: real-time reads beside writes of the background, with and without a bound on what these owe.

    With the small buffer an erase and its program are half of what the fullest buffer makes a read wait:
    the tail is that, and no host has it lower at this rate of writes.
    """
    loads = ("preconditioned-4k-100", "preconditioned-64k-100")
    large = ("preconditioned-8m-4k-100", "preconditioned-8m-64k-100")
    modes: Mapping[str, ModeName] = {"sim": "claims", "vm": "quick"}
    for target, tail, of_target in (("sim", "p99.9", loads + large), ("vm", "p99", loads)):
        run = partial(lab.run, "k2/writes", target=target, loads=of_target)
        found = run(schedulers=("k2-8", "k2-32-debt"), mode=modes[target])
        points = found.by("label", "load", "rate")
        for load in of_target:
            ours, fixed = (points[label, load, 1.0] for label in ("k2-32-debt", "k2-8"))
            start = f"writes/{target}/{load}/debt-auto"
            for name in ("p50", tail):
                ratio = us(ours, "rt", name) / us(fixed, "rt", name)
                yield found.figure(f"{start}/{name}-over-k2-8", ratio)
            if load not in large and target == "sim":
                ratio = us(ours, "rt", tail) / erase_us(load)
                yield found.figure(f"{start}/{tail}-over-erase-program-read", ratio)
            ratio = found.mib_s(ours, "background") / found.mib_s(fixed, "background")
            yield found.figure(f"{start}/background-over-k2-8", ratio)
        # a short run in the guest would judge how it finds its place
        found = run(schedulers=("auto",), mode=modes[target] if target == "sim" else "full")
        autos = found.by("load", "rate")
        for load in of_target:
            start = f"writes/{target}/{load}/auto"
            auto, idle = (autos[load, rate] for rate in (1.0, 0.0))
            yield found.figure(f"{start}/p99-over-idle", us(auto, "rt", "p99") / us(idle, "rt", "p99"))
            debt = found.mib_s(points["k2-32-debt", load, 1.0], "background")
            yield found.figure(f"{start}/background-over-debt-auto", found.mib_s(auto, "background") / debt)


#: Loads of k2/arrivals whose next request can be told from those before, and those where it cannot.
FORETOLD = ("periodic", "jitter-5", "jitter-20", "periodic-4", "jitter-5-4", "jitter-20-4")
NOT_FORETOLD = ("poisson", "bursts", "depth-4")


def arrivals(lab: Lab) -> Iterator[Figure]:
    """K2: the automatic bound beside fixed bounds on bytes and a placebo, on drives drawn later too."""
    found = lab.run("k2/arrivals", mode="claims", target="sim")
    yield from arrivals_on("970evo", (*FORETOLD, *NOT_FORETOLD), found)
    run = partial(lab.run, "k2/arrivals", mode="claims", loads=FORETOLD, target="sim")
    yield from arrivals_on("noisy", FORETOLD, run(drive="noisy"))
    for drive, path, law in lab.held_out(LAW, HELD_OUT):
        yield from arrivals_on(drive, FORETOLD, run(drive=str(path), law=law))


def arrivals_on(drive: str, loads: Sequence[str], found: Answer) -> Iterator[Figure]:
    """The figures of one drive. A fixed bound is as good if it is for each of the real-time flows."""
    points = found.by("load", "label")
    for load in loads:
        start = f"arrivals/sim/{drive}/{load}/ahead-auto"
        of_load = {label: p for (of, label), p in points.items() if of == load}
        ours = of_load["ahead-auto"]
        flows = [f["flow"] for f in ours["flows"] if f["flow"] != "background"]
        for name in ("p99", "p99.9"):
            yield from beside_fixed(found, start, of_load, "ahead-auto", flows, name)
        if load in FORETOLD:
            # both have the same target: the placebo meets it with less background, or misses it
            mib_s = [found.mib_s(of_load[label], "background") for label in ("ahead-auto", "placebo")]
            p99 = [
                largest([us(of_load[label], f, "p99") for f in flows]) for label in ("ahead-auto", "placebo")
            ]
            yield found.figure(f"{start}/gain-over-placebo", largest([mib_s[0] / mib_s[1], p99[1] / p99[0]]))


STEPS = (frontier, frontier_in_guest, writes, arrivals)
