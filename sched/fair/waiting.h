/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The queues that wait for a token: the ready queues of M. Hedayati et al., "Multi-Queue Fair Queueing", ATC 2019, section 3.3. There is a
 * bitmap for each level of priority. A freed token goes to a queue that waits at the most urgent level: to the nearest one where flows wait,
 * elsewhere to the next one in turn.
 *
 * Why no token stays in the tree while a queue waits. A queue increments the count of waiting queues, sets its bit, passes a full barrier,
 * and then searches the whole tree for a token. A CPU that puts a token into the tree passes a full barrier, and then reads the count and
 * the bits. At least one of the two sees the other. Afterwards the queue is given tokens, so it need not search again.
 *
 * Only the queue's own dispatcher sets its bit. It also clears it, or the CPU that gives the queue all tokens that it needs does: further tokens
 * then go to others before the queue's CPU has run. That CPU clears the bit first and makes the queue run afterwards. So the queue's dispatcher
 * sees that its bit is clear, and sets it again if it needs more; if not, it gives tokens in the tree to others that wait.
 *
 * A queue has tokens that it was given until its CPU has time for it. So a queue that waits at a real-time level also takes those given to
 * queues that wait at less urgent levels. It may look for them before a token is given; the CPU that gives it passes a full barrier, and
 * then takes it back if a more urgent queue waits. At least one of the two sees the other.
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
/* The first level below the real-time ones. */
#define WAITING_USUAL 9

/**
 * struct waiting - queues that wait for a token
 * @count: queues that wait at a real-time level, plus 2^32 times those that wait at another
 * @words: words in a bitmap of queues
 * @maps: WAITING_LEVELS bitmaps, one after the other, the most urgent first
 */
struct waiting {
	atomic64_t count;
	unsigned int words;
	unsigned long *maps;
};

static inline unsigned long *waiting_map(const struct waiting *w, unsigned int level)
{
	return &w->maps[level * w->words];
}

static inline s64 waiting_unit(unsigned int level)
{
	return level < WAITING_USUAL ? 1 : 1LL << 32;
}

/* Notes that a queue waits. The caller must then pass a full barrier and search for a token. */
static inline void waiting_add(struct waiting *w, unsigned int queue, unsigned int level)
{
	atomic64_add(waiting_unit(level), &w->count);
	set_bit(queue, waiting_map(w, level));
}

/* Notes that a queue no longer waits. It must use or free the tokens that it was given meanwhile. */
static inline void waiting_remove(struct waiting *w, unsigned int queue, unsigned int level)
{
	if (test_and_clear_bit(queue, waiting_map(w, level)))
		atomic64_sub(waiting_unit(level), &w->count);
}

/* Does a queue wait at a level? */
static inline bool waiting_has(const struct waiting *w, unsigned int queue, unsigned int level)
{
	return test_bit(queue, waiting_map(w, level));
}

/* May any queue wait? */
static inline bool waiting_any(const struct waiting *w)
{
	return atomic64_read(&w->count);
}

/* May any queue wait at a real-time level? */
static inline bool waiting_rt(const struct waiting *w)
{
	return (u32)atomic64_read(&w->count);
}

/* The most urgent level, below @end, at which a queue waits; @end: none. */
static inline unsigned int waiting_level(const struct waiting *w, unsigned int end)
{
	unsigned int level, word;

	for (level = waiting_rt(w) ? 0 : WAITING_USUAL; level < end; level++)
		for (word = 0; word < w->words; word++)
			if (READ_ONCE(waiting_map(w, level)[word]))
				return level;
	return end;
}

/* The first set bit from @from to @end - 1; @end: none. The map may change meanwhile. */
static inline unsigned int waiting_find(const unsigned long *map, unsigned int from,
					unsigned int end)
{
	unsigned long bits;

	for (; from < end; from = (from / BITS_PER_LONG + 1) * BITS_PER_LONG) {
		bits = READ_ONCE(map[from / BITS_PER_LONG]) >> from % BITS_PER_LONG;
		if (bits)
			return min_t(unsigned int, from + __ffs(bits), end);
	}
	return end;
}

/* The first set bit of the range @first to @end - 1: from @queue on, then from @first; WAITING_NONE: none. */
static inline unsigned int waiting_in(const unsigned long *map, unsigned int first,
				      unsigned int end, unsigned int queue)
{
	unsigned int found = waiting_find(map, queue, end);

	if (found < end)
		return found;
	found = waiting_find(map, first, queue);
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
