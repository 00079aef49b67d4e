# SPDX-License-Identifier: GPL-2.0-only
"""MQFQ: shares by size, queues and weight, slowdowns, a real-time reader above the tenants; in guests too."""

from collections.abc import Iterator
from functools import partial

from tailgate.papers import agreement as agreements
from tailgate.upkeep.claims.lab import Answer, Lab, noted, us
from tailgate.upkeep.claims.quantity import Quantity, exact
from tailgate.upkeep.claims.results import Figure

Rates = dict[tuple[str, str], dict[str, Quantity]]


def rates_of(found: Answer) -> Rates:
    """MiB/s by label of scheduler and load, then by flow."""
    return {
        (p["label"], p["load"]): {f["flow"]: found.mib_s(p, f["flow"]) for f in p["flows"]}
        for p in found.points
    }


def total(rates: dict[str, Quantity]) -> Quantity:
    """All flows together."""
    first, *others = rates.values()
    for other in others:
        first = first + other
    return first


def mqfq_shares(lab: Lab) -> Iterator[Figure]:
    """MQFQ, Figure 5: flows that none serves unequally by size or number of queues, and weights."""
    for name in ("fig5", "fig5-nvmf"):
        found = lab.run(f"mqfq/{name}", mode="claims", target="sim", schedulers=("none", "mqfq"))
        rates = rates_of(found)
        start = f"mqfq-{name}/sim"
        for load, flows in (
            ("size", ("large", "small")),
            ("queues", ("wide", "narrow")),
            ("one-queue", ("others", "lone")),
        ):
            for label in ("none", "mqfq"):
                ratio = rates[label, load][flows[0]] / rates[label, load][flows[1]]
                yield found.figure(f"{start}/{load}/{label}/{flows[0]}-over-{flows[1]}", ratio)
        yield from weighted(found, start, rates)
        for load in ("size", "queues", "one-queue", "weights", "hierarchy"):
            all_of_it, none = (total(rates[label, load]) for label in ("mqfq", "none"))
            yield found.figure(f"{start}/{load}/mqfq/total-over-none", all_of_it / none)


def weighted(found: Answer, start: str, rates: Rates) -> Iterator[Figure]:
    """Throughput of flows of weight N over N times that of weight 1, alone and in a hierarchy."""
    for load, first, others in (
        ("weights", "one", (("two", 2), ("three", 3))),
        ("hierarchy", "child-one", (("child-three", 3), ("neighbour", 8))),
    ):
        for name, weight in others:
            if ("mqfq", load) in rates:
                ratio = rates["mqfq", load][name] / rates["mqfq", load][first] / weight
                yield found.figure(f"{start}/{load}/mqfq/{name}-over-{weight}-times-{first}", ratio)


def mqfq_slowdowns(lab: Lab) -> Iterator[Figure]:
    """MQFQ, Figures 6 and 7: stand-ins beside a heavy flow, how many times slower than alone."""
    for name, app, labels in (
        ("fig6", "graph-stand-in", ("none", "mqfq")),
        ("fig6-nvmf", "graph-stand-in", ("none", "mqfq")),
        ("fig7-nvmf", "store-stand-in", ("none", "mqfq", "mqfq-t4")),
    ):
        found = lab.run(f"mqfq/{name}", mode="claims", target="sim", schedulers=labels)
        rates = rates_of(found)
        start = f"mqfq-{name}/sim"
        alone = rates["none", app][app]
        for label in labels:
            slowed = alone / rates[label, "both"][app]
            yield found.figure(f"{start}/both/{label}/{app}-slowed-times", slowed)
        if ("mqfq", app) in rates:
            slowed = alone / rates["mqfq", app][app]
            yield found.figure(f"{start}/alone/mqfq/{app}-slowed-times", slowed)
        fio = rates["none", "fio"]["fio"] / rates["mqfq", "both"]["fio"]
        yield found.figure(f"{start}/both/mqfq/fio-slowed-times", fio)
        ratio = total(rates["mqfq", "both"]) / total(rates["none", "both"])
        yield found.figure(f"{start}/both/mqfq/total-over-none", ratio)
    found = lab.run("mqfq/fig7", mode="claims", target="sim", schedulers=("none", "mqfq"))
    both = rates_of(found)["mqfq", "both"]
    yield found.figure(
        "mqfq-fig7/sim/both/mqfq/store-stand-in-over-fio", both["store-stand-in"] / both["fio"]
    )


def mqfq_read_write(lab: Lab) -> Iterator[Figure]:
    """MQFQ: a reading and a writing tenant on a preconditioned drive, each slowed by the same factor."""
    labels = ("none", "mqfq-100", "mqfq-auto")
    found = lab.run("mqfq/read-write", mode="claims", target="sim", schedulers=labels)
    rates = rates_of(found)
    for load, flows in (
        ("4k", ("read-4k", "write-4k")),
        ("64k", ("read-64k", "write-64k")),
        ("small-reads", ("read-4k", "write-64k")),
        ("small-writes", ("read-64k", "write-4k")),
    ):
        for label in labels:
            start = f"mqfq-read-write/sim/{load}/{label}"
            slowed = [rates["none", name][name] / rates[label, load][name] for name in flows]
            for name, times in zip(flows, slowed, strict=True):
                yield found.figure(f"{start}/{name}-slowed-times", times)
            yield found.figure(f"{start}/slowing-of-read-over-write", slowed[0] / slowed[1])


def rt_over_fair(lab: Lab) -> Iterator[Figure]:
    """MQFQ: a real-time reader over two tenants of weights 1 and 3, beside K2 with the same bound."""
    labels = ["none", *(f"{name}-{bound}" for bound in (8, 16, 32) for name in ("k2", "mqfq"))]
    found = lab.run("mqfq/rt-over-fair", mode="claims", target="sim", schedulers=labels)
    points = found.by("label")
    p999 = {label: us(p, "rt", "p99.9") for label, p in points.items()}
    rates = {label: {f: found.mib_s(p, f) for f in ("a", "b")} for label, p in points.items()}
    for bound in (8, 16, 32):
        k2, ours = f"k2-{bound}", f"mqfq-{bound}"
        start = f"mqfq-rt/sim/{ours}"
        yield found.figure(f"{start}/p99.9-over-k2", p999[ours] / p999[k2])
        yield found.figure(f"{start}/tenants-over-k2", total(rates[ours]) / total(rates[k2]))
        yield found.figure(f"{start}/b-over-3-times-a", rates[ours]["b"] / rates[ours]["a"] / 3)
    yield found.figure("mqfq-rt/sim/mqfq-8/p99.9-of-none-over-its", p999["none"] / p999["mqfq-8"])


def rt_over_fair_in_guest(lab: Lab) -> Iterator[Figure]:
    """A real-time reader over two tenants, in a guest: MQFQ beside K2, and what bfq and io.cost do."""
    labels = ("none", "k2-8", "mqfq-8", "bfq", "bfq-rt-1000", "bfq-no-idle", "io-cost-90", "io-cost-70")
    found = lab.run("mqfq/rt-over-fair", mode="quick", schedulers=labels)
    points = found.by("label")
    p999 = {label: us(p, "rt", "p99.9") for label, p in points.items()}
    rates = {label: {f: found.mib_s(p, f) for f in ("a", "b")} for label, p in points.items()}
    ours = "mqfq-8"
    start = f"mqfq-rt/vm/{ours}"
    # What is promised needs as many requests as the interval of p99.9 does.
    longer = lab.run("mqfq/rt-over-fair", mode="claims", schedulers=("k2-8", ours))
    two = longer.by("label")
    yield longer.figure(
        f"{start}/p99.9-over-k2", us(two[ours], "rt", "p99.9") / us(two["k2-8"], "rt", "p99.9")
    )
    k2, mqfq = (total({f: longer.mib_s(two[s], f) for f in ("a", "b")}) for s in ("k2-8", ours))
    yield longer.figure(f"{start}/tenants-over-k2", mqfq / k2)
    for label in points:
        start = f"mqfq-rt/vm/{label}"
        yield found.figure(f"{start}/b-over-3-times-a", rates[label]["b"] / rates[label]["a"] / 3)
        if label != ours:
            yield found.figure(f"{start}/p99.9-over-mqfq-8", p999[label] / p999[ours])
            ratio = total(rates[label]) / total(rates[ours])
            yield found.figure(f"{start}/tenants-over-mqfq-8", ratio)


def mqfq_in_guest(lab: Lab) -> Iterator[Figure]:
    """MQFQ, Figures 5 and 6 in a guest: what flows get, and how far off the simulator's figures are."""
    compared: list[agreements.Comparison] = []
    found: dict[str, list[Answer]] = {"sim-guest": [], "vm": []}
    four = partial(lab.run, "mqfq/fig5-four")
    for run in (
        partial(four, mode="quick", loads=("size", "queues"), schedulers=("none", "mqfq")),
        # Not quick: at first the flow that begins has the drive, and children weigh as if they were alone.
        partial(four, loads=("weights",), schedulers=("mqfq",)),
        partial(four, loads=("hierarchy",), schedulers=("mqfq",)),
        partial(four, mode="quick", loads=("weights", "hierarchy"), schedulers=("none",)),
        partial(lab.run, "mqfq/fig6-guest", mode="quick"),
    ):
        simulated = run(target="sim", machine="guest-6.12")
        measured = run(target="vm")
        names = {f["flow"]: ("mib_s",) for p in measured.points for f in p["flows"]}
        compared += agreements.compare(simulated.points, measured.points, names)
        found["sim-guest"].append(simulated)
        found["vm"].append(measured)
    for target, answers in found.items():
        yield from shares_and_slowdown(target, *answers)
    both = noted(
        found["vm"][0].source,
        "tailgate run mqfq/fig5-four and mqfq/fig6-guest, --target sim --machine guest-6.12, and --target vm",
    )
    differ = exact(sum(c.verdict == "differs" for c in compared), len(compared))
    yield Figure("mqfq-agreement/vm/mib-s/flows-that-differ", differ, both)
    worst = max(compared, key=lambda c: abs(c.ratio - 1))
    yield Figure("mqfq-agreement/vm/mib-s/furthest-from-1", exact(worst.ratio, len(compared)), both)


def shares_and_slowdown(
    target: str, equal: Answer, weights: Answer, hierarchy: Answer, unfair: Answer, fig6: Answer
) -> Iterator[Figure]:
    """What flows of equal and of other weights get, Figure 5; and how much slower one is, Figure 6."""
    rates = rates_of(equal)
    start = f"mqfq-fig5-four/{target}"
    for load, flows in (("size", ("large", "small")), ("queues", ("wide", "narrow"))):
        for label in ("none", "mqfq"):
            ratio = rates[label, load][flows[0]] / rates[label, load][flows[1]]
            yield equal.figure(f"{start}/{load}/{label}/{flows[0]}-over-{flows[1]}", ratio)
        ratio = total(rates["mqfq", load]) / total(rates["none", load])
        yield equal.figure(f"{start}/{load}/mqfq/total-over-none", ratio)
    none = rates_of(unfair)
    for load, answer in (("weights", weights), ("hierarchy", hierarchy)):
        rates = rates_of(answer)
        yield from weighted(answer, start, rates)
        ratio = total(rates["mqfq", load]) / total(none["none", load])
        yield answer.figure(f"{start}/{load}/mqfq/total-over-none", ratio)
    rates, app = rates_of(fig6), "graph-stand-in"
    for label in ("none", "mqfq"):
        slowed = rates["none", app][app] / rates[label, "both"][app]
        yield fig6.figure(f"mqfq-fig6-guest/{target}/both/{label}/{app}-slowed-times", slowed)
    ratio = total(rates["mqfq", "both"]) / total(rates["none", "both"])
    yield fig6.figure(f"mqfq-fig6-guest/{target}/both/mqfq/total-over-none", ratio)


STEPS = (mqfq_shares, mqfq_slowdowns, mqfq_read_write, rt_over_fair, rt_over_fair_in_guest, mqfq_in_guest)
