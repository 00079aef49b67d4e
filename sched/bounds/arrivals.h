/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Predicts the next arrival of a flow from its latest gaps. Each gap is measured from three origins:
 * - the completion of the previous request, for a task that reads, works, and reads again;
 * - the arrival of the previous request, for a task that is woken by a timer relative to its last wake-up;
 * - the nearest point of a periodic grid, for a task that is woken periodically, with jitter. Gaps between arrivals contain the jitter of
 *   two arrivals; gaps from the grid contain it once. The grid advances by the mean gap, and each arrival corrects it by 1/8 of the
 *   deviation.
 * The origin whose gaps have the least mean deviation is used.
 *
 * A prediction is a time span. It begins at an early quantile of the latest gaps, so that a flow with varying gaps is expected early. It
 * ends when the arrival is overdue: later than the mean by three times the mean deviation, and by at least a tenth of the mean gap. After
 * an overdue arrival the flow is predicted again once two arrivals were in time.
 *
 * This code does not depend on requests or schedulers, takes no lock, and reads no clock.
 */
#ifndef TAILGATE_SCHED_ARRIVALS_H
#define TAILGATE_SCHED_ARRIVALS_H

#include <linux/types.h>

/* Number of latest gaps kept for each origin. */
#define ARRIVALS_WINDOW 32
/* A longer gap is silence, not a period. */
#define ARRIVALS_GAP_NS_MAX 1000000000ULL
/* A gap of this many times the mean is silence too. */
#define ARRIVALS_SILENCE 4
/* An arrival moves the grid by 1/8 of its deviation from the grid. */
#define ARRIVALS_GRID_SHARE 8
/* A flow is not predictable if more than this many of its latest 32 arrivals were irregular: it then keeps several requests in flight. */
#define ARRIVALS_IRREGULAR_MAX 4
/* With at least this many gaps, the early quantile is the second shortest gap instead of the shortest. */
#define ARRIVALS_OUTLIER_MIN 16

enum arrivals_way { ARRIVALS_FROM_END, ARRIVALS_FROM_ARRIVAL, ARRIVALS_FROM_GRID, ARRIVALS_WAYS };

/**
 * struct arrivals_gaps - the latest gaps, measured from one origin; times in ns
 * @ns: ring buffer of the gaps
 * @early: early quantile of the gaps: the shortest or the second shortest
 * @mean: mean gap
 * @scatter: mean absolute deviation of the gaps from @mean
 */
struct arrivals_gaps {
	u64 ns[ARRIVALS_WINDOW];
	u64 early, mean, scatter;
};

/**
 * struct arrivals - the arrivals of one flow
 * @origin_ns: times of the latest completion (set by the owner), the latest arrival, and the grid's latest point
 * @gaps: gaps from each origin to the next arrival
 * @count: number of gaps since the latest silence
 * @irregular: bit i is set if the i-th latest arrival does not help to predict the next one
 * @overdue: bit i is set if the i-th latest arrival was overdue
 * @way: the origin used for prediction
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
