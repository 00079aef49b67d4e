/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A bound says whether the next background request may be dispatched now. Each bound is a file with these functions, as far as it
 * needs them; ahead.h and target.h have more, to learn. Bounds are independent of each other; the scheduler asks them in turn until one
 * refuses.
 *
 *	<bound>_allows(b, request)	returns BOUND_YES, a time in ns before which the request must not be dispatched, or BOUND_AT_END
 *	<bound>_went(b, ...)		accounts for a dispatched request
 *	<bound>_ended(b, ...)		accounts for a completed request; any context, no lock
 *	<bound>_change(b, ...)		sets the bound's parameters, from knobs or the latency target, if it has any
 *
 * All but _ended() are called by the dispatcher, under its lock. Times are in ns, sizes in sectors of 512 bytes.
 */
#ifndef TAILGATE_SCHED_BOUND_H
#define TAILGATE_SCHED_BOUND_H

#include <linux/types.h>

/* The request may be dispatched. */
#define BOUND_YES 0ULL
/* Ask again when a request has completed. */
#define BOUND_AT_END (~0ULL)
/* Value of a limit: no limit. */
#define BOUND_NONE (~0ULL)

/**
 * enum k2_hold - the bound that refuses a request
 * @K2_HOLD_COUNT: inflight_max
 * @K2_HOLD_BYTES: inflight_kib_max
 * @K2_HOLD_DEBT: write_debt_kib_max
 * @K2_HOLD_AHEAD: the bound that rt_target_us sets
 * @K2_HOLD_TARGET: held to measure the idle drive
 * @K2_HOLD_DISCARD: discard_kib_max
 */
enum k2_hold {
	K2_HOLD_COUNT,
	K2_HOLD_BYTES,
	K2_HOLD_DEBT,
	K2_HOLD_AHEAD,
	K2_HOLD_TARGET,
	K2_HOLD_DISCARD
};

/**
 * struct bound_request - the next background request, and the present load of the drive
 * @now_ns: the time
 * @sectors: sectors that it reads or writes; 0: it is exempt from bounds on bytes
 * @writes: it is a write
 * @requests: requests in the drive
 * @met: sectors in the drive, plus the write debt: sectors acknowledged and not yet programmed
 * @why: set by a bound that refuses: which one it is
 * @limit: set by a bound that refuses: the limit that @met + @sectors exceeds; in requests for K2_HOLD_COUNT, otherwise in sectors;
 *	0: the bound has no such limit
 */
struct bound_request {
	u64 now_ns, sectors;
	bool writes;
	u64 requests, met;
	enum k2_hold why;
	u64 limit;
};

#endif
