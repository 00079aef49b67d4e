/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A bound says whether the next background request may go to the drive now. Each bound is a file with the same four
 * functions; none knows another, and a scheduler asks them in turn until one refuses.
 *
 *	<bound>_allows(b, request)	BOUND_YES, a time in ns before which the request may not go, or BOUND_AT_END
 *	<bound>_went(b, ...)		a request went to the drive
 *	<bound>_ended(b, ...)		it left the drive; any context, no lock
 *	<bound>_change(b, ...)		what knobs, or a target, ask of the bound
 *
 * All but _ended() are called by the dispatcher, under its lock. Times are in ns, sizes in sectors of 512 bytes.
 */
#ifndef TAILGATE_SCHED_BOUND_H
#define TAILGATE_SCHED_BOUND_H

#include <linux/types.h>

/* The request may go. */
#define BOUND_YES 0ULL
/* Ask again when a request has left the drive. */
#define BOUND_AT_END (~0ULL)
/* A limit that is none. */
#define BOUND_NONE (~0ULL)

/**
 * struct bound_request - the background request that is next, and what it would meet
 * @now_ns: the time
 * @sectors: sectors that it reads or writes; 0: none that a bound on bytes counts
 * @writes: it is a write
 * @requests: requests in the drive
 * @met: sectors in the drive, and sectors of writes that the drive has acknowledged but not worked off
 * @limit: set by a bound that refuses: the limit that @met and @sectors exceed
 */
struct bound_request {
	u64 now_ns;
	u64 sectors;
	bool writes;
	u64 requests;
	u64 met;
	u64 limit;
};

/* Does the request fit below a limit? One that is larger than the limit fits where it meets nothing. */
static inline bool bound_fits(struct bound_request *r, u64 limit)
{
	if (!r->sectors || !r->met || r->met + r->sectors <= limit)
		return true;
	r->limit = limit;
	return false;
}

#endif
