// SPDX-License-Identifier: GPL-2.0-only
/* For who observes: see observe.h. Nothing here changes what K2 does. Included by k2.c. */
#include <linux/kernel.h>

#include "k2.h"

/* For who observes: why somebody is about to look whether there is room. */
static inline void k2_note_run(struct k2 *k2, enum k2_release why)
{
	if (unlikely(k2_observer()))
		WRITE_ONCE(k2->released_by, why);
}

/* Is what is next of the background, as far as that can be said without the lock? */
static bool k2_background_is_next(const struct k2 *k2)
{
	unsigned int word, words = BITS_TO_LONGS(k2->ctx_count);
	unsigned long lists = READ_ONCE(k2->filled);

	for (word = 0; word < words; word++) {
		unsigned long ctxs;

		for (ctxs = READ_ONCE(k2->pending[word]); ctxs; ctxs &= ctxs - 1)
			lists |= READ_ONCE(k2->ctxs[word * BITS_PER_LONG + __ffs(ctxs)]->filled);
	}
	return lists == 1UL << (K2_BACKGROUND + 1);
}

/* A bound of so much refuses it. Return: true. */
static inline bool k2_refuses(struct k2_refusal *r, enum k2_hold why, unsigned int limit)
{
	r->why = why;
	r->limit = limit;
	return true;
}

/* Is so much (K2_ROOM_...) refused? As k2_has_room(), but changes nothing. */
static bool k2_refused(struct k2 *k2, unsigned int next, bool soon, struct k2_refusal *r)
{
	unsigned int fixed = READ_ONCE(k2->byte_limit), owed = 0, limit;
	u64 until_ns = 0, now = k2_now(k2);

	r->sectors = next == K2_HELD ? 0 : next & K2_ROOM_SECTORS;
	r->inflight = atomic_read(&k2->inflight);
	r->inflight_sectors = atomic_read(&k2->inflight_sectors);
	limit = READ_ONCE(k2->inflight_limit);
	if (r->inflight >= limit)
		return k2_refuses(r, K2_HOLD_COUNT, limit);
	if (next == K2_HELD)
		return k2_refuses(r, K2_HOLD_FLUSH, 0);
	limit = READ_ONCE(k2->debt.limit_sectors);
	if (next & K2_ROOM_WRITES && !debt_fits(&k2->debt, r->sectors, now))
		return k2_refuses(r, K2_HOLD_DEBT, limit);
	if (next & K2_ROOM_OWED)
		owed = debt_owed(&k2->debt, now);
	limit = fixed;
	if (READ_ONCE(k2->uses) & K2_USES_AHEAD)
		limit = ahead_limit(&k2->ahead, fixed, now, ahead_soon_ns(&k2->ahead, soon),
				    &until_ns);
	if (!r->sectors || r->inflight_sectors + (u64)r->sectors + owed <= limit)
		return false;
	if (!r->inflight && !owed)
		return until_ns && k2_refuses(r, K2_HOLD_IDLE, limit);
	return k2_refuses(r, limit == fixed ? K2_HOLD_BYTES : K2_HOLD_AHEAD, limit);
}

/* Somebody found no room, and somebody else wants to know when that begins. Return: false. */
static noinline bool k2_note_held(struct k2 *k2, unsigned int next, bool soon)
{
	unsigned int observer = k2_observer();
	struct k2_refusal refusal;
	unsigned long flags;

	raw_spin_lock_irqsave(&k2->held_lock, flags);
	WRITE_ONCE(k2->released_by, K2_RELEASE_RUN);
	if (observer && k2->held != observer && k2_background_is_next(k2) &&
	    k2_refused(k2, next, soon, &refusal)) {
		k2->held = observer;
		k2->held_ns = k2_now(k2);
		k2_observe_hold(k2, &refusal);
	}
	raw_spin_unlock_irqrestore(&k2->held_lock, flags);
	return false;
}

/* One goes, and somebody wants to know when the background does. */
static noinline void k2_note_released(struct k2 *k2, unsigned int list)
{
	unsigned int observer = k2_observer();
	unsigned long flags;

	if (!observer || list != K2_BACKGROUND + 1)
		return;
	raw_spin_lock_irqsave(&k2->held_lock, flags);
	if (k2->held == observer) {
		k2->held = 0;
		k2_observe_release(k2, READ_ONCE(k2->released_by), k2_now(k2) - k2->held_ns);
	}
	raw_spin_unlock_irqrestore(&k2->held_lock, flags);
}

/* By how much later it came than its flow was expected; K2_UNPREDICTED: the flow was not. */
static s64 k2_error_ns(const struct ahead *ahead, unsigned int flow, u64 arrived_ns)
{
	if (!(READ_ONCE(ahead->predicted) & 1UL << flow) ||
	    atomic_read(&ahead->flows[flow].under_way))
		return K2_UNPREDICTED;
	smp_rmb(); /* pairs with ahead_end() */
	return arrived_ns - READ_ONCE(ahead->flows[flow].due_ns);
}
