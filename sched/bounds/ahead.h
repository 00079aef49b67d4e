/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The bound that looks ahead: it falls as the next real-time request is expected (arrivals.h), so that little of the background is in the
 * drive when that request arrives. With T the time until the earliest expected arrival, the background may have
 *
 *	lo + ramp * rate * (T - lead), at least lo, at most hi
 *
 * bytes in the drive. rate is what the drive was seen to serve. The limit is the least over all flows that may be next: a flow whose
 * request is in the drive restricts nothing until that request ends, and an overdue flow is not waited for. While a flow is present that
 * cannot be predicted, the limit is at most the fallback; where none is expected, it is the fallback.
 *
 * The target (target.h) sets lo and the fallback. The others follow from the rate and from d, the time that a real-time request takes in
 * an idle drive: lead is d, and hi is what keeps the drive busy, lo plus what it serves in 3 d. If the target asks for less than
 * AHEAD_LO_SECTORS_MIN, lo is 0, and lead grows by the square of what is missing.
 *
 * An idle drive is held free for an expected request for at most twice the longest recent gap between two of them.
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

/* d is the least time of about 2^AHEAD_DEVICE_MEMORY requests, and at most this share of the gap: in a drive that is never idle all take long. */
#define AHEAD_DEVICE_MEMORY 10
#define AHEAD_DEVICE_SHARE 4
/*
 * hi is lo plus what the drive serves in this many d: with less the background loses throughput, with more a wrong prediction costs more. It
 * is at least lo plus 4 KiB, and lo plus 128 KiB before rate and d are known.
 */
#define AHEAD_HI_TIMES 3
#define AHEAD_HI_SECTORS_MIN 8
#define AHEAD_HI_SECTORS_FIRST 256
/* The ramp, in percent. */
#define AHEAD_RAMP_PCT 25
/* A smaller lo lets no request go. */
#define AHEAD_LO_SECTORS_MIN 8
/* lo and the fallback without a target. */
#define AHEAD_LO_SECTORS 0
#define AHEAD_FALLBACK_SECTORS 128

/* No flow is predicted while real-time requests need more than this share of the drive's rate. */
#define AHEAD_LOAD_SHARE 4

/* The rate is taken over this many times what is in the drive. It is the largest of about the latest 2^AHEAD_RATE_MEMORY. */
#define AHEAD_RATE_BOUNDS 16
#define AHEAD_RATE_MEMORY 6
/* The drive is full with three quarters of the most that was in it at about the latest 2^AHEAD_PEAK_MEMORY dispatches. */
#define AHEAD_PEAK_MEMORY 6

#define AHEAD_UNPREDICTED S64_MAX

/**
 * struct ahead_flow - one flow of real-time requests: those of one level and cgroup; times in ns
 * @level: real-time level
 * @key: identity of the cgroup
 * @inflight: its requests in the drive
 * @began_ns: when the latest one went to the drive
 * @least_ns: d: least time in the drive of a request that was the flow's only one there, of late
 * @present_until_ns: it counts as present until then
 * @arrivals: what is known of its arrivals
 */
struct ahead_flow {
	u8 level;
	u64 key;
	atomic_t inflight;
	u64 began_ns, least_ns;
	u64 present_until_ns;
	struct arrivals arrivals;
};

/**
 * struct ahead - the bound on one drive
 * @on: the bound is in force
 * @asked_sectors: what the target asks for as @lo_sectors
 * @lo_sectors: least limit while a request is expected
 * @hi_sectors: largest limit
 * @fallback_sectors: limit where nothing is predicted
 * @device_ns: d of the flow that was predicted last
 * @lead_ns: time before an expected arrival at which the limit reaches @lo_sectors
 * @slope: growth of the limit with the time until the arrival, a rate
 * @arrived_ns: when the latest real-time request arrived
 * @gap_ns: running mean of the time between two of them
 * @predicted: bitmap of flows that are predicted
 * @others_until_ns: until then a flow is present that is not predicted
 * @other: number of that flow
 * @rate: what the drive serves
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
	bool on;
	u64 asked_sectors, lo_sectors, hi_sectors, fallback_sectors;
	u64 device_ns, lead_ns;
	u32 slope;
	u64 arrived_ns, gap_ns;
	unsigned long predicted;
	u64 others_until_ns;
	unsigned int other;
	u32 rate;
	u64 served_sectors, served_ns;
	u64 peak_sectors, full_sectors, full_ns;
	u64 held_ns, patience_ns;
	struct ahead_flow flows[AHEAD_FLOWS + 1];
};

#endif
