/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A disk's timer: when it is due this_scheduler.due() is called in hard interrupt, and then the hardware queues run. For a
 * scheduler that holds requests until a time, and is not asked by anybody before.
 */
#ifndef TAILGATE_ELEVATOR_TIMER_H
#define TAILGATE_ELEVATOR_TIMER_H

#include "../compat/hrtimer.h"
#include "instance.h"

static enum hrtimer_restart timer_function(struct hrtimer *timer)
{
	struct instance *instance = container_of(timer, struct instance, timer);

	if (this_scheduler.due(&instance->algorithm))
		blk_mq_run_hw_queues(instance->q, true);
	return HRTIMER_NORESTART;
}

static inline void timer_init(struct instance *instance)
{
	hrtimer_setup(&instance->timer, timer_function, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
}

/* Any context. Instead of an earlier wish. The argument is an instance: this is the form that sched/ calls. */
static inline void timer_arm(void *instance, u64 at_ns)
{
	struct hrtimer *timer = &((struct instance *)instance)->timer;

	hrtimer_start(timer, ns_to_ktime(at_ns), HRTIMER_MODE_ABS);
}

/* Waits for a callback that runs. */
static inline void timer_cancel(struct instance *instance)
{
	hrtimer_cancel(&instance->timer);
}

#endif
