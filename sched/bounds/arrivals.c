// SPDX-License-Identifier: GPL-2.0-only
/* The arrivals of a flow: see arrivals.h. Included by ahead.c. */
#include <linux/bitops.h>
#include <linux/kernel.h>
#include <linux/math64.h>

#include "arrivals.h"

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

/* Moves the grid on to its point near the arrival at @now_ns. An arrival that is off by half a gap begins another grid. */
static inline void arrivals_advance_grid(struct arrivals *a, u64 now_ns)
{
	s64 gap = a->count ? a->gaps[ARRIVALS_FROM_ARRIVAL].mean : 0;
	s64 off = now_ns - a->origin_ns[ARRIVALS_FROM_GRID] - gap;

	if (off < gap / 2 && off > -(gap / 2))
		a->origin_ns[ARRIVALS_FROM_GRID] += gap + off / ARRIVALS_GRID_SHARE;
	else
		a->origin_ns[ARRIVALS_FROM_GRID] = now_ns;
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
		max_t(s64, now_ns - a->origin_ns[ARRIVALS_FROM_GRID], 1),
	};
	unsigned int shift = min_t(unsigned int, fls(a->count + 1) - 1, ARRIVALS_MEMORY);
	bool first = !a->origin_ns[ARRIVALS_FROM_ARRIVAL];
	u64 gap = gap_ns[a->way];
	unsigned int way;

	a->origin_ns[ARRIVALS_FROM_ARRIVAL] = now_ns;
	arrivals_advance_grid(a, now_ns);
	a->irregular = a->irregular << 1 | (regular ? 0 : 1);
	if (!regular)
		return;
	/* if the clock of another CPU was ahead by a little, that is a long gap too */
	if (first || gap_ns[ARRIVALS_FROM_END] > ARRIVALS_GAP_NS_MAX ||
	    (a->count && gap > ARRIVALS_SILENCE * a->gaps[a->way].mean)) {
		a->count = 0;
		return;
	}
	a->overdue = a->overdue << 1 |
		     (!a->count || gap > arrivals_gap_ns(a) + arrivals_late_ns(a));
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
