/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Effective weights of flows in a hierarchy of groups. At the top, the effective weight of a group is its set weight. Below, it is a part
 * of the parent's effective weight: the group's weight divided by the sum of those of all siblings that compete. So ten flows in one group
 * do not take ten shares.
 *
 * Time is divided into periods, about 30 a second. A flow's first request in a period sets the flow's price of a sector for that period. So
 * most requests cost the same with a hierarchy and without, and a new weight counts from the next period on. A flow competes in a period if
 * its end is above virtual time when its price is set, as that of a flow which always has requests waiting is. A sum of weights is the
 * greater of those of this period and the one before. So a flow that begins to compete is in the sum after one period, and one that
 * stops leaves it after two.
 */
#ifndef TAILGATE_SCHED_SHARES_H
#define TAILGATE_SCHED_SHARES_H

#include <linux/kernel.h>
#include <linux/math64.h>
#include <linux/spinlock.h>
#include <linux/types.h>

/* Price of a sector at weight SHARES_WEIGHT, as a tag. */
#define SHARES_SECTOR 65536ULL
/* Default weight. */
#define SHARES_WEIGHT 100
#define SHARES_WEIGHT_MAX 10000
/* Highest price of a sector: the least effective weight of a flow is SHARES_WEIGHT / 16384. */
#define SHARES_PRICE_MAX (SHARES_SECTOR << 14)
/* Most groups in a path, the flow itself included. One that is deeper counts as a child of its ancestor at the depth before this. */
#define SHARES_DEPTH 9U
/*
 * Table of groups that have children: SHARES_PLACES places, a power of two. A group may be in one of SHARES_TRIES of them. If it finds no
 * place, each of its children has the weight that it would have without siblings.
 */
#define SHARES_PLACES 256
#define SHARES_TRIES 16

/**
 * struct share_path - the groups that a flow is in
 * @depth: number of groups, 1 or more
 * @at: the groups from the top down; the last one is the flow
 * @at.id: identity of the group; not 0
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
 * struct share - a group that has children
 * @id: its identity; 0: the place is free
 * @period: the period in which it was last looked up
 * @counted: the period in which its weight was last added to its parent's @sum
 * @sum: weights of its children that compete in @period
 * @before: @sum of the period before
 */
struct share {
	u64 id;
	unsigned int period, counted;
	u64 sum, before;
};

/**
 * struct shares - groups of one drive
 * @lock: protects all of it, and the prices of flows; taken in process context only
 * @places: groups that have children
 */
struct shares {
	spinlock_t lock;
	struct share places[SHARES_PLACES];
};

/* Place in the path of a flow at depth @depth, 1 being the top, of its group at depth @number; SHARES_DEPTH: it is left out. */
static inline unsigned int shares_place(unsigned int number, unsigned int depth)
{
	if (number == depth)
		return min(depth, SHARES_DEPTH) - 1;
	return number < SHARES_DEPTH ? number - 1 : SHARES_DEPTH;
}

static inline void shares_init(struct shares *s)
{
	spin_lock_init(&s->lock);
}

/* Looks up a group, or gives it a place, and updates its sums to this period; NULL: there is no place. */
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
 * @path: the flow's groups
 * @period: the current period
 * @competes: the flow competes; its weight is then added to its parent's sum, so call once for each flow and period
 *
 * Under the lock.
 */
static inline u64 shares_price(struct shares *s, const struct share_path *path, unsigned int period,
			       bool competes)
{
	u64 price = div_u64(SHARES_SECTOR * SHARES_WEIGHT, path->at[0].weight), sum;
	struct share *parents[SHARES_DEPTH];
	unsigned int i;

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
	return price;
}

#endif
