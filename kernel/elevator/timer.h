/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A disk's timer, for a scheduler that holds requests until a time. When it expires, it calls this_scheduler.due() in interrupt
 * context (under PREEMPT_RT in the timers' thread), and then runs the hardware queues if that returned true.
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

/* Arms the timer, or changes its time. Any context. */
static inline void timer_arm(struct instance *instance, u64 at_ns)
{
	hrtimer_start(&instance->timer, ns_to_ktime(at_ns), HRTIMER_MODE_ABS);
}

/* Cancels the timer, and waits until its callback has returned. */
static inline void timer_cancel(struct instance *instance)
{
	hrtimer_cancel(&instance->timer);
}

#endif
