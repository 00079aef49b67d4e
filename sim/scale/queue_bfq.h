/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A model of bfq for cpus.c: one list of requests under one lock. Insertion, dispatch and the end of a request each hold the lock for as
 * long as bfq's code does. It does not idle and ignores the bound: it shows the limit that bfq's lock alone imposes.
 */
#include <linux/spinlock.h>

/*
 * bfq adds 4552 instructions to an I/O with 32 outstanding (Linux 6.12, `tailgate bench --only instructions`), at 3.6 instructions per ns
 * as in machines/mqfq.toml. It is an assumption that each of the three takes a third of them.
 */
#define BFQ_NS (4552 * 10 / 36 / 3)

static struct locked_bfq {
	spinlock_t lock;
	u64 inserted, dispatched;
	struct list_head queued;
} * bfq;

static void queue_create(unsigned int bound, unsigned int t_kib)
{
	(void)bound, (void)t_kib;
	bfq = memory(sizeof(*bfq));
	spin_lock_init(&bfq->lock);
	INIT_LIST_HEAD(&bfq->queued);
}

static inline void queue_insert(unsigned int cpu, struct io *io)
{
	(void)cpu;
	spin_lock(&bfq->lock);
	cpu_other_code(BFQ_NS);
	list_add_tail(&io->node, &bfq->queued);
	bfq->inserted++;
	spin_unlock(&bfq->lock);
}

static inline bool queue_has_work(unsigned int cpu)
{
	(void)cpu;
	return shared_load(&bfq->queued.next) != &bfq->queued;
}

static inline struct io *queue_dispatch(unsigned int cpu)
{
	struct io *io = NULL;

	(void)cpu;
	spin_lock(&bfq->lock);
	if (!list_empty(&bfq->queued)) {
		cpu_other_code(BFQ_NS);
		io = list_entry(bfq->queued.next, struct io, node);
		list_del_init(&io->node);
		bfq->dispatched++;
	}
	spin_unlock(&bfq->lock);
	return io;
}

static inline void queue_finish(unsigned int cpu, struct io *io)
{
	(void)cpu, (void)io;
	spin_lock(&bfq->lock);
	cpu_other_code(BFQ_NS);
	spin_unlock(&bfq->lock);
}

static bool queue_conserved(u64 inserted)
{
	return bfq->inserted == inserted && bfq->dispatched == inserted;
}
