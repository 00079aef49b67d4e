// SPDX-License-Identifier: GPL-2.0-only
/* Merging: the binding visits the queued requests of a level, and removes those that it has merged into others. Included by k2.c. */
#include "k2.h"

/* Starts a merge attempt: takes the lock and collects. Return: false if the lock is taken: a merge is not worth waiting for it. */
static inline bool k2_merge_begin(struct k2 *k2)
{
	if (!spin_trylock(&k2->lock))
		return false;
	levels_collect(&k2->levels);
	return true;
}

/* Ends a merge attempt. Return: true if a hardware queue should be run. */
static inline bool k2_merge_end(struct k2 *k2)
{
	bool run = k2->removed_blocked;

	k2->removed_blocked = false;
	spin_unlock(&k2->lock);
	return run;
}

/**
 * k2_visit_new() - visit the staged entries of a level that were not visited before, oldest first
 * @k2: the drive's scheduler, between k2_merge_begin() and k2_merge_end()
 * @level: 0 to K2_LEVELS - 1
 * @visit: called with the entry; may call k2_remove() on it
 * @argument: passed to @visit
 *
 * Entries are appended at the tail, so the entries not yet visited are the last ones of the list.
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
 * k2_remove() - remove a staged entry that was merged into another one
 * @k2: the drive's scheduler, between k2_merge_begin() and k2_merge_end()
 * @e: collected and in state K2_QUEUED
 */
static void k2_remove(struct k2 *k2, struct k2_entry *e)
{
	lockdep_assert_held(&k2->lock);
	/* if a bound refused this entry, it may allow the next one on the list */
	if (atomic_read(&k2->blocked) & 1U << e->list && atomic_xchg(&k2->blocked, 0))
		k2->removed_blocked = true;
	k2_take_away(k2, e, e->list);
	e->state = K2_NEW;
	k2->removed[e->level]++;
}
