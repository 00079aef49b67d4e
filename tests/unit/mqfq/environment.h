/* SPDX-License-Identifier: GPL-2.0-only */
/* Common to MQFQ's tests: a request, and MQFQ compiled for it. The file that includes this defines mqfq_run(). */
#include "../../../sched/mqfq.h"

/* Most bios that may join a request: the drive takes no larger requests. */
#define JOINED_MAX 3

struct io {
	struct list_head node;
	struct rb_node rb_node;
	struct mqfq_entry entry;
	unsigned int flow, weight, level, sectors, queue;
	bool in_group; /* its flow is a child of the only group, not at the top */
	unsigned int returns; /* how often the drive will still give it back */
	unsigned int joined; /* bios of its size that became part of it */
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
	struct io *io = container_of(e, struct io, entry);

	return io->sectors * (1 + io->joined);
}

#include "../../../sched/mqfq.c"

#include "create.h"

static void path_of(struct mqfq_entry *e, struct share_path *path)
{
	const struct io *io = container_of(e, struct io, entry);

	path->depth = 0;
	if (io->in_group) {
		path->at[path->depth].id = 1;
		path->at[path->depth++].weight = SHARES_WEIGHT;
	}
	path->at[path->depth].id = 1 + io->flow;
	path->at[path->depth++].weight = io->weight;
}

/* Lets a bio join a queued request of the same flow as @io in its queue; the latest @skip such requests are passed over. */
static bool join_io(struct mqfq *m, const struct io *io, unsigned int skip)
{
	struct mqfq_queue *q = &m->queues[io->queue];
	struct mqfq_entry *latest[MQFQ_LATEST];
	unsigned int count, i;
	struct io *with;

	mqfq_merge_begin(q);
	count = mqfq_latest(q, latest);
	for (i = 0; i < count; i++) {
		with = container_of(latest[i], struct io, entry);
		if (with->flow == io->flow && with->joined < JOINED_MAX && !skip--) {
			mqfq_grow(m, &with->entry, io->sectors, false);
			with->joined++;
			break;
		}
	}
	mqfq_merge_end(q);
	return i < count;
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
