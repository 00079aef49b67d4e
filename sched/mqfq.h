/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * MQFQ: fair queueing over many queues (M. Hedayati, K. Shen, M. L. Scott, M. Marty, "Multi-Queue Fair Queueing", ATC 2019), with
 * real-time levels above it.
 *
 * A request has a start tag: the service that its flow has had before it, divided by the flow's weight. Virtual time is the least start tag
 * of what waits. Requests wait in a queue for each hardware queue and CPU, in the order of their tags, and a queue goes on by itself
 * as long as its first tag is at most T above virtual time, and one of D tokens is to be had. What queues share is in
 * fair/: virtual time (mindicator.h), tokens (tokens.h), who waits for virtual time (wheel.h) and for a token (waiting.h).
 *
 * Requests of I/O priority class RT go before all others, by their level, within the same D. Those of class idle go when nothing else is
 * queued; and each queue lets one of them go in a second whatever else is queued, so that a task that waits for one is never blocked for ever.
 *
 * Who decides. The dispatcher of a queue, under its lock. A queue that may not go is blocked: it is not in its hardware queue's map of
 * runnable queues, and in a map of those that wait, for virtual time or for a token. Who moves virtual time on, or gives it a token, runs
 * its hardware queue. mqfq_has_work() reads the map of runnable queues alone. A queue that waits for a token, and gets one, waits on while
 * it has more: so each request that leaves the drive makes the next one of its queue go, and touches nothing that CPUs share.
 *
 * A queue tells its first tag to virtual time only when it must wait, and from then on until it is empty, in steps of a span, a
 * fraction of T. So what goes at once touches nothing that CPUs share but its flow.
 *
 * The environment includes mqfq.c after the <linux/...> headers that it names and these functions:
 *
 *	static struct list_head *mqfq_node(struct mqfq_entry *e);	its list node
 *	static struct mqfq_entry *mqfq_entry_of(struct list_head *node);
 *	static struct rb_node *mqfq_rb_node(struct mqfq_entry *e);	its tree node
 *	static struct mqfq_entry *mqfq_entry_of_rb(struct rb_node *node);
 *	static bool mqfq_draining(const struct mqfq *m);	must all that is queued go, as the queue is being frozen? Any context
 *	static void mqfq_run(struct mqfq *m, unsigned int hctx);	run a hardware queue soon. Any context
 *	static unsigned int mqfq_period(const struct mqfq *m);	a number that grows by 1, some 30 times a second: see shares.h
 *	static u64 mqfq_now(const struct mqfq *m);	time in ns
 *	static unsigned int mqfq_sectors(struct mqfq_entry *e);	what a request moves
 */
#ifndef TAILGATE_SCHED_MQFQ_H
#define TAILGATE_SCHED_MQFQ_H

#include <linux/atomic.h>
#include <linux/bitops.h>
#include <linux/cache.h>
#include <linux/list.h>
#include <linux/rbtree.h>
#include <linux/spinlock.h>
#include <linux/types.h>

#include "fair/account.h"
#include "fair/flows.h"
#include "fair/mindicator.h"
#include "fair/search.h"
#include "fair/shares.h"
#include "fair/tokens.h"
#include "fair/waiting.h"
#include "fair/wheel.h"
#include "fair/write_cost.h"
#include "ends.h"
#include "knobs.h"

enum mqfq_flow_by { MQFQ_BY_CGROUP, MQFQ_BY_PROCESS };

static const char *const mqfq_flow_bys[] = { "cgroup", "process" };

/* knob(name, unit, least, most, step, default, scale, words, flags, what it does): see knobs.h */
/* clang-format off */
#define MQFQ_KNOBS(knob) \
	knob(d, "requests", 1, 65535, 1, 64, "log", NULL, KNOB_MAY_BE_AUTO, \
	     "most requests in the drive at a time, over all hardware queues") \
	knob(t_kib, "KiB", 0, 1048576, 1, 512, "log", NULL, KNOB_MAY_BE_AUTO, \
	     "how far a flow of weight 100 may be ahead of the one that has had least") \
	knob(write_cost_pct, "percent", WRITE_COST_MIN, WRITE_COST_MAX, 1, 100, "log", NULL, KNOB_MAY_BE_AUTO, \
	     "what a write costs beside a read of the same size") \
	knob(flow_by, "mode", 0, 1, 1, 0, "choice", mqfq_flow_bys, 0, \
	     "who shares the drive: cgroups, by io.mqfq.weight, or processes, which weigh the same")
/* clang-format on */

enum mqfq_knob {
#define MQFQ_KNOB_ID(name, ...) MQFQ_KNOB_##name,
	MQFQ_KNOBS(MQFQ_KNOB_ID)
#undef MQFQ_KNOB_ID
		MQFQ_KNOB_COUNT
};

/* Levels, the most urgent first: what goes before anything else, eight real-time ones, what is shared fairly, class idle. */
#define MQFQ_URGENT 0
#define MQFQ_RT(level) ((level) + 1)
#define MQFQ_FAIR 9
#define MQFQ_IDLE 10

/* Periods, a second, in which a queue's requests of class idle may have to wait for others. */
#ifndef MQFQ_IDLE_PERIODS
#define MQFQ_IDLE_PERIODS 30
#endif

enum mqfq_state {
	MQFQ_NEW, /* never inserted, or gone */
	MQFQ_QUEUED, /* in a queue */
	MQFQ_INFLIGHT, /* dispatched, has a token */
	MQFQ_RETURNED, /* was in flight; the driver gave it back, it will be inserted again */
};

/**
 * struct mqfq_entry - a request; 16 bytes, so that it fits into the two words of a request that are an elevator's
 * @start: start tag, if it is shared fairly
 * @flow: number of its flow; FLOWS_NONE: it is not shared fairly
 * @queue: number of the queue that it is, or was, in
 * @level: MQFQ_...
 * @state: enum mqfq_state
 * @writes: it is a write
 */
struct mqfq_entry {
	u64 start;
	u16 flow;
	u16 queue;
	u8 level;
	u8 state;
	bool writes;
};

/**
 * struct mqfq_hctx - a hardware queue
 * @runnable: bitmap of its queues that are not empty, and not blocked
 * @queues: their numbers, by bit
 * @count: of them
 */
struct mqfq_hctx {
	unsigned long *runnable;
	u16 *queues;
	unsigned int count;
};

/**
 * struct mqfq_queue - requests of one hardware queue and CPU
 * @lock: protects all that follows; taken in process context only
 * @filled: bitmap of levels of which it has requests
 * @number: of the queue
 * @hctx: number of its hardware queue
 * @bit: its own in that one's map
 * @runnable: that map
 * @published: its number in virtual time, or MINDICATOR_NONE
 * @leaves: its hardware queue loses its last CPU: all that it has goes as if it were MQFQ_URGENT
 * @waits: the level at which it waits for tokens, or WAITING_NONE
 * @given: tokens that it was given. Any context
 * @idle_due: the period from which on its first request of class idle goes before all others; 0: it has none. Read without the lock
 * @first: of the requests that are shared fairly the one with the least start tag; NULL: there are none
 * @late: those of them that came after one with a later tag, by start tag: of two flows, the one that is behind
 * @inserted: requests, since the start; read without the lock, as the next two are
 * @dispatched: those that went to the drive
 * @sectors: of these, what was read and what was written
 * @idle: requests of it that left the drive, while nothing could take their place as T was too small
 * @serving: number of the flow of the last request that went
 * @told_dispatched: @dispatched, as far as flows have been told
 * @told_sectors: @sectors, as far as flows have been told
 * @throttled: number of the flow whose first request is too far ahead, or FLOWS_NONE
 * @throttled_ns: since when
 * @throttled_idle: @idle then
 * @lists: the other requests, by level, oldest first
 * @joined: the request that a bio joins
 * @ends: where the latest requests end, which bios may join; not protected
 */
struct mqfq_queue {
	spinlock_t lock;
	unsigned int filled;
	unsigned int number, hctx, bit;
	unsigned long *runnable;
	bool leaves;
	u64 published;
	unsigned int waits;
	atomic_t given;
	unsigned int idle_due;
	struct mqfq_entry *first;
	struct rb_root late;
	u64 inserted, dispatched, sectors[2];
	atomic64_t idle;
	unsigned int serving;
	u64 told_dispatched, told_sectors;
	unsigned int throttled;
	u64 throttled_ns, throttled_idle;
	struct list_head lists[WAITING_LEVELS];
	struct mqfq_entry *joined;
	struct recent_ends ends;
} ____cacheline_aligned_in_smp;

/* Groups of CPUs that share something: a core, a cache, a socket. */
#define MQFQ_GROUPS 3

/**
 * struct mqfq_place - where a queue is
 * @hctx: number of its hardware queue
 * @cpu: its CPU
 * @group: numbers of the groups that the CPU is in, the smallest first
 */
struct mqfq_place {
	unsigned int hctx, cpu;
	unsigned int group[MQFQ_GROUPS];
};

/**
 * struct mqfq - one drive
 * @knobs: values of the knobs
 * @lock: of those and what follows from them
 * @d: D
 * @d_search: if that is automatic
 * @t_search: if T, in KiB, is
 * @write_cost: what a write costs, set or found
 * @period: when these were last looked at
 * @t: T, as a tag
 * @span_shift: a span is 2 to this power, as a tag
 * @write_cost_pct: what is charged for a write, in percent of a read of the same size; another price while the cost is measured
 * @hctxs: hardware queues, by number
 * @hctx_count: of them
 * @runnable: their bitmaps
 * @numbers: their queues
 * @queues: queues, by number
 * @queue_count: of them
 * @tokens: requests that may still go to the drive
 * @waiting: queues that wait for a token
 * @wheel: queues that wait for virtual time
 * @mindicator: the least tag of what waits
 * @flows: who shares the drive
 * @shares: what they weigh
 * @accounts: statistics of flows, by place
 * @accounts_lock: of what is compared in them; taken before that of a queue
 * @accounts_due: a window for that is to end
 * @window: its number
 * @active: bitmap of flows that have had requests in it
 * @unsure: how far virtual time went while its end was looked at
 * @collection: how often flows that wait were looked for
 * @breaks: grows when no window of any flow counts, nor the next one: see account.h
 * @vt: virtual time, a start tag; it never falls
 */
struct mqfq {
	unsigned int knobs[MQFQ_KNOB_COUNT];
	spinlock_t lock;
	unsigned int d;
	struct search d_search, t_search;
	struct write_cost write_cost;
	unsigned int period;
	u64 t;
	unsigned int span_shift, write_cost_pct;
	struct mqfq_hctx *hctxs;
	unsigned int hctx_count;
	void *runnable;
	u16 *numbers;
	struct mqfq_queue *queues;
	unsigned int queue_count;
	struct tokens tokens;
	struct waiting waiting;
	struct wheel wheel;
	struct mindicator mindicator;
	struct flows flows;
	struct shares shares;
	struct account *accounts;
	spinlock_t accounts_lock;
	bool accounts_due;
	unsigned int window;
	unsigned long active[BITS_TO_LONGS(FLOWS_COUNT)];
	u64 unsure;
	unsigned int collection;
	unsigned int breaks;
	atomic64_t vt ____cacheline_aligned_in_smp;
};

#endif
