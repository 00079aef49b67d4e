/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What an environment may want to see of K2 at work. It defines K2_OBSERVED and, before it includes k2.c, what is
 * declared here; else nothing of it is there.
 *
 * k2_observer() is 0 while nobody looks, and else a number that is another one each time that somebody begins. What does
 * not happen while somebody looks is not known: who begins sees first what begins then.
 *
 *	static unsigned int k2_observer(void);
 *	static void k2_observe_hold(const struct k2 *k2, const struct k2_refusal *refusal);
 *	static void k2_observe_release(const struct k2 *k2, enum k2_release why, u64 held_ns);
 *	static void k2_observe_arrival(const struct k2 *k2, unsigned int flow, u64 arrived_ns, s64 error_ns, bool in_time);
 *
 * The first two come in turns: a bound begins to refuse what is next of the background, and that goes. The third says that a
 * flow's request goes to the drive, and by how much later it came than it was expected, or K2_UNPREDICTED. All three are
 * called with interrupts off or under a lock, from any context, and must not call K2.
 *
 *	static void k2_log_begin(const struct k2 *k2, struct k2_entry *e, unsigned int met_sectors,
 *				 unsigned int owed_sectors, s64 error_ns);
 *	static void k2_log_slow(const struct k2 *k2, struct k2_entry *e, u64 now_ns);
 *
 * With slow_log_us: a real-time entry goes to the drive, in which it meets so much, and which owes so much; and it has ended
 * and took longer than that. Whether somebody looks makes no difference.
 */
#ifndef TAILGATE_SCHED_OBSERVE_H
#define TAILGATE_SCHED_OBSERVE_H

#include <linux/types.h>

struct k2;
struct k2_entry;

/* Which bound refuses. */
enum k2_hold {
	K2_HOLD_COUNT, /* inflight_max */
	K2_HOLD_BYTES, /* inflight_kib_max */
	K2_HOLD_DEBT, /* write_debt_kib_max */
	K2_HOLD_AHEAD, /* the one that looks ahead: something is expected */
	K2_HOLD_FLUSH, /* flush_gate_us */
	K2_HOLD_IDLE, /* the same, and the drive is idle */
};

/**
 * struct k2_refusal - what a bound refuses, and what it saw that made it do so; the drive may have ended some of it since
 * @why: which bound
 * @sectors: of what is next; 0: not known
 * @inflight: requests in the drive
 * @inflight_sectors: their sectors
 * @limit: the bound, in requests for K2_HOLD_COUNT, else in sectors
 */
struct k2_refusal {
	enum k2_hold why;
	unsigned int sectors, inflight, inflight_sectors, limit;
};

/* What made somebody look again. */
enum k2_release {
	K2_RELEASE_COMPLETION,
	K2_RELEASE_TIMER,
	K2_RELEASE_KNOB,
	K2_RELEASE_RUN, /* the queue was run for another reason, as after an insertion */
};

#define K2_UNPREDICTED S64_MAX

#ifndef K2_OBSERVED
static inline unsigned int k2_observer(void)
{
	return 0;
}

static inline void k2_observe_hold(const struct k2 *k2, const struct k2_refusal *refusal)
{
	(void)k2, (void)refusal;
}

static inline void k2_observe_release(const struct k2 *k2, enum k2_release why, u64 held_ns)
{
	(void)k2, (void)why, (void)held_ns;
}

static inline void k2_observe_arrival(const struct k2 *k2, unsigned int flow, u64 arrived_ns,
				      s64 error_ns, bool in_time)
{
	(void)k2, (void)flow, (void)arrived_ns, (void)error_ns, (void)in_time;
}

static inline void k2_log_begin(const struct k2 *k2, struct k2_entry *e, unsigned int met_sectors,
				unsigned int owed_sectors, s64 error_ns)
{
	(void)k2, (void)e, (void)met_sectors, (void)owed_sectors, (void)error_ns;
}

static inline void k2_log_slow(const struct k2 *k2, struct k2_entry *e, u64 now_ns)
{
	(void)k2, (void)e, (void)now_ns;
}
#endif

#endif
