/* SPDX-License-Identifier: GPL-2.0-only */
/* K2 for cpus.c: one ctx per CPU, as on a drive with one hardware queue per CPU. All requests have the same level. */
#include "../../sched/k2.h"

_Static_assert(sizeof(struct k2_entry) <= sizeof(((struct io *)0)->entry), "size");

static inline struct list_head *k2_node(struct k2_entry *e)
{
	return &((struct io *)e)->node;
}

static inline struct k2_entry *k2_entry_of(struct list_head *node)
{
	return (struct k2_entry *)list_entry(node, struct io, node)->entry;
}

static inline unsigned int k2_sectors(struct k2_entry *e)
{
	(void)e;
	return 8;
}

static inline bool k2_writes(struct k2_entry *e)
{
	(void)e;
	return false;
}

static inline u64 k2_key(struct k2_entry *e)
{
	(void)e;
	return 0;
}

static inline bool k2_may_split(struct k2_entry *e)
{
	(void)e;
	return false;
}

static inline void k2_picked(struct k2_entry *e)
{
	(void)e;
}

static inline bool k2_draining(const struct k2 *k2)
{
	(void)k2;
	return false;
}

static inline u64 k2_now(const struct k2 *k2)
{
	(void)k2;
	return clock_ns();
}

static inline void k2_arm(struct k2 *k2, u64 at_ns)
{
	(void)k2, (void)at_ns;
}

#include "../../sched/k2.c"

static struct k2 *k2;
static struct k2_ctx *ctxs[CPUS_MAX];

static void queue_create(unsigned int bound, unsigned int t_kib)
{
	unsigned int i;

	(void)t_kib;
	k2 = memory(sizeof(*k2));
	for (i = 0; i < cpu_count; i++)
		ctxs[i] = memory(sizeof(struct k2_ctx));
	k2_init(k2, ctxs, cpu_count, 8);
	if (k2_configure(k2, K2_KNOB_inflight_max, bound)) {
		fprintf(stderr, "bound: expected 1 to 65535\n");
		exit(2);
	}
}

static inline void queue_insert(unsigned int cpu, struct io *io)
{
	LIST_HEAD(entries);

	/* the block layer reads the clock when it creates a request; here all requests were created at time 0 */
	k2_prepare(k2, (struct k2_entry *)io->entry, K2_BACKGROUND, false, false, 0);
	list_add_tail(&io->node, &entries);
	levels_insert(&k2->levels, ctxs[cpu], &entries);
}

static inline bool queue_has_work(unsigned int cpu)
{
	(void)cpu;
	return k2_has_work(k2);
}

static inline struct io *queue_dispatch(unsigned int cpu)
{
	LIST_HEAD(large); /* stays empty: nothing may be split */

	(void)cpu;
	return (struct io *)k2_dispatch(k2, clock_ns(), &large);
}

static inline void queue_finish(unsigned int cpu, struct io *io)
{
	if (k2_finish(k2, (struct k2_entry *)io->entry, false))
		cpu_run(cpu); /* the calling CPU */
}

static bool queue_conserved(u64 inserted)
{
	u64 counted = 0;
	unsigned int i;

	for (i = 0; i < cpu_count; i++)
		counted += ctxs[i]->inserted[K2_BACKGROUND];
	return k2_deinit(k2) && counted == inserted && k2->dispatched[K2_BACKGROUND] == inserted;
}
