// SPDX-License-Identifier: GPL-2.0-only
/* The arrivals of a flow: see arrivals.h. Included by ahead.c. */
#include <linux/bitops.h>
#include <linux/kernel.h>
#include <linux/math64.h>

#include "arrivals.h"

static void arrivals_add(struct arrivals_gaps *gaps, u64 ns)
{
	u64 least = U64_MAX, second = U64_MAX, sum = 0, distance = 0;
	unsigned int i;

	gaps->ns[gaps->next] = ns;
	gaps->next = (gaps->next + 1) % ARRIVALS_WINDOW;
	gaps->count = min_t(unsigned int, gaps->count + 1, ARRIVALS_WINDOW);
	for (i = 0; i < gaps->count; i++) {
		u64 gap = gaps->ns[i];

		second = min(second, max(least, gap));
		least = min(least, gap);
		sum += gap;
	}
	gaps->early = gaps->count < ARRIVALS_OUTLIER_MIN ? least : second;
	gaps->mean = div_u64(sum, gaps->count);
	for (i = 0; i < gaps->count; i++)
		distance += max(gaps->ns[i], gaps->mean) - min(gaps->ns[i], gaps->mean);
	gaps->scatter = div_u64(distance, gaps->count);
}

static void arrivals_forget(struct arrivals *a)
{
	unsigned int way;

	for (way = 0; way < ARRIVALS_WAYS; way++) {
		a->gaps[way].count = 0;
		a->gaps[way].next = 0;
	}
	a->in_time = 0;
}

/* From where a prediction counts (the latest end, the latest arrival or the grid) to the earliest time at which the next arrival is expected. */
static inline u64 arrivals_gap_ns(const struct arrivals *a)
{
	return a->gaps[a->way].early;
}

/* From there to when it is overdue. */
static inline u64 arrivals_late_ns(const struct arrivals *a)
{
	const struct arrivals_gaps *gaps = &a->gaps[a->way];

	return gaps->mean - gaps->early + max(3 * gaps->scatter, div_u64(gaps->mean, 10));
}

/* From where a prediction counts, unless that is the latest end, which the caller knows. */
static inline u64 arrivals_origin_ns(const struct arrivals *a)
{
	return a->way == ARRIVALS_FROM_GRID ? a->grid_ns : a->arrived_ns;
}

/* Do gaps vary so little that it is worth while to wait for the next arrival? */
static inline bool arrivals_predictable(const struct arrivals *a)
{
	const struct arrivals_gaps *gaps = &a->gaps[a->way];

	return a->in_time >= 2 && gaps->early >= gaps->mean / 8 * 5 &&
	       hweight32(a->shared) <= ARRIVALS_SHARED_MAX;
}

/* Moves the grid on to its point near the arrival at @now_ns. An arrival that is off by half a gap begins another grid. */
static void arrivals_advance_grid(struct arrivals *a, u64 now_ns)
{
	const struct arrivals_gaps *gaps = &a->gaps[ARRIVALS_FROM_ARRIVAL];
	s64 gap = gaps->count ? gaps->mean : 0, off = now_ns - a->grid_ns - gap;

	if (off < gap / 2 && off > -(gap / 2))
		a->grid_ns += gap + off / ARRIVALS_GRID_SHARE;
	else
		a->grid_ns = now_ns;
}

/**
 * arrivals_note() - a request has come
 * @a: the arrivals of its flow
 * @now_ns: when it came
 * @ended_ns: if @alone, when the latest request before it ended
 * @alone: no other request of the flow is in the drive
 */
static void arrivals_note(struct arrivals *a, u64 now_ns, u64 ended_ns, bool alone)
{
	const struct arrivals_gaps *gaps = &a->gaps[a->way];
	u64 gap_ns[ARRIVALS_WAYS] = { now_ns - ended_ns, now_ns - a->arrived_ns,
				      max_t(s64, now_ns - a->grid_ns, 1) };
	bool first = !a->arrived_ns;
	unsigned int way;
	u64 gap;

	a->arrived_ns = now_ns;
	arrivals_advance_grid(a, now_ns);
	a->shared = a->shared << 1 | (alone ? 0 : 1);
	if (first || !alone)
		return;
	gap = gap_ns[a->way];
	/* the clock of another CPU may have been ahead by a little: that is a long gap too */
	if (gap_ns[ARRIVALS_FROM_END] > ARRIVALS_GAP_NS_MAX ||
	    gap_ns[ARRIVALS_FROM_ARRIVAL] > ARRIVALS_GAP_NS_MAX ||
	    (gaps->count && gap > ARRIVALS_SILENCE * gaps->mean)) {
		arrivals_forget(a);
		return;
	}
	if (gaps->count && gap <= gaps->early + arrivals_late_ns(a))
		a->in_time = min_t(unsigned int, a->in_time + 1, 2);
	else
		a->in_time = 0;
	a->way = ARRIVALS_FROM_END;
	for (way = 0; way < ARRIVALS_WAYS; way++) {
		arrivals_add(&a->gaps[way], gap_ns[way]);
		if (a->gaps[way].scatter < a->gaps[a->way].scatter)
			a->way = way;
	}
}
