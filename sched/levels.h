/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * K2's order of dispatch: nine FIFO levels, served in order of priority. Eight are real-time levels; the last one, the background, is for
 * all other requests.
 *
 * Inserters append to lists of their own hardware queue (a ctx), so that they do not contend for one lock. The dispatcher collects the
 * lists of all ctxs into the staged lists, and takes the first entry of the next list. So each level is FIFO within a ctx. Across ctxs
 * the order is that of collection. Every dispatch collects first.
 */
#ifndef TAILGATE_SCHED_LEVELS_H
#define TAILGATE_SCHED_LEVELS_H

#include <linux/atomic.h>
#include <linux/bitops.h>
#include <linux/cache.h>
#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/types.h>

/* Levels 0 to 7 are the levels of the I/O priority class RT; level 8 is for all other requests. */
#define K2_RT_LEVELS 8
#define K2_BACKGROUND K2_RT_LEVELS
#define K2_LEVELS (K2_RT_LEVELS + 1)

/*
 * List 0 holds requests that the block layer inserts at the head: requeued requests and the data of a flush sequence. Lists 1 to 9 hold
 * the levels. The last list holds background discards that were inserted while discard_kib_max was set.
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
/* Only in levels.filled: entries are being moved to the staged lists. */
#define K2_MAP_COLLECTING (1 << K2_LISTS)

/**
 * enum k2_state - where an entry is
 * @K2_NEW: not inserted yet, or completed or removed
 * @K2_QUEUED: on a list
 * @K2_INFLIGHT: dispatched, counted against the bounds
 * @K2_RETURNED: returned by the driver; will be inserted again
 */
enum k2_state { K2_NEW, K2_QUEUED, K2_INFLIGHT, K2_RETURNED };

/**
 * struct k2_entry - K2's data for a request; 16 bytes, so that it fits into the two words that struct request has for the elevator
 * @since_ns: time of insertion; for a background entry in flight whose time is learned from, time of dispatch
 * @sectors: in flight: sectors that it counts in the bounds on bytes
 * @flow: in flight: 1 + the number of its flow, or 0
 * @level: 0 to K2_LEVELS - 1
 * @list: the list that it is on, or was on last
 * @state: enum k2_state
 * @marks: K2_MARK_...
 * @note: in flight: 1 + the index of its struct k2_note, or 0
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

#define K2_MARK_VISITED 1 /* k2_visit_new() has visited it */
#define K2_MARK_TIMED 2 /* the latency target and the write debt learn from its service time */
#define K2_MARK_ALONE 4 /* nothing was in the drive, or owed by it, when it was dispatched */
#define K2_MARK_PREDICTED 8 /* the target's bound for predicted requests was in force then */

/**
 * struct k2_ctx - insertion lists of one hardware queue
 * @lock: protects all other members
 * @filled: bitmap of lists that are not empty; read without the lock
 * @index: number of the hardware queue
 * @inserted: insertions by level, since the start
 * @lists: entries inserted and not yet collected
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
 * @pending: bit i is set if a ctx whose number is i modulo BITS_PER_LONG has entries to collect; set under the ctx's lock
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
