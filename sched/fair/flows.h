/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The flows that share a drive. A flow has a key, a weight, and an end: the tag at which its latest request ends. Its next request starts
 * at the end, or at virtual time if that is later. So a flow cannot save service that it did not use.
 *
 * A flow whose end is not above virtual time thus has no history, and its place in the table may be given to another flow. There are no
 * reference counts. So the new flow is charged for a request whose CPU looked up the old one just before, and for bios that join queued
 * requests of the old one, and its statistics count those requests.
 *
 * Tags are in units of service: a sector costs a flow of weight 100 one SHARES_SECTOR. Tags wrap around. Two tags that are compared are
 * always less than half of the range apart, as flows_raise() is called in time.
 */
#ifndef TAILGATE_SCHED_FLOWS_H
#define TAILGATE_SCHED_FLOWS_H

#include <linux/atomic.h>
#include <linux/cache.h>
#include <linux/compiler.h>
#include <linux/types.h>

#include "shares.h"

/*
 * The table has FLOWS_PLACES places, a power of two. A key may be in one of FLOWS_TRIES of them. Flows that find no place share place
 * FLOWS_SHARED, of weight SHARES_WEIGHT. Place FLOWS_NONE counts requests that are not shared fairly.
 */
#define FLOWS_PLACES 1024
#define FLOWS_TRIES 16
#define FLOWS_SHARED FLOWS_PLACES
#define FLOWS_NONE (FLOWS_PLACES + 1)
#define FLOWS_COUNT (FLOWS_PLACES + 2)
/* flows_raise() acts each time that virtual time passes a multiple of 2 to this power. */
#define FLOWS_RAISE_SHIFT 60

/**
 * struct flow - a flow, or a place in the table
 * @key: the flow's identity; 0: the place is free
 * @end: the tag at which its latest request ends
 * @price: price of a sector, as a tag; read without a lock
 * @period: the period for which @price was set; written after it
 * @breaks: grows when the flow leaves a part of its share unused, or when its cost differs from its sectors: see account.h
 * @largest: sectors of its largest request
 * @requests: requests dispatched, of all flows that had this place
 * @sectors: sectors dispatched, of all flows that had this place
 */
struct flow {
	u64 key;
	atomic64_t end;
	u64 price;
	unsigned int period;
	unsigned int breaks;
	unsigned int largest;
	atomic64_t requests, sectors;
} ____cacheline_aligned_in_smp;

/**
 * struct flows - the flows of one drive
 * @flows: FLOWS_COUNT places; the last two are FLOWS_SHARED and FLOWS_NONE
 */
struct flows {
	struct flow *flows;
};

/* Is @tag later than @than? They may have wrapped around. */
static inline bool tag_after(u64 tag, u64 than)
{
	return (s64)(tag - than) > 0;
}

/* @places: FLOWS_COUNT of them, zeroed. */
static inline void flows_init(struct flows *f, struct flow *places)
{
	f->flows = places;
	places[FLOWS_SHARED].price = SHARES_SECTOR;
}

static inline unsigned int flows_hash(u64 key)
{
	return key * 0x9e3779b97f4a7c15ULL >> 32;
}

/**
 * flows_find() - find the place of a flow, or give it one: a free one if there is one, else that of a flow without history
 * @f: the drive's flows
 * @key: the flow's identity; not 0
 * @vt: virtual time
 * @is_new: set if the flow was given a place: the caller then sets its price
 *
 * Any context. Return: its place.
 */
static inline unsigned int flows_find(struct flows *f, u64 key, u64 vt, bool *is_new)
{
	unsigned int at = flows_hash(key), i, place, gone = FLOWS_SHARED;
	u64 there, was = 0;

	*is_new = false;
	for (i = 0; i < FLOWS_TRIES; i++) {
		place = (at + i) % FLOWS_PLACES;
		there = READ_ONCE(f->flows[place].key);
		if (likely(there == key))
			return place;
		/* places are taken in this order and never become free again: no later one has the key */
		if (!there) {
			gone = place;
			was = 0;
			break;
		}
		if (gone == FLOWS_SHARED && !tag_after(atomic64_read(&f->flows[place].end), vt)) {
			gone = place;
			was = there;
		}
	}
	if (gone == FLOWS_SHARED)
		return gone;
	there = cmpxchg(&f->flows[gone].key, was, key);
	*is_new = there == was;
	/* another CPU may have taken the place: for this flow, or for another one, and then the next request tries again */
	return *is_new || there == key ? gone : FLOWS_SHARED;
}

/* The place of a flow; FLOWS_NONE: it has none. Any context. */
static inline unsigned int flows_look_up(const struct flows *f, u64 key)
{
	unsigned int at = flows_hash(key), i, place;

	for (i = 0; i < FLOWS_TRIES; i++) {
		place = (at + i) % FLOWS_PLACES;
		if (READ_ONCE(f->flows[place].key) == key)
			return place;
	}
	return FLOWS_NONE;
}

static inline void flow_break(struct flow *flow)
{
	WRITE_ONCE(flow->breaks, READ_ONCE(flow->breaks) + 1);
}

/* Charges a new request of this cost to its flow. Return: its start tag. */
static inline u64 flow_charge(struct flow *flow, u64 cost, const atomic64_t *vt)
{
	s64 end = atomic64_read(&flow->end);
	u64 now, start;

	do {
		now = atomic64_read(vt);
		start = tag_after(end, now) ? (u64)end : now;
		/* before the end moves: mqfq_end_window() reads the end first */
		if (unlikely(start != (u64)end))
			flow_break(flow);
	} while (!atomic64_try_cmpxchg(&flow->end, &end, start + cost));
	return start;
}

/* Adds to the cost of a waiting request of the flow. Later requests of the flow start later by this cost. */
static inline void flow_charge_more(struct flow *flow, u64 cost)
{
	atomic64_add(cost, &flow->end);
	flow_break(flow);
}

/*
 * Virtual time has advanced from @from to @to: raises flows' ends, so that none falls behind by half of the range of tags. The next request of
 * such a flow starts at its end, and its share before is unused all the same.
 */
static inline void flows_raise(struct flows *f, u64 from, u64 to)
{
	unsigned int i;
	s64 end;

	if (likely(from >> FLOWS_RAISE_SHIFT == to >> FLOWS_RAISE_SHIFT))
		return;
	for (i = 0; i <= FLOWS_PLACES; i++) {
		end = atomic64_read(&f->flows[i].end);
		if (!tag_after(end, to) && atomic64_try_cmpxchg(&f->flows[i].end, &end, to))
			flow_break(&f->flows[i]);
	}
}

#endif
