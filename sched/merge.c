// SPDX-License-Identifier: GPL-2.0-only
/* Merging: who looks for a queued request to join sees those of its level, and takes away what was joined. Included by k2.c. */
#include "k2.h"

/* Begins to look for a request to join. Return: false if a dispatcher is at work: a contended lock is not worth a merge. */
static inline bool k2_merge_begin(struct k2 *k2)
{
	if (!spin_trylock(&k2->lock))
		return false;
	levels_collect(&k2->levels);
	return true;
}

/* Return: true if a hardware queue should be run. */
static inline bool k2_merge_end(struct k2 *k2)
{
	bool run = k2->removed_blocked;

	k2->removed_blocked = false;
	spin_unlock(&k2->lock);
	return run;
}

/**
 * k2_visit_new() - show each staged entry of a level once, oldest first
 * @k2: the drive's scheduler, between k2_merge_begin() and k2_merge_end()
 * @level: 0 to K2_LEVELS - 1
 * @visit: called with the entry; may k2_remove() it
 * @argument: for @visit
 *
 * Entries are appended and leave from the front, so those not yet visited are the tail of the list.
 */
static inline void k2_visit_new(struct k2 *k2, unsigned int level,
				void (*visit)(struct k2_entry *e, void *argument), void *argument)
{
	struct list_head *list = &k2->levels.lists[K2_LIST(level)], *node = list->prev, *next;

	lockdep_assert_held(&k2->lock);
	while (node != list && !(k2_entry_of(node)->marks & K2_MARK_VISITED))
		node = node->prev;
	for (node = node->next; node != list; node = next) {
		next = node->next;
		k2_entry_of(node)->marks |= K2_MARK_VISITED;
		visit(k2_entry_of(node), argument);
	}
}

/**
 * k2_remove() - take out a staged entry that will not be dispatched (it was merged into another)
 * @k2: the drive's scheduler, between k2_merge_begin() and k2_merge_end()
 * @e: collected and in state K2_QUEUED
 */
static void k2_remove(struct k2 *k2, struct k2_entry *e)
{
	lockdep_assert_held(&k2->lock);
	/* it may have been what a bound refused, and the next one fit */
	if (atomic_read(&k2->blocked) & 1U << e->list && atomic_xchg(&k2->blocked, 0))
		k2->removed_blocked = true;
	k2_take_away(k2, e);
	e->state = K2_NEW;
	k2->removed[e->level]++;
}
