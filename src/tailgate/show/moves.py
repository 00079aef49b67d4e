# SPDX-License-Identifier: GPL-2.0-only
"""A line about the moves of knobs."""

from collections.abc import Sequence

from tailgate.watch.command import Move


def moved(moves: Sequence[Move]) -> str:
    """The number of moves, the range of each knob, and its last value, in words."""
    if not moves:
        return "watch: the knobs stayed where they were"
    ends = {name: [m.knobs[name] for m in moves] for name in moves[0].knobs}
    told = (f"{name} {min(seen)} to {max(seen)}, at the end {seen[-1]}" for name, seen in ends.items())
    return f"watch: {len(moves)} moves; {'; '.join(told)}"
