// SPDX-License-Identifier: GPL-2.0-only
/* The order of K2: see levels.h. Included by k2.c. Lock order: the dispatcher's lock, then a ctx's. */
#include <linux/kernel.h>

#include "levels.h"

static void levels_init_lists(struct list_head *lists)
{
	unsigned int i;

	for (i = 0; i < K2_LISTS; i++)
		INIT_LIST_HEAD(&lists[i]);
}

/* Queues an entry in the ctx, whose lock is held; levels_publish() makes it visible. */
static inline void levels_insert(struct k2_ctx *ctx, struct k2_entry *e, unsigned int list)
{
	lockdep_assert_held(&ctx->lock);
	e->list = list;
	e->state = K2_QUEUED;
	e->marks = 0;
	list_add_tail(k2_node(e), &ctx->lists[list]);
	WRITE_ONCE(ctx->filled, ctx->filled | 1U << list);
	ctx->inserted[e->level]++;
}

/* After insertions, with the ctx's lock held. */
static inline void levels_publish(struct levels *l, struct k2_ctx *ctx)
{
	if (!test_bit(ctx->index, l->pending))
		set_bit(ctx->index, l->pending);
}

/* Is anything queued? Any context, no lock. */
static inline bool levels_any(const struct levels *l)
{
	unsigned int word;

	for (word = 0; word < BITS_TO_LONGS(l->ctx_count); word++)
		if (READ_ONCE(l->pending[word]))
			return true;
	smp_rmb(); /* pairs with levels_collect() */
	return READ_ONCE(l->filled);
}

/* Bitmap of lists on which something is queued. Any context, no lock. */
static unsigned int levels_queued(const struct levels *l)
{
	unsigned int word, lists = 0;

	for (word = 0; word < BITS_TO_LONGS(l->ctx_count); word++) {
		unsigned long ctxs = READ_ONCE(l->pending[word]);

		for (; ctxs; ctxs &= ctxs - 1)
			lists |= READ_ONCE(l->ctxs[word * BITS_PER_LONG + __ffs(ctxs)]->filled);
	}
	smp_rmb(); /* pairs with levels_collect() */
	return lists | READ_ONCE(l->filled);
}

/*
 * Moves what was inserted to the staged lists, under the dispatcher's lock; O(ctxs with insertions).
 *
 * A bio that looks for a request to join collects too, and dispatches nothing. So on the way entries must stay visible to
 * levels_queued(), or the run of the queue that they were inserted on ends with nothing to do, and nothing runs it again.
 *
 * Return: bitmap of lists that were collected.
 */
static inline unsigned int levels_collect(struct levels *l)
{
	unsigned int word, lists, all = 0;

	for (word = 0; word < BITS_TO_LONGS(l->ctx_count); word++) {
		unsigned long ctxs = READ_ONCE(l->pending[word]);

		for (; ctxs; ctxs &= ctxs - 1) {
			struct k2_ctx *ctx = l->ctxs[word * BITS_PER_LONG + __ffs(ctxs)];

			spin_lock(&ctx->lock);
			all |= ctx->filled;
			for (lists = ctx->filled; lists; lists &= lists - 1) {
				unsigned int i = __ffs(lists);

				list_splice_tail_init(&ctx->lists[i], &l->lists[i]);
			}
			WRITE_ONCE(l->filled, l->filled | ctx->filled);
			smp_wmb(); /* pairs with levels_queued() */
			WRITE_ONCE(ctx->filled, 0);
			smp_mb__before_atomic(); /* pairs with levels_any() */
			clear_bit(ctx->index, l->pending);
			spin_unlock(&ctx->lock);
		}
	}
	return all;
}

static inline struct k2_entry *levels_first(const struct levels *l, unsigned int list)
{
	return k2_entry_of(l->lists[list].next);
}

/* Takes a staged entry off its list. */
static inline void levels_unstage(struct levels *l, struct k2_entry *e)
{
	unsigned int list = e->list;

	list_del_init(k2_node(e));
	if (list_empty(&l->lists[list]))
		WRITE_ONCE(l->filled, l->filled & ~(1U << list));
}
