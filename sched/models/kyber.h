/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Kyber: as Linux's kyber decides (Documentation/block/kyber-iosched.rst), for comparison. Requests of four domains
 * need a token of their domain to enter the drive. Ten times a second the numbers of tokens are adjusted: when requests
 * of some domain stay in the drive for too long, the domains that meet their targets get fewer; a domain that misses
 * its own gets more.
 *
 * Each hardware queue has FIFOs of its own, and serves the domains in turn, in batches. Time of adjustments is counted
 * in ticks of the kernel's clock, as there.
 *
 * Everything here is under one lock, the caller's. The environment says, before it includes kyber.c, where an entry
 * and its list node lie:
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

/* All but the last one are measured and adjusted. */
enum kyber_domain { KYBER_READ, KYBER_WRITE, KYBER_DISCARD, KYBER_OTHER, KYBER_DOMAINS };
#define KYBER_MEASURED KYBER_OTHER

/* What is measured: from the start of a request, and from when the drive got it. */
enum kyber_latency { KYBER_TOTAL, KYBER_IO, KYBER_LATENCIES };

#define KYBER_TOKENS 256

/* A bucket of latencies is a quarter of the target wide; the first four meet it. */
#define KYBER_BUCKETS_SHIFT 2
#define KYBER_GOOD_BUCKETS (1 << KYBER_BUCKETS_SHIFT)
#define KYBER_BUCKETS (2 * KYBER_GOOD_BUCKETS)

/* A percentile is taken of so many samples, or of as many as there are a second after the first look at them. */
#define KYBER_SAMPLES 500

/* Debian's kernels tick 250 times a second. */
#define KYBER_TICK_NS 4000000
#define KYBER_SECOND 250
/* Ticks from the completion that starts the timer to its end: HZ / 10, and one that the timer wheel rounds up. */
#define KYBER_WINDOW (KYBER_SECOND / 10 + 1)

/* Share of the scheduler tags, in percent, that requests nobody waits for may take. */
#define KYBER_ASYNC_PERCENT 75

/* knob(name, unit, least, most, default, what it does) */
/* clang-format off */
#define KYBER_KNOBS(knob) \
	knob(read_lat_nsec, "ns", 0, 18446744073709551615u, 2000000, \
	     "target of the latency of reads") \
	knob(write_lat_nsec, "ns", 0, 18446744073709551615u, 10000000, \
	     "target of the latency of writes")
/* clang-format on */

/* in the order of the domains */
enum kyber_knob {
#define KYBER_KNOB_ID(name, ...) KYBER_KNOB_##name,
	KYBER_KNOBS(KYBER_KNOB_ID)
#undef KYBER_KNOB_ID
		KYBER_KNOB_COUNT
};

/**
 * struct kyber_entry - a request, as Kyber sees it; zeroed before it is first inserted
 * @domain: enum kyber_domain
 * @token: number of the token that it holds, from 1; 0: none
 */
struct kyber_entry {
	u8 domain;
	u16 token;
};

/**
 * struct kyber_queue - a hardware queue
 * @index: of it
 * @fresh: what was inserted, by domain; bios may still join it
 * @flushed: what waits for a token, by domain; empty, or older than all that is fresh
 * @domain: of the batch
 * @batched: requests that the batch had
 * @waiting: in struct kyber_tokens, while a request of the domain found no token
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
 * @depth: those in use; a larger one that was given out before @depth fell is none of them, and not missed
 * @taken: bitmap
 * @waiting: hardware queues that wait for one, the longest first
 * @freed: tokens that came back while somebody waited, not yet used up by waking
 */
struct kyber_tokens {
	u32 depth;
	unsigned long taken[BITS_TO_LONGS(KYBER_TOKENS)];
	struct list_head waiting;
	u32 freed;
};

/**
 * struct kyber - one drive
 * @targets: of latencies, in ns
 * @tokens: by domain
 * @samples: histogram of latencies since the last percentile of them was taken
 * @timeouts: tick at which few samples have to do; 0: nobody has looked at them yet
 * @p99: bucket of the total latency when it was last taken, -1 if it has been used or there was none
 * @queue_count: hardware queues
 * @queues: they
 * @run: asks for a run of a hardware queue
 * @argument: for @run
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
