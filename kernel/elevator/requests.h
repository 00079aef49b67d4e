/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The path of a request through the scheduler: it is inserted, dispatched, returned by the driver, freed.
 *
 * A scheduler's count of requests in the drive is exact if it increments at dispatch() and decrements at ended() of requests
 * that it dispatched. This holds even if a request is prepared and never inserted (plug merges, unused cached requests), and if
 * the block layer holds a request back because the driver is busy. Passthrough commands bypass the scheduler, at the latest in
 * requests_dispatch(). So do FUA and flush requests on some kernels.
 */
#ifndef TAILGATE_ELEVATOR_REQUESTS_H
#define TAILGATE_ELEVATOR_REQUESTS_H

#include <linux/blk-mq.h>
#include <linux/sched.h>

#include "instance.h"
#include "split.h"

/* prepare_request: zeroes the scheduler's words of the request, as in one that was just allocated. */
static void requests_prepare(struct request *rq)
{
	memset(rq->elv.priv, 0, sizeof(rq->elv.priv));
}

/*
 * Runs the hardware queue in the submitting task, as the block layer does without a scheduler. Without this, kernels that do not
 * plug a single I/O dispatch its request in a worker thread, at the cost of two context switches; the worker now finds nothing
 * to do. A task with a plug submits a batch of requests, and runs the queue itself when the plug is flushed.
 */
static inline void requests_run(struct blk_mq_hw_ctx *hctx)
{
	if (!current->plug && task_is_running(current) && !(hctx->flags & BLK_MQ_F_BLOCKING))
		blk_mq_run_hw_queue(hctx, false);
}

/*
 * Kernels before 6.4 insert passthrough commands that a task has plugged. They go before all other requests, whatever their priority is,
 * which is not even set if they carry no data. Return: false if there was nothing else in the list.
 */
static inline bool requests_insert_commands(struct instance *instance, void *queue,
					    struct list_head *list)
{
	struct request *rq, *next;
	LIST_HEAD(commands);

	list_for_each_entry_safe(rq, next, list, queuelist)
		if (unlikely(blk_rq_is_passthrough(rq)))
			list_move_tail(&rq->queuelist, &commands);
	if (likely(list_empty(&commands)))
		return true;
	this_scheduler.insert(instance, queue, &commands, true);
	return !list_empty(list);
}

/* insert_requests: may be called from schedule(), so must not sleep. */
static void requests_insert(struct blk_mq_hw_ctx *hctx, struct list_head *list, elv_insert_t flags)
{
	struct instance *instance = instance_of(hctx->queue);
	void *queue = instance_queue(instance, hctx);
	bool at_head = elv_insert_at_head(flags);
	bool inserts = true;

	/*
	 * Once the requests are visible they may complete, and the scheduler may be switched off while we still use it. It is
	 * freed by RCU, which waits for code that runs with preemption disabled, as under a spinlock. Under PREEMPT_RT spinlocks
	 * do not disable preemption, so an RCU read lock is needed.
	 */
	if (IS_ENABLED(CONFIG_PREEMPT_RT))
		rcu_read_lock();
	if (!KAPI_INSERT_FLAGS)
		inserts = requests_insert_commands(instance, queue, list);
	if (inserts && !at_head && this_scheduler.splits &&
	    unlikely(this_scheduler.splits(&instance->algorithm)))
		inserts = split_inserted(instance, list);
	if (inserts)
		this_scheduler.insert(instance, queue, list, at_head);
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
 * dispatch_request: we are called for one hardware queue, and a device-wide scheduler may return a request for another one. The
 * block layer sorts them.
 */
static struct request *requests_dispatch(struct blk_mq_hw_ctx *hctx)
{
	struct instance *instance = instance_of(hctx->queue);
	struct request *rq;

	rq = this_scheduler.dispatch(&instance->algorithm, instance_queue(instance, hctx));
	/*
	 * On kernels where FUA writes bypass the scheduler, one that the driver returns is still inserted here, and the block layer
	 * does not call us when it ends. For the scheduler it leaves the drive now, and so do passthrough commands. It is told that
	 * they come back, so that no time is learned from them.
	 */
	if (rq && unlikely(!(rq->rq_flags & ELV_RQF_PREPARED) ||
			   (!KAPI_INSERT_FLAGS && blk_rq_is_passthrough(rq))))
		requests_ended(rq, true);
	return rq;
}

/* requeue_request: with RQF_DONTPREP a returned request bypasses the scheduler on its way back to the driver. */
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
