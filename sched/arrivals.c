// SPDX-License-Identifier: GPL-2.0-only
/* The arrivals of a flow: see arrivals.h. Included by k2.c. */
#include <linux/bitops.h>
#include <linux/kernel.h>
#include <linux/math64.h>

#include "arrivals.h"

/* Of the latest 32 arrivals so many may have met another of the flow: more is depth, not lateness. */
#define ARRIVALS_SHARED_MAX 4
/* From so many gaps on, one may be shorter than the early quantile. */
#define ARRIVALS_OUTLIER_MIN 16

static inline void arrivals_add(struct arrivals_gaps *gaps, u32 ns)
{
	u32 least = U32_MAX, second = U32_MAX;
	u64 sum = 0, distance = 0;
	unsigned int i;

	gaps->ns[gaps->next] = ns;
	gaps->next = (gaps->next + 1) % ARRIVALS_WINDOW;
	gaps->count = min_t(unsigned int, gaps->count + 1, ARRIVALS_WINDOW);
	for (i = 0; i < gaps->count; i++) {
		u32 gap = gaps->ns[i];

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

static inline void arrivals_forget(struct arrivals *a)
{
	unsigned int way;

	for (way = 0; way < ARRIVALS_WAYS; way++) {
		a->gaps[way].count = 0;
		a->gaps[way].next = 0;
	}
	a->in_time = 0;
}

/* From the latest end, the latest arrival, or the grid's point of it, by @way, to the earliest time at which the next is expected. */
static inline u32 arrivals_gap_ns(const struct arrivals *a)
{
	return a->gaps[a->way].early;
}

/* Where that begins; with ARRIVALS_FROM_END the caller knows. */
static inline u64 arrivals_origin_ns(const struct arrivals *a)
{
	return a->way == ARRIVALS_FROM_GRID ? a->grid_ns : a->arrived_ns;
}

/* And from there to when it is overdue. */
static inline u32 arrivals_late_ns(const struct arrivals *a)
{
	const struct arrivals_gaps *gaps = &a->gaps[a->way];

	return gaps->mean - gaps->early + max(3 * gaps->scatter, gaps->mean / 10);
}

/* Do gaps vary so little that it is worth while to wait for the next arrival? */
static inline bool arrivals_predictable(const struct arrivals *a)
{
	const struct arrivals_gaps *gaps = &a->gaps[a->way];

	return a->in_time >= 2 && gaps->early >= gaps->mean / 8 * 5 &&
	       hweight32(a->shared) <= ARRIVALS_SHARED_MAX;
}

/* The grid's next point, near the arrival at @now_ns. One that is off by half a gap begins another grid. */
static inline void arrivals_advance_grid(struct arrivals *a, u64 now_ns)
{
	u32 gap = a->gaps[ARRIVALS_FROM_ARRIVAL].count ? a->gaps[ARRIVALS_FROM_ARRIVAL].mean : 0;
	s64 off = now_ns - a->grid_ns - gap;

	if (off < gap / 2 && off > -(s64)(gap / 2))
		a->grid_ns += gap + off / ARRIVALS_GRID_SHARE;
	else
		a->grid_ns = now_ns;
}

/**
 * arrivals_note() - a request has come
 * @a: of its flow
 * @now_ns: when
 * @ended_ns: when the latest before it ended, if it is alone
 * @alone: no other of the flow is under way
 */
static inline void arrivals_note(struct arrivals *a, u64 now_ns, u64 ended_ns, bool alone)
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
	    (gaps->count && gap > (u64)ARRIVALS_SILENCE * gaps->mean)) {
		arrivals_forget(a);
		return;
	}
	if (gaps->count && gap <= (u64)gaps->early + arrivals_late_ns(a))
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
