// SPDX-License-Identifier: GPL-2.0-only
/*
 * K2, the scheduler: see k2.h. This file is included by the code that binds it to an environment, so that the compiler
 * sees both at once: on drives of a million requests a second every call counts.
 *
 * Lock order: k2->lock, then ctx->lock. Both are taken in process context only; completions use atomics.
 */
#include <linux/bitops.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/math64.h>

#include "k2.h"
#include "ahead.c"
#include "debt.c"
#include "target.c"
#include "hold.c"
#include "observe.c"

/* Compiled out only to measure what they cost. */
#ifndef K2_STATISTICS
#define K2_STATISTICS 1
#endif

const struct k2_knob_info k2_knob_infos[K2_KNOB_COUNT] = {
#define K2_KNOB_INFO(name, unit, least, most, step, initial, scale, what) \
	[K2_KNOB_##name] = { #name, unit, least, most, step, initial, scale, what },
	K2_KNOBS(K2_KNOB_INFO)
#undef K2_KNOB_INFO
};

static const char *const k2_split_modes[] = { "always", "auto" };
static const char *const k2_bound_modes[] = { "fixed", "ahead", "placebo" };

/* The words of a knob that is a choice, by value; NULL: it is a number. */
static inline const char *const *k2_words(enum k2_knob knob)
{
	return knob == K2_KNOB_split_mode ? k2_split_modes :
	       knob == K2_KNOB_bound_mode ? k2_bound_modes :
					    NULL;
}

static inline bool k2_may_be_auto(enum k2_knob knob)
{
	return K2_MAY_BE_AUTO(knob, k2_knob_infos[knob].initial);
}

/* A knob in other units; K2_AUTO stays. */
static inline u32 k2_times(unsigned int value, unsigned int factor)
{
	return value == K2_AUTO ? AHEAD_AUTO : value * factor;
}

/* Size of a struct k2 for so many hardware queues, in bytes. */
static inline size_t k2_size(unsigned int ctx_count)
{
	return sizeof(struct k2) + BITS_TO_LONGS(ctx_count) * sizeof(unsigned long);
}

/* From knobs and activity: which bounds and pieces are in force. */
static inline void k2_apply(struct k2 *k2)
{
	const unsigned int *knobs = k2->knobs;
	unsigned int sectors = 2 * knobs[K2_KNOB_split_kib], uses = 0;
	unsigned int hi = k2_times(knobs[K2_KNOB_ahead_hi_kib], 2), limit = UINT_MAX;
	unsigned int debt = k2_times(knobs[K2_KNOB_write_debt_kib_max], 2);
	unsigned int discard_kib = READ_ONCE(knobs[K2_KNOB_discard_kib_max]);
	bool is_auto = knobs[K2_KNOB_split_mode] == K2_SPLIT_AUTO;
	bool constrains = !is_auto || k2->active;
	bool is_ahead = knobs[K2_KNOB_bound_mode] != K2_BOUND_FIXED;
	bool has_target = knobs[K2_KNOB_rt_target_us] && constrains;
	bool logs = knobs[K2_KNOB_slow_log_us];

	if (is_auto && knobs[K2_KNOB_rt_wait_us])
		sectors = sectors ? min(sectors, k2->fitting_sectors) : k2->fitting_sectors;
	if (knobs[K2_KNOB_inflight_kib_max])
		limit = 2 * knobs[K2_KNOB_inflight_kib_max];
	target_configure(&k2->target, 1000 * knobs[K2_KNOB_rt_target_us],
			 knobs[K2_KNOB_rt_quantile], is_ahead);
	if (has_target) {
		unsigned int bound = k2->target.limit_sectors;

		limit = min(limit, bound);
		debt = debt ? min(debt, bound) : bound;
		hi = min(hi, limit);
		bound = max(bound - bound % k2->granule_sectors, k2->granule_sectors);
		if (bound <= K2_PIECE_SECTORS_MAX)
			sectors = sectors ? min(sectors, bound) : bound;
	}
	if (!constrains) {
		sectors = 0;
		debt = 0;
		limit = UINT_MAX;
	}
	uses |= limit != UINT_MAX || is_ahead || debt || logs ? K2_USES_BYTES : 0;
	uses |= is_ahead ? K2_USES_AHEAD : 0;
	uses |= debt ? K2_USES_DEBT : 0;
	uses |= has_target ? K2_USES_TARGET : 0;
	uses |= knobs[K2_KNOB_be_floor_iops] ? K2_USES_FLOOR : 0;
	uses |= is_auto ? K2_USES_AUTO : 0;
	uses |= sectors ? K2_USES_PIECES : 0;
	uses |= logs ? K2_USES_LOG : 0;
	uses |= discard_kib ? K2_USES_DISCARDS : 0;
	uses |= READ_ONCE(knobs[K2_KNOB_flush_gate_us]) ? K2_USES_GATE : 0;
	ahead_configure(&k2->ahead, knobs[K2_KNOB_bound_mode] == K2_BOUND_PLACEBO,
			has_target && k2->target.arm == TARGET_PLAIN,
			k2_times(knobs[K2_KNOB_ahead_lo_kib], 2), hi,
			k2_times(knobs[K2_KNOB_ahead_lead_us], 1000),
			k2_times(knobs[K2_KNOB_ahead_ramp_pct], 1));
	debt_configure(&k2->debt, debt);
	WRITE_ONCE(k2->uses, uses);
	WRITE_ONCE(k2->piece_sectors, sectors);
	WRITE_ONCE(k2->discard_sectors, 2 * discard_kib);
	WRITE_ONCE(k2->inflight_limit, constrains ? knobs[K2_KNOB_inflight_max] : UINT_MAX);
	WRITE_ONCE(k2->byte_limit, limit);
}

/**
 * k2_init() - prepare a zeroed struct k2 of k2_size() bytes
 * @k2: the drive's scheduler
 * @ctxs: array for @ctx_count pointers, filled by k2_init_ctx(); belongs to the caller, outlives @k2
 * @ctx_count: hardware queues
 * @wake: see struct k2
 * @arm: see struct k2
 * @argument: for @wake and @arm
 */
static void k2_init(struct k2 *k2, struct k2_ctx **ctxs, unsigned int ctx_count,
		    void (*wake)(void *argument, struct k2_ctx *ctx),
		    void (*arm)(void *argument, u64 at_ns), void *argument)
{
	unsigned int i;

	for (i = 0; i < K2_KNOB_COUNT; i++)
		k2->knobs[i] = k2_knob_infos[i].initial;
	k2->ctx_count = ctx_count;
	k2->ctxs = ctxs;
	k2->wake = wake;
	k2->arm = arm;
	k2->argument = argument;
	spin_lock_init(&k2->lock);
	raw_spin_lock_init(&k2->held_lock);
	for (i = 0; i < K2_LISTS; i++)
		INIT_LIST_HEAD(&k2->lists[i]);
	INIT_LIST_HEAD(&k2->large);
	k2->granule_sectors = 8;
	k2->fitting_sectors = k2->granule_sectors;
	k2_apply(k2);
}

/* Before it is used: pieces are multiples of the drive's block, and of 4 KiB. */
static inline void k2_set_granule(struct k2 *k2, unsigned int block_sectors)
{
	k2->granule_sectors = max(k2->granule_sectors, block_sectors);
	k2->fitting_sectors = k2->granule_sectors;
	k2_apply(k2);
}

/**
 * k2_init_ctx() - prepare the lists of one hardware queue, before it is used
 * @k2: the drive's scheduler
 * @ctx: zeroed
 * @index: of the hardware queue, below ctx_count
 */
static void k2_init_ctx(struct k2 *k2, struct k2_ctx *ctx, unsigned int index)
{
	unsigned int i;

	spin_lock_init(&ctx->lock);
	ctx->index = index;
	for (i = 0; i < K2_LISTS; i++)
		INIT_LIST_HEAD(&ctx->lists[i]);
	k2->ctxs[index] = ctx;
}

/**
 * k2_deinit() - check that nothing is left
 * @k2: the drive's scheduler; no call is running on it, and none will come
 *
 * Return: true if every entry was dispatched or removed, and every dispatched one has ended.
 */
static bool k2_deinit(struct k2 *k2)
{
	unsigned int i;

	for (i = 0; i < k2->ctx_count; i++)
		if (k2->ctxs[i] && k2->ctxs[i]->filled)
			return false;
	return !k2->filled && list_empty(&k2->large) && !atomic_read(&k2->inflight) &&
	       !atomic_read(&k2->inflight_sectors) && !atomic_read(&k2->debt.written);
}

/**
 * k2_limit() - scheduler tags that tasks without real-time class may hold
 * @k2: the drive's scheduler
 * @tags: scheduler tags of a hardware queue, at least 1
 *
 * A task waits for a tag before its request exists, and there no scheduler orders it: real-time tasks must find one
 * free. With a single tag nothing can be kept free.
 *
 * Return: 1 to @tags.
 */
static inline unsigned int k2_limit(const struct k2 *k2, unsigned int tags)
{
	unsigned int kept = DIV_ROUND_UP(tags * READ_ONCE(k2->knobs[K2_KNOB_rt_tags]), 100);

	return tags > kept ? tags - kept : 1;
}

/* The same for discards that may be held: they keep their tags for long. */
static inline unsigned int k2_limit_discards(unsigned int limit)
{
	return max(limit / K2_DISCARD_TAGS_SHARE, 1U);
}

/* Most sectors in a request of this level; 0: any number. What is larger is split before it is inserted. */
static inline unsigned int k2_piece(const struct k2 *k2, unsigned int level)
{
	return level == K2_BACKGROUND ? READ_ONCE(k2->piece_sectors) : 0;
}

/* The same of a discard. */
static inline unsigned int k2_discard_piece(const struct k2 *k2, unsigned int level)
{
	return level == K2_BACKGROUND ? READ_ONCE(k2->discard_sectors) : 0;
}

/* Locks the ctx's lists for k2_insert(). */
static inline void k2_insert_begin(struct k2_ctx *ctx)
{
	spin_lock(&ctx->lock);
}

/**
 * k2_insert() - queue an entry, between k2_insert_begin() and k2_insert_end()
 * @ctx: hardware queue it was submitted to
 * @e: in state K2_NEW or K2_RETURNED
 * @level: 0 to K2_LEVELS - 1
 * @urgent: serve it before all levels, in the order of insertion
 * @now: in ns
 */
static inline void k2_insert(struct k2_ctx *ctx, struct k2_entry *e, unsigned int level,
			     bool urgent, u64 now)
{
	unsigned int list = urgent ? 0 : level + 1;

	lockdep_assert_held(&ctx->lock);
	e->since_ns = now;
	e->level = level;
	e->state = K2_QUEUED;
	e->list = list;
	e->visited = false;
	list_add_tail(k2_node(e), &ctx->lists[list]);
	ctx->filled |= 1UL << list;
	if (K2_STATISTICS)
		ctx->inserted[level]++;
}

/* Of these lists, the one whose first entry is next: the most urgent one, unless the background is owed a request. */
static inline unsigned int k2_choose_of(struct k2 *k2, unsigned long filled)
{
	unsigned int first = __ffs(filled);

	if (!(READ_ONCE(k2->uses) & K2_USES_FLOOR) || !first ||
	    !(filled & 1UL << (K2_BACKGROUND + 1)) || k2_now(k2) < k2->background_due_ns)
		return first;
	return K2_BACKGROUND + 1;
}

/* The same where some may be held; K2_LISTS: all are. */
static noinline unsigned int k2_choose_unheld(struct k2 *k2)
{
	unsigned long filled = k2->filled, discards = 1UL << K2_DISCARDS;
	u64 now = k2_now(k2);

	if (k2_gates(k2, now))
		filled &= ~(1UL << (K2_BACKGROUND + 1));
	if (filled & discards && k2_discard_ns(k2, now))
		filled &= ~discards;
	else if (filled & discards && !(filled & 1) &&
		 (k2->active || k2->discard_passed >= K2_DISCARD_AFTER))
		return K2_DISCARDS;
	return filled ? k2_choose_of(k2, filled) : K2_LISTS;
}

/* The list whose first entry is next; K2_LISTS: what is queued is held. */
static inline unsigned int k2_choose(struct k2 *k2)
{
	if (likely(!(READ_ONCE(k2->uses) & K2_USES_HOLDS)))
		return k2_choose_of(k2, k2->filled);
	return k2_choose_unheld(k2);
}

/* With a bound on bytes: what there must be room for if this entry of a list is to go (K2_ROOM_...). */
static inline unsigned int k2_room(const struct k2 *k2, struct k2_entry *e, unsigned int list,
				   unsigned int sectors)
{
	unsigned int uses = READ_ONCE(k2->uses);

	if (!sectors)
		return 0;
	if (list != K2_BACKGROUND + 1) {
		if (uses & (K2_USES_AHEAD | K2_USES_TARGET))
			return 0;
		return sectors | (list < K2_BACKGROUND + 1 ? K2_ROOM_URGENT : 0);
	}
	if (uses & K2_USES_PIECES && sectors > READ_ONCE(k2->piece_sectors))
		return 0;
	if (likely(!(uses & K2_USES_DEBT)))
		return sectors;
	return sectors | K2_ROOM_OWED | (k2_writes(e) ? K2_ROOM_WRITES : 0);
}

/*
 * Sectors of the first entry of a list, if anybody cares. For all to know: what there must be room for, as far as that can
 * be said.
 */
static inline unsigned int k2_look(struct k2 *k2, unsigned int list)
{
	struct k2_entry *e = k2_entry_of(k2->lists[list].next);
	unsigned int sectors = 0, next;

	if (READ_ONCE(k2->uses) & K2_USES_BYTES)
		sectors = k2_sectors(e);
	next = k2_room(k2, e, list, sectors);
	if (next != READ_ONCE(k2->next))
		WRITE_ONCE(k2->next, next);
	return sectors;
}

/* What is next may have changed. */
static inline void k2_look_again(struct k2 *k2)
{
	unsigned int list;

	if (likely(!(READ_ONCE(k2->uses) & K2_USES_BYTES)) || !k2->filled)
		return;
	list = k2_choose(k2);
	if (list != K2_LISTS)
		k2_look(k2, list);
	else
		WRITE_ONCE(k2->next, 0);
}

/* With a bound on bytes, what is to be known of insertions that nobody has collected. */
static noinline void k2_note_first(const struct k2 *k2, struct k2_ctx *ctx)
{
	unsigned int first = 0;

	if (ctx->filled) {
		unsigned int list = __ffs(ctx->filled);
		struct k2_entry *e = k2_entry_of(ctx->lists[list].next);

		first = k2_room(k2, e, list, k2_sectors(e));
	}
	WRITE_ONCE(ctx->first, first);
}

/* Makes the insertions visible to dispatchers. The bit is changed under the ctx's lock only. */
static inline void k2_insert_end(struct k2 *k2, struct k2_ctx *ctx)
{
	if (unlikely(READ_ONCE(k2->uses) & K2_USES_BYTES))
		k2_note_first(k2, ctx);
	if (!test_bit(ctx->index, k2->pending))
		set_bit(ctx->index, k2->pending);
	spin_unlock(&ctx->lock);
}

/*
 * Moves what was inserted to the staged lists; O(ctxs with insertions), whatever their number.
 *
 * Whoever merges collects too, and dispatches nothing: on the way entries must not be invisible to k2_queued(), or the
 * run of the queue that they were inserted on ends with nothing to do, and nobody comes back for them.
 */
static inline void k2_collect(struct k2 *k2)
{
	unsigned int word, words = BITS_TO_LONGS(k2->ctx_count);

	lockdep_assert_held(&k2->lock);
	for (word = 0; word < words; word++) {
		unsigned long ctxs;

		for (ctxs = READ_ONCE(k2->pending[word]); ctxs; ctxs &= ctxs - 1) {
			struct k2_ctx *ctx = k2->ctxs[word * BITS_PER_LONG + __ffs(ctxs)];
			unsigned long lists;

			spin_lock(&ctx->lock);
			if (unlikely(READ_ONCE(k2->uses) & K2_USES_DISCARDS))
				k2_sort_discards(ctx);
			for (lists = ctx->filled; lists; lists &= lists - 1) {
				unsigned int i = __ffs(lists);

				list_splice_tail_init(&ctx->lists[i], &k2->lists[i]);
			}
			if (unlikely(READ_ONCE(k2->uses) & K2_USES_ACTIVITY) &&
			    ctx->filled & K2_RT_LISTS)
				k2->rt_arrived = true;
			WRITE_ONCE(k2->filled, k2->filled | ctx->filled);
			k2_look_again(k2);
			ctx->filled = 0;
			smp_mb__before_atomic(); /* pairs with k2_queued() and k2_next() */
			clear_bit(ctx->index, k2->pending);
			spin_unlock(&ctx->lock);
		}
	}
}

/**
 * k2_configure() - set a knob
 * @k2: the drive's scheduler
 * @knob: which
 * @value: new value
 *
 * After a change the caller runs the hardware queues: a larger bound may let something go at once.
 *
 * Return: 0, or -ERANGE or -EINVAL with nothing changed.
 */
static int k2_configure(struct k2 *k2, enum k2_knob knob, u64 value)
{
	if (!(value == K2_AUTO && k2_may_be_auto(knob))) {
		if (value < k2_knob_infos[knob].least || value > k2_knob_infos[knob].most)
			return -ERANGE;
		if ((unsigned int)value % k2_knob_infos[knob].step)
			return -EINVAL;
	}
	spin_lock(&k2->lock);
	WRITE_ONCE(k2->knobs[knob], value);
	k2_apply(k2);
	k2_release_discards(k2);
	WRITE_ONCE(k2->gate_ns, 0);
	k2_collect(k2); /* what was noted of insertions was under other bounds */
	k2_look_again(k2);
	spin_unlock(&k2->lock);
	k2_note_run(k2, K2_RELEASE_KNOB);
	return 0;
}

/* Was anything inserted that nobody has collected? */
static inline bool k2_pending(const struct k2 *k2)
{
	unsigned int word, words = BITS_TO_LONGS(k2->ctx_count);

	for (word = 0; word < words; word++)
		if (READ_ONCE(k2->pending[word]))
			return true;
	return false;
}

/* Is anything queued? Any context, no lock. */
static inline bool k2_queued(const struct k2 *k2)
{
	if (k2_pending(k2))
		return true;
	smp_rmb(); /* pairs with k2_collect() */
	return READ_ONCE(k2->filled);
}

/* As k2_has_room_for(), with a bound that looks ahead. */
static noinline bool k2_has_room_ahead(struct k2 *k2, unsigned int sectors, unsigned int owed,
				       unsigned int inflight, bool soon)
{
	u64 now = k2_now(k2), until_ns;

	if (ahead_has_room(&k2->ahead, sectors, atomic_read(&k2->inflight_sectors) + owed,
			   inflight + !!owed, READ_ONCE(k2->byte_limit), now, soon, &until_ns))
		return true;
	if (owed && !inflight)
		until_ns = debt_until_ns(&k2->debt, owed, now);
	if (until_ns)
		k2_hold(k2, until_ns);
	return false;
}

/* As k2_has_room_for(), with a bound on the debt of writes, and for the background; @owed: beyond what is in the drive. */
static noinline bool k2_may_owe(struct k2 *k2, unsigned int next, unsigned int *owed)
{
	u64 now = k2_now(k2), until_ns;

	*owed = debt_owed(&k2->debt, now);
	if (!(next & K2_ROOM_WRITES) ||
	    debt_has_room(&k2->debt, next & K2_ROOM_SECTORS, now, &until_ns))
		return true;
	if (until_ns)
		k2_hold(k2, until_ns);
	return false;
}

/* A bound on bytes is what holds the background. Return: false. */
static inline bool k2_refuse(struct k2 *k2)
{
	if (READ_ONCE(k2->uses) & K2_USES_TARGET && !READ_ONCE(k2->target.held))
		WRITE_ONCE(k2->target.held, true);
	return false;
}

/* Is there room for so much beside @inflight entries? */
static noinline bool k2_has_room_for(struct k2 *k2, unsigned int next, unsigned int inflight,
				     bool soon)
{
	unsigned int sectors = next & K2_ROOM_SECTORS, owed = 0;
	u64 all;

	if (next == K2_HELD)
		return !k2_is_held(k2);
	if (next & K2_ROOM_OWED && !k2_may_owe(k2, next, &owed))
		return k2_refuse(k2);
	if (READ_ONCE(k2->uses) & K2_USES_AHEAD)
		return k2_has_room_ahead(k2, sectors, owed, inflight, soon) || k2_refuse(k2);
	all = atomic_read(&k2->inflight_sectors) + (u64)sectors + owed;
	if ((!inflight && !owed) || all <= READ_ONCE(k2->byte_limit))
		return true;
	if (owed)
		k2_hold(k2,
			debt_until_ns(&k2->debt, min_t(u64, owed, all - READ_ONCE(k2->byte_limit)),
				      k2_now(k2)));
	return k2_refuse(k2);
}

/*
 * May the entry be dispatched for which there must be so much room (K2_ROOM_...)? 0 is one that counts nothing, or that is
 * not known. Who asks @soon will ask again a little later.
 */
static inline bool k2_has_room(struct k2 *k2, unsigned int next, bool soon)
{
	unsigned int inflight = atomic_read(&k2->inflight);

	if (inflight >= READ_ONCE(k2->inflight_limit))
		return false;
	return likely(!next) || k2_has_room_for(k2, next, inflight, soon);
}

/*
 * What there must be room for (K2_ROOM_...), as far as that is known without the lock: 0 is room for anything. For the
 * background too much does no harm, as each completion asks anew; of what is urgent nobody knows which is first, and the
 * least of them counts.
 */
static inline unsigned int k2_next(const struct k2 *k2)
{
	unsigned int word, words = BITS_TO_LONGS(k2->ctx_count), next = 0, urgent = 0, staged;
	unsigned long filled;

	if (likely(!(READ_ONCE(k2->uses) & (K2_USES_BYTES | K2_USES_HOLDS))))
		return 0;
	for (word = 0; word < words; word++) {
		unsigned long ctxs;

		for (ctxs = READ_ONCE(k2->pending[word]); ctxs; ctxs &= ctxs - 1) {
			struct k2_ctx *ctx = k2->ctxs[word * BITS_PER_LONG + __ffs(ctxs)];
			unsigned int first = READ_ONCE(ctx->first);

			if (!first)
				return 0; /* nobody knows */
			if (!(first & K2_ROOM_URGENT))
				next = max(next, first);
			else if (!urgent || first < urgent)
				urgent = first;
		}
	}
	smp_rmb(); /* pairs with k2_collect() */
	filled = READ_ONCE(k2->filled);
	if (filled && !next && !urgent && !(filled & ~k2_holdable(k2)))
		return K2_HELD;
	if (!(READ_ONCE(k2->uses) & K2_USES_BYTES))
		return 0;
	if (!filled)
		return urgent ? urgent : next;
	staged = READ_ONCE(k2->next);
	if (!urgent || !staged)
		return staged;
	return staged & K2_ROOM_URGENT ? min(urgent, staged) : urgent;
}

/**
 * k2_tick() - the timer that was armed; afterwards the caller runs the hardware queues
 * @k2: the drive's scheduler
 *
 * Any context.
 */
static inline void k2_tick(struct k2 *k2)
{
	k2_note_run(k2, K2_RELEASE_TIMER);
	WRITE_ONCE(k2->ticks, READ_ONCE(k2->ticks) + 1);
	WRITE_ONCE(k2->armed_ns, 0);
	smp_mb(); /* pairs with k2_hold(): who has seen it armed is seen by those who run the queues */
}

/*
 * Called by whoever wants to dispatch and finds the bound full. Either the completion that makes room sees @waiting and
 * wakes, or we see its room: each writes one word, has a full barrier, and reads the other's (Dekker). The same holds for
 * the words by which k2_next() knows what there must be room for; they were written before.
 */
static inline bool k2_wait_for_room(struct k2 *k2, unsigned int next, bool soon)
{
	if (!READ_ONCE(k2->waiting))
		smp_store_release(&k2->waiting, 1);
	smp_mb();
	return k2_has_room(k2, next, soon);
}

/* As k2_has_room(), for whoever then dispatches, or else waits for room. */
static inline bool k2_may_go(struct k2 *k2, unsigned int next, bool soon)
{
	if (k2_has_room(k2, next, soon) || k2_wait_for_room(k2, next, soon))
		return true;
	return unlikely(k2_observer()) && k2_note_held(k2, next, soon);
}

/**
 * k2_has_work() - would k2_dispatch() return an entry?
 * @k2: the drive's scheduler
 *
 * False while the bound is full: the completion that makes room, or the timer, wakes a ctx, so nobody needs to poll. With a
 * bound on bytes it may be true where an entry that was just inserted turns out to be too large. Any context, also hard
 * interrupt; no lock, and no clock unless the bound looks ahead or writes are owed.
 */
static inline bool k2_has_work(struct k2 *k2)
{
	return k2_queued(k2) && k2_may_go(k2, k2_next(k2), true);
}

/* What the drive served in how much time: so many sectors it would serve within rt_wait_us. Doubles at most. */
static inline void k2_fit(struct k2 *k2)
{
	unsigned int sum_us = atomic_xchg(&k2->measured_us, 0),
		     count = atomic_xchg(&k2->measured, 0);
	u64 sectors = (u64)READ_ONCE(k2->piece_sectors) * k2->knobs[K2_KNOB_rt_wait_us] * count;

	if (!sum_us || !sectors)
		return;
	sectors = min_t(u64, div_u64(sectors, sum_us), 2 * READ_ONCE(k2->piece_sectors));
	sectors -= (unsigned int)sectors % k2->granule_sectors;
	k2->fitting_sectors = clamp_t(u64, sectors, k2->granule_sectors, K2_PIECE_SECTORS_MAX);
}

/* Called before every dispatch of who must know: is there real-time activity, and how large may pieces be? */
static inline void k2_watch(struct k2 *k2, u64 now)
{
	bool was_active = k2->active;
	u64 gap = now - k2->rt_seen_ns;

	if (k2->rt_arrived) {
		if (k2->rt_seen_ns && gap <= K2_PERIOD_NS_MAX)
			WRITE_ONCE(k2->period_ns, max(gap, k2->period_ns - (k2->period_ns >> 3)));
		k2->rt_arrived = false;
		WRITE_ONCE(k2->rt_seen_ns, now);
		WRITE_ONCE(k2->active, true);
		k2->activations += !was_active;
	} else if (was_active) {
		/* the clock of another CPU may have been ahead by a little */
		WRITE_ONCE(k2->active, (s64)(k2_quiet_ns(k2) - now) > 0 ||
					       k2->filled & K2_RT_LISTS ||
					       atomic_read(&k2->rt_inflight));
	}
	if (atomic_read(&k2->measured) >= K2_PIECES_MEASURED)
		k2_fit(k2);
	else if (was_active == k2->active)
		return;
	k2_apply(k2);
}

static inline void k2_unstage(struct k2 *k2, struct k2_entry *e)
{
	unsigned int list = e->list;

	list_del_init(k2_node(e));
	if (list_empty(&k2->lists[list]))
		WRITE_ONCE(k2->filled, k2->filled & ~(1UL << list));
}

/* A request of the background goes: when it is owed the next. Who was late catches up by one. */
static inline void k2_owe(struct k2 *k2, unsigned int floor_iops, u64 now)
{
	k2->background_due_ns = max(k2->background_due_ns + 1000000000 / floor_iops, now);
}

/* Moves the first entry of a list to @large, if it is too large and may be split. */
static inline bool k2_set_aside(struct k2 *k2, unsigned int list,
				void (*picked)(struct k2_entry *e))
{
	struct k2_entry *e = k2_entry_of(k2->lists[list].next);

	if (list != K2_BACKGROUND + 1 || k2_sectors(e) <= READ_ONCE(k2->piece_sectors) ||
	    !k2_may_split(e))
		return false;
	k2_unstage(k2, e);
	picked(e);
	e->state = K2_NEW;
	list_add_tail(k2_node(e), &k2->large);
	WRITE_ONCE(k2->has_large, 1);
	k2_look_again(k2);
	k2->taken++;
	return true;
}

/* Before a dispatch that has more to think of than levels and a count: the list that is next; K2_LISTS: none. */
static noinline unsigned int k2_prepare(struct k2 *k2, void (*picked)(struct k2_entry *e))
{
	unsigned int list;

	if (READ_ONCE(k2->uses) & K2_USES_ACTIVITY)
		k2_watch(k2, k2_now(k2));
	while (k2->filled) {
		list = k2_choose(k2);
		if (list == K2_LISTS) {
			if (!k2_wait_for_room(k2, K2_HELD, false))
				break;
			continue; /* it ended meanwhile */
		}
		if (!(READ_ONCE(k2->uses) & K2_USES_PIECES && k2_set_aside(k2, list, picked)))
			return list;
	}
	return K2_LISTS;
}

/* How long a piece is in the drive is measured where nothing real-time is in it as well. */
static inline bool k2_measures(const struct k2 *k2, struct k2_entry *e, unsigned int list)
{
	return list == K2_BACKGROUND + 1 && READ_ONCE(k2->uses) & K2_USES_AUTO &&
	       READ_ONCE(k2->piece_sectors) && k2->knobs[K2_KNOB_rt_wait_us] &&
	       !atomic_read(&k2->rt_inflight) &&
	       4 * k2_sectors(e) > 3 * READ_ONCE(k2->piece_sectors);
}

/*
 * The number of a flow; AHEAD_FLOWS: none. A new one takes the place of one that is gone. While none is, requests without a
 * flow are real-time requests that nobody predicts.
 */
static unsigned int k2_find_flow(struct k2 *k2, unsigned int level, u64 key, u64 now)
{
	struct k2_flow *flows = k2->flows;
	unsigned int i;

	lockdep_assert_held(&k2->lock);
	for (i = 0; i < AHEAD_FLOWS; i++)
		if (flows[i].list == level + 1 && flows[i].key == key)
			return i;
	i = ahead_gone(&k2->ahead, now);
	if (i < AHEAD_FLOWS) {
		ahead_forget(&k2->ahead, i);
		WRITE_ONCE(flows[i].key, key);
		WRITE_ONCE(flows[i].list, level + 1);
	}
	return i;
}

/* A real-time one goes. Return: as k2_error_ns(), if anybody wants to know. */
static s64 k2_note_arrival(struct k2 *k2, struct k2_entry *e, unsigned int sectors)
{
	struct ahead *ahead = &k2->ahead;
	u64 now = k2_now(k2);
	unsigned int flow = k2_find_flow(k2, e->level, k2_key(e), now);
	s64 late_ns, error_ns = K2_UNPREDICTED;
	bool observed = k2_observer();

	if (flow == AHEAD_FLOWS) {
		ahead_arrive_alone(ahead, e->since_ns);
		return K2_UNPREDICTED;
	}
	e->tracked |= K2_FLOW | flow << K2_FLOW_SHIFT;
	late_ns = READ_ONCE(ahead->flows[flow].late_ns);
	if (unlikely(observed) || READ_ONCE(k2->uses) & K2_USES_LOG)
		error_ns = k2_error_ns(ahead, flow, e->since_ns);
	ahead_arrive(ahead, flow, sectors, k2_writes(e), e->since_ns, now);
	if (unlikely(observed))
		k2_observe_arrival(k2, flow, e->since_ns, error_ns, error_ns <= late_ns);
	return error_ns;
}

/* @e goes: what that says of the next arrival, or of the drive. Return: as k2_note_arrival(). */
static s64 k2_look_ahead(struct k2 *k2, struct k2_entry *e, unsigned int sectors)
{
	struct ahead *ahead = &k2->ahead;

	if (e->level == K2_BACKGROUND) {
		WRITE_ONCE(ahead->held_ns, 0);
		/* beside something real-time the drive does less for the background */
		if (atomic_read(&k2->rt_inflight))
			WRITE_ONCE(ahead->full_sectors, 0);
		else if (sectors)
			ahead_learn(ahead, sectors, atomic_read(&k2->inflight_sectors),
				    (unsigned int)atomic_read(&k2->inflight) >=
					    READ_ONCE(k2->inflight_limit),
				    READ_ONCE(k2->byte_limit), k2_now(k2));
	} else if (e->list) {
		return k2_note_arrival(k2, e, sectors);
	}
	return K2_UNPREDICTED;
}

/* @e goes: a write will be owed, and what a real-time request takes, from its arrival on, tells what it has met. */
static noinline void k2_owe_write(struct k2 *k2, struct k2_entry *e, unsigned int sectors)
{
	u64 now = k2_now(k2);

	if (k2_writes(e))
		debt_charge(&k2->debt, sectors, now);
	else if (e->level == K2_BACKGROUND || !e->list)
		return;
	e->tracked |= K2_TIMED;
	if (e->level == K2_BACKGROUND)
		e->since_ns = now;
}

/* After k2_track(), for what looks ahead, counts what is owed, or keeps a log. */
static noinline void k2_track_more(struct k2 *k2, struct k2_entry *e, unsigned int sectors)
{
	s64 error_ns = K2_UNPREDICTED;

	if (READ_ONCE(k2->uses) & K2_USES_AHEAD)
		error_ns = k2_look_ahead(k2, e, sectors);
	if (READ_ONCE(k2->uses) & K2_USES_DEBT && sectors)
		k2_owe_write(k2, e, sectors);
	if (READ_ONCE(k2->uses) & K2_USES_LOG && e->level != K2_BACKGROUND) {
		e->tracked |= K2_LOGGED;
		k2_log_begin(k2, e, atomic_read(&k2->inflight_sectors) - sectors,
			     debt_owed(&k2->debt, k2_now(k2)), error_ns);
	}
}

/* @e goes, and no sooner may the bounds change: who was told that there is room finds it. */
static noinline void k2_adapt(struct k2 *k2, struct k2_entry *e, unsigned int sectors)
{
	if (target_learn(&k2->target, k2_now(k2)))
		k2_apply(k2);
	if (e->level == K2_BACKGROUND)
		k2->target.window_sectors += sectors;
}

/* The same, whatever is in use; k2_untrack() takes it back. */
static noinline void k2_track(struct k2 *k2, struct k2_entry *e, unsigned int list,
			      unsigned int sectors)
{
	if (READ_ONCE(k2->uses) & K2_USES_TARGET)
		k2_adapt(k2, e, sectors);
	if (READ_ONCE(k2->uses) & K2_USES_FLOOR && list == K2_BACKGROUND + 1)
		k2_owe(k2, k2->knobs[K2_KNOB_be_floor_iops], k2_now(k2));
	if (sectors)
		atomic_add(sectors, &k2->inflight_sectors);
	k2_look_again(k2);
	e->tracked = K2_TRACKED | sectors;
	if (k2_measures(k2, e, list)) {
		e->tracked |= K2_MEASURED;
		e->since_ns = k2_now(k2);
	}
	if (e->level != K2_BACKGROUND)
		atomic_inc(&k2->rt_inflight);
	if (READ_ONCE(k2->uses) & K2_USES_DISCARDS)
		k2_pace_discards(k2, e, list);
	if (list == K2_BACKGROUND + 1)
		WRITE_ONCE(k2->gate_ns, 0);
	if (READ_ONCE(k2->uses) & (K2_USES_AHEAD | K2_USES_LOG | K2_USES_DEBT))
		k2_track_more(k2, e, sectors);
}

static inline void k2_count_dispatch(struct k2 *k2, const struct k2_entry *e, u64 now)
{
	/* the clock of another CPU may have been ahead by a little at insertion */
	u64 waited_us = now > e->since_ns ? div_u64(now - e->since_ns, 1000) : 0;

	atomic_inc(&k2->inflight_level[e->level]);
	k2->dispatched[e->level]++;
	k2->wait[e->level][min_t(int, fls64(waited_us), K2_WAIT_BUCKETS - 1)]++;
}

/**
 * k2_dispatch() - pick the next entry for the drive, from whatever ctx it was inserted on
 * @k2: the drive's scheduler
 * @picked: called with an entry under the lock (the binding's last chance before the entry leaves)
 *
 * Process context. Afterwards, k2_take_large().
 *
 * Return: an entry, now in flight, or NULL when nothing is queued or the bound is full.
 */
static inline struct k2_entry *k2_dispatch(struct k2 *k2, void (*picked)(struct k2_entry *e))
{
	struct k2_entry *e = NULL;
	unsigned int list, sectors = 0, next = 0;

	spin_lock(&k2->lock);
	k2_collect(k2);
	if (!k2->filled)
		goto out;
	if (likely(!READ_ONCE(k2->uses))) {
		list = __ffs(k2->filled);
	} else {
		list = k2_prepare(k2, picked);
		if (list == K2_LISTS)
			goto out;
		sectors = k2_look(k2, list);
		next = READ_ONCE(k2->next);
	}
	if (k2_may_go(k2, next, false)) {
		e = k2_entry_of(k2->lists[list].next);
		k2_unstage(k2, e);
		picked(e);
		e->state = K2_IN_FLIGHT;
		atomic_inc(&k2->inflight);
		if (unlikely(k2_observer()))
			k2_note_released(k2, list);
		if (K2_STATISTICS)
			k2_count_dispatch(k2, e, k2_now(k2));
		e->tracked = 0;
		if (unlikely(READ_ONCE(k2->uses)) || e->level != K2_BACKGROUND)
			k2_track(k2, e, list, sectors);
	}
out:
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
	return !list_empty(large); /* somebody else may have been faster */
}

/**
 * k2_remove() - take out a staged entry that will not be dispatched (it was merged into another)
 * @k2: the drive's scheduler, its lock held
 * @e: collected (k2_collect()) and in state K2_QUEUED
 */
static void k2_remove(struct k2 *k2, struct k2_entry *e)
{
	lockdep_assert_held(&k2->lock);
	k2_unstage(k2, e);
	WRITE_ONCE(k2->gate_ns, 0); /* it may have been the next */
	k2_look_again(k2);
	e->state = K2_NEW;
	k2->removed[e->level]++;
}

/* What was owed is acknowledged, or a real-time read has ended. */
static noinline void k2_end_timed(struct k2 *k2, struct k2_entry *e)
{
	u64 took_ns = k2_now(k2) - e->since_ns;

	if (e->level != K2_BACKGROUND && e->list)
		target_end(&k2->target, took_ns);

	if (k2_writes(e))
		debt_end_write(&k2->debt, e->tracked & K2_SECTORS, e->level == K2_BACKGROUND,
			       took_ns);
	else
		debt_end_read(&k2->debt, took_ns);
}

/* Takes back what k2_track() has done. */
static noinline void k2_untrack(struct k2 *k2, struct k2_entry *e)
{
	if (e->tracked & K2_TIMED)
		k2_end_timed(k2, e);
	if (e->level != K2_BACKGROUND)
		atomic_dec(&k2->rt_inflight);
	if (e->tracked & K2_DISCARDING)
		atomic_dec(&k2->discards);
	if (e->tracked & K2_FLOW)
		ahead_end(&k2->ahead, e->tracked >> K2_FLOW_SHIFT & (AHEAD_FLOWS - 1), k2_now(k2));
	if (e->tracked & K2_SECTORS)
		atomic_sub(e->tracked & K2_SECTORS, &k2->inflight_sectors);
}

/* There may be room: the ctx is run if that is what somebody waited for. After a full barrier. */
static inline void k2_end_waiting(struct k2 *k2, struct k2_ctx *ctx)
{
	if (smp_load_acquire(&k2->waiting) && k2_has_room(k2, k2_next(k2), true) &&
	    xchg(&k2->waiting, 0)) {
		atomic_long_inc(&k2->bound_held);
		k2_note_run(k2, K2_RELEASE_COMPLETION);
		k2->wake(k2->argument, ctx);
	}
}

/* An entry in flight is no more. Any context. */
static inline void k2_leave(struct k2 *k2, struct k2_ctx *ctx, struct k2_entry *e)
{
	if (K2_STATISTICS)
		atomic_dec(&k2->inflight_level[e->level]);
	if (unlikely(e->tracked))
		k2_untrack(k2, e);
	atomic_dec(&k2->inflight);
	smp_mb__after_atomic(); /* pairs with k2_wait_for_room() */
	k2_end_waiting(k2, ctx);
}

/* With a bound on bytes what was merged away may have been next, and too large, where what is next now is not. */
static noinline void k2_leave_merged(struct k2 *k2, struct k2_ctx *ctx)
{
	smp_mb(); /* pairs with k2_wait_for_room() */
	k2_end_waiting(k2, ctx);
}

/* As k2_leave(), of one of whose end there is more to be known. */
static noinline void k2_leave_noted(struct k2 *k2, struct k2_ctx *ctx, struct k2_entry *e)
{
	u64 now = k2_now(k2), took_ns = now - e->since_ns;
	u64 log_us = READ_ONCE(k2->knobs[K2_KNOB_slow_log_us]);

	if (e->tracked & K2_MEASURED) {
		/* the sum first: who counts to the end takes both */
		atomic_add(min_t(u64, div_u64(took_ns, 1000), K2_MEASURED_US_MAX),
			   &k2->measured_us);
		atomic_inc(&k2->measured);
	} else if (log_us && (s64)took_ns > (s64)(log_us * 1000)) {
		k2_log_slow(k2, e, now);
	}
	k2_leave(k2, ctx, e);
}

/**
 * k2_finish() - an entry is freed
 * @k2: the drive's scheduler
 * @ctx: to run if somebody waits; any will do
 * @e: in any state but K2_QUEUED; only one in flight counts
 *
 * Any context.
 */
static inline void k2_finish(struct k2 *k2, struct k2_ctx *ctx, struct k2_entry *e)
{
	if (e->state != K2_IN_FLIGHT) {
		if (unlikely(READ_ONCE(k2->uses) & K2_USES_BYTES))
			k2_leave_merged(k2, ctx);
		return;
	}
	e->state = K2_NEW;
	if (unlikely(e->tracked & (K2_MEASURED | K2_LOGGED)))
		k2_leave_noted(k2, ctx, e);
	else
		k2_leave(k2, ctx, e);
}

/**
 * k2_requeue() - the driver gives an entry back
 * @k2: the drive's scheduler
 * @ctx: to run if somebody waits; any will do
 * @e: the entry
 * @dispatched_again: it will be inserted and dispatched again; otherwise the block layer issues it again by itself, and
 *	it stays in flight
 *
 * Any context.
 */
static inline void k2_requeue(struct k2 *k2, struct k2_ctx *ctx, struct k2_entry *e,
			      bool dispatched_again)
{
	if (e->state != K2_IN_FLIGHT || !dispatched_again)
		return;
	e->state = K2_RETURNED;
	k2_leave(k2, ctx, e);
}

/**
 * k2_visit_new() - show each staged entry of a level once, oldest first
 * @k2: the drive's scheduler, its lock held
 * @level: 0 to K2_LEVELS - 1
 * @visit: called with the entry; may k2_remove() it
 * @argument: for @visit
 *
 * Entries are appended and leave from the front, so those not yet visited are the tail of the list.
 */
static inline void k2_visit_new(struct k2 *k2, unsigned int level,
				void (*visit)(struct k2_entry *e, void *argument), void *argument)
{
	struct list_head *list = &k2->lists[level + 1], *node = list->prev, *next;

	lockdep_assert_held(&k2->lock);
	while (node != list && !k2_entry_of(node)->visited)
		node = node->prev;
	for (node = node->next; node != list; node = next) {
		next = node->next;
		k2_entry_of(node)->visited = true;
		visit(k2_entry_of(node), argument);
	}
}
