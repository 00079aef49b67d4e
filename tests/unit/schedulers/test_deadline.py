# SPDX-License-Identifier: GPL-2.0-only
"""sched/models/deadline.c against a model of mq-deadline (deadline-iosched.rst, ioprio.rst of the kernel)."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

READ, WRITE, DISCARD = 0, 1, 2
RT, BE, IDLE = 1, 2, 3
TICK_NS = 4_000_000
MS = 1_000_000
KNOBS = {
    "read_expire": 500,
    "write_expire": 5000,
    "writes_starved": 2,
    "front_merges": 1,
    "async_depth": 2**31 - 1,
    "fifo_batch": 16,
    "prio_aging_expire": 10000,
    "keeps_next": 0,
}
Conversation = list[tuple[str, str]]
Play = Callable[[Conversation], None]
EXPIRES = ("read_expire", "write_expire")


@dataclass(eq=False)
class Request:
    number: int
    op: int
    sector: int
    sectors: int
    ioprio: int
    head: bool
    late_tick: int = 0
    sorted_at: int = 0  # when it got its place among those that begin at the same sector
    ends_since: int = 0  # and among those that end at the same sector

    @property
    def place(self) -> tuple[int, int]:
        return self.sector, self.sorted_at

    @property
    def rank(self) -> int:
        """0 for class RT, 1 for BE and none, 2 for IDLE."""
        return (1, 0, 1, 2)[self.ioprio >> 13]

    @property
    def direction(self) -> int:
        return READ if self.op == READ else WRITE


@dataclass
class Deadline:
    """The model: the queued requests in lists; it records the answers that the scheduler should give."""

    conversation: Conversation = field(default_factory=lambda: [("new mq-deadline 3 256", "")])
    knobs: dict[str, int] = field(default_factory=lambda: dict(KNOBS))
    now: int = 0
    requests: list[Request] = field(default_factory=list)
    urgent: list[Request] = field(default_factory=list)
    queued: list[Request] = field(default_factory=list)  # oldest first
    in_drive: list[Request] = field(default_factory=list)
    latest: dict[tuple[int, int], int] = field(default_factory=dict)
    following: dict[tuple[int, int], Request | None] = field(default_factory=dict)
    direction: int = WRITE
    batched: int = 0
    starved: int = 0

    def say(self, command: str, answer: object = "") -> None:
        self.conversation.append((command, str(answer)))

    def ticks(self, knob: str) -> int:
        return -(-self.knobs[knob] * MS // TICK_NS)

    def set(self, knob: str, value: int) -> None:
        self.say(f"set {knob} {value}", 0)
        self.knobs[knob] = value
        if knob == "keeps_next":
            self.following = {}

    def insert(self, op: int, sector: int, ioprio_class: int = BE, head: bool = False, queue: int = 0) -> int:
        rq = Request(len(self.requests), op, sector, 8, ioprio_class << 13, head)
        self.requests.append(rq)
        rq.sorted_at = rq.ends_since = len(self.conversation)
        rq.late_tick = self.now // TICK_NS + self.ticks(EXPIRES[rq.direction])
        if head:
            self.urgent.insert(0, rq)
        else:
            self.queued.append(rq)
        self.say(f"insert {self.now} {rq.number} {queue} {op} {sector} 8 {rq.ioprio} {head:d}")
        return rq.number

    def fifo(self, rank: int, direction: int) -> list[Request]:
        return [rq for rq in self.queued if (rq.rank, rq.direction) == (rank, direction)]

    def behind(self, fifo: list[Request], sector: int) -> Request | None:
        return min((rq for rq in fifo if rq.sector >= sector), key=lambda rq: rq.place, default=None)

    def following_of(self, rank: int, direction: int) -> Request | None:
        if self.knobs["keeps_next"]:
            return self.following.get((rank, direction))
        return self.behind(self.fifo(rank, direction), self.latest.get((rank, direction), 0))

    def pick(self, rank: int, begun_tick: int) -> Request | None:
        rq = self.following_of(rank, self.direction)
        if rq is None or self.batched >= self.knobs["fifo_batch"]:
            reads, writes = self.fifo(rank, READ), self.fifo(rank, WRITE)
            if not reads and not writes:
                return None
            direction = READ if reads else WRITE
            if reads and writes:
                if self.starved >= self.knobs["writes_starved"]:
                    direction = WRITE
                self.starved += 1
            if direction == WRITE:
                self.starved = 0
            oldest = (reads, writes)[direction][0]
            rq = self.following_of(rank, direction)
            if rq is None or oldest.late_tick <= self.now // TICK_NS:
                rq = oldest
            self.direction, self.batched = direction, 0
        if rq.late_tick - self.ticks(EXPIRES[rq.direction]) > begun_tick:
            return None
        self.batched += 1
        return rq

    def pending(self, rank: int) -> bool:
        return any(rq.rank == rank for rq in (*self.urgent, *self.queued, *self.in_drive))

    def choose(self) -> Request | None:
        tick = self.now // TICK_NS
        if sum(self.pending(rank) for rank in range(3)) > 1:
            for rank in (1, 2):
                rq = self.pick(rank, tick - self.ticks("prio_aging_expire"))
                if rq:
                    return rq
        for rank in range(3):
            rq = self.pick(rank, tick)
            if rq or self.pending(rank):
                return rq
        return None

    def dispatch(self, queue: int = 0) -> int | None:
        self.say(f"work {queue}", int(bool(self.urgent or self.queued)))
        if self.urgent:
            rq: Request | None = self.urgent.pop(0)
        else:
            rq = self.choose()
            if rq:
                later = [o for o in self.fifo(rq.rank, rq.direction) if o.place > rq.place]
                self.following[rq.rank, rq.direction] = min(later, key=lambda o: o.place, default=None)
                self.queued.remove(rq)
        self.say(f"dispatch {self.now} {queue}", rq.number if rq else "-")
        if not rq:
            return None
        self.latest[rq.rank, rq.direction] = rq.sector
        self.in_drive.append(rq)
        return rq.number

    def finish(self, which: int = 0) -> None:
        if self.in_drive:
            rq = self.in_drive.pop(which % len(self.in_drive))
            self.say(f"finish {self.now} {rq.number}")

    def finish_other(self) -> None:
        """End a request that was never inserted: a bio joined another request, or it was a flush."""
        self.say(f"finish {self.now} 4000")

    def merge(self, op: int, sector: int, sectors: int, ioprio_class: int) -> None:
        """A bio joins the request that was last to end where it begins, or the first that begins where it
        ends.
        """
        ioprio = ioprio_class << 13

        def fits(rq: Request) -> bool:
            return (rq.op, rq.ioprio) == (op, ioprio) and rq.sectors + sectors <= 24

        back = [rq for rq in self.queued if rq.sector + rq.sectors == sector and fits(rq)]
        probe = Request(-1, op, sector, sectors, ioprio, False)
        front = self.behind(self.fifo(probe.rank, probe.direction), sector + sectors)
        joined = None
        if back:
            joined = max(back, key=lambda rq: rq.ends_since)
            joined.ends_since = len(self.conversation)
        elif self.knobs["front_merges"] and front and front.sector == sector + sectors and fits(front):
            joined = front
            joined.sector, joined.sorted_at = sector, len(self.conversation)
        answer = "-"
        if joined:
            joined.sectors += sectors
            answer = f"{joined.number} {joined.sector} {joined.sectors}"
        self.say(f"merge {sector} {sectors} {op} {ioprio} 24", answer)

    def join(self, which: int, front: bool) -> None:
        """A bio beside a queued request."""
        if self.queued:
            rq = self.queued[which % len(self.queued)]
            if rq.op != DISCARD and (not front or rq.sector):
                self.merge(rq.op, rq.sector - 8 if front else rq.sector + rq.sectors, 8, rq.ioprio >> 13)

    def drain(self) -> Conversation:
        while self.urgent or self.queued or self.in_drive:
            while self.dispatch() is not None:
                pass
            self.finish()
            # after its expiry was shortened a request is held to have been inserted later than it was
            self.now += 1000 * MS
        self.say("end", 1)
        return self.conversation


# few sectors, so that requests meet
SECTOR = st.integers(0, 30).map(lambda i: 8 * i)
OP = st.sampled_from([READ, READ, WRITE, DISCARD])
CLASS = st.sampled_from([0, BE, BE, RT, IDLE])
STEPS = st.one_of(
    st.tuples(st.just("insert"), OP, SECTOR, CLASS, st.integers(0, 15)),
    st.tuples(st.just("insert"), OP, SECTOR, CLASS, st.integers(0, 15)),
    st.tuples(st.just("dispatch"), st.integers(1, 5)),
    st.tuples(st.just("finish"), st.integers(0, 99)),
    st.tuples(st.just("finish other")),
    st.tuples(st.just("merge"), st.sampled_from([READ, WRITE]), SECTOR, st.sampled_from([8, 16]), CLASS),
    st.tuples(st.just("join"), st.integers(0, 99), st.booleans()),
    st.tuples(st.just("time"), st.sampled_from([1, 30, 100, 500, 5000, 20000])),
    st.tuples(st.just("set"), st.sampled_from(["read_expire", "write_expire"]), st.integers(0, 600)),
    st.tuples(st.just("set"), st.just("writes_starved"), st.integers(0, 4)),
    st.tuples(st.just("set"), st.just("fifo_batch"), st.integers(0, 6)),
    st.tuples(st.just("set"), st.just("prio_aging_expire"), st.integers(0, 200)),
    st.tuples(st.just("set"), st.sampled_from(["front_merges", "keeps_next"]), st.integers(0, 1)),
)


def play_steps(play: Play, steps: list[tuple[object, ...]]) -> None:
    model = Deadline()
    for step in steps:
        match step:
            case ("insert", int(op), int(sector), int(ioprio_class), int(head)):
                model.insert(op, sector, ioprio_class, head == 15, head % 3)
            case ("dispatch", int(most)):
                for _ in range(most):
                    model.dispatch(most % 3)
            case ("finish", int(which)):
                model.finish(which)
            case ("finish other",):
                model.finish_other()
            case ("merge", int(op), int(sector), int(sectors), int(ioprio_class)):
                model.merge(op, sector, sectors, ioprio_class)
            case ("join", int(which), bool(front)):
                model.join(which, front)
            case ("time", int(ms)):
                model.now += ms * MS + 123
            case ("set", str(knob), int(value)):
                model.set(knob, value)
            case _:
                raise ValueError(step)
    play(model.drain())


def explore(play: Play, examples: int, **more: object) -> None:
    @settings(
        max_examples=examples,
        deadline=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        **more,  # type: ignore[arg-type]
    )
    @given(st.lists(STEPS, min_size=20, max_size=60))
    def as_the_model(steps: list[tuple[object, ...]]) -> None:
        play_steps(play, steps)

    as_the_model()


def test_decides_as_the_model_and_loses_nothing(play: Play) -> None:
    explore(play, 150)


def order(model: Deadline, count: int) -> list[int | None]:
    return [model.dispatch() for _ in range(count)]


def test_batches_follow_the_sectors(play: Play) -> None:
    model = Deadline()
    model.set("fifo_batch", 3)
    for sector in (80, 16, 64, 32, 48):
        model.insert(READ, sector)
    # from the start of the drive; the next batch goes on behind the latest, not at the oldest
    assert order(model, 5) == [1, 3, 4, 2, 0]
    play(model.drain())


def test_an_expired_request_starts_the_next_batch(play: Play) -> None:
    model = Deadline()
    model.set("fifo_batch", 2)
    model.insert(READ, 800)
    model.now = 499 * MS
    for sector in (8, 16, 24, 32):
        model.insert(READ, sector)
    assert order(model, 1) == [1]
    model.now = 500 * MS
    assert order(model, 2) == [2, 0], "a batch is not cut short, and the next one begins with what is late"
    play(model.drain())


def test_writes_starve_for_so_many_batches(play: Play) -> None:
    model = Deadline()
    model.set("fifo_batch", 1)
    for i in range(8):
        model.insert(READ, 8 * i)
        model.insert(WRITE, 1000 + 8 * i)
    kinds = [number is not None and number % 2 for number in order(model, 9)]
    assert kinds == [WRITE, READ, READ] * 3, "it begins as if a batch of writes were under way"
    play(model.drain())


def test_a_higher_class_holds_back_until_it_has_left_the_drive(play: Play) -> None:
    model = Deadline()
    model.insert(READ, 8, IDLE)
    model.insert(READ, 16, 0)
    model.insert(READ, 24, RT)
    assert order(model, 2) == [2, None]
    model.finish()
    assert order(model, 2) == [1, None]
    model.finish()
    assert order(model, 1) == [0]
    play(model.drain())


def test_what_has_aged_goes_before_higher_classes(play: Play) -> None:
    model = Deadline()
    model.insert(WRITE, 8, IDLE)
    model.insert(WRITE, 16, BE)
    model.now = 9_996 * MS
    model.insert(READ, 24, RT)
    model.insert(READ, 32, RT)
    assert order(model, 1) == [2]
    model.now = 10_000 * MS
    assert order(model, 3) == [1, 0, 3]
    play(model.drain())


def test_what_comes_at_the_head_goes_first(play: Play) -> None:
    model = Deadline()
    model.insert(READ, 8, RT)
    model.insert(WRITE, 16, IDLE, head=True)
    model.insert(READ, 24, BE, head=True)
    assert order(model, 3) == [2, 1, 0]
    play(model.drain())


def test_kept_next_request_misses_what_came_later(play: Play) -> None:
    for keeps, expected in ((0, [0, 2, 1]), (1, [0, 1, 2])):
        model = Deadline()
        model.set("keeps_next", keeps)
        model.insert(READ, 8)
        model.insert(READ, 80)
        first = order(model, 1)
        model.insert(READ, 40)
        assert first + order(model, 2) == expected
        play(model.drain())


def test_tags_are_kept_for_synchronous_reads_when_asked_to(play: Play) -> None:
    model = Deadline()
    for depth, limit in ((192, 192), (1, 1), (1000, 256)):
        model.set("async_depth", depth)
        for op, sync, tags in ((READ, 1, 256), (READ, 0, limit), (WRITE, 1, limit), (DISCARD, 1, limit)):
            model.say(f"limit {op} {sync} 0 256", tags)
    play(model.drain())


def test_knobs_are_as_in_the_kernel(play: Play) -> None:
    model = Deadline()
    ranges = {"async_depth": (1, 2**31 - 1), "front_merges": (0, 1), "keeps_next": (0, 1)}
    listed = [(name, *ranges.get(name, (0, 2**31 - 1)), initial) for name, initial in KNOBS.items()]
    model.say("knobs", " ".join(":".join(map(str, knob)) for knob in listed))
    for name, least, most, _ in listed:
        model.say(f"set {name} {most + 1}", -34)
        if least:
            model.say(f"set {name} {least - 1}", -34)
    play(model.drain())


LAWS = (
    test_batches_follow_the_sectors,
    test_an_expired_request_starts_the_next_batch,
    test_writes_starve_for_so_many_batches,
    test_a_higher_class_holds_back_until_it_has_left_the_drive,
    test_what_has_aged_goes_before_higher_classes,
    test_what_comes_at_the_head_goes_first,
    test_kept_next_request_misses_what_came_later,
)
MISTAKES = {
    "no order of sectors": ("deadline_sector(deadline_of_sorted(node)) < sector", "!sector"),
    "equal sectors in the wrong order": (
        "link = sector < deadline_sector",
        "link = sector <= deadline_sector",
    ),
    "nothing expires": ("!deadline_before(tick, oldest->expires)", "(!tick && !oldest)"),
    "late by a tick": (
        "!deadline_before(tick, oldest->expires)",
        "deadline_before(oldest->expires, tick)",
    ),
    "ages that forget the knob": ("tick - deadline_ticks(d, DEADLINE_KNOB_prio_aging_expire)", "tick"),
    "batches a request too long": (
        "d->batched >= d->knobs[DEADLINE_KNOB_fifo_batch]",
        "d->batched > d->knobs[DEADLINE_KNOB_fifo_batch]",
    ),
    "starved writes": ("d->starved++ >=", "d->starved >="),
    "the drive does not count": ("if (deadline_pending(d, prio))\n\t\t\tbreak;", ""),
    "what ends without insertion counts": ("if (!e->counted)\n\t\treturn;\n", ""),
    "the first at the head": (
        "list_add(deadline_node(e), &d->urgent)",
        "list_add_tail(deadline_node(e), &d->urgent)",
    ),
    "front merges that nobody wants": ("!d->knobs[DEADLINE_KNOB_front_merges]", "!d"),
}


def all_laws(play: Play) -> None:
    for law in LAWS:
        law(play)
    explore(play, 300, derandomize=True, database=None, phases=[Phase.generate])


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_noticed(assert_noticed: Callable[..., None], mistake: str) -> None:
    assert_noticed("deadline.c", *MISTAKES[mistake], all_laws)
