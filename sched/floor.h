/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The floor: a minimum rate of background requests (be_floor_iops), in spite of strict priority and bounds. While background requests
 * wait, one of them becomes due every 1/be_floor_iops seconds. A due request is dispatched before real-time requests, and no bound
 * holds it except inflight_max; a discard also waits for the discard in the drive.
 *
 * If two requests are due at once, a waiting real-time request is dispatched between them, so the floor delays a real-time request by
 * one request at most. While background requests wait, at least be_floor_iops - 1 of them are dispatched each second, provided that
 * real-time requests are dispatched at least as often.
 *
 * Discards have a due time of their own, because they may be held while other background requests are dispatched.
 */
#ifndef TAILGATE_SCHED_FLOOR_H
#define TAILGATE_SCHED_FLOOR_H

#include <linux/kernel.h>
#include <linux/math64.h>
#include <linux/types.h>

enum floor_kind { FLOOR_REQUESTS, FLOOR_DISCARDS, FLOOR_KINDS };

/**
 * struct floor - the floor of one drive
 * @interval_ns: time between two due requests; 0: there is no floor
 * @due_ns: when the next request of each kind is due; 0: none was waiting when last checked
 * @passed: the latest background request was dispatched before a real-time request that still waits
 */
struct floor {
	u64 interval_ns, due_ns[FLOOR_KINDS];
	bool passed;
};

/* A request of this kind waits: is it due now? @rt_waits: a real-time request waits too. */
static inline bool floor_owes(struct floor *f, enum floor_kind kind, bool rt_waits, u64 now_ns)
{
	if (!f->interval_ns)
		return false;
	if (!f->due_ns[kind])
		f->due_ns[kind] = now_ns + f->interval_ns;
	return now_ns >= f->due_ns[kind] && !(rt_waits && f->passed);
}

/*
 * A request of this kind is dispatched. If it was not due yet, the next is due one interval from now: requests above the floor do not
 * postpone the next one further. If it was late, the next is due one interval after this one was, or now: the floor catches up by at
 * most one request. If no more requests of the kind wait, the caller then clears @due_ns.
 */
static inline void floor_went(struct floor *f, enum floor_kind kind, bool rt_waits, u64 now_ns)
{
	u64 due_ns = f->due_ns[kind];

	f->due_ns[kind] = !due_ns || now_ns < due_ns ? now_ns + f->interval_ns :
						       max(due_ns + f->interval_ns, now_ns);
	f->passed = rt_waits;
}

static inline void floor_change(struct floor *f, unsigned int iops)
{
	u64 interval_ns = iops ? div_u64(1000000000, iops) : 0;

	if (interval_ns != f->interval_ns)
		f->due_ns[FLOOR_REQUESTS] = f->due_ns[FLOOR_DISCARDS] = 0;
	f->interval_ns = interval_ns;
}

#endif
