/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The bound that looks ahead: it falls as the next real-time request is expected (arrivals.h), so that little of the background is in the
 * drive when that request arrives. With T the time until the earliest expected arrival, the background may have
 *
 *	lo + ramp * rate * (T - lead), at most hi; lo if T is less than lead
 *
 * bytes in the drive. rate is what the drive was seen to serve. The limit is the least over all flows that may be next: a flow whose
 * request is in the drive restricts nothing until that request ends, and an overdue flow is not waited for. While a flow is present that
 * cannot be predicted, the limit is at most the fallback; where none is expected, it is the fallback, and at most hi if one was predicted.
 *
 * The target (target.h) sets lo and the fallback. The others follow from the rate and from d, the time that a real-time read takes in
 * an idle drive: lead is d, and hi is what keeps the drive busy, lo plus what it serves in 3 d. If the target asks for less than
 * AHEAD_LEAD_SECTORS, lo is AHEAD_LEAD_SECTORS, none of the background is let go within the lead, and lead grows as the target asks for less.
 *
 * An idle drive is held free for an expected request for at most twice the longest recent gap between two of them.
 */
#ifndef TAILGATE_SCHED_AHEAD_H
#define TAILGATE_SCHED_AHEAD_H

#include <linux/atomic.h>
#include <linux/bitops.h>

#include "arrivals.h"
#include "bound.h"
#include "estimate.h"
#include "../experiments.h"

/* Flows that have a place of their own; all others share one more. */
#ifndef AHEAD_FLOWS
#define AHEAD_FLOWS 16
#endif

/* A flow counts as present for this many of its gaps after an arrival, and for this long at least. */
#define AHEAD_PRESENT_GAPS 8
#define AHEAD_PRESENT_NS_MIN 100000000ULL

/* d is the least time of about 2^AHEAD_DEVICE_MEMORY reads. */
#define AHEAD_DEVICE_MEMORY 10
/*
 * A flow is not predicted before the rate is known: held back, the drive would not show it. Nor, with a target, if the time from the end of
 * its requests to the next one is less than this many d: it would be in the drive, where it restricts nothing, for much of the time, and the
 * background could not leave in between. Without a target the fallback stays as it is. It may be so large that no request shows d.
 */
#define AHEAD_FREE_TIMES 3
/*
 * hi is lo plus what the drive serves in this many d: with less the background loses throughput, with more a wrong prediction costs more. It
 * is at least lo plus 4 KiB, and lo plus 128 KiB before rate and d are known.
 */
#define AHEAD_HI_TIMES 3
#define AHEAD_HI_SECTORS_MIN 8
#define AHEAD_HI_SECTORS_FIRST 256
/*
 * The ramp, in percent. For p99.9 it is flatter: beside 4 KiB reads that leaves the background 3 % more at the
 * same target, and beside 64 KiB reads 2 % less (tried).
 */
#define AHEAD_RAMP_PCT 25
#define AHEAD_RAMP_PCT_RARE 20
/*
 * A target that asks for less than this cannot be met with a background request in the drive: none is let go within the lead, which is d times
 * the square of this over what is asked for: up to 64 d, as that is two sectors at least. Rare long reads of the background then end before
 * the expected request arrives. They may last longer than the gap: with a lead of all of it, the background gets next to nothing.
 */
#define AHEAD_LEAD_SECTORS 16
/* The fallback without a target. */
#define AHEAD_FALLBACK_SECTORS 128

/* The rate is taken over this many times what is in the drive. It is the largest of about the latest 2^AHEAD_MEMORY. */
#define AHEAD_RATE_BOUNDS 16
/* The drive is full with three quarters of the most that was in it at about the latest 2^AHEAD_MEMORY dispatches. */
#define AHEAD_MEMORY 6

/* How late a request arrived that was not predicted. */
#define K2_UNPREDICTED S64_MAX

/**
 * struct ahead_flow - one flow of real-time requests: those of one level and cgroup; times in ns
 * @level: real-time level
 * @key: identity of the cgroup
 * @inflight: its requests in the drive
 * @began_ns: when the latest one went to the drive
 * @least_ns: d: least time in the drive of a read that was the flow's only request there, of late
 * @present_until_ns: it counts as present until then
 * @arrivals: what is known of its arrivals
 */
struct ahead_flow {
	u8 level;
	u64 key;
	atomic_t inflight;
	u64 began_ns, least_ns, present_until_ns;
	struct arrivals arrivals;
};

/**
 * struct ahead - the bound on one drive
 * @learns: arrivals and the rate are learned
 * @on: the bound is in force
 * @asked_sectors: what the target asks for as @lo_sectors; 0: there is no target
 * @lo_sectors: lo: limit when the lead begins
 * @lead_sectors: limit within the lead: @lo_sectors, or 0 if the target asks for less than AHEAD_LEAD_SECTORS
 * @hi_sectors: largest limit
 * @fallback_sectors: limit where nothing is predicted
 * @device_ns: d of the flow that was predicted last
 * @lead_ns: the lead: time before an expected arrival at which the limit reaches @lo_sectors
 * @slope: growth of the limit with the time until the arrival, a rate
 * @rate: what the drive serves
 * @ramp_pct: @slope in percent of @rate
 * @predicted: bitmap of flows that are predicted
 * @others_until_ns: until then a flow is present that is not predicted
 * @other: number of that flow
 * @served_sectors: sectors since the rate was computed last, while the drive was full
 * @served_ns: time in which they were served
 * @peak_sectors: most that was in the drive, of late
 * @full_sectors: in the drive after the background's latest dispatch, if that is full; else 0
 * @full_ns: time of that dispatch
 * @held_ns: since when an idle drive is held free; 0: it is not
 * @patience_ns: it is for this long at most
 * @flows: by number; the last one is all that have no place of their own
 */
struct ahead {
	bool learns, on;
	u64 asked_sectors, lo_sectors, lead_sectors, hi_sectors, fallback_sectors;
	u64 device_ns, lead_ns;
	u32 slope, rate, ramp_pct;
	unsigned long predicted;
	u64 others_until_ns;
	unsigned int other;
	u64 served_sectors, served_ns, peak_sectors, full_sectors, full_ns;
	u64 held_ns, patience_ns;
	struct ahead_flow flows[AHEAD_FLOWS + 1];
};

/* The numbers of the bound that follow from the rate and from d. */
static void ahead_apply(struct ahead *a)
{
	u64 asked = a->asked_sectors, more = AHEAD_HI_SECTORS_FIRST;
	u64 near = min_t(u64, asked ?: AHEAD_LEAD_SECTORS, AHEAD_LEAD_SECTORS);

	if (a->rate && a->device_ns)
		more = max_t(u64, rate_sectors(a->rate, AHEAD_HI_TIMES * a->device_ns),
			     AHEAD_HI_SECTORS_MIN);
	a->lo_sectors = asked ? max_t(u64, asked, AHEAD_LEAD_SECTORS) : 0;
	a->lead_ns = div64_u64(a->device_ns * AHEAD_LEAD_SECTORS * AHEAD_LEAD_SECTORS, near * near);
	a->hi_sectors = a->lo_sectors + more;
	a->slope = div_u64((u64)a->rate * a->ramp_pct, 100);
	experiment_numbers(a);
	a->lead_sectors = near < AHEAD_LEAD_SECTORS ? 0 : a->lo_sectors;
}

/**
 * ahead_change() - what knobs and the target ask for
 * @a: the drive's bound
 * @learns: arrivals and the rate are learned
 * @on: what is learned restricts the background
 * @lo_sectors: least limit while a request is expected
 * @fallback_sectors: limit where nothing is predicted
 * @rare: one request in a thousand may be late, not one in a hundred
 */
static void ahead_change(struct ahead *a, bool learns, bool on, u64 lo_sectors,
			 u64 fallback_sectors, bool rare)
{
	a->learns = learns;
	a->on = learns && on;
	a->asked_sectors = lo_sectors;
	a->fallback_sectors = fallback_sectors;
	a->ramp_pct = rare ? AHEAD_RAMP_PCT_RARE : AHEAD_RAMP_PCT;
	ahead_apply(a);
}

/* Are all real-time requests that may come next predicted? */
static inline bool ahead_foretells(const struct ahead *a, u64 now_ns)
{
	return a->predicted && now_ns >= a->others_until_ns;
}

/* Is nothing of a flow in the drive? Then its latest end is known. */
static inline bool ahead_is_idle(const struct ahead_flow *flow)
{
	return !atomic_read_acquire(&flow->inflight); /* pairs with ahead_ended() */
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
 * The number of a flow. A new one takes the place of the flow that is gone for longest: none of it is in the drive and it does not count as
 * present, so that its next arrival would come after a silence, and all that was learned be forgotten. If none is gone, it shares the last place.
 */
static unsigned int ahead_find(struct ahead *a, unsigned int level, u64 key, u64 now_ns)
{
	unsigned int i, gone = AHEAD_FLOWS;
	u64 until_ns = now_ns;

	for (i = 0; i < AHEAD_FLOWS; i++) {
		const struct ahead_flow *flow = &a->flows[i];

		if (flow->level == level && flow->key == key)
			return i;
		if (flow->present_until_ns < until_ns && ahead_is_idle(flow)) {
			until_ns = flow->present_until_ns;
			gone = i;
		}
	}
	if (gone == AHEAD_FLOWS)
		return gone;
	a->flows[gone] = (struct ahead_flow){ .level = level, .key = key };
	a->predicted &= ~BIT(gone);
	return gone;
}

/* After an arrival: is its flow predicted from now on? */
static void ahead_predict(struct ahead *a, unsigned int number, u64 arrived_ns)
{
	struct ahead_flow *flow = &a->flows[number];
	u64 device_ns = READ_ONCE(flow->least_ns);
	u64 gap_ns = flow->arrivals.gaps[ARRIVALS_FROM_ARRIVAL].mean;
	u64 free_ns = flow->arrivals.gaps[ARRIVALS_FROM_END].mean;
	unsigned long flows;

	flow->present_until_ns =
		arrived_ns + max_t(u64, AHEAD_PRESENT_GAPS * gap_ns, AHEAD_PRESENT_NS_MIN);
	/* one that is gone restricts nothing any more */
	for (flows = a->predicted; flows; flows &= flows - 1)
		if (a->flows[__ffs(flows)].present_until_ns < arrived_ns &&
		    ahead_is_idle(&a->flows[__ffs(flows)]))
			a->predicted &= ~BIT(__ffs(flows));
	if (!a->rate || !arrivals_predictable(&flow->arrivals) ||
	    (a->asked_sectors && device_ns > free_ns / AHEAD_FREE_TIMES)) {
		a->predicted &= ~BIT(number);
		if (a->others_until_ns < flow->present_until_ns) {
			a->others_until_ns = flow->present_until_ns;
			a->other = number;
		}
		return;
	}
	a->predicted |= BIT(number);
	/* further flows that are not predicted set it again as they arrive */
	if (a->other == number)
		a->others_until_ns = 0;
	a->patience_ns = max(2 * gap_ns, a->patience_ns - (a->patience_ns >> 3));
	a->device_ns = device_ns;
	ahead_apply(a);
}

/**
 * ahead_rt_went() - a real-time request goes to the drive
 * @a: the drive's bound
 * @number: of its flow
 * @writes: it is a write: its time says nothing of the drive's queue
 * @arrived_ns: when it arrived
 * @now_ns: the time
 *
 * Return: how much later than expected it arrived, negative for early; K2_UNPREDICTED: it was not expected.
 */
static s64 ahead_rt_went(struct ahead *a, unsigned int number, bool writes, u64 arrived_ns,
			 u64 now_ns)
{
	struct ahead_flow *flow = &a->flows[number];
	bool alone = ahead_is_idle(flow), expected = alone && a->predicted & BIT(number);
	u64 due_ns, overdue_ns;

	ahead_expect(a, &flow->arrivals, &due_ns, &overdue_ns);
	/* counts before began_ns changes, with a barrier: pairs with ahead_ended() */
	atomic_inc_return(&flow->inflight);
	WRITE_ONCE(flow->began_ns, now_ns);
	arrivals_note(&flow->arrivals, arrived_ns, alone && !writes);
	ahead_predict(a, number, arrived_ns);
	return expected ? (s64)(arrived_ns - due_ns) : K2_UNPREDICTED;
}

/* A real-time request left the drive. @read: it is a read that has completed: its time shows d. Any context. */
static void ahead_ended(struct ahead *a, unsigned int number, bool read, u64 now_ns)
{
	struct ahead_flow *flow = &a->flows[number];
	u64 took_ns = now_ns - smp_load_acquire(&flow->began_ns);

	if (read && atomic_read(&flow->inflight) == 1)
		recent_min(&flow->least_ns, took_ns, AHEAD_DEVICE_MEMORY);
	WRITE_ONCE(flow->arrivals.origin_ns[ARRIVALS_FROM_END], now_ns);
	atomic_dec_return_release(&flow->inflight); /* pairs with ahead_is_idle() */
}

/*
 * The limit now, in sectors; at most hi while a flow is predicted, also when all are overdue: it then rises at no time that nothing has named.
 * @until_ns: if it is low because a request is expected, when the first such request is overdue; otherwise BOUND_AT_END.
 */
static u64 ahead_limit(const struct ahead *a, u64 now_ns, u64 *until_ns)
{
	u64 limit = a->predicted ? a->hi_sectors : BOUND_NONE, due_ns, overdue_ns;
	bool expected = false;
	unsigned long flows;

	*until_ns = BOUND_AT_END;
	for (flows = a->predicted; flows; flows &= flows - 1) {
		const struct ahead_flow *flow = &a->flows[__ffs(flows)];
		s64 ns;

		if (ahead_is_idle(flow)) {
			ahead_expect(a, &flow->arrivals, &due_ns, &overdue_ns);
			if ((s64)(now_ns - overdue_ns) >= 0)
				continue;
			ns = due_ns - now_ns - a->lead_ns;
			limit = min(limit, ns > 0 ? a->lo_sectors + rate_sectors(a->slope, ns) :
						    a->lead_sectors);
			if (limit < a->hi_sectors)
				*until_ns = min(*until_ns, overdue_ns);
		}
		expected = true;
	}
	return expected && now_ns >= a->others_until_ns ? limit : min(limit, a->fallback_sectors);
}

static u64 ahead_allows(struct ahead *a, struct bound_request *r)
{
	u64 until_ns, held_until_ns, others_ns;

	if (!a->on || !r->sectors)
		return BOUND_YES;
	r->why = K2_HOLD_AHEAD;
	r->limit = ahead_limit(a, r->now_ns, &until_ns);
	if (r->met + r->sectors <= r->limit)
		return BOUND_YES;
	/* a drive that is held back does not show what it can do */
	if (until_ns != BOUND_AT_END)
		a->full_sectors = 0;
	/* the limit may rise then, as no flow is present any more that is not predicted */
	others_ns = r->now_ns < a->others_until_ns ? a->others_until_ns : BOUND_AT_END;
	if (r->requests || r->met)
		return min(until_ns, others_ns);
	if (until_ns == BOUND_AT_END || r->sectors > a->hi_sectors)
		return BOUND_YES;
	if (!a->held_ns)
		a->held_ns = r->now_ns;
	held_until_ns = a->held_ns + a->patience_ns + 1;
	return r->now_ns < held_until_ns ? min(min(until_ns, held_until_ns), others_ns) : BOUND_YES;
}

/**
 * ahead_went() - a background request goes to the drive: learn what that serves
 * @a: the drive's bound
 * @sectors: sectors of it
 * @inflight_sectors: sectors in the drive, with it
 * @beside_rt: a real-time request is in the drive
 * @now_ns: the time
 *
 * What the drive serves shows while it is full: from one dispatch to the next it has served what has left it. Full is as much as may be in
 * it, or as the background has at a time. Beside real-time requests the drive does less for the background.
 */
static void ahead_went(struct ahead *a, u64 sectors, u64 inflight_sectors, bool beside_rt,
		       u64 now_ns)
{
	u64 before = a->full_sectors;

	a->held_ns = a->full_sectors = 0;
	if (beside_rt)
		return;
	a->peak_sectors = recent_max(a->peak_sectors, inflight_sectors, AHEAD_MEMORY);
	if (inflight_sectors < a->peak_sectors / 4 * 3)
		return;
	/* not if more went than this function was told of, as while nothing was learned */
	if (before && before + sectors >= inflight_sectors) {
		a->served_sectors += before + sectors - inflight_sectors;
		a->served_ns += now_ns - a->full_ns;
	}
	a->full_sectors = inflight_sectors;
	a->full_ns = now_ns;
	if (a->served_sectors < AHEAD_RATE_BOUNDS * inflight_sectors || !a->served_ns)
		return;
	a->rate = recent_max(a->rate, rate_of(a->served_sectors, a->served_ns), AHEAD_MEMORY);
	a->served_sectors = a->served_ns = 0;
	ahead_apply(a);
}

#endif
