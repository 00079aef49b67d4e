/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * MQFQ without its wheel, for cpus.c: a queue that is too far ahead of virtual time sets a timer of its CPU, and checks again POLL_NS later
 * ("Multi-Queue Fair Queueing", Section 4.3.2). A timer costs an interrupt when it expires; setting it costs nothing.
 */
#define wheel_wait wheel_wait_in_bucket
#define wheel_leave wheel_leave_bucket
#define wheel_turn wheel_turn_buckets
#define wheel_empty wheel_empty_bucket
#include "../../sched/fair/wheel.h"
#undef wheel_wait
#undef wheel_leave
#undef wheel_turn
#undef wheel_empty

/* Timers by queue, each used by one CPU; @due_ns 0: not set. */
static struct timer {
	u64 due_ns;
} ____cacheline_aligned timers[CPUS_MAX];

static inline void wheel_wait(struct wheel *w, unsigned int queue, u64 span)
{
	(void)w, (void)span;
	timers[queue].due_ns = clock_timer_ns() + POLL_NS;
	smp_mb(); /* before reading virtual time again, as in the wheel */
}

static inline void wheel_leave(struct wheel *w, unsigned int queue, u64 span)
{
	(void)w, (void)span;
	timers[queue].due_ns = 0;
}

static inline void wheel_turn(struct wheel *w, u64 from, u64 to, unsigned int shift,
			      void (*wake)(void *argument, unsigned int queue), void *argument)
{
	(void)w, (void)from, (void)to, (void)shift, (void)wake, (void)argument;
}

static inline void wheel_empty(struct wheel *w, u64 span,
			       void (*wake)(void *argument, unsigned int queue), void *argument)
{
	(void)w, (void)span, (void)wake, (void)argument;
}

#include "queue_mqfq.h"

static inline void poll_if_due(unsigned int cpu)
{
	if (!timers[cpu].due_ns || clock_timer_ns() < timers[cpu].due_ns)
		return;
	timers[cpu].due_ns = 0;
	cpu_interrupted();
	mqfq_kick_throttled(mqfq, cpu);
}

#define queue_timers(cpu) poll_if_due(cpu)
