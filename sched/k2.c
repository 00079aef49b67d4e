// SPDX-License-Identifier: GPL-2.0-only
/*
 * The K2 scheduler: see k2.h. The binding to an environment includes this file, so that the compiler can inline across the two: on drives
 * that serve a million requests per second, function calls are measurable.
 *
 * k2->lock and the locks of the ctxs are taken in process context only; completions use atomics.
 */
#include <linux/bitops.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/math64.h>

#include "k2.h"
#include "levels.c"
#include "experiments.c"
#include "observe.c"
#include "learn.c"
#include "settings.c"

/* --- knobs and set-up ------------------------------------------------------------------------------------------ */

/* Unblocks all lists; any context. Return: true if a hardware queue should be run. */
static inline bool k2_unblock(struct k2 *k2, enum k2_release why)
{
	if (likely(!atomic_read(&k2->blocked)) || !atomic_xchg(&k2->blocked, 0))
		return false;
	WRITE_ONCE(k2->released_by, why);
	return levels_any(&k2->levels);
}

/**
 * k2_configure() - set a knob
 * @k2: the drive's scheduler
 * @knob: the knob
 * @value: new value
 *
 * Process context. After a change the caller runs the hardware queues.
 *
 * Return: 0, or -ERANGE or -EINVAL, which leave the knob unchanged.
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
 * @ctxs: array of @ctx_count pointers to zeroed ctxs; owned by the caller, must outlive @k2
 * @ctx_count: number of hardware queues
 * @block_sectors: size of the drive's logical block, in sectors
 */
static void k2_init(struct k2 *k2, struct k2_ctx **ctxs, unsigned int ctx_count,
		    unsigned int block_sectors)
{
	for (unsigned int i = 0; i < K2_KNOB_COUNT; i++)
		k2->knobs[i] = k2_knob_infos[i].initial;
	/* each hardware queue has tags of its own, and those of the background are to be free again in seconds */
	k2->knobs[K2_KNOB_be_floor_iops] *= ctx_count;
	k2->granule_sectors = max_t(unsigned int, K2_GRANULE_SECTORS, block_sectors);
	spin_lock_init(&k2->lock);
	levels_init_lists(k2->levels.lists);
	k2->levels.ctx_count = ctx_count;
	k2->levels.ctxs = ctxs;
	for (unsigned int i = 0; i < ctx_count; i++) {
		spin_lock_init(&ctxs[i]->lock);
		ctxs[i]->index = i;
		levels_init_lists(ctxs[i]->lists);
	}
	k2_apply(k2);
}

/**
 * k2_deinit() - check that nothing is left
 * @k2: the drive's scheduler; no other call on it is running or will follow
 *
 * Return: true if every entry was dispatched or removed, and every dispatched one has ended.
 */
static bool k2_deinit(struct k2 *k2)
{
	return !levels_queued(&k2->levels) && !atomic64_read(&k2->inflight.load) &&
	       !atomic_read(&k2->debt.written) && !atomic_read(&k2->discard.inflight);
}

/* --- insertion ------------------------------------------------------------------------------------------------- */

/**
 * k2_prepare() - choose an entry's list, before levels_insert()
 * @k2: the drive's scheduler
 * @e: an entry in state K2_NEW or K2_RETURNED
 * @level: 0 to K2_LEVELS - 1
 * @urgent: dispatch it before all levels, in the order of insertion
 * @discards: the entry is a discard
 * @now: time from which its wait counts, in ns
 */
static inline void k2_prepare(struct k2 *k2, struct k2_entry *e, unsigned int level, bool urgent,
			      bool discards, u64 now)
{
	unsigned int list = K2_LIST(level);

	if (unlikely(urgent))
		list = K2_LIST_URGENT;
	else if (unlikely(discards) && level == K2_BACKGROUND && READ_ONCE(k2->discard_sectors))
		list = K2_LIST_DISCARDS;
	*e = (struct k2_entry){ .since_ns = now, .level = level, .list = list, .state = K2_QUEUED };
}

/* --- has_work -------------------------------------------------------------------------------------------------- */

static noinline bool k2_has_unblocked(const struct k2 *k2)
{
	unsigned int queued;

	/*
	 * Pairs with the exchange in k2_unblock(): either k2_unblock() sees the inserted entry, and its caller runs a queue, or we see that
	 * nothing is blocked any more.
	 */
	smp_mb();
	queued = levels_queued(&k2->levels);
	return queued & ~atomic_read(&k2->blocked) ||
	       (queued && k2_draining(k2) && inflight_has_slot(&k2->inflight));
}

/**
 * k2_has_work() - may k2_dispatch() return an entry?
 * @k2: the drive's scheduler
 *
 * Any context including hard interrupt; takes no lock, reads no clock, writes nothing. Returns false while all queued entries are blocked:
 * whatever unblocks them runs a hardware queue, so that no polling is needed. May return true when k2_dispatch() would return NULL.
 */
static inline bool k2_has_work(const struct k2 *k2)
{
	if (!levels_any(&k2->levels))
		return false;
	return likely(!atomic_read(&k2->blocked)) || k2_has_unblocked(k2);
}

/* --- dispatch -------------------------------------------------------------------------------------------------- */

/* Ensures that the timer expires at @at_ns or earlier. */
static void k2_arm_by(struct k2 *k2, u64 at_ns)
{
	u64 armed_ns = READ_ONCE(k2->armed_ns);

	if (armed_ns && armed_ns <= at_ns)
		return;
	WRITE_ONCE(k2->armed_ns, at_ns);
	k2_arm(k2, at_ns);
}

/**
 * k2_tick() - the armed timer has expired
 * @k2: the drive's scheduler
 *
 * Any context. Return: true if a hardware queue should be run.
 */
static inline bool k2_tick(struct k2 *k2)
{
	WRITE_ONCE(k2->ticks, k2->ticks + 1);
	WRITE_ONCE(k2->armed_ns, 0);
	smp_mb(); /* either a dispatcher that blocks a list sees the timer unarmed, or we see the blocked list */
	return k2_unblock(k2, K2_RELEASE_TIMER);
}

/*
 * Marks lists blocked. The caller must then ask the bounds again, and unblock if they now allow the request: a completion may have come
 * between the first question and the mark. A completion first changes what the bounds read and then checks for blocked lists. Both sides
 * have a full barrier between their two steps, so at least one of them notices the other.
 */
static inline void k2_block(struct k2 *k2, unsigned int lists)
{
	atomic_or(lists, &k2->blocked);
	smp_mb__after_atomic();
}

/*
 * Unblocks all lists from the dispatcher, and collects again. k2_has_work() may have returned false for an entry that was inserted after
 * the last collection, because its list was blocked. No queue run follows for that entry, so this dispatcher must find it.
 */
static void k2_reopen(struct k2 *k2)
{
	if (atomic_read(&k2->blocked) && atomic_xchg(&k2->blocked, 0))
		levels_collect(&k2->levels);
}

/* The drive has no free slot: blocks all lists until a completion. Return: false if a slot has become free meanwhile. */
static inline bool k2_block_all(struct k2 *k2)
{
	k2_block(k2, K2_MAP_ALL);
	if (inflight_has_slot(&k2->inflight)) {
		k2_reopen(k2);
		return false;
	}
	k2_note(full, k2, inflight_requests(&k2->inflight));
	return true;
}

/*
 * May the first entry of a background list be dispatched? Fills @r, and asks the bounds in turn until one refuses. Return: BOUND_YES, a time
 * in ns, or BOUND_AT_END.
 */
static u64 k2_ask(struct k2 *k2, unsigned int list, u64 now, struct bound_request *r)
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
	if (list == K2_LIST_DISCARDS && k2->discard_sectors)
		return discard_allows(&k2->discard, r, k2->activity.active);
	until_ns = debt_allows(&k2->debt, r) ?: inflight_allows(&k2->inflight, r);
	until_ns = until_ns ?: target_allows(&k2->target, r) ?: ahead_allows(&k2->ahead, r);
	if (until_ns && (r->why == K2_HOLD_AHEAD ||
			 (r->why == K2_HOLD_DEBT && r->limit == k2->debt.cap_sectors)))
		k2->target.held = true;
	/* write debt drains with time, without a completion, so the timer must be armed */
	if (owed && (until_ns == BOUND_AT_END || (until_ns && r->why == K2_HOLD_AHEAD)))
		until_ns = min(until_ns,
			       debt_until_ns(&k2->debt, min(owed, r->met + r->sectors - r->limit),
					     now));
	return until_ns;
}

/* Discards go one at a time, also those that are due by the floor: do they wait for one in the drive? */
static inline bool k2_discards_wait(const struct k2 *k2)
{
	return k2->discard_sectors && atomic_read(&k2->discard.inflight);
}

/*
 * May the first entry of a background list be dispatched? If not, blocks the list, and arms the timer if the bound or the floor names
 * a time, and for the end of real-time activity, with which bounds may end.
 */
static bool k2_may_go(struct k2 *k2, unsigned int list, u64 now)
{
	struct bound_request r;
	u64 until_ns;

	if (likely(!k2->bounded) || !k2_ask(k2, list, now, &r) || k2_draining(k2))
		return true;
	k2_block(k2, 1U << list);
	until_ns = k2_ask(k2, list, now, &r);
	if (!until_ns) {
		atomic_xchg(&k2->blocked, 0);
		return true;
	}
	if (k2->activity.watched && k2->activity.active)
		until_ns = min(until_ns, activity_until_ns(&k2->activity, now));
	if (k2->floor.interval_ns && !(list == K2_LIST_DISCARDS && k2_discards_wait(k2)))
		until_ns = min(until_ns, max(k2->floor.due_ns[K2_FLOOR_KIND(list)], now + 1));
	if (until_ns != BOUND_AT_END)
		k2_arm_by(k2, until_ns);
	k2_note(held, k2, &r);
	return false;
}

/* Of these background lists, the one that is due first if they are @owed; otherwise, the one whose first request has waited longest. */
static inline unsigned int k2_background_list(const struct k2 *k2, unsigned int lists, bool owed)
{
	const u64 *due_ns = k2->floor.due_ns;

	if (lists != K2_MAP_BACKGROUND)
		return __ffs(lists);
	if (owed ? due_ns[FLOOR_DISCARDS] < due_ns[FLOOR_REQUESTS] :
		   levels_first(&k2->levels, K2_LIST_DISCARDS)->since_ns <
			    levels_first(&k2->levels, K2_LIST_BACKGROUND)->since_ns)
		return K2_LIST_DISCARDS;
	return K2_LIST_BACKGROUND;
}

/* Takes a staged entry off its list. While none of its kind waits, none is due by the floor. */
static inline void k2_take_away(struct k2 *k2, struct k2_entry *e, unsigned int list)
{
	/* list_del_init() has the checks of CONFIG_LIST_HARDENED, too */
	__list_del(k2_node(e)->prev, k2_node(e)->next);
	INIT_LIST_HEAD(k2_node(e));
	if (!list_empty(&k2->levels.lists[list]))
		return;
	WRITE_ONCE(k2->levels.filled, k2->levels.filled & ~(1U << list));
	if (list >= K2_LIST_BACKGROUND)
		k2->floor.due_ns[K2_FLOOR_KIND(list)] = 0;
}

/* Moves the first entry of a background list to @large, if it is too large and may be split. Return: true if it was moved. */
static bool k2_set_aside(struct k2 *k2, unsigned int list, struct list_head *large)
{
	struct k2_entry *e = levels_first(&k2->levels, list);
	u64 due_ns = k2->floor.due_ns[FLOOR_REQUESTS];

	if (!k2->piece_sectors || list != K2_LIST_BACKGROUND ||
	    k2_sectors(e) <= k2->piece_sectors || !k2_may_split(e))
		return false;
	k2_take_away(k2, e, list);
	k2->floor.due_ns[FLOOR_REQUESTS] = due_ns; /* its pieces go on waiting */
	k2_picked(e);
	e->state = K2_NEW;
	list_add_tail(k2_node(e), large);
	k2->taken++;
	return true;
}

/* Chooses among several lists, subject to bounds and splitting. Return: the list to dispatch from, or K2_LISTS for none. */
static noinline unsigned int k2_choose_among(struct k2 *k2, unsigned int lists, u64 now,
					     struct list_head *large)
{
	unsigned int background = lists & K2_MAP_BACKGROUND, owed = 0, list;

	lists &= ~background;
	for (list = K2_LIST_BACKGROUND; list < K2_LISTS; list++)
		if (background & 1U << list &&
		    floor_owes(&k2->floor, K2_FLOOR_KIND(list), lists, now))
			owed |= 1U << list;
	if (k2_discards_wait(k2))
		owed &= ~(1U << K2_LIST_DISCARDS);
	if (lists & 1U << K2_LIST_URGENT)
		return K2_LIST_URGENT;
	if (lists)
		background = owed;
	for (; background; background &= k2->levels.filled) {
		list = k2_background_list(k2, owed & background ?: background, owed & background);
		if (k2_set_aside(k2, list, large))
			continue;
		if (owed & 1U << list || k2_may_go(k2, list, now))
			return list;
		background &= ~(1U << list);
	}
	return lists ? __ffs(lists) : K2_LISTS;
}

/* Return: the list whose first entry is to be dispatched now, or K2_LISTS for none. */
static inline unsigned int k2_choose(struct k2 *k2, u64 now, struct list_head *large)
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
	if (likely(lists == 1U << K2_LIST_BACKGROUND && !k2->extended))
		return K2_LIST_BACKGROUND;
	return k2_choose_among(k2, lists, now, large);
}

/* Dispatches the first entry of a list. */
static __always_inline void k2_send(struct k2 *k2, struct k2_entry *e, unsigned int list, u64 now)
{
	unsigned int level = list == K2_LIST_BACKGROUND ? K2_BACKGROUND : e->level;
	bool full;

	if (list >= K2_LIST_BACKGROUND)
		floor_went(&k2->floor, K2_FLOOR_KIND(list), k2->levels.filled & K2_MAP_RT, now);
	k2_take_away(k2, e, list);
	e->state = K2_INFLIGHT;
	e->sectors = min_t(unsigned int, k2_sectors(e), (1U << 24) - 1);
	e->marks = 0;
	k2_count_dispatch(k2, level, e->since_ns, now);
	full = inflight_went(&k2->inflight, e->sectors);
	if (unlikely(k2->extended) || list != K2_LIST_BACKGROUND)
		k2_track(k2, e, now);
	if (full)
		k2_block_all(k2);
}

/* Before each dispatch: updates the bounds after changes of real-time activity and of the latency target. */
static noinline void k2_adapt(struct k2 *k2, u64 now)
{
	bool changed = k2->activity.watched &&
		       activity_watch(&k2->activity, k2->levels.filled & K2_MAP_RT,
				      atomic_read(&k2->rt_inflight_all), now);

	changed |= k2->target.on && target_learn(&k2->target, ahead_foretells(&k2->ahead, now));
	if (changed) {
		k2_apply(k2);
		k2_reopen(k2);
	}
}

/**
 * k2_dispatch() - pick the next entry for the drive, which may belong to any ctx
 * @k2: the drive's scheduler
 * @now: the time, in ns
 * @large: receives queued entries that exceed a limit which was lowered after their insertion, oldest first; the caller splits them
 *
 * Process context.
 *
 * Return: an entry, now in flight, or NULL if no queued entry may be dispatched.
 */
static inline struct k2_entry *k2_dispatch(struct k2 *k2, u64 now, struct list_head *large)
{
	struct k2_entry *e = NULL;
	unsigned int list;

	spin_lock(&k2->lock);
	levels_collect(&k2->levels);
	if (unlikely(k2->extended))
		k2_adapt(k2, now);
	list = k2_choose(k2, now, large);
	if (list != K2_LISTS) {
		e = levels_first(&k2->levels, list);
		k2_picked(e);
		k2_note(released, k2, list, now);
		/* most requests are background: code specialised for that list is a fifth shorter */
		if (likely(list == K2_LIST_BACKGROUND))
			k2_send(k2, e, K2_LIST_BACKGROUND, now);
		else
			k2_send(k2, e, list, now);
	}
	spin_unlock(&k2->lock);
	return e;
}

/* --- completion ------------------------------------------------------------------------------------------------ */

/**
 * k2_finish() - an entry is freed, or the driver returns it
 * @k2: the drive's scheduler
 * @e: the entry, in any state but K2_QUEUED; has an effect only if it is in flight
 * @comes_back: it will be inserted and dispatched again. One that the block layer issues again without the scheduler stays in flight
 *
 * Any context. Return: true if a hardware queue should be run; any will do.
 */
static inline bool k2_finish(struct k2 *k2, struct k2_entry *e, bool comes_back)
{
	if (e->state != K2_INFLIGHT)
		return false;
	e->state = comes_back ? K2_RETURNED : K2_NEW;
	if (unlikely(e->list != K2_LIST_BACKGROUND || e->marks))
		k2_untrack(k2, e);
	inflight_ended(&k2->inflight, e->sectors);
	smp_mb__after_atomic(); /* pairs with k2_block() */
	if (!k2_unblock(k2, K2_RELEASE_COMPLETION))
		return false;
	atomic_long_inc(&k2->bound_held);
	return true;
}

#include "merge.c"
