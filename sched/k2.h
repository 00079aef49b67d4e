/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * K2: strict I/O priorities and bounds on what is in the drive (T. Miemietz, H. Weisbach, M. Roitzsch, H. Haertig, "K2:
 * Work-Constraining Scheduling of NVMe-Attached Storage", RTSS 2019, section IV).
 *
 * The order (levels.h) says what is next: eight real-time levels, then the background. Bounds (bounds/) say whether that may go to the
 * drive now: at most inflight_max requests are in the drive, over all of its hardware queues, and further bounds hold for the background.
 * The floor (floor.h) says what the background gets in any case, and pieces how large its requests may be.
 *
 * Who decides. The dispatcher, under its lock. If a list may not go, it marks the list blocked; if a bound named a time, it also arms the
 * timer. A completion, the timer, a knob, or the removal of a blocked list's first entry unblocks all lists. k2_has_work() only reads:
 * something is queued that is not blocked. It may be true in vain; it is never false while something may go.
 *
 * The environment (kernel module, simulator, test) includes k2.c, after the <linux/...> headers that k2.c names and these
 * functions:
 *
 *	static struct list_head *k2_node(struct k2_entry *e);		its list node
 *	static struct k2_entry *k2_entry_of(struct list_head *node);	and back
 *	static unsigned int k2_sectors(struct k2_entry *e);	sectors that it reads or writes; 0 for discards, flushes and others
 *	static bool k2_writes(struct k2_entry *e);
 *	static bool k2_may_split(struct k2_entry *e);		asked of a staged background entry that is too large
 *	static u64 k2_key(struct k2_entry *e);			identity of its cgroup: entries of one level and key are a flow
 *	static bool k2_draining(const struct k2 *k2);		must all that is queued go, as the queue is being frozen? Any context
 *	static u64 k2_now(const struct k2 *k2);			a monotone clock in ns, any context
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

static const char *const k2_bound_modes[] = { "fixed", "ahead", K2_EXPERIMENT_BOUND_MODES };
static const char *const k2_bound_whens[] = { "always", "active" };

#define K2_BOUND_MODE_MAX (sizeof(k2_bound_modes) / sizeof(k2_bound_modes[0]) - 1)

/* knob(name, unit, least, most, step, default, scale, words, flags, what it does): see knobs.h */
/* clang-format off */
#define K2_PRODUCT_KNOBS(knob) \
	knob(inflight_max, "requests", 1, 65535, 1, 32, "log", NULL, 0, \
	     "most requests in the drive at a time, over all hardware queues") \
	knob(inflight_kib_max, "KiB", 0, 1048576, 1, 0, "log", NULL, 0, \
	     "most bytes in the drive when a background request goes; a larger request goes alone; 0 is no bound") \
	knob(bound_mode, "mode", 0, K2_BOUND_MODE_MAX, 1, 0, "choice", k2_bound_modes, 0, \
	     "ahead: a further bound on bytes, which falls as a real-time request is expected; fixed: none") \
	knob(rt_target_us, "us", 0, 10000000, 1, 0, "log", NULL, 0, \
	     "latency that 99 of 100 real-time requests are to meet; K2 finds the bound on bytes and the split size; 0 is no target") \
	knob(split_kib, "KiB", 0, 65536, 4, 0, "log", NULL, 0, \
	     "largest background request; a larger one is split; 0 splits nothing") \
	knob(write_debt_kib_max, "KiB", 0, 1048576, 1, 0, "log", NULL, KNOB_MAY_BE_AUTO, \
	     "most that the drive has acknowledged of writes and not worked off, as far as can be told; 0 is no bound") \
	knob(discard_kib_max, "KiB", 0, 1048576, 4, 0, "log", NULL, 0, \
	     "background discards go one at a time, in pieces of this size, and wait while there is real-time activity; " \
	     "0: like other requests") \
	knob(bound_when, "mode", 0, 1, 1, 0, "choice", k2_bound_whens, 0, \
	     "always, or active: bounds and splitting only while there is real-time activity") \
	knob(be_floor_iops, "requests/s", 0, 1000000, 1, 10, "log", NULL, 0, \
	     "background requests that go each second, whatever is real-time and whatever bounds say; 0 is strict priority") \
	knob(rt_tags, "percent", 0, 90, 1, 25, "linear", NULL, 0, \
	     "share of the scheduler tags of each hardware queue that only real-time tasks may take")

#define K2_KNOBS(knob) K2_PRODUCT_KNOBS(knob) K2_EXPERIMENT_KNOBS(knob)
/* clang-format on */

enum k2_knob {
#define K2_KNOB_ID(name, ...) K2_KNOB_##name,
	K2_KNOBS(K2_KNOB_ID)
#undef K2_KNOB_ID
		K2_KNOB_COUNT
};

enum k2_bound_mode { K2_BOUND_FIXED, K2_BOUND_AHEAD, K2_BOUND_PLACEBO };
enum k2_bound_when { K2_BOUND_ALWAYS, K2_BOUND_ACTIVE };

/* What is in use beyond levels, the floor and the bound on requests, so that a drive that uses nothing of it pays for one test. */
#define K2_USES_BOUNDS 1 /* bounds have to be asked about background requests */
#define K2_USES_PIECES 2 /* requests may have to be split */
#define K2_USES_ACTIVITY 4 /* real-time activity matters */
#define K2_USES_AHEAD 8 /* real-time flows are learned */
#define K2_USES_TARGET 16
#define K2_USES_TIMES 32 /* times of writes and of real-time requests are learned from */

/* Tags that the plugs of two tasks hold, each with as many requests as the block layer lets a plug have. */
#define K2_TAGS_IN_PLUGS (2 * 32)
/* Discards that wait keep their scheduler tags: they get one of this many. */
#define K2_DISCARD_TAGS_SHARE 8
/* Largest piece, in sectors: as split_kib. */
#define K2_PIECE_SECTORS_MAX (2 * 65536)
/* Pieces are multiples of 4 KiB, and of the drive's block. */
#define K2_GRANULE_SECTORS 8

/**
 * struct k2 - one drive
 * @knobs: values of the knobs
 * @uses: K2_USES_...
 * @piece_sectors: most sectors in a background request; 0: any number
 * @granule_sectors: pieces are a multiple of this
 * @discard_sectors: most sectors in a background discard; 0: any number
 * @tags_enough: with so many scheduler tags k2_limit() says nothing new while nothing waits
 * @arm: asks for k2_tick() at this time instead of an earlier wish; called under @lock
 * @argument: the environment's, for @arm
 * @inflight: what is in the drive, and the bounds on that
 * @blocked: bitmap of lists that may not go now
 * @rt_inflight: real-time requests in the drive, by level
 * @bound_held: times that something ended while a list was blocked
 * @armed_ns: when the timer is due; 0: it is not armed
 * @ticks: times it was
 * @released_by: enum k2_release: what unblocked last
 * @lock: protects all that follows
 * @floor: what the background gets in any case
 * @activity: real-time activity
 * @discard: the bound on discards
 * @debt: the bound on the debt of writes
 * @target: the target for real-time latency
 * @ahead: the bound that looks ahead
 * @large: entries that were taken to be split, for k2_take_large()
 * @has_large: there are some
 * @removed_blocked: a blocked list's first entry was removed
 * @held: the observer that was told that the background is held; 0: it was not
 * @held_ns: since when it is
 * @notes: for the observer: what real-time requests in the drive met
 * @notes_used: bitmap of them
 * @dispatched: dispatches by level, since the start
 * @removed: entries that left without dispatch (merged into another), by level
 * @taken: background entries that left to be split
 * @wait: histogram of the time from insertion to dispatch, by level
 * @levels: what is queued
 */
struct k2 {
	unsigned int knobs[K2_KNOB_COUNT];
	unsigned int uses;
	unsigned int piece_sectors;
	unsigned int granule_sectors;
	unsigned int discard_sectors;
	u64 tags_enough;
	void (*arm)(void *argument, u64 at_ns);
	void *argument;

	struct inflight inflight ____cacheline_aligned_in_smp;
	atomic_t blocked;
	atomic_t rt_inflight[K2_RT_LEVELS];
	atomic_long_t bound_held;
	u64 armed_ns;
	u64 ticks;
	int released_by;

	spinlock_t lock ____cacheline_aligned_in_smp;
	struct floor floor;
	struct activity activity;
	struct discard discard;
	struct debt debt;
	struct target target;
	struct ahead ahead;
	struct list_head large;
	unsigned int has_large;
	bool removed_blocked;
	unsigned int held;
	u64 held_ns;
	struct k2_note notes[K2_NOTES];
	unsigned long notes_used;
	u64 dispatched[K2_LEVELS];
	u64 removed[K2_LEVELS];
	u64 taken;
	u64 wait[K2_LEVELS][K2_WAIT_BUCKETS];
	struct levels levels ____cacheline_aligned_in_smp;
};

#endif
