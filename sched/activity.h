/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Is there real-time activity? It begins with a real-time request and lasts until none has come for a grace: twice the
 * longest recent gap between two arrivals, and 100 ms at least. A real-time request that is queued or in the drive keeps it up.
 */
#ifndef TAILGATE_SCHED_ACTIVITY_H
#define TAILGATE_SCHED_ACTIVITY_H

#include <linux/kernel.h>
#include <linux/types.h>

/* A first request has no gap yet; bounds cost the background little in this time. */
#define ACTIVITY_GRACE_NS_MIN 100000000ULL
/* A longer gap is silence, not a period. */
#define ACTIVITY_PERIOD_NS_MAX 5000000000ULL

/**
 * struct activity - real-time activity on one drive
 * @active: there is some
 * @queued: real-time requests are queued since before the latest dispatch
 * @seen_ns: when activity_watch() saw some queued last; 0: never
 * @period_ns: longest recent gap between such times: a gap counts an eighth less with each that follows
 * @begun: times that activity began
 */
struct activity {
	bool active;
	bool queued;
	u64 seen_ns;
	u64 period_ns;
	u64 begun;
};

/* When activity ends unless more of it comes. */
static inline u64 activity_quiet_ns(const struct activity *a)
{
	return a->seen_ns + max_t(u64, 2 * a->period_ns, ACTIVITY_GRACE_NS_MIN) + 1;
}

/* The same while there is activity, but later than @now_ns; 0: there is none. */
static inline u64 activity_until_ns(const struct activity *a, u64 now_ns)
{
	if (!a->active)
		return 0;
	/* a real-time request in the drive may keep it up for longer */
	return activity_quiet_ns(a) > now_ns ? activity_quiet_ns(a) :
					       now_ns + ACTIVITY_GRACE_NS_MIN;
}

/**
 * activity_watch() - before a dispatch
 * @a: the drive's
 * @queued: a real-time request is queued
 * @inflight: one is in the drive
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
			a->period_ns = max(gap_ns, a->period_ns - (a->period_ns >> 3));
		a->seen_ns = now_ns;
		a->active = true;
		a->begun += !was_active;
	} else if (was_active) {
		/* the clock of another CPU may have been ahead by a little */
		a->active = inflight || (s64)(activity_quiet_ns(a) - now_ns) > 0;
	}
	a->queued = queued;
	return a->active != was_active;
}

#endif
