/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * MQFQ without its tree of tokens, for cpus.c: one counter of free tokens ("Multi-Queue Fair Queueing", Section 4.3.3). A token that
 * another queue waits for is handed to it directly, as with the tree.
 */
#define tokens_take tokens_take_from_tree
#define tokens_put tokens_put_into_tree
#include "../../sched/fair/tokens.h"
#undef tokens_take
#undef tokens_put

/* The root of the tree, which has all tokens at first. */
static inline atomic_t *counter(const struct tokens *t)
{
	return &t->nodes[t->count - 1].tokens;
}

static inline bool tokens_take(struct tokens *t, unsigned int queue)
{
	(void)queue;
	return tokens_take_one(counter(t));
}

static inline void tokens_put(struct tokens *t, unsigned int queue)
{
	(void)queue;
	atomic_inc(counter(t));
}

#include "queue_mqfq.h"
