// SPDX-License-Identifier: GPL-2.0-only
/* The bound that looks ahead: see ahead.h. Included by k2.c. */
#include <linux/bitops.h>
#include <linux/kernel.h>
#include <linux/math64.h>
#include <linux/string.h>

#include "ahead.h"
#include "arrivals.c"

/*
 * How long a real-time request is in a drive that is otherwise idle; 0: not known. What it was seen to be there may be much
 * longer as long as the drive is never idle when one comes, but not longer than is of use.
 */
static u32 ahead_device_ns(const struct ahead *a)
{
	u32 longest_ns = 0, gap_ns = U32_MAX;
	unsigned long flows;

	for (flows = a->predictable; flows; flows &= flows - 1) {
		const struct ahead_flow *flow = &a->flows[__ffs(flows)];

		longest_ns = max(longest_ns, flow->least_ns);
		gap_ns = min(gap_ns, arrivals_gap_ns(&flow->arrivals));
	}
	return min(longest_ns, gap_ns / AHEAD_LEAD_TIMES / AHEAD_LEAD_SHARE);
}

/*
 * For which share of the time would the bound be at its least? Little of it costs little, and then that is nothing at all;
 * what is above a quarter is made good, by up to a quarter of hi.
 */
static u32 ahead_scarcity(const struct ahead *a, u32 lead_ns)
{
	unsigned long flows;
	u32 share = 0;

	for (flows = a->predictable; flows; flows &= flows - 1) {
		const struct arrivals *arrivals = &a->flows[__ffs(flows)].arrivals;
		const struct arrivals_gaps *gaps = &arrivals->gaps[arrivals->way];
		u64 low_ns = (u64)lead_ns + gaps->mean - gaps->early;

		share += div_u64(low_ns << AHEAD_SCARCITY_SHIFT, max(gaps->mean, 1U));
	}
	share = min(share, 1U << AHEAD_SCARCITY_SHIFT);
	return share > AHEAD_SCARCITY_FREE ? (share - AHEAD_SCARCITY_FREE) / 4 : 0;
}

/* What finds itself, from what was learned of the drive. */
static void ahead_apply(struct ahead *a)
{
	u32 device_ns = ahead_device_ns(a), lo = a->set_lo_sectors, hi = a->set_hi_sectors;
	u32 lead_ns = a->set_lead_ns, ramp_pct = a->set_ramp_pct;

	if (hi == AHEAD_AUTO)
		hi = !a->rate || !device_ns ?
			     AHEAD_HI_SECTORS_FIRST :
			     max_t(u64, AHEAD_HI_SECTORS_MIN,
				   mul_u64_u32_shr((u64)device_ns * AHEAD_HI_HALVES / 2, a->rate,
						   32));
	if (lead_ns == AHEAD_AUTO)
		lead_ns = AHEAD_LEAD_TIMES * device_ns;
	if (lo == AHEAD_AUTO)
		lo = (u64)hi * ahead_scarcity(a, lead_ns) >> AHEAD_SCARCITY_SHIFT;
	if (ramp_pct == AHEAD_AUTO)
		ramp_pct = AHEAD_RAMP_PCT;
	WRITE_ONCE(a->lo_sectors, min(lo, hi));
	WRITE_ONCE(a->hi_sectors, hi);
	WRITE_ONCE(a->lead_ns, lead_ns);
	WRITE_ONCE(a->slope, div_u64((u64)a->rate * ramp_pct, 100));
}

/* Each a number, or AHEAD_AUTO; @placebo: at random times; @pauses: it only learns. */
static void ahead_configure(struct ahead *a, bool placebo, bool pauses, u32 lo_sectors,
			    u32 hi_sectors, u32 lead_ns, u32 ramp_pct)
{
	WRITE_ONCE(a->pauses, pauses);
	if (placebo != !!a->dice)
		a->dice = placebo ? AHEAD_DICE_FIRST : 0;
	a->set_lo_sectors = lo_sectors;
	a->set_hi_sectors = hi_sectors;
	a->set_lead_ns = lead_ns;
	a->set_ramp_pct = ramp_pct;
	ahead_apply(a);
}

/* Twice the longest gap of those that are predicted, as of late. */
static u64 ahead_patience_ns(const struct ahead *a, const struct arrivals *arrivals)
{
	u64 gap_ns = 2ULL * arrivals->gaps[ARRIVALS_FROM_ARRIVAL].mean;

	return max(gap_ns, a->patience_ns - (a->patience_ns >> 5));
}

/*
 * The control: a span as long as that in which the flow would be expected, anywhere in its gap; xorshift (Marsaglia, "Xorshift
 * RNGs", 2003). Return: from where on, in ns.
 */
static u32 ahead_roll(struct ahead *a, u32 gap_ns)
{
	a->dice ^= a->dice << 13;
	a->dice ^= a->dice >> 17;
	a->dice ^= a->dice << 5;
	return max_t(u32, mul_u64_u32_shr(gap_ns, a->dice, 32), 1);
}

/* Of a flow that comes in time: when it is expected next, unless that is decided when its request ends. */
static void ahead_predict(struct ahead *a, struct ahead_flow *flow)
{
	const struct arrivals *arrivals = &flow->arrivals;
	bool from_end = arrivals->way == ARRIVALS_FROM_END;
	u32 gap_ns = arrivals_gap_ns(arrivals), late_ns = arrivals_late_ns(arrivals);

	if (unlikely(a->dice)) {
		late_ns = arrivals->gaps[arrivals->way].mean - gap_ns;
		gap_ns = ahead_roll(a, gap_ns);
	}
	if (!from_end)
		WRITE_ONCE(flow->due_ns, arrivals_origin_ns(arrivals) + gap_ns);
	WRITE_ONCE(flow->gap_ns, from_end ? gap_ns : 0);
	WRITE_ONCE(flow->late_ns, late_ns);
	WRITE_ONCE(a->patience_ns, ahead_patience_ns(a, arrivals));
}

/* Should it not be predicted, it counts as there for a while. */
static void ahead_be_present(struct ahead_flow *flow, u64 arrived_ns)
{
	u64 gaps_ns = (u64)AHEAD_PRESENT_GAPS * flow->arrivals.gaps[ARRIVALS_FROM_ARRIVAL].mean;

	WRITE_ONCE(flow->present_until_ns, arrived_ns + max_t(u64, gaps_ns, AHEAD_PRESENT_NS_MIN));
}

/* Do those that can be predicted need more than their share of the drive? */
static bool ahead_overloaded(const struct ahead *a)
{
	unsigned long flows;
	u64 load = 0;

	for (flows = a->predictable; flows; flows &= flows - 1)
		load += a->flows[__ffs(flows)].load;
	return a->rate && load > a->rate / AHEAD_LOAD_SHARE;
}

/*
 * The flow that is gone for longest, whose place another may take; AHEAD_FLOWS: none is. A flow is gone when none of it is
 * under way and it does not count as there any more: its next arrival would come after a silence, and all be forgotten. With
 * the caller's lock.
 */
static unsigned int ahead_gone(const struct ahead *a, u64 now_ns)
{
	unsigned int i, number = AHEAD_FLOWS;
	u64 until_ns = now_ns;

	for (i = 0; i < AHEAD_FLOWS; i++) {
		const struct ahead_flow *flow = &a->flows[i];

		if (atomic_read(&flow->under_way) || flow->present_until_ns >= until_ns)
			continue;
		until_ns = flow->present_until_ns;
		number = i;
	}
	return number;
}

/* Another takes this place. Who looks at the flow meanwhile sees one that restricts nothing. With the caller's lock. */
static void ahead_forget(struct ahead *a, unsigned int number)
{
	unsigned long bit = 1UL << number;

	a->predictable &= ~bit;
	WRITE_ONCE(a->predicted, a->predicted & ~bit);
	WRITE_ONCE(a->unpredicted, a->unpredicted & ~bit);
	memset(&a->flows[number], 0, sizeof(a->flows[number]));
}

/* A real-time request goes to the drive of which no flow is known. With the caller's lock. */
static void ahead_arrive_alone(struct ahead *a, u64 arrived_ns)
{
	WRITE_ONCE(a->others_until_ns, arrived_ns + AHEAD_PRESENT_NS_MIN);
}

/**
 * ahead_arrive() - a real-time request goes to the drive
 * @a: of the drive
 * @number: of its flow
 * @sectors: of it
 * @write: it is one
 * @arrived_ns: when it came
 * @now_ns: the time
 *
 * With the caller's lock.
 */
static void ahead_arrive(struct ahead *a, unsigned int number, unsigned int sectors, bool write,
			 u64 arrived_ns, u64 now_ns)
{
	struct ahead_flow *flow = &a->flows[number];
	struct arrivals *arrivals = &flow->arrivals;
	unsigned long bit = 1UL << number;
	bool alone = !atomic_read(&flow->under_way);
	u32 device_ns = READ_ONCE(flow->device_ns);

	if (alone && device_ns)
		flow->least_ns =
			flow->least_ns ?
				min(device_ns,
				    flow->least_ns + flow->least_ns / AHEAD_LEAST_REQUESTS) :
				device_ns;
	WRITE_ONCE(flow->began_ns, now_ns);
	atomic_inc(&flow->under_way);
	flow->writes = flow->writes << 1 | write;
	arrivals_note(arrivals, arrived_ns, READ_ONCE(flow->ended_ns), alone);
	if (arrivals_predictable(arrivals) && !flow->writes &&
	    (a->set_lead_ns == AHEAD_AUTO || arrivals_gap_ns(arrivals) / 2 >= a->set_lead_ns)) {
		flow->load = div_u64((u64)sectors << 32,
				     max(arrivals->gaps[ARRIVALS_FROM_ARRIVAL].mean, 1U));
		ahead_predict(a, flow);
		a->predictable |= bit;
	} else {
		a->predictable &= ~bit;
	}
	ahead_be_present(flow, arrived_ns);
	WRITE_ONCE(a->unpredicted, a->unpredicted | bit);
	if (ahead_overloaded(a)) {
		WRITE_ONCE(a->unpredicted, a->unpredicted | a->predictable);
		WRITE_ONCE(a->predicted, 0);
	} else {
		WRITE_ONCE(a->unpredicted, a->unpredicted & ~a->predictable);
		WRITE_ONCE(a->predicted, a->predictable);
	}
	ahead_apply(a);
}

/* It left the drive; any context. */
static void ahead_end(struct ahead *a, unsigned int number, u64 now_ns)
{
	struct ahead_flow *flow = &a->flows[number];
	u32 gap_ns = READ_ONCE(flow->gap_ns);

	WRITE_ONCE(flow->device_ns, min_t(u64, now_ns - READ_ONCE(flow->began_ns), U32_MAX / 4));
	WRITE_ONCE(flow->ended_ns, now_ns);
	if (gap_ns)
		WRITE_ONCE(flow->due_ns, now_ns + gap_ns);
	smp_mb__before_atomic(); /* pairs with ahead_restricts() */
	atomic_dec(&flow->under_way);
}

/* Does this flow keep the bound down now? */
static bool ahead_restricts(const struct ahead_flow *flow, u64 now_ns)
{
	if (atomic_read(&flow->under_way))
		return false;
	smp_rmb(); /* pairs with ahead_end() */
	return (s64)(now_ns - READ_ONCE(flow->due_ns)) <= (s64)READ_ONCE(flow->late_ns);
}

/* Is somebody there who cannot be predicted? */
static bool ahead_has_others(const struct ahead *a, u64 now_ns)
{
	unsigned long flows;

	if ((s64)(now_ns - READ_ONCE(a->others_until_ns)) < 0)
		return true;
	for (flows = READ_ONCE(a->unpredicted); flows; flows &= flows - 1)
		if ((s64)(now_ns - READ_ONCE(a->flows[__ffs(flows)].present_until_ns)) < 0)
			return true;
	return false;
}

/**
 * ahead_limit() - most of the background that may be in the drive now
 * @a: of the drive
 * @fixed_sectors: the bound where nothing is predicted
 * @now_ns: the time
 * @soon_ns: the bound is that of so much later, by which it falls
 * @until_ns: if that is because a request is expected, when the first of those is overdue; else 0
 *
 * Any context, no lock.
 *
 * Return: sectors.
 */
static unsigned int ahead_limit(const struct ahead *a, unsigned int fixed_sectors, u64 now_ns,
				u32 soon_ns, u64 *until_ns)
{
	unsigned int lo = READ_ONCE(a->lo_sectors), hi = READ_ONCE(a->hi_sectors);
	u32 slope = READ_ONCE(a->slope);
	unsigned int limit = hi;
	unsigned long flows;
	bool there = false;

	*until_ns = 0;
	if (READ_ONCE(a->pauses))
		return fixed_sectors;
	if (!slope)
		return min(fixed_sectors, hi);
	for (flows = READ_ONCE(a->predicted); flows; flows &= flows - 1) {
		const struct ahead_flow *flow = &a->flows[__ffs(flows)];
		u64 due_ns = READ_ONCE(flow->due_ns), late_ns = due_ns + READ_ONCE(flow->late_ns);
		s64 ns;

		if (!ahead_restricts(flow, now_ns)) {
			there |= atomic_read(&flow->under_way) > 0;
			continue;
		}
		there = true;
		ns = due_ns - now_ns - soon_ns - READ_ONCE(a->lead_ns);
		*until_ns = *until_ns ? min(*until_ns, late_ns) : late_ns;
		limit = min_t(u64, limit, lo + (ns > 0 ? mul_u64_u32_shr(ns, slope, 32) : 0));
	}
	if (!there)
		return fixed_sectors;
	if (limit >= hi)
		*until_ns = 0;
	return ahead_has_others(a, now_ns) ? min(limit, fixed_sectors) : limit;
}

/* For ahead_limit(): what there is room for now must still fit so much later, if who asks will ask again. */
static inline u32 ahead_soon_ns(const struct ahead *a, bool soon)
{
	return soon ? READ_ONCE(a->lead_ns) / AHEAD_SOON : 0;
}

/**
 * ahead_has_room() - may the background have so much more in the drive?
 * @a: of the drive
 * @sectors: of its next request
 * @inflight_sectors: what is in the drive, in @inflight requests
 * @inflight: how many that are
 * @fixed_sectors: the bound where nothing is predicted
 * @now_ns: the time
 * @soon: who asks will ask again a little later: what there is room for now must still fit then, though the bound falls
 * @until_ns: if not, and nothing else may ever change that: when to ask again; else 0
 *
 * Nothing is held for ever. An idle drive is held free for a request that is expected, but where one after the other is,
 * not for longer than twice the longest wait for one: then something goes alone.
 *
 * Any context, no lock.
 */
static bool ahead_has_room(struct ahead *a, unsigned int sectors, unsigned int inflight_sectors,
			   unsigned int inflight, unsigned int fixed_sectors, u64 now_ns, bool soon,
			   u64 *until_ns)
{
	unsigned int limit =
		ahead_limit(a, fixed_sectors, now_ns, ahead_soon_ns(a, soon), until_ns);
	u64 held_ns;

	if (sectors <= limit && inflight_sectors <= limit - sectors)
		return true;
	/* who is held does not show what the drive can do */
	if (*until_ns && READ_ONCE(a->full_sectors))
		WRITE_ONCE(a->full_sectors, 0);
	if (inflight) {
		*until_ns = 0;
		return false;
	}
	if (!*until_ns || sectors > READ_ONCE(a->hi_sectors))
		return true;
	held_ns = READ_ONCE(a->held_ns);
	if (!held_ns) {
		held_ns = now_ns;
		WRITE_ONCE(a->held_ns, held_ns);
	}
	*until_ns = min(*until_ns, held_ns + READ_ONCE(a->patience_ns)) + 1;
	return (s64)(now_ns - held_ns) > (s64)READ_ONCE(a->patience_ns);
}

/*
 * What the drive serves is seen while as much is in it as the bound allows, or as the background has at a time, and no
 * prediction holds it: what the background sends then replaces what has ended. What makes it more than it was before is
 * no replacement. With the caller's lock, at each dispatch of the background; @inflight_sectors is with it, @full if no
 * more requests may go.
 */
static void ahead_learn(struct ahead *a, unsigned int sectors, unsigned int inflight_sectors,
			bool full, unsigned int fixed_sectors, u64 now_ns)
{
	unsigned int before = READ_ONCE(a->full_sectors);
	u64 until_ns;
	u32 rate;

	a->peak_sectors = max(inflight_sectors, a->peak_sectors - a->peak_sectors / 64);
	if (before && inflight_sectors >= before / 4 * 3) {
		if (inflight_sectors <= before)
			a->served_sectors += sectors;
		a->served_ns += now_ns - a->full_ns;
		WRITE_ONCE(a->full_sectors, max(before, inflight_sectors));
	} else {
		full |= inflight_sectors >= a->peak_sectors / 4 * 3 ||
			inflight_sectors + sectors >
				ahead_limit(a, fixed_sectors, now_ns, 0, &until_ns);
		WRITE_ONCE(a->full_sectors, full ? inflight_sectors : 0);
	}
	a->full_ns = now_ns;
	if (a->served_sectors < (u64)AHEAD_RATE_BOUNDS * inflight_sectors || !a->served_ns)
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
