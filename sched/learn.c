// SPDX-License-Identifier: GPL-2.0-only
/*
 * Updates what the bounds have learned about the drive and the load, on each dispatch and completion. Included by k2.c. k2_untrack() runs
 * on completion, in any context; all other functions run under the dispatcher's lock.
 */
#include "k2.h"

/*
 * Learns from the arrival of a real-time request that is being dispatched. Return: its lateness in ns, negative if it was early, or
 * K2_UNPREDICTED.
 */
static s64 k2_learn_arrival(struct k2 *k2, struct k2_entry *e, u64 now)
{
	unsigned int flow = ahead_find(&k2->ahead, e->level, k2_key(e), now);
	u64 late_ns = arrivals_late_ns(&k2->ahead.flows[flow].arrivals);
	s64 error_ns = ahead_rt_went(&k2->ahead, flow, k2_writes(e), e->since_ns, now);

	e->flow = flow + 1;
	if (unlikely(k2_observer()))
		k2_observe_arrival(k2, flow, e->since_ns, error_ns, error_ns <= (s64)late_ns);
	return error_ns;
}

/* Learns from the dispatch of a write or of a real-time request with data, and marks it: its service time will be measured. */
static void k2_learn_times(struct k2 *k2, struct k2_entry *e, bool rt, u64 now)
{
	bool writes = k2_writes(e), alone;

	if (k2->target.on && rt) {
		alone = inflight_requests(&k2->inflight) == 1 && now >= k2->debt.empty_ns;
		if (target_rt_went(&k2->target, e->sectors, writes, alone, now - e->since_ns, now))
			e->marks |= K2_MARK_ALONE;
		e->marks |= k2->target.kind == TARGET_PREDICTED ? K2_MARK_PREDICTED : 0;
	}
	e->marks |= K2_MARK_TIMED;
	if (writes)
		debt_went(&k2->debt, e->sectors, now);
	if (e->level == K2_BACKGROUND)
		e->since_ns = now;
}

/* Accounts for a dispatch that is not on the background list, or while a feature that learns from dispatches may be in use. */
static noinline void k2_track(struct k2 *k2, struct k2_entry *e, u64 now)
{
	bool background = e->level == K2_BACKGROUND, rt = !background && e->list != K2_LIST_URGENT;
	s64 error_ns = K2_UNPREDICTED;

	if (!background) {
		atomic_inc(&k2->rt_inflight[e->level]);
		atomic_inc(&k2->rt_inflight_all);
	}
	if (rt) {
		k2->floor.passed = false;
		k2->activity.queued = k2->levels.filled & K2_MAP_RT;
	}
	if (e->list == K2_LIST_DISCARDS)
		discard_went(&k2->discard);
	if (k2->ahead.learns) {
		if (rt)
			error_ns = k2_learn_arrival(k2, e, now);
		else if (background)
			ahead_went(&k2->ahead, e->sectors, inflight_sectors(&k2->inflight),
				   atomic_read(&k2->rt_inflight_all), now);
	}
	/* where so few may be in the drive that their size is what the bound limits, one at the limit is held by it */
	if (background && k2->target.on && k2->inflight.requests_max < K2_PIECES_IN_TARGET &&
	    k2->piece_sectors && e->sectors >= k2->piece_sectors)
		k2->target.held = true;
	if (k2->debt.set_sectors && e->sectors && (rt || k2_writes(e)))
		k2_learn_times(k2, e, rt, now);
	/* a real-time dispatch may raise the background's bounds: an expected request has arrived, or a rate was learned */
	if (e->list < K2_LIST_BACKGROUND && (k2->ahead.learns || k2->debt.on))
		atomic_xchg(&k2->blocked, 0);
	if (rt)
		k2_note(rt_went, k2, e, error_ns, now);
}

/* Undoes k2_track() when the entry leaves the drive, and learns from its service time if it has completed. Any context. */
static noinline void k2_untrack(struct k2 *k2, struct k2_entry *e)
{
	u64 now = k2_now(k2), took_ns = now > e->since_ns ? now - e->since_ns : 0;
	bool background = e->level == K2_BACKGROUND, done = e->state == K2_NEW;

	if (unlikely(e->note))
		k2_note_rt_ended(k2, e);
	if (e->marks & K2_MARK_TIMED) {
		if (done && !background && e->list != K2_LIST_URGENT)
			target_ended(&k2->target, !!(e->marks & K2_MARK_PREDICTED), e->sectors,
				     k2_writes(e), e->marks & K2_MARK_ALONE, took_ns);
		if (k2_writes(e))
			debt_ended(&k2->debt, e->sectors, done && background, took_ns);
		else if (done)
			debt_read_ended(&k2->debt, took_ns, now);
	}
	if (e->list == K2_LIST_DISCARDS)
		discard_ended(&k2->discard);
	if (e->flow)
		ahead_ended(&k2->ahead, e->flow - 1, done && !k2_writes(e), now);
	if (!background) {
		atomic_dec(&k2->rt_inflight[e->level]);
		atomic_dec(&k2->rt_inflight_all);
		if (K2_STATISTICS && done) {
			atomic64_inc(&k2->rt_ended);
			atomic64_add(took_ns, &k2->rt_ns);
		}
	}
}
