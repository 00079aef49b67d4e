/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Kyber: a model of Linux's kyber (Documentation/block/kyber-iosched.rst), for comparison. A request needs a token of its
 * domain, one of four, to be dispatched. Ten times per second the numbers of tokens are adjusted: when requests of a domain
 * stay in the drive for too long, the domains that meet their targets get fewer tokens; a domain that misses its own target
 * gets more.
 *
 * Each hardware queue has FIFOs of its own, and serves the domains in turn, in batches. Like the kernel's, this code counts the
 * time between adjustments in ticks.
 *
 * All calls are made under one lock, the caller's. Before it includes kyber.c, the environment defines how to get from an
 * entry to its list node and back:
 *
 *	static struct list_head *kyber_node(struct kyber_entry *e);
 *	static struct kyber_entry *kyber_entry_of(struct list_head *node);
 */
#ifndef TAILGATE_SCHED_KYBER_H
#define TAILGATE_SCHED_KYBER_H

#include <linux/bitops.h>
#include <linux/list.h>
#include <linux/types.h>

#include "../knobs.h"

/* All domains but the last one are measured and adjusted. */
enum kyber_domain { KYBER_READ, KYBER_WRITE, KYBER_DISCARD, KYBER_OTHER, KYBER_DOMAINS };
#define KYBER_MEASURED KYBER_OTHER

/* Measured latencies: from the start of a request to its completion, and from its issue to the drive. */
enum kyber_latency { KYBER_TOTAL, KYBER_IO, KYBER_LATENCIES };

#define KYBER_TOKENS 256

/* Each latency bucket is a quarter of the target wide; latencies in the first four buckets meet the target. */
#define KYBER_BUCKETS_SHIFT 2
#define KYBER_GOOD_BUCKETS (1 << KYBER_BUCKETS_SHIFT)
#define KYBER_BUCKETS (2 * KYBER_GOOD_BUCKETS)

/* Samples needed for a percentile; fewer are enough one second after the first check. */
#define KYBER_SAMPLES 500

/* Debian's kernels tick 250 times a second. */
#define KYBER_TICK_NS 4000000
#define KYBER_SECOND 250
/* Ticks from the completion that arms the timer to its expiry: HZ / 10, plus one by which the timer wheel rounds up. */
#define KYBER_WINDOW (KYBER_SECOND / 10 + 1)

/* Share of the scheduler tags, in percent, that asynchronous requests may take. */
#define KYBER_ASYNC_PERCENT 75

/* knob(name, unit, least, most, default, what it does) */
/* clang-format off */
#define KYBER_KNOBS(knob) \
	knob(read_lat_nsec, "ns", 0, 18446744073709551615u, 2000000, \
	     "target latency of reads") \
	knob(write_lat_nsec, "ns", 0, 18446744073709551615u, 10000000, \
	     "target latency of writes")
/* clang-format on */

/* in the order of the domains */
enum kyber_knob {
#define KYBER_KNOB_ID(name, ...) KYBER_KNOB_##name,
	KYBER_KNOBS(KYBER_KNOB_ID)
#undef KYBER_KNOB_ID
		KYBER_KNOB_COUNT
};

/**
 * struct kyber_entry - the scheduler's data for a request; zeroed before it is first inserted
 * @domain: enum kyber_domain
 * @token: 1 + the number of the token that it holds; 0: none
 */
struct kyber_entry {
	u8 domain;
	u16 token;
};

/**
 * struct kyber_queue - a hardware queue
 * @index: number of the hardware queue
 * @fresh: inserted entries, by domain; bios may still be merged into them
 * @flushed: older entries that wait for a token, by domain; bios are not merged into them
 * @domain: domain of the present batch
 * @batched: requests dispatched in the present batch
 * @waiting: nodes in kyber_tokens.waiting, by domain, while the queue waits for a token
 */
struct kyber_queue {
	unsigned int index;
	struct list_head fresh[KYBER_DOMAINS];
	struct list_head flushed[KYBER_DOMAINS];
	unsigned int domain;
	unsigned int batched;
	struct list_head waiting[KYBER_DOMAINS];
};

/**
 * struct kyber_tokens - the tokens of a domain
 * @depth: number of tokens in use; tokens with higher numbers, given out before @depth fell, do not count
 * @taken: bitmap of tokens given out
 * @waiting: hardware queues that wait for a token, the longest wait first
 * @freed: tokens returned while queues waited, since the latest wake-up
 */
struct kyber_tokens {
	u32 depth;
	unsigned long taken[BITS_TO_LONGS(KYBER_TOKENS)];
	struct list_head waiting;
	u32 freed;
};

/**
 * struct kyber - one drive
 * @targets: target latencies by domain, in ns
 * @tokens: tokens by domain
 * @samples: histograms of latencies since their latest percentile was taken
 * @timeouts: tick from which on fewer samples are enough; 0: the samples were not checked yet
 * @p99: bucket of the latest 99th percentile of the total latency; -1: there was none, or it has been used
 * @queue_count: number of hardware queues
 * @queues: array of @queue_count hardware queues
 * @run: asks for a run of a hardware queue
 * @argument: passed to @run
 */
struct kyber {
	u64 targets[KYBER_MEASURED];
	struct kyber_tokens tokens[KYBER_DOMAINS];
	u32 samples[KYBER_MEASURED][KYBER_LATENCIES][KYBER_BUCKETS];
	u64 timeouts[KYBER_MEASURED];
	int p99[KYBER_MEASURED];
	unsigned int queue_count;
	struct kyber_queue *queues;
	void (*run)(void *argument, struct kyber_queue *q);
	void *argument;
};

#endif
