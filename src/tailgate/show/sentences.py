# SPDX-License-Identifier: GPL-2.0-only
"""Sentences about a run, for the terminal's table and the report."""

from collections.abc import Sequence

from tailgate.runs.points import Point, PointFlow
from tailgate.show.words import load_words, ms
from tailgate.spec.experiment import Experiment
from tailgate.spec.plan import Run


def finding(run: Run, points: Sequence[Point]) -> str:
    """The result in a sentence: the effect of the experiment's first K2 on the tail at full load."""
    # Writes end in the drive's buffer with any scheduler, so there is no effect to state.
    if len(run.spec.sweeps) > 1 or run.spec.sweeps[0].op == "write":
        return ""
    full = {p.scheduler.label: p for p in points if p.variant is None and p.background_rate >= 1}
    ours = next((p for p in full.values() if p.scheduler.name == "k2"), None)
    none = full.get("none")
    if not ours or not none:
        return ""
    rt0, bg0, rt1, bg1 = none.rt, none.bg, ours.rt, ours.bg
    if not rt0 or not bg0 or not rt1 or not bg1:
        return ""
    text = (
        f"At full load the real-time task's p99.9 is {ms(rt1.lat_us['p99.9'])} ms under "
        f"{ours.scheduler.label} and {ms(rt0.lat_us['p99.9'])} ms under none: "
        f"{rt0.lat_us['p99.9'] / rt1.lat_us['p99.9']:.1f} times lower, at the price of "
        f"{1 - bg1.mib_s / bg0.mib_s:.0%} of the background's throughput."
    )
    if none.published and ours.published:
        theirs, own = none.published.values, ours.published.values
        text += (
            f" In the paper: {theirs['lat_us.p99.9'] / own['lat_us.p99.9']:.1f} times, "
            f"at {1 - own['mib_s'] / theirs['mib_s']:.0%}."
        )
    return text


def variant_sentences(run: Run, points: Sequence[Point]) -> list[tuple[str, str]]:
    """The effect of another machine: (title of the variant, sentence) for each of its points."""
    main = {(p.scheduler.label, p.sweep.label, p.background_rate): p for p in points if p.variant is None}
    out = []
    for p in points:
        twin = main.get((p.scheduler.label, p.sweep.label, p.background_rate))
        if p.variant is None or twin is None:
            continue
        bg, rt, bg1, rt1 = p.bg, p.rt, twin.bg, twin.rt
        if not bg or not rt or not bg1 or not rt1:
            continue
        changes = [f"{bg.mib_s:.0f} MiB/s ({bg.mib_s / bg1.mib_s - 1:+.1%})"]
        changes += [
            f"{name} {ms(rt.lat_us[name])} ms ({rt.lat_us[name] / rt1.lat_us[name] - 1:+.1%})"
            for name in ("p50", "p99", "p99.9")
        ]
        out.append(
            (
                run.spec.variants[p.variant].title,
                f"{p.scheduler.label} at {load_words(p.background_rate)} load: {', '.join(changes)}; "
                f"time dilated {p.dilation} times, n {rt.histogram.n}",
            )
        )
    return out


def where_measured(run: Run, points: Sequence[Point]) -> str:
    """Where latency is measured, here and in the paper, and by how much the two differ on the idle drive."""
    if any(p.blocked for p in points):
        return "The time of an fdatasync is fio's: from the system call to its return."
    text = (
        "Latency here is fio's clat of the synchronous task: from its system call to the call's return."
        if any(p.real_time for p in points)
        else "Latency here is fio's clat: from a request's submission to its completion."
    )
    if run.spec.paper:
        text += f" The paper's is the {run.spec.paper.latency}."
    alone = [(p.block_us, p.rt.lat_us["mean"]) for p in points if p.block_us and p.rt]
    if alone:
        gaps = [fio - block for block, fio in alone]
        low, high = min(gaps), max(gaps)
        between = f"{low:.0f}" if round(low) == round(high) else f"{low:.0f} to {high:.0f}"
        block = sum(b for b, _ in alone) / len(alone)
        whose = "in the simulator" if run.target == "sim" else "by the kernel's own iostats"
        text += (
            f" With the real-time task alone, ours is {between} us longer in the mean "
            f"({whose}, the block layer takes {block:.0f} us of it)."
        )
    return text


def machine_words(modes: set[str]) -> str:
    """Whether time was virtual, and what that means for the figures; `modes` are those of the
    measurements.
    """
    if modes == {"sim"}:
        return (
            "Simulated: the same scheduler and drive code as in the kernel's modules, in a model of "
            "processors and block layer; the same run gives the same digits on any host."
        )
    if modes == {"icount"}:
        return (
            "Virtual time: the guest's clock counts instructions (1 ns each), so the same run gives the same "
            "digits on any host; CPU costs are counts of instructions, not nanoseconds of a real CPU."
        )
    return (
        "Measured under KVM in wall time: figures vary from run to run, and are not comparable with those "
        "of virtual time."
    )


# --- the paper's figures ----------------------------------------------------------------------------------


def where_published(spec: Experiment) -> str:
    """Where the paper has the figures that are shown beside points; "" without a paper."""
    if spec.paper is None:
        return ""
    if any(sweep.row for sweep in spec.sweeps):
        return "Table I"
    if lines := [s.lines["source"] for s in spec.sweeps if s.lines]:
        return ", ".join(dict.fromkeys(lines))
    table = "Table II" if spec.paper.cells == "highest throughput" else "Table III"
    return f"{table}, at its {spec.paper.cells}"


def published_rate(p: Point) -> str:
    """The paper's throughput at this point and the ratio of ours to it, in words; "" if it has none."""
    if not p.published or not p.bg:
        return ""
    total = p.published.values.get("total_mib_s")
    if total and p.rt:
        return f"{total:.3g} ({(p.rt.mib_s + p.bg.mib_s) / total:.2f})"
    theirs = p.published.mib_s
    return f"{theirs:.0f} ({p.bg.mib_s / theirs:.2f})" if theirs else ""


def published_tail(p: Point, flow: PointFlow) -> str:
    """The paper's percentile of a flow in ms and the ratio of ours to it, in words; "" if it has none."""
    if not p.published or not p.published.tail:
        return ""
    name, us = p.published.tail
    return f"{ms(us)} ({flow.lat_us[name] / us:.2f})"


def published_kinds(points: Sequence[Point]) -> tuple[str, str]:
    """The names of the paper's throughput and latency at these points, for headings.

    The name is `paper` if the figures are those of the K2 paper: the background's throughput and the p99.9.
    """
    found = [p.published for p in points if p.published]
    rate = "paper, both" if any("total_mib_s" in p.values for p in found) else "paper"
    tails = {p.tail[0] for p in found if p.tail} - {"p99.9"}
    return rate, f"paper, {tails.pop()}" if tails else "paper"
