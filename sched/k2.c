// SPDX-License-Identifier: GPL-2.0-only
/*
 * K2, the scheduler: see k2.h, whose parts are put together here. This file is included by the code that binds it to an environment, so that
 * the compiler sees both at once: on drives of a million requests a second every call counts.
 *
 * Both locks, k2->lock and those of the ctxs, are taken in process context only; completions use atomics.
 */
#include <linux/bitops.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/math64.h>

#include "k2.h"
#include "levels.c"
#include "bounds/ahead.c"
#include "bounds/debt.c"
#include "bounds/target.c"
#include "observe.c"
#include "learn.c"
#include "settings.c"

/* Compiled out only to measure what they cost. */
#ifndef K2_STATISTICS
#define K2_STATISTICS 1
#endif

/* --- knobs and set-up ------------------------------------------------------------------------------------------ */

/* Unblocks all lists; any context. Return: true if a hardware queue should be run. */
static inline bool k2_unblock(struct k2 *k2, enum k2_release why)
{
	if (likely(!atomic_read(&k2->blocked)) || !atomic_xchg(&k2->blocked, 0))
		return false;
	if (unlikely(k2_observer()))
		WRITE_ONCE(k2->released_by, why);
	return levels_any(&k2->levels);
}

/**
 * k2_configure() - set a knob
 * @k2: the drive's scheduler
 * @knob: which
 * @value: new value
 *
 * Process context. After a change the caller runs the hardware queues.
 *
 * Return: 0, or -ERANGE or -EINVAL with nothing changed.
 */
static int k2_configure(struct k2 *k2, enum k2_knob knob, u64 value)
{
	int err = knob_check(&k2_knob_infos[knob], value);

	if (err)
		return err;
	spin_lock(&k2->lock);
	WRITE_ONCE(k2->knobs[knob], value);
	k2_apply(k2);
	k2_unblock(k2, K2_RELEASE_KNOB);
	spin_unlock(&k2->lock);
	return 0;
}

/**
 * k2_init() - prepare a zeroed struct k2
 * @k2: the drive's scheduler
 * @ctxs: array of @ctx_count pointers to zeroed ctxs; belongs to the caller, outlives @k2
 * @ctx_count: hardware queues
 * @block_sectors: the drive's logical block
 * @arm: see struct k2
 * @argument: for @arm
 */
static void k2_init(struct k2 *k2, struct k2_ctx **ctxs, unsigned int ctx_count,
		    unsigned int block_sectors, void (*arm)(void *argument, u64 at_ns),
		    void *argument)
{
	unsigned int i;

	for (i = 0; i < K2_KNOB_COUNT; i++)
		k2->knobs[i] = k2_knob_infos[i].initial;
	k2->granule_sectors = max_t(unsigned int, K2_GRANULE_SECTORS, block_sectors);
	k2->arm = arm;
	k2->argument = argument;
	spin_lock_init(&k2->lock);
	INIT_LIST_HEAD(&k2->large);
	levels_init_lists(k2->levels.lists);
	k2->levels.ctx_count = ctx_count;
	k2->levels.ctxs = ctxs;
	for (i = 0; i < ctx_count; i++) {
		spin_lock_init(&ctxs[i]->lock);
		ctxs[i]->index = i;
		levels_init_lists(ctxs[i]->lists);
	}
	k2_apply(k2);
}

/**
 * k2_deinit() - check that nothing is left
 * @k2: the drive's scheduler; no call is running on it, and none will come
 *
 * Return: true if every entry was dispatched or removed, and every dispatched one has ended.
 */
static bool k2_deinit(struct k2 *k2)
{
	return !levels_queued(&k2->levels) && list_empty(&k2->large) &&
	       !atomic64_read(&k2->inflight.load) && !atomic_read(&k2->debt.written) &&
	       !atomic_read(&k2->discard.inflight);
}

/* --- insertion ------------------------------------------------------------------------------------------------- */

/**
 * k2_prepare() - before k2_insert(): where an entry belongs
 * @k2: the drive's scheduler
 * @e: in state K2_NEW or K2_RETURNED
 * @level: 0 to K2_LEVELS - 1
 * @urgent: serve it before all levels, in the order of insertion
 * @discards: it is a discard
 * @now: in ns
 */
static inline void k2_prepare(struct k2 *k2, struct k2_entry *e, unsigned int level, bool urgent,
			      bool discards, u64 now)
{
	unsigned int list = K2_LIST(level);

	if (unlikely(urgent))
		list = K2_LIST_URGENT;
	else if (unlikely(discards) && level == K2_BACKGROUND && READ_ONCE(k2->discard_sectors))
		list = K2_LIST_DISCARDS;
	e->since_ns = now;
	e->level = level;
	e->list = list;
	e->state = K2_QUEUED;
	e->marks = 0;
}

/**
 * k2_insert() - queue entries; then the caller runs the hardware queue
 * @k2: the drive's scheduler
 * @ctx: hardware queue they were submitted to
 * @entries: prepared, one or more; empty afterwards
 *
 * Process context. Once they are inserted they may go and end at any time.
 */
static inline void k2_insert(struct k2 *k2, struct k2_ctx *ctx, struct list_head *entries)
{
	spin_lock(&ctx->lock);
	levels_insert(&k2->levels, ctx, entries);
	spin_unlock(&ctx->lock);
}

/* --- has_work -------------------------------------------------------------------------------------------------- */

static noinline bool k2_has_unblocked(const struct k2 *k2)
{
	unsigned int queued = levels_queued(&k2->levels);

	if (queued & ~atomic_read(&k2->blocked))
		return true;
	if (!queued)
		return false;
	/*
	 * Pairs with the exchange in k2_unblock(): either what unblocks sees what was inserted, and runs a queue, or we see that nothing is
	 * blocked any more.
	 */
	smp_mb();
	queued = levels_queued(&k2->levels);
	return queued & ~atomic_read(&k2->blocked) ||
	       (queued && k2_draining(k2) && inflight_has_slot(&k2->inflight));
}

/**
 * k2_has_work() - is it worth while to call k2_dispatch()?
 * @k2: the drive's scheduler
 *
 * Any context, also hard interrupt; no lock, no clock, writes nothing. False while all that is queued is blocked: what unblocks it runs a
 * hardware queue, so nothing needs to poll. It may be true in vain.
 */
static inline bool k2_has_work(const struct k2 *k2)
{
	if (likely(!atomic_read(&k2->blocked)))
		return levels_any(&k2->levels);
	return k2_has_unblocked(k2);
}

/* --- dispatch -------------------------------------------------------------------------------------------------- */

/* The timer is due no later than at this time. */
static void k2_arm_by(struct k2 *k2, u64 at_ns)
{
	u64 armed_ns = READ_ONCE(k2->armed_ns);

	if (armed_ns && armed_ns <= at_ns)
		return;
	WRITE_ONCE(k2->armed_ns, at_ns);
	k2->arm(k2->argument, at_ns);
}

/**
 * k2_tick() - the timer that was armed
 * @k2: the drive's scheduler
 *
 * Any context. Return: true if a hardware queue should be run.
 */
static inline bool k2_tick(struct k2 *k2)
{
	WRITE_ONCE(k2->ticks, k2->ticks + 1);
	WRITE_ONCE(k2->armed_ns, 0);
	smp_mb(); /* either a dispatcher that blocks sees the timer unarmed, or we see what it has blocked */
	return k2_unblock(k2, K2_RELEASE_TIMER);
}

/*
 * Marks lists blocked. The caller must then look again whether they really are, and if not, call k2_unblock(): what ends first changes what a
 * bound looks at and then looks whether something is blocked, each with a full barrier between the two.
 */
static inline void k2_block(struct k2 *k2, unsigned int lists)
{
	atomic_or(lists, &k2->blocked);
	smp_mb__after_atomic();
}

/*
 * The dispatcher unblocks all lists. What was inserted since it collected may have found its list blocked, and nothing runs a queue for it
 * any more: the dispatcher must see it.
 */
static void k2_reopen(struct k2 *k2)
{
	if (atomic_read(&k2->blocked) && atomic_xchg(&k2->blocked, 0))
		levels_collect(&k2->levels);
}

/* The drive has no slot: nothing may go before a completion. Return: false if one has come. */
static inline bool k2_block_all(struct k2 *k2)
{
	u64 requests;

	k2_block(k2, K2_MAP_ALL);
	requests = inflight_requests(&k2->inflight);
	if (requests < k2->inflight.requests_max) {
		k2_reopen(k2);
		return false;
	}
	if (unlikely(k2_observer()))
		k2_note_full(k2, requests);
	return true;
}

/* Asks the bounds in turn. Return: BOUND_YES, a time, or BOUND_AT_END; @why is the bound that refuses. */
static u64 k2_ask_bounds(struct k2 *k2, struct bound_request *r, enum k2_hold *why)
{
	u64 until_ns;

	*why = K2_HOLD_DEBT;
	until_ns = debt_allows(&k2->debt, r);
	if (until_ns)
		return until_ns;
	*why = K2_HOLD_BYTES;
	until_ns = inflight_allows(&k2->inflight, r);
	if (until_ns)
		return until_ns;
	*why = K2_HOLD_TARGET;
	until_ns = target_allows(&k2->target, r);
	if (until_ns)
		return until_ns;
	*why = K2_HOLD_AHEAD;
	return ahead_allows(&k2->ahead, r);
}

/* May the first entry of a background list go? Return: as k2_ask_bounds(). */
static u64 k2_ask(struct k2 *k2, unsigned int list, u64 now, struct bound_request *r,
		  enum k2_hold *why)
{
	struct k2_entry *e = levels_first(&k2->levels, list);
	u64 until_ns, owed = k2->debt.on ? debt_owed(&k2->debt, now) : 0;

	*r = (struct bound_request){
		.now_ns = now,
		.sectors = k2_sectors(e),
		.writes = k2_writes(e),
		.requests = inflight_requests(&k2->inflight),
		.met = inflight_sectors(&k2->inflight) + owed,
	};
	if (list == K2_LIST_DISCARDS) {
		*why = K2_HOLD_DISCARD;
		return discard_allows(&k2->discard, r, activity_until_ns(&k2->activity, now));
	}
	until_ns = k2_ask_bounds(k2, r, why);
	if (until_ns && k2->target.on)
		k2->target.held = true;
	/* what is owed ends by the clock alone */
	if (owed && (until_ns == BOUND_AT_END || (until_ns && *why == K2_HOLD_AHEAD)))
		until_ns = min(until_ns,
			       debt_until_ns(&k2->debt, min(owed, r->met + r->sectors - r->limit),
					     now));
	return until_ns;
}

/* What the floor calls a background list. */
static inline enum floor_kind k2_floor_kind(unsigned int list)
{
	return list == K2_LIST_DISCARDS ? FLOOR_DISCARDS : FLOOR_REQUESTS;
}

/*
 * May the first entry of a background list go? If not, the list is blocked, and the timer armed for the time that a bound or the floor names.
 */
static bool k2_may_go(struct k2 *k2, unsigned int list, u64 now)
{
	struct bound_request r;
	enum k2_hold why;
	u64 until_ns;

	if (likely(!(k2->uses & K2_USES_BOUNDS)) || !k2_ask(k2, list, now, &r, &why) ||
	    k2_draining(k2))
		return true;
	k2_block(k2, 1U << list);
	until_ns = k2_ask(k2, list, now, &r, &why);
	if (!until_ns) {
		atomic_xchg(&k2->blocked, 0);
		return true;
	}
	if (k2->floor.interval_ns)
		until_ns = min(until_ns, max(k2->floor.due_ns[k2_floor_kind(list)], now + 1));
	if (until_ns != BOUND_AT_END)
		k2_arm_by(k2, until_ns);
	if (unlikely(k2_observer()))
		k2_note_held(k2, why, &r);
	return false;
}

/* Which of the background's lists is next: that of the request that has waited longest. */
static inline unsigned int k2_background_list(const struct k2 *k2, unsigned int lists)
{
	if (lists == K2_MAP_BACKGROUND)
		return levels_first(&k2->levels, K2_LIST_DISCARDS)->since_ns <
				       levels_first(&k2->levels, K2_LIST_BACKGROUND)->since_ns ?
			       K2_LIST_DISCARDS :
			       K2_LIST_BACKGROUND;
	return __ffs(lists);
}

/* Takes a staged entry away that does not go. */
static void k2_take_away(struct k2 *k2, struct k2_entry *e)
{
	levels_unstage(&k2->levels, e, e->list);
	if (e->list >= K2_LIST_BACKGROUND && !(k2->levels.filled & 1U << e->list))
		floor_waits_no_more(&k2->floor, k2_floor_kind(e->list));
}

/* Moves the first entry of a background list to @large, if it is too large and may be split. */
static bool k2_set_aside(struct k2 *k2, unsigned int list, void (*picked)(struct k2_entry *e))
{
	struct k2_entry *e = levels_first(&k2->levels, list);

	if (!k2->piece_sectors || list != K2_LIST_BACKGROUND ||
	    k2_sectors(e) <= k2->piece_sectors || !k2_may_split(e))
		return false;
	k2_take_away(k2, e);
	picked(e);
	e->state = K2_NEW;
	list_add_tail(k2_node(e), &k2->large);
	WRITE_ONCE(k2->has_large, 1);
	k2->taken++;
	return true;
}

/* Which of several lists, where a bound or a piece may be in the way. Return: K2_LISTS for none. */
static noinline unsigned int k2_choose_among(struct k2 *k2, unsigned int lists, u64 now,
					     void (*picked)(struct k2_entry *e))
{
	unsigned int background = lists & K2_MAP_BACKGROUND, owed = 0, list;

	lists &= ~background;
	for (list = K2_LIST_BACKGROUND; list < K2_LISTS; list++)
		if (background & 1U << list &&
		    floor_owes(&k2->floor, k2_floor_kind(list), lists, now))
			owed |= 1U << list;
	if (lists & 1U << K2_LIST_URGENT)
		return K2_LIST_URGENT;
	if (lists)
		background = owed;
	for (; background; background &= k2->levels.filled) {
		list = owed & background ? __ffs(owed & background) :
					   k2_background_list(k2, background);
		if (k2_set_aside(k2, list, picked))
			continue;
		if (owed & 1U << list || k2_may_go(k2, list, now))
			return list;
		background &= ~(1U << list);
	}
	return lists ? __ffs(lists) : K2_LISTS;
}

/* The list whose first entry goes now; K2_LISTS: none. */
static inline unsigned int k2_choose(struct k2 *k2, u64 now, void (*picked)(struct k2_entry *e))
{
	unsigned int blocked = atomic_read(&k2->blocked), lists;

	if (unlikely(blocked) && k2_draining(k2)) {
		k2_reopen(k2);
		blocked = 0;
	}
	lists = k2->levels.filled & ~blocked;
	if (!lists)
		return K2_LISTS;
	if (!inflight_has_slot(&k2->inflight)) {
		if (k2_block_all(k2))
			return K2_LISTS;
		lists = k2->levels.filled;
	}
	if (likely(lists == 1U << K2_LIST_BACKGROUND && !k2->uses))
		return K2_LIST_BACKGROUND;
	return k2_choose_among(k2, lists, now, picked);
}

static inline void k2_count_dispatch(struct k2 *k2, unsigned int level, u64 since_ns, u64 now)
{
	/* the clock of another CPU may have been ahead by a little at insertion */
	u64 waited_us = now > since_ns ? div_u64(now - since_ns, 1000) : 0;

	if (!K2_STATISTICS)
		return;
	k2->dispatched[level]++;
	k2->wait[level][min_t(int, fls64(waited_us), K2_WAIT_BUCKETS - 1)]++;
}

/* The first entry of a list goes to the drive. */
static __always_inline void k2_send(struct k2 *k2, struct k2_entry *e, unsigned int list, u64 now)
{
	unsigned int level = list == K2_LIST_BACKGROUND ? K2_BACKGROUND : e->level;
	bool full;

	levels_unstage(&k2->levels, e, list);
	e->state = K2_INFLIGHT;
	e->sectors = min_t(unsigned int, k2_sectors(e), (1U << 24) - 1);
	e->marks = 0;
	k2_count_dispatch(k2, level, e->since_ns, now);
	full = inflight_went(&k2->inflight, e->sectors);
	if (list >= K2_LIST_BACKGROUND)
		floor_went(&k2->floor, k2_floor_kind(list), k2->levels.filled & K2_MAP_RT,
			   k2->levels.filled & 1U << list, now);
	if (unlikely(k2->uses) || list != K2_LIST_BACKGROUND)
		k2_track(k2, e, now);
	if (full)
		k2_block_all(k2);
}

/* Before each dispatch: real-time activity and the target may change the bounds. */
static noinline void k2_adapt(struct k2 *k2, u64 now)
{
	bool changed = false;

	if (k2->uses & K2_USES_ACTIVITY)
		changed = activity_watch(&k2->activity, k2->levels.filled & K2_MAP_RT,
					 k2_rt_inflight(k2), now);
	if (k2->uses & K2_USES_TARGET && target_learn(&k2->target, now))
		changed = true;
	if (changed) {
		k2_apply(k2);
		k2_reopen(k2);
	}
}

/**
 * k2_dispatch() - pick the next entry for the drive, from any ctx
 * @k2: the drive's scheduler
 * @now: in ns
 * @picked: called with an entry under the lock, before it leaves
 *
 * Process context. Afterwards, k2_take_large().
 *
 * Return: an entry, now in flight, or NULL: nothing is queued that may go.
 */
static inline struct k2_entry *k2_dispatch(struct k2 *k2, u64 now,
					   void (*picked)(struct k2_entry *e))
{
	struct k2_entry *e = NULL;
	unsigned int list;

	spin_lock(&k2->lock);
	levels_collect(&k2->levels);
	if (unlikely(k2->uses & (K2_USES_ACTIVITY | K2_USES_TARGET)))
		k2_adapt(k2, now);
	list = k2_choose(k2, now, picked);
	if (list != K2_LISTS) {
		e = levels_first(&k2->levels, list);
		picked(e);
		if (unlikely(k2_observer()) && list >= K2_LIST_BACKGROUND)
			k2_note_released(k2, now);
		/* most requests are of the background: what the compiler makes for it alone is a fifth shorter */
		if (likely(list == K2_LIST_BACKGROUND))
			k2_send(k2, e, K2_LIST_BACKGROUND, now);
		else
			k2_send(k2, e, list, now);
	}
	spin_unlock(&k2->lock);
	return e;
}

/**
 * k2_take_large() - take entries that were inserted before they were too large; the caller splits them
 * @k2: the drive's scheduler
 * @large: gets them, oldest first
 *
 * To be called after each k2_dispatch(). Process context.
 *
 * Return: false if there are none.
 */
static inline bool k2_take_large(struct k2 *k2, struct list_head *large)
{
	if (likely(!READ_ONCE(k2->has_large)))
		return false;
	spin_lock(&k2->lock);
	WRITE_ONCE(k2->has_large, 0);
	list_splice_tail_init(&k2->large, large);
	spin_unlock(&k2->lock);
	return !list_empty(large); /* another dispatcher may have been faster */
}

/* --- completion ------------------------------------------------------------------------------------------------ */

/* An entry leaves the drive. Any context. Return: true if a hardware queue should be run. */
static inline bool k2_left(struct k2 *k2, struct k2_entry *e)
{
	if (unlikely(e->list != K2_LIST_BACKGROUND || e->marks))
		k2_untrack(k2, e);
	inflight_ended(&k2->inflight, e->sectors);
	smp_mb__after_atomic(); /* pairs with k2_block() */
	if (!k2_unblock(k2, K2_RELEASE_COMPLETION))
		return false;
	atomic_long_inc(&k2->bound_held);
	return true;
}

/**
 * k2_finish() - an entry is freed
 * @k2: the drive's scheduler
 * @e: in any state but K2_QUEUED; only one in flight counts
 *
 * Any context. Return: true if a hardware queue should be run; any will do.
 */
static inline bool k2_finish(struct k2 *k2, struct k2_entry *e)
{
	if (e->state != K2_INFLIGHT)
		return false;
	e->state = K2_NEW;
	return k2_left(k2, e);
}

/**
 * k2_requeue() - the driver gives an entry back
 * @k2: the drive's scheduler
 * @e: the entry
 * @dispatched_again: it will be inserted and dispatched again; otherwise the block layer issues it again by itself, and
 *	it stays in flight
 *
 * Any context. Return: true if a hardware queue should be run; any will do.
 */
static inline bool k2_requeue(struct k2 *k2, struct k2_entry *e, bool dispatched_again)
{
	if (e->state != K2_INFLIGHT || !dispatched_again)
		return false;
	e->state = K2_RETURNED;
	return k2_left(k2, e);
}

#include "merge.c"
