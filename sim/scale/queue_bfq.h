/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A model of bfq for cpus.c: requests in one list under one lock, which insertion, dispatch and the end of a request take and hold for as long
 * as bfq's code takes. It never idles, and its bound is not kept, so it is what bfq's lock alone allows.
 */
#include <linux/spinlock.h>

/*
 * bfq adds 4552 instructions to an I/O, of 32 outstanding ones (Linux 6.12, `tailgate bench --only instructions`), at 3.6 a ns as in
 * machines/mqfq.toml; that a third of them is in each of the three is an assumption.
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
