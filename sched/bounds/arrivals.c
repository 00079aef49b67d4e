// SPDX-License-Identifier: GPL-2.0-only
/* Prediction of a flow's arrivals: see arrivals.h. Included by ahead.c. */
#include <linux/bitops.h>
#include <linux/kernel.h>
#include <linux/math64.h>

#include "arrivals.h"

/* Computes the statistics of the first @count gaps. */
static void arrivals_measure(struct arrivals_gaps *gaps, unsigned int count)
{
	u64 least = U64_MAX, second = U64_MAX, sum = 0, distance = 0;
	unsigned int i;

	for (i = 0; i < count; i++) {
		second = min(second, max(least, gaps->ns[i]));
		least = min(least, gaps->ns[i]);
		sum += gaps->ns[i];
	}
	gaps->early = count < ARRIVALS_OUTLIER_MIN ? least : second;
	gaps->mean = div_u64(sum, count);
	for (i = 0; i < count; i++)
		distance += max(gaps->ns[i], gaps->mean) - min(gaps->ns[i], gaps->mean);
	gaps->scatter = div_u64(distance, count);
}

/* Time in ns from the origin to the expected arrival: an early quantile. */
static inline u64 arrivals_gap_ns(const struct arrivals *a)
{
	return a->gaps[a->way].early;
}

/* Time in ns after the expected arrival at which the request is overdue. */
static inline u64 arrivals_late_ns(const struct arrivals *a)
{
	const struct arrivals_gaps *gaps = &a->gaps[a->way];

	return gaps->mean - gaps->early + max(3 * gaps->scatter, div_u64(gaps->mean, 10));
}

/* Do the gaps vary little enough for a useful prediction? */
static inline bool arrivals_predictable(const struct arrivals *a)
{
	const struct arrivals_gaps *gaps = &a->gaps[a->way];

	return a->count && !(a->overdue & 3) && gaps->early >= gaps->mean / 8 * 5 &&
	       hweight32(a->irregular) <= ARRIVALS_IRREGULAR_MAX;
}

/* Advances the grid to its point near the arrival at @now_ns. An arrival that is off by half a mean gap or more starts a new grid. */
static void arrivals_advance_grid(struct arrivals *a, u64 now_ns)
{
	s64 gap = a->count ? a->gaps[ARRIVALS_FROM_ARRIVAL].mean : 0;
	s64 off = now_ns - a->origin_ns[ARRIVALS_FROM_GRID] - gap;

	if (off < gap / 2 && off > -(gap / 2))
		a->origin_ns[ARRIVALS_FROM_GRID] += gap + off / ARRIVALS_GRID_SHARE;
	else
		a->origin_ns[ARRIVALS_FROM_GRID] = now_ns;
}

/**
 * arrivals_note() - record an arrival
 * @a: the arrivals of its flow
 * @now_ns: time of the arrival
 * @regular: its gap helps to predict the next one; false for writes and while the flow has another request in the drive
 */
static void arrivals_note(struct arrivals *a, u64 now_ns, bool regular)
{
	u64 gap_ns[ARRIVALS_WAYS] = {
		now_ns - READ_ONCE(a->origin_ns[ARRIVALS_FROM_END]),
		now_ns - a->origin_ns[ARRIVALS_FROM_ARRIVAL],
		max_t(s64, now_ns - a->origin_ns[ARRIVALS_FROM_GRID], 1),
	};
	bool first = !a->origin_ns[ARRIVALS_FROM_ARRIVAL];
	u64 gap = gap_ns[a->way];
	unsigned int way;

	a->origin_ns[ARRIVALS_FROM_ARRIVAL] = now_ns;
	arrivals_advance_grid(a, now_ns);
	a->irregular = a->irregular << 1 | (regular ? 0 : 1);
	if (!regular)
		return;
	/* a gap that wrapped below 0, because the clock of another CPU is slightly ahead, counts as a long one */
	if (first || gap_ns[ARRIVALS_FROM_END] > ARRIVALS_GAP_NS_MAX ||
	    (a->count && gap > ARRIVALS_SILENCE * a->gaps[a->way].mean)) {
		a->count = 0;
		return;
	}
	a->overdue = a->overdue << 1 |
		     (!a->count || gap > arrivals_gap_ns(a) + arrivals_late_ns(a));
	a->way = ARRIVALS_FROM_END;
	for (way = 0; way < ARRIVALS_WAYS; way++) {
		a->gaps[way].ns[a->count % ARRIVALS_WINDOW] = gap_ns[way];
		arrivals_measure(&a->gaps[way], min_t(u32, a->count + 1, ARRIVALS_WINDOW));
		if (a->gaps[way].scatter < a->gaps[a->way].scatter)
			a->way = way;
	}
	a->count++;
}
