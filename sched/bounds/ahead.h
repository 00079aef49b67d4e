/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The look-ahead bound: it falls before the next real-time request is expected, so that few background sectors are in the drive when
 * that request arrives. With T the time until the earliest expected arrival (arrivals.h), the bound on sectors in the drive is
 *
 *	lo + ramp * rate * (T - lead), at least lo, at most hi
 *
 * where rate is the measured rate of the drive. The bound is the least over all flows from which a request is expected. A flow that has a
 * request in the drive is not expected until that request completes, and an overdue flow is no longer expected. While an unpredictable
 * flow is present, or no request is expected, the bound is at most a constant, the fallback.
 *
 * All parameters follow from two measured values: the rate, and d, the time that a real-time request takes in an idle drive. As many
 * sectors as the drive serves in a few d keep it busy. The lead gives the requests in the drive time to complete.
 *
 * An idle drive is kept free for an expected request for at most twice the longest mean gap between arrivals.
 */
#ifndef TAILGATE_SCHED_AHEAD_H
#define TAILGATE_SCHED_AHEAD_H

#include <linux/atomic.h>

#include "arrivals.h"
#include "bound.h"

/* Number of flows that are tracked individually; all others share one more entry. */
#ifndef AHEAD_FLOWS
#define AHEAD_FLOWS 16
#endif

/* A flow counts as present for this many of its mean gaps after an arrival, and for at least 100 ms. */
#define AHEAD_PRESENT_GAPS 8
#define AHEAD_PRESENT_NS_MIN 100000000ULL

/* d is the least time in the drive of about the latest 2^AHEAD_DEVICE_MEMORY requests. */
#define AHEAD_DEVICE_MEMORY 10
/* The lead is AHEAD_LEAD_TIMES * d, and at most 1/AHEAD_LEAD_SHARE of the shortest gap. */
#define AHEAD_LEAD_TIMES 2
#define AHEAD_LEAD_SHARE 4
/* hi is what the drive serves in 2.5 d, and the fallback is what it serves in 1.5 d. */
#define AHEAD_HI_HALVES 5
#define AHEAD_FALLBACK_HALVES 3
/* Initial values of hi and of the fallback in sectors, before anything was measured. Below the minimum a drive is not kept busy. */
#define AHEAD_HI_SECTORS_FIRST 256
#define AHEAD_FALLBACK_SECTORS_FIRST 128
#define AHEAD_SECTORS_MIN 8
/*
 * lo is 0 if the bound is at its least for at most AHEAD_SHARE_FREE / 2^AHEAD_SHARE_SHIFT (a quarter) of the time: that costs the
 * background little. Otherwise lo is a quarter of the excess share, times hi.
 */
#define AHEAD_SHARE_SHIFT 8
#define AHEAD_SHARE_FREE 64
/* The ramp, in percent. */
#define AHEAD_RAMP_PCT 40

/* No flow is predicted if the real-time flows together need more than 1/AHEAD_LOAD_SHARE of the drive's rate. */
#define AHEAD_LOAD_SHARE 4

/*
 * One measurement of the rate covers AHEAD_RATE_BOUNDS times the sectors in the drive. The rate is the maximum of about the latest
 * 2^AHEAD_RATE_MEMORY measurements.
 */
#define AHEAD_RATE_BOUNDS 16
#define AHEAD_RATE_MEMORY 6
/* The drive is full if it holds three quarters of its maximum content at about the latest 2^AHEAD_PEAK_MEMORY dispatches. */
#define AHEAD_PEAK_MEMORY 6

#define AHEAD_UNPREDICTED S64_MAX

/**
 * struct ahead_flow - a flow: the real-time requests of one level and cgroup; times in ns
 * @level: real-time level
 * @predictable: its next arrival can be predicted
 * @key: identity of the cgroup
 * @inflight: its requests in the drive
 * @began_ns: time of its latest dispatch
 * @least_ns: least recent time of a request in the drive: its time in an idle drive (d)
 * @load: rate that the flow needs (RATE_SHIFT)
 * @present_until_ns: it counts as present until this time
 * @arrivals: statistics of its arrivals
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
 * struct ahead - the look-ahead bound on one drive
 * @on: the bound is in force
 * @has_fallback: the fallback is in force; otherwise the latency target bounds the background while nothing is predicted
 * @lo_sectors: least bound
 * @hi_sectors: largest bound
 * @fallback_sectors: bound while nothing is predicted
 * @lead_ns: time before an expected arrival at which the bound reaches @lo_sectors
 * @slope: growth of the bound with the time until the arrival, a rate (RATE_SHIFT)
 * @predicted: bitmap of flows that are predicted
 * @arrived_ns: time of the latest real-time arrival
 * @others_until_ns: an unpredictable flow is present until this time
 * @rate: measured rate of the drive (RATE_SHIFT); 0: not known
 * @served_sectors: sectors completed in the present measurement of @rate, while the drive was full
 * @served_ns: time in which @served_sectors completed
 * @peak_sectors: recent maximum of the sectors in the drive
 * @full_sectors: sectors in the drive after the latest background dispatch, if it was full; otherwise 0
 * @full_ns: time of that dispatch
 * @held_ns: since when an idle drive is kept free; 0: it is not
 * @patience_ns: longest time to keep an idle drive free
 * @flows: flows by number; the last entry is shared by all flows that have no entry of their own
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
