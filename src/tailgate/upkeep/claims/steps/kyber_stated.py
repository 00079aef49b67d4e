# SPDX-License-Identifier: GPL-2.0-only
"""Every cell of Kyber that its paper states in numbers: ours over the paper's, and the medians of these."""

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from tailgate.upkeep.claims import results
from tailgate.upkeep.claims.lab import Answer, Lab, Point, noted, us
from tailgate.upkeep.claims.quantity import Quantity, exact, largest, smallest
from tailgate.upkeep.claims.results import Figure, Source
from tailgate.upkeep.claims.steps.kyber import (
    CORNERS,
    DEAD_READ,
    DEAD_WRITE,
    READ_LEAST,
    READS_FIRST,
    WRITE_LEAST,
    WRITES_FIRST,
    Cell,
    label,
)

#: How the ids of these figures begin.
START = "kyber/stated"

#: Does a number speak of this point?
Of = Callable[[Point], bool]
#: Which one of several it is: the largest or the smallest.
End = Callable[[Sequence[Quantity]], Quantity]


@dataclass(frozen=True)
class Stated:
    """A number of the text: of several cells of a load the end `cells`, of several loads the end `loads`.

    `what` names it in an id; `figure` is "iops" in thousands a second or "p99" in us, and so is `value`. In a
    run of one load, points have none.
    """

    what: str
    of_loads: tuple[str, ...]
    of: Of
    flow: str
    figure: str
    value: float
    cells: End = largest
    loads: End = largest

    def ours(self, answer: Answer) -> Quantity:
        """The same of what was measured here."""
        found = [
            self.cells(
                [self._figure(answer, p) for p in answer.points if p["load"] in (None, load) and self.of(p)]
            )
            for load in self.of_loads
        ]
        return self.loads(found)

    def _figure(self, answer: Answer, point: Point) -> Quantity:
        if self.figure == "iops":
            return answer.iops(point, self.flow)
        return us(point, self.flow, self.figure)


def cell(load: str, name: str, flow: str, figure: str, value: float) -> Stated:
    """A number of one cell, by its label."""
    what = f"{load}-{name.removeprefix('kyber-')}"
    return Stated(what, (load,), labelled(name), flow, figure, value)


def labelled(*names: str) -> Of:
    """The cells with these labels."""
    return lambda point: point["label"] in names


def corners(*but: Cell) -> Of:
    """The corners of the grid, without some."""
    return labelled(*(label(c) for c in CORNERS if c not in but))


def with_kyber(point: Point) -> bool:
    """Any cell of a grid."""
    return bool(point["scheduler"] == "kyber")


def is_dead(point: Point) -> bool:
    """A cell of those that the text says are all alike."""
    if not with_kyber(point):
        return False
    knobs = point["knobs"]
    return bool(knobs["read_lat_nsec"] < DEAD_READ and knobs["write_lat_nsec"] < DEAD_WRITE)


FIRST, LAST, EQUAL = label(READS_FIRST), label(WRITES_FIRST), label((READ_LEAST, WRITE_LEAST))

#: Section 5, Figures 2 and 3: the 980 PRO without a file system.
GRIDS = (
    Stated("r1-w1-lowest", ("r1-w1",), with_kyber, "read", "p99", 1_300, cells=smallest),
    Stated("r1-w1-highest", ("r1-w1",), with_kyber, "read", "p99", 1_600),
    Stated("r1-w1-lowest", ("r1-w1",), with_kyber, "write", "p99", 23.4, cells=smallest),
    Stated("r1-w1-highest", ("r1-w1",), with_kyber, "write", "p99", 27.3),
    cell("r1-w256", FIRST, "read", "p99", 1_400),
    cell("r1-w256", FIRST, "write", "iops", 74.6),
    cell("r1-w256", EQUAL, "write", "iops", 152.1),
    cell("r256-w256", LAST, "read", "iops", 2.6),
    cell("r256-w256", EQUAL, "read", "iops", 181.1),
    Stated("r256-w256-dead", ("r256-w256",), is_dead, "read", "p99", 5_000),
    Stated("r256-w256-dead", ("r256-w256",), is_dead, "write", "p99", 18_000),
)

#: Section 5: the Optane drive. The text does not say which targets it took there.
OPTANE = (
    cell("r1-w256", "kyber-10us-100ms", "read", "p99", 16.8),
    cell("r1-w256", "kyber-10us-100ms", "write", "iops", 75.0),
    cell("r256-w256", "kyber-10us-100ms", "write", "iops", 68.9),
    cell("r256-w256", "kyber-10us-10us", "read", "iops", 215.4),
    cell("r256-w256", "kyber-10us-10us", "write", "iops", 203.1),
)

#: Section 6, Figure 4: the 980 PRO through file systems; "worst" and "most" are of the other three corners.
ONE = ("ext4-r1-w256", "f2fs-r1-w256", "xfs-r1-w256")
READERS, OTHERS = labelled(FIRST), corners(READS_FIRST)
FILES = (
    Stated("r1-w256-first-lowest", ONE, READERS, "read", "p99", 160.4, loads=smallest),
    Stated("r1-w256-first-highest", ONE, READERS, "read", "p99", 160.8),
    Stated("r1-w256-worst-lowest", ONE, OTHERS, "read", "p99", 184.9, loads=smallest),
    Stated("r1-w256-worst-highest", ONE, OTHERS, "read", "p99", 249.9),
    Stated("r1-w256-first-lowest", ONE, READERS, "write", "iops", 72.9, loads=smallest),
    Stated("r1-w256-first-highest", ONE, READERS, "write", "iops", 75.5),
    Stated("r1-w256-most-lowest", ONE, OTHERS, "write", "iops", 116.0, loads=smallest),
    Stated("r1-w256-most-highest", ONE, OTHERS, "write", "iops", 147.0),
    Stated("ext4-r256-w256-first", ("ext4-r256-w256",), READERS, "read", "iops", 231.1),
    Stated("ext4-r256-w256-most", ("ext4-r256-w256",), OTHERS, "read", "iops", 227.7),
    Stated("ext4-r256-w256-first", ("ext4-r256-w256",), READERS, "write", "iops", 65.6),
    Stated("ext4-r256-w256-most", ("ext4-r256-w256",), OTHERS, "write", "iops", 127.6),
    Stated("xfs-r256-w256-first", ("xfs-r256-w256",), READERS, "read", "iops", 234.6),
    Stated("xfs-r256-w256-most", ("xfs-r256-w256",), OTHERS, "read", "iops", 228.1),
    Stated("xfs-r256-w256-first", ("xfs-r256-w256",), READERS, "write", "iops", 65.6),
    Stated("xfs-r256-w256-most", ("xfs-r256-w256",), OTHERS, "write", "iops", 132.6),
    Stated("f2fs-r256-w256-lowest", ("f2fs-r256-w256",), corners(), "read", "iops", 229.7, cells=smallest),
    Stated("f2fs-r256-w256-highest", ("f2fs-r256-w256",), corners(), "read", "iops", 239.3),
    Stated("f2fs-r256-w256-first", ("f2fs-r256-w256",), READERS, "write", "iops", 67.9),
    Stated("f2fs-r256-w256-most", ("f2fs-r256-w256",), OTHERS, "write", "iops", 108.7),
)


def kyber_stated(lab: Lab) -> Iterator[Figure]:
    """Kyber, what the text states of cells on raw drives: ours over the paper's, and the medians."""
    run = partial(lab.run, mode="full", target="sim")
    runs = {load: run(f"kyber/{load}") for load in ("r1-w1", "r1-w256", "r256-w256")}
    optane = run("kyber/optane")
    groups = {
        "grids": [over_paper("grids", number, runs[number.of_loads[0]]) for number in GRIDS],
        "optane": [over_paper("optane", number, optane) for number in OPTANE],
    }
    groups["raw-drives"] = [*groups["grids"], *groups["optane"]]
    yield from groups["raw-drives"]
    for name, some in groups.items():
        yield median(name, some, "tailgate claims kyber_stated")


def kyber_stated_files(lab: Lab) -> Iterator[Figure]:
    """Kyber, what the text states of cells through file systems, in guests; the median."""
    found = lab.run("kyber/fig4", mode="quick", target="vm")
    some = [over_paper("file-systems", number, found) for number in FILES]
    yield from some
    yield median("file-systems", some, found.source.command)


def kyber_stated_all(lab: Lab) -> Iterator[Figure]:
    """Kyber, the median of all cells that the text states, file systems included; measures nothing."""
    del lab
    stored = results.by_id(results.read())
    found = {id: own for id, own in stored.items() if id.startswith(START) and id.endswith("-over-paper")}
    if len(found) == len(GRIDS) + len(OPTANE) + len(FILES):
        value = exact(statistics.median(own.figure.value for own in found.values()), len(found))
        yield Figure(
            f"{START}/median/all", value, Source("tailgate claims kyber_stated_all", "results", "model")
        )


def over_paper(group: str, number: Stated, answer: Answer) -> Figure:
    """Ours, in a run, over the paper's."""
    name = f"{START}/{group}/{number.what}/{number.flow}/{number.figure}-over-paper"
    return answer.figure(name, number.ours(answer) / number.value)


def median(group: str, some: Sequence[Figure], command: str) -> Figure:
    """The median of ratios, unrounded."""
    value = exact(statistics.median(f.quantity.value for f in some), len(some))
    return Figure(f"{START}/median/{group}", value, noted(some[0].source, command))


STEPS = (kyber_stated, kyber_stated_files)
