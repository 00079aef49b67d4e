/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The bound that looks ahead: how much of the background may be in the drive, so that little of it is left there when the
 * next real-time request comes. With T until the earliest arrival that is expected (arrivals.h),
 *
 *	lo + ramp * rate * (T - lead), but at least lo and at most hi
 *
 * where rate is what the drive was seen to serve with hi in it. It is the least over all flows that may come next: one
 * whose request is under way restricts nothing until that ends, and one that is overdue is not waited for. Where no flow
 * can be predicted, or one is there that cannot, a fixed bound holds instead.
 *
 * Arrivals are noted under a lock of the caller's, ends and questions need none.
 */
#ifndef TAILGATE_SCHED_AHEAD_H
#define TAILGATE_SCHED_AHEAD_H

#include <linux/atomic.h>
#include <linux/types.h>

#include "arrivals.h"

#define AHEAD_FLOWS 16

/* A flow that cannot be predicted counts as there for so long after an arrival: so many of its gaps, and at least ... */
#define AHEAD_PRESENT_GAPS 8
#define AHEAD_PRESENT_NS_MIN 100000000ULL

/* Who asks whether there is room, and then again, does so within this share of the lead. */
#define AHEAD_SOON 16

/* The rate is taken over so many times what is in the drive. */
#define AHEAD_RATE_BOUNDS 32

/**
 * struct ahead_flow - one flow of real-time requests
 * @under_way: dispatched and not ended
 * @ended_ns: when one ended last
 * @due_ns: if none is under way, the earliest arrival that is expected
 * @late_ns: after @due_ns, when it is overdue
 * @gap_ns: from an end to @due_ns; 0: an arrival has set @due_ns
 * @present_until_ns: it counts as there without a prediction
 * @arrivals: what is known of it
 */
struct ahead_flow {
	atomic_t under_way;
	u64 ended_ns;
	u64 due_ns;
	u32 late_ns;
	u32 gap_ns;
	u64 present_until_ns;
	struct arrivals arrivals;
};

/**
 * struct ahead - of one drive; sectors are of 512 bytes
 * @lo_sectors: least bound
 * @hi_sectors: largest bound
 * @lead_ns: before the expected arrival, when the bound is to be @lo_sectors
 * @ramp_pct: share of the rate
 * @slope: by how much the bound grows with the time until the arrival, sectors a ns, shifted left by 32; 0: not known
 * @predicted: bitmap of flows that are predicted
 * @unpredicted: bitmap of the others that were seen
 * @rate: what the drive serves, sectors a ns, shifted left by 32
 * @served_sectors: since the rate was computed last, while the bound was full
 * @served_ns: in this time
 * @full_sectors: in the drive when nothing more fitted at the background's last dispatch; 0: something did
 * @full_ns: when that was
 * @held_ns: since when an idle drive is held free; 0: it is not
 * @patience_ns: for so long at most
 * @flows: by number
 */
struct ahead {
	unsigned int lo_sectors, hi_sectors;
	u32 lead_ns;
	u32 ramp_pct;
	u32 slope;
	unsigned long predicted, unpredicted;
	u32 rate;
	u64 served_sectors, served_ns;
	unsigned int full_sectors;
	u64 full_ns;
	u64 held_ns;
	u64 patience_ns;
	struct ahead_flow flows[AHEAD_FLOWS];
};

#endif
