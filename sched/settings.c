// SPDX-License-Identifier: GPL-2.0-only
/* Converts the knobs into parameters of the bounds, and most of them into their units. Included by k2.c. */
#include "k2.h"

static const struct knob k2_knob_infos[K2_KNOB_COUNT] = { K2_KNOBS(KNOB_INFO) };

/* Value in sectors of a knob in KiB, or DEBT_AUTO. */
static inline u64 k2_kib(const struct k2 *k2, enum k2_knob knob)
{
	return k2->knobs[knob] == KNOB_AUTO ? DEBT_AUTO : 2ULL * k2->knobs[knob];
}

/*
 * Sets the largest background request: split_kib, or less with a latency target, whose bound is to be filled by several requests. Each piece
 * costs processor time, so they are not tiny.
 */
static void k2_apply_pieces(struct k2 *k2, bool on, u64 cap)
{
	u64 sectors = k2_kib(k2, K2_KNOB_split_kib);

	cap = div64_u64(cap, min_t(u64, k2->inflight.requests_max, K2_PIECES_IN_TARGET));
	cap = max_t(u64, cap, K2_PIECE_SECTORS_MIN);
	cap = max_t(u64, cap - cap % k2->granule_sectors, k2->granule_sectors);
	if (cap <= K2_PIECE_SECTORS_MAX)
		sectors = sectors ? min(sectors, cap) : cap;
	WRITE_ONCE(k2->piece_sectors, on ? sectors : 0);
}

/*
 * While nothing is queued or blocked, only requests in the drive and in plugs hold scheduler tags. Computes the number of tags from which
 * on these cannot use up the share of tasks that are not real-time.
 */
static void k2_apply_tags(struct k2 *k2)
{
	/* without a bound: more than there can be */
	u64 held = min_t(u64, k2->inflight.requests_max, U32_MAX) + K2_TAGS_IN_PLUGS;

	WRITE_ONCE(k2->tags_enough, div_u64(100 * held, 100 - k2->knobs[K2_KNOB_rt_tags]) + 1);
}

/* Recomputes the bounds in force from the knobs, real-time activity and the latency target. */
static void k2_apply(struct k2 *k2)
{
	const unsigned int *knobs = k2->knobs;
	unsigned int target_us = knobs[K2_KNOB_rt_target_us];
	u64 target_ns = target_us == KNOB_AUTO ? TARGET_AUTO : 1000ULL * target_us;
	u64 requests = knobs[K2_KNOB_inflight_max], bytes = k2_kib(k2, K2_KNOB_inflight_kib_max);
	bool when_active = knobs[K2_KNOB_bound_when] == K2_BOUND_ACTIVE || target_ns == TARGET_AUTO;
	bool on = !when_active || k2->activity.active, rare = knobs[K2_KNOB_rt_target_percentile];
	bool looks_ahead = target_ns || experiment_looks_ahead(k2);
	u64 debt = k2_kib(k2, K2_KNOB_write_debt_kib_max), lo = 0;
	u64 fallback = AHEAD_FALLBACK_SECTORS, cap;

	target_change(&k2->target, on && target_ns, target_ns, rare);
	cap = k2->target.points[k2->target.kind].limit_sectors;
	if (cap != BOUND_NONE) {
		lo = k2->target.points[TARGET_PREDICTED].limit_sectors;
		fallback = k2->target.points[TARGET_UNPREDICTED].limit_sectors;
	}
	if (requests == KNOB_AUTO)
		requests = target_ns ? BOUND_NONE : K2_INFLIGHT_MAX;
	inflight_change(&k2->inflight, on ? requests : BOUND_NONE,
			on && bytes ? bytes : BOUND_NONE);
	ahead_change(&k2->ahead, looks_ahead, on, lo, fallback, rare);
	/* a target bounds the debt as well: by the automatic limit, unless the knob sets another one */
	debt_change(&k2->debt, on, debt || !target_ns ? debt : DEBT_AUTO, cap);
	floor_change(&k2->floor, knobs[K2_KNOB_be_floor_iops]);
	k2_apply_pieces(k2, on, cap);
	WRITE_ONCE(k2->discard_sectors, k2_kib(k2, K2_KNOB_discard_kib_max));
	k2_apply_tags(k2);

	k2->activity.watched = when_active || k2->discard_sectors;
	if (!k2->activity.watched) /* what arrives unwatched is no gap */
		k2->activity = (struct activity){ .begun = k2->activity.begun };
	k2->bounded = k2->inflight.sectors_max != BOUND_NONE || k2->ahead.on || k2->debt.on ||
		      k2->discard_sectors;
	k2->extended = k2->bounded || k2->piece_sectors || k2->activity.watched || looks_ahead;
}

/**
 * k2_limit() - scheduler tags that tasks outside the real-time class may hold
 * @k2: the drive's scheduler
 * @tags: scheduler tags of a hardware queue, at least 1
 * @discards: return the lower limit for discards if discard_kib_max is set: discards keep their tags while they wait
 *
 * A task waits for a tag before its request exists, and no scheduler orders the waiting tasks. So some tags are kept free for real-time
 * tasks, unless there is only one tag.
 *
 * Return: 1 to @tags.
 */
static inline unsigned int k2_limit(const struct k2 *k2, unsigned int tags, bool discards)
{
	unsigned int kept = DIV_ROUND_UP(tags * READ_ONCE(k2->knobs[K2_KNOB_rt_tags]), 100);
	unsigned int limit = tags > kept ? tags - kept : 1;

	return discards && READ_ONCE(k2->discard_sectors) ? max(limit / K2_DISCARD_TAGS_SHARE, 1U) :
							    limit;
}

/* Most sectors in a request of this level; 0: any number. A larger request is split before insertion. */
static inline unsigned int k2_piece(const struct k2 *k2, unsigned int level, bool discards)
{
	if (level != K2_BACKGROUND)
		return 0;
	return discards ? READ_ONCE(k2->discard_sectors) : READ_ONCE(k2->piece_sectors);
}
