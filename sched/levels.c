// SPDX-License-Identifier: GPL-2.0-only
/* K2's order of dispatch: see levels.h. Included by k2.c. Lock order: the dispatcher's lock, then a ctx's lock. */
#include "levels.h"

static void levels_init_lists(struct list_head *lists)
{
	for (unsigned int i = 0; i < K2_LISTS; i++)
		INIT_LIST_HEAD(&lists[i]);
}

/**
 * levels_insert() - queue entries, visible to dispatchers; the caller then runs the hardware queue
 * @l: the queued entries of the drive
 * @ctx: hardware queue that the entries were submitted to
 * @entries: entries that k2_prepare() has prepared; empty afterwards
 *
 * Process context. Inserted entries may be dispatched and complete at any time, even before this returns.
 */
static inline void levels_insert(struct levels *l, struct k2_ctx *ctx, struct list_head *entries)
{
	unsigned int bit = ctx->index % BITS_PER_LONG, lists = 0;
	struct list_head *node, *next;

	spin_lock(&ctx->lock);
	for (node = entries->next; node != entries; node = node->next) {
		lists |= 1U << k2_entry_of(node)->list;
		ctx->inserted[k2_entry_of(node)->level]++;
	}
	if (likely(!(lists & (lists - 1)))) {
		list_splice_tail_init(entries, &ctx->lists[__ffs(lists)]);
	} else {
		for (node = entries->next; node != entries; node = next) {
			next = node->next;
			list_move_tail(node, &ctx->lists[k2_entry_of(node)->list]);
		}
	}
	WRITE_ONCE(ctx->filled, ctx->filled | lists);
	if (!(READ_ONCE(l->pending) & 1UL << bit))
		set_bit(bit, &l->pending);
	spin_unlock(&ctx->lock);
}

/* Is anything queued? Any context, no lock. */
static inline bool levels_any(const struct levels *l)
{
	if (READ_ONCE(l->pending))
		return true;
	smp_rmb(); /* pairs with levels_collect() */
	return READ_ONCE(l->filled);
}

/* Bitmap of lists that have queued entries. Any context, no lock. */
static unsigned int levels_queued(const struct levels *l)
{
	unsigned long pending = READ_ONCE(l->pending);
	unsigned int i, lists = 0;

	for (; pending; pending &= pending - 1)
		for (i = __ffs(pending); i < l->ctx_count; i += BITS_PER_LONG)
			lists |= READ_ONCE(l->ctxs[i]->filled);
	smp_rmb(); /* pairs with levels_collect() */
	return lists | READ_ONCE(l->filled);
}

static void levels_collect_ctx(struct levels *l, struct k2_ctx *ctx)
{
	spin_lock(&ctx->lock);
	for (unsigned int lists = ctx->filled; lists; lists &= lists - 1)
		list_splice_tail_init(&ctx->lists[__ffs(lists)], &l->lists[__ffs(lists)]);
	WRITE_ONCE(l->filled, l->filled | ctx->filled);
	smp_wmb(); /* pairs with levels_queued() */
	WRITE_ONCE(ctx->filled, 0);
	spin_unlock(&ctx->lock);
}

/*
 * Moves inserted entries to the staged lists, under the dispatcher's lock; O(ctxs with insertions). The pending bits are cleared before the
 * ctxs are read: a later insertion sets its bit again.
 *
 * A merge attempt also collects, but dispatches nothing. Entries must therefore stay visible to levels_any() and levels_queued() while they
 * are moved. Otherwise the queue run after their insertion could find nothing to do, and no other run would follow.
 */
static inline void levels_collect(struct levels *l)
{
	unsigned long pending;
	unsigned int i;

	if (!READ_ONCE(l->pending))
		return;
	WRITE_ONCE(l->filled, l->filled | K2_MAP_COLLECTING);
	for (pending = xchg(&l->pending, 0); pending; pending &= pending - 1)
		for (i = __ffs(pending); i < l->ctx_count; i += BITS_PER_LONG)
			levels_collect_ctx(l, l->ctxs[i]);
	WRITE_ONCE(l->filled, l->filled & ~K2_MAP_COLLECTING);
}

static inline struct k2_entry *levels_first(const struct levels *l, unsigned int list)
{
	return k2_entry_of(l->lists[list].next);
}
