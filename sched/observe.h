/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Hooks for tracepoints. An environment that wants them defines K2_OBSERVED and the functions below before it includes k2.c; otherwise the
 * hooks are empty. They are called with interrupts off or under a lock, must not call K2, and must not change its state.
 *
 *	static unsigned int k2_observer(void);
 *
 * Returns 0 while no tracepoint is enabled; otherwise a number that changes each time that the first tracepoint is enabled.
 *
 *	static void k2_observe_hold(const struct k2 *k2, const struct bound_request *refusal);
 *	static void k2_observe_release(const struct k2 *k2, enum k2_release why, u64 held_ns);
 *
 * These alternate. Hold: a bound refuses the next background request. Release: the next background request is dispatched.
 *
 *	static void k2_observe_arrival(const struct k2 *k2, unsigned int flow, u64 arrived_ns, s64 error_ns, bool in_time);
 *
 * A real-time request is dispatched. It arrived at @arrived_ns, @error_ns after the expected time; K2_UNPREDICTED: it was not predicted.
 *
 *	static void k2_observe_rt_end(const struct k2 *k2, struct k2_entry *e, const struct k2_note *note, u64 now_ns);
 *
 * A real-time request has completed.
 */
#ifndef TAILGATE_SCHED_OBSERVE_H
#define TAILGATE_SCHED_OBSERVE_H

#include <linux/types.h>

struct k2;
struct k2_entry;
struct bound_request;

/* Why the dispatcher asked the bounds again. */
enum k2_release {
	K2_RELEASE_COMPLETION,
	K2_RELEASE_TIMER,
	K2_RELEASE_KNOB,
	K2_RELEASE_RUN, /* something else ran the queue, such as an insertion */
};

/* Most real-time requests in the drive that are observed at a time; any others are not observed. */
#define K2_NOTES 64

/**
 * struct k2_note - observations of a real-time request in the drive
 * @dispatched_ns: time of its dispatch
 * @error_ns: its arrival time minus the expected one, or K2_UNPREDICTED
 * @met_sectors: other sectors in the drive at its dispatch
 * @owed_sectors: write debt at its dispatch, in sectors
 */
struct k2_note {
	u64 dispatched_ns;
	s64 error_ns;
	u64 met_sectors, owed_sectors;
};

/* Calls k2_note_<what>() while a tracepoint is enabled. */
#define k2_note(what, ...)                           \
	do {                                         \
		if (unlikely(k2_observer()))         \
			k2_note_##what(__VA_ARGS__); \
	} while (0)

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
