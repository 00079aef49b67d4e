// SPDX-License-Identifier: GPL-2.0-only
/* Binds sched/k2.c to the simulator's block layer, as kernel/k2.c binds it to the kernel's. */
#include <stdlib.h>
#include <string.h>

#define K2_EXPERIMENTS /* the experimental knobs too: sched/experiments.h */
#include "../../sched/ends.h"
#include "../../sched/k2.h"
#include "ends.h"
#include "scheduler.h"

/**
 * struct k2_private - private data of a request
 * @entry: entry of the scheduler
 * @end: node in the table of request ends
 */
struct k2_private {
	struct k2_entry entry;
	struct ends_node end;
};

_Static_assert(sizeof(struct k2_private) <= sizeof(((struct sim_request *)0)->elv), "size");

static inline struct k2_private *k2_private(struct sim_request *rq)
{
	return (struct k2_private *)rq->elv;
}

static inline struct sim_request *k2_request(struct k2_entry *e)
{
	return container_of((void *)e, struct sim_request, elv);
}

static inline struct list_head *k2_node(struct k2_entry *e)
{
	return &k2_request(e)->node;
}

static inline struct k2_entry *k2_entry_of(struct list_head *node)
{
	return &k2_private(list_entry(node, struct sim_request, node))->entry;
}

static inline unsigned int k2_sectors(struct k2_entry *e)
{
	const struct sim_request *rq = k2_request(e);

	return rq->op == SIM_READ || rq->op == SIM_WRITE ? rq->sectors : 0;
}

static inline bool k2_writes(struct k2_entry *e)
{
	return k2_request(e)->op != SIM_READ;
}

static inline u64 k2_key(struct k2_entry *e)
{
	return k2_request(e)->cgroup->number;
}

static inline bool k2_may_split(struct k2_entry *e)
{
	(void)e;
	return true;
}

static inline void k2_picked(struct k2_entry *e)
{
	ends_delete(&k2_private(k2_request(e))->end);
}

/**
 * struct k2_drive - a drive
 * @k2: the scheduler
 * @device: the block layer's device
 * @ends: ends of the requests that a bio may be merged into
 * @recent_ends: ends of the latest requests in @ends
 * @ctxs: pointers to the ctxs, for k2_init()
 * @memory: the ctxs
 */
struct k2_drive {
	struct k2 k2;
	struct sim_device *device;
	struct ends ends;
	struct recent_ends recent_ends;
	struct k2_ctx **ctxs;
	struct k2_ctx *memory;
};

static inline bool k2_draining(const struct k2 *k2)
{
	const struct k2_drive *d = container_of(k2, struct k2_drive, k2);

	return d->device->draining;
}

static inline u64 k2_now(const struct k2 *k2)
{
	const struct k2_drive *d = container_of(k2, struct k2_drive, k2);

	return *d->device->now_ns;
}

static inline void k2_arm(struct k2 *k2, u64 at_ns)
{
	struct k2_drive *d = container_of(k2, struct k2_drive, k2);

	d->device->arm(d->device, at_ns);
}

#include "../../sched/k2.c"

#include "../../sched/binding.h"

/* Asks for a run of a hardware queue; any of them dispatches the requests of all. */
static void k2_run(struct k2_drive *d, u32 queue)
{
	d->device->run(d->device, queue);
}

static void k2_timer(void *s, u64 now_ns)
{
	struct k2_drive *d = s;

	(void)now_ns;
	if (k2_tick(&d->k2))
		k2_run(d, 0);
}

static void *k2_zalloc(size_t size)
{
	size_t whole = DIV_ROUND_UP(size, L1_CACHE_BYTES) * L1_CACHE_BYTES;
	void *memory = aligned_alloc(L1_CACHE_BYTES, whole);

	return memory ? memset(memory, 0, whole) : NULL;
}

static void k2_free(struct k2_drive *d)
{
	free(d->ctxs);
	free(d->memory);
	free(d);
}

static void *k2_create(struct sim_device *device)
{
	struct k2_drive *d = k2_zalloc(sizeof(*d));
	unsigned int i;

	if (!d)
		return NULL;
	d->device = device;
	d->ctxs = calloc(device->queues, sizeof(*d->ctxs));
	d->memory = k2_zalloc(device->queues * sizeof(*d->memory));
	if (!d->ctxs || !d->memory) {
		k2_free(d);
		return NULL;
	}
	for (i = 0; i < device->queues; i++)
		d->ctxs[i] = &d->memory[i];
	k2_init(&d->k2, d->ctxs, device->queues, 1);
	return d;
}

static bool k2_destroy(void *s)
{
	struct k2_drive *d = s;
	bool empty = k2_deinit(&d->k2);

	k2_free(d);
	return empty;
}

static int k2_set_knob(void *s, u32 knob, u64 value)
{
	struct k2_drive *d = s;
	int err;

	if (knob == K2_KNOB_split_kib && 2 * value > d->device->max_sectors)
		return -ERANGE;
	err = k2_configure(&d->k2, knob, value);
	if (!err && k2_has_work(&d->k2))
		k2_run(d, 0);
	return err;
}

static void k2_note_end(struct k2_drive *d, struct sim_request *rq)
{
	u64 end = rq->sector + rq->sectors;

	recent_ends_note(&d->recent_ends, end);
	ends_add(&d->ends, &k2_private(rq)->end, end);
}

static void k2_insert_requests(void *s, struct sim_request *rq, bool at_head, u64 now_ns)
{
	struct k2_drive *d = s;
	LIST_HEAD(entries);

	(void)now_ns;
	if (!at_head && (rq->op == SIM_READ || rq->op == SIM_WRITE))
		k2_note_end(d, rq);
	k2_prepare_request(&d->k2, &k2_private(rq)->entry, rq->ioprio, at_head,
			   rq->op == SIM_DISCARD, rq->start_ns);
	list_add_tail(&rq->node, &entries);
	levels_insert(&d->k2.levels, d->ctxs[rq->queue], &entries);
}

static struct sim_request *k2_dispatch_request(void *s, u32 queue, u64 now_ns)
{
	struct k2_drive *d = s;
	struct list_head large, *node, *next;
	struct k2_entry *e;

	(void)queue;
	INIT_LIST_HEAD(&large);
	e = k2_dispatch(&d->k2, now_ns, &large);
	for (node = large.next; node != &large; node = next) {
		next = node->next;
		d->device->split(d->device, k2_request(k2_entry_of(node)));
	}
	return e ? k2_request(e) : NULL;
}

static bool k2_queue_has_work(void *s, u32 queue)
{
	struct k2_drive *d = s;

	(void)queue;
	return k2_has_work(&d->k2);
}

static void k2_finish_request(void *s, struct sim_request *rq, u64 now_ns)
{
	struct k2_drive *d = s;

	(void)now_ns;
	if (k2_finish(&d->k2, &k2_private(rq)->entry, false))
		k2_run(d, rq->queue);
}

static u32 k2_limit_tags(void *s, const struct sim_bio *bio, u32 tags)
{
	struct k2_drive *d = s;

	if (!k2_limits_tags(&d->k2, bio->op == SIM_DISCARD, tags))
		return tags;
	return k2_limit_for(&d->k2, bio->ioprio, bio->op == SIM_DISCARD, tags);
}

static u32 k2_piece_of(void *s, u8 op, u16 ioprio)
{
	struct k2_drive *d = s;

	return op == SIM_FLUSH ? 0 : k2_piece_for(&d->k2, ioprio, op == SIM_DISCARD);
}

/* From the knobs alone, so that a fault in k2_apply() is noticed. */
static void k2_promises(void *s, struct sim_promises *promises)
{
	struct k2_drive *d = s;
	const unsigned int *knobs = d->k2.knobs;
	unsigned int target_us = knobs[K2_KNOB_rt_target_us], iops = knobs[K2_KNOB_be_floor_iops];
	bool when_active = knobs[K2_KNOB_bound_when] == K2_BOUND_ACTIVE || target_us == KNOB_AUTO;

	promises->inflight_max = knobs[K2_KNOB_inflight_max];
	if (promises->inflight_max == KNOB_AUTO)
		promises->inflight_max = target_us ? 0 : K2_INFLIGHT_MAX;
	promises->inflight_kib_max = knobs[K2_KNOB_inflight_kib_max];
	promises->grace_ns = when_active ? ACTIVITY_GRACE_NS_MIN : 0;
	promises->floor_ns = iops ? 1000000000 / iops : 0;
}

static struct sim_request *k2_try_merge(void *s, const struct sim_bio *bio, u32 max_sectors)
{
	struct k2_drive *d = s;
	struct ends_node *node;

	if (!recent_ends_may_be_at(&d->recent_ends, bio->sector) || !levels_any(&d->k2.levels) ||
	    !k2_merge_begin(&d->k2))
		return NULL;
	k2_merge_end(&d->k2);
	for (node = *ends_at(&d->ends, bio->sector); node; node = node->next) {
		struct k2_private *p = container_of(node, struct k2_private, end);
		struct sim_request *rq = k2_request(&p->entry);

		if (rq->sector + rq->sectors != bio->sector || !sim_may_grow(rq, bio, max_sectors))
			continue;
		ends_delete(node);
		rq->sectors += bio->sectors;
		k2_note_end(d, rq);
		return rq;
	}
	return NULL;
}

const struct sim_scheduler sim_k2 = {
	.name = "k2",
	.runs_itself = true,
	.device_wide = true,
	.knob_count = K2_KNOB_COUNT,
	.knobs = k2_knob_infos,
	.create = k2_create,
	.destroy = k2_destroy,
	.configure = k2_set_knob,
	.insert = k2_insert_requests,
	.dispatch = k2_dispatch_request,
	.has_work = k2_queue_has_work,
	.finish = k2_finish_request,
	.limit = k2_limit_tags,
	.piece = k2_piece_of,
	.promises = k2_promises,
	.tick = k2_timer,
	.try_merge = k2_try_merge,
};
