/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * K2: strict I/O priorities and bounds on what is in the drive (T. Miemietz, H. Weisbach, M. Roitzsch, H. Haertig, "K2:
 * Work-Constraining Scheduling of NVMe-Attached Storage", RTSS 2019, section IV).
 *
 * The order (levels.h) says which request is next: eight real-time levels, then the background (all other requests). Bounds (bounds/) say
 * whether that request may be dispatched now: at most inflight_max requests are in the drive, over all of its hardware queues, and further
 * bounds apply to the background only. The floor (floor.h) guarantees the background a minimum rate. Large background requests are split
 * into pieces.
 *
 * All decisions are made by the dispatcher, under its lock. If the first entry of a list may not be dispatched, the dispatcher marks the
 * list blocked, and arms the timer if a bound named a time. A completion, the timer, a knob, or the removal of a blocked list's first entry
 * unblocks all lists. k2_has_work() only reads whether a list is filled and not blocked. It may return true when nothing can be dispatched;
 * it never returns false when something can.
 *
 * The environment (kernel module, simulator, test) includes k2.c after the <linux/...> headers that k2.c needs and after defining these
 * functions:
 *
 *	static struct list_head *k2_node(struct k2_entry *e);		its list node
 *	static struct k2_entry *k2_entry_of(struct list_head *node);	and back
 *	static unsigned int k2_sectors(struct k2_entry *e);	sectors that it reads or writes; 0 for discards, flushes and the like
 *	static bool k2_writes(struct k2_entry *e);
 *	static bool k2_may_split(struct k2_entry *e);		called for a staged background entry that is too large
 *	static void k2_picked(struct k2_entry *e);		called under the lock with each entry that a dispatcher is about to take off its list
 *	static u64 k2_key(struct k2_entry *e);			identity of its cgroup: entries of one level and key are a flow
 *	static bool k2_draining(const struct k2 *k2);		is the queue being frozen, so that bounds are ignored? Any context
 *	static u64 k2_now(const struct k2 *k2);			a monotone clock in ns, any context
 *	static void k2_arm(struct k2 *k2, u64 at_ns);		sets the timer to call k2_tick() then, instead of at an earlier set time; called under
 *								the dispatcher's lock
 */
#ifndef TAILGATE_SCHED_K2_H
#define TAILGATE_SCHED_K2_H

#include <linux/atomic.h>
#include <linux/cache.h>
#include <linux/spinlock.h>
#include <linux/types.h>

#include "activity.h"
#include "bounds/ahead.h"
#include "bounds/debt.h"
#include "bounds/discard.h"
#include "bounds/inflight.h"
#include "bounds/target.h"
#include "experiments.h"
#include "floor.h"
#include "knobs.h"
#include "levels.h"
#include "observe.h"

/* Buckets of the wait-time histogram: below 1 us, below 2 us, ... below 16.8 s, and longer. */
#define K2_WAIT_BUCKETS 26

static const char *const k2_bound_whens[] = { "always", "active" };
static const char *const k2_percentiles[] = { "p99", "p99.9" };

/* knob(name, unit, least, most, step, default, scale, words, flags, what it does): see knobs.h */
/* clang-format off */
#define K2_PRODUCT_KNOBS(knob) \
	knob(inflight_max, "requests", 1, 65535, 1, KNOB_AUTO, "log", NULL, KNOB_MAY_BE_AUTO, \
	     "most requests in the drive at a time, over all hardware queues; auto: 32, or none with a latency target") \
	knob(inflight_kib_max, "KiB", 0, 1048576, 1, 0, "log", NULL, 0, \
	     "most bytes in the drive for a background request to be dispatched, unless it meets no other bytes there; 0 is no bound") \
	knob(rt_target_us, "us", 0, 10000000, 1, 0, "log", NULL, KNOB_MAY_BE_AUTO, \
	     "real-time latency that is aimed at; auto: twice what a request takes in the idle drive; 0 is no target") \
	knob(rt_target_percentile, "mode", 0, 1, 1, 0, "choice", k2_percentiles, 0, \
	     "which percentile of real-time latency is to meet rt_target_us") \
	knob(split_kib, "KiB", 0, 65536, 4, 0, "log", NULL, 0, \
	     "largest background request; a larger one is split; 0 splits nothing") \
	knob(write_debt_kib_max, "KiB", 0, 1048576, 1, 0, "log", NULL, KNOB_MAY_BE_AUTO, \
	     "most acknowledged writes that the drive still has to program; auto: what it programs during two real-time reads; 0 is no bound") \
	knob(discard_kib_max, "KiB", 0, 1048576, 4, 0, "log", NULL, 0, \
	     "size of the pieces of background discards, which go one at a time while there is no real-time activity; 0 is no bound") \
	knob(bound_when, "mode", 0, 1, 1, 0, "choice", k2_bound_whens, 0, \
	     "when bounds and splitting are in force: always, or active: only during real-time activity") \
	knob(be_floor_iops, "requests/s", 0, 1000000, 1, 10, "log", NULL, 0, \
	     "background requests dispatched per second in spite of real-time requests and bounds; at first 10 for each hardware queue; 0 is strict priority") \
	knob(rt_tags, "percent", 0, 90, 1, 25, "linear", NULL, 0, \
	     "share of the scheduler tags of each hardware queue that is reserved for real-time tasks")

#define K2_KNOBS(knob) K2_PRODUCT_KNOBS(knob) K2_EXPERIMENT_KNOBS(knob)
/* clang-format on */

enum k2_knob {
#define K2_KNOB_ID(name, ...) K2_KNOB_##name,
	K2_KNOBS(K2_KNOB_ID)
#undef K2_KNOB_ID
		K2_KNOB_COUNT
};

/* The floor's kind for a background list. */
#define K2_FLOOR_KIND(list) ((list) == K2_LIST_DISCARDS ? FLOOR_DISCARDS : FLOOR_REQUESTS)

enum k2_bound_when { K2_BOUND_ALWAYS, K2_BOUND_ACTIVE };

/* Tags held by the plugs of two tasks, with the most requests that the block layer keeps in a plug (twice BLK_MAX_REQUEST_COUNT). */
#define K2_TAGS_IN_PLUGS (2 * 64)
/* Waiting discards keep their scheduler tags, so discards may take at most this fraction, 1/8, of the tags. */
#define K2_DISCARD_TAGS_SHARE 8
/* Largest piece, in sectors: the maximum of split_kib. */
#define K2_PIECE_SECTORS_MAX (2 * 65536)
/* Least granule of pieces, 4 KiB; the granule is larger if the drive's logical block is. */
#define K2_GRANULE_SECTORS 8
/* Most requests in the drive with inflight_max auto and no latency target. */
#define K2_INFLIGHT_MAX 32
/* With a latency target, this many background requests of the largest size fit into its bound. */
#define K2_PIECES_IN_TARGET 8
/* They are not smaller than 8 KiB, as each costs processor time: pieces of 4 KiB give the background little more. */
#define K2_PIECE_SECTORS_MIN 16

/**
 * struct k2 - one drive
 * @knobs: values of the knobs
 * @extended: more than the order, inflight_max and the floor is in use; false by default, when dispatch only tests it
 * @bounded: bounds other than inflight_max are in force
 * @piece_sectors: most sectors in a background request; 0: any number
 * @granule_sectors: piece sizes are multiples of this
 * @discard_sectors: most sectors in a background discard; 0: any number
 * @tags_enough: from this many scheduler tags on, k2_limit() need not be applied while nothing is queued or blocked
 * @inflight: the requests and sectors in the drive, and the bounds on them
 * @blocked: bitmap of lists that may not dispatch now
 * @rt_inflight: real-time requests in the drive, by level
 * @rt_inflight_all: of all levels
 * @rt_ended: real-time requests that have completed, since the start
 * @rt_ns: time from their arrival until then, added up; from the latest return of those that the driver returned
 * @bound_held: number of completions that unblocked a list
 * @armed_ns: when the timer is due; 0: it is not armed
 * @ticks: number of times that the timer expired
 * @released_by: enum k2_release: the latest cause of unblocking
 * @lock: the dispatcher's lock; protects all members that follow
 * @floor: the minimum rate of the background
 * @activity: real-time activity
 * @discard: the bound on discards
 * @debt: the bound on write debt
 * @target: the latency target for real-time requests
 * @ahead: the look-ahead bound
 * @removed_blocked: lists were unblocked because a merge removed an entry of a blocked one
 * @held: k2_observer() of the latest reported hold, while the background is held; 0: none was reported
 * @held_ns: when that hold began
 * @notes: observations of the real-time requests in the drive
 * @notes_used: bitmap of @notes in use
 * @dispatched: dispatches by level, since the start
 * @removed: entries that left without dispatch because they were merged into another, by level
 * @taken: background entries taken to be split, since the start
 * @wait: histogram of the time from insertion to dispatch, by level
 * @levels: the queued entries
 */
struct k2 {
	unsigned int knobs[K2_KNOB_COUNT];
	bool extended, bounded;
	unsigned int piece_sectors, granule_sectors, discard_sectors;
	u64 tags_enough;

	struct inflight inflight ____cacheline_aligned_in_smp;
	atomic_t blocked, rt_inflight[K2_RT_LEVELS], rt_inflight_all;
	atomic64_t rt_ended, rt_ns;
	atomic_long_t bound_held;
	u64 armed_ns, ticks;
	int released_by;

	spinlock_t lock ____cacheline_aligned_in_smp;
	struct floor floor;
	struct activity activity;
	struct discard discard;
	struct debt debt;
	struct target target;
	struct ahead ahead;
	bool removed_blocked;
	unsigned int held;
	u64 held_ns;
	struct k2_note notes[K2_NOTES];
	unsigned long notes_used;
	u64 dispatched[K2_LEVELS], removed[K2_LEVELS], taken;
	u64 wait[K2_LEVELS][K2_WAIT_BUCKETS];
	struct levels levels ____cacheline_aligned_in_smp;
};

#endif
