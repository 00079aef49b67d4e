/* SPDX-License-Identifier: GPL-2.0-only */
/* MQFQ for cpus.c: one hardware queue and one flow per CPU; two CPUs share a core, eight share a cache, 32 share a socket. */
#include "../../sched/mqfq.h"

struct mqfq_io {
	struct mqfq_entry entry;
	struct rb_node rb_node;
};

_Static_assert(sizeof(struct mqfq_io) <= sizeof(((struct io *)0)->entry), "size");

static inline struct list_head *mqfq_node(struct mqfq_entry *e)
{
	return &((struct io *)e)->node;
}

static inline struct mqfq_entry *mqfq_entry_of(struct list_head *node)
{
	return (struct mqfq_entry *)list_entry(node, struct io, node)->entry;
}

static inline struct rb_node *mqfq_rb_node(struct mqfq_entry *e)
{
	return &((struct mqfq_io *)e)->rb_node;
}

static inline struct mqfq_entry *mqfq_entry_of_rb(struct rb_node *node)
{
	return &container_of(node, struct mqfq_io, rb_node)->entry;
}

static inline void mqfq_run(struct mqfq *m, unsigned int hctx)
{
	(void)m;
	cpu_run(hctx);
}

static inline unsigned int mqfq_period(const struct mqfq *m)
{
	(void)m;
	return 0;
}

static inline u64 mqfq_now(const struct mqfq *m)
{
	(void)m;
	return 0;
}

static inline unsigned int mqfq_sectors(struct mqfq_entry *e)
{
	(void)e;
	return 8;
}

#include "../../sched/mqfq.c"

static struct mqfq *mqfq;

static void queue_create(unsigned int bound, unsigned int t_kib)
{
	struct mqfq_place places[CPUS_MAX];
	unsigned int scratch[CPUS_MAX], i;

	for (i = 0; i < cpu_count; i++)
		places[i] = (struct mqfq_place){ i, i, { i / 2, i / 8, i / 32 } };
	mqfq = memory(sizeof(*mqfq));
	mqfq_init(mqfq, memory(mqfq_size(cpu_count, cpu_count)), cpu_count, places, cpu_count,
		  scratch);
	if (mqfq_configure(mqfq, MQFQ_KNOB_d, bound) ||
	    mqfq_configure(mqfq, MQFQ_KNOB_t_kib, t_kib)) {
		fprintf(stderr, "bound: expected 1 to 65535; t_kib: 0 to 1048576\n");
		exit(2);
	}
}

static void queue_where(struct mqfq_entry *e, struct share_path *path)
{
	(void)e;
	path->depth = 1;
	path->at[0].weight = SHARES_WEIGHT;
}

static inline void queue_insert(unsigned int cpu, struct io *io)
{
	struct mqfq_entry *e = (struct mqfq_entry *)io->entry;
	struct mqfq_insertion in;

	mqfq_prepare(mqfq, e, MQFQ_FAIR, cpu + 1, queue_where, false);
	mqfq_insert_begin(&in, &mqfq->queues[cpu]);
	mqfq_insert(&in, e);
	mqfq_insert_end(mqfq, &in);
}

static inline bool queue_has_work(unsigned int cpu)
{
	return mqfq_has_work(&mqfq->hctxs[cpu]);
}

static void queue_picked(struct mqfq_entry *e)
{
	(void)e;
}

static inline struct io *queue_dispatch(unsigned int cpu)
{
	return (struct io *)mqfq_dispatch(mqfq, &mqfq->hctxs[cpu], cpu, queue_picked);
}

static inline void queue_finish(unsigned int cpu, struct io *io)
{
	(void)cpu;
	mqfq_finish(mqfq, (struct mqfq_entry *)io->entry, false);
}

static bool queue_conserved(u64 inserted)
{
	(void)inserted;
	return mqfq_deinit(mqfq);
}
