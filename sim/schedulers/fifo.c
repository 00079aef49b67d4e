// SPDX-License-Identifier: GPL-2.0-only
/* Binds sched/fifo.h to the simulator's block layer, as kernel/fifo.c binds it to the kernel's. */
#include <stdlib.h>

#include "../../sched/fifo.h"
#include "scheduler.h"

static const struct knob fifo_knobs[] = { FIFO_KNOBS(KNOB_INFO) };

struct fifo_drive {
	struct sim_device *device;
	struct fifo fifo;
};

static void *fifo_create(struct sim_device *device)
{
	struct fifo_drive *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->device = device;
	fifo_init(&d->fifo, fifo_knobs);
	return d;
}

static bool fifo_destroy(void *s)
{
	struct fifo_drive *d = s;
	bool empty = !d->fifo.queued && !atomic_read(&d->fifo.inflight);

	free(d);
	return empty;
}

static int fifo_set_knob(void *s, u32 knob, u64 value)
{
	struct fifo_drive *d = s;

	d->fifo.knobs[knob] = value;
	if (fifo_has_work(&d->fifo))
		d->device->run(d->device, 0);
	return 0;
}

static void fifo_insert_request(void *s, struct sim_request *rq, bool at_head, u64 now_ns)
{
	struct fifo_drive *d = s;
	LIST_HEAD(entries);

	(void)now_ns;
	list_add_tail(&rq->node, &entries);
	fifo_insert(&d->fifo, &entries, at_head);
}

static struct sim_request *fifo_dispatch_request(void *s, u32 queue, u64 now_ns)
{
	struct fifo_drive *d = s;
	struct list_head *entry = fifo_dispatch(&d->fifo);

	(void)queue, (void)now_ns;
	return entry ? list_entry(entry, struct sim_request, node) : NULL;
}

static bool fifo_queue_has_work(void *s, u32 queue)
{
	struct fifo_drive *d = s;

	(void)queue;
	return fifo_has_work(&d->fifo);
}

static void fifo_finish_request(void *s, struct sim_request *rq, u64 now_ns)
{
	struct fifo_drive *d = s;

	(void)now_ns;
	if (fifo_end(&d->fifo))
		d->device->run(d->device, rq->queue);
}

const struct sim_scheduler sim_fifo = {
	.name = "fifo",
	.runs_itself = true,
	.device_wide = true,
	.knob_count = FIFO_KNOB_COUNT,
	.knobs = fifo_knobs,
	.create = fifo_create,
	.destroy = fifo_destroy,
	.configure = fifo_set_knob,
	.insert = fifo_insert_request,
	.dispatch = fifo_dispatch_request,
	.has_work = fifo_queue_has_work,
	.finish = fifo_finish_request,
};
