/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tells whether a tracepoint of this module is enabled. While none is, the check costs a nop. A scheduler's trace header
 * declares its events with TRACE_EVENT_FN(..., observe_begin, observe_end).
 */
#ifndef TAILGATE_ELEVATOR_OBSERVE_H
#define TAILGATE_ELEVATOR_OBSERVE_H

#include <linux/jump_label.h>
#include <linux/minmax.h>

static DEFINE_STATIC_KEY_FALSE(observe_key);
static unsigned int observe_session;

/* Return: 0 while no tracepoint is enabled; otherwise a number that changes each time that the first one is enabled. */
static inline unsigned int observe_now(void)
{
	return static_branch_unlikely(&observe_key) ? READ_ONCE(observe_session) : 0;
}

/* Called under tracepoints_mutex. */
static inline int observe_begin(void)
{
	if (!static_key_enabled(&observe_key.key))
		WRITE_ONCE(observe_session, max(observe_session + 1, 1U));
	static_branch_inc(&observe_key);
	return 0;
}

static inline void observe_end(void)
{
	static_branch_dec(&observe_key);
}

#endif
