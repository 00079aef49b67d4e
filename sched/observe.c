// SPDX-License-Identifier: GPL-2.0-only
/* Counts, and calls the observer's hooks: see observe.h. Included by k2.c; all but k2_note_rt_ended() run under the dispatcher's lock. */
#include <linux/kernel.h>

#include "k2.h"

/* Counts a dispatched request and its wait. */
static inline void k2_count_dispatch(struct k2 *k2, unsigned int level, u64 since_ns, u64 now)
{
	/* insertion may have read the clock of another CPU, which is slightly ahead */
	u64 waited_us = now > since_ns ? div_u64(now - since_ns, 1000) : 0;

	if (!K2_STATISTICS)
		return;
	k2->dispatched[level]++;
	k2->wait[level][min_t(int, fls64(waited_us), K2_WAIT_BUCKETS - 1)]++;
}

/* A bound refuses the next background request. Reports the first refusal after each background dispatch. */
static noinline void k2_note_held(struct k2 *k2, const struct bound_request *r)
{
	unsigned int observer = k2_observer();

	WRITE_ONCE(k2->released_by, K2_RELEASE_RUN);
	if (k2->held == observer)
		return;
	k2->held = observer;
	k2->held_ns = r->now_ns;
	k2_observe_hold(k2, r);
}

/* The drive has no free slot: @requests were in it when the bound was checked. Reported only if the next request is a background one. */
static noinline void k2_note_full(struct k2 *k2, u64 requests)
{
	unsigned int filled = k2->levels.filled;
	struct bound_request r = {
		.now_ns = k2_now(k2),
		.requests = requests,
		.met = inflight_sectors(&k2->inflight),
		.why = K2_HOLD_COUNT,
		.limit = k2->inflight.requests_max,
	};

	if (!filled || filled & ~K2_MAP_BACKGROUND)
		return;
	r.sectors = k2_sectors(levels_first(&k2->levels, __ffs(filled)));
	k2_note_held(k2, &r);
}

/* A request is dispatched: if it is a background request, reports the end of a hold. */
static noinline void k2_note_released(struct k2 *k2, unsigned int list, u64 now)
{
	if (list < K2_LIST_BACKGROUND)
		return;
	if (k2->held == k2_observer())
		k2_observe_release(k2, READ_ONCE(k2->released_by),
				   max_t(s64, now - k2->held_ns, 0));
	k2->held = 0;
}

/* A real-time request is dispatched: records what is in the drive at that time. */
static noinline void k2_note_rt_went(struct k2 *k2, struct k2_entry *e, s64 error_ns, u64 now)
{
	unsigned long used = READ_ONCE(k2->notes_used);
	struct k2_note *note;
	unsigned int i;

	if (!~used)
		return;
	i = __ffs(~used);
	note = &k2->notes[i];
	note->dispatched_ns = now;
	note->error_ns = error_ns;
	note->met_sectors = inflight_sectors(&k2->inflight) - e->sectors;
	note->owed_sectors = debt_owed(&k2->debt, now);
	set_bit(i, &k2->notes_used);
	e->note = i + 1;
}

/* A real-time request with a note has left the drive; reported if it has completed. Any context. */
static noinline void k2_note_rt_ended(struct k2 *k2, struct k2_entry *e)
{
	if (e->state == K2_NEW)
		k2_observe_rt_end(k2, e, &k2->notes[e->note - 1], k2_now(k2));
	clear_bit(e->note - 1, &k2->notes_used);
}
