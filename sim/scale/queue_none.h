/* SPDX-License-Identifier: GPL-2.0-only */
/* No scheduler, for cpus.c: each CPU dispatches its own requests, and shares nothing. The bound is ignored. */
#include <linux/types.h>

static struct none_cpu {
	struct list_head queued;
	u64 inserted;
} ____cacheline_aligned *none;

static void queue_create(unsigned int bound, unsigned int t_kib)
{
	unsigned int i;

	(void)bound, (void)t_kib;
	none = memory(cpu_count * sizeof(*none));
	for (i = 0; i < cpu_count; i++)
		INIT_LIST_HEAD(&none[i].queued);
}

static inline void queue_insert(unsigned int cpu, struct io *io)
{
	list_add_tail(&io->node, &none[cpu].queued);
	none[cpu].inserted++;
}

static inline bool queue_has_work(unsigned int cpu)
{
	return !list_empty(&none[cpu].queued);
}

static inline struct io *queue_dispatch(unsigned int cpu)
{
	struct io *io = list_entry(none[cpu].queued.next, struct io, node);

	list_del_init(&io->node);
	return io;
}

static inline void queue_finish(unsigned int cpu, struct io *io)
{
	(void)cpu;
	(void)io;
}

static bool queue_conserved(u64 inserted)
{
	unsigned int i;

	for (i = 0; i < cpu_count; i++)
		inserted -= none[i].inserted;
	return !inserted;
}
