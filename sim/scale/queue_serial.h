/* SPDX-License-Identifier: GPL-2.0-only */
/* MQFQ under one lock, for cpus.c: shows the gain from its structures for many CPUs. */
#define queue_create mqfq_queue_create
#define queue_insert mqfq_queue_insert
#define queue_has_work mqfq_queue_has_work
#define queue_dispatch mqfq_queue_dispatch
#define queue_finish mqfq_queue_finish
#include "queue_mqfq.h"
#undef queue_create
#undef queue_insert
#undef queue_has_work
#undef queue_dispatch
#undef queue_finish

static struct serial {
	spinlock_t lock;
} ____cacheline_aligned *serial;

static void queue_create(unsigned int bound, unsigned int t_kib)
{
	serial = memory(sizeof(*serial));
	spin_lock_init(&serial->lock);
	mqfq_queue_create(bound, t_kib);
}

static inline void queue_insert(unsigned int cpu, struct io *io)
{
	spin_lock(&serial->lock);
	mqfq_queue_insert(cpu, io);
	spin_unlock(&serial->lock);
}

static inline bool queue_has_work(unsigned int cpu)
{
	return mqfq_queue_has_work(cpu);
}

static inline struct io *queue_dispatch(unsigned int cpu)
{
	struct io *io;

	spin_lock(&serial->lock);
	io = mqfq_queue_dispatch(cpu);
	spin_unlock(&serial->lock);
	return io;
}

static inline void queue_finish(unsigned int cpu, struct io *io)
{
	spin_lock(&serial->lock);
	mqfq_queue_finish(cpu, io);
	spin_unlock(&serial->lock);
}
