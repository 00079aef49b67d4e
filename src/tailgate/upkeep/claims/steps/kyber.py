# SPDX-License-Identifier: GPL-2.0-only
"""Kyber: what its paper observes, on the simulator's grids and in guests."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, product

from tailgate.spec.grid import words
from tailgate.upkeep.claims import model, observations, results
from tailgate.upkeep.claims.lab import Answer, Lab, Point, timed, us
from tailgate.upkeep.claims.quantity import Quantity, exact, largest, smallest
from tailgate.upkeep.claims.results import Figure, Source

#: Targets of reads and writes, ns: Section 5's least and greatest.
READ_LEAST, WRITE_LEAST, MOST = 50_000, 20_000, 100_000_000
#: The kernel's own target of reads (block/kyber-iosched.c), ns.
READ_DEFAULT = 2_000_000
#: Below these nothing changes any more (O-6), ns.
DEAD_READ, DEAD_WRITE = 10_000_000, 5_000_000

Cell = tuple[int, int]

CORNERS: tuple[Cell, ...] = tuple(product((READ_LEAST, MOST), (WRITE_LEAST, MOST)))
#: The corners, and the kernel's own targets of 2 and 10 ms.
COARSE: tuple[Cell, ...] = tuple(product((READ_LEAST, READ_DEFAULT, MOST), (WRITE_LEAST, 10_000_000, MOST)))
READS_FIRST, WRITES_FIRST = (READ_LEAST, MOST), (MOST, WRITE_LEAST)
#: Section 6: targets that are the same, or nearly, for reads and writes.
EQUAL = ((READ_LEAST, WRITE_LEAST), (MOST, MOST))


@dataclass(frozen=True)
class Grid:
    """A grid: its run, its cells by the two targets, ns, and the point without a scheduler."""

    answer: Answer
    cells: Mapping[Cell, Point]
    none: Point

    def iops(self, cell: Cell, name: str) -> Quantity:
        """A flow's requests a second, in thousands."""
        return self.answer.iops(self.cells[cell], name)

    def p99(self, cell: Cell, name: str) -> Quantity:
        """A flow's p99, us."""
        return us(self.cells[cell], name, "p99")

    @property
    def reads(self) -> list[int]:
        """The targets of reads, ns, ascending."""
        return sorted({read for read, _ in self.cells})

    @property
    def writes(self) -> list[int]:
        """The targets of writes, ns, ascending."""
        return sorted({write for _, write in self.cells})


def label(cell: Cell) -> str:
    """What an experiment calls a cell of the grid."""
    return f"kyber-{words('read_lat_nsec', cell[0])}-{words('write_lat_nsec', cell[1])}"


def grid(lab: Lab, load: str) -> Grid:
    """Measure a grid."""
    found = lab.run(f"kyber/{load}", mode="full", target="sim")
    cells = {
        (p["knobs"]["read_lat_nsec"], p["knobs"]["write_lat_nsec"]): p
        for p in found.points
        if p["scheduler"] == "kyber"
    }
    return Grid(found, cells, next(p for p in found.points if p["scheduler"] == "none"))


def kyber_none(lab: Lab) -> Iterator[Figure]:
    """Kyber, Table 2: reads and writes alone and together, without a scheduler (O-1 to O-3)."""
    found = lab.run("kyber/table2", mode="full", target="sim")
    at = found.by("load")
    start = "kyber/sim/none"
    for load, point in at.items():
        for name in ("read", "write"):
            if any(f["flow"] == name for f in point["flows"]):
                yield found.figure(f"{start}/{load}/{name}/thousands", found.iops(point, name))
                yield found.figure(f"{start}/{load}/{name}/p99", us(point, name, "p99"))
    alone = found.iops(at["r256"], "read") / found.iops(at["w256"], "write")
    yield found.figure(f"{start}/o-1/reads-over-writes", alone)
    for load, before in (("r1-w1", "r1"), ("r1-w256", "r1"), ("r256-w256", "r256")):
        rate = found.iops(at[load], "read") / found.iops(at[before], "read")
        yield found.figure(f"{start}/o-2/{load}/reads-over-alone", rate)
    for load in ("r1-w1", "r1-w256"):
        p99 = us(at[load], "read", "p99") / us(at["r1"], "read", "p99")
        yield found.figure(f"{start}/o-2/{load}/p99-over-alone", p99)
    for load in ("r1-w1", "r256-w1"):
        p99 = us(at[load], "write", "p99") / us(at["w1"], "write", "p99")
        yield found.figure(f"{start}/o-3/{load}/p99-over-alone", p99)


def kyber_grids(lab: Lab) -> Iterator[Figure]:
    """Kyber, Figures 2 and 3: the two targets over 90 cells, for four loads (O-4 to O-6, G-1 to G-3, G-5)."""
    yield from without_effect(grid(lab, "r1-w1"))
    one, many = grid(lab, "r1-w256"), grid(lab, "r256-w256")
    yield from reads_protected(one)
    yield from shares(many)
    yield from one_write(grid(lab, "r256-w1"))
    for load, g in (("r1-w256", one), ("r256-w256", many)):
        yield from effective(g, f"kyber/sim/g-1/{load}")
        yield from outside_of_dead(g, f"kyber/sim/g-3/{load}")
        yield from chosen(g, load)
    yield from same_targets(many.answer, {cell: many.cells[cell] for cell in CORNERS}, "kyber/sim/g-5")


def without_effect(g: Grid) -> Iterator[Figure]:
    """O-4: with one read and one write at a time the targets have no effect."""
    for name in ("read", "write"):
        p99s = [g.p99(cell, name) for cell in g.cells]
        spread = largest(p99s) / smallest(p99s)
        yield g.answer.figure(f"kyber/sim/o-4/{name}/highest-p99-over-lowest", spread)


def reads_protected(g: Grid) -> Iterator[Figure]:
    """O-5 and G-2: a low target of reads and a high one of writes protect the reader, and cost writes."""
    cell = READS_FIRST
    p99 = g.p99(cell, "read")
    yield g.answer.figure("kyber/sim/o-5/p99-over-none", p99 / us(g.none, "read", "p99"))
    lowest = smallest([g.p99(other, "read") for other in g.cells])
    yield g.answer.figure("kyber/sim/g-2/p99-over-lowest", p99 / lowest)
    most = largest([g.iops(other, "write") for other in g.cells])
    for name in ("o-5", "g-2"):
        yield g.answer.figure(f"kyber/sim/{name}/writes-over-most", g.iops(cell, "write") / most)


def shares(g: Grid) -> Iterator[Figure]:
    """O-6: the target of reads moves throughput between reads and writes, and where it does not."""
    column = [g.iops((read, WRITE_LEAST), "read") for read in g.reads]
    yield g.answer.figure("kyber/sim/o-6/reads-least-target-over-most", column[0] / column[-1])
    steps = [
        low.value / high.value
        for write in g.writes
        for low, high in pairwise([g.iops((read, write), "read") for read in g.reads])
    ]
    yield g.answer.figure("kyber/sim/o-6/least-step", exact(min(steps)))
    for name in ("read", "write"):
        dead = [g.iops(cell, name) for cell in g.cells if is_dead(cell)]
        spread = largest(dead) / smallest(dead)
        yield g.answer.figure(f"kyber/sim/o-6/dead/{name}/most-over-least", spread)


def one_write(g: Grid) -> Iterator[Figure]:
    """G-1: do the targets move 256 reads beside one write at a time? The paper has no figure of it."""
    rates = [g.iops(cell, "read") for cell in g.cells]
    yield g.answer.figure("kyber/sim/g-1/reads-most-over-least", largest(rates) / smallest(rates))
    p99s = [g.p99(cell, "write") for cell in g.cells]
    spread = largest(p99s) / smallest(p99s)
    yield g.answer.figure("kyber/sim/g-1/write-highest-p99-over-lowest", spread)


def effective(g: Grid, start: str) -> Iterator[Figure]:
    """G-1: do the targets move the reads where more than one request is outstanding?"""
    rates = [g.iops(cell, "read") for cell in g.cells]
    yield g.answer.figure(f"{start}/reads-most-over-least", largest(rates) / smallest(rates))


def is_dead(cell: Cell) -> bool:
    """Whether it is in what Section 5 calls the dead configuration space."""
    return cell[0] < DEAD_READ and cell[1] < DEAD_WRITE


def outside_of_dead(g: Grid, start: str) -> Iterator[Figure]:
    """G-3: how many cells are like the dead ones, and how much better the best cell is than these."""
    dead = g.cells[READ_LEAST, WRITE_LEAST]

    def like_dead(point: Point) -> bool:
        pairs = [
            (of(point, name).value, of(dead, name).value)
            for name in ("read", "write")
            for of in (g.answer.iops, lambda p, flow: us(p, flow, "p99"))
        ]
        return all(math.isclose(own, its, rel_tol=0.05) for own, its in pairs)

    yield g.answer.figure(f"{start}/cells-like-dead", exact(sum(map(like_dead, g.cells.values()))))
    lowest = smallest([g.p99(cell, "read") for cell in g.cells])
    of_dead = smallest([g.p99(cell, "read") for cell in g.cells if is_dead(cell)])
    yield g.answer.figure(f"{start}/p99-of-dead-over-lowest", of_dead / lowest)
    most = largest([g.iops(cell, "read") for cell in g.cells])
    of_dead = largest([g.iops(cell, "read") for cell in g.cells if is_dead(cell)])
    yield g.answer.figure(f"{start}/most-reads-over-dead", most / of_dead)


def chosen(g: Grid, load: str) -> Iterator[Figure]:
    """What `none`, the corners, and the kernel's own target of reads give: thousands, and p99 in us."""
    points = {label(cell): g.cells[cell] for cell in (*CORNERS, (READ_DEFAULT, MOST))}
    for name, point in {"none": g.none, **points}.items():
        start = f"kyber/sim/cells/{load}/{name}"
        yield g.answer.figure(f"{start}/read/thousands", g.answer.iops(point, "read"))
        yield g.answer.figure(f"{start}/read/p99", us(point, "read", "p99"))
        yield g.answer.figure(f"{start}/write/thousands", g.answer.iops(point, "write"))


def same_targets(found: Answer, points: Mapping[Cell, Point], start: str) -> Iterator[Figure]:
    """G-5: what the worse of the two corners with equal targets gives, over the most of all corners."""
    for name in ("read", "write"):
        equal = smallest([found.iops(points[cell], name) for cell in EQUAL])
        most = largest([found.iops(point, name) for point in points.values()])
        yield found.figure(f"{start}/{name}s-over-most", equal / most)


def kyber_minutes(lab: Lab) -> Iterator[Figure]:
    """Kyber, one grid of 90 cells, from nothing, by the clock."""
    command = ("run", "kyber/r256-w256", "--full", "--target", "sim")
    took, seeds = timed(lab, *command)
    source = Source(f"tailgate {' '.join(command)}", "host", "wall", seeds)
    yield Figure("kyber/sim/grid/minutes", took / 60, source)


def kyber_optane(lab: Lab) -> Iterator[Figure]:
    """Kyber on a drive where reads and writes hardly meet (O-7, O-8)."""
    found = lab.run("kyber/optane", mode="full", target="sim")
    at = found.by("load", "label")
    none, equal, first = "none", "kyber-10us-10us", "kyber-10us-100ms"
    start = "kyber/sim/optane"
    for setting in (none, first):
        point = at["r1-w256", setting]
        yield found.figure(f"{start}/r1-w256/{setting}/read/p99", us(point, "read", "p99"))
        yield found.figure(f"{start}/r1-w256/{setting}/write/thousands", found.iops(point, "write"))
    yield found.figure(f"{start}/r1/none/read/p99", us(at["r1", none], "read", "p99"))
    for setting in (equal, first):
        for name in ("read", "write"):
            figure = found.iops(at["r256-w256", setting], name)
            yield found.figure(f"{start}/r256-w256/{setting}/{name}/thousands", figure)
    p99 = us(at["r1-w256", first], "read", "p99") / us(at["r1-w256", none], "read", "p99")
    yield found.figure("kyber/sim/o-7/p99-over-none", p99)
    writes = found.iops(at["r1-w256", first], "write") / found.iops(at["r1-w256", none], "write")
    yield found.figure("kyber/sim/o-7/writes-over-none", writes)
    for name in ("read", "write"):
        rate = found.iops(at["r256-w256", first], name) / found.iops(at["r256-w256", equal], name)
        yield found.figure(f"kyber/sim/o-8/reads-first/{name}s-over-equal", rate)


def kyber_files(lab: Lab) -> Iterator[Figure]:
    """Kyber, Figure 4: the corners of the grid through file systems, in guests (O-9 to O-11)."""
    found = lab.run("kyber/fig4", mode="quick", target="vm")
    for system in ("ext4", "xfs", "f2fs"):
        many = f"{'o-11' if system == 'f2fs' else 'o-10'}/{system}"
        yield from reader_first(found, f"{system}-r1-w256", f"kyber/vm/o-9/{system}")
        yield from one_kind_first(found, f"{system}-r256-w256", f"kyber/vm/{many}")


def kyber_unfilled(lab: Lab) -> Iterator[Figure]:
    """Kyber, Section 6, on a raw drive that writes do not fill (O-9 to O-11)."""
    found = lab.run("kyber/unfilled", mode="full", target="sim")
    yield from reader_first(found, "r1-w256", "kyber/sim/unfilled/r1-w256")
    yield from one_kind_first(found, "r256-w256", "kyber/sim/unfilled/r256-w256")


def reader_first(found: Answer, load: str, start: str) -> Iterator[Figure]:
    """One read at a time beside 256 writes: what its going first gives it and costs the writes."""
    points = corners(found, load)
    first = us(points[READS_FIRST], "read", "p99")
    others = [us(point, "read", "p99") for cell, point in points.items() if cell != READS_FIRST]
    yield found.figure(f"{start}/p99-over-worst-other", first / largest(others))
    yield found.figure(f"{start}/p99-over-best-other", first / smallest(others))
    most = largest([found.iops(point, "write") for point in points.values()])
    yield found.figure(f"{start}/writes-over-most", found.iops(points[READS_FIRST], "write") / most)


def one_kind_first(found: Answer, load: str, start: str) -> Iterator[Figure]:
    """256 reads beside 256 writes: what a kind that goes first gains, and the other loses; equal targets."""
    points = corners(found, load)
    for first, who in ((READS_FIRST, "reads-first"), (WRITES_FIRST, "writes-first")):
        for name in ("read", "write"):
            others = largest([found.iops(point, name) for cell, point in points.items() if cell != first])
            over = found.iops(points[first], name) / others
            yield found.figure(f"{start}/{who}/{name}s-over-most-of-others", over)
    reads = [found.iops(point, "read") for point in points.values()]
    yield found.figure(f"{start}/reads-most-over-least", largest(reads) / smallest(reads))
    yield from same_targets(found, points, f"{start}/equal")


def corners(found: Answer, load: str) -> dict[Cell, Point]:
    """The points of a load at the corners of the grid."""
    at = found.by("load", "label")
    return {cell: at[load, label(cell)] for cell in CORNERS}


def kyber_agreement(lab: Lab) -> Iterator[Figure]:
    """A coarse grid with the kernel's own kyber in a guest, over the simulator's with that machine.

    Both are dilated alike, so that the windows of 100 ms, which are not dilated, are as short in both.
    """
    labels = ["none", *map(label, COARSE)]
    for load in ("r1-w256", "r256-w256"):
        run = partial(lab.run, f"kyber/{load}", mode="quick", schedulers=labels)
        measured, simulated = run(target="vm"), run(target="sim", machine="guest-6.12")
        models = simulated.by("label")
        start = f"kyber/vm/agreement/{load}"
        for setting, point in measured.by("label").items():
            model = models[setting]
            for name in ("read", "write"):
                rate = measured.iops(point, name) / simulated.iops(model, name)
                yield measured.figure(f"{start}/{setting}/{name}/iops-over-sim", rate)
                p99 = us(point, name, "p99") / us(model, name, "p99")
                yield measured.figure(f"{start}/{setting}/{name}/p99-over-sim", p99)
                if point.get("state"):
                    tokens = exact(point["state"][f"{name}_tokens"])
                    yield measured.figure(f"{start}/{setting}/{name}/tokens", tokens)
                    over = exact(point["state"][f"{name}_tokens"] / model["state"][f"{name}_tokens"])
                    yield measured.figure(f"{start}/{setting}/{name}/tokens-over-sim", over)


def kyber_observations(lab: Lab) -> Iterator[Figure]:
    """How many of O-1 to O-11 are reproduced, or explained by a property of the drive; measures nothing."""
    del lab
    source = Source("tailgate claims kyber_observations", "results", "model")
    found = observations.verdicts(model.read(), results.by_id(results.read()))
    for name, verdict in found.items():
        yield Figure(f"{observations.START}/{name}/verdict", exact(verdict), source)
    count = exact(sum(verdict != observations.NEITHER for verdict in found.values()), len(found))
    yield Figure(f"{observations.START}/reproduced-or-explained", count, source)


STEPS = (kyber_none, kyber_grids, kyber_minutes, kyber_optane, kyber_files, kyber_unfilled, kyber_agreement)
