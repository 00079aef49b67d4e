/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Deadline: as Linux's mq-deadline decides (Documentation/block/deadline-iosched.rst, ioprio.rst), for comparison.
 * Three I/O priority classes; in each, reads and writes in the order of their sectors, in batches, until the oldest has
 * waited too long. A class goes only while nothing of a higher one is queued or in the drive, or when it has waited for
 * prio_aging_expire.
 *
 * Time is counted in ticks of the kernel's clock, as there: an expiry is exact to a tick.
 *
 * Everything here is under one lock, the caller's. The environment says, before it includes deadline.c, where an
 * entry and its list node lie, and where the entry's request begins on the drive:
 *
 *	static struct list_head *deadline_node(struct deadline_entry *e);
 *	static struct deadline_entry *deadline_entry_of(struct list_head *node);
 *	static u64 deadline_sector(const struct deadline_entry *e);
 */
#ifndef TAILGATE_SCHED_DEADLINE_H
#define TAILGATE_SCHED_DEADLINE_H

#include <linux/list.h>
#include <linux/rbtree.h>
#include <linux/types.h>

#include "../knobs.h"

enum deadline_prio { DEADLINE_RT, DEADLINE_BE, DEADLINE_IDLE, DEADLINE_CLASSES };
enum deadline_direction { DEADLINE_READ, DEADLINE_WRITE, DEADLINE_DIRECTIONS };

/* Debian's kernels tick 250 times a second. */
#define DEADLINE_TICK_MS 4
#define DEADLINE_TICK_NS (DEADLINE_TICK_MS * 1000000)

/*
 * knob(name, unit, least, most, default, what it does): those of the kernel's sysfs, and keeps_next, in which
 * kernels differ
 */
/* clang-format off */
#define DEADLINE_KNOBS(knob) \
	knob(read_expire, "ms", 0, 2147483647, 500, \
	     "a read that waits for longer is served out of the order of sectors") \
	knob(write_expire, "ms", 0, 2147483647, 5000, \
	     "the same for writes") \
	knob(writes_starved, "batches", 0, 2147483647, 2, \
	     "batches of reads that go before a batch of writes") \
	knob(front_merges, "boolean", 0, 1, 1, \
	     "whether bios join requests that begin where they end") \
	knob(async_depth, "requests", 1, 2147483647, 2147483647, \
	     "scheduler tags of a hardware queue for all but synchronous reads, if it has more") \
	knob(fifo_batch, "requests", 0, 2147483647, 16, \
	     "requests that go in the order of sectors before the next choice") \
	knob(prio_aging_expire, "ms", 0, 2147483647, 10000, \
	     "a request that waits for longer goes before higher classes") \
	knob(keeps_next, "boolean", 0, 1, 0, \
	     "1: a batch goes on with what was next when the latest request left, as in 6.1; 0: with what is next now")
/* clang-format on */

enum deadline_knob {
#define DEADLINE_KNOB_ID(name, ...) DEADLINE_KNOB_##name,
	DEADLINE_KNOBS(DEADLINE_KNOB_ID)
#undef DEADLINE_KNOB_ID
		DEADLINE_KNOB_COUNT
};

/**
 * struct deadline_entry - a request, as deadline sees it; zeroed before it is first inserted
 * @sorted: in the order of sectors; only while it is queued, and not urgent
 * @expires: tick after which it is late
 * @prio: enum deadline_prio
 * @direction: enum deadline_direction
 * @counted: it is among @inserted of its class, and not among @ended
 */
struct deadline_entry {
	struct rb_node sorted;
	u32 expires;
	u8 prio;
	u8 direction;
	bool counted;
};

/**
 * struct deadline_queue - reads or writes of a class
 * @fifo: in the order of insertion
 * @sorted: in the order of sectors; equal ones in the order of insertion
 * @latest_sector: where the latest one that left began
 * @next: the one behind it, when keeps_next is set
 */
struct deadline_queue {
	struct list_head fifo;
	struct rb_root sorted;
	u64 latest_sector;
	struct deadline_entry *next;
};

/**
 * struct deadline - one drive
 * @knobs: current values
 * @urgent: what the block layer wants back in the drive, before all else; the latest first
 * @queues: by class and direction
 * @inserted: entries, by class, since the start
 * @ended: of these the ones that were freed, wherever they were
 * @direction: of the latest batch
 * @batched: requests that the latest batch had
 * @starved: choices of reads while writes waited, since the latest choice of writes
 */
struct deadline {
	u32 knobs[DEADLINE_KNOB_COUNT];
	struct list_head urgent;
	struct deadline_queue queues[DEADLINE_CLASSES][DEADLINE_DIRECTIONS];
	u32 inserted[DEADLINE_CLASSES];
	u32 ended[DEADLINE_CLASSES];
	enum deadline_direction direction;
	u32 batched;
	u32 starved;
};

#endif
