/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Detects real-time activity on a drive. Activity begins when a real-time request arrives. It ends when no real-time request is
 * queued or in the drive and none has arrived for a grace period: four times the longest recent gap between arrivals, at least 100 ms.
 */
#ifndef TAILGATE_SCHED_ACTIVITY_H
#define TAILGATE_SCHED_ACTIVITY_H

#include <linux/types.h>

#include "bounds/estimate.h"

/* Least grace period. It applies to a first request, before any gap is known, and is short enough to cost the background little. */
#define ACTIVITY_GRACE_NS_MIN 100000000ULL
/*
 * The grace period, in longest recent gaps, and how slowly such a gap is forgotten: each new one reduces it by 1 / 2^6. The first request
 * after the end of activity meets a full drive. With arrivals at random, fewer than one in a thousand come so late.
 */
#define ACTIVITY_GAPS 4
#define ACTIVITY_DECAY_SHIFT 6
/* A longer gap is silence, not a period. */
#define ACTIVITY_PERIOD_NS_MAX 5000000000ULL

/**
 * struct activity - real-time activity on one drive
 * @watched: something depends on it
 * @active: there is real-time activity
 * @queued: real-time requests were still queued after the latest dispatch: they are not new arrivals
 * @seen_ns: when activity_watch() last found a real-time request queued; 0: never
 * @period_ns: longest recent gap between arrivals
 * @begun: number of times that activity began
 */
struct activity {
	bool watched, active, queued;
	u64 seen_ns, period_ns, begun;
};

/* Time in ns at which activity ends if no further real-time request arrives. */
static inline u64 activity_quiet_ns(const struct activity *a)
{
	return a->seen_ns + max_t(u64, ACTIVITY_GAPS * a->period_ns, ACTIVITY_GRACE_NS_MIN) + 1;
}

/* Time in ns, later than @now_ns, at which activity may have ended. */
static inline u64 activity_until_ns(const struct activity *a, u64 now_ns)
{
	/* a real-time request in the drive may prolong activity */
	return activity_quiet_ns(a) > now_ns ? activity_quiet_ns(a) :
					       now_ns + ACTIVITY_GRACE_NS_MIN;
}

/**
 * activity_watch() - update activity before a dispatch
 * @a: the drive's activity
 * @queued: a real-time request is queued
 * @inflight: a real-time request is in the drive
 * @now_ns: the time
 *
 * Return: true if activity has begun or ended.
 */
static inline bool activity_watch(struct activity *a, bool queued, bool inflight, u64 now_ns)
{
	bool was_active = a->active;
	u64 gap_ns = now_ns - a->seen_ns;

	if (queued) {
		if (!a->queued && a->seen_ns && gap_ns <= ACTIVITY_PERIOD_NS_MAX)
			a->period_ns = recent_max(a->period_ns, gap_ns, ACTIVITY_DECAY_SHIFT);
		a->seen_ns = now_ns;
		a->active = true;
		a->begun += !was_active;
	} else if (was_active) {
		/* signed: @seen_ns may come from another CPU, whose clock is slightly ahead */
		a->active = inflight || (s64)(activity_quiet_ns(a) - now_ns) > 0;
	}
	a->queued = queued;
	return a->active != was_active;
}

#endif
