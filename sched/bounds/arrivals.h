/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * When will a flow's next request arrive? A gap is the time from an origin to the next arrival. Three origins are tried:
 * - the end of the previous request: a task that reads, works, and reads again;
 * - the arrival of the previous request: a task that a timer wakes;
 * - the nearest point of a grid: a task that a clock wakes with random delay. From arrival to arrival that delay would count twice. The
 *   grid's latest point is where the latest arrival would have been if arrivals came at their mean gap.
 * The origin with the least scatter predicts.
 *
 * A prediction is a span: from the mean gap minus twice the mean scatter, until the request is overdue. An overdue arrival teaches nothing
 * unless the previous one was overdue too, and after it two arrivals must be in time before the flow is predicted again.
 *
 * Nothing here knows requests or schedulers, takes a lock, or reads a clock.
 */
#ifndef TAILGATE_SCHED_ARRIVALS_H
#define TAILGATE_SCHED_ARRIVALS_H

#include <linux/types.h>

/* Mean and scatter are running means over about 2^ARRIVALS_MEMORY gaps. */
#define ARRIVALS_MEMORY 4
/* A gap that is longer than this, in ns, is silence, not a period. */
#define ARRIVALS_GAP_NS_MAX 1000000000ULL
/* A gap of this many times the mean is silence too. */
#define ARRIVALS_SILENCE 4
/* An arrival moves the grid by this share of its distance from it. */
#define ARRIVALS_GRID_SHARE 8
/* Of the latest 32 arrivals at most this many may be irregular in a predictable flow: with more, several requests are under way at a time. */
#define ARRIVALS_IRREGULAR_MAX 4

enum arrivals_way { ARRIVALS_FROM_END, ARRIVALS_FROM_ARRIVAL, ARRIVALS_FROM_GRID, ARRIVALS_WAYS };

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
 * @origin_ns: the latest end (set by the owner), the latest arrival, and the grid's latest point
 * @gaps: gaps from each of these
 * @count: gaps since the latest silence
 * @irregular: bit i: the i-th latest arrival does not predict the next
 * @overdue: bit i: the i-th latest arrival was overdue
 * @way: the origin that predicts
 */
struct arrivals {
	u64 origin_ns[ARRIVALS_WAYS];
	struct arrivals_gaps gaps[ARRIVALS_WAYS];
	u32 count;
	u32 irregular;
	u8 overdue;
	u8 way;
};

#endif
