// SPDX-License-Identifier: GPL-2.0-only
/* Binds sched/models/deadline.c to the simulator's block layer, as "mq-deadline". */
#include <stdlib.h>

#include "../../sched/models/deadline.h"
#include "ends.h"
#include "scheduler.h"

/**
 * struct deadline_private - private data of a request
 * @entry: entry of the scheduler
 * @end: node in the table of request ends
 */
struct deadline_private {
	struct deadline_entry entry;
	struct ends_node end;
};

_Static_assert(sizeof(struct deadline_private) <= sizeof(((struct sim_request *)0)->elv), "size");

static inline struct deadline_private *deadline_private(struct sim_request *rq)
{
	return (struct deadline_private *)rq->elv;
}

static inline struct sim_request *deadline_request(const struct deadline_entry *e)
{
	return container_of((void *)e, struct sim_request, elv);
}

static inline struct list_head *deadline_node(struct deadline_entry *e)
{
	return &deadline_request(e)->node;
}

static inline struct deadline_entry *deadline_entry_of(struct list_head *node)
{
	return &deadline_private(list_entry(node, struct sim_request, node))->entry;
}

static inline u64 deadline_sector(const struct deadline_entry *e)
{
	return deadline_request(e)->sector;
}

#include "../../sched/models/deadline.c"

struct deadline_drive {
	struct deadline deadline;
	struct ends ends;
};

static void *deadline_create(struct sim_device *device)
{
	struct deadline_drive *d = calloc(1, sizeof(*d));

	(void)device;
	if (d)
		deadline_init(&d->deadline);
	return d;
}

static bool deadline_destroy(void *s)
{
	struct deadline_drive *d = s;
	bool empty = deadline_deinit(&d->deadline);

	free(d);
	return empty;
}

static int deadline_set_knob(void *s, u32 knob, u64 value)
{
	struct deadline_drive *d = s;

	return deadline_configure(&d->deadline, knob, value);
}

static inline unsigned int deadline_prio_of(u16 ioprio)
{
	switch (SIM_IOPRIO_CLASS(ioprio)) {
	case 1:
		return DEADLINE_RT;
	case 3:
		return DEADLINE_IDLE;
	default:
		return DEADLINE_BE;
	}
}

static inline unsigned int deadline_direction_of(u8 op)
{
	return op == SIM_WRITE || op == SIM_DISCARD ? DEADLINE_WRITE : DEADLINE_READ;
}

static void deadline_note_end(struct deadline_drive *d, struct sim_request *rq)
{
	ends_add(&d->ends, &deadline_private(rq)->end, rq->sector + rq->sectors);
}

static void deadline_insert_request(void *s, struct sim_request *rq, bool at_head, u64 now_ns)
{
	struct deadline_drive *d = s;

	deadline_insert(&d->deadline, &deadline_private(rq)->entry, deadline_prio_of(rq->ioprio),
			deadline_direction_of(rq->op), at_head, now_ns);
	if (!at_head && (rq->op == SIM_READ || rq->op == SIM_WRITE))
		deadline_note_end(d, rq);
}

static struct sim_request *deadline_dispatch_request(void *s, u32 queue, u64 now_ns)
{
	struct deadline_drive *d = s;
	struct deadline_entry *e = deadline_dispatch(&d->deadline, now_ns);

	(void)queue;
	if (!e)
		return NULL;
	ends_delete(&deadline_private(deadline_request(e))->end);
	return deadline_request(e);
}

static bool deadline_queue_has_work(void *s, u32 queue)
{
	struct deadline_drive *d = s;

	(void)queue;
	return deadline_has_work(&d->deadline);
}

static void deadline_finish_request(void *s, struct sim_request *rq, u64 now_ns)
{
	struct deadline_drive *d = s;

	(void)now_ns;
	deadline_finish(&d->deadline, &deadline_private(rq)->entry);
}

static u32 deadline_limit_tags(void *s, const struct sim_bio *bio, u32 tags)
{
	struct deadline_drive *d = s;

	return bio->op == SIM_READ && bio->sync ? tags : deadline_limit(&d->deadline, tags);
}

static struct sim_request *deadline_try_merge(void *s, const struct sim_bio *bio, u32 max_sectors)
{
	struct deadline_drive *d = s;
	struct deadline_entry *e;
	struct ends_node *node;
	struct sim_request *rq;

	for (node = *ends_at(&d->ends, bio->sector); node; node = node->next) {
		rq = deadline_request(&container_of(node, struct deadline_private, end)->entry);
		if (rq->sector + rq->sectors != bio->sector || !sim_may_grow(rq, bio, max_sectors))
			continue;
		ends_delete(node);
		rq->sectors += bio->sectors;
		deadline_note_end(d, rq);
		return rq;
	}
	e = deadline_find_front(&d->deadline, deadline_prio_of(bio->ioprio),
				deadline_direction_of(bio->op), bio->sector + bio->sectors);
	if (!e || !sim_may_grow(deadline_request(e), bio, max_sectors))
		return NULL;
	rq = deadline_request(e);
	deadline_unsort(&d->deadline, e);
	rq->sector = bio->sector;
	rq->sectors += bio->sectors;
	deadline_resort(&d->deadline, e);
	return rq;
}

const struct sim_scheduler sim_deadline = {
	.name = "mq-deadline",
	.device_wide = true,
	.knob_count = DEADLINE_KNOB_COUNT,
	.knobs = deadline_knob_infos,
	.create = deadline_create,
	.destroy = deadline_destroy,
	.configure = deadline_set_knob,
	.insert = deadline_insert_request,
	.dispatch = deadline_dispatch_request,
	.has_work = deadline_queue_has_work,
	.finish = deadline_finish_request,
	.limit = deadline_limit_tags,
	.try_merge = deadline_try_merge,
};
