// SPDX-License-Identifier: GPL-2.0-only
/* The bound that looks ahead: see ahead.h. Included by the scheduler that asks it. */
#include <linux/bitops.h>
#include <linux/kernel.h>
#include <linux/math64.h>
#include <linux/string.h>

#include "ahead.h"
#include "arrivals.c"

/*
 * How long a real-time request is in a drive that is otherwise idle; 0: not known. As long as the drive is never idle when one comes, what was
 * seen may be much longer, but it is not believed to be longer than is of use.
 */
static u64 ahead_device_ns(const struct ahead *a)
{
	u64 longest_ns = 0, gap_ns = U64_MAX;
	unsigned long flows;

	for (flows = a->predictable; flows; flows &= flows - 1) {
		const struct ahead_flow *flow = &a->flows[__ffs(flows)];

		longest_ns = max(longest_ns, flow->least_ns);
		gap_ns = min(gap_ns, arrivals_gap_ns(&flow->arrivals));
	}
	return min_t(u64, longest_ns, gap_ns / AHEAD_LEAD_TIMES / AHEAD_LEAD_SHARE);
}

/* What the drive serves in some halves of a time. */
static inline u64 ahead_served(const struct ahead *a, u64 ns, unsigned int halves)
{
	return mul_u64_u32_shr(ns * halves / 2, a->rate, 32);
}

/* The longest of that time over all flows that are present, predictable or not. */
static u64 ahead_longest_ns(const struct ahead *a)
{
	u64 longest_ns = 0;
	unsigned int i;

	for (i = 0; i < AHEAD_FLOWS; i++)
		if (a->flows[i].present_until_ns >= a->arrived_ns)
			longest_ns = max(longest_ns, a->flows[i].least_ns);
	return longest_ns;
}

/* The bound where nothing is predicted. */
static u64 ahead_fallback(const struct ahead *a)
{
	u64 longest_ns = ahead_longest_ns(a);

	if (a->set.fallback_sectors != AHEAD_AUTO)
		return a->set.fallback_sectors;
	if (a->cap_sectors != BOUND_NONE)
		return a->cap_sectors;
	if (!a->rate || !longest_ns)
		return AHEAD_FALLBACK_SECTORS_FIRST;
	return max_t(u64, AHEAD_HI_SECTORS_MIN, ahead_served(a, longest_ns, AHEAD_FALLBACK_HALVES));
}

/*
 * The share of the time for which the bound would be at its least, shifted left by AHEAD_SCARCITY_SHIFT. A share of up to a quarter costs little
 * and counts as 0; of what is above a quarter, lo makes good a quarter.
 */
static u64 ahead_scarcity(const struct ahead *a, u64 lead_ns)
{
	unsigned long flows;
	u64 share = 0;

	for (flows = a->predictable; flows; flows &= flows - 1) {
		const struct arrivals *arrivals = &a->flows[__ffs(flows)].arrivals;
		const struct arrivals_gaps *gaps = &arrivals->gaps[arrivals->way];
		u64 low_ns = lead_ns + gaps->mean - gaps->early;

		share += div64_u64(low_ns << AHEAD_SCARCITY_SHIFT, max_t(u64, gaps->mean, 1));
	}
	share = min_t(u64, share, 1U << AHEAD_SCARCITY_SHIFT);
	return share > AHEAD_SCARCITY_FREE ? (share - AHEAD_SCARCITY_FREE) / 4 : 0;
}

/* The numbers of the bound, from what was learned of the drive. */
static void ahead_apply(struct ahead *a)
{
	u64 device_ns = ahead_device_ns(a), lo = a->set.lo_sectors, hi = a->set.hi_sectors;
	u64 lead_ns = a->set.lead_ns, ramp_pct = a->set.ramp_pct;

	if (hi == AHEAD_AUTO)
		hi = !a->rate || !device_ns ? AHEAD_HI_SECTORS_FIRST :
					      max_t(u64, AHEAD_HI_SECTORS_MIN,
						    ahead_served(a, device_ns, AHEAD_HI_HALVES));
	hi = min(hi, a->cap_sectors);
	if (lead_ns == AHEAD_AUTO)
		lead_ns = AHEAD_LEAD_TIMES * device_ns;
	if (lo == AHEAD_AUTO)
		lo = hi * ahead_scarcity(a, lead_ns) >> AHEAD_SCARCITY_SHIFT;
	if (ramp_pct == AHEAD_AUTO)
		ramp_pct = AHEAD_RAMP_PCT;
	WRITE_ONCE(a->lo_sectors, min(lo, hi));
	WRITE_ONCE(a->hi_sectors, hi);
	WRITE_ONCE(a->lead_ns, lead_ns);
	a->fallback_sectors = ahead_fallback(a);
	a->slope = div_u64(a->rate * ramp_pct, 100);
}

/**
 * ahead_change() - what knobs and the target ask for
 * @a: the drive's bound
 * @on: the bound is in force
 * @cap_sectors: the bound is not above this
 * @set: numbers that an experiment sets
 */
static void ahead_change(struct ahead *a, bool on, u64 cap_sectors,
			 const struct ahead_settings *set)
{
	a->on = on;
	a->cap_sectors = cap_sectors;
	a->set = *set;
	ahead_apply(a);
}

#ifdef K2_EXPERIMENTS
#define AHEAD_DICE_FIRST 2463534242U

/*
 * The control's prediction: a span as long as that in which the flow would be expected, anywhere in its gap; xorshift (G. Marsaglia, "Xorshift
 * RNGs", 2003).
 */
static void ahead_roll(struct ahead *a, const struct arrivals *arrivals, u64 *gap_ns, u64 *late_ns)
{
	a->dice = a->dice ? a->dice : AHEAD_DICE_FIRST;
	a->dice ^= a->dice << 13;
	a->dice ^= a->dice >> 17;
	a->dice ^= a->dice << 5;
	*late_ns = arrivals->gaps[arrivals->way].mean - *gap_ns;
	*gap_ns = max_t(u64, mul_u64_u32_shr(*gap_ns, a->dice, 32), 1);
}
#endif

/* A predictable flow's request goes: when its next is expected, or how long after its end. */
static void ahead_predict(struct ahead *a, struct ahead_flow *flow)
{
	const struct arrivals *arrivals = &flow->arrivals;
	bool from_end = arrivals->way == ARRIVALS_FROM_END;
	u64 gap_ns = arrivals_gap_ns(arrivals), late_ns = arrivals_late_ns(arrivals);
	u64 wait_ns = 2 * arrivals->gaps[ARRIVALS_FROM_ARRIVAL].mean;

#ifdef K2_EXPERIMENTS
	if (a->set.random)
		ahead_roll(a, arrivals, &gap_ns, &late_ns);
#endif
	if (!from_end)
		WRITE_ONCE(flow->due_ns, arrivals_origin_ns(arrivals) + gap_ns);
	WRITE_ONCE(flow->gap_ns, from_end ? gap_ns : 0);
	WRITE_ONCE(flow->late_ns, late_ns);
	/* twice the longest gap of those that are predicted, of late */
	a->patience_ns = max(wait_ns, a->patience_ns - (a->patience_ns >> 5));
}

/* Do predictable flows need more than their share of the drive? */
static bool ahead_overloaded(const struct ahead *a)
{
	unsigned long flows;
	u64 load = 0;

	for (flows = a->predictable; flows; flows &= flows - 1)
		load += a->flows[__ffs(flows)].load;
	return a->rate && load > a->rate / AHEAD_LOAD_SHARE;
}

/*
 * The flow that is gone for longest, whose place another may take; AHEAD_FLOWS: none is gone. A flow is gone when none of it is in the drive and it does
 * not count as present: its next arrival would come after a silence, and all that was learned be forgotten.
 */
static unsigned int ahead_gone(const struct ahead *a, u64 now_ns)
{
	unsigned int i, number = AHEAD_FLOWS;
	u64 until_ns = now_ns;

	for (i = 0; i < AHEAD_FLOWS; i++) {
		const struct ahead_flow *flow = &a->flows[i];

		if (atomic_read(&flow->inflight) || flow->present_until_ns >= until_ns)
			continue;
		until_ns = flow->present_until_ns;
		number = i;
	}
	return number;
}

/* The number of a flow; AHEAD_FLOWS: it is new, and no place is free. */
static unsigned int ahead_find(struct ahead *a, unsigned int level, u64 key, u64 now_ns)
{
	struct ahead_flow *flow;
	unsigned int i;

	for (i = 0; i < AHEAD_FLOWS; i++)
		if (a->flows[i].known && a->flows[i].level == level && a->flows[i].key == key)
			return i;
	i = ahead_gone(a, now_ns);
	if (i == AHEAD_FLOWS)
		return i;
	flow = &a->flows[i];
	memset(flow, 0, sizeof(*flow));
	flow->known = true;
	flow->level = level;
	flow->key = key;
	a->predictable &= ~BIT(i);
	WRITE_ONCE(a->predicted, a->predicted & ~BIT(i));
	a->unpredicted &= ~BIT(i);
	return i;
}

/* Is the next request of a flow expected, and not overdue? */
static bool ahead_expects(const struct ahead_flow *flow, u64 now_ns)
{
	if (atomic_read(&flow->inflight))
		return false;
	smp_rmb(); /* pairs with ahead_ended() */
	return (s64)(now_ns - READ_ONCE(flow->due_ns)) <= (s64)flow->late_ns;
}

/**
 * ahead_error_ns() - how much later than expected a request came
 * @a: the drive's bound
 * @number: of the flow
 * @arrived_ns: when it came
 * @error_ns: the answer, negative for early
 *
 * Return: false if it was not expected.
 */
static inline bool ahead_error_ns(const struct ahead *a, unsigned int number, u64 arrived_ns,
				  s64 *error_ns)
{
	const struct ahead_flow *flow = &a->flows[number];

	if (!(a->predicted & BIT(number)) || atomic_read(&flow->inflight))
		return false;
	smp_rmb(); /* pairs with ahead_ended() */
	*error_ns = arrived_ns - READ_ONCE(flow->due_ns);
	return true;
}

/* A real-time request goes that has no flow: it counts as present for a while. */
static void ahead_rt_went_alone(struct ahead *a, u64 arrived_ns)
{
	a->others_until_ns = arrived_ns + AHEAD_PRESENT_NS_MIN;
}

/**
 * ahead_rt_went() - a real-time request goes to the drive
 * @a: the drive's bound
 * @number: of its flow
 * @sectors: sectors of it
 * @writes: it is a write
 * @arrived_ns: when it came
 * @now_ns: the time
 */
static void ahead_rt_went(struct ahead *a, unsigned int number, u64 sectors, bool writes,
			  u64 arrived_ns, u64 now_ns)
{
	struct ahead_flow *flow = &a->flows[number];
	struct arrivals *arrivals = &flow->arrivals;
	bool alone = !atomic_read(&flow->inflight);
	u64 device_ns = READ_ONCE(flow->device_ns), gap_ns;

	if (alone && device_ns)
		flow->least_ns =
			flow->least_ns ?
				min(device_ns,
				    flow->least_ns + flow->least_ns / AHEAD_LEAST_REQUESTS) :
				device_ns;
	WRITE_ONCE(flow->began_ns, now_ns);
	atomic_inc(&flow->inflight);
	flow->writes = flow->writes << 1 | writes;
	arrivals_note(arrivals, arrived_ns, READ_ONCE(flow->ended_ns), alone);
	gap_ns = arrivals->gaps[ARRIVALS_FROM_ARRIVAL].mean;
	if (arrivals_predictable(arrivals) && !flow->writes &&
	    (a->set.lead_ns == AHEAD_AUTO || arrivals_gap_ns(arrivals) / 2 >= a->set.lead_ns)) {
		flow->load = gap_ns ? min_t(u64, div64_u64(sectors << 32, gap_ns), U32_MAX) :
				      U32_MAX;
		ahead_predict(a, flow);
		a->predictable |= BIT(number);
	} else {
		a->predictable &= ~BIT(number);
	}
	a->arrived_ns = arrived_ns;
	flow->present_until_ns =
		arrived_ns + max_t(u64, AHEAD_PRESENT_GAPS * gap_ns, AHEAD_PRESENT_NS_MIN);
	WRITE_ONCE(a->predicted, ahead_overloaded(a) ? 0 : a->predictable);
	a->unpredicted = (a->unpredicted | BIT(number) | a->predictable) & ~a->predicted;
	ahead_apply(a);
}

/* A real-time request left the drive; any context. */
static void ahead_ended(struct ahead *a, unsigned int number, u64 now_ns)
{
	struct ahead_flow *flow = &a->flows[number];
	u64 gap_ns = READ_ONCE(flow->gap_ns);

	WRITE_ONCE(flow->device_ns, now_ns - READ_ONCE(flow->began_ns));
	WRITE_ONCE(flow->ended_ns, now_ns);
	if (gap_ns)
		WRITE_ONCE(flow->due_ns, now_ns + gap_ns);
	smp_mb__before_atomic(); /* pairs with ahead_expects() and ahead_error_ns() */
	atomic_dec(&flow->inflight);
}

/* Is there real-time load that cannot be predicted? */
static bool ahead_has_others(const struct ahead *a, u64 now_ns)
{
	unsigned long flows;

	if ((s64)(now_ns - a->others_until_ns) < 0)
		return true;
	for (flows = a->unpredicted; flows; flows &= flows - 1)
		if ((s64)(now_ns - a->flows[__ffs(flows)].present_until_ns) < 0)
			return true;
	return false;
}

/* The bound now, in sectors; @until_ns: if that is because a request is expected, when the first is overdue; else 0. */
static u64 ahead_limit(const struct ahead *a, u64 now_ns, u64 *until_ns)
{
	u64 limit = a->hi_sectors;
	unsigned long flows;
	bool there = false;

	*until_ns = 0;
	if (!a->slope)
		return min(a->fallback_sectors, a->hi_sectors);
	for (flows = a->predicted; flows; flows &= flows - 1) {
		const struct ahead_flow *flow = &a->flows[__ffs(flows)];
		u64 due_ns, late_ns;
		s64 ns;

		if (!ahead_expects(flow, now_ns)) {
			there |= atomic_read(&flow->inflight) > 0;
			continue;
		}
		there = true;
		due_ns = READ_ONCE(flow->due_ns);
		late_ns = due_ns + flow->late_ns;
		*until_ns = *until_ns ? min(*until_ns, late_ns) : late_ns;
		ns = due_ns - now_ns - a->lead_ns;
		limit = min(limit,
			    a->lo_sectors + (ns > 0 ? mul_u64_u32_shr(ns, a->slope, 32) : 0));
	}
	if (limit >= a->hi_sectors)
		*until_ns = 0;
	return there && !ahead_has_others(a, now_ns) ? limit : min(limit, a->fallback_sectors);
}

static u64 ahead_allows(struct ahead *a, struct bound_request *r)
{
	u64 until_ns, limit;

	if (!a->on || !r->sectors)
		return BOUND_YES;
	limit = ahead_limit(a, r->now_ns, &until_ns);
	if (r->met + r->sectors <= limit)
		return BOUND_YES;
	r->limit = limit;
	/* a drive that is held back does not show what it can do */
	if (until_ns)
		a->full_sectors = 0;
	if (r->requests || r->met)
		return BOUND_AT_END;
	if (!until_ns || r->sectors > a->hi_sectors)
		return BOUND_YES;
	if (!a->held_ns)
		a->held_ns = r->now_ns;
	if ((s64)(r->now_ns - a->held_ns) > (s64)a->patience_ns)
		return BOUND_YES;
	return min(until_ns, a->held_ns + a->patience_ns) + 1;
}

/* Adds up what the drive serves; computes the rate after AHEAD_RATE_BOUNDS times what is in the drive. */
static void ahead_learn_rate(struct ahead *a, u64 inflight_sectors)
{
	u32 rate;

	if (a->served_sectors < AHEAD_RATE_BOUNDS * inflight_sectors || !a->served_ns)
		return;
	rate = min_t(u64, div64_u64(a->served_sectors << 32, a->served_ns), U32_MAX);
	if (rate > a->rate)
		a->rate = a->rate ? a->rate + (rate - a->rate) / 2 : rate;
	else
		a->rate -= (a->rate - rate) / AHEAD_RATE_MEMORY;
	a->served_sectors = 0;
	a->served_ns = 0;
	ahead_apply(a);
}

/**
 * ahead_went() - a background request goes to the drive: learn what that serves
 * @a: the drive's bound
 * @sectors: sectors of it
 * @inflight_sectors: sectors in the drive, with it
 * @full: nothing more fits below any bound
 * @beside_rt: a real-time request is in the drive
 * @now_ns: the time
 *
 * The rate shows while as much is in the drive as may be, or as the background has at a time: what the background sends then
 * replaces what has ended. What makes it more than before is no replacement. Beside real-time requests the drive does less for the
 * background.
 */
static void ahead_went(struct ahead *a, u64 sectors, u64 inflight_sectors, bool full,
		       bool beside_rt, u64 now_ns)
{
	u64 before = a->full_sectors, until_ns;

	a->held_ns = 0;
	if (beside_rt) {
		a->full_sectors = 0;
		return;
	}
	if (!sectors)
		return;
	a->peak_sectors = max(inflight_sectors, a->peak_sectors - a->peak_sectors / 64);
	if (before && inflight_sectors >= before / 4 * 3) {
		if (inflight_sectors <= before)
			a->served_sectors += sectors;
		a->served_ns += now_ns - a->full_ns;
		a->full_sectors = max(before, inflight_sectors);
	} else {
		full |= inflight_sectors >= a->peak_sectors / 4 * 3 ||
			inflight_sectors + sectors > ahead_limit(a, now_ns, &until_ns);
		a->full_sectors = full ? inflight_sectors : 0;
	}
	a->full_ns = now_ns;
	ahead_learn_rate(a, inflight_sectors);
}
