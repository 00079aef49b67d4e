/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A request's way through the scheduler: it is inserted, dispatched, returned by the driver, freed.
 *
 * What a scheduler counts as in the drive is exact if it counts at dispatch() and at ended() of what it dispatched. Neither
 * prepare_request without insertion (plug merges, unused cached requests) nor a driver that is busy and makes the block layer
 * hold a request back changes that. FUA and flush requests on kernels that keep them from schedulers, and passthrough commands
 * everywhere, never come.
 */
#ifndef TAILGATE_ELEVATOR_REQUESTS_H
#define TAILGATE_ELEVATOR_REQUESTS_H

#include <linux/blk-mq.h>
#include <linux/sched.h>

#include "instance.h"
#include "split.h"

/* The scheduler's own words of a request, zeroed as in a request that was just allocated. */
static void requests_prepare(struct request *rq)
{
	memset(rq->elv.priv, 0, sizeof(rq->elv.priv));
}

/*
 * Kernels that do not plug a single I/O by themselves hand its request to a worker thread for dispatch: two context switches
 * for each. On those we run the queue in the task that submits, as the block layer does without a scheduler; the worker then
 * finds nothing to do. A task that has a plug submits a batch, and runs the queue itself when the plug ends.
 */
static inline void requests_run(struct blk_mq_hw_ctx *hctx)
{
	if (!current->plug && task_is_running(current) && !(hctx->flags & BLK_MQ_F_BLOCKING))
		blk_mq_run_hw_queue(hctx, false);
}

/* insert_requests. May be called from schedule(): must not sleep. */
static void requests_insert(struct blk_mq_hw_ctx *hctx, struct list_head *list, elv_insert_t flags)
{
	struct instance *instance = instance_of(hctx->queue);
	bool at_head = elv_insert_at_head(flags);
	bool inserts = true;

	/*
	 * Once they are visible the requests may complete, and with the last of them the scheduler could go. It is freed by
	 * RCU, which waits for a section without preemption, as under a spinlock; under PREEMPT_RT that is none.
	 */
	if (IS_ENABLED(CONFIG_PREEMPT_RT))
		rcu_read_lock();
	if (this_scheduler.splits && unlikely(this_scheduler.splits(&instance->algorithm)) &&
	    !at_head)
		inserts = split_inserted(instance, list);
	if (inserts)
		this_scheduler.insert(instance, instance_queue(instance, hctx), list, at_head);
	if (IS_ENABLED(CONFIG_PREEMPT_RT))
		rcu_read_unlock();
	requests_run(hctx);
}

/* has_work */
static bool requests_wait(struct blk_mq_hw_ctx *hctx)
{
	struct instance *instance = instance_of(hctx->queue);

	return this_scheduler.has_work(&instance->algorithm, instance_queue(instance, hctx));
}

static inline void requests_ended(struct request *rq, bool comes_back)
{
	if (this_scheduler.ended(&instance_of(rq->q)->algorithm, rq, comes_back))
		blk_mq_run_hw_queue(rq->mq_hctx, true);
}

/*
 * dispatch_request. We are called for one hardware queue, and a device-wide scheduler may return a request for another: the
 * block layer sorts them.
 */
static struct request *requests_dispatch(struct blk_mq_hw_ctx *hctx)
{
	struct instance *instance = instance_of(hctx->queue);
	struct request *rq;

	rq = this_scheduler.dispatch(&instance->algorithm, instance_queue(instance, hctx));
	/*
	 * Where FUA writes are kept from schedulers, one that the driver returns comes to us nevertheless. Nobody tells us when
	 * it ends, so for the scheduler it ends here.
	 */
	if (rq && unlikely(!(rq->rq_flags & ELV_RQF_PREPARED)))
		requests_ended(rq, false);
	return rq;
}

/* requeue_request. With RQF_DONTPREP a returned request goes back to the driver without us. */
static void requests_requeue(struct request *rq)
{
	if (!(rq->rq_flags & RQF_DONTPREP))
		requests_ended(rq, true);
}

/* finish_request */
static void requests_finish(struct request *rq)
{
	requests_ended(rq, false);
}

#endif
