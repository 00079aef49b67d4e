/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * When will a flow's next request come? Its latest gaps say, each measured from three origins:
 * - the end of the request before: a task that reads, works, and reads again;
 * - the arrival of the request before: a task that a timer wakes;
 * - the nearest point of a grid: a task that a clock wakes, but that is late or early by chance. From arrival to arrival that error would
 *   count twice. The grid's latest point is where the latest arrival would have been, had it come as arrivals do in the mean.
 * The origin from which gaps scatter least predicts.
 *
 * A prediction is a span. It begins at an early quantile of the latest gaps, so that a flow whose gaps vary is expected early. It ends
 * when the arrival is overdue: later than the mean by three times the mean scatter, and by a tenth of the gap at least. A flow
 * that was overdue is not predicted again before two arrivals were in time.
 *
 * Nothing here knows requests or schedulers, takes a lock, or reads a clock.
 */
#ifndef TAILGATE_SCHED_ARRIVALS_H
#define TAILGATE_SCHED_ARRIVALS_H

#include <linux/types.h>

/* Gaps that are remembered, from each origin. */
#define ARRIVALS_WINDOW 32
/* A longer gap is silence, not a period. */
#define ARRIVALS_GAP_NS_MAX 1000000000ULL
/* A gap of this many times the mean is silence too. */
#define ARRIVALS_SILENCE 4
/* An arrival moves the grid by this share of its distance from it. */
#define ARRIVALS_GRID_SHARE 8
/* Of the latest 32 arrivals this many may be irregular: more is depth, not lateness. */
#define ARRIVALS_IRREGULAR_MAX 4
/* From this many gaps on, one may be shorter than the early quantile. */
#define ARRIVALS_OUTLIER_MIN 16

enum arrivals_way { ARRIVALS_FROM_END, ARRIVALS_FROM_ARRIVAL, ARRIVALS_FROM_GRID, ARRIVALS_WAYS };

/**
 * struct arrivals_gaps - the latest gaps, measured from one origin; times in ns
 * @ns: the gaps, a ring
 * @early: an early quantile of them
 * @mean: their mean
 * @scatter: their mean distance from @mean
 */
struct arrivals_gaps {
	u64 ns[ARRIVALS_WINDOW];
	u64 early, mean, scatter;
};

/**
 * struct arrivals - the arrivals of one flow
 * @origin_ns: the latest end (its owner sets it), the latest arrival, and the grid's latest point
 * @gaps: from each of these to the next arrival
 * @count: gaps since the latest silence
 * @irregular: bit i: the i-th latest arrival says nothing of the next
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
