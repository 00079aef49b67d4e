/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The bound on discards. A discard may keep a drive busy for milliseconds although it transfers no data. Background discards wait
 * during real-time activity; at other times they are dispatched one at a time.
 */
#ifndef TAILGATE_SCHED_DISCARD_H
#define TAILGATE_SCHED_DISCARD_H

#include <linux/atomic.h>

#include "bound.h"

/**
 * struct discard - the bound on discards
 * @inflight: background discards in the drive
 * @dispatched: background discards dispatched since the start
 */
struct discard {
	atomic_t inflight;
	u64 dispatched;
};

/* @quiet_ns: time, later than now, at which real-time activity may end; BOUND_YES: there is no activity. */
static inline u64 discard_allows(const struct discard *b, struct bound_request *r, u64 quiet_ns)
{
	r->why = K2_HOLD_DISCARD;
	return atomic_read(&b->inflight) ? BOUND_AT_END : quiet_ns;
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

#endif
