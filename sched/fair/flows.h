/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Flows: who shares the drive. A flow has a key, a weight, and the tag at which its latest request ends. A request of it starts there, or at
 * virtual time if that is later: what a flow did not use is lost to it.
 *
 * So a flow whose end is not above virtual time has no past, and its place in the table may be given to another. Nothing counts references:
 * who looked a flow up just before its place changed hands charges one request to the new one, no more.
 *
 * Tags are in units of service: a sector costs a flow of weight 100 one SHARES_SECTOR. They wrap around; what is compared is never half of
 * the range apart, as flows_raise() is called in time.
 */
#ifndef TAILGATE_SCHED_FLOWS_H
#define TAILGATE_SCHED_FLOWS_H

#include <linux/atomic.h>
#include <linux/cache.h>
#include <linux/compiler.h>
#include <linux/types.h>

#include "shares.h"

/*
 * Places are a power of two; a key has this many of them to be in. What finds none shares the next place, of weight SHARES_WEIGHT. The last
 * one counts requests that are not shared fairly.
 */
#define FLOWS_PLACES 1024
#define FLOWS_TRIES 16
#define FLOWS_SHARED FLOWS_PLACES
#define FLOWS_NONE (FLOWS_PLACES + 1)
#define FLOWS_COUNT (FLOWS_PLACES + 2)
/* Virtual time may pass this much between two calls of flows_raise(). */
#define FLOWS_RAISE_SHIFT 60

/**
 * struct flow - who shares the drive
 * @key: its identity; 0: the place is free
 * @end: the tag at which its latest request ends
 * @price: of a sector, as a tag
 * @period: for which it was asked for
 * @breaks: grows when it leaves a part of its share, or pays for what is no sector: see account.h
 * @largest: sectors of its largest request
 * @requests: that went to the drive, of all that had this place
 * @sectors: of these
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
 * struct flows - those of one drive
 * @flows: by place, the shared one, and that of requests in no flow
 */
struct flows {
	struct flow *flows;
};

/* Is a tag later than another? */
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
 * flows_find() - the flow of a key
 * @f: the drive's
 * @key: not 0
 * @vt: virtual time
 * @is_new: set if it was not there: the caller asks for its price
 *
 * Any context. Return: its place.
 */
static inline unsigned int flows_find(struct flows *f, u64 key, u64 vt, bool *is_new)
{
	unsigned int at = flows_hash(key), i, place, gone = FLOWS_SHARED;
	u64 there;

	*is_new = false;
	for (i = 0; i < FLOWS_TRIES; i++) {
		place = (at + i) % FLOWS_PLACES;
		there = READ_ONCE(f->flows[place].key);
		if (likely(there == key))
			return place;
		if (gone == FLOWS_SHARED &&
		    (!there || !tag_after(atomic64_read(&f->flows[place].end), vt)))
			gone = place;
		if (!there)
			break;
	}
	if (gone == FLOWS_SHARED)
		return gone;
	there = READ_ONCE(f->flows[gone].key);
	if (cmpxchg(&f->flows[gone].key, there, key) != there)
		return FLOWS_SHARED; /* for this once */
	*is_new = true;
	return gone;
}

/* The place of a key; FLOWS_NONE: it has none. Any context. */
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

/* A request of this cost comes. Return: its start tag. */
static inline u64 flow_charge(struct flow *flow, u64 cost, const atomic64_t *vt)
{
	s64 end = atomic64_read(&flow->end);
	u64 now, start;

	do {
		now = atomic64_read(vt);
		start = tag_after(end, now) ? (u64)end : now;
	} while (!atomic64_try_cmpxchg(&flow->end, &end, start + cost));
	if (unlikely(start != (u64)end))
		flow_break(flow);
	return start;
}

/* A request of the flow that still waits costs more, by this. What of the flow comes later starts later. */
static inline void flow_charge_more(struct flow *flow, u64 cost)
{
	atomic64_add(cost, &flow->end);
	flow_break(flow);
}

/* Virtual time has come from @from to @to: no flow is left half of the range behind. */
static inline void flows_raise(struct flows *f, u64 from, u64 to)
{
	unsigned int i;
	s64 end;

	if (likely(from >> FLOWS_RAISE_SHIFT == to >> FLOWS_RAISE_SHIFT))
		return;
	for (i = 0; i <= FLOWS_PLACES; i++) {
		end = atomic64_read(&f->flows[i].end);
		if (!tag_after(end, to))
			atomic64_try_cmpxchg(&f->flows[i].end, &end, to);
	}
}

#endif
