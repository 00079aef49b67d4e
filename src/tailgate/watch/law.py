# SPDX-License-Identifier: GPL-2.0-only
"""The control law: moves the knobs up while the protected requests are fast enough, down otherwise.

Between two neighbouring settings a drive may jump from far below the limit to far above it. The law then goes
back and forth between them, so that the mean latency is at the limit; this gives more throughput than any one
setting. For that it keeps a balance: an interval below the target latency adds the difference to the balance,
an interval above the target takes it away.
"""

import math

#: Largest positive and largest negative balance. Unit: the target latency during one interval. With a larger
#: positive balance the law would react late to a new load; with a larger negative one it would hold other
#: requests back for long.
SAVINGS_MOST, DEBTS_MOST = 2.0, 3.0
#: Target while the balance is negative, as a share of the usual target: latencies below it restore the
#: balance.
PAYING = 0.85
#: Size of a step up, in octaves for each octave that the latency is below the target; the least and the
#: largest step.
UP, UP_LEAST, UP_MOST = 0.7, 0.1, 1.0
#: Least and largest step down, in octaves. Between them, a step is as large as the excess of the latency.
DOWN_LEAST, DOWN_MOST = 0.25, 3.0
#: Octaves of latency for each octave of a step. A step down was wrong if the latency grew by more than GREW
#: for each octave of the step, and in all by more than it does by chance: BY_CHANCE, and for few requests
#: BY_FEW over the square root of their number. A step up was right if it fell by at least FELL for each
#: octave.
GREW, BY_CHANCE, BY_FEW, FELL = 0.6, 0.25, 4.0, 0.2


class Law:
    """Chooses the position on a path of `octaves` octaves, so that the mean latency is about `aim_us`.

    `bounds_all`: see tailgate.watch.way.Way. Too few requests in flight lengthen the latency too, so if a
    step made it longer, the next step goes in the other direction.
    """

    def __init__(self, aim_us: float, octaves: float, position: float, bounds_all: bool) -> None:
        self.position = position
        self._aim_us = aim_us
        self._octaves = octaves
        self._bounds_all = bounds_all
        self._savings = 0.0
        self._last = 0.0
        self._moved = 0.0
        self._way_out = -1

    def step(self, mean_us: float, requests: int) -> float:
        """The next position, after an interval: the mean latency and the number of its requests."""
        ratio = mean_us / self._aim_us
        self._savings = min(SAVINGS_MOST, max(-DEBTS_MOST, self._savings + 1 - ratio))
        goal = 1.0 if self._savings >= 0 else PAYING
        if self._savings >= 0:
            self._way_out = -1
        elif ratio > goal and self._bounds_all and self._in_vain(ratio, requests):
            self._way_out = -self._way_out
        move = 0.0
        if ratio <= goal and (self._savings >= 0 or self._way_out > 0):
            move = min(UP_MOST, max(UP_LEAST, -UP * math.log2(max(ratio, 1e-3))))
        elif ratio > goal and self._savings < 0:
            move = self._way_out * min(DOWN_MOST, max(DOWN_LEAST, math.log2(ratio)))
        self._last = ratio
        return self._go(move)

    def idle(self) -> float:
        """The next position, after an interval without protected requests."""
        self._last = 0.0
        return self._go(UP_MOST)

    def _in_vain(self, ratio: float, requests: int) -> bool:
        """Whether the last step against a long latency made it longer.

        Where the protected requests wait for each other, twice as many in flight take half as long. So a step
        down was wrong if the latency grew clearly, and a step up is right only if the latency fell clearly.
        """
        if self._last <= PAYING or self._moved * self._way_out <= 0:
            return self.position == (0.0 if self._way_out < 0 else self._octaves)
        grew = math.log2(ratio / self._last)
        if self._way_out > 0:
            return grew > -FELL * self._moved
        return grew > max(BY_CHANCE, BY_FEW / math.sqrt(requests), -GREW * self._moved)

    def _go(self, move: float) -> float:
        before = self.position
        self.position = min(self._octaves, max(0.0, before + move))
        self._moved = self.position - before
        return self.position
