// SPDX-License-Identifier: GPL-2.0-only
/* Binds sched/mqfq.c to the simulator's block layer, as kernel/mqfq.c binds it to the kernel's. */
#include <stdlib.h>
#include <string.h>

#include "../../sched/ends.h"
#include "../../sched/mqfq.h"
#include "ends.h"
#include "scheduler.h"

/* Private data of a request. */
struct mqfq_private {
	struct mqfq_entry entry;
	struct rb_node rb_node;
};

_Static_assert(sizeof(struct mqfq_private) <= sizeof(((struct sim_request *)0)->elv), "size");

static inline struct mqfq_private *mqfq_private(struct sim_request *rq)
{
	return (struct mqfq_private *)rq->elv;
}

static inline struct sim_request *mqfq_request(struct mqfq_entry *e)
{
	return container_of(e, struct sim_request, elv);
}

static inline struct list_head *mqfq_node(struct mqfq_entry *e)
{
	return &mqfq_request(e)->node;
}

static inline struct mqfq_entry *mqfq_entry_of(struct list_head *node)
{
	return &mqfq_private(list_entry(node, struct sim_request, node))->entry;
}

static inline struct rb_node *mqfq_rb_node(struct mqfq_entry *e)
{
	return &mqfq_private(mqfq_request(e))->rb_node;
}

static inline struct mqfq_entry *mqfq_entry_of_rb(struct rb_node *node)
{
	return &container_of(node, struct mqfq_private, rb_node)->entry;
}

static void mqfq_run(struct mqfq *m, unsigned int hctx);
static unsigned int mqfq_period(const struct mqfq *m);
static u64 mqfq_now(const struct mqfq *m);

static inline unsigned int mqfq_sectors(struct mqfq_entry *e)
{
	const struct sim_request *rq = mqfq_request(e);

	return rq->op == SIM_READ || rq->op == SIM_WRITE ? rq->sectors : 0;
}

#include "../../sched/mqfq.c"

struct mqfq_drive {
	struct sim_device *device;
	struct mqfq mqfq;
};

static void mqfq_run(struct mqfq *m, unsigned int hctx)
{
	struct sim_device *device = container_of(m, struct mqfq_drive, mqfq)->device;

	device->run(device, hctx);
}

static unsigned int mqfq_period(const struct mqfq *m)
{
	return mqfq_now(m) >> 25;
}

static u64 mqfq_now(const struct mqfq *m)
{
	return *container_of(m, struct mqfq_drive, mqfq)->device->now_ns;
}

static void *mqfq_zalloc(size_t size)
{
	void *memory = aligned_alloc(L1_CACHE_BYTES, ALIGN(size, L1_CACHE_BYTES));

	return memory ? memset(memory, 0, ALIGN(size, L1_CACHE_BYTES)) : NULL;
}

/* One scheduler queue for each hardware queue, which serves one CPU or is shared by several. */
static void *mqfq_create(struct sim_device *device)
{
	struct mqfq_drive *d = mqfq_zalloc(sizeof(*d));
	struct mqfq_place *places = calloc(device->queues, sizeof(*places));
	unsigned int *scratch = calloc(device->queues, sizeof(*scratch)), i;
	void *memory = mqfq_zalloc(mqfq_size(device->queues, device->queues));

	if (d && places && scratch && memory) {
		d->device = device;
		for (i = 0; i < device->queues; i++)
			places[i] = (struct mqfq_place){ .hctx = i, .cpu = i, .group = { i } };
		mqfq_init(&d->mqfq, memory, device->queues, places, device->queues, scratch);
	} else {
		free(d);
		free(memory);
		d = NULL;
	}
	free(places);
	free(scratch);
	return d;
}

static bool mqfq_destroy(void *s)
{
	struct mqfq_drive *d = s;
	bool empty = mqfq_deinit(&d->mqfq);

	free(d->mqfq.hctxs);
	free(d);
	return empty;
}

static int mqfq_set_knob(void *s, u32 knob, u64 value)
{
	struct mqfq_drive *d = s;

	return mqfq_configure(&d->mqfq, knob, value);
}

/* As in the kernel: the groups of a request are its cgroup and that one's ancestors but the root, or the root if it is in no other. */
static void mqfq_where(struct mqfq_entry *e, struct share_path *path)
{
	const struct sim_cgroup *cgroup = mqfq_request(e)->cgroup, *at;
	unsigned int depth = 1, i, place;

	for (at = cgroup; at->parent && at->parent->parent; at = at->parent)
		depth++;
	path->depth = min(depth, SHARES_DEPTH);
	for (at = cgroup, i = depth; i; i--, at = at->parent) {
		place = shares_place(i, depth);
		if (place == SHARES_DEPTH)
			continue;
		path->at[place].id = 1 + at->number;
		path->at[place].weight = at->weight;
	}
}

/* All processes have the same weight, whatever cgroup they are in. */
static void mqfq_nowhere(struct mqfq_entry *e, struct share_path *path)
{
	(void)e;
	path->depth = 1;
	path->at[0].weight = SHARES_WEIGHT;
}

/* An I/O priority is class << 13 | hints | level: classes 1 real time and 3 idle. */
static unsigned int mqfq_level(unsigned int ioprio, bool at_head)
{
	if (at_head)
		return MQFQ_URGENT;
	switch (SIM_IOPRIO_CLASS(ioprio)) {
	case 1:
		return MQFQ_RT(ioprio & 7);
	case 3:
		return MQFQ_IDLE;
	default:
		return MQFQ_FAIR;
	}
}

static bool mqfq_by_process(const struct mqfq *m)
{
	return m->knobs[MQFQ_KNOB_flow_by] == MQFQ_BY_PROCESS;
}

static u64 mqfq_key(const struct mqfq *m, u32 process, const struct sim_cgroup *cgroup)
{
	return 1 + (mqfq_by_process(m) ? process : cgroup->number);
}

static void mqfq_note_end(struct mqfq_queue *q, const struct sim_request *rq)
{
	recent_ends_note(&q->ends, rq->sector + rq->sectors);
}

static void mqfq_insert_request(void *s, struct sim_request *rq, bool at_head, u64 now_ns)
{
	struct mqfq_drive *d = s;
	struct mqfq_queue *q = &d->mqfq.queues[rq->queue];
	struct mqfq_insertion in;

	(void)now_ns;
	mqfq_note_end(q, rq);
	mqfq_prepare(&d->mqfq, &mqfq_private(rq)->entry, mqfq_level(rq->ioprio, at_head),
		     mqfq_key(&d->mqfq, rq->process, rq->cgroup),
		     mqfq_by_process(&d->mqfq) ? mqfq_nowhere : mqfq_where, rq->op == SIM_WRITE);
	mqfq_insert_begin(&in, q);
	mqfq_insert(&in, &mqfq_private(rq)->entry);
	mqfq_insert_end(&d->mqfq, &in);
}

static void mqfq_picked(struct mqfq_entry *e)
{
	(void)e;
}

static struct sim_request *mqfq_dispatch_request(void *s, u32 queue, u64 now_ns)
{
	struct mqfq_drive *d = s;
	struct mqfq_entry *e = mqfq_dispatch(&d->mqfq, &d->mqfq.hctxs[queue], queue, mqfq_picked);

	(void)now_ns;
	return e ? mqfq_request(e) : NULL;
}

static bool mqfq_queue_has_work(void *s, u32 queue)
{
	struct mqfq_drive *d = s;

	return mqfq_has_work(&d->mqfq.hctxs[queue]);
}

static void mqfq_finish_request(void *s, struct sim_request *rq, u64 now_ns)
{
	struct mqfq_drive *d = s;

	(void)now_ns;
	mqfq_finish(&d->mqfq, &mqfq_private(rq)->entry, false);
}

static u32 mqfq_limit_tags(void *s, const struct sim_bio *bio, u32 tags)
{
	struct mqfq *m = &((struct mqfq_drive *)s)->mqfq;
	unsigned int level = mqfq_level(bio->ioprio, false);

	if (level < MQFQ_FAIR || !mqfq_limits_tags(m, tags))
		return tags;
	return mqfq_tags(m, tags, level, mqfq_key(m, bio->process, bio->cgroup));
}

static struct sim_request *mqfq_join(struct mqfq_drive *d, struct mqfq_queue *q,
				     struct mqfq_entry *e, const struct sim_bio *bio)
{
	struct sim_request *rq = mqfq_request(e);

	rq->sectors += bio->sectors;
	mqfq_grow(&d->mqfq, e, bio->sectors, bio->op == SIM_WRITE);
	mqfq_note_end(q, rq);
	return rq;
}

/* Merges into one of the latest fairly shared requests of the bio's flow. */
static struct sim_request *mqfq_join_fair(struct mqfq_drive *d, struct mqfq_queue *q,
					  const struct sim_bio *bio, u32 max_sectors)
{
	u64 key = mqfq_key(&d->mqfq, bio->process, bio->cgroup);
	struct mqfq_entry *latest[MQFQ_LATEST];
	unsigned int count = mqfq_latest(q, latest), i;

	for (i = 0; i < count; i++) {
		struct sim_request *rq = mqfq_request(latest[i]);

		if (rq->sector + rq->sectors == bio->sector && sim_may_grow(rq, bio, max_sectors) &&
		    d->mqfq.flows.flows[latest[i]->flow].key == key)
			return mqfq_join(d, q, latest[i], bio);
	}
	return NULL;
}

/*
 * Merges into one of the latest requests of the bio's level. blk_bio_list_merge() also merges at the front, but only where a
 * hash of sectors collides, as a bio is looked for by where it begins.
 */
static struct sim_request *mqfq_join_level(struct mqfq_drive *d, struct mqfq_queue *q,
					   unsigned int level, const struct sim_bio *bio,
					   u32 max_sectors)
{
	struct list_head *list = &q->lists[level], *node = list->prev;
	unsigned int looks = MQFQ_LATEST;

	for (; node != list && looks--; node = node->prev) {
		struct mqfq_entry *e = mqfq_entry_of(node);
		struct sim_request *rq = mqfq_request(e);

		if (rq->sector + rq->sectors == bio->sector && sim_may_grow(rq, bio, max_sectors))
			return mqfq_join(d, q, e, bio);
	}
	return NULL;
}

static struct sim_request *mqfq_try_merge(void *s, const struct sim_bio *bio, u32 max_sectors)
{
	struct mqfq_drive *d = s;
	struct mqfq_queue *q = &d->mqfq.queues[bio->queue];
	unsigned int level = mqfq_level(bio->ioprio, false);

	if (!recent_ends_may_be_at(&q->ends, bio->sector))
		return NULL;
	if (level == MQFQ_FAIR)
		return mqfq_join_fair(d, q, bio, max_sectors);
	return mqfq_join_level(d, q, level, bio, max_sectors);
}

/* Returns the value found so far, not the value that the search is trying, which may be four times larger. */
static u64 mqfq_found(void *s, u32 knob)
{
	struct mqfq_drive *d = s;
	struct search search = knob == MQFQ_KNOB_d ? d->mqfq.d_search : d->mqfq.t_search;

	if (knob != MQFQ_KNOB_d && knob != MQFQ_KNOB_t_kib)
		return d->mqfq.knobs[knob];
	search.window = 0;
	return search_value(&search);
}

const struct sim_scheduler sim_mqfq = {
	.name = "mqfq",
	.runs_itself = true,
	.knob_count = MQFQ_KNOB_COUNT,
	.knobs = mqfq_knob_infos,
	.create = mqfq_create,
	.destroy = mqfq_destroy,
	.configure = mqfq_set_knob,
	.found = mqfq_found,
	.insert = mqfq_insert_request,
	.dispatch = mqfq_dispatch_request,
	.has_work = mqfq_queue_has_work,
	.finish = mqfq_finish_request,
	.limit = mqfq_limit_tags,
	.try_merge = mqfq_try_merge,
};
