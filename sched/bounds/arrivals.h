/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * When will a flow's next request come? Learned from its latest gaps, which are measured in three ways:
 * - from the end of one request to the arrival of the next: a task that reads, works, and reads again;
 * - from arrival to arrival: a task that a timer wakes;
 * - from a grid to the arrival: a task that a clock wakes, but that is late or early by chance. The grid's latest point is where
 *   the latest arrival would have been, had it come as arrivals do in the mean.
 * The way whose gaps scatter least predicts.
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

/* Gaps that are remembered, each way. */
#define ARRIVALS_WINDOW 32
/* A longer gap is silence, not a period. */
#define ARRIVALS_GAP_NS_MAX 1000000000ULL
/* A gap of this many times the mean is silence too. */
#define ARRIVALS_SILENCE 4
/* An arrival moves the grid by this share of its distance from it. */
#define ARRIVALS_GRID_SHARE 8
/* Of the latest 32 arrivals this many may have met another request of the flow: more is depth, not lateness. */
#define ARRIVALS_SHARED_MAX 4
/* From this many gaps on, one may be shorter than the early quantile. */
#define ARRIVALS_OUTLIER_MIN 16

enum arrivals_way { ARRIVALS_FROM_END, ARRIVALS_FROM_ARRIVAL, ARRIVALS_FROM_GRID, ARRIVALS_WAYS };

/**
 * struct arrivals_gaps - the latest gaps, measured one way; times in ns
 * @ns: the gaps, a ring
 * @count: number of them, at most ARRIVALS_WINDOW
 * @next: index of the next one
 * @early: an early quantile of them
 * @mean: their mean
 * @scatter: their mean distance from @mean
 */
struct arrivals_gaps {
	u64 ns[ARRIVALS_WINDOW];
	u8 count, next;
	u64 early, mean, scatter;
};

/**
 * struct arrivals - the arrivals of one flow
 * @gaps: by enum arrivals_way
 * @arrived_ns: latest arrival; 0: none yet
 * @grid_ns: the grid's latest point
 * @shared: bit i: the i-th latest arrival came while another request of the flow was in the drive
 * @way: the way that predicts
 * @in_time: arrivals since the latest that was overdue; stops at 2
 */
struct arrivals {
	struct arrivals_gaps gaps[ARRIVALS_WAYS];
	u64 arrived_ns, grid_ns;
	u32 shared;
	u8 way;
	u8 in_time;
};

#endif
