/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The bound D as D tokens: a request in the drive holds one. Free tokens are in a tree shaped like the machine (M. Hedayati et al.,
 * "Multi-Queue Fair Queueing", ATC 2019, section 3.2). A leaf belongs to a queue; the nodes above it belong to a core, a last-level
 * cache, a NUMA node, a socket, the machine. A queue takes a token from the nearest node on its path to the root. A freed token that no
 * queue waits for is put into the leaf of the queue that used it, as that queue is likely to need one next. A node keeps at most its
 * proportional part of all tokens; further ones are put higher up, where more queues find them.
 *
 * Why it is correct. A token is always in one node, or held by one queue or request: each step moves one by a single atomic operation. The
 * paper does not say how other queues get a token that is in the leaf of an idle CPU: see waiting.h.
 *
 * Queues are numbered in the order of the leaves, so a node covers a range of queues.
 */
#ifndef TAILGATE_SCHED_TOKENS_H
#define TAILGATE_SCHED_TOKENS_H

#include <linux/atomic.h>
#include <linux/cache.h>
#include <linux/types.h>

/**
 * struct token_node - a node of the tree
 * @tokens: free tokens in this node
 * @keeps: most tokens put here; the root has no limit
 * @parent: number of the node above; the root's is its own
 * @first: number of the first queue below
 * @end: number of the last queue below, plus 1
 */
struct token_node {
	atomic_t tokens;
	unsigned int keeps, parent, first, end;
} ____cacheline_aligned_in_smp;

/**
 * struct tokens - the tokens of one drive
 * @nodes: leaves by number of the queue, then inner nodes, each after those below it; the root is the last one
 * @count: number of nodes
 * @excess: tokens to destroy when they are freed, because D was reduced
 */
struct tokens {
	struct token_node *nodes;
	unsigned int count;
	atomic_t excess;
};

/* Decrements a number of tokens if it is above 0. Return: true if it did. */
static inline bool tokens_take_one(atomic_t *number)
{
	int tokens = atomic_read(number);

	while (tokens > 0)
		if (atomic_try_cmpxchg(number, &tokens, tokens - 1))
			return true;
	return false;
}

/* Takes a token from the nearest node on the path from a queue's leaf to the root. Return: false if there is none. */
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

/* Takes a token from any node. The caller has announced that it waits, and passed a full barrier. Return: false if there is none. */
static inline bool tokens_steal(struct tokens *t)
{
	unsigned int node;

	for (node = t->count; node--;)
		if (tokens_take_one(&t->nodes[node].tokens))
			return true;
	return false;
}

/* Destroys the caller's token if D was reduced. Return: true if the token is gone. */
static inline bool tokens_drop(struct tokens *t)
{
	return unlikely(atomic_read(&t->excess) > 0) && tokens_take_one(&t->excess);
}

/* Puts a queue's token into the tree. The caller must then check for waiting queues, after a full barrier. Any context. */
static inline void tokens_put(struct tokens *t, unsigned int queue)
{
	struct token_node *node = &t->nodes[queue], *root = &t->nodes[t->count - 1];

	while (node != root && (unsigned int)atomic_read(&node->tokens) >= READ_ONCE(node->keeps))
		node = &t->nodes[node->parent];
	atomic_inc(&node->tokens);
}

/* Sets each node's limit to its proportional part of @tokens. */
static inline void tokens_share(struct tokens *t, unsigned int tokens)
{
	const struct token_node *root = &t->nodes[t->count - 1];
	unsigned int i;

	for (i = 0; i < t->count; i++)
		WRITE_ONCE(t->nodes[i].keeps,
			   tokens * (t->nodes[i].end - t->nodes[i].first) / root->end);
}

/* Creates @more tokens, or destroys -@more; one caller at a time. The caller must then give new tokens to waiting queues. */
static inline void tokens_add(struct tokens *t, int more)
{
	for (; more > 0; more--)
		if (!tokens_take_one(&t->excess))
			atomic_inc(&t->nodes[t->count - 1].tokens);
	for (; more < 0; more++)
		if (!tokens_steal(t)) {
			/* the others are in use, and are destroyed when they are returned */
			atomic_sub(more, &t->excess);
			return;
		}
}

#endif
