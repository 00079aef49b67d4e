# SPDX-License-Identifier: GPL-2.0-only
"""The faults that K2 once had; for each the edit that puts it back into today's code, and what then fails.

An edit replaces what stands exactly once in the sources, so it says nothing about files. Where the code that
was wrong is gone, the edit makes today's code do what that did.
"""

from dataclasses import dataclass

from tests.swarm.faults import K2_FAULTS as SWARM_FAULTS

#: The swarm test: some law is broken within the scenarios that `make swarm-faults` plays.
SWARM = "tests/swarm"
K2_FAULTS = "tests/unit/test_k2_faults.py::test_"
BTFCHECK = "tests/unit/test_btfcheck.py::test_"
#: Folders in which an edit looks for its text.
SOURCES = ("sched", "kernel", "sim")

#: What stands exactly once in the sources, and what takes its place.
Edit = tuple[str, str]


def guest(machine: str, part: str) -> str:
    """The test that runs a part in a virtual machine."""
    return f"tests/vm/test_k2.py::test_part[{machine}-{part}]"


def from_swarm(what: str) -> tuple[Edit, ...]:
    """The edit of a fault that the swarm test looks for."""
    [fault] = [fault for fault in SWARM_FAULTS if fault.what == what]
    return ((fault.old, fault.new),)


@dataclass(frozen=True)
class Row:
    """A fault."""

    #: A letter marks faults that are smaller and were found together.
    number: str
    what: str
    #: Puts it back.
    edits: tuple[Edit, ...] = ()
    #: What fails then: SWARM and tests of pytest, each of them.
    tests: tuple[str, ...] = ()
    #: Instead of edits and tests: why it cannot be shown.
    reason: str = ""


ROWS = (
    Row(
        "1",
        "what the background got while it was alone counted against its floor, and it starved later",
        (
            *from_swarm("what the background gets while nothing else runs counts against its floor later"),
            (
                "	if (list >= K2_LIST_BACKGROUND)\n		k2->floor.due_ns",
                "	if (false)\n		k2->floor.due_ns",
            ),
        ),
        (f"{K2_FAULTS}the_floor_forgets_what_the_background_got_alone", SWARM),
    ),
    Row(
        "2",
        "a background request that the floor owed and no bound let go held up the real-time requests",
        from_swarm("a background request that is owed and does not fit holds up a real-time one"),
        (f"{K2_FAULTS}a_background_request_that_is_owed_but_too_large_holds_up_nothing", SWARM),
    ),
    Row(
        "3",
        "requests that are too large but cannot be split passed the bound on bytes",
        from_swarm("requests that cannot be split pass the bound on bytes"),
        (f"{K2_FAULTS}what_cannot_be_split_is_bound_too", SWARM),
    ),
    Row(
        "4",
        "a latency target that was given up bound the debt of writes, which nothing had asked for",
        from_swarm("the debt of writes is bound although nothing asks for that"),
        ("tests/unit/test_k2_debt.py::test_debt_is_bounded[off]", SWARM),
    ),
    Row(
        "4a",
        "a latency target out of reach held the background back for what no bound mends",
        (("lift += (late * TARGET_LIFT_ODDS * rarer - in_time)", "lift += 0"),),
        (f"{K2_FAULTS}a_target_out_of_reach_leaves_the_background_its_share",),
    ),
    Row(
        "5",
        "what was held before bounds came into force hid a real-time request that could go",
        from_swarm("a background request that is held hides real-time ones"),
        (f"{K2_FAULTS}real_time_fits_when_bounds_begin", SWARM),
    ),
    Row(
        "6",
        "bytes that went while no bound was in force were not counted when one came into force",
        from_swarm("bytes that went while no bound was in force are not counted"),
        (f"{K2_FAULTS}bytes_count_before_bounds_begin", SWARM),
    ),
    Row(
        "7",
        "a latency target above 4.2 s wrapped around",
        from_swarm("a target of more than 4.2 s wraps around"),
        (f"{K2_FAULTS}a_target_of_more_than_four_seconds", SWARM),
    ),
    Row(
        "8",
        "of two times to look again, the timer could be set to the later",
        from_swarm("the timer is set to the latest time that was asked for"),
        (f"{K2_FAULTS}the_earliest_time_is_armed", SWARM),
    ),
    Row(
        "9",
        "a change of the scheduler waited for ever for a reader whose memory is paged in from that disk",
        (
            (
                "WARN_ON_ONCE(!this_scheduler.deinit(&instance->algorithm));",
                "WARN_ON_ONCE(!this_scheduler.deinit(&instance->algorithm));\n"
                "\tstatistics_module_exit();\n\tstatistics_file = NULL;",
            ),
            (
                "	this_scheduler.init(instance);",
                "	this_scheduler.init(instance);\n\tif (!statistics_file)\n\t\tstatistics_module_init();",
            ),
        ),
        (guest("stable-smp4", "paged"),),
    ),
    Row(
        "10",
        "a request that was split did not end for cgroup policies: iocost took the cgroup for busy for ever",
        (("split_end_throttling(bio);", "bio_clear_flag(bio, BIO_QOS_THROTTLED);"),),
        (guest("stable-smp4", "iocost"),),
    ),
    Row(
        "11",
        "requests were held while the queue was being frozen: the disk stood still for up to 10 s",
        from_swarm("the background is held while the queue is being frozen"),
        (f"{K2_FAULTS}a_frozen_queue_holds_nothing", SWARM),
    ),
    Row(
        "12",
        "with strict priority by default, a CPU that went offline waited for held background without end",
        (
            (
                'knob(be_floor_iops, "requests/s", 0, 1000000, 1, 10,',
                'knob(be_floor_iops, "requests/s", 0, 1000000, 1, 0,',
            ),
        ),
        (guest("stable-smp4", "hotplug"),),
    ),
    Row(
        "13",
        "after a kernel was refused, a second `make` went on with half-written checks",
        ((".DELETE_ON_ERROR:", ""),),
        (f"{BTFCHECK}a_refused_kernel_is_refused_again",),
    ),
    Row(
        "14",
        "without BTF=, the type information of the running kernel was taken for that of any kernel",
        (("$(if $(is_running),$(wildcard /sys/kernel/btf/vmlinux))", "$(wildcard /sys/kernel/btf/vmlinux)"),),
        (f"{BTFCHECK}type_information_of_another_kernel_is_not_taken",),
    ),
    Row(
        "15",
        "storing a threshold for slow requests allocated memory under a lock that reclaim may wait for",
        reason="the code is gone: tracepoints report slow requests, and no knob allocates",
    ),
    Row(
        "16",
        "splitting a request at insertion kept a slot of the drive's inline encryption for ever",
        reason="needs inline encryption, which Debian's kernels lack: part `encrypted` of make check-debug",
    ),
    Row(
        "17",
        "one workqueue split for all disks: of two stacked disks, one could wait for its own thread",
        (
            ("return workers ? workers : split_stand_in;", "return split_stand_in;"),
            # one thread, which is what a workqueue has when memory is short; today each disk's has one
            (
                'alloc_workqueue("%s_split", WQ_MEM_RECLAIM | WQ_UNBOUND, 0,',
                'alloc_workqueue("%s_split", WQ_MEM_RECLAIM | WQ_UNBOUND, 1,',
            ),
        ),
        (guest("stable-smp4", "stack"),),
    ),
    Row(
        "18a",
        "an insertion that splitting had emptied marked its hardware queue as filled",
        reason="no fault: it costs one run of the queue in vain, which k2_has_work() allows",
    ),
    Row(
        "18b",
        "a number for write_debt_kib_max was limited to 32 to 4096 without a word",
        from_swarm("a number for write_debt_kib_max is limited to the range of auto"),
        (SWARM,),
    ),
    Row(
        "18c",
        "a pause for the debt of writes could last 16 s",
        from_swarm("a pause of the debt of writes has no longest"),
        (SWARM,),
    ),
    Row(
        "18d",
        "the check of the kernel's types skipped functions that it did not find",
        (
            (
                """die("the kernel's type information has no %s()", name);""",
                "return;",
            ),
        ),
        (f"{BTFCHECK}a_missing_function_is_named[elv_register]",),
    ),
    Row(
        "18e",
        "the value of BLK_MQ_INSERT_AT_HEAD was checked by nothing",
        (("((__force blk_insert_t)0x01)", "((__force blk_insert_t)0x02)"),),
        (guest("backports-icount1", "returned"),),
    ),
    Row(
        "18f",
        "the values of enum elv_merge were checked by nothing",
        (("""assert_enum("elv_merge");""", "(void)assert_enum;"),),
        (f"{BTFCHECK}a_missing_enum_is_named", f"{BTFCHECK}what_is_written_is_c"),
    ),
    Row(
        "18g",
        "a kernel of 32 bits was accepted, where a request has no room for what K2 notes in it",
        (("""#error "Tailgate needs a kernel of 64 bits"\n""", ""),),
        (f"{BTFCHECK}a_kernel_of_32_bits_is_refused",),
    ),
    Row(
        "18h",
        "a request that could not be cut was taken apart again and again",
        reason="a cut waits for memory, and bio_split() has no other reason to fail for what may be split",
    ),
    Row(
        "22",
        "hardware queues that were replaced while the scheduler changed left freed memory in the statistics",
        (
            (
                "static struct elevator_type this_type = {\n",
                """static int hctx_begins(struct blk_mq_hw_ctx *hctx, unsigned int index)
{
	hctx->sched_data = instance_of(hctx->queue);
	return 0;
}

static void hctx_ends(struct blk_mq_hw_ctx *hctx, unsigned int index)
{
	struct instance *instance = hctx->sched_data;

	mutex_lock(&instances_lock);
	list_del_init(&instance->node);
	mutex_unlock(&instances_lock);
}

static struct elevator_type this_type = {
""",
            ),
            (
                ".finish_request = requests_finish,",
                ".finish_request = requests_finish,\n"
                "		.init_hctx = hctx_begins,\n		.exit_hctx = hctx_ends,",
            ),
            ("	list_del(&instance->node);\n", ""),
        ),
        (guest("backports-slab2", "resize"),),
    ),
    Row(
        "23a",
        "with a floor set, other bounds together starved the background for as long as real-time load lasted",
        from_swarm("a floor that is owed a request arms no timer"),
        (SWARM,),
    ),
    Row(
        "23b",
        "the simulator's own check took real-time requests for bound in bytes, which they are not",
        (
            (
                "too_large = bounded && background && promises_->inflight_kib_max &&",
                "too_large = bounded && promises_->inflight_kib_max &&",
            ),
        ),
        ("tests/unit/test_simulator_laws.py::test_laws_hold",),
    ),
)
