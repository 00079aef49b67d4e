/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The bounds on requests and on bytes in the drive. Both counts are in one word, so that a dispatch or a completion is one
 * atomic operation. Bytes are always counted, so that a bound set under load is correct at once.
 *
 * The bound on requests applies to every request. The bound on bytes applies to background requests; the bytes of real-time requests
 * count, but real-time requests never wait for this bound.
 */
#ifndef TAILGATE_SCHED_INFLIGHT_H
#define TAILGATE_SCHED_INFLIGHT_H

#include <linux/atomic.h>

#include "bound.h"

/* Bits from this one up count requests, lower bits count sectors: 2^40 sectors are 512 TiB. */
#define INFLIGHT_SHIFT 40

/**
 * struct inflight - requests and sectors in the drive, and the bounds on them
 * @load: requests << INFLIGHT_SHIFT | sectors
 * @requests_max: most requests in the drive
 * @sectors_max: most sectors in the drive for a background request to be dispatched, including its own
 */
struct inflight {
	atomic64_t load;
	u64 requests_max, sectors_max;
};

static inline u64 inflight_requests(const struct inflight *b)
{
	return (u64)atomic64_read(&b->load) >> INFLIGHT_SHIFT;
}

static inline u64 inflight_sectors(const struct inflight *b)
{
	return (u64)atomic64_read(&b->load) & ((1ULL << INFLIGHT_SHIFT) - 1);
}

/* Is there room for one more request? Any context. */
static inline bool inflight_has_slot(const struct inflight *b)
{
	return inflight_requests(b) < READ_ONCE(b->requests_max);
}

/* A request larger than the limit is allowed while no other bytes count. */
static inline u64 inflight_allows(const struct inflight *b, struct bound_request *r)
{
	if (!r->sectors || !r->met || r->met + r->sectors <= b->sectors_max)
		return BOUND_YES;
	r->why = K2_HOLD_BYTES;
	r->limit = b->sectors_max;
	return BOUND_AT_END;
}

/* Counts a dispatched request. Return: true if it took the last slot. */
static inline bool inflight_went(struct inflight *b, u64 sectors)
{
	u64 load = atomic64_add_return((1ULL << INFLIGHT_SHIFT) + sectors, &b->load);

	return load >> INFLIGHT_SHIFT >= b->requests_max;
}

static inline void inflight_ended(struct inflight *b, u64 sectors)
{
	atomic64_sub((1ULL << INFLIGHT_SHIFT) + sectors, &b->load);
}

static inline void inflight_change(struct inflight *b, u64 requests_max, u64 sectors_max)
{
	WRITE_ONCE(b->requests_max, requests_max);
	b->sectors_max = sectors_max;
}

#endif
