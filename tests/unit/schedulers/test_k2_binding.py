# SPDX-License-Identifier: GPL-2.0-only
"""sim/schedulers/k2.c: what it makes of the simulator's requests. K2's own promises: ../test_k2.py."""

from collections.abc import Callable

RT, BE = 1 << 13, 2 << 13
READ, WRITE = 0, 1
Play = Callable[[list[tuple[str, str]]], None]


def insert(number: int, sector: int, ioprio: int = BE, head: bool = False) -> tuple[str, str]:
    return f"insert 0 {number} {number % 2} {READ} {sector} 8 {ioprio} {head:d}", ""


def test_levels_the_bound_and_wakes(play: Play) -> None:
    play(
        [
            ("new k2 2 256", ""),
            ("set be_floor_iops 0", "0"),
            ("set inflight_max 2", "0"),
            ("set inflight_max 0", "-34"),
            insert(0, 0),
            insert(1, 100, RT | 3),
            insert(2, 200, RT),
            insert(3, 300, head=True),
            ("dispatch 0 1", "3"),
            ("dispatch 0 0", "2"),
            ("dispatch 0 0", "-"),
            ("work 0", "0"),
            ("finish 0 4000", ""),
            ("finish 0 3", "run:1"),
            ("dispatch 0 0", "1"),
            ("finish 0 1", "run:1"),
            ("finish 0 2", ""),
            ("dispatch 0 0", "0"),
            ("end", "0"),
        ]
    )


def test_bios_join_what_waits_and_ends_where_they_begin(play: Play) -> None:
    talk = [
        ("new k2 2 256", ""),
        insert(0, 0),
        insert(1, 100, head=True),
        (f"merge 8 8 {READ} {BE} 32", "0 0 16"),
        (f"merge 8 8 {READ} {BE} 32", "-"),
        (f"merge 16 8 {WRITE} {BE} 32", "-"),
        (f"merge 16 8 {READ} {RT} 32", "-"),
        (f"merge 16 24 {READ} {BE} 32", "-"),
        (f"merge 16 16 {READ} {BE} 32", "0 0 32"),
        (f"merge 108 8 {READ} {BE} 32", "-"),  # at the head: nobody joins it
    ]
    # one that was inserted more than two generations ago is not joined either
    talk += [insert(number, 1000 * number) for number in range(2, 300)]
    talk += [(f"merge 2008 8 {READ} {BE} 32", "-"), (f"merge 299008 8 {READ} {BE} 32", "299 299000 16")]
    talk += [
        ("set inflight_max 1000", "run:0 0"),
        ("dispatch 0 0", "1"),
        (f"merge 32 8 {READ} {BE} 64", "-"),
        ("end", "0"),
    ]
    play(talk)


def test_what_is_too_large_by_now_goes_back_to_be_split(play: Play) -> None:
    play(
        [
            ("new k2 2 256", ""),
            ("set split_kib 516", "-34"),
            insert(0, 0),
            (f"merge 8 8 {READ} {BE} 32", "0 0 16"),
            insert(1, 100),
            ("set split_kib 4", "run:0 0"),
            ("dispatch 0 0", "split:0 1"),
            (f"merge 16 8 {READ} {BE} 32", "-"),
            ("finish 0 1", ""),
            ("end", "1"),
        ]
    )


def test_tags_are_kept_for_real_time_tasks(play: Play) -> None:
    play(
        [
            ("new k2 1 256", ""),
            (f"limit {READ} 1 {BE} 128", "96"),
            (f"limit {READ} 1 {RT} 128", "128"),
            # 256 tags need no limit while nothing waits
            (f"limit {READ} 1 {BE} 256", "256"),
            ("set rt_tags 0", "0"),
            (f"limit {WRITE} 0 0 128", "128"),
            ("end", "1"),
        ]
    )
