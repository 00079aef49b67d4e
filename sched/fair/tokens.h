/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What may still go to the drive: D tokens, one for each request in it, in a tree that is shaped like the machine (M. Hedayati et al.,
 * "Multi-Queue Fair Queueing", ATC 2019, section 3.2). A leaf belongs to a queue, nodes above it to a core, a cache, a socket, the machine.
 * A queue takes a token from the nearest node on its way to the root; an end puts it where the queue that needs it looks first.
 *
 * Why it is correct. A token is in exactly one node, or with one request: each step moves one by a single atomic operation. What
 * the paper leaves open is a token in the leaf of a CPU that went idle, which no other queue passes. So a queue that finds none on its way
 * says that it waits, and then looks at all nodes: either it sees a token that was put anywhere before, or who puts one later sees
 * that it waits.
 *
 * Queues are numbered along the leaves, so what is below a node is a range of queues.
 */
#ifndef TAILGATE_SCHED_TOKENS_H
#define TAILGATE_SCHED_TOKENS_H

#include <linux/atomic.h>
#include <linux/cache.h>
#include <linux/types.h>

/**
 * struct token_node - a node of the tree
 * @tokens: tokens here
 * @parent: number of the node above; of the root, its own
 * @first: the first queue below
 * @end: the last queue below, plus 1
 */
struct token_node {
	atomic_t tokens;
	unsigned int parent, first, end;
} ____cacheline_aligned_in_smp;

/**
 * struct tokens - the tokens of one drive
 * @nodes: leaves by number of the queue, then inner nodes, each after those below it; the root is the last one
 * @count: nodes
 * @excess: tokens that leave when they are put back, as there are to be fewer
 */
struct tokens {
	struct token_node *nodes;
	unsigned int count;
	atomic_t excess;
};

/* Takes one from a number, if it is above 0. */
static inline bool tokens_take_one(atomic_t *number)
{
	int tokens = atomic_read(number);

	while (tokens > 0)
		if (atomic_try_cmpxchg(number, &tokens, tokens - 1))
			return true;
	return false;
}

/* A token from the nearest node on the way to the root. Return: false: there is none on the way. */
static inline bool tokens_take(struct tokens *t, unsigned int queue)
{
	unsigned int node = queue;

	while (!tokens_take_one(&t->nodes[node].tokens)) {
		if (node == t->count - 1)
			return false;
		node = t->nodes[node].parent;
	}
	return true;
}

/* A token from any node. The caller has announced before, with a full barrier, that it waits. Return: false: there was none. */
static inline bool tokens_steal(struct tokens *t)
{
	unsigned int node;

	for (node = t->count; node--;)
		if (tokens_take_one(&t->nodes[node].tokens))
			return true;
	return false;
}

/* Is there a token? It may be gone when this returns. */
static inline bool tokens_seen(const struct tokens *t)
{
	unsigned int node;

	for (node = t->count; node--;)
		if (atomic_read(&t->nodes[node].tokens) > 0)
			return true;
	return false;
}

/*
 * Puts a token of @queue where @to finds it too: in the lowest node that is above both. If both are the same, that is the leaf. Any context.
 * The caller then looks, after a full barrier, for those who wait.
 */
static inline void tokens_put(struct tokens *t, unsigned int queue, unsigned int to)
{
	unsigned int node = queue;

	if (unlikely(atomic_read(&t->excess) > 0) && tokens_take_one(&t->excess))
		return;
	while (to < t->nodes[node].first || to >= t->nodes[node].end)
		node = t->nodes[node].parent;
	atomic_inc(&t->nodes[node].tokens);
}

/* More tokens, or fewer; one caller at a time. After more, who waits has to be woken. */
static inline void tokens_add(struct tokens *t, int more)
{
	for (; more > 0; more--)
		if (!tokens_take_one(&t->excess))
			atomic_inc(&t->nodes[t->count - 1].tokens);
	for (; more < 0; more++)
		if (!tokens_steal(t))
			atomic_inc(&t->excess);
}

#endif
