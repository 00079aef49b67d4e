// SPDX-License-Identifier: GPL-2.0-only
/* The example of an I/O scheduler, "fifo": binds sched/fifo.h to the block layer. */
#include "../sched/fifo.h"
typedef struct fifo algorithm_t;
#include "elevator/module.h"

static void fifo_insert_requests(struct instance *instance, void *queue, struct list_head *requests,
				 bool at_head)
{
	fifo_insert(&instance->algorithm, requests, at_head);
}

static bool fifo_requests_wait(const struct fifo *f, void *queue)
{
	return fifo_has_work(f);
}

/* Marks the request as in flight in elv.priv[0], because fifo_ended() is also called for requests that were never dispatched. */
static struct request *fifo_dispatch_request(struct fifo *f, void *queue)
{
	struct list_head *entry = fifo_dispatch(f);
	struct request *rq = entry ? list_entry_rq(entry) : NULL;

	if (rq)
		rq->elv.priv[0] = rq;
	return rq;
}

static bool fifo_ended(struct fifo *f, struct request *rq, bool comes_back)
{
	if (!rq->elv.priv[0])
		return false;
	rq->elv.priv[0] = NULL;
	return fifo_end(f);
}

static const struct knob fifo_knobs[] = { FIFO_KNOBS(KNOB_INFO) };

#define FIFO_KNOB_CALLBACKS(name, ...) SYSFS_KNOB_CALLBACKS(name, FIFO_KNOB_##name)
FIFO_KNOBS(FIFO_KNOB_CALLBACKS)

static elv_attribute_t fifo_attributes[] = { FIFO_KNOBS(SYSFS_KNOB_ATTRIBUTE) __ATTR_NULL };

static void fifo_begin(struct instance *instance)
{
	fifo_init(&instance->algorithm, fifo_knobs);
}

static bool fifo_is_empty(struct fifo *f)
{
	return !f->queued && !atomic_read(&f->inflight);
}

static void fifo_show(struct seq_file *m, const struct instance *instance)
{
	const struct fifo *f = &instance->algorithm;

	statistics_print(m, instance, "inflight %d", atomic_read(&f->inflight));
	statistics_print(m, instance, "queued %u", READ_ONCE(f->queued));
	statistics_print(m, instance, "dispatched %llu", READ_ONCE(f->dispatched));
}

static const struct scheduler this_scheduler = {
	.name = "fifo",
	.statistics_version = 1,
	.is_device_wide = true,
	.knobs = fifo_knobs,
	.knob_count = ARRAY_SIZE(fifo_knobs),
	.attributes = fifo_attributes,
	.init = fifo_begin,
	.deinit = fifo_is_empty,
	.show = fifo_show,
	.insert = fifo_insert_requests,
	.has_work = fifo_requests_wait,
	.dispatch = fifo_dispatch_request,
	.ended = fifo_ended,
};

module_init(scheduler_module_init);
module_exit(scheduler_module_exit);
MODULE_DESCRIPTION("fifo: the example of a scheduler");
MODULE_LICENSE("GPL");
MODULE_ALIAS("fifo-iosched");
