# SPDX-License-Identifier: GPL-2.0-only
"""The law by which knobs move: up while the protected requests are fast enough, down while they are not.

Between two neighbouring settings a drive may jump from far below the limit to far above it. The law then goes
back and forth between them, so that the mean is at the limit: more than any one setting gives. For that it
saves up: an interval below the aim adds the rest to the savings, one above the aim spends them.
"""

import math

#: Most savings and most debts, in aims times intervals. More savings would make the law late when the load
#: changes; more debts would hold others back for long then.
SAVINGS_MOST, DEBTS_MOST = 2.0, 3.0
#: What is aimed at while there are debts, in aims: they are paid by what is below.
PAYING = 0.85
#: Octaves of a step up, for each octave that the latency is below the aim; the least and the most of a step.
UP, UP_LEAST, UP_MOST = 0.7, 0.1, 1.0
#: Octaves of a step down: as many as the latency is above the aim, within these.
DOWN_LEAST, DOWN_MOST = 0.25, 3.0
#: All in octaves of the latency. A step down was wrong if the latency grew by more than GREW for each octave
#: of the step and by more than BY_CHANCE; a step up was right if it fell by FELL for each octave.
GREW, BY_CHANCE, FELL = 0.6, 0.25, 0.2


class Law:
    """Where on a way of `octaves` to stand, so that a mean latency is about `aim_us`.

    `bounds_all`: see tailgate.watch.way.Way. Too few requests at a time make the latency longer too, so a
    step that made it longer is followed by one in the other direction.
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

    def step(self, mean_us: float) -> float:
        """The next position, after an interval in which the mean latency was this."""
        ratio = mean_us / self._aim_us
        self._savings = min(SAVINGS_MOST, max(-DEBTS_MOST, self._savings + 1 - ratio))
        goal = 1.0 if self._savings >= 0 else PAYING
        if self._savings >= 0:
            self._way_out = -1
        elif ratio > goal and self._bounds_all and self._in_vain(ratio):
            self._way_out = -self._way_out
        move = 0.0
        if ratio <= goal and (self._savings >= 0 or self._way_out > 0):
            move = min(UP_MOST, max(UP_LEAST, -UP * math.log2(max(ratio, 1e-3))))
        elif ratio > goal and self._savings < 0:
            move = self._way_out * min(DOWN_MOST, max(DOWN_LEAST, math.log2(ratio)))
        self._last = ratio
        return self._go(move)

    def idle(self) -> float:
        """The next position, after an interval in which there was nothing to protect."""
        self._last = 0.0
        return self._go(UP_MOST)

    def _in_vain(self, ratio: float) -> bool:
        """Whether the last step on the way out led away from it.

        Where the protected requests wait for each other, twice as many at a time take half as long. So a step
        down was wrong if the latency grew clearly, and a step up is right only if it fell clearly.
        """
        if self._last <= PAYING or self._moved * self._way_out <= 0:
            return self.position == (0.0 if self._way_out < 0 else self._octaves)
        grew = math.log2(ratio / self._last)
        if self._way_out > 0:
            return grew > -FELL * self._moved
        return grew > max(BY_CHANCE, -GREW * self._moved)

    def _go(self, move: float) -> float:
        before = self.position
        self.position = min(self._octaves, max(0.0, before + move))
        self._moved = self.position - before
        return self.position
