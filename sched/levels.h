/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The order of K2: nine FIFO levels, eight real-time ones, the most urgent first, and one for all else, the background.
 *
 * Inserters append to lists of their own hardware queue (a ctx), so that they do not meet on one lock. The dispatcher collects the
 * lists of all ctxs into the staged lists, and takes the first entry of the list that is next. So FIFO holds for each level and
 * ctx; across ctxs the order is that of collection, which the next dispatch never delays.
 */
#ifndef TAILGATE_SCHED_LEVELS_H
#define TAILGATE_SCHED_LEVELS_H

#include <linux/atomic.h>
#include <linux/bitops.h>
#include <linux/cache.h>
#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/types.h>

/* Real-time levels 0 to 7 are the levels of I/O priority class RT; level 8 is all else. */
#define K2_RT_LEVELS 8
#define K2_BACKGROUND K2_RT_LEVELS
#define K2_LEVELS (K2_RT_LEVELS + 1)

/*
 * List 0 holds what the block layer wants back in the drive before anything else: requeued requests, data of a flush
 * sequence. Lists 1 to 9 hold the levels, the last one background discards that were inserted while they have a bound of their own.
 */
#define K2_LIST_URGENT 0
#define K2_LIST(level) ((level) + 1)
#define K2_LIST_BACKGROUND K2_LIST(K2_BACKGROUND)
#define K2_LIST_DISCARDS (K2_LEVELS + 1)
#define K2_LISTS (K2_LEVELS + 2)

/* Bitmaps of lists. */
#define K2_MAP_ALL ((1 << K2_LISTS) - 1)
#define K2_MAP_BACKGROUND (1 << K2_LIST_BACKGROUND | 1 << K2_LIST_DISCARDS)
#define K2_MAP_RT ((1 << K2_LIST_BACKGROUND) - 1 - 1)
/* In levels.filled alone: entries are on the way to their lists. */
#define K2_MAP_COLLECTING (1 << K2_LISTS)

enum k2_state {
	K2_NEW, /* never inserted, or gone */
	K2_QUEUED, /* on a list */
	K2_INFLIGHT, /* dispatched, counted against the bounds */
	K2_RETURNED, /* was in flight; the driver gave it back, it will be inserted again */
};

/**
 * struct k2_entry - a request, as K2 sees it; 16 bytes, so that it fits into the two words of a request that are an elevator's
 * @since_ns: when it was inserted; in flight and of the background, when it was dispatched
 * @sectors: in flight, sectors that it counts in the bounds on bytes
 * @flow: in flight, 1 + the number of its flow; else 0
 * @level: 0 to K2_LEVELS - 1
 * @list: the list that it is, or was last, on
 * @state: enum k2_state
 * @marks: K2_MARK_...
 * @note: in flight, 1 + the index of its struct k2_note; else 0
 */
struct k2_entry {
	u64 since_ns;
	u32 sectors : 24;
	u32 flow : 8;
	u8 level : 4;
	u8 list : 4;
	u8 state;
	u8 marks;
	u8 note;
};

#define K2_MARK_VISITED 1 /* k2_visit_new() has shown it */
#define K2_MARK_TIMED 2 /* its time is told to the target and to the debt of writes */

/**
 * struct k2_ctx - insertion lists of one hardware queue
 * @lock: protects all else
 * @filled: bitmap of lists that are not empty; read without the lock
 * @index: number of the hardware queue
 * @inserted: insertions by level, since the start
 * @lists: entries that were inserted and not yet collected
 */
struct k2_ctx {
	spinlock_t lock;
	unsigned int filled;
	unsigned int index;
	u64 inserted[K2_LEVELS];
	struct list_head lists[K2_LISTS];
} ____cacheline_aligned_in_smp;

/**
 * struct levels - the queued entries of a drive; written under the dispatcher's lock
 * @pending: bit i: a ctx has entries to collect whose number is i modulo BITS_PER_LONG; set under its lock
 * @filled: bitmap of lists that are not empty; read without the lock
 * @lists: staged entries
 * @ctx_count: hardware queues
 * @ctxs: array of @ctx_count pointers
 */
struct levels {
	unsigned long pending;
	unsigned int filled;
	struct list_head lists[K2_LISTS];
	unsigned int ctx_count;
	struct k2_ctx **ctxs;
};

#endif
