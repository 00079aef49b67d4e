/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The bound that looks ahead: it falls as the next real-time request is expected, so that little of the background is in the drive when
 * that comes. With T the time until the earliest arrival that is expected (arrivals.h), the background may have
 *
 *	lo + ramp * rate * (T - lead), at least lo, at most hi
 *
 * in the drive, where rate is what the drive was seen to serve. It is the least over all flows that may come next: a flow whose
 * request is in the drive restricts nothing until that has ended, and one that is overdue is not waited for. While a flow is present that
 * cannot be predicted, or none is expected, the bound is at most a constant, the fallback.
 *
 * All numbers follow from two that are learned: d, the time that a real-time request takes in an idle drive, and the rate. What is in the
 * drive in a few d is enough to keep it busy, and the lead gives what is being served the time to end.
 *
 * An idle drive is held free for a request that is expected, but not for longer than twice the longest wait for one.
 */
#ifndef TAILGATE_SCHED_AHEAD_H
#define TAILGATE_SCHED_AHEAD_H

#include <linux/atomic.h>

#include "arrivals.h"
#include "bound.h"

/* Flows that have a place of their own; all others share one more. */
#ifndef AHEAD_FLOWS
#define AHEAD_FLOWS 16
#endif

/* A flow counts as present for this many of its gaps after an arrival, and for this long at least. */
#define AHEAD_PRESENT_GAPS 8
#define AHEAD_PRESENT_NS_MIN 100000000ULL

/* d is the least time of about 2^10 requests. */
#define AHEAD_DEVICE_MEMORY 10
/* The lead is this many d, and at most one part in AHEAD_LEAD_SHARE of the shortest gap. */
#define AHEAD_LEAD_TIMES 2
#define AHEAD_LEAD_SHARE 4
/* The drive serves hi in this many halves of d, ... */
#define AHEAD_HI_HALVES 5
/* ... and the fallback in this many. */
#define AHEAD_FALLBACK_HALVES 3
/* hi and the fallback before anything is known of a flow, and what they are at least: nothing smaller keeps a drive busy. */
#define AHEAD_HI_SECTORS_FIRST 256
#define AHEAD_FALLBACK_SECTORS_FIRST 128
#define AHEAD_SECTORS_MIN 8
/*
 * lo is 0 if the bound is at its least for at most AHEAD_SHARE_FREE / 2^AHEAD_SHARE_SHIFT of the time, which costs little; of what is above
 * that, lo makes good a quarter.
 */
#define AHEAD_SHARE_SHIFT 8
#define AHEAD_SHARE_FREE 64
/* The ramp. */
#define AHEAD_RAMP_PCT 40

/* Real-time flows that need more than this share of the drive's rate are not predicted. */
#define AHEAD_LOAD_SHARE 4

/* The rate is taken over this many times what is in the drive. It is the largest of about the latest 2^AHEAD_RATE_MEMORY. */
#define AHEAD_RATE_BOUNDS 16
#define AHEAD_RATE_MEMORY 6
/* The drive is full with three quarters of the most that was in it at about the latest 2^6 dispatches. */
#define AHEAD_PEAK_MEMORY 6

#define AHEAD_UNPREDICTED S64_MAX

/**
 * struct ahead_flow - one flow of real-time requests: those of one level and cgroup; times in ns
 * @level: real-time level
 * @key: identity of the cgroup
 * @predictable: its next arrival can be predicted
 * @inflight: its requests in the drive
 * @began_ns: when one went to the drive last
 * @least_ns: the least time that one was in the drive, of late: how long one is in an idle drive
 * @load: what the flow needs, a rate
 * @present_until_ns: it counts as present until then
 * @arrivals: what is known of its arrivals
 */
struct ahead_flow {
	u8 level;
	bool predictable;
	u64 key;
	atomic_t inflight;
	u64 began_ns, least_ns;
	u32 load;
	u64 present_until_ns;
	struct arrivals arrivals;
};

/**
 * struct ahead - the bound on one drive
 * @on: the bound is in force
 * @has_fallback: the fallback is; otherwise another bound holds where nothing is predicted
 * @lo_sectors: least bound
 * @hi_sectors: largest bound
 * @fallback_sectors: bound where nothing is predicted
 * @lead_ns: time before an expected arrival at which the bound reaches @lo_sectors
 * @slope: growth of the bound with the time until the arrival, a rate
 * @predicted: bitmap of flows that are predicted
 * @arrived_ns: when the latest real-time request came
 * @others_until_ns: until then a flow is present that is not predicted
 * @rate: what the drive serves
 * @served_sectors: sectors since the rate was computed last, while the drive was full
 * @served_ns: time in which they were
 * @peak_sectors: most that was in the drive, of late
 * @full_sectors: in the drive after the background's latest dispatch, if that is full; else 0
 * @full_ns: time of that dispatch
 * @held_ns: since when an idle drive is held free; 0: it is not
 * @patience_ns: it is for this long at most
 * @flows: by number; the last one is all that have no place of their own
 */
struct ahead {
	bool on, has_fallback;
	u64 lo_sectors, hi_sectors, fallback_sectors;
	u64 lead_ns;
	u32 slope;
	unsigned long predicted;
	u64 arrived_ns, others_until_ns;
	u32 rate;
	u64 served_sectors, served_ns;
	u64 peak_sectors, full_sectors, full_ns;
	u64 held_ns, patience_ns;
	struct ahead_flow flows[AHEAD_FLOWS + 1];
};

#endif
