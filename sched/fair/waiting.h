/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which queues have a request that may go as soon as there is a token: the ready queues of M. Hedayati et al., "Multi-Queue Fair Queueing",
 * ATC 2019, section 3.3. A bitmap for each level of priority; who has a token to give asks for the nearest queue of the most urgent level.
 *
 * Why no wake-up is lost. A queue sets its bit and then, after a full barrier, looks for a token; who puts a token looks, after a full
 * barrier, for a bit. One of the two sees the other. Who clears a bit must run the queue: nobody else will.
 */
#ifndef TAILGATE_SCHED_WAITING_H
#define TAILGATE_SCHED_WAITING_H

#include <linux/atomic.h>
#include <linux/bitops.h>
#include <linux/compiler.h>
#include <linux/types.h>

#include "tokens.h"

#define WAITING_LEVELS 11
#define WAITING_NONE (~0U)

/**
 * struct waiting - queues that wait for a token
 * @levels: bitmap of levels of which a queue may wait: a bit may be set in vain
 * @words: words of a bitmap of queues
 * @maps: WAITING_LEVELS bitmaps, one after the other, the most urgent first
 */
struct waiting {
	unsigned long levels;
	unsigned int words;
	unsigned long *maps;
};

static inline unsigned long *waiting_map(const struct waiting *w, unsigned int level)
{
	return &w->maps[level * w->words];
}

/* A queue waits. Afterwards, after a full barrier, it must look for a token. */
static inline void waiting_add(struct waiting *w, unsigned int queue, unsigned int level)
{
	set_bit(queue, waiting_map(w, level));
	smp_mb__after_atomic(); /* pairs with waiting_forget() */
	if (!(READ_ONCE(w->levels) & BIT(level)))
		set_bit(level, &w->levels);
}

/* It waits no more. Return: false: it was woken meanwhile. */
static inline bool waiting_remove(struct waiting *w, unsigned int queue, unsigned int level)
{
	return test_and_clear_bit(queue, waiting_map(w, level));
}

/* Does any queue of a level wait? */
static inline bool waiting_at(const struct waiting *w, unsigned int level)
{
	const unsigned long *map = waiting_map(w, level);
	unsigned int word;

	for (word = 0; word < w->words; word++)
		if (READ_ONCE(map[word]))
			return true;
	return false;
}

/* No queue of a level waits: clears its bit, unless one has come. */
static inline void waiting_forget(struct waiting *w, unsigned int level)
{
	clear_bit(level, &w->levels);
	smp_mb__after_atomic();
	if (waiting_at(w, level))
		set_bit(level, &w->levels);
}

/* The most urgent level, below @end, of which a queue waits; @end: none. */
static inline unsigned int waiting_level(struct waiting *w, unsigned int end)
{
	unsigned long levels = READ_ONCE(w->levels) & (BIT(end) - 1);

	for (; levels; levels &= levels - 1) {
		if (waiting_at(w, __ffs(levels)))
			return __ffs(levels);
		waiting_forget(w, __ffs(levels));
	}
	return end;
}

/* A queue of this range that waits, the first one from @queue on, then from the beginning. */
static inline unsigned int waiting_in(const unsigned long *map, unsigned int first,
				      unsigned int end, unsigned int queue)
{
	unsigned int found = find_next_bit(map, end, queue);

	if (found < end)
		return found;
	found = find_next_bit(map, queue, first);
	return found < queue ? found : WAITING_NONE;
}

/* The queue nearest to @queue that waits at a level; WAITING_NONE: none. */
static inline unsigned int waiting_nearest(const struct waiting *w, const struct tokens *t,
					   unsigned int queue, unsigned int level)
{
	unsigned int node = queue, found;

	for (;;) {
		found = waiting_in(waiting_map(w, level), t->nodes[node].first, t->nodes[node].end,
				   queue);
		if (found != WAITING_NONE || node == t->count - 1)
			return found;
		node = t->nodes[node].parent;
	}
}

#endif
