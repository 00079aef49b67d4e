/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Running the queue in the submitter. Kernels that do not plug a single I/O by themselves hand its request to a worker
 * thread for dispatch: two context switches for each. There nobody plugs, and a scheduler may run the queue at the end of
 * insert_requests, as direct issue does without a scheduler. The worker, should it come, finds nothing to do.
 */
#ifndef TAILGATE_ELEVATOR_RUN_H
#define TAILGATE_ELEVATOR_RUN_H

#include <linux/blk-mq.h>
#include <linux/sched.h>

/* From insert_requests: no lock is held, and the caller has a reference to the queue. */
static inline void run_in_submitter(struct blk_mq_hw_ctx *hctx)
{
	if (!current->plug && task_is_running(current) && !(hctx->flags & BLK_MQ_F_BLOCKING))
		blk_mq_run_hw_queue(hctx, false);
}

#endif
