/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The bound on discards: a drive may be busy with one for milliseconds, however few bytes it moves. While there is real-time
 * activity background discards wait; without it they go one at a time.
 */
#ifndef TAILGATE_SCHED_DISCARD_H
#define TAILGATE_SCHED_DISCARD_H

#include <linux/atomic.h>

#include "bound.h"

/**
 * struct discard - the bound on discards
 * @on: it is in force
 * @inflight: background discards in the drive
 * @dispatched: those that went there, since the start
 */
struct discard {
	bool on;
	atomic_t inflight;
	u64 dispatched;
};

/* @quiet_ns: when real-time activity ends; 0: there is none. */
static inline u64 discard_allows(const struct discard *b, const struct bound_request *r,
				 u64 quiet_ns)
{
	if (!b->on)
		return BOUND_YES;
	if (atomic_read(&b->inflight))
		return BOUND_AT_END;
	return quiet_ns > r->now_ns ? quiet_ns : BOUND_YES;
}

static inline void discard_went(struct discard *b)
{
	atomic_inc(&b->inflight);
	b->dispatched++;
}

static inline void discard_ended(struct discard *b)
{
	atomic_dec(&b->inflight);
}

static inline void discard_change(struct discard *b, bool on)
{
	b->on = on;
}

#endif
