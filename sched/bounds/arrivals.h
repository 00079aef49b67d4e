/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * When will a flow's next request arrive? A gap is the time from an origin to the next arrival. Two origins are tried:
 * - the end of the previous request: a task that reads, works, and reads again;
 * - the arrival of the previous request: a task that a timer wakes.
 * The origin with the least scatter predicts.
 *
 * A prediction is a span: from the mean gap minus twice the mean scatter, until the request is overdue. An overdue arrival teaches nothing
 * unless the previous one was overdue too, and after it two arrivals must be in time before the flow is predicted again.
 *
 * Nothing here knows requests or schedulers, takes a lock, or reads a clock.
 */
#ifndef TAILGATE_SCHED_ARRIVALS_H
#define TAILGATE_SCHED_ARRIVALS_H

#include <linux/bitops.h>
#include <linux/kernel.h>
#include <linux/types.h>

/* Mean and scatter are running means over about 2^ARRIVALS_MEMORY gaps. */
#define ARRIVALS_MEMORY 4
/* A gap that is longer than this, in ns, is silence, not a period. */
#define ARRIVALS_GAP_NS_MAX 1000000000ULL
/* A gap of this many times the mean is silence too. */
#define ARRIVALS_SILENCE 4
/* Of the latest 32 arrivals at most this many may be irregular in a predictable flow: with more, several requests are under way at a time. */
#define ARRIVALS_IRREGULAR_MAX 4

enum arrivals_way { ARRIVALS_FROM_END, ARRIVALS_FROM_ARRIVAL, ARRIVALS_WAYS };

/**
 * struct arrivals_gaps - gaps from one origin; times in ns
 * @mean: running mean
 * @scatter: running mean of the distance from @mean
 */
struct arrivals_gaps {
	u64 mean, scatter;
};

/**
 * struct arrivals - the arrivals of one flow
 * @origin_ns: the latest end (set by the owner), and the latest arrival
 * @gaps: gaps from each of these
 * @count: gaps since the latest silence
 * @irregular: bit i: the i-th latest arrival does not predict the next
 * @overdue: bit i: the i-th latest arrival was overdue
 * @way: the origin that predicts
 */
struct arrivals {
	u64 origin_ns[ARRIVALS_WAYS];
	struct arrivals_gaps gaps[ARRIVALS_WAYS];
	u32 count, irregular;
	u8 overdue, way;
};

/* Adds a gap to the running means, with a weight of 2^-@shift. */
static inline void arrivals_learn(struct arrivals_gaps *gaps, u64 gap_ns, unsigned int shift)
{
	s64 off = gap_ns - gaps->mean, distance = off < 0 ? -off : off;

	gaps->mean += off >> shift;
	gaps->scatter = shift ? gaps->scatter + ((s64)(distance - gaps->scatter) >> shift) : 0;
}

/* From the origin to the earliest time at which the next request is expected. */
static inline u64 arrivals_gap_ns(const struct arrivals *a)
{
	const struct arrivals_gaps *gaps = &a->gaps[a->way];

	return gaps->mean - min(2 * gaps->scatter, gaps->mean);
}

/* From there until it is overdue. */
static inline u64 arrivals_late_ns(const struct arrivals *a)
{
	const struct arrivals_gaps *gaps = &a->gaps[a->way];

	return 2 * gaps->scatter + max(3 * gaps->scatter, gaps->mean >> 3);
}

/* Is the scatter so small that a prediction is of use? */
static inline bool arrivals_predictable(const struct arrivals *a)
{
	const struct arrivals_gaps *gaps = &a->gaps[a->way];

	return a->count && !(a->overdue & 3) && 16 * gaps->scatter <= 3 * gaps->mean &&
	       hweight32(a->irregular) <= ARRIVALS_IRREGULAR_MAX;
}

/**
 * arrivals_note() - a request has arrived
 * @a: the arrivals of its flow
 * @now_ns: when it arrived
 * @regular: its gap predicts the next one
 */
static void arrivals_note(struct arrivals *a, u64 now_ns, bool regular)
{
	u64 gap_ns[ARRIVALS_WAYS] = {
		now_ns - READ_ONCE(a->origin_ns[ARRIVALS_FROM_END]),
		now_ns - a->origin_ns[ARRIVALS_FROM_ARRIVAL],
	};
	unsigned int shift = min_t(unsigned int, fls(a->count + 1) - 1, ARRIVALS_MEMORY);
	bool first = !a->origin_ns[ARRIVALS_FROM_ARRIVAL];
	unsigned int way;

	a->origin_ns[ARRIVALS_FROM_ARRIVAL] = now_ns;
	a->irregular = a->irregular << 1 | (regular ? 0 : 1);
	if (!regular)
		return;
	/* if the clock of another CPU was ahead by a little, that is a long gap too; one that waited for a tag arrived late */
	if (first || gap_ns[ARRIVALS_FROM_END] > ARRIVALS_GAP_NS_MAX ||
	    gap_ns[ARRIVALS_FROM_ARRIVAL] > ARRIVALS_GAP_NS_MAX ||
	    (a->count && gap_ns[a->way] > ARRIVALS_SILENCE * a->gaps[a->way].mean)) {
		a->count = 0;
		return;
	}
	a->overdue = a->overdue << 1 |
		     (!a->count || gap_ns[a->way] > arrivals_gap_ns(a) + arrivals_late_ns(a));
	if ((a->overdue & 3) == 1 && shift == ARRIVALS_MEMORY)
		return;
	a->way = ARRIVALS_FROM_END;
	for (way = 0; way < ARRIVALS_WAYS; way++) {
		arrivals_learn(&a->gaps[way], gap_ns[way], shift);
		if (a->gaps[way].scatter < a->gaps[a->way].scatter)
			a->way = way;
	}
	a->count += a->count < U32_MAX;
}

#endif
