// SPDX-License-Identifier: GPL-2.0-only
/* The example of an I/O scheduler, "fifo": binds sched/fifo.h to the block layer. */
#include <linux/slab.h>

#include "elevator/instance.h"
#include "elevator/module.h"
#include "elevator/run.h"
#include "elevator/statistics.h"
#include "elevator/sysfs.h"
#include "../sched/fifo.h"

/* a drive */
struct fifo_queue_data {
	struct instance instance;
	struct fifo fifo;
};

static inline struct fifo *fifo_of(const struct instance *instance)
{
	return &container_of(instance, struct fifo_queue_data, instance)->fifo;
}

static struct instance *fifo_create(struct request_queue *q)
{
	struct fifo_queue_data *d = kzalloc_node(sizeof(*d), GFP_KERNEL, q->node);

	if (!d)
		return NULL;
	fifo_init(&d->fifo, this_scheduler.knobs);
	d->instance.values = d->fifo.knobs;
	return &d->instance;
}

static void fifo_destroy(struct instance *instance)
{
	struct fifo *f = fifo_of(instance);

	WARN_ON_ONCE(f->queued || atomic_read(&f->inflight));
	kfree_rcu(container_of(f, struct fifo_queue_data, fifo), instance.rcu);
}

static int fifo_configure(struct instance *instance, unsigned int knob, u64 value)
{
	int err = knob_check(&this_scheduler.knobs[knob], value);

	if (!err)
		WRITE_ONCE(fifo_of(instance)->knobs[knob], value);
	return err;
}

static void fifo_show(struct seq_file *m, const struct instance *instance)
{
	const struct fifo *f = fifo_of(instance);

	statistics_print(m, instance, "inflight %d", atomic_read(&f->inflight));
	statistics_print(m, instance, "queued %u", READ_ONCE(f->queued));
	statistics_print(m, instance, "dispatched %llu", READ_ONCE(f->dispatched));
}

/* A request is in flight while elv.priv[0] says so: requests also end that were never dispatched. */
static void fifo_prepare_request(struct request *rq)
{
	rq->elv.priv[0] = NULL;
}

static void fifo_insert_requests(struct blk_mq_hw_ctx *hctx, struct list_head *list,
				 elv_insert_t flags)
{
	struct fifo *f = fifo_of(instance_of(hctx->queue));
	unsigned int count = 0;
	struct list_head *node;

	list_for_each(node, list)
		count++;
	rcu_read_lock(); /* once they are inserted they may end, and then the scheduler may go */
	fifo_insert(f, list, count, elv_insert_at_head(flags));
	rcu_read_unlock();
	run_in_submitter(hctx);
}

static bool fifo_has_work_op(struct blk_mq_hw_ctx *hctx)
{
	return fifo_has_work(fifo_of(instance_of(hctx->queue)));
}

static void fifo_leave(struct request *rq)
{
	if (!rq->elv.priv[0])
		return;
	rq->elv.priv[0] = NULL;
	if (fifo_end(fifo_of(instance_of(rq->q))))
		blk_mq_run_hw_queue(rq->mq_hctx, true);
}

static struct request *fifo_dispatch_request(struct blk_mq_hw_ctx *hctx)
{
	struct fifo *f = fifo_of(instance_of(hctx->queue));
	struct list_head *entry = fifo_dispatch(f);
	struct request *rq;

	if (!entry)
		return NULL;
	rq = list_entry_rq(entry);
	rq->elv.priv[0] = rq;
	if (unlikely(!(rq->rq_flags & ELV_RQF_PREPARED))) /* its end is not reported to us */
		fifo_leave(rq);
	return rq;
}

/* With RQF_DONTPREP a returned request goes back to the driver without us. */
static void fifo_requeue_request(struct request *rq)
{
	if (!(rq->rq_flags & RQF_DONTPREP))
		fifo_leave(rq);
}

static const struct knob fifo_knobs[] = { FIFO_KNOBS(KNOB_INFO) };

#define FIFO_KNOB_CALLBACKS(name, ...) SYSFS_KNOB_CALLBACKS(name, FIFO_KNOB_##name)
FIFO_KNOBS(FIFO_KNOB_CALLBACKS)

static SYSFS_ATTRIBUTES fifo_attributes[] = { FIFO_KNOBS(SYSFS_KNOB_ATTRIBUTE) __ATTR_NULL };

static const struct scheduler this_scheduler = {
	.name = "fifo",
	.statistics_version = 1,
	.is_device_wide = true,
	.knobs = fifo_knobs,
	.knob_count = ARRAY_SIZE(fifo_knobs),
	.create = fifo_create,
	.destroy = fifo_destroy,
	.configure = fifo_configure,
	.show = fifo_show,
};

static struct elevator_type this_type = {
	.ops = {
		.init_sched = instance_init_sched,
		.exit_sched = instance_exit_sched,
		.prepare_request = fifo_prepare_request,
		.insert_requests = fifo_insert_requests,
		.has_work = fifo_has_work_op,
		.dispatch_request = fifo_dispatch_request,
		.requeue_request = fifo_requeue_request,
		.finish_request = fifo_leave,
	},
	.elevator_attrs = fifo_attributes,
	.elevator_name = "fifo",
	.elevator_owner = THIS_MODULE,
};

module_init(scheduler_module_init);
module_exit(scheduler_module_exit);
MODULE_DESCRIPTION("fifo: the example of a scheduler");
MODULE_LICENSE("GPL");
MODULE_ALIAS("fifo-iosched");
