// SPDX-License-Identifier: GPL-2.0-only
/* Binds sched/models/kyber.c to the simulator's block layer. */
#include <stdlib.h>

#include "../../sched/models/kyber.h"
#include "ends.h"
#include "scheduler.h"

_Static_assert(sizeof(struct kyber_entry) <= sizeof(((struct sim_request *)0)->elv), "size");

static inline struct kyber_entry *kyber_entry(struct sim_request *rq)
{
	return (struct kyber_entry *)rq->elv;
}

static inline struct sim_request *kyber_request(struct kyber_entry *e)
{
	return container_of((void *)e, struct sim_request, elv);
}

static inline struct list_head *kyber_node(struct kyber_entry *e)
{
	return &kyber_request(e)->node;
}

static inline struct kyber_entry *kyber_entry_of(struct list_head *node)
{
	return kyber_entry(list_entry(node, struct sim_request, node));
}

#include "../../sched/models/kyber.c"

/* A bio is compared with this number of the latest inserted requests (blk_bio_list_merge()). */
#define KYBER_MERGE_LOOKS 8

struct kyber_drive {
	struct sim_device *device;
	bool armed;
	struct kyber kyber;
	struct kyber_queue queues[];
};

static void kyber_run(void *argument, struct kyber_queue *q)
{
	struct kyber_drive *d = argument;

	d->device->run(d->device, q->index);
}

static void *kyber_create(struct sim_device *device)
{
	struct kyber_drive *d = calloc(1, sizeof(*d) + device->queues * sizeof(d->queues[0]));

	if (!d)
		return NULL;
	d->device = device;
	kyber_init(&d->kyber, d->queues, device->queues, kyber_run, d);
	return d;
}

static bool kyber_destroy(void *s)
{
	struct kyber_drive *d = s;
	bool empty = kyber_deinit(&d->kyber);

	free(d);
	return empty;
}

static int kyber_set_knob(void *s, u32 knob, u64 value)
{
	struct kyber_drive *d = s;

	return kyber_configure(&d->kyber, knob, value);
}

static inline unsigned int kyber_domain_of(u8 op)
{
	switch (op) {
	case SIM_READ:
		return KYBER_READ;
	case SIM_WRITE:
		return KYBER_WRITE;
	case SIM_DISCARD:
		return KYBER_DISCARD;
	default:
		return KYBER_OTHER;
	}
}

static void kyber_insert_request(void *s, struct sim_request *rq, bool at_head, u64 now_ns)
{
	struct kyber_drive *d = s;

	(void)now_ns;
	kyber_insert(&d->queues[rq->queue], kyber_entry(rq), kyber_domain_of(rq->op), at_head);
}

static struct sim_request *kyber_dispatch_request(void *s, u32 queue, u64 now_ns)
{
	struct kyber_drive *d = s;
	struct kyber_entry *e = kyber_dispatch(&d->kyber, &d->queues[queue]);

	(void)now_ns;
	return e ? kyber_request(e) : NULL;
}

static bool kyber_queue_has_work(void *s, u32 queue)
{
	struct kyber_drive *d = s;

	return kyber_has_work(&d->queues[queue]);
}

static void kyber_complete_request(void *s, struct sim_request *rq, u64 now_ns)
{
	struct kyber_drive *d = s;

	if (!kyber_complete(&d->kyber, kyber_entry(rq), rq->start_ns, rq->issue_ns, now_ns) ||
	    d->armed)
		return;
	d->armed = true;
	d->device->arm(d->device, kyber_due(now_ns));
}

static void kyber_tick(void *s, u64 now_ns)
{
	struct kyber_drive *d = s;

	d->armed = false;
	kyber_adjust(&d->kyber, now_ns);
}

static void kyber_finish_request(void *s, struct sim_request *rq, u64 now_ns)
{
	struct kyber_drive *d = s;

	(void)now_ns;
	kyber_finish(&d->kyber, kyber_entry(rq));
}

static u32 kyber_limit_tags(void *s, const struct sim_bio *bio, u32 tags)
{
	(void)s;
	return bio->sync ? tags : kyber_limit(tags);
}

/* The kernel searches the list of the submitting CPU. Here the bio's CPU is not known, so the lists of all CPUs are searched. */
static struct sim_request *kyber_try_merge(void *s, const struct sim_bio *bio, u32 max_sectors)
{
	struct kyber_drive *d = s;
	unsigned int domain = kyber_domain_of(bio->op), queue;

	for (queue = 0; queue < d->kyber.queue_count; queue++) {
		struct list_head *fresh = &d->queues[queue].fresh[domain], *node = fresh->prev;
		unsigned int looks = KYBER_MERGE_LOOKS;

		for (; node != fresh && looks--; node = node->prev) {
			struct sim_request *rq = list_entry(node, struct sim_request, node);
			bool back = rq->sector + rq->sectors == bio->sector;

			if (!back && bio->sector + bio->sectors != rq->sector)
				continue;
			if (!sim_may_grow(rq, bio, max_sectors))
				continue;
			if (!back)
				rq->sector = bio->sector;
			rq->sectors += bio->sectors;
			return rq;
		}
	}
	return NULL;
}

/* As the kernel's files in debugfs are called that show them. */
static const char *const kyber_state_names[] = { "read_tokens", "write_tokens", NULL };

static u64 kyber_state(void *s, u32 i)
{
	struct kyber_drive *d = s;

	return d->kyber.tokens[i == 0 ? KYBER_READ : KYBER_WRITE].depth;
}

const struct sim_scheduler sim_kyber = {
	.name = "kyber",
	.knob_count = KYBER_KNOB_COUNT,
	.knobs = kyber_knob_infos,
	.create = kyber_create,
	.destroy = kyber_destroy,
	.configure = kyber_set_knob,
	.state_names = kyber_state_names,
	.state = kyber_state,
	.insert = kyber_insert_request,
	.dispatch = kyber_dispatch_request,
	.has_work = kyber_queue_has_work,
	.complete = kyber_complete_request,
	.finish = kyber_finish_request,
	.limit = kyber_limit_tags,
	.tick = kyber_tick,
	.try_merge = kyber_try_merge,
};
