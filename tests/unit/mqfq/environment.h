/* SPDX-License-Identifier: GPL-2.0-only */
/* What MQFQ's tests have in common: a request, and MQFQ compiled for it. Who includes this has mqfq_run(). */
#include "../../../sched/mqfq.h"

struct io {
	struct list_head node;
	struct rb_node rb_node;
	struct mqfq_entry entry;
	unsigned int flow, weight, level, sectors, queue;
	unsigned int returns; /* times the drive will give it back */
};

static struct list_head *mqfq_node(struct mqfq_entry *e)
{
	return &container_of(e, struct io, entry)->node;
}

static struct mqfq_entry *mqfq_entry_of(struct list_head *node)
{
	return &container_of(node, struct io, node)->entry;
}

static struct rb_node *mqfq_rb_node(struct mqfq_entry *e)
{
	return &container_of(e, struct io, entry)->rb_node;
}

static struct mqfq_entry *mqfq_entry_of_rb(struct rb_node *node)
{
	return &container_of(node, struct io, rb_node)->entry;
}

static bool mqfq_draining(const struct mqfq *m)
{
	(void)m;
	return false;
}

static void mqfq_run(struct mqfq *m, unsigned int hctx);

static unsigned int period;

static unsigned int mqfq_period(const struct mqfq *m)
{
	(void)m;
	return READ_ONCE(period);
}

static u64 mqfq_now(const struct mqfq *m)
{
	(void)m;
	return (u64)READ_ONCE(period) << 25;
}

static unsigned int mqfq_sectors(struct mqfq_entry *e)
{
	return container_of(e, struct io, entry)->sectors;
}

#include "../../../sched/mqfq.c"

#include "create.h"

static void path_of(struct mqfq_entry *e, struct share_path *path)
{
	path->depth = 1;
	path->at[0].weight = container_of(e, struct io, entry)->weight;
}

/* Queues one request. */
static void queue_io(struct mqfq *m, struct io *io)
{
	struct mqfq_insertion in;

	mqfq_prepare(m, &io->entry, io->level, io->flow, path_of, false);
	mqfq_insert_begin(&in, &m->queues[io->queue]);
	mqfq_insert(&in, &io->entry);
	mqfq_insert_end(m, &in);
}
