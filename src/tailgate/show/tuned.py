# SPDX-License-Identifier: GPL-2.0-only
"""The result of `tailgate tune`: tables and sentences for the terminal, and a page with the front."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from tailgate.show import report, rows
from tailgate.show.plain import without_frame
from tailgate.show.plots.drawing import Drawing
from tailgate.show.plots.legends import Entry, Legend
from tailgate.show.plots.panel import COLOURS, GREY, Panel, Trace
from tailgate.show.words import digits
from tailgate.tune.answer import BESIDE, Answer, Profile
from tailgate.tune.front import INDIFFERENT, NONE_COMPLETED, Candidate
from tailgate.tune.goal import REFERENCE, Quantity
from tailgate.tune.space import Setting

_COLOURS: Mapping[str, str] = {
    "kyber": "#d1495b",
    "mq-deadline": "#c9a227",
    "k2": "#3b6fd4",
    "mqfq": "#2a9d8f",
}


def heading(quantity: Quantity) -> str:
    """A quantity as a column names it, with its unit."""
    name = quantity.figure.removeprefix("lat_us.")
    if quantity.is_latency:
        return f"{quantity.flow} {name} ms"
    return f"{quantity.flow} {'k I/O/s' if quantity.figure == 'iops' else 'MiB/s'}"


def value(quantity: Quantity, number: float) -> str:
    """A value of a quantity, in the unit of its heading."""
    if math.isinf(number):
        return NONE_COMPLETED
    return digits(number if quantity.figure == "mib_s" else number / 1000)


def values(found: Answer, numbers: Sequence[float]) -> list[str]:
    """The objectives of a row."""
    return [value(q, n) for q, n in zip(found.question.quantities, numbers, strict=True)]


def knobs(setting: Setting) -> str:
    """A setting's knobs that are not at their defaults, as `inflight_max 8, split_kib 64`."""
    return ", ".join(f"{name} {value}" for name, value in setting.changed.items()) or "defaults"


def show(found: Answer, console: Console) -> None:
    """Print the front, the profiles with what they cost, and the remaining sentences."""
    table = without_frame()
    for i, name in enumerate(front_headings(found)):
        table.add_column(name, justify="left" if i < 3 else "right", overflow="fold")
    for cells in front_rows(found):
        table.add_row(*cells)
    console.print(table)
    for profile in found.profiles:
        console.print(f"[bold]{profile.name}[/]: {escape(words(found, profile))}", highlight=False)
        for line in profile.sysfs:
            console.print(f"    {escape(line)}", highlight=False, soft_wrap=True)
    for sentence in sentences(found):
        console.print(escape(sentence), highlight=False)


def words(found: Answer, profile: Profile) -> str:
    """A profile's gains and costs, and whether the target confirms them."""
    setting = profile.candidate.setting
    text = f"{setting.scheduler}, {knobs(setting)}: {profile.price}"
    if profile.confirmed_price:
        text += f"; measured in a virtual machine: {profile.confirmed_price}"
    if on_target := _limits_on_target(found, profile):
        text += f"; {on_target}"
    return text


def _limits_on_target(found: Answer, profile: Profile) -> str:
    """Whether the profile keeps all limits on the target, with the values that miss one, or all values."""
    if not profile.confirmed or not profile.confirmed_missed:
        return ""
    places = {q: i for i, q in enumerate(found.question.quantities)}
    told = []
    for keep, limit, missed in zip(
        found.question.keeps, found.confirmed_limits, profile.confirmed_missed, strict=True
    ):
        if (missed > 0) == profile.broken_on_target:
            own = value(keep.quantity, profile.confirmed[places[keep.quantity]])
            beyond = f"{missed:.1%} beyond the limit" if missed > 0 else "the limit is"
            of_limit = f"{beyond} {value(keep.quantity, limit)} ({keep})"
            told.append(f"{heading(keep.quantity)} {own}, {of_limit}")
    verb = "breaks" if profile.broken_on_target else "keeps"
    return f"in the guest the profile {verb} the limit: {'; '.join(told)}"


def front_headings(found: Answer) -> list[str]:
    """The columns of the table of the front."""
    return ["profile", "scheduler", "knobs", *map(heading, found.question.quantities), "seeds"]


def front_rows(found: Answer) -> list[list[str]]:
    """The rows of the references, then those of the front with the names of its settings."""
    names: dict[str, list[str]] = {}
    for profile in found.profiles:
        names.setdefault(profile.candidate.setting.label, []).append(profile.name)
    out = [
        ["", name, "defaults", *values(found, own.values), str(len(own.runs))]
        for name, own in found.references.items()
    ]
    for candidate in found.front:
        setting = candidate.setting
        cells = [", ".join(names.get(setting.label, [])), setting.scheduler, knobs(setting)]
        out.append([*cells, *values(found, candidate.values), str(len(candidate.runs))])
    return out


def sentences(found: Answer) -> list[str]:
    """The best setting of each scheduler, missed limits, bfq, dead regions, and the amount of simulation."""
    first, goal = found.question.quantities[0], found.question.objectives[0]
    out = []
    if not found.front:
        limits = "; ".join(
            f"{keep} is {digits(limit)}" if keep.of else str(keep)
            for keep, limit in zip(found.question.keeps, found.limits, strict=True)
        )
        out.append(f"nothing that was tried keeps what must be kept ({limits})")
    best = {name: t for name, t in found.best.items() if t}
    if len(found.best) > 1 and best:
        order = sorted(best, key=lambda name: best[name].values[0] * (1 if goal.least else -1))
        told = ", ".join(f"{name} {value(first, best[name].values[0])}" for name in order)
        without = [name for name, t in found.best.items() if not t]
        out.append(f"best {heading(first)} of each scheduler: {told}")
        out.append(_winner(found, order))
        if without:
            out.append(f"nothing that was tried of {', '.join(without)} keeps what must be kept")
    if found.beside_price:
        told = f"{BESIDE}, which is not simulated, with its defaults in the virtual machine"
        out.append(f"{told}: {found.beside_price}")
    for region in found.regions:
        told = ", ".join(
            f"{heading(q)} {value(q, v)}"
            for q, v in zip(found.question.quantities, region.values, strict=True)
        )
        out.append(f"dead region: {region.words}: {region.tried} settings, all alike ({told})")
    short = sum(t.short for t in found.tried)
    part = f", {short} of them for a short time only" if short else ""
    out.append(
        f"{len(found.tried)} settings{part}, {found.evaluations:.1f} whole simulations, "
        f"{found.simulated_s:.0f} s of simulated time"
    )
    return out


def _winner(found: Answer, order: Sequence[str]) -> str:
    """Whether one scheduler's best setting beats those of all others; `order` has the best first."""
    first, *as_good = found.best_schedulers
    if as_good:
        told = f"{', '.join(as_good)} {'is' if len(as_good) == 1 else 'are'}"
        return f"no scheduler beats all others: {told} within {INDIFFERENT:.0%} of {first}"
    if len(order) == 1:
        return f"{first} alone keeps what must be kept"
    return f"{first} beats every other scheduler; {order[1]} is next"


def write(found: Answer, title: str, about: str, facts: Sequence[tuple[str, str]], path: Path) -> None:
    """Write the page: the front as a plot, the profiles with their commands, tables."""
    front = rows.HtmlTable(
        "The front",
        [*rows.texts(*front_headings(found)[:3]), *rows.numbers(*front_headings(found)[3:])],
        [_row(cells) for cells in front_rows(found)],
    )
    lines = rows.HtmlTable(
        "What sets each profile",
        rows.texts("profile", "as root"),
        [rows.Row(p.name, [rows.TableCell(" ; ".join(p.sysfs), "note")]) for p in found.profiles],
    )
    section = report.Section(
        title,
        about,
        False,
        [("", f"{p.name}: {words(found, p)}.") for p in found.profiles],
        Drawing(_legend(found), [_panel(found)], _axes(found), large=True),
        None,
        rows.HtmlTable("", [], []),
        [
            report.PointTables(
                "", [("The front", front), ("What sets each profile", lines)], notes=sentences(found)
            )
        ],
        [report.Method("sim", [], [], facts)],
    )
    report.render(title, [section], path)


def _row(cells: Sequence[str]) -> rows.Row:
    kinds: list[rows.Kind] = ["text", "text", *[""] * (len(cells) - 3)]  # type: ignore[list-item]
    return rows.Row(cells[0], [rows.TableCell(c, k) for c, k in zip(cells[1:], kinds, strict=True)])


def _axes(found: Answer) -> tuple[str, str]:
    """The titles of the axes."""
    x, y = _places(found)
    quantities = found.question.quantities
    return heading(quantities[x]), heading(quantities[y])


def _places(found: Answer) -> tuple[int, int]:
    """The objectives at x and y. y is the first latency, or else the first; x is the first rate, or else the
    last.
    """
    quantities = found.question.quantities
    y = next((i for i, q in enumerate(quantities) if q.is_latency), 0)
    x = next((i for i, q in enumerate(quantities) if not q.is_latency and i != y), len(quantities) - 1)
    return x, y


def _legend(found: Answer) -> Legend:
    schedulers = dict.fromkeys([REFERENCE, *(t.setting.scheduler for t in found.tried)])
    dots = [Entry("dot", name, _COLOURS.get(name, GREY)) for name in schedulers]
    return Legend([*dots, Entry("open", "on the front"), Entry("x-thin", "misses what must be kept")])


def _panel(found: Answer) -> Panel:
    x, y = _places(found)
    quantities = found.question.quantities

    def trace(points: Sequence[tuple[Setting, Sequence[float]]], **marker: object) -> Trace:
        return {
            "type": "scatter",
            "mode": "markers",
            "x": [_at_axis(quantities[x], v[x]) for _, v in points],
            "y": [_at_axis(quantities[y], v[y]) for _, v in points],
            "text": [f"{s.scheduler}, {knobs(s)}" for s, _ in points],
            "hovertemplate": "%{text}<br>%{x}, %{y}<extra></extra>",
            "marker": marker,
        }

    data = []
    for scheduler in dict.fromkeys(t.setting.scheduler for t in found.tried):
        own = [t for t in found.tried if t.setting.scheduler == scheduler]
        colour = _COLOURS.get(scheduler, GREY)
        for kept, symbol in ((True, "circle"), (False, "x-thin-open")):
            points = [(t.setting, t.values) for t in own if t.kept == kept]
            data.append(trace(points, color=colour, symbol=symbol, size=7))
    line = {"mode": "lines+markers", "line": {"color": COLOURS[0], "width": 1, "shape": "hv"}}
    front = [(c.setting, c.values) for c in sorted(found.front, key=_at(x))]
    data.append(trace(front, color="rgba(0,0,0,0)", size=13, line={"width": 2, "color": COLOURS[0]}) | line)
    reference = [(own.setting, own.values) for own in found.references.values()]
    data.append(trace(reference, color=GREY, size=11, symbol="star"))
    layout = {
        "xaxis": {"fixedrange": True, "zeroline": False},
        "yaxis": {"fixedrange": True, "zeroline": False, "type": "log"},
    }
    about = "All settings that were tried, and the front"
    return Panel("What was tried, and the front", about, data, layout)


def _at_axis(quantity: Quantity, number: float) -> float | None:
    """The place of a value in the plot; None for an infinite one, which is not drawn."""
    return float(value(quantity, number)) if math.isfinite(number) else None


def _at(i: int) -> Callable[[Candidate], float]:
    return lambda candidate: candidate.values[i]
