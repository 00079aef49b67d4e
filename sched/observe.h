/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What an environment may see of K2 at work, for tracepoints. It defines K2_OBSERVED and, before it includes k2.c, the functions below;
 * otherwise they are empty. They are called with interrupts off or under a lock, must not call K2, and change nothing that K2 does.
 *
 *	static unsigned int k2_observer(void);
 *
 * 0 while no tracepoint is enabled; otherwise a number that changes each time that the first one is enabled.
 *
 *	static void k2_observe_hold(const struct k2 *k2, const struct k2_refusal *refusal);
 *	static void k2_observe_release(const struct k2 *k2, enum k2_release why, u64 held_ns);
 *
 * These come in turns: a bound refuses the background request that is next, and the next background request goes.
 *
 *	static void k2_observe_arrival(const struct k2 *k2, unsigned int flow, u64 arrived_ns, s64 error_ns, bool in_time);
 *
 * A flow's request goes to the drive. It came at @arrived_ns, @error_ns after it was expected; K2_UNPREDICTED: it was not.
 *
 *	static void k2_observe_rt_end(const struct k2 *k2, struct k2_entry *e, const struct k2_note *note, u64 now_ns);
 *
 * A real-time request leaves the drive.
 */
#ifndef TAILGATE_SCHED_OBSERVE_H
#define TAILGATE_SCHED_OBSERVE_H

#include <linux/types.h>

struct k2;
struct k2_entry;

/* The bound that refuses. */
enum k2_hold {
	K2_HOLD_COUNT, /* inflight_max */
	K2_HOLD_BYTES, /* inflight_kib_max */
	K2_HOLD_DEBT, /* write_debt_kib_max */
	K2_HOLD_AHEAD, /* bound_mode ahead */
	K2_HOLD_TARGET, /* rt_target_us */
	K2_HOLD_DISCARD, /* discard_kib_max */
};

/* What made the dispatcher look again. */
enum k2_release {
	K2_RELEASE_COMPLETION,
	K2_RELEASE_TIMER,
	K2_RELEASE_KNOB,
	K2_RELEASE_RUN, /* something else ran the queue, such as an insertion */
};

#define K2_UNPREDICTED S64_MAX

/**
 * struct k2_refusal - what a bound refuses
 * @why: the bound
 * @sectors: sectors of the request
 * @requests: requests in the drive
 * @met: sectors in the drive, and sectors of writes that it has not worked off
 * @limit: the limit, in requests with K2_HOLD_COUNT, else in sectors; 0: there is none
 */
struct k2_refusal {
	enum k2_hold why;
	u64 sectors, requests, met, limit;
};

/* Most real-time requests in the drive that are observed at a time; more of them go unobserved. */
#define K2_NOTES 64

/**
 * struct k2_note - what a real-time request in the drive has met
 * @dispatched_ns: when it went there
 * @error_ns: how much later than expected it came, or K2_UNPREDICTED
 * @met_sectors: sectors in the drive when it went there
 * @owed_sectors: sectors of writes that the drive had not worked off then
 */
struct k2_note {
	u64 dispatched_ns;
	s64 error_ns;
	u64 met_sectors, owed_sectors;
};

#ifndef K2_OBSERVED
static inline unsigned int k2_observer(void)
{
	return 0;
}

#define k2_observe_hold(k2, refusal) ((void)(refusal))
#define k2_observe_release(k2, why, held_ns) ((void)(held_ns))
#define k2_observe_arrival(k2, flow, arrived_ns, error_ns, in_time) ((void)(in_time))
#define k2_observe_rt_end(k2, e, note, now_ns) ((void)(now_ns))
#endif

#endif
