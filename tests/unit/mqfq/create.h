/* SPDX-License-Identifier: GPL-2.0-only */
/* Creates MQFQ on a machine of a few CPUs. Included after mqfq.c. */
#include <stdlib.h>
#include <string.h>

/* A scheduler whose virtual time begins at @begin; destroyed with free(m->hctxs). */
static void create_mqfq(struct mqfq *m, unsigned int hctxs, unsigned int cpus, u64 begin)
{
	unsigned int queues = hctxs * cpus, scratch[64], i;
	struct mqfq_place places[64];
	void *memory = aligned_alloc(64, mqfq_size(hctxs, queues));

	memset(m, 0, sizeof(*m));
	memset(memory, 0, mqfq_size(hctxs, queues));
	for (i = 0; i < queues; i++)
		places[i] = (struct mqfq_place){ .hctx = i / cpus,
						 .cpu = i,
						 .group = { i / 2, i / 4, i / 8, i / 16 } };
	mqfq_init(m, memory, hctxs, places, queues, scratch);
	m->vt.counter = begin;
	for (i = 0; i <= FLOWS_PLACES; i++)
		m->flows.flows[i].end.counter = begin;
}
