/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * MQFQ: fair queueing over many queues (M. Hedayati, K. Shen, M. L. Scott, M. Marty, "Multi-Queue Fair Queueing", ATC 2019), with
 * real-time levels above it.
 *
 * The start tag of a request is the service that its flow received before it, divided by the flow's weight. Virtual time is the least
 * start tag of all waiting requests. There is a queue for each hardware queue and CPU, ordered by start tag. It dispatches on its own
 * while its first start tag is at most T above virtual time and it can take one of D tokens. The state that queues share is in
 * fair/: virtual time (mindicator.h), tokens (tokens.h), queues that wait for virtual time (wheel.h) or for a token (waiting.h).
 *
 * Requests of I/O priority class RT go before all others, by their level, within the same D. Requests of class idle go when nothing else is
 * queued. In addition each queue dispatches one of them a second, so that a task that waits for one is not blocked for ever.
 *
 * A queue is blocked if its dispatcher, under the queue's lock, finds that its first request may not go. The queue's bit is then clear
 * in its hardware queue's map of runnable queues, and set in a map of queues that wait for virtual time or for a token. The CPU that
 * advances virtual time, or gives the queue a token, makes it runnable and runs its hardware queue. mqfq_has_work() reads only the map of
 * runnable queues. A queue that was given a token stays a waiter while it has more requests. So a request that leaves the drive
 * usually passes its token to the next request of its own queue, and writes to nothing that CPUs share.
 *
 * A queue publishes its first start tag to virtual time only from when it must wait until it is empty. It rounds the tag down to a span,
 * a fraction of T. So a request that is dispatched at once writes to nothing that CPUs share, except to its flow.
 *
 * The environment includes mqfq.c after the <linux/...> headers that it names and these functions:
 *
 *	static struct list_head *mqfq_node(struct mqfq_entry *e);	its list node
 *	static struct mqfq_entry *mqfq_entry_of(struct list_head *node);
 *	static struct rb_node *mqfq_rb_node(struct mqfq_entry *e);	its tree node
 *	static struct mqfq_entry *mqfq_entry_of_rb(struct rb_node *node);
 *	static void mqfq_run(struct mqfq *m, unsigned int hctx);	runs a hardware queue soon. Any context
 *	static unsigned int mqfq_period(const struct mqfq *m);	number of the current period, about 30 a second: see shares.h
 *	static u64 mqfq_now(const struct mqfq *m);	monotonic time in ns
 *	static unsigned int mqfq_sectors(struct mqfq_entry *e);	sectors that a request moves
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
	     "most requests in the drive at a time, over all hardware queues; auto: the least with which the drive reaches 97 % of its " \
	     "throughput") \
	knob(t_kib, "KiB", 0, 1048576, 1, 512, "log", NULL, KNOB_MAY_BE_AUTO, \
	     "how far a flow of weight 100 may be ahead of the flow that was served least; auto: the least that costs nearly no throughput") \
	knob(write_cost_pct, "percent", WRITE_COST_MIN, WRITE_COST_MAX, 1, 100, "log", NULL, KNOB_MAY_BE_AUTO, \
	     "cost of a write relative to a read of the same size; auto: measured while the drive is in use") \
	knob(flow_by, "mode", 0, 1, 1, 0, "choice", mqfq_flow_bys, 0, \
	     "what a flow is: a cgroup, with the weight in io.mqfq.weight, or a process, all of equal weight")
/* clang-format on */

enum mqfq_knob {
#define MQFQ_KNOB_ID(name, ...) MQFQ_KNOB_##name,
	MQFQ_KNOBS(MQFQ_KNOB_ID)
#undef MQFQ_KNOB_ID
		MQFQ_KNOB_COUNT
};

/* Levels, the most urgent first: requests that go before all others, eight real-time levels, requests shared fairly, class idle. */
#define MQFQ_URGENT 0
#define MQFQ_RT(level) ((level) + 1)
#define MQFQ_FAIR 9
#define MQFQ_IDLE 10

/* Longest time, in periods, that a queue's first request of class idle waits for others: about a second. */
#ifndef MQFQ_IDLE_PERIODS
#define MQFQ_IDLE_PERIODS 30
#endif

enum mqfq_state {
	MQFQ_NEW, /* never inserted, or freed */
	MQFQ_QUEUED, /* in a queue */
	MQFQ_INFLIGHT, /* dispatched, has a token */
	MQFQ_RETURNED, /* the driver gave it back, and it will be inserted again */
};

/**
 * struct mqfq_entry - a request; 16 bytes, to fit into the two words of struct request that belong to the elevator
 * @start: start tag; valid at level MQFQ_FAIR
 * @flow: number of its flow; FLOWS_NONE: it is not shared fairly
 * @queue: number of the queue that it was inserted into
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
 * @runnable: bitmap of its queues that are neither empty nor blocked
 * @queues: number of the queue of each bit
 * @count: number of its queues
 * @latest: bit of the queue that was chosen last among several
 */
struct mqfq_hctx {
	unsigned long *runnable;
	u16 *queues;
	unsigned int count, latest;
};

/**
 * struct mqfq_queue - requests of one hardware queue and CPU
 * @lock: protects the members below; taken in process context only
 * @filled: bitmap of levels at which it has requests. Read without the lock
 * @number: number of this queue
 * @hctx: number of its hardware queue
 * @bit: its bit in @runnable
 * @runnable: the hardware queue's map of runnable queues
 * @published: its first start tag as published to virtual time, in the mindicator's numbers, or MINDICATOR_NONE
 * @leaves: its hardware queue is losing its last CPU: all its requests are dispatched as if at level MQFQ_URGENT
 * @waits: the level at which it waits for tokens, or WAITING_NONE. Read without the lock
 * @urgent: its requests at levels before MQFQ_FAIR. Read without the lock
 * @given: tokens given to this queue and not used yet. Any context
 * @idle_due: period from which on its first request of class idle goes before all others; 0: it has none. Read without the lock
 * @first: the fairly shared request with the least start tag; NULL: there is none. It and the tag are read without the lock, as the memory
 *	of requests outlives the queues
 * @late: fairly shared requests that were inserted after one with a later start tag, ordered by start tag
 * @inserted: requests inserted since the start; read without the lock
 * @dispatched: requests dispatched since the start; read without the lock
 * @sectors: sectors read and sectors written by dispatched requests; read without the lock
 * @idle: requests of it that left the drive while every waiting request was too far ahead to take their place
 * @serving: number of the flow of the request dispatched last
 * @told_dispatched: part of @dispatched that was added to the flows' counters
 * @told_sectors: part of @sectors that was added to the flows' counters
 * @throttled: number of the flow whose first request is too far ahead, or FLOWS_NONE
 * @throttled_ns: time up to which that was accounted
 * @throttled_idle: @idle at that time
 * @span: the span of virtual time that it waited for last
 * @lists: requests by level, oldest first, except those in @late
 * @joined: the request that a bio joins
 * @ends: where the latest requests end, for merging; not protected by the lock
 */
struct mqfq_queue {
	spinlock_t lock;
	unsigned int filled;
	unsigned int number, hctx, bit;
	unsigned long *runnable;
	bool leaves;
	u64 published;
	unsigned int waits;
	unsigned int urgent;
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
	u64 span;
	struct list_head lists[WAITING_LEVELS];
	struct mqfq_entry *joined;
	struct recent_ends ends;
} ____cacheline_aligned_in_smp;

/* Groups of CPUs that share something: a core, a last-level cache, a NUMA node, a socket. */
#define MQFQ_GROUPS 4

/**
 * struct mqfq_place - hardware queue and CPU of a queue
 * @hctx: number of its hardware queue
 * @cpu: its CPU
 * @group: numbers of the CPU's groups, the smallest group first
 */
struct mqfq_place {
	unsigned int hctx, cpu;
	unsigned int group[MQFQ_GROUPS];
};

/**
 * struct mqfq - one drive
 * @knobs: values of the knobs
 * @lock: protects @knobs, the searches, @d and @t
 * @d: D, requests
 * @d_search: search for D, if it is automatic
 * @t_search: search for T in KiB, if it is automatic
 * @write_cost: cost of a write, set or found
 * @period: period of the last tick of the searches
 * @t: T, in units of tags
 * @span_shift: a span is 2 to this power, in units of tags
 * @write_cost_pct: price of a write now, in percent of a read of the same size; differs from the cost while that is measured
 * @hctxs: hardware queues, by number
 * @hctx_count: number of @hctxs
 * @runnable: memory of their bitmaps of runnable queues
 * @numbers: memory of their arrays of queue numbers
 * @queues: queues, by number
 * @queue_count: number of @queues
 * @tokens: the free ones of the D tokens
 * @waiting: queues that wait for a token
 * @wheel: queues that wait for virtual time
 * @mindicator: the least of the published start tags
 * @flows: the flows that share the drive
 * @shares: weights of cgroups that compete
 * @accounts: statistics of flows, by place
 * @accounts_lock: protects the windows in @accounts, and @window, @unsure and @collection; taken before a queue's lock
 * @accounts_due: the current window is to end
 * @window: number of the current window
 * @active: bitmap of flows that inserted requests in the current window
 * @unsure: how far virtual time moved while the last window was being ended
 * @collection: number of calls of mqfq_collect()
 * @breaks: grows when neither the current window nor the next one counts, for any flow: see account.h
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
