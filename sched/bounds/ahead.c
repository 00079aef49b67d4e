// SPDX-License-Identifier: GPL-2.0-only
/* The look-ahead bound: see ahead.h. Included by the scheduler. */
#include <linux/bitops.h>
#include <linux/string.h>

#include "ahead.h"
#include "arrivals.c"
#include "estimate.h"
#include "../experiments.c"

/* Recomputes the bound's parameters from what was learned about the drive and about the flows that are present. */
static void ahead_apply(struct ahead *a)
{
	u64 device_ns = 0, gap_ns = U64_MAX, load = 0, share = 0;
	u64 hi = AHEAD_HI_SECTORS_FIRST, fallback = AHEAD_FALLBACK_SECTORS_FIRST;
	unsigned long predicted = 0;
	unsigned int i;

	a->others_until_ns = 0;
	a->patience_ns = 0;
	for (i = 0; i <= AHEAD_FLOWS; i++) {
		const struct ahead_flow *flow = &a->flows[i];
		const struct arrivals *arrivals = &flow->arrivals;
		const struct arrivals_gaps *gaps = &arrivals->gaps[arrivals->way];

		if (flow->present_until_ns < a->arrived_ns)
			continue;
		device_ns = max(device_ns, READ_ONCE(flow->least_ns));
		if (!flow->predictable) {
			a->others_until_ns = max(a->others_until_ns, flow->present_until_ns);
			continue;
		}
		predicted |= BIT(i);
		a->patience_ns =
			max(a->patience_ns, 2 * arrivals->gaps[ARRIVALS_FROM_ARRIVAL].mean);
		gap_ns = min(gap_ns, gaps->early);
		load += flow->load;
		share += div64_u64((a->lead_ns + gaps->mean - gaps->early) << AHEAD_SHARE_SHIFT,
				   max_t(u64, gaps->mean, 1));
	}
	if (load > a->rate / AHEAD_LOAD_SHARE) {
		predicted = 0;
		gap_ns = U64_MAX;
	}
	if (a->rate && device_ns)
		fallback = rate_sectors(a->rate, AHEAD_FALLBACK_HALVES * device_ns / 2);
	/* if requests never found the drive idle, d is too large: limit it to what the lead can use */
	device_ns = min(device_ns, gap_ns / AHEAD_LEAD_TIMES / AHEAD_LEAD_SHARE);
	if (a->rate && predicted)
		hi = rate_sectors(a->rate, AHEAD_HI_HALVES * device_ns / 2);
	hi = max_t(u64, hi, AHEAD_SECTORS_MIN);
	share = clamp_t(u64, share, AHEAD_SHARE_FREE, 1 << AHEAD_SHARE_SHIFT) - AHEAD_SHARE_FREE;
	a->predicted = predicted;
	a->lo_sectors = hi * share >> (AHEAD_SHARE_SHIFT + 2);
	a->hi_sectors = hi;
	a->fallback_sectors = a->has_fallback ? clamp_t(u64, fallback, AHEAD_SECTORS_MIN, hi) : hi;
	a->lead_ns = AHEAD_LEAD_TIMES * device_ns;
	a->slope = div_u64((u64)a->rate * AHEAD_RAMP_PCT, 100);
	experiment_numbers(a);
}

/**
 * ahead_change() - set the parameters from the knobs and the latency target
 * @a: the drive's bound
 * @on: the bound is in force
 * @has_fallback: the fallback is in force
 */
static void ahead_change(struct ahead *a, bool on, bool has_fallback)
{
	a->on = on;
	a->has_fallback = has_fallback;
	a->full_sectors = 0;
	ahead_apply(a);
}

/* Has a flow no request in the drive? Then the time of its latest completion is known. */
static inline bool ahead_is_idle(const struct ahead_flow *flow)
{
	bool idle = !atomic_read(&flow->inflight);

	smp_rmb(); /* pairs with ahead_ended() */
	return idle;
}

/* When the next request of a flow is expected, and when it is overdue. */
static inline void ahead_expect(const struct ahead *a, const struct arrivals *arrivals, u64 *due_ns,
				u64 *overdue_ns)
{
	*due_ns = READ_ONCE(arrivals->origin_ns[arrivals->way]) + arrivals_gap_ns(arrivals);
	*overdue_ns = *due_ns + arrivals_late_ns(arrivals) + 1;
	experiment_prediction(a, arrivals, due_ns, overdue_ns);
}

/*
 * Return: the number of the flow of this level and cgroup. A new flow replaces the flow that has been gone for longest: one that has no
 * request in the drive and no longer counts as present. Nothing useful is lost: its next arrival would end a silence, after which the bound
 * learns anew in any case. If no flow is gone, a new flow shares the last number.
 */
static unsigned int ahead_find(struct ahead *a, unsigned int level, u64 key, u64 now_ns)
{
	unsigned int i, gone = AHEAD_FLOWS;
	u64 until_ns = now_ns;

	for (i = 0; i < AHEAD_FLOWS; i++) {
		const struct ahead_flow *flow = &a->flows[i];

		if (flow->level == level && flow->key == key)
			return i;
		if (flow->present_until_ns < until_ns && !atomic_read(&flow->inflight)) {
			until_ns = flow->present_until_ns;
			gone = i;
		}
	}
	if (gone == AHEAD_FLOWS)
		return gone;
	memset(&a->flows[gone], 0, sizeof(a->flows[gone]));
	a->flows[gone].level = level;
	a->flows[gone].key = key;
	a->predicted &= ~BIT(gone);
	return gone;
}

/**
 * ahead_rt_went() - account for the dispatch of a real-time request
 * @a: the drive's bound
 * @number: number of its flow
 * @sectors: its size
 * @writes: it is a write; its arrival is not used for prediction, because its time in the drive does not depend on the load
 * @arrived_ns: time of its arrival
 * @now_ns: the time
 *
 * Return: its arrival time minus the expected one in ns, or AHEAD_UNPREDICTED if no request was expected.
 */
static s64 ahead_rt_went(struct ahead *a, unsigned int number, u64 sectors, bool writes,
			 u64 arrived_ns, u64 now_ns)
{
	struct ahead_flow *flow = &a->flows[number];
	bool alone = ahead_is_idle(flow);
	bool expected = alone && a->predicted & BIT(number);
	u64 due_ns, overdue_ns, gap_ns;

	ahead_expect(a, &flow->arrivals, &due_ns, &overdue_ns);
	WRITE_ONCE(flow->began_ns, now_ns);
	atomic_inc(&flow->inflight);
	arrivals_note(&flow->arrivals, arrived_ns, alone && !writes);
	gap_ns = flow->arrivals.gaps[ARRIVALS_FROM_ARRIVAL].mean;
	flow->predictable = arrivals_predictable(&flow->arrivals);
	flow->load = rate_of(sectors, gap_ns);
	flow->present_until_ns =
		arrived_ns + max_t(u64, AHEAD_PRESENT_GAPS * gap_ns, AHEAD_PRESENT_NS_MIN);
	a->arrived_ns = arrived_ns;
	ahead_apply(a);
	return expected ? (s64)(arrived_ns - due_ns) : AHEAD_UNPREDICTED;
}

/* Accounts for a completed real-time request; any context. */
static void ahead_ended(struct ahead *a, unsigned int number, u64 now_ns)
{
	struct ahead_flow *flow = &a->flows[number];
	u64 took_ns = now_ns - READ_ONCE(flow->began_ns);

	if (atomic_read(&flow->inflight) == 1)
		WRITE_ONCE(flow->least_ns,
			   recent_min(READ_ONCE(flow->least_ns), took_ns, AHEAD_DEVICE_MEMORY));
	WRITE_ONCE(flow->arrivals.origin_ns[ARRIVALS_FROM_END], now_ns);
	smp_mb__before_atomic(); /* pairs with ahead_is_idle() */
	atomic_dec(&flow->inflight);
}

/*
 * Return: the bound at @now_ns, in sectors. @until_ns is set to the time at which the first expected request is overdue, if an expected
 * request lowers the bound, and otherwise to BOUND_AT_END.
 */
static u64 ahead_limit(const struct ahead *a, u64 now_ns, u64 *until_ns)
{
	u64 limit = a->hi_sectors, due_ns, overdue_ns;
	bool none = true;
	unsigned long flows;

	*until_ns = BOUND_AT_END;
	for (flows = a->predicted; flows; flows &= flows - 1) {
		const struct ahead_flow *flow = &a->flows[__ffs(flows)];
		bool idle = ahead_is_idle(flow);
		s64 ns;

		ahead_expect(a, &flow->arrivals, &due_ns, &overdue_ns);
		if (idle && (s64)(now_ns - overdue_ns) >= 0)
			continue;
		none = false;
		if (!idle)
			continue;
		ns = due_ns - now_ns - a->lead_ns;
		limit = min(limit, a->lo_sectors + (ns > 0 ? rate_sectors(a->slope, ns) : 0));
		*until_ns = min(*until_ns, overdue_ns);
	}
	if (limit == a->hi_sectors)
		*until_ns = BOUND_AT_END;
	return none || now_ns < a->others_until_ns ? min(limit, a->fallback_sectors) : limit;
}

static u64 ahead_allows(struct ahead *a, struct bound_request *r)
{
	u64 until_ns, held_until_ns;

	if (!a->on || !r->sectors)
		return BOUND_YES;
	r->limit = ahead_limit(a, r->now_ns, &until_ns);
	if (r->met + r->sectors <= r->limit)
		return BOUND_YES;
	/* a drive held back for an expected request does not show its full rate: interrupt the measurement */
	if (until_ns != BOUND_AT_END)
		a->full_sectors = 0;
	if (r->requests || r->met)
		return r->now_ns < a->others_until_ns ? min(until_ns, a->others_until_ns) :
							until_ns;
	if (until_ns == BOUND_AT_END || r->sectors > a->hi_sectors)
		return BOUND_YES;
	if (!a->held_ns)
		a->held_ns = r->now_ns;
	held_until_ns = a->held_ns + a->patience_ns + 1;
	return r->now_ns < held_until_ns ? min(until_ns, held_until_ns) : BOUND_YES;
}

/**
 * ahead_went() - account for the dispatch of a background request, and measure the drive's rate
 * @a: the drive's bound
 * @sectors: its size
 * @inflight_sectors: sectors in the drive, including it
 * @beside_rt: a real-time request is in the drive
 * @now_ns: the time
 *
 * The rate is measured while the drive is full, from the sectors that completed between two dispatches. The drive counts as full when it
 * holds at least three quarters of the recent maximum. Nothing is measured while a real-time request is in the drive, because the
 * background then gets only a part of the drive's rate.
 */
static void ahead_went(struct ahead *a, u64 sectors, u64 inflight_sectors, bool beside_rt,
		       u64 now_ns)
{
	u64 before = a->full_sectors;

	a->held_ns = 0;
	a->full_sectors = 0;
	if (beside_rt)
		return;
	a->peak_sectors = recent_max(a->peak_sectors, inflight_sectors, AHEAD_PEAK_MEMORY);
	if (inflight_sectors < a->peak_sectors / 4 * 3)
		return;
	if (before) {
		a->served_sectors += before + sectors - inflight_sectors;
		a->served_ns += now_ns - a->full_ns;
	}
	a->full_sectors = inflight_sectors;
	a->full_ns = now_ns;
	if (a->served_sectors < AHEAD_RATE_BOUNDS * inflight_sectors || !a->served_ns)
		return;
	a->rate = recent_max(a->rate, rate_of(a->served_sectors, a->served_ns), AHEAD_RATE_MEMORY);
	a->served_sectors = 0;
	a->served_ns = 0;
	ahead_apply(a);
}
