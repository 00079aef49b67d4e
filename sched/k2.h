/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * K2: strict I/O priorities and a bound on the requests in flight (T. Miemietz, H. Weisbach, M. Roitzsch, H. Haertig,
 * "K2: Work-Constraining Scheduling of NVMe-Attached Storage", RTSS 2019, section IV).
 *
 * Nine levels, FIFO in each: eight real-time ones, the most urgent first, and one for all else. At most inflight_max
 * requests are in the drive at a time, over all of its hardware queues, so that a real-time request waits for at most
 * that many others; and, with inflight_kib_max, at most so many bytes. With split_mode "auto" both bounds, and pieces, are
 * in force only while there is real-time activity.
 *
 * A ctx is a hardware queue. Inserters append to lists of their own ctx; whoever dispatches collects the lists of all
 * ctxs and picks under one lock. Completions take no lock.
 *
 * The environment (kernel module, simulator, test) provides the <linux/...> headers named in k2.c and says, before it
 * includes k2.c, where an entry and its list node lie:
 *
 *	static struct list_head *k2_node(struct k2_entry *e);
 *	static struct k2_entry *k2_entry_of(struct list_head *node);
 *	static unsigned int k2_sectors(struct k2_entry *e);
 *	static bool k2_may_split(struct k2_entry *e);
 *	static bool k2_writes(struct k2_entry *e);
 *	static u64 k2_key(struct k2_entry *e);
 *	static bool k2_discards(struct k2_entry *e);
 *	static bool k2_flushes(const struct k2 *k2);
 *	static u64 k2_now(const struct k2 *k2);
 *
 * The third is what the entry reads or writes, in units of 512 bytes; 0 for all else, such as discard and flush. The
 * fourth is asked of a staged entry of the background that is too large. The sixth says whose the entry is: real-time
 * entries of one level and key are a flow of the bound that looks ahead; 0 is not known. The last but one: is a flush in
 * the drive? It is asked in any context, with flush_gate_us only, and nobody need say when the answer changes. The last is
 * a monotone clock in ns, callable from any context; it is read only where times matter. What it may want to see,
 * observe.h says.
 */
#ifndef TAILGATE_SCHED_K2_H
#define TAILGATE_SCHED_K2_H

#include <linux/atomic.h>
#include <linux/cache.h>
#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/types.h>

#include "ahead.h"
#include "debt.h"
#include "observe.h"
#include "target.h"

/* Real-time levels 0 to 7 are the levels of I/O priority class RT; level 8 is all else. */
#define K2_RT_LEVELS 8
#define K2_BACKGROUND K2_RT_LEVELS
#define K2_LEVELS (K2_RT_LEVELS + 1)

/*
 * List 0 holds what the block layer wants back in the drive before anything else (requeued requests, data of a flush
 * sequence); lists 1 to 9 hold the levels; the last, discards of the background that may be held.
 */
#define K2_DISCARDS (K2_LEVELS + 1)
#define K2_LISTS (K2_DISCARDS + 1)

/* Lists of the real-time levels. */
#define K2_RT_LISTS ((1UL << (K2_RT_LEVELS + 1)) - 2)

/* Buckets of the wait-time histogram: below 1 us, below 2 us, ... below 16.8 s, and longer. */
#define K2_WAIT_BUCKETS 26

/* Value of a knob that finds itself. */
#define K2_AUTO UINT_MAX

/* knob(name, unit, least, most, step, default, scale, what it does) */
/* clang-format off */
#define K2_KNOBS(knob) \
	knob(inflight_max, "requests", 1, 65535, 1, 32, "log", \
	     "most requests in the drive at a time, over all hardware queues") \
	knob(inflight_kib_max, "KiB", 0, 1048576, 1, 0, "log", \
	     "most bytes in the drive at a time, which a larger request exceeds alone; 0 is no bound") \
	knob(bound_mode, "mode", 0, 2, 1, 0, "choice", \
	     "fixed, or ahead: the bound on the background's bytes falls as a real-time request is expected; " \
	     "placebo, a control for experiments: it falls as often, but at random times") \
	knob(ahead_lo_kib, "KiB", 0, 1048576, 1, K2_AUTO, "log", \
	     "with ahead, most of the background in the drive when a real-time request is due") \
	knob(ahead_hi_kib, "KiB", 1, 1048576, 1, K2_AUTO, "log", \
	     "with ahead, most of the background in the drive when none is due for long") \
	knob(ahead_lead_us, "us", 0, 1000000, 1, K2_AUTO, "log", \
	     "with ahead, so long before a request is due the bound is ahead_lo_kib") \
	knob(ahead_ramp_pct, "percent", 1, 1000, 1, K2_AUTO, "log", \
	     "with ahead, share of the drive's rate at which the bound falls") \
	knob(write_debt_kib_max, "KiB", 0, 1048576, 1, 0, "log", \
	     "most that the drive has acknowledged of writes and not worked off, as far as can be told; 0 is no bound") \
	knob(rt_target_us, "us", 0, 10000000, 1, 0, "log", \
	     "bounds on bytes, and pieces, are what makes real-time latency meet this; 0: as they are set") \
	knob(rt_quantile, "percent", 50, 99, 1, 99, "linear", \
	     "with rt_target_us, so many of the real-time requests are to meet it") \
	knob(split_kib, "KiB", 0, 65536, 4, 0, "log", \
	     "most in a request that is not real-time: what is larger is split; 0 splits nothing") \
	knob(split_mode, "mode", 0, 1, 1, 0, "choice", \
	     "always, or auto: bounds and pieces only while there is real-time activity") \
	knob(rt_wait_us, "us", 0, 1000000, 1, 0, "log", \
	     "with auto, pieces are as large as the drive serves in this time, and split_kib at most; 0: split_kib") \
	knob(be_floor_iops, "requests/s", 0, 1000000, 1, 0, "log", \
	     "background requests that go to the drive each second whatever is real-time; 0 is strict priority") \
	knob(discard_kib_max, "KiB", 0, 1048576, 4, 0, "log", \
	     "discards that are not real-time go one at a time, in pieces of so much, and wait while there is " \
	     "real-time activity; 0 treats them as all else") \
	knob(discard_floor_iops, "requests/s", 1, 1000000, 1, 1, "log", \
	     "with discard_kib_max, pieces that go each second whatever is real-time") \
	knob(flush_gate_us, "us", 0, 1000000, 1, 0, "log", \
	     "while a flush is in the drive no write goes that is not real-time, for so long at most; 0 holds none") \
	knob(rt_tags, "percent", 0, 90, 1, 25, "linear", \
	     "share of the scheduler tags of each hardware queue that only real-time tasks may take") \
	knob(slow_log_us, "us", 0, 10000000, 1, 0, "log", \
	     "real-time requests that took longer are noted in a log, the latest 64; 0 notes none")
/* clang-format on */

enum k2_knob {
#define K2_KNOB_ID(name, ...) K2_KNOB_##name,
	K2_KNOBS(K2_KNOB_ID)
#undef K2_KNOB_ID
		K2_KNOB_COUNT
};

/* May it? What has it as its default, and the debt of writes, which is off by default. */
#define K2_MAY_BE_AUTO(knob, initial) ((initial) == K2_AUTO || (knob) == K2_KNOB_write_debt_kib_max)

/* Values of split_mode. */
enum k2_split_mode { K2_SPLIT_ALWAYS, K2_SPLIT_AUTO };

/* Values of bound_mode. */
enum k2_bound_mode { K2_BOUND_FIXED, K2_BOUND_AHEAD, K2_BOUND_PLACEBO };

/* What of it is in use, so that who uses nothing of it pays for one test. */
#define K2_USES_BYTES \
	1 /* inflight_kib_max, bound_mode, write_debt_kib_max, rt_target_us or slow_log_us */
#define K2_USES_FLOOR 2 /* be_floor_iops */
#define K2_USES_AUTO 4 /* split_mode */
#define K2_USES_PIECES 8 /* now: split_kib or rt_wait_us */
#define K2_USES_AHEAD 16 /* bound_mode */
#define K2_USES_DEBT 32 /* write_debt_kib_max */
#define K2_USES_LOG 64 /* slow_log_us */
#define K2_USES_TARGET 128 /* rt_target_us */
#define K2_USES_DISCARDS 256 /* discard_kib_max */
#define K2_USES_GATE 512 /* flush_gate_us */

/* Requests may have to be split. */
#define K2_USES_SPLIT (K2_USES_PIECES | K2_USES_DISCARDS)
/* Somebody has to know whether there is real-time activity. */
#define K2_USES_ACTIVITY (K2_USES_AUTO | K2_USES_DISCARDS)
/* What is queued may be held although the drive has room. */
#define K2_USES_HOLDS (K2_USES_DISCARDS | K2_USES_GATE)

/* With a bound on bytes, in the word that says what there must be room for: */
#define K2_ROOM_WRITES 0x80000000U /* it is a write of the background, with a bound on their debt */
#define K2_ROOM_OWED 0x40000000U /* it is of the background, and must leave room for what is owed */
#define K2_ROOM_URGENT 0x20000000U /* it is not of the background: it goes before what is */
#define K2_ROOM_SECTORS 0x003fffffU /* so many sectors; 0: it needs no room, or nobody knows */
/* Instead of that: all that is staged may be held. */
#define K2_HELD UINT_MAX

/* Without real-time activity so many of best effort that waits go before a discard. */
#define K2_DISCARD_AFTER 16
/* Held requests keep scheduler tags: discards get one of so many. */
#define K2_DISCARD_TAGS_SHARE 8

/*
 * Real-time activity lasts for twice the longest of the latest gaps between arrivals, and for so long at least: a first
 * request has no gap yet, and pieces cost the background little in this time.
 */
#define K2_GRACE_NS_MIN 100000000ULL
/* A longer gap is silence, not a period. */
#define K2_PERIOD_NS_MAX 5000000000ULL

/* Pieces whose time in the drive is measured before the size is chosen anew: half a size is then known to a few per cent. */
#define K2_PIECES_MEASURED 16
/* What took longer says no more than that: the sum fits into its word. */
#define K2_MEASURED_US_MAX 1000000
/* As split_kib. */
#define K2_PIECE_SECTORS_MAX (2 * 65536)

/**
 * struct k2_knob_info - what a knob is, for whoever shows or sets it
 * @name: as in sysfs
 * @unit: of the value
 * @least: smallest value accepted
 * @most: largest value accepted
 * @step: it is a multiple of this
 * @initial: value after k2_init()
 * @scale: "log" or "linear": how a search should step through the range; "choice": k2_words() are its values
 * @what: one sentence
 */
struct k2_knob_info {
	const char *name;
	const char *unit;
	unsigned int least, most, step, initial;
	const char *scale;
	const char *what;
};

extern const struct k2_knob_info k2_knob_infos[K2_KNOB_COUNT];

enum k2_state {
	K2_NEW, /* never inserted */
	K2_QUEUED, /* on a list */
	K2_IN_FLIGHT, /* dispatched, counted against the bound */
	K2_RETURNED, /* was in flight; the driver gave it back, it will be inserted again */
};

/* Nobody says when a flush ends: looked for again after an eighth of the time that something has been held, and this. */
#define K2_LOOK_NS_MIN 50000

/* In struct k2_entry's @tracked: */
#define K2_TRACKED 0x80000000U /* there is something */
#define K2_MEASURED 0x40000000U /* its time in the drive tells how long a piece takes */
#define K2_FLOW 0x20000000U /* it is under way in its flow */
#define K2_LOGGED 0x10000000U /* if it is slow, the log is to have it */
#define K2_TIMED 0x00800000U /* its time in the drive counts for what is owed */
#define K2_DISCARDING 0x00400000U /* it is a discard that others wait for */
#define K2_FLOW_SHIFT 24 /* four bits: which */
#define K2_SECTORS 0x003fffffU /* by which it counts against the bound on bytes */

/**
 * struct k2_entry - a request, as K2 sees it; 16 bytes, so that it fits into a request's private words
 * @since_ns: when it was inserted; in flight with K2_MEASURED or K2_TIMED, when it was dispatched
 * @tracked: while in flight: 0, or K2_TRACKED with what else changes when it leaves the drive
 * @level: 0 to K2_LEVELS - 1
 * @state: enum k2_state
 * @list: that it is, or was last, on
 * @visited: k2_visit_new() has shown it
 */
struct k2_entry {
	u64 since_ns;
	u32 tracked;
	u8 level;
	u8 state;
	u8 list;
	bool visited;
};

/**
 * struct k2_flow - who a flow of the bound that looks ahead is
 * @key: as k2_key()
 * @list: of its level; 0: nobody yet
 */
struct k2_flow {
	u64 key;
	unsigned int list;
};

/**
 * struct k2_ctx - insertion lists of one hardware queue
 * @lock: protects @lists, @filled, @inserted
 * @filled: bit i: lists[i] is not empty
 * @index: of this ctx
 * @first: with a bound on bytes, K2_ROOM_... of the entry that goes first of what is here
 * @inserted: insertions by level, since the start
 * @lists: what was inserted and not yet collected
 */
struct k2_ctx {
	spinlock_t lock;
	unsigned int index;
	unsigned long filled;
	unsigned int first;
	u64 inserted[K2_LEVELS];
	struct list_head lists[K2_LISTS];
} ____cacheline_aligned_in_smp;

/**
 * struct k2 - one drive
 * @knobs: current values
 * @uses: K2_USES_...
 * @inflight_limit: inflight_max, while the bounds are in force
 * @byte_limit: most sectors of the background in the drive, from inflight_kib_max and rt_target_us, likewise; UINT_MAX: any
 * @piece_sectors: most in a request of the background; 0: any number
 * @granule_sectors: pieces are a multiple of it
 * @discard_sectors: most in a discard of the background; 0: any number
 * @ctx_count: hardware queues
 * @ctxs: array of @ctx_count pointers, owned by the environment
 * @wake: runs the ctx: asks it to dispatch soon; called from any context, also from hard interrupt
 * @arm: asks for k2_tick() at this time instead of an earlier wish; called from any context
 * @argument: for @wake and @arm
 * @inflight: dispatched and neither finished nor returned
 * @inflight_sectors: what they read and write, if there was a bound on it when they were dispatched
 * @inflight_level: dispatched and neither finished nor returned, by level
 * @rt_inflight: the real-time ones among @inflight
 * @discards: those among @inflight that the next one waits for
 * @measured: pieces whose time in the drive was added to @measured_us
 * @measured_us: sum, since the size of pieces was chosen last
 * @waiting: somebody found the bound full while something was queued; the next completion that makes room wakes
 * @bound_held: times a completion found @waiting
 * @armed_ns: when the timer is due; 0: it is not armed
 * @ticks: times it was
 * @held_lock: protects the next two, and the order of what is observed of them
 * @held: the observer for whom the background is held; 0: it is not
 * @held_ns: since when
 * @released_by: enum k2_release: what made somebody look last
 * @lock: protects all that follows
 * @filled: bit i: lists[i] is not empty
 * @next: with a bound on bytes, K2_ROOM_... of the entry that is next
 * @background_due_ns: when the background is owed a request, with be_floor_iops
 * @rt_arrived: something real-time was collected since k2_watch() looked last
 * @active: there is real-time activity
 * @rt_seen_ns: when k2_watch() saw something real-time arrive last; 0: never
 * @period_ns: longest of the latest gaps between such arrivals
 * @fitting_sectors: what the drive serves within rt_wait_us, as far as that was measured
 * @activations: times that real-time activity began
 * @dispatched: dispatches by level, since the start
 * @removed: entries that left without dispatch (merged into another), by level
 * @taken: entries of the background that left to be split
 * @large: some of these, for k2_take_large()
 * @has_large: there are some
 * @wait: histogram of the time from insertion to dispatch, by level
 * @lists: staged entries
 * @discard_due_ns: with real-time activity, when the next discard goes
 * @discard_passed: entries of the background that went before one that waits
 * @discarded: discards that went, since the start
 * @gate_ns: the next of the background is a write that a flush holds, until then; 0: it is not
 * @gated: times that began
 * @ahead: the bound that looks ahead
 * @debt: the debt of writes
 * @target: what rt_target_us makes of the bounds
 * @flows: who its flows are, by number
 * @pending: bitmap of ctxs with something to collect
 */
struct k2 {
	unsigned int knobs[K2_KNOB_COUNT];
	unsigned int uses;
	unsigned int inflight_limit;
	unsigned int byte_limit;
	unsigned int piece_sectors;
	unsigned int granule_sectors;
	unsigned int discard_sectors;
	unsigned int ctx_count;
	struct k2_ctx **ctxs;
	void (*wake)(void *argument, struct k2_ctx *ctx);
	void (*arm)(void *argument, u64 at_ns);
	void *argument;

	atomic_t inflight ____cacheline_aligned_in_smp;
	atomic_t inflight_sectors;
	atomic_t inflight_level[K2_LEVELS];
	atomic_t rt_inflight;
	atomic_t discards;
	atomic_t measured;
	atomic_t measured_us;
	int waiting;
	atomic_long_t bound_held;
	u64 armed_ns;
	u64 ticks;
	raw_spinlock_t held_lock;
	unsigned int held;
	u64 held_ns;
	int released_by;

	spinlock_t lock ____cacheline_aligned_in_smp;
	unsigned long filled;
	unsigned int next;
	u64 background_due_ns;
	bool rt_arrived;
	bool active;
	u64 rt_seen_ns;
	u64 period_ns;
	unsigned int fitting_sectors;
	u64 activations;
	struct list_head lists[K2_LISTS];
	u64 dispatched[K2_LEVELS];
	u64 removed[K2_LEVELS];
	u64 taken;
	struct list_head large;
	unsigned int has_large;
	u64 wait[K2_LEVELS][K2_WAIT_BUCKETS];
	u64 discard_due_ns;
	unsigned int discard_passed;
	u64 discarded;
	u64 gate_ns;
	u64 gated;
	struct ahead ahead ____cacheline_aligned_in_smp;
	struct debt debt;
	struct target target;
	struct k2_flow flows[AHEAD_FLOWS];

	unsigned long pending[] ____cacheline_aligned_in_smp;
};

#endif
