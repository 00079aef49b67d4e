# SPDX-License-Identifier: GPL-2.0-only
"""Which bios join a queued request, with each scheduler that merges: blk_rq_merge_ok()."""

import pytest
from tests.unit.schedulers.conftest import Conversation, Play

READ, WRITE = 0, 1
JOINS = f"merge 8 8 {WRITE} 0 32"


@pytest.mark.parametrize("scheduler", ["k2", "mq-deadline", "kyber", "mqfq"])
@pytest.mark.parametrize(
    ("request_as", "bio_as"),
    [("0 1 0", "0 2 0"), ("0 1 0", "0 0 0"), ("0 1 1", "0 1 1"), ("0 1 1", "0 1 0"), ("0 1 0", "0 1 1")],
    ids=["another cgroup", "the root", "both FUA", "the request is FUA", "the bio is FUA"],
)
def test_what_does_not_join(scheduler: str, request_as: str, bio_as: str, play: Play) -> None:
    talk: Conversation = [
        (f"new {scheduler} 1 256", ""),
        (f"as {request_as}", ""),
        (f"insert 0 0 0 {WRITE} 0 8 0 0", ""),
        (f"as {bio_as}", ""),
        (JOINS, "-"),
        ("as 0 1 0", ""),
    ]
    if request_as == "0 1 0":
        talk.append((JOINS, "0 0 16"))
    play([*talk, ("end", "0")])
