/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The bound that looks ahead: it falls as the next real-time request is expected, so that little of the background is in the drive when
 * that comes. With T the time until the earliest arrival that is expected (arrivals.h), the background may have
 *
 *	lo + ramp * rate * (T - lead), at least lo, at most hi
 *
 * in the drive, where rate is what the drive was seen to serve. It is the least over all flows that may come next: a flow whose
 * request is in the drive restricts nothing until that has ended, and one that is overdue is not waited for. Where no flow is
 * predicted, or there is one that cannot be predicted, the bound is at most a constant, the fallback.
 *
 * An idle drive is held free for a request that is expected, but not for longer than twice the longest wait for one.
 */
#ifndef TAILGATE_SCHED_AHEAD_H
#define TAILGATE_SCHED_AHEAD_H

#include <linux/atomic.h>

#include "arrivals.h"
#include "bound.h"

/* Flows that are known at a time, a power of two. */
#ifndef AHEAD_FLOWS
#define AHEAD_FLOWS 16
#endif

/* A flow that cannot be predicted counts as present for this long after an arrival: this many of its gaps, and at least ... */
#define AHEAD_PRESENT_GAPS 8
#define AHEAD_PRESENT_NS_MIN 100000000ULL

/* Value of a setting that is chosen automatically. */
#define AHEAD_AUTO (~0ULL)
/* Then, with d the time that a real-time request takes in an idle drive: lead is AHEAD_LEAD_TIMES d, ... */
#define AHEAD_LEAD_TIMES 2
/* ... and at most this share of the shortest gap; ... */
#define AHEAD_LEAD_SHARE 4
/* ... hi is what the drive serves in this many halves of d; ... */
#define AHEAD_HI_HALVES 5
/* ... the fallback what it serves in this many; ... */
#define AHEAD_FALLBACK_HALVES 3
/* ... and ramp is this. */
#define AHEAD_RAMP_PCT 40
/* lo is 0 if the bound is at its least for at most AHEAD_SCARCITY_FREE / 2^AHEAD_SCARCITY_SHIFT of the time. */
#define AHEAD_SCARCITY_SHIFT 8
#define AHEAD_SCARCITY_FREE 64
/* d is the least of about this many requests. */
#define AHEAD_LEAST_REQUESTS 1024
/* Nothing smaller keeps a drive busy. */
#define AHEAD_HI_SECTORS_MIN 8
/* hi and the fallback before anything was learned. */
#define AHEAD_HI_SECTORS_FIRST 256
#define AHEAD_FALLBACK_SECTORS_FIRST 128

/* Real-time flows that need more than this share of the drive's rate are not predicted. */
#define AHEAD_LOAD_SHARE 4

/* The rate is taken over this many times what is in the drive. */
#define AHEAD_RATE_BOUNDS 16
/* A lower rate than before is believed by this share: real-time requests may have been served beside. */
#define AHEAD_RATE_MEMORY 16

/**
 * struct ahead_flow - one flow of real-time requests: those of one level and cgroup; times in ns
 * @known: the flow has a place here
 * @level: real-time level
 * @key: identity of the cgroup
 * @inflight: its requests in the drive
 * @began_ns: when one went to the drive last
 * @ended_ns: when one left it last
 * @device_ns: how long that one was in the drive
 * @least_ns: least of @device_ns, of late: how long one is in an idle drive
 * @load: what the flow needs, sectors a ns, shifted left by 32
 * @writes: bit i: the i-th latest request was a write
 * @due_ns: if none is in the drive, the earliest arrival that is expected
 * @late_ns: time after @due_ns when it is overdue
 * @gap_ns: time from an end to @due_ns; 0: an arrival has set @due_ns
 * @present_until_ns: without a prediction it counts as present until then
 * @arrivals: what is known of its arrivals
 */
struct ahead_flow {
	bool known;
	u8 level;
	u64 key;
	atomic_t inflight;
	u64 began_ns, ended_ns;
	u64 device_ns, least_ns;
	u32 load;
	u32 writes;
	u64 due_ns;
	u64 late_ns;
	u64 gap_ns;
	u64 present_until_ns;
	struct arrivals arrivals;
};

/**
 * struct ahead_settings - numbers that are chosen automatically (AHEAD_AUTO), unless an experiment sets them
 * @lo_sectors: least bound
 * @hi_sectors: largest bound
 * @lead_ns: time before an expected arrival at which the bound reaches @lo_sectors
 * @ramp_pct: share of the drive's rate at which the bound falls
 * @fallback_sectors: bound where nothing is predicted
 * @random: a control: predictions as long as usual, at random times
 */
struct ahead_settings {
	u64 lo_sectors, hi_sectors, lead_ns, ramp_pct, fallback_sectors;
	bool random;
};

/**
 * struct ahead - the bound on one drive
 * @on: the bound is in force
 * @cap_sectors: @hi_sectors is not above this, and it is the fallback; BOUND_NONE: there is no cap
 * @set: what experiments set
 * @lo_sectors: least bound
 * @hi_sectors: largest bound
 * @fallback_sectors: bound where nothing is predicted
 * @lead_ns: as in the settings
 * @slope: growth of the bound with the time until the arrival, sectors a ns, shifted left by 32; 0: the rate is not known
 * @predictable: bitmap of flows that could be predicted
 * @predicted: bitmap of flows that are: all of @predictable, or none if they are too much
 * @unpredicted: bitmap of the other flows that were seen
 * @arrived_ns: when the latest real-time request came that has a flow
 * @others_until_ns: a real-time request without a flow counts as present until then
 * @rate: what the drive serves, sectors a ns, shifted left by 32
 * @served_sectors: sectors since the rate was computed last, while the drive was kept full
 * @served_ns: time in which they were
 * @peak_sectors: most that was in the drive, of late
 * @full_sectors: in the drive when nothing more fitted at the background's latest dispatch; 0: something did
 * @full_ns: time of that dispatch
 * @held_ns: since when an idle drive is held free; 0: it is not
 * @patience_ns: it is for this long at most
 * @dice: state of the control's random numbers
 * @flows: by number
 */
struct ahead {
	bool on;
	u64 cap_sectors;
	struct ahead_settings set;
	u64 lo_sectors, hi_sectors, fallback_sectors;
	u64 lead_ns;
	u32 slope;
	unsigned long predictable, predicted, unpredicted;
	u64 arrived_ns, others_until_ns;
	u32 rate;
	u64 served_sectors, served_ns;
	u64 peak_sectors, full_sectors;
	u64 full_ns;
	u64 held_ns;
	u64 patience_ns;
	u32 dice;
	struct ahead_flow flows[AHEAD_FLOWS];
};

#endif
