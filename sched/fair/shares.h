/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What flows weigh in a hierarchy of groups: at the top a group weighs what it is told to; below, it has its part of what its parent weighs,
 * its weight by those of all siblings that compete. So ten flows in one group do not take ten shares.
 *
 * Time is cut into periods, some 30 a second. The first request of a flow in a period asks for its price, which is constant for the rest
 * of it, so the path of a request is the same with a hierarchy and without, and a new weight counts from the next period on. A flow competes
 * in a period if it has not yet paid for its latest request when it asks, as one that always has requests waiting has not. A sum is the
 * greater of those of this period and of the one before; a flow that begins to compete is in it after one period, one that ends leaves
 * it after two.
 */
#ifndef TAILGATE_SCHED_SHARES_H
#define TAILGATE_SCHED_SHARES_H

#include <linux/kernel.h>
#include <linux/math64.h>
#include <linux/spinlock.h>
#include <linux/types.h>

#define SHARES_SECTOR 65536ULL
#define SHARES_WEIGHT 100
#define SHARES_WEIGHT_MAX 10000
/* The price of a sector is at most this: a flow weighs SHARES_WEIGHT / 16384 at least, however deep it lies. */
#define SHARES_PRICE_MAX (SHARES_SECTOR << 14)
/* Groups of a path; a flow that lies deeper is taken for its group at this depth. */
#define SHARES_DEPTH 8U
/* Groups that have groups below; a power of two. One has this many places to be in; what finds none has its flows weigh what it does, each. */
#define SHARES_PLACES 256
#define SHARES_TRIES 16

/**
 * struct share_path - a flow's groups
 * @depth: of them, 1 or more
 * @at: from the top down; the last one is the flow
 * @at.id: of the group; not 0
 * @at.weight: 1 to SHARES_WEIGHT_MAX
 */
struct share_path {
	unsigned int depth;
	struct {
		u64 id;
		unsigned int weight;
	} at[SHARES_DEPTH];
};

/**
 * struct share - a group that has groups below
 * @id: of it; 0: the place is free
 * @period: when it was last asked for
 * @counted: when it last was part of its parent's sum
 * @sum: weights below it that compete in this period
 * @before: those of the period before
 */
struct share {
	u64 id;
	unsigned int period, counted;
	u64 sum, before;
};

/**
 * struct shares - groups of one drive
 * @lock: protects all of it; taken in process context only
 * @places: groups that have groups below
 */
struct shares {
	spinlock_t lock;
	struct share places[SHARES_PLACES];
};

static inline void shares_init(struct shares *s)
{
	spin_lock_init(&s->lock);
}

/* The group with this id, with sums of this period and the one before; NULL: there is no place. */
static inline struct share *shares_find(struct shares *s, u64 id, unsigned int period)
{
	unsigned int at = id * 0x9e3779b97f4a7c15ULL >> 32, i;
	struct share *share, *gone = NULL;

	for (i = 0; i < SHARES_TRIES; i++) {
		share = &s->places[(at + i) % SHARES_PLACES];
		if (share->id == id)
			break;
		if (!gone && (!share->id || period - share->period > 1))
			gone = share;
	}
	if (i == SHARES_TRIES) {
		if (!gone)
			return NULL;
		share = gone;
		*share = (struct share){ .id = id, .period = period, .counted = period - 1 };
	}
	if (share->period != period) {
		share->before = period - share->period == 1 ? share->sum : 0;
		share->sum = 0;
		share->period = period;
	}
	return share;
}

/**
 * shares_price() - what a sector costs a flow, as a tag
 * @s: groups of the drive
 * @path: of the flow
 * @period: now
 * @competes: the flow does; said once in a period
 *
 * Process context.
 */
static inline u64 shares_price(struct shares *s, const struct share_path *path, unsigned int period,
			       bool competes)
{
	u64 price = div_u64(SHARES_SECTOR * SHARES_WEIGHT, path->at[0].weight), sum;
	struct share *parents[SHARES_DEPTH];
	unsigned int i;

	if (path->depth == 1)
		return price;
	spin_lock(&s->lock);
	for (i = 1; i < path->depth; i++)
		parents[i] = shares_find(s, path->at[i - 1].id, period);
	for (i = path->depth - 1; i && competes && parents[i]; i--) {
		parents[i]->sum += path->at[i].weight;
		competes = parents[i]->counted != period;
		parents[i]->counted = period;
	}
	for (i = 1; i < path->depth; i++) {
		sum = path->at[i].weight;
		if (parents[i])
			sum = max(sum, max(parents[i]->sum, parents[i]->before));
		price = min_t(u64, div_u64(price * sum, path->at[i].weight), SHARES_PRICE_MAX);
	}
	spin_unlock(&s->lock);
	return price;
}

#endif
