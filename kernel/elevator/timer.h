/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A disk's timer: when it is due the scheduler is told, and then the hardware queues run. For a scheduler that holds
 * requests until a time, and is not asked by anybody before.
 */
#ifndef TAILGATE_ELEVATOR_TIMER_H
#define TAILGATE_ELEVATOR_TIMER_H

#include "../compat/hrtimer.h"
#include "instance.h"

/**
 * struct run_timer - a disk's timer
 * @timer: the kernel's
 * @instance: the disk's
 * @due: called in hard interrupt; returns true if the hardware queues should be run
 */
struct run_timer {
	struct hrtimer timer;
	struct instance *instance;
	bool (*due)(struct instance *instance);
};

static enum hrtimer_restart run_timer_function(struct hrtimer *timer)
{
	struct run_timer *t = container_of(timer, struct run_timer, timer);

	if (t->due(t->instance))
		blk_mq_run_hw_queues(t->instance->q, true);
	return HRTIMER_NORESTART;
}

static inline void run_timer_init(struct run_timer *t, struct instance *instance,
				  bool (*due)(struct instance *instance))
{
	t->instance = instance;
	t->due = due;
	hrtimer_setup(&t->timer, run_timer_function, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
}

/* Any context. Instead of an earlier wish. */
static inline void run_timer_arm(struct run_timer *t, u64 at_ns)
{
	hrtimer_start(&t->timer, ns_to_ktime(at_ns), HRTIMER_MODE_ABS);
}

/* Waits for a callback that runs. */
static inline void run_timer_cancel(struct run_timer *t)
{
	hrtimer_cancel(&t->timer);
}

#endif
