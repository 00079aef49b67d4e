/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The floor: what strict priority and bounds leave the background at least. While background requests wait, one of them is
 * owed to the drive in every 1/floor of a second; it goes before real-time requests and past every bound but that on
 * requests in the drive. So in any second in which background waits at least floor - 1 of it go, as long as real-time
 * requests go at least as often: of two that are owed at once, a waiting real-time request goes between them. It waits for one
 * more request at most.
 *
 * Requests and discards are owed apart: discards may be held while other background requests go.
 */
#ifndef TAILGATE_SCHED_FLOOR_H
#define TAILGATE_SCHED_FLOOR_H

#include <linux/kernel.h>
#include <linux/math64.h>
#include <linux/types.h>

enum floor_kind { FLOOR_REQUESTS, FLOOR_DISCARDS, FLOOR_KINDS };

/**
 * struct floor - of one drive
 * @interval_ns: time between two requests that are owed; 0: there is no floor
 * @due_ns: when the next of a kind is owed; 0: none of it waits, as far as was seen
 * @passed: the latest background request went before a real-time request that waits
 */
struct floor {
	u64 interval_ns;
	u64 due_ns[FLOOR_KINDS];
	bool passed;
};

/* One of this kind waits: is it owed to the drive now? @rt_waits: a real-time request waits too. */
static inline bool floor_owes(struct floor *f, enum floor_kind kind, bool rt_waits, u64 now_ns)
{
	if (!f->interval_ns)
		return false;
	if (!f->due_ns[kind])
		f->due_ns[kind] = now_ns + f->interval_ns;
	return now_ns >= f->due_ns[kind] && !(rt_waits && f->passed);
}

/*
 * One of this kind goes. What goes beyond the floor is not held against the kind later: the next is owed one interval from now at most.
 * What is late is caught up by one. @still_waits: more of the kind wait.
 */
static inline void floor_went(struct floor *f, enum floor_kind kind, bool rt_waits,
			      bool still_waits, u64 now_ns)
{
	u64 due_ns = f->due_ns[kind];

	if (!still_waits)
		f->due_ns[kind] = 0;
	else if (!due_ns || now_ns < due_ns)
		f->due_ns[kind] = now_ns + f->interval_ns;
	else
		f->due_ns[kind] = max(due_ns + f->interval_ns, now_ns);
	f->passed = rt_waits;
}

/* No more of this kind wait. */
static inline void floor_waits_no_more(struct floor *f, enum floor_kind kind)
{
	f->due_ns[kind] = 0;
}

static inline void floor_change(struct floor *f, unsigned int iops)
{
	u64 interval_ns = iops ? div_u64(1000000000, iops) : 0;

	if (interval_ns != f->interval_ns)
		f->due_ns[FLOOR_REQUESTS] = f->due_ns[FLOOR_DISCARDS] = 0;
	f->interval_ns = interval_ns;
}

#endif
