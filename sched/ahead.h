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

/* So many flows are known at a time, a power of two. */
#ifndef AHEAD_FLOWS
#define AHEAD_FLOWS 16
#endif

/* A flow that cannot be predicted counts as there for so long after an arrival: so many of its gaps, and at least ... */
#define AHEAD_PRESENT_GAPS 8
#define AHEAD_PRESENT_NS_MIN 100000000ULL

/* What finds itself. */
#define AHEAD_AUTO U32_MAX
/* Then, in terms of the time that a real-time request takes in the drive: the lead is so many of it, ... */
#define AHEAD_LEAD_TIMES 2
/* ... and this share of the shortest gap at most, ... */
#define AHEAD_LEAD_SHARE 4
/* ... and hi is what the drive serves in so many halves of it. */
#define AHEAD_HI_HALVES 5
#define AHEAD_RAMP_PCT 40
#define AHEAD_SCARCITY_SHIFT 8
#define AHEAD_SCARCITY_FREE 64
/* That time is the least of about so many requests. */
#define AHEAD_LEAST_REQUESTS 1024
/* Nothing smaller keeps a drive busy. */
#define AHEAD_HI_SECTORS_MIN 8
/* Before anything was learned. */
#define AHEAD_HI_SECTORS_FIRST 256

/* With what the control begins to draw. */
#define AHEAD_DICE_FIRST 2463534242U

/* Who asks whether there is room, and then again, does so within this share of the lead. */
#define AHEAD_SOON 16

/* Real-time flows that need more than this share of the drive's rate are not predicted. */
#define AHEAD_LOAD_SHARE 4

/* The rate is taken over so many times what is in the drive. */
#define AHEAD_RATE_BOUNDS 16
/* Less than before is believed by this share: it may be that real-time requests were served beside. */
#define AHEAD_RATE_MEMORY 16

/**
 * struct ahead_flow - one flow of real-time requests
 * @under_way: dispatched and not ended
 * @began_ns: when one went to the drive last
 * @ended_ns: when one ended last
 * @device_ns: how long that was in the drive
 * @least_ns: how long one is there that meets nothing: the least of @device_ns, as of late
 * @load: what the flow needs, sectors a ns, shifted left by 32
 * @writes: of the latest 32 requests those that were writes, the latest in bit 0
 * @due_ns: if none is under way, the earliest arrival that is expected
 * @late_ns: after @due_ns, when it is overdue
 * @gap_ns: from an end to @due_ns; 0: an arrival has set @due_ns
 * @present_until_ns: it counts as there without a prediction
 * @arrivals: what is known of it
 */
struct ahead_flow {
	atomic_t under_way;
	u64 began_ns, ended_ns;
	u32 device_ns, least_ns;
	u32 load;
	u32 writes;
	u64 due_ns;
	u32 late_ns;
	u32 gap_ns;
	u64 present_until_ns;
	struct arrivals arrivals;
};

/**
 * struct ahead - of one drive; sectors are of 512 bytes
 * @set_lo_sectors: what @lo_sectors is to be, or AHEAD_AUTO; likewise the next three
 * @set_hi_sectors: likewise
 * @set_lead_ns: likewise
 * @set_ramp_pct: likewise
 * @lo_sectors: least bound
 * @hi_sectors: largest bound
 * @lead_ns: before the expected arrival, when the bound is to be @lo_sectors
 * @slope: by how much the bound grows with the time until the arrival, sectors a ns, shifted left by 32; 0: not known
 * @predictable: bitmap of flows that could be predicted
 * @predicted: of those that are: all, or none if they are too much
 * @unpredicted: bitmap of the others that were seen
 * @others_until_ns: somebody who has no flow counts as there
 * @rate: what the drive serves, sectors a ns, shifted left by 32
 * @served_sectors: since the rate was computed last, while the bound was full
 * @served_ns: in this time
 * @peak_sectors: most that was in the drive, as of late
 * @full_sectors: in the drive when nothing more fitted at the background's last dispatch; 0: something did
 * @full_ns: when that was
 * @held_ns: since when an idle drive is held free; 0: it is not
 * @patience_ns: for so long at most
 * @pauses: it learns, and the fixed bound holds
 * @dice: of the control that predicts at random; 0: it does not
 * @flows: by number
 */
struct ahead {
	u32 set_lo_sectors, set_hi_sectors, set_lead_ns, set_ramp_pct;
	unsigned int lo_sectors, hi_sectors;
	u32 lead_ns;
	u32 slope;
	unsigned long predictable, predicted, unpredicted;
	u64 others_until_ns;
	u32 rate;
	u64 served_sectors, served_ns;
	unsigned int peak_sectors, full_sectors;
	u64 full_ns;
	u64 held_ns;
	u64 patience_ns;
	u32 dice;
	bool pauses;
	struct ahead_flow flows[AHEAD_FLOWS];
};

#endif
