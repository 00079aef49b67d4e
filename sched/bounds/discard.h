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

/* @active: there is real-time activity. The caller asks again when it ends. */
static inline u64 discard_allows(const struct discard *b, struct bound_request *r, bool active)
{
	r->why = K2_HOLD_DISCARD;
	return active || atomic_read(&b->inflight) ? BOUND_AT_END : BOUND_YES;
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
