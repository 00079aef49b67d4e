/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * MQFQ without its mindicator, for cpus.c: the least start tag is found by scanning an array of the first tag of each queue, eight tags per
 * cache line ("Multi-Queue Fair Queueing", Section 4.3.1). The scan replaces the update of the tree.
 */
#define mindicator_least mindicator_least_of_tree
#define mindicator_set mindicator_set_in_tree
#include "../../sched/fair/mindicator.h"
#undef mindicator_least
#undef mindicator_set

static inline u64 scan(const struct mindicator *m, u64 base)
{
	u64 least = MINDICATOR_NONE, number;
	unsigned int i;

	base -= (MINDICATOR_NONE + 1) / 2;
	for (i = 0; i < cpu_count; i++) {
		number = READ_ONCE(m->words[0][i]) >> MINDICATOR_VERSION_BITS;
		if (number != MINDICATOR_NONE &&
		    (least == MINDICATOR_NONE ||
		     mindicator_above(number, base) < mindicator_above(least, base)))
			least = number;
	}
	return least;
}

/* For callers that only check whether there is a tag. */
static inline u64 mindicator_least(const struct mindicator *m)
{
	return scan(m, 0);
}

static inline u64 mindicator_set(struct mindicator *m, unsigned int leaf, u64 number, u64 base)
{
	WRITE_ONCE(m->words[0][leaf], number << MINDICATOR_VERSION_BITS);
	smp_mb(); /* write this tag before reading the others */
	return scan(m, base);
}

#include "queue_mqfq.h"
