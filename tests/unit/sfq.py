# SPDX-License-Identifier: GPL-2.0-only
"""SFQ(D), an independent reference for MQFQ, and scripts for both.

W. Jin, J. S. Chase, J. Kaur, "Interposed Proportional Sharing for a Storage Service Utility",
SIGMETRICS 2004.
"""

from collections import Counter, defaultdict
from fractions import Fraction
from heapq import heappop, heappush
from itertools import groupby
from random import Random

#: A sector of weight 1, as a tag of MQFQ: SHARES_SECTOR times SHARES_WEIGHT.
TAG = 65536 * 100
#: Weights by which that can be divided, so that tags of MQFQ are exact.
WEIGHTS = (1, 2, 5, 10, 25, 50, 100, 128, 200, 400, 1600, 6400)


class Sfq:
    """At most `depth` requests outstanding; the waiting request with the least start tag is dispatched
    next.
    """

    def __init__(self, depth: int, rng: Random) -> None:
        self.depth, self.rng = depth, rng
        self.virtual_time = Fraction(0)
        self.finish: defaultdict[int, Fraction] = defaultdict(Fraction)
        self.waiting: list[tuple[Fraction, float, int, int]] = []
        self.queued: Counter[int] = Counter()
        self.submitted = self.outstanding = 0
        #: Start tag and number of each dispatched request, in order.
        self.went: list[tuple[Fraction, int]] = []

    def submit(self, flow: int, weight: int, sectors: int) -> None:
        start = max(self.virtual_time, self.finish[flow])
        self.finish[flow] = start + Fraction(sectors, weight)
        # among equal tags, a random one goes first
        heappush(self.waiting, (start, self.rng.random(), self.submitted, flow))
        self.submitted += 1
        self.queued[flow] += 1

    def end(self, count: int) -> None:
        self.outstanding -= count
        while self.waiting and self.outstanding < self.depth:
            start, _, number, flow = heappop(self.waiting)
            self.virtual_time = start
            self.outstanding += 1
            self.queued[flow] -= 1
            self.went.append((start, number))


def play(seed: int) -> tuple[Sfq, list[str]]:
    """SFQ(D) after requests of random flows at random times, all flows being backlogged; and the script."""
    rng = Random(seed)
    sfq = Sfq(rng.choice((1, 2, 3, 8, 32, 64)), rng)
    weights = [rng.choice(WEIGHTS) for _ in range(rng.randint(2, 8))]
    script: list[str] = []

    def submit(flow: int) -> None:
        sectors = rng.choice((1, 8, 8, rng.randint(1, 2048)))
        sfq.submit(flow, weights[flow], sectors)
        script.append(f"submit {flow + 1} {weights[flow]} {sectors}")

    for _ in range(200):
        count = rng.randint(0, min(4, sfq.outstanding))
        goes = count + sfq.depth - sfq.outstanding
        for _ in range(rng.randint(0, 4)):
            submit(rng.randrange(len(weights)))
        # flows stay backlogged even if all dispatches are theirs; MQFQ dispatches one more request of equal
        # tags
        for flow in range(len(weights)):
            while sfq.queued[flow] < goes + 2:
                submit(flow)
        sfq.end(count)
        script.append(f"end {count}")
    return sfq, script


def by_tag(went: list[tuple[Fraction, int]]) -> list[tuple[Fraction, set[int]]]:
    """The order of dispatch, with requests of equal tags as a set; not all of the last tag may have gone."""
    groups = groupby(went, lambda request: request[0])
    return [(tag, {number for _, number in same}) for tag, same in groups][:-1]
