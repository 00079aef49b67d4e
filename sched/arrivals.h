/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * When will a flow's next request come? Learned from its latest gaps, in three ways: from the end of one request to the
 * arrival of the next (a task that asks, works, and asks again), from arrival to arrival (a task that a timer wakes), and
 * from a grid to the arrival: where the latest would have been, had it come as arrivals do in the mean (a task that a clock
 * wakes, but late or early by chance). The way whose gaps scatter less predicts.
 *
 * A prediction is a span. It begins with an early quantile of the latest gaps, so that a flow whose gaps vary is expected
 * early, and it ends when the arrival is overdue: later than the mean by three times the usual scatter, and by a tenth of
 * the gap at least. Who was overdue is not predicted again before two arrivals were in time.
 *
 * Nothing here knows of requests or schedulers, takes a lock, or reads a clock.
 */
#ifndef TAILGATE_SCHED_ARRIVALS_H
#define TAILGATE_SCHED_ARRIVALS_H

#include <linux/types.h>

/* Gaps that are remembered, each way. */
#define ARRIVALS_WINDOW 32
/* A longer gap is silence, not a period; sums of a few fit into 32 bits. */
#define ARRIVALS_GAP_NS_MAX 1000000000U
/* So is one that is so many times the mean. */
#define ARRIVALS_SILENCE 4

/* An arrival moves the grid by this share of what it is off by. */
#define ARRIVALS_GRID_SHARE 8

enum arrivals_way { ARRIVALS_FROM_END, ARRIVALS_FROM_ARRIVAL, ARRIVALS_FROM_GRID, ARRIVALS_WAYS };

/**
 * struct arrivals_gaps - the latest gaps, measured one way
 * @ns: the gaps, a ring
 * @count: of them, at most ARRIVALS_WINDOW
 * @next: where the next goes
 * @early: an early quantile of them
 * @mean: of them
 * @scatter: mean distance from @mean
 */
struct arrivals_gaps {
	u32 ns[ARRIVALS_WINDOW];
	u8 count, next;
	u32 early, mean, scatter;
};

/**
 * struct arrivals - of one flow
 * @gaps: by enum arrivals_way
 * @arrived_ns: latest arrival; 0: none yet
 * @grid_ns: the grid's point of it
 * @shared: of the latest 32 arrivals those that came while another was under way, the latest in bit 0
 * @way: that predicts
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
