# SPDX-License-Identifier: GPL-2.0-only
"""sim/schedulers/mqfq.c: what it makes of the simulator's requests. MQFQ's own promises: ../test_mqfq.py."""

from collections.abc import Callable

RT, BE, IDLE = 1 << 13, 2 << 13, 3 << 13
READ, WRITE = 0, 1
Play = Callable[[list[tuple[str, str]]], None]


def insert(number: int, sector: int, ioprio: int = BE, now: int = 0) -> tuple[str, str]:
    return f"insert {now} {number} 0 {READ} {sector} 8 {ioprio} 0", ""


def merge(sector: int, ioprio: int = BE, most: int = 32) -> str:
    return f"merge {sector} 8 {READ} {ioprio} {most}"


def test_bios_join_the_latest_requests_of_their_flow(play: Play) -> None:
    talk = [("new mqfq 1 256", ""), ("set flow_by 1", "0"), ("as 1 0 0", ""), insert(0, 0)]
    talk += [
        ("as 2 0 0", ""),
        (merge(8), "-"),  # another process
        ("as 1 0 0", ""),
        (merge(8), "0 0 16"),
        (merge(16, RT), "-"),
        (merge(16, most=16), "-"),
        insert(1, 1000, RT),
        (merge(1008, RT), "1 1000 16"),
    ]
    talk += [insert(number, 1000 * number) for number in range(2, 9)]
    talk += [(merge(16), "0 0 24"), insert(9, 9000), (merge(24), "-")]  # of eight requests at most
    talk += [("dispatch 0 0", "1"), (merge(1016, RT), "-"), ("dispatch 0 0", "0"), ("end", "0")]
    play(talk)


def test_what_joins_is_paid_for(play: Play) -> None:
    """A flow whose request two bios joined is served later than a flow that sent a single request."""
    talk = [("new mqfq 1 256", ""), ("set flow_by 1", "0"), ("set d 1", "0"), ("as 1 0 0", "")]
    talk += [insert(0, 0), (merge(8), "0 0 16"), (merge(16), "0 0 24"), insert(1, 1000)]
    talk += [("as 2 0 0", ""), insert(2, 2000), insert(3, 3000)]
    talk += [("dispatch 0 0", "0"), ("finish 0 0", ""), ("dispatch 0 0", "2"), ("finish 0 2", "")]
    talk += [
        ("dispatch 0 0", "3"),
        ("finish 0 3", ""),
        ("dispatch 0 0", "1"),
        ("finish 0 1", ""),
        ("end", "1"),
    ]
    play(talk)


def test_tags_are_kept_for_real_time_tasks(play: Play) -> None:
    limits = [
        (f"limit {READ} 1 {RT} 16", "16"),
        (f"limit {READ} 1 {BE} 16", "14"),
        (f"limit {READ} 1 {IDLE} 16", "12"),
    ]
    play([("new mqfq 1 16", ""), *limits, ("end", "1")])
    # no limit where tags are plenty and nothing waits
    play([("new mqfq 1 256", ""), (f"limit {READ} 1 {IDLE} 256", "256"), ("end", "1")])


def test_the_time_goes_on_without_insertions(play: Play) -> None:
    """A request of class idle goes before others once it has waited for a second."""
    talk = [("new mqfq 1 256", ""), insert(0, 0, IDLE), *[insert(n, 1000 * n) for n in (1, 2, 3)]]
    play([*talk, ("dispatch 0 0", "1"), ("dispatch 2000000000 0", "0"), ("end", "0")])
