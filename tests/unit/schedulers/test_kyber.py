# SPDX-License-Identifier: GPL-2.0-only
"""sched/models/kyber.c against a model: who goes next, tokens, wake-ups, how latencies set their number."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

READ, WRITE, DISCARD, OTHER = DOMAINS = range(4)
TOTAL, IO = KINDS = range(2)
DEPTHS = (256, 128, 64, 16)
BATCHES = (16, 8, 1, 1)
TICK_NS = 4_000_000
MS = 1_000_000
NEVER = 2**63
Conversation = list[tuple[str, str]]
Play = Callable[[Conversation], None]


@dataclass(eq=False)
class Request:
    number: int
    domain: int
    queue: int
    sector: int
    start_ns: int
    sectors: int = 8
    issue_ns: int = 0
    token: int = 0


def empty_lists(count: int) -> list[list[list[Request]]]:
    return [[[] for _ in DOMAINS] for _ in range(count)]


@dataclass
class Kyber:
    """The model: lists, sets and sorted samples; it writes down what the scheduler should answer."""

    queues: int = 2
    conversation: Conversation = field(default_factory=list)
    targets: list[int] = field(default_factory=lambda: [2 * MS, 10 * MS, 5000 * MS])
    now: int = 0
    timer: int = NEVER
    requests: int = 0
    fresh: list[list[list[Request]]] = field(default_factory=list)
    flushed: list[list[list[Request]]] = field(default_factory=list)
    in_drive: list[Request] = field(default_factory=list)
    turn: list[int] = field(default_factory=list)
    batched: list[int] = field(default_factory=list)
    depth: list[int] = field(default_factory=lambda: list(DEPTHS))
    taken: list[set[int]] = field(default_factory=lambda: [set() for _ in DOMAINS])
    waiting: list[list[int]] = field(default_factory=lambda: [[] for _ in DOMAINS])
    freed: list[int] = field(default_factory=lambda: [0] * 4)
    samples: dict[tuple[int, int], list[int]] = field(
        default_factory=lambda: {(domain, kind): [] for domain in range(3) for kind in KINDS}
    )
    patience: dict[int, int] = field(default_factory=dict)  # tick at which few samples will do
    p99: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.conversation.append((f"new kyber {self.queues} 256", ""))
        self.fresh, self.flushed = empty_lists(self.queues), empty_lists(self.queues)
        self.turn, self.batched = [0] * self.queues, [0] * self.queues

    def say(self, command: str, answer: object = "") -> None:
        self.conversation.append((command, str(answer)))

    def set(self, domain: int, target: int) -> None:
        self.say(f"set {('read', 'write')[domain]}_lat_nsec {target}", 0)
        self.targets[domain] = target

    def insert(self, domain: int, queue: int = 0, sector: int | None = None, head: bool = False) -> None:
        number = self.requests % 4096
        self.requests += 1
        rq = Request(number, domain, queue, 80 * number if sector is None else sector, self.now)
        fresh = self.fresh[queue][domain]
        fresh.insert(0 if head else len(fresh), rq)
        op = (READ, WRITE, DISCARD, 3)[domain]
        self.say(f"insert {self.now} {number} {queue} {op} {rq.sector} 8 0 {head:d}")

    def take(self, queue: int) -> Request | None:
        """The next request, with a token, of the queue whose turn it is."""
        domain = self.turn[queue]
        fresh, flushed = self.fresh[queue][domain], self.flushed[queue][domain]
        waiting, taken = self.waiting[domain], self.taken[domain]
        if not fresh and not flushed:
            return None
        free = [token for token in range(self.depth[domain]) if token not in taken]
        if not free:
            if queue not in waiting:
                waiting.append(queue)
            return None
        if queue in waiting:
            waiting.remove(queue)
        if not flushed:
            flushed.extend(fresh)
            fresh.clear()
        rq = flushed.pop(0)
        rq.token, rq.issue_ns = free[0], self.now
        taken.add(rq.token)
        self.batched[queue] += 1
        return rq

    def dispatch(self, queue: int = 0) -> Request | None:
        busy = any(self.fresh[queue][domain] or self.flushed[queue][domain] for domain in DOMAINS)
        self.say(f"work {queue}", int(busy))
        rq = None
        if self.batched[queue] < BATCHES[self.turn[queue]]:
            rq = self.take(queue)
        if not rq:
            self.batched[queue] = 0
            for _ in DOMAINS:
                self.turn[queue] = (self.turn[queue] + 1) % len(DOMAINS)
                rq = self.take(queue)
                if rq:
                    break
        self.say(f"dispatch {self.now} {queue}", rq.number if rq else "-")
        if rq:
            self.in_drive.append(rq)
        return rq

    def finish(self, which: int = 0) -> str:
        """A request ends; returns which queues are woken."""
        rq = self.in_drive.pop(which % len(self.in_drive))
        answer = ""
        if rq.domain != OTHER:
            width = max(self.targets[rq.domain] // 4, 1)
            for kind, since in ((TOTAL, rq.start_ns), (IO, rq.issue_ns)):
                self.samples[rq.domain, kind].append(min(max(self.now - since - 1, 0) // width, 7))
            if self.timer == NEVER:
                # a tenth of a second later, by ticks, and never early
                self.timer = (self.now // TICK_NS + 26) * TICK_NS
                answer = f"arm:{self.timer}"
        self.say(f"complete {self.now} {rq.number}", answer)
        self.taken[rq.domain].remove(rq.token)
        woken: list[int] = []
        if self.waiting[rq.domain]:
            self.freed[rq.domain] += 1
            batch = min(max(self.depth[rq.domain] // 8, 1), 8)
            if self.freed[rq.domain] >= batch:
                self.freed[rq.domain] -= batch
                woken, self.waiting[rq.domain] = self.waiting[rq.domain], []
        answer = " ".join(f"run:{queue}" for queue in woken)
        self.say(f"finish {self.now} {rq.number}", answer)
        return answer

    def percentile(self, domain: int, kind: int, percent: int) -> int | None:
        samples = sorted(self.samples[domain, kind])
        tick = self.now // TICK_NS
        if not samples:
            return None
        if len(samples) < 500 and tick < self.patience.setdefault(domain, tick + 250):
            return None
        self.patience.pop(domain, None)
        self.samples[domain, kind] = []
        return samples[-(-len(samples) * percent // 100) - 1]

    def adjust(self) -> None:
        self.timer = NEVER
        self.say(f"tick {self.now}")
        p90 = [self.percentile(domain, IO, 90) for domain in range(3)]
        congested = any(bucket is not None and bucket >= 4 for bucket in p90)
        for domain in range(3):
            p99 = self.percentile(domain, TOTAL, 99)
            if congested:
                known = self.p99.pop(domain, None)
                p99 = known if p99 is None else p99
            elif p99 is not None:
                self.p99[domain] = p99
            if p99 is not None and (congested or p99 >= 4):
                self.depth[domain] = min(max(self.depth[domain] * (p99 + 1) // 4, 1), DEPTHS[domain])

    def pass_time(self, ns: int) -> None:
        end = self.now + ns
        while self.timer <= end:
            self.now = self.timer
            self.adjust()
        self.now = end

    def merge(self, domain: int, sector: int, sectors: int) -> None:
        """A bio joins one of the latest eight of a queue, if they are fresh."""
        answer = "-"
        for queue in range(self.queues):
            for rq in self.fresh[queue][domain][:-9:-1]:
                back = rq.sector + rq.sectors == sector
                if (back or sector + sectors == rq.sector) and rq.sectors + sectors <= 24:
                    rq.sector = rq.sector if back else sector
                    rq.sectors += sectors
                    answer = f"{rq.number} {rq.sector} {rq.sectors}"
                    break
            if answer != "-":
                break
        self.say(f"merge {sector} {sectors} {domain} 0 24", answer)

    def join(self, which: int, front: bool) -> None:
        """A bio beside a fresh request."""
        fresh = [rq for queue in self.fresh for domain in (READ, WRITE) for rq in queue[domain]]
        if fresh:
            rq = fresh[which % len(fresh)]
            if not front or rq.sector >= 8:
                self.merge(rq.domain, rq.sector - 8 if front else rq.sector + rq.sectors, 8)

    def run_all(self) -> None:
        for queue in range(self.queues):
            while self.dispatch(queue):
                pass

    def load(self, counts: dict[int, int], latency_ns: int) -> None:
        """Serve these numbers of requests by domain, spread over the queues, each with this latency in the
        drive.
        """
        for domain, count in counts.items():
            for i in range(count):
                self.insert(domain, i % self.queues)
        while any(
            self.fresh[queue][d] or self.flushed[queue][d] for queue in range(self.queues) for d in counts
        ):
            self.run_all()
            self.pass_time(latency_ns)
            while self.in_drive:
                self.finish()

    def empty(self) -> None:
        self.run_all()
        while self.in_drive:
            self.finish()
            self.run_all()

    def drain(self) -> Conversation:
        """Empty the scheduler, and let it show how many tokens reads and writes have."""
        self.empty()
        for _ in range(DEPTHS[READ] + 1):
            self.insert(READ)
            self.insert(WRITE)
        self.run_all()
        for domain in (READ, WRITE):
            assert sum(rq.domain == domain for rq in self.in_drive) == self.depth[domain]
        self.empty()
        self.say("end", 1)
        return self.conversation


INDEX = st.integers(0, 99)
DOMAIN = st.sampled_from([READ, READ, WRITE, WRITE, DISCARD, OTHER])
STEPS = st.one_of(
    st.tuples(st.just("insert"), DOMAIN, INDEX, st.integers(1, 20)),
    st.tuples(st.just("insert"), DOMAIN, INDEX, st.integers(1, 20)),
    st.tuples(st.just("dispatch"), INDEX, st.integers(1, 30)),
    st.tuples(st.just("finish"), INDEX, st.integers(1, 10)),
    st.tuples(st.just("join"), INDEX, st.booleans()),
    st.tuples(st.just("time"), st.sampled_from([1, 1000, 700_000, 3 * MS, 9 * MS, 104 * MS, 1100 * MS])),
    st.tuples(st.just("set"), st.integers(0, 1), st.sampled_from([0, 1, 3, MS, 2 * MS, 10 * MS])),
    st.tuples(
        st.just("load"),
        st.integers(0, 300),
        st.integers(0, 300),
        st.sampled_from([100_000, MS, 4 * MS, 12 * MS]),
    ),
)


def play_steps(play: Play, queues: int, steps: list[tuple[object, ...]]) -> None:
    model = Kyber(queues)
    for step in steps:
        match step:
            case ("insert", int(domain), int(where), int(count)):
                for i in range(count):
                    model.insert(domain, where % queues, head=not (where + i) % 16)
            case ("dispatch", int(where), int(most)):
                for _ in range(most):
                    model.dispatch(where % queues)
            case ("finish", int(which), int(most)):
                for _ in range(min(most, len(model.in_drive))):
                    model.finish(which)
            case ("join", int(which), bool(front)):
                model.join(which, front)
            case ("time", int(ns)):
                model.pass_time(ns)
            case ("set", int(domain), int(target)):
                model.set(domain, target)
            case ("load", int(reads), int(writes), int(latency_ns)):
                model.load({READ: reads, WRITE: writes}, latency_ns)
            case _:
                raise ValueError(step)
    play(model.drain())


def explore(play: Play, examples: int, **more: object) -> None:
    @settings(
        max_examples=examples,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        **more,  # type: ignore[arg-type]
    )
    @given(st.integers(1, 3), st.lists(STEPS, min_size=10, max_size=40))
    def as_the_model(queues: int, steps: list[tuple[object, ...]]) -> None:
        play_steps(play, queues, steps)

    as_the_model()


def test_decides_as_the_model_and_loses_nothing(play: Play) -> None:
    explore(play, 30)


def test_domains_take_turns_in_batches(play: Play) -> None:
    model = Kyber(1)
    for domain in DOMAINS:
        for _ in range(20):
            model.insert(domain)
    order = [rq.domain for rq in iter(model.dispatch, None)]
    first = [READ] * 16 + [WRITE] * 8 + [DISCARD, OTHER]
    assert order[:40] == first + [READ] * 4 + [WRITE] * 8 + [DISCARD, OTHER]
    play(model.drain())


def test_tokens_bound_what_is_in_the_drive(play: Play) -> None:
    model = Kyber()
    for domain, tokens in enumerate(DEPTHS):
        for i in range(tokens + 10):
            model.insert(domain, i % 2)
    model.run_all()
    counts = [sum(rq.domain == domain for rq in model.in_drive) for domain in DOMAINS]
    assert counts == list(DEPTHS)
    model.insert(READ, 0)
    model.dispatch(0)
    # every eighth token that is returned wakes all waiting queues
    woken = [model.finish() for _ in range(16)]
    assert [number for number, who in enumerate(woken) if who] == [7]
    assert woken[7] == "run:1 run:0", "the longest first"
    play(model.drain())


def test_congestion_takes_tokens_from_those_that_meet_their_target(play: Play) -> None:
    model = Kyber(1)
    model.load({READ: 600}, MS // 10)
    model.load({WRITE: 600}, 15 * MS)
    model.pass_time(200 * MS)
    # reads were in the first bucket: a quarter of 256; writes took longer than they should: no less
    assert model.depth[:2] == [64, 128]
    play(model.drain())


def test_a_good_latency_is_remembered_for_one_congestion(play: Play) -> None:
    model = Kyber(1)
    for _ in range(3):
        model.load({READ: 200}, 1_400_000)
    model.pass_time(200 * MS)
    assert model.depth[READ] == 256
    for _ in range(2):
        model.load({WRITE: 600}, 15 * MS)
        model.pass_time(200 * MS)
        assert model.depth[:2] == [256 * 3 // 4, 128]
    play(model.drain())


def test_a_domain_that_waits_for_tokens_gets_more(play: Play) -> None:
    model = Kyber(1)
    model.load({READ: 600}, MS // 10)
    model.load({WRITE: 600}, 15 * MS)
    model.pass_time(200 * MS)
    # the drive meets the target, and with 64 tokens reads do not
    model.load({READ: 600}, 1_900_000)
    model.pass_time(200 * MS)
    assert model.depth[:2] == [128, 128]
    play(model.drain())


@pytest.mark.parametrize(("slow", "congested"), [(50, False), (51, True)])
def test_a_tenth_may_be_slow(play: Play, slow: int, congested: bool) -> None:
    model = Kyber(1)
    model.load({WRITE: 600}, MS // 10)
    # a latency equal to the target is good
    for _ in range(10):
        model.load({READ: (500 - slow) // 10}, 2 * MS)
    model.load({READ: (500 - slow) % 10}, 2 * MS)
    model.load({READ: slow}, 2 * MS + 1)
    model.pass_time(200 * MS)
    assert model.depth[WRITE] == (32 if congested else 128)
    play(model.drain())


@pytest.mark.parametrize(("loads", "looked"), [(8, False), (14, True)])
def test_few_samples_wait_for_a_second_and_never_count_in_total(play: Play, loads: int, looked: bool) -> None:
    model = Kyber(1)
    model.load({WRITE: 600}, MS // 10)
    for _ in range(loads):
        model.load({READ: 20}, 100 * MS)
    assert len(model.samples[READ, TOTAL]) == 20 * loads
    assert (len(model.samples[READ, IO]) < 20 * loads) == looked
    assert model.depth[:2] == [256, 32 if looked else 128]
    play(model.drain())


def test_the_timer_is_armed_once_and_ends_on_a_tick(play: Play) -> None:
    model = Kyber(1)
    model.now = 10 * TICK_NS + 1
    for _ in range(3):
        model.insert(READ)
    model.run_all()
    for _ in range(3):
        model.finish()
    armed = [answer for _, answer in model.conversation if answer.startswith("arm")]
    assert armed == [f"arm:{36 * TICK_NS}"]
    play(model.drain())


def test_bios_join_the_latest_eight_while_they_are_fresh(play: Play) -> None:
    model = Kyber(1)
    for i in range(9):
        model.insert(WRITE, sector=1000 * i)
    model.merge(WRITE, 8, 8)
    model.merge(WRITE, 1008, 8)
    model.merge(WRITE, 1992, 8)
    answers = [answer for command, answer in model.conversation if command.startswith("merge")]
    assert answers == ["-", "1 1000 16", "2 1992 16"]
    model.dispatch()
    model.merge(WRITE, 3008, 8)
    assert model.conversation[-1][1] == "-"
    model.insert(WRITE, sector=20000)
    model.dispatch()
    model.merge(WRITE, 20008, 8)
    assert model.conversation[-1][1] == "9 20000 16", "no more are flushed before those have left"
    play(model.drain())


def test_a_quarter_of_the_tags_is_kept_for_those_who_wait(play: Play) -> None:
    model = Kyber()
    for op in (READ, WRITE):
        for tags, limit in ((256, 192), (64, 48), (2, 1), (1, 1)):
            model.say(f"limit {op} 0 0 {tags}", limit)
            model.say(f"limit {op} 1 0 {tags}", tags)
    play(model.drain())


def test_knobs_are_as_in_the_kernel(play: Play) -> None:
    model = Kyber()
    most = 2**64 - 1
    model.say("knobs", f"read_lat_nsec:0:{most}:2000000 write_lat_nsec:0:{most}:10000000")
    play(model.drain())


LAWS = (
    test_domains_take_turns_in_batches,
    test_tokens_bound_what_is_in_the_drive,
    test_congestion_takes_tokens_from_those_that_meet_their_target,
    test_a_good_latency_is_remembered_for_one_congestion,
    test_a_domain_that_waits_for_tokens_gets_more,
    lambda play: test_a_tenth_may_be_slow(play, 50, congested=False),
    lambda play: test_a_tenth_may_be_slow(play, 51, congested=True),
    lambda play: test_few_samples_wait_for_a_second_and_never_count_in_total(play, 8, looked=False),
    lambda play: test_few_samples_wait_for_a_second_and_never_count_in_total(play, 14, looked=True),
    test_the_timer_is_armed_once_and_ends_on_a_tick,
    test_bios_join_the_latest_eight_while_they_are_fresh,
)
MISTAKES = {
    "a token too many": ("if (token >= tokens->depth)\n\t\t\tbreak;", ""),
    "a wake-up for each token": ("++tokens->freed < batch", "!batch"),
    "nobody waits": ("list_add_tail(&q->waiting[domain], &tokens->waiting);", ";"),
    "a batch without end": ("q->batched++;", ""),
    "flushed early": ("if (list_empty(flushed))\n\t\tlist_splice", "list_splice"),
    "buckets a ns too low": ("div64_u64(latency - 1, width)", "div64_u64(latency, width)"),
    "a percentile too low": ("buckets[bucket] < rank; bucket++", "buckets[bucket] + 1 < rank; bucket++"),
    "samples that stay": ("buckets[i] = 0;", ";"),
    "no patience": ("samples < KYBER_SAMPLES && tick <", "tick && 0 <"),
    "no end of patience": ("samples < KYBER_SAMPLES && tick", "samples < KYBER_SAMPLES && 0 * tick"),
    "a p99 used twice": ("k->p99[domain] = -1;\n\t\t}", ";\n\t\t}"),
    "no congestion": ("congested = true;", ";"),
    "only congestion": ("p99 >= KYBER_GOOD_BUCKETS || (congested", "(congested"),
    "more tokens than there are": ("clamp_t(u32, depth, 1, kyber_depths[domain])", "max_t(u32, depth, 1)"),
}


def all_laws(play: Play) -> None:
    for law in LAWS:
        law(play)
    explore(play, 20, derandomize=True, database=None, phases=[Phase.generate])


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_noticed(assert_noticed: Callable[..., None], mistake: str) -> None:
    assert_noticed("kyber.c", *MISTAKES[mistake], all_laws)
