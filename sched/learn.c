// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the bounds learn of the drive, and of those who use it, from requests that go there and leave it. Included by k2.c; what is told of
 * ends runs in any context, all else under the dispatcher's lock.
 */
#include <linux/kernel.h>

#include "k2.h"

/* Real-time requests in the drive. */
static unsigned int k2_rt_inflight(const struct k2 *k2)
{
	unsigned int level, count = 0;

	for (level = 0; level < K2_RT_LEVELS; level++)
		count += atomic_read(&k2->rt_inflight[level]);
	return count;
}

/* A real-time request goes that did not come back from the drive: what its arrival says. Return: how much later than expected it came. */
static s64 k2_learn_arrival(struct k2 *k2, struct k2_entry *e, u64 now)
{
	unsigned int flow = ahead_find(&k2->ahead, e->level, k2_key(e), now);
	u64 late_ns = arrivals_late_ns(&k2->ahead.flows[flow].arrivals);
	s64 error_ns = ahead_rt_went(&k2->ahead, flow, e->sectors, k2_writes(e), e->since_ns, now);

	e->flow = flow + 1;
	if (unlikely(k2_observer()))
		k2_observe_arrival(k2, flow, e->since_ns, error_ns, error_ns <= (s64)late_ns);
	return error_ns;
}

/* An entry goes whose time says something of the drive. */
static void k2_learn_times(struct k2 *k2, struct k2_entry *e, bool rt, u64 now)
{
	bool writes = k2_writes(e);

	if (writes || rt)
		e->marks |= K2_MARK_TIMED;
	if (writes)
		debt_went(&k2->debt, e->sectors, now);
	if (e->level == K2_BACKGROUND) {
		target_went(&k2->target, e->sectors);
		/* a piece as large as the target allows would have been larger */
		if (k2->piece_sectors && e->sectors >= k2->piece_sectors)
			k2->target.held = true;
		e->since_ns = now;
	}
}

/* An entry goes that is not of the background's list, or something is in use that learns from it. */
static noinline void k2_track(struct k2 *k2, struct k2_entry *e, u64 now)
{
	bool background = e->level == K2_BACKGROUND, rt = !background && e->list != K2_LIST_URGENT;
	s64 error_ns = K2_UNPREDICTED;

	if (!background)
		atomic_inc(&k2->rt_inflight[e->level]);
	if (rt) {
		k2->floor.passed = false;
		k2->activity.queued = k2->levels.filled & K2_MAP_RT;
	}
	if (e->list == K2_LIST_DISCARDS)
		discard_went(&k2->discard);
	if (k2->uses & K2_USES_AHEAD) {
		if (rt)
			error_ns = k2_learn_arrival(k2, e, now);
		else if (background)
			ahead_went(&k2->ahead, e->sectors, inflight_sectors(&k2->inflight),
				   k2_rt_inflight(k2), now);
	}
	if (k2->uses & K2_USES_TIMES && e->sectors)
		k2_learn_times(k2, e, rt, now);
	/* what goes beside the background may change its bounds: a request that was expected has come, a rate was learned */
	if (e->list < K2_LIST_BACKGROUND && k2->uses & (K2_USES_AHEAD | K2_USES_TIMES))
		atomic_xchg(&k2->blocked, 0);
	if (rt && unlikely(k2_observer()))
		k2_note_rt_went(k2, e, error_ns, now);
}

/* An entry leaves the drive that k2_track() has seen to. Any context. */
static noinline void k2_untrack(struct k2 *k2, struct k2_entry *e)
{
	u64 now = k2_now(k2), took_ns = now > e->since_ns ? now - e->since_ns : 0;

	if (unlikely(e->note))
		k2_note_rt_ended(k2, e);
	if (e->marks & K2_MARK_TIMED) {
		if (e->level != K2_BACKGROUND && e->list != K2_LIST_URGENT)
			target_ended(&k2->target, took_ns);
		if (k2_writes(e))
			debt_ended(&k2->debt, e->sectors, e->level == K2_BACKGROUND, took_ns);
		else
			debt_read_ended(&k2->debt, took_ns);
	}
	if (e->list == K2_LIST_DISCARDS)
		discard_ended(&k2->discard);
	if (e->flow)
		ahead_ended(&k2->ahead, e->flow - 1, now);
	if (e->level != K2_BACKGROUND)
		atomic_dec(&k2->rt_inflight[e->level]);
	e->flow = 0;
	e->note = 0;
}
