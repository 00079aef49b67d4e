/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What may still go to the drive: D tokens, one for each request in it, in a tree that is shaped like the machine (M. Hedayati et al.,
 * "Multi-Queue Fair Queueing", ATC 2019, section 3.2). A leaf belongs to a queue, nodes above it to a core, a cache, a socket, the machine.
 * A queue takes a token from the nearest node on its way to the root. A token that nobody waits for is put into the leaf of the queue that
 * had it, as that is likely to need it next; but a node keeps no more than its part of all tokens, and what is above that is put higher
 * up, where others find it too.
 *
 * Why it is correct. A token is in exactly one node, or with one queue or request: each step moves one by a single atomic operation. What
 * the paper leaves open is a token in the leaf of a CPU that went idle, which no other queue passes: see waiting.h.
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
 * @keeps: so many at most, but in the root
 * @parent: number of the node above; of the root, its own
 * @first: the first queue below
 * @end: the last queue below, plus 1
 */
struct token_node {
	atomic_t tokens;
	unsigned int keeps, parent, first, end;
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

/* A token that is to go, as there are to be fewer. Return: true if the caller's is one of those. */
static inline bool tokens_drop(struct tokens *t)
{
	return unlikely(atomic_read(&t->excess) > 0) && tokens_take_one(&t->excess);
}

/* Puts a token of a queue. The caller then looks, after a full barrier, for those who wait. Any context. */
static inline void tokens_put(struct tokens *t, unsigned int queue)
{
	struct token_node *node = &t->nodes[queue], *root = &t->nodes[t->count - 1];

	while (node != root && (unsigned int)atomic_read(&node->tokens) >= READ_ONCE(node->keeps))
		node = &t->nodes[node->parent];
	atomic_inc(&node->tokens);
}

/* All nodes keep their parts of so many tokens. */
static inline void tokens_share(struct tokens *t, unsigned int tokens)
{
	const struct token_node *root = &t->nodes[t->count - 1];
	unsigned int i;

	for (i = 0; i < t->count; i++)
		WRITE_ONCE(t->nodes[i].keeps,
			   tokens * (t->nodes[i].end - t->nodes[i].first) / root->end);
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
