/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The bounds on requests and on bytes in the drive. Both counts are in one word, so that a dispatch or a completion is one
 * atomic operation, and bytes are counted whether or not there is a bound on them: one that is set under load knows what
 * is in the drive.
 *
 * The bound on requests holds for every request. The bound on bytes holds for background requests; real-time requests
 * count, but never wait for it.
 */
#ifndef TAILGATE_SCHED_INFLIGHT_H
#define TAILGATE_SCHED_INFLIGHT_H

#include <linux/atomic.h>

#include "bound.h"

/* Requests are counted above this bit, sectors below: 2^40 sectors are 512 TiB. */
#define INFLIGHT_SHIFT 40

/**
 * struct inflight - what is in the drive, and the bounds on it
 * @load: requests << INFLIGHT_SHIFT | sectors
 * @requests_max: most requests
 * @sectors_max: most sectors when a background request goes
 */
struct inflight {
	atomic64_t load;
	u64 requests_max;
	u64 sectors_max;
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

static inline u64 inflight_allows(const struct inflight *b, struct bound_request *r)
{
	return bound_fits(r, b->sectors_max) ? BOUND_YES : BOUND_AT_END;
}

/* Return: true if that was the last slot. */
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
