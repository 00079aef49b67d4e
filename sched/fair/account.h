/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Statistics of each flow, in addition to the state that dispatching needs (flows.h).
 *
 * Unfairness is measured in windows of time. The service of a flow is the sectors dispatched for it, divided by its weight. Only flows that
 * used their whole share in a window are compared: each of them with the one that was served most and with the one that was served least.
 * A flow used its whole share if it was charged for requests without a gap in its tags and if, at both ends of the window, virtual time
 * has passed neither the flow's end nor a waiting request of it. Then, and only then, its service is within T and one request of
 * the advance of virtual time. So two such flows differ by at most 2 T and one request of each.
 *
 * Sectors measure the service only while a sector's cost is constant. A flow's window does not count if its price, T or the cost of a write
 * changed, if one of its requests grew by merging or moved no data, or if requests were dispatched to freeze the queue. No later window of
 * the flow counts either until virtual time has reached the end of the flow's tags at that time.
 */
#ifndef TAILGATE_SCHED_ACCOUNT_H
#define TAILGATE_SCHED_ACCOUNT_H

#include <linux/atomic.h>
#include <linux/types.h>

#include "flows.h"

/**
 * struct account_sample - a flow at the end of a window
 * @key: its identity
 * @sectors: sectors dispatched since the start
 * @end: the tag at which its latest request ends
 * @price: price of a sector, as a tag
 * @largest: sectors of its largest request
 * @breaks: changes whenever a sector may have another cost, or the flow may have left a part of its share unused
 * @passed: virtual time has passed the start tag of a waiting request of the flow
 */
struct account_sample {
	u64 key, sectors, end, price;
	u64 breaks;
	unsigned int largest;
	bool passed;
};

/**
 * struct account - statistics of a flow since it got its place in the table
 * @key: the flow's identity
 * @requests: value of the place's counter of requests when the flow got the place
 * @sectors: value of the place's counter of sectors when the flow got the place
 * @throttled_ns: time for which its first request was too far ahead, the sum over all queues
 * @idle: requests that left the drive from such a queue while no waiting request could take their place
 *
 * @number: number of the last window in which it was seen; the mqfq's accounts_lock protects this and the members below
 * @was: its state at the end of that window
 * @settled: windows count again once virtual time is here
 * @begins: the window that began then may count
 * @counts: the last window counts
 * @served: service in the last window, as tags
 * @unfair: the largest difference to the service of another flow, as tags
 * @bound: largest difference allowed in that comparison, as tags
 * @seen: number of the last mqfq_collect() that found a waiting request of the flow
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
 * account_window() - end a flow's window, and begin the next one
 * @a: the flow's account
 * @now: the flow's state now
 * @vt: virtual time
 * @number: number of the window that ends
 *
 * Sets @a->counts and @a->served for the window that ends.
 */
static inline void account_window(struct account *a, const struct account_sample *now, u64 vt,
				  unsigned int number)
{
	bool same = a->was.key == now->key && a->was.breaks == now->breaks;
	bool whole = tag_after(now->end, vt) && !now->passed;

	if (a->was.key != now->key)
		a->unfair = a->bound = 0;
	if (!same)
		a->settled = now->end;
	a->counts = a->begins && same && whole && a->number + 1 == number;
	a->served = (now->sectors - a->was.sectors) * now->price;
	a->begins = whole && !tag_after(a->settled, vt);
	/* tags are compared within half of their range, so a time in the past must not fall behind further */
	if (!tag_after(a->settled, vt))
		a->settled = vt;
	a->number = number;
	a->was = *now;
}

/* Cost of a flow's largest request, as a tag. */
static inline u64 account_request(const struct account *a)
{
	return a->was.largest * a->was.price;
}

/* Compares two flows in a window. @unsure: how far virtual time may have moved between the readings of their service. */
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
