/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Deadline for cpus.c, under one lock as in the kernel. Insertion and dispatch take the lock; the check for work and the end of
 * a request do not.
 */
#include <linux/spinlock.h>

#include "../../sched/models/deadline.h"

_Static_assert(sizeof(struct deadline_entry) <= sizeof(((struct io *)0)->entry), "size");

static inline struct list_head *deadline_node(struct deadline_entry *e)
{
	return &((struct io *)e)->node;
}

static inline struct deadline_entry *deadline_entry_of(struct list_head *node)
{
	return (struct deadline_entry *)list_entry(node, struct io, node)->entry;
}

static inline u64 deadline_sector(const struct deadline_entry *e)
{
	return ((const struct io *)e)->sector;
}

#include "../../sched/models/deadline.c"

static struct locked_deadline {
	spinlock_t lock;
	struct deadline deadline;
} * queue;

static void queue_create(unsigned int bound, unsigned int t_kib)
{
	(void)bound, (void)t_kib;
	queue = memory(sizeof(*queue));
	spin_lock_init(&queue->lock);
	deadline_init(&queue->deadline);
}

static inline void queue_insert(unsigned int cpu, struct io *io)
{
	(void)cpu;
	spin_lock(&queue->lock);
	deadline_insert(&queue->deadline, (struct deadline_entry *)io->entry, DEADLINE_BE,
			DEADLINE_READ, false, clock_tick_ns());
	spin_unlock(&queue->lock);
}

static inline bool queue_has_work(unsigned int cpu)
{
	(void)cpu;
	const struct list_head *reads = &queue->deadline.queues[DEADLINE_BE][DEADLINE_READ].fifo;

	return shared_load(&reads->next) != reads; /* list_empty_careful() */
}

static inline struct io *queue_dispatch(unsigned int cpu)
{
	(void)cpu;
	struct deadline_entry *e;

	spin_lock(&queue->lock);
	e = deadline_dispatch(&queue->deadline, clock_tick_ns());
	spin_unlock(&queue->lock);
	return (struct io *)e;
}

static inline void queue_finish(unsigned int cpu, struct io *io)
{
	struct deadline_entry *e = (struct deadline_entry *)io->entry;

	(void)cpu;
	/* replaces deadline_finish(), which needs the lock: the kernel uses an atomic counter instead */
	e->counted = false;
	shared_add(&queue->deadline.ended[e->prio], 1);
}

static bool queue_conserved(u64 inserted)
{
	return deadline_deinit(&queue->deadline) &&
	       queue->deadline.inserted[DEADLINE_BE] == (u32)inserted;
}
