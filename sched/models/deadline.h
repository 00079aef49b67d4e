/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Deadline: a model of Linux's mq-deadline (Documentation/block/deadline-iosched.rst, ioprio.rst), for comparison. There are
 * three I/O priority classes. In each, reads and writes are dispatched in batches in the order of their sectors, until the
 * oldest request has waited too long. A class is served only while no request of a higher class is queued or in the drive,
 * or when its oldest request has waited for prio_aging_expire.
 *
 * Like the kernel's, this code counts time in ticks: an expiry is exact to a tick.
 *
 * All calls are made under one lock, the caller's. Before it includes deadline.c, the environment defines how to get from an
 * entry to its list node and back, and the first sector of an entry's request:
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
 * knob(name, unit, least, most, default, what it does): the knobs of the kernel's sysfs, and keeps_next for a difference
 * between kernel versions
 */
/* clang-format off */
#define DEADLINE_KNOBS(knob) \
	knob(read_expire, "ms", 0, 2147483647, 500, \
	     "a read that has waited for longer is dispatched out of the order of sectors") \
	knob(write_expire, "ms", 0, 2147483647, 5000, \
	     "a write that has waited for longer is dispatched out of the order of sectors") \
	knob(writes_starved, "batches", 0, 2147483647, 2, \
	     "batches of reads that are dispatched before a waiting batch of writes") \
	knob(front_merges, "boolean", 0, 1, 1, \
	     "whether a bio is merged into a request that begins where the bio ends") \
	knob(async_depth, "requests", 1, 2147483647, 2147483647, \
	     "most scheduler tags of a hardware queue for requests other than synchronous reads") \
	knob(fifo_batch, "requests", 0, 2147483647, 16, \
	     "requests in a batch, which are dispatched in the order of sectors") \
	knob(prio_aging_expire, "ms", 0, 2147483647, 10000, \
	     "a request that has waited for longer is dispatched before higher classes") \
	knob(keeps_next, "boolean", 0, 1, 0, \
	     "which request continues a batch: 1: the one that was next when the latest was dispatched, as in Linux 6.1; 0: the one " \
	     "that is next now")
/* clang-format on */

enum deadline_knob {
#define DEADLINE_KNOB_ID(name, ...) DEADLINE_KNOB_##name,
	DEADLINE_KNOBS(DEADLINE_KNOB_ID)
#undef DEADLINE_KNOB_ID
		DEADLINE_KNOB_COUNT
};

/**
 * struct deadline_entry - the scheduler's data for a request; zeroed before it is first inserted
 * @sorted: node in the order of sectors; only while it is queued and not urgent
 * @expires: tick at which it expires
 * @prio: enum deadline_prio
 * @direction: enum deadline_direction
 * @counted: it is counted in @inserted of its class, and not yet in @ended
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
 * @fifo: entries in the order of insertion
 * @sorted: entries in the order of sectors, then of insertion
 * @latest_sector: first sector of the latest dispatched entry
 * @next: the entry that followed it in @sorted, if keeps_next is set
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
 * @urgent: entries that the block layer inserts at the head, dispatched before all others; latest first
 * @queues: queues by class and direction
 * @inserted: entries inserted since the start, by class
 * @ended: entries of @inserted that were freed, by class
 * @direction: direction of the latest batch
 * @batched: requests dispatched in the latest batch
 * @starved: batches of reads chosen while writes waited, since the latest batch of writes
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
