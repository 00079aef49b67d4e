# SPDX-License-Identifier: GPL-2.0-only
"""Scenarios that once broke a law and are too rare to be found again soon, with the fault of each."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Found:
    """A scenario, as short as was found, and the edit of sched/ that puts the fault back."""

    scheduler: str
    what: str
    old: str
    new: str
    scenario: str


FOUND = (
    Found(
        "k2",
        "the time between two requests, of which the first was slow, is a period however long",
        "	    gap_ns[ARRIVALS_FROM_ARRIVAL] > ARRIVALS_GAP_NS_MAX ||\n",
        "",
        """\
seed number=0
queues count=1
tags count=24
time us=1499960
drive slots=1 dies=1 read_us=1 program_us=1 buffer_kib=64 discard_us=0 \
read_rare_us=0 write_rare_us=0 drain_kib_ns=0 stall_us=0
knob knob=rt_target_us value=4294967295
task level=8 op=0 kib=4 depth=2 think_us=0 open=0 begin_us=0 end_us=187464 whole=0 cgroup=0 weight=1
task level=0 op=0 kib=4 depth=1 think_us=40 open=1 begin_us=0 end_us=1499960 whole=0 cgroup=0 weight=1
task level=1 op=0 kib=4 depth=1 think_us=59 open=1 begin_us=0 end_us=187463 whole=0 cgroup=0 weight=1
faults requeue_pct=0 busy_pct=19 merge_pct=0
""",
    ),
    Found(
        "k2",
        "what arrives while nothing depends on real-time activity is a gap later",
        "k2->activity = (struct activity){ .begun = k2->activity.begun };",
        ";",
        """\
seed number=0
queues count=1
tags count=2
time us=479960
drive slots=1 dies=1 read_us=1 program_us=1 buffer_kib=64 discard_us=0 \
read_rare_us=0 write_rare_us=0 drain_kib_ns=0 stall_us=0
knob knob=bound_when value=1
set at_us=3 knob=bound_when value=0
set at_us=286539 knob=rt_target_us value=4294967295
task level=8 op=0 kib=4 depth=1 think_us=0 open=0 begin_us=0 end_us=479960 whole=0 cgroup=0 weight=1
task level=0 op=0 kib=4 depth=1 think_us=4962 open=0 begin_us=0 end_us=356799 whole=0 cgroup=0 weight=1
""",
    ),
    Found(
        "mqfq",
        "a flow whose end is raised, as tags wrap, seems to have used its share",
        "atomic64_try_cmpxchg(&f->flows[i].end, &end, to))\n			flow_break(&f->flows[i]);",
        "atomic64_try_cmpxchg(&f->flows[i].end, &end, to))\n			;",
        """\
seed number=107
queues count=2
tags count=12
time us=29471
drive slots=4 dies=4 read_us=11 program_us=52 buffer_kib=64 discard_us=0 \
read_rare_us=414 write_rare_us=0 drain_kib_ns=0 stall_us=0
task level=8 op=0 kib=12 depth=2 think_us=1 open=0 begin_us=0 end_us=19434 whole=0 cgroup=4 weight=5
task level=8 op=0 kib=153 depth=1 think_us=184 open=0 begin_us=0 end_us=29469 whole=0 cgroup=1 weight=22
task level=8 op=0 kib=12 depth=6 think_us=0 open=0 begin_us=0 end_us=16410 whole=0 cgroup=0 weight=100
task level=8 op=1 kib=765 depth=10 think_us=3 open=0 begin_us=0 end_us=29462 whole=0 cgroup=0 weight=100
task level=8 op=0 kib=10 depth=4 think_us=624 open=0 begin_us=0 end_us=34254 whole=0 cgroup=4 weight=5
task level=0 op=1 kib=9 depth=1 think_us=0 open=0 begin_us=0 end_us=26523 whole=0 cgroup=0 weight=1
faults requeue_pct=4 busy_pct=0 merge_pct=0
""",
    ),
    Found(
        "mqfq",
        "requests that go first because their CPU is to go offline count as unfair",
        "			mqfq_break(m); /* its requests do not go by share */\n",
        "",
        """\
seed number=0
queues count=2
tags count=7
time us=33963
drive slots=1 dies=1 read_us=1 program_us=1 buffer_kib=64 discard_us=0 \
read_rare_us=0 write_rare_us=0 drain_kib_ns=0 stall_us=0
task level=8 op=1 kib=4 depth=3 think_us=0 open=0 begin_us=0 end_us=33062 whole=0 cgroup=0 weight=1
task level=8 op=0 kib=4 depth=7 think_us=0 open=0 begin_us=0 end_us=33962 whole=0 cgroup=3 weight=1
offline at_us=18743 queue=0 for_us=45
""",
    ),
)
