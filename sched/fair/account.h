/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Statistics of each flow, beside what a request's path needs of it (flows.h).
 *
 * The largest unfairness. Time is cut into windows. In each, of all flows that used their whole share, those that were served most and least
 * are compared with each other flow: service is sectors that went to the drive, by weight. A flow used its whole share if it was charged for
 * requests without a gap in its tags, and virtual time has passed neither its end nor a request of it that waits, at both ends of the
 * window. Then, and only then, what it was served lies within T and one request of what virtual time says, whether it waited all the time or
 * was ahead for some of it; so two of them differ by at most 2 T and a request of each.
 *
 * Sectors tell the service only if one has cost the same throughout. So a window of a flow does not count, and none after it until
 * virtual time has come to where the flow's tags end, if its price, T or the cost of a write changed, if one of its requests grew by
 * merging, or moved no data, or if requests were sent away in a freeze.
 */
#ifndef TAILGATE_SCHED_ACCOUNT_H
#define TAILGATE_SCHED_ACCOUNT_H

#include <linux/atomic.h>
#include <linux/types.h>

#include "flows.h"

/**
 * struct account_sample - a flow at the end of a window
 * @key: its identity
 * @sectors: that went to the drive
 * @end: the tag at which its latest request ends
 * @price: of a sector
 * @largest: sectors of its largest request
 * @breaks: after a change a sector may have cost something else, or the flow may have left a part of its share
 * @passed: virtual time has passed a request of it that waits
 */
struct account_sample {
	u64 key, sectors, end, price;
	u64 breaks;
	unsigned int largest;
	bool passed;
};

/**
 * struct account - statistics of a flow; those that have no lock are for the place in the table since it has this key
 * @key: of the flow
 * @requests: that had gone to the drive when the flow got its place
 * @sectors: of these
 * @throttled_ns: time for which it was too far ahead, the sum over its queues
 * @idle: requests that left the drive from such a queue, and nothing could take their place
 *
 * @number: of the last window in which it was seen; this and what follows is protected by the lock for accounts
 * @was: how it was at the end of that
 * @settled: a window may begin when virtual time is here
 * @begins: one has begun
 * @counts: the last one counts
 * @served: in that, as tags
 * @unfair: the largest difference of service to another flow, as tags
 * @bound: what was allowed then
 * @seen: number of the collection that found it waiting
 * @first: its least start tag then
 */
struct account {
	u64 key, requests, sectors;
	atomic64_t throttled_ns, idle;
	unsigned int number;
	struct account_sample was;
	u64 settled;
	bool begins, counts;
	u64 served, unfair, bound;
	unsigned int seen;
	u64 first;
};

/**
 * account_window() - a window ends for a flow, and the next one begins
 * @a: the flow's
 * @now: how it is
 * @vt: virtual time
 * @number: of the window
 *
 * Afterwards @counts and @served are valid.
 */
static inline void account_window(struct account *a, const struct account_sample *now, u64 vt,
				  unsigned int number)
{
	bool same = a->was.key == now->key && a->was.price == now->price &&
		    a->was.breaks == now->breaks;
	bool whole = tag_after(now->end, vt) && !now->passed;

	if (a->was.key != now->key)
		a->unfair = a->bound = 0;
	if (!same)
		a->settled = now->end;
	a->counts = a->begins && same && whole && a->number + 1 == number;
	a->served = (now->sectors - a->was.sectors) * now->price;
	a->begins = whole && !tag_after(a->settled, vt);
	a->number = number;
	a->was = *now;
}

/* What a flow's largest request costs. */
static inline u64 account_request(const struct account *a)
{
	return a->was.largest * a->was.price;
}

/* Two flows, of the same window. @unsure: the service of one may have been read later than that of the other, by this. */
static inline void account_compare(struct account *a, const struct account *other, u64 t,
				   u64 unsure)
{
	u64 unfair = a->served > other->served ? a->served - other->served :
						 other->served - a->served;

	if (unfair <= a->unfair + unsure)
		return;
	a->unfair = unfair - unsure;
	a->bound = 2 * t + account_request(a) + account_request(other);
}

#endif
