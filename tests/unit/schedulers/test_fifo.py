# SPDX-License-Identifier: GPL-2.0-only
"""The example of a scheduler, sched/fifo.h with sim/schedulers/fifo.c: order of insertion, and its bound."""

from collections.abc import Callable

import pytest

RT, BE = 1 << 13, 2 << 13
Play = Callable[[list[tuple[str, str]]], None]


def insert(number: int, queue: int = 0, ioprio: int = BE, head: bool = False) -> tuple[str, str]:
    return f"insert 0 {number} {queue} 0 {100 * number} 8 {ioprio} {head:d}", ""


def check_order(play: Play) -> None:
    """Order of insertion holds for any priority and hardware queue; requeued requests go first."""
    play(
        [
            ("new fifo 2 256", ""),
            insert(0),
            insert(1, 1),
            insert(2, 0, RT),
            insert(3, head=True),
            *((f"dispatch {n % 2} 0", str(expected)) for n, expected in enumerate((3, 0, 1, 2))),
            ("dispatch 0 0", "-"),
            *((f"finish 0 {number}", "") for number in range(4)),
            ("end", "1"),
        ]
    )


def check_bound(play: Play) -> None:
    """A completion lets the next request go, and so does a larger bound."""
    play(
        [
            ("new fifo 1 256", ""),
            ("set inflight_max 1", "0"),
            *(insert(number) for number in range(3)),
            ("dispatch 0 0", "0"),
            ("work 0", "0"),
            ("dispatch 0 0", "-"),
            ("finish 0 0", "run:0"),
            ("work 0", "1"),
            ("dispatch 0 0", "1"),
            ("dispatch 0 0", "-"),
            ("set inflight_max 2", "run:0 0"),
            ("dispatch 0 0", "2"),
            ("finish 0 1", ""),
            ("finish 0 2", ""),
            ("end", "1"),
        ]
    )


@pytest.mark.parametrize("check", [check_order, check_bound])
def test_promises(play: Play, check: Callable[[Play], None]) -> None:
    check(play)


#: What stands in sched/fifo.h, what stands there instead, and the check that must notice.
MISTAKES: dict[str, tuple[str, str, Callable[[Play], None]]] = {
    "the newest first": (
        "list_splice_tail_init(entries, &f->list)",
        "list_splice_init(entries, &f->list)",
        check_order,
    ),
    "what is wanted back goes last": ("if (at_head)", "if (0)", check_order),
    "one too many": (
        "(int)READ_ONCE(f->knobs[FIFO_KNOB_inflight_max])",
        "(int)READ_ONCE(f->knobs[FIFO_KNOB_inflight_max]) + 1",
        check_bound,
    ),
    "what goes does not count": ("atomic_inc(&f->inflight);", "", check_bound),
    "no queue runs at an end": ("return READ_ONCE(f->queued);", "return false;", check_bound),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_noticed(assert_noticed: Callable[..., None], mistake: str) -> None:
    assert_noticed("fifo.c", *MISTAKES[mistake])
