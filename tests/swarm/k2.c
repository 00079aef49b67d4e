// SPDX-License-Identifier: GPL-2.0-only
/*
 * K2 as the subject, and its laws. The laws do their own accounting of the drive and of time. From K2 they read what it has learned (the
 * target's bound, real-time activity), and they ask its bounds a second time, on a copy, to check its answers.
 */
#include <stdlib.h>
#include <string.h>

#define K2_EXPERIMENTS
#include "../../sched/k2.h"
#include "subject.h"

_Static_assert(sizeof(struct k2_entry) <= sizeof(((struct io *)0)->elv), "size");

static inline struct io *k2_io(struct k2_entry *e)
{
	return container_of((void *)e, struct io, elv);
}

static inline struct list_head *k2_node(struct k2_entry *e)
{
	return &k2_io(e)->node;
}

static inline struct k2_entry *k2_entry_of(struct list_head *node)
{
	return (struct k2_entry *)list_entry(node, struct io, node)->elv;
}

static inline unsigned int k2_sectors(struct k2_entry *e)
{
	return k2_io(e)->op <= IO_WRITE ? k2_io(e)->sectors : 0;
}

static inline bool k2_writes(struct k2_entry *e)
{
	return k2_io(e)->op != IO_READ;
}

static inline bool k2_may_split(struct k2_entry *e)
{
	return !k2_io(e)->whole;
}

static inline u64 k2_key(struct k2_entry *e)
{
	return k2_io(e)->task;
}

static inline bool k2_draining(const struct k2 *k2)
{
	(void)k2;
	return player_drains;
}

static inline u64 k2_now(const struct k2 *k2)
{
	(void)k2;
	return player_now_ns;
}

static void k2_picked(struct k2_entry *e);

static inline void k2_arm(struct k2 *k2, u64 at_ns)
{
	(void)k2;
	player_arm(at_ns);
}

#include "../../sched/k2.c"

#include "../../sched/binding.h"

#define FLOOR_TIMES 4096
#define SECOND 1000000000ULL

static struct k2 *k2;
static struct k2_ctx *ctxs[QUEUES_MAX];

/* Counts of the laws. "Dispatched" means chosen by K2; times are in ns. */
static struct {
	u64 inserted[K2_LEVELS], chosen[K2_LEVELS], removed[K2_LEVELS], taken;
	u64 rt_ended,
		rt_ns; /* completed real-time requests, and their total time from insertion to completion */
	u64 requests, sectors; /* in the drive */
	u64 discards; /* discards in the drive that were inserted with a bound on discards */
	u64 queued[K2_LEVELS]; /* queued requests that are not urgent */
	u64 queued_urgent;
	u64 seen; /* queued requests that the dispatcher has collected */
	struct {
		u64 queued;
		bool waits; /* requests wait, and a dispatcher has seen them */
		u64 waits_ns; /* since this time */
		u64 owed_ns; /* when the floor owes the next request */
		unsigned int rt_since_owed; /* real-time requests dispatched since owed_ns */
	} background[FLOOR_KINDS];
	bool passed; /* the latest dispatched request was of the background, while a real-time one waited */
	u64 went_ns[FLOOR_TIMES],
		rt_went_ns[FLOOR_TIMES]; /* rings of dispatch times: background and real-time requests */
	u64 went, rt_went;
	u64 latest_ns; /* latest dispatch of a request */
	u64 rt_seen_ns,
		rt_gap_ns; /* latest dispatch with real-time requests queued; longest recent time between two such */
	bool rt_left; /* real-time requests were still queued after the latest dispatch of one, so they are no arrivals */
	bool rt_watched; /* K2 has watched real-time activity since the latest arrival: no other gap lets the longest one lapse */
	u64 rt_inflight; /* real-time requests in the drive */
	u64 left_ns; /* when a request left the drive last */
	u64 first_ns[QUEUES_MAX][K2_LISTS]; /* insertion of the last dispatched, by queue and list */
	u64 debt_limit_most; /* largest limit of the debt, in sectors */
	u64 pause_ns, empty_ns; /* the debt's fields of these names at the last check of charges */
	u64 pause_most_ns; /* longest pause of the debt */
	u64 write; /* sectors of the latest dispatched request, if it is a write; else 0 */
	u64 write_most; /* largest write, in sectors */
	u64 bucket_most_ns; /* longest time to program as much as may be owed, at the lowest rate so far */
	bool discards_set; /* discard_kib_max was changed, so the order of discards is not checked */
	u64 arrived_ns
		[TASKS_MAX]; /* latest arrival of a real-time request of each task, each of which is a flow */
	u64 flow_gap_ns; /* longest time between two arrivals of a flow */
	u64 kept_free_ns; /* since when the drive is kept free for an expected request; 0: it is not */
	u64 written; /* sectors of writes in the drive that went while write_debt_kib_max was a number */
	u64 programmed_ns; /* when the drive has programmed all of these writes, at the rate that K2 has learned */
	u64 rt_ended_lately; /* completed real-time requests since the latest call of a dispatcher */
	u64 rt_late_lately; /* those of them that took longer than the target asks for */
	u64 alone_most_ns
		[TARGET_CLASSES]; /* longest time of a real-time request that found the drive empty */
} law;

static void *zalloc(size_t size)
{
	size = (size + 63) / 64 * 64;
	return memset(aligned_alloc(64, size), 0, size);
}

static void subject_create(unsigned int queues)
{
	unsigned int i;

	free(k2);
	k2 = zalloc(sizeof(*k2));
	for (i = 0; i < queues; i++) {
		free(ctxs[i]);
		ctxs[i] = zalloc(sizeof(*ctxs[i]));
	}
	k2_init(k2, ctxs, queues, 8);
	memset(&law, 0, sizeof(law));
}

static u64 floor_interval_ns(void)
{
	unsigned int floor = k2->knobs[K2_KNOB_be_floor_iops];

	return floor ? 1000000000 / floor : 0;
}

/* Discards are dispatched one at a time, also those that the floor owes. */
static bool discards_wait(enum floor_kind kind)
{
	return kind == FLOOR_DISCARDS && law.discards && k2->knobs[K2_KNOB_discard_kib_max];
}

static bool floor_owes_now(enum floor_kind kind)
{
	return floor_interval_ns() && law.background[kind].waits && law.background[kind].queued &&
	       !discards_wait(kind) && player_now_ns >= law.background[kind].owed_ns;
}

static bool bounds_are_on(void)
{
	return k2->activity.active || (k2->knobs[K2_KNOB_bound_when] == K2_BOUND_ALWAYS &&
				       k2->target.target_ns != TARGET_AUTO);
}

static u64 inflight_max(void)
{
	u64 most = k2->knobs[K2_KNOB_inflight_max];

	if (most == KNOB_AUTO)
		most = k2->knobs[K2_KNOB_rt_target_us] ? BOUND_NONE : K2_INFLIGHT_MAX;
	return most;
}

static u64 most_requests(void)
{
	return bounds_are_on() ? inflight_max() : BOUND_NONE;
}

/* Asks K2's bounds, on a copy, whether they hold a background list at a future time, if nothing happens until then. Fills @r. */
static u64 ask_why(unsigned int list, u64 at_ns, struct bound_request *r)
{
	static char copy[sizeof(struct k2)];
	u64 until_ns;

	memcpy(copy, k2, sizeof(*k2));
	until_ns = k2_ask(k2, list, at_ns, r);
	memcpy(k2, copy, sizeof(*k2));
	return until_ns;
}

static u64 ask_at(unsigned int list, u64 at_ns)
{
	struct bound_request r;

	return ask_why(list, at_ns, &r);
}

static u64 ask_again(unsigned int list)
{
	return ask_at(list, player_now_ns);
}

/* --- laws of a dispatched request ------------------------------------------------------------------------------ */

/* The latency target's bound where no request is predicted, in sectors. */
static u64 target_limit(void)
{
	return k2->target.points[TARGET_UNPREDICTED].limit_sectors;
}

/*
 * Limit of the background in the drive, in sectors, because of an expected real-time request of a flow. From the lead before the request
 * until it is overdue, it is lo, or 0 if the target asks for little. At all other times it is hi.
 */
static u64 expected_limit(const struct ahead_flow *flow)
{
	const struct ahead *a = &k2->ahead;
	const struct arrivals *arrivals = &flow->arrivals;
	const struct arrivals_gaps *gaps = &arrivals->gaps[arrivals->way];
	u64 early_ns = arrivals->origin_ns[arrivals->way] + gaps->mean -
		       min(2 * gaps->scatter, gaps->mean);
	u64 late_ns = early_ns + 2 * gaps->scatter + max(3 * gaps->scatter, gaps->mean / 8);

	if (player_now_ns + a->lead_ns < early_ns || player_now_ns > late_ns)
		return a->hi_sectors;
	return a->asked_sectors && a->asked_sectors < AHEAD_LEAD_SECTORS ? 0 : a->lo_sectors;
}

/* With the next request, the background in the drive stays within the limit of every predicted flow that has no request in the drive. */
static void check_expected(u64 sectors)
{
	unsigned long flows = k2->ahead.predicted;

	if (!k2->ahead.on || !sectors || !law.requests ||
	    k2->knobs[K2_KNOB_bound_mode] == K2_BOUND_PLACEBO)
		return;
	for (; flows; flows &= flows - 1) {
		const struct ahead_flow *flow = &k2->ahead.flows[__ffs(flows)];

		if (!atomic_read(&flow->inflight) && law.sectors + sectors > expected_limit(flow))
			player_fail(
				"%llu sectors went to %llu in the drive before an expected real-time request: %llu may be there",
				(unsigned long long)sectors, (unsigned long long)law.sectors,
				(unsigned long long)expected_limit(flow));
	}
}

/* write_debt_kib_max in sectors; 0: it is auto or 0. */
static u64 debt_most(void)
{
	unsigned int kib = k2->knobs[K2_KNOB_write_debt_kib_max];

	return kib == KNOB_AUTO ? 0 : 2ULL * kib;
}

/* Sectors of writes that the drive has been given, and cannot have programmed yet. */
static u64 unprogrammed(void)
{
	u64 sectors = 0;

	if (law.programmed_ns > player_now_ns)
		sectors = rate_sectors(k2->debt.rate, law.programmed_ns - player_now_ns);
	return max(sectors, law.written);
}

/* With the next write, the drive has no more to program than write_debt_kib_max, unless it has programmed all. */
static void check_debt(u64 sectors)
{
	u64 owed = unprogrammed(), most = debt_most();

	if (bounds_are_on() && most && k2->debt.rate && owed && owed + sectors > most)
		player_fail(
			"%llu sectors were written, and the drive has %llu to program: write_debt_kib_max is %llu",
			(unsigned long long)sectors, (unsigned long long)owed,
			(unsigned long long)most / 2);
}

/*
 * Accounts for a dispatched write, real-time or not. As docs/k2/bounds.md says, what is beyond 4 MiB and beyond the limit is not charged; a
 * target may lower the limit.
 */
static void charge_write(struct io *io)
{
	u64 most = k2->knobs[K2_KNOB_rt_target_us] ? 0 : debt_most();

	io->law_cost = debt_most() && io->op == IO_WRITE ? io->sectors : 0;
	law.written += io->law_cost;
	if (!io->law_cost || !k2->debt.rate)
		return;
	law.programmed_ns =
		max(law.programmed_ns, player_now_ns) + rate_ns(k2->debt.rate, io->law_cost);
	law.programmed_ns =
		min(law.programmed_ns,
		    player_now_ns + rate_ns(k2->debt.rate, max_t(u64, most, DEBT_WINDOW_SECTORS)));
}

/* Checks a background request that was dispatched and not owed: every bound that is set has to hold. */
static void check_bounds(struct k2_entry *e)
{
	u64 kib = k2->knobs[K2_KNOB_inflight_kib_max], sectors = k2_sectors(e);

	if (k2->levels.filled & K2_MAP_RT)
		player_fail("a background request went before a real-time one, and was not owed");
	if (bounds_are_on() && kib && sectors && law.sectors && law.sectors + sectors > 2 * kib)
		player_fail("%llu sectors went to %llu in the drive: inflight_kib_max is %llu",
			    (unsigned long long)sectors, (unsigned long long)law.sectors,
			    (unsigned long long)kib);
	if (k2->target.on && k2->target.kind == TARGET_UNPREDICTED &&
	    k2->knobs[K2_KNOB_ahead_fallback_kib] == KNOB_AUTO && sectors && law.sectors &&
	    law.sectors + sectors > target_limit())
		player_fail("%llu sectors went to %llu in the drive: the target's bound is %llu",
			    (unsigned long long)sectors, (unsigned long long)law.sectors,
			    (unsigned long long)target_limit());
	check_expected(sectors);
	if (k2_io(e)->op == IO_WRITE)
		check_debt(sectors);
	if (e->list == K2_LIST_DISCARDS && k2->knobs[K2_KNOB_discard_kib_max]) {
		if (law.discards)
			player_fail("two discards are in the drive together");
		if (k2->activity.active)
			player_fail("a discard went beside real-time activity");
	}
	if (ask_again(e->list))
		player_fail("a background request went that a bound refuses");
}

/* Checks that the bounds use the values of the knobs. */
static void check_knobs(void)
{
	unsigned int kib = k2->knobs[K2_KNOB_write_debt_kib_max];

	if (kib && kib != KNOB_AUTO && !k2->knobs[K2_KNOB_rt_target_us] && bounds_are_on() &&
	    k2->debt.limit_sectors != 2ULL * kib)
		player_fail("the limit of the debt is %llu sectors, write_debt_kib_max %u",
			    (unsigned long long)k2->debt.limit_sectors, kib);
	if (k2->target.target_ns != TARGET_AUTO &&
	    k2->target.target_ns != 1000ULL * k2->knobs[K2_KNOB_rt_target_us])
		player_fail("the target is %llu ns, rt_target_us %u",
			    (unsigned long long)k2->target.target_ns,
			    k2->knobs[K2_KNOB_rt_target_us]);
	if (k2->target.rare != k2->knobs[K2_KNOB_rt_target_percentile])
		player_fail("the target has another percentile than rt_target_percentile");
	if (k2->target.probe_until_ns > player_now_ns + TARGET_PROBE_NS)
		player_fail("the background is held for too long to measure the idle drive");
	if (!bounds_are_on() && (k2->target.on || (k2->ahead.on && k2->target.target_ns)))
		player_fail("a target is in force without real-time activity");
	if (!kib && target_limit() == BOUND_NONE && k2->debt.on)
		player_fail("there is a bound on the debt of writes that nothing has asked for");
	if (k2->debt.on && (!kib || kib == KNOB_AUTO) && k2->debt.set_sectors != DEBT_AUTO)
		player_fail("a target alone, or auto, does not choose the limit of the debt");
}

/* Returns whether at least `wanted` requests were dispatched in the last second. */
static bool went_in_second(const u64 *times, u64 count, u64 wanted)
{
	return count >= wanted && times[(count - wanted) % FLOOR_TIMES] + SECOND >= player_now_ns;
}

/* Between two dispatches of background requests, a waiting real-time request is dispatched. */
static void check_background_went(enum floor_kind kind)
{
	if (law.passed && k2->levels.filled & K2_MAP_RT)
		player_fail("two background requests went before a real-time one that waited");
	law.passed = k2->levels.filled & K2_MAP_RT;
	law.background[kind].rt_since_owed = 0;
	law.went_ns[law.went++ % FLOOR_TIMES] = player_now_ns;
	law.background[kind].owed_ns = clamp_t(u64,
					       law.background[kind].owed_ns + floor_interval_ns(),
					       player_now_ns, player_now_ns + floor_interval_ns());
}

/* In any second in which background waits, floor - 1 background requests are dispatched, if real-time requests are dispatched as often. */
static void check_floor(enum floor_kind kind)
{
	u64 floor = k2->knobs[K2_KNOB_be_floor_iops];

	/* when both kinds of background are owed, they take turns with real-time requests */
	if (floor_owes_now(kind) && player_now_ns > law.background[kind].owed_ns &&
	    ++law.background[kind].rt_since_owed > FLOOR_KINDS)
		player_fail(
			"real-time requests went one after the other while the background was owed one");
	if (floor > 1 && floor < FLOOR_TIMES && law.background[kind].waits &&
	    law.background[kind].queued &&
	    player_now_ns >= law.background[kind].waits_ns + SECOND &&
	    went_in_second(law.rt_went_ns, law.rt_went, FLOOR_KINDS * floor) &&
	    !went_in_second(law.went_ns, law.went, floor - 1))
		player_fail(
			"fewer than %llu background requests went in a second in which it waited",
			(unsigned long long)floor - 1);
}

static void check_went(struct k2_entry *e)
{
	enum floor_kind kind;

	/* the drive accepted nothing for half a floor interval, or a discard blocks the background: a new second begins */
	for (kind = 0; kind < FLOOR_KINDS; kind++)
		if (player_now_ns > law.latest_ns + floor_interval_ns() / 2 || discards_wait(kind))
			law.background[kind].waits_ns = player_now_ns;
	law.latest_ns = player_now_ns;
	if (e->list == K2_LIST_URGENT)
		return;
	if (e->list >= K2_LIST_BACKGROUND) {
		check_background_went(K2_FLOOR_KIND(e->list));
		return;
	}
	law.passed = false;
	law.rt_went_ns[law.rt_went++ % FLOOR_TIMES] = player_now_ns;
	for (kind = 0; kind < FLOOR_KINDS; kind++)
		check_floor(kind);
}

/* Notes that the dispatcher sees waiting background requests, if the drive has a slot. */
static void see_waiting(void)
{
	enum floor_kind kind;

	for (kind = 0; kind < FLOOR_KINDS; kind++) {
		if (law.background[kind].waits || !law.background[kind].queued ||
		    law.requests >= most_requests())
			continue;
		law.background[kind].waits = true;
		law.background[kind].waits_ns = player_now_ns;
		law.background[kind].rt_since_owed = 0;
		law.background[kind].owed_ns = player_now_ns + floor_interval_ns();
	}
}

/* Of discards and other background requests that no bound holds, the oldest is dispatched first. */
static void check_oldest(struct k2_entry *e)
{
	unsigned int other = e->list == K2_LIST_BACKGROUND ? K2_LIST_DISCARDS : K2_LIST_BACKGROUND;
	unsigned int waits = k2->levels.filled & ~atomic_read(&k2->blocked);

	if (e->list < K2_LIST_BACKGROUND || !(waits & 1U << other) ||
	    floor_owes_now(K2_FLOOR_KIND(e->list)))
		return;
	if (levels_first(&k2->levels, other)->since_ns < e->since_ns && !ask_again(other))
		player_fail("a background request went before an older one that may go");
}

/* The dispatcher collects all queued requests. */
static void see_all(void)
{
	unsigned int level;

	law.seen = law.queued_urgent;
	for (level = 0; level < K2_LEVELS; level++)
		law.seen += law.queued[level];
}

static void unqueue(struct io *io)
{
	unsigned int list = ((struct k2_entry *)io->elv)->list;

	io->queued = false;
	law.seen--;
	if (io->urgent)
		law.queued_urgent--;
	else
		law.queued[io->level]--;
	if (list >= K2_LIST_BACKGROUND && !--law.background[K2_FLOOR_KIND(list)].queued)
		law.background[K2_FLOOR_KIND(list)].waits = false;
}

/* The charge for a write is its sectors, and at most one pause. */
static void check_charge(void)
{
	const struct debt *d = &k2->debt;
	u64 from_ns = max_t(u64, law.empty_ns, player_now_ns), pause_ns;

	if (d->rate) {
		pause_ns = max(rate_ns(d->rate, DEBT_PAUSE * d->limit_sectors), 2 * law.pause_ns);
		pause_ns = min_t(u64, pause_ns, DEBT_PAUSE_NS_MAX);
		law.pause_most_ns = max(law.pause_most_ns, min(pause_ns, d->pause_ns));
		if (d->empty_ns > from_ns + pause_ns + rate_ns(d->rate, law.write))
			player_fail(
				"a write of %llu sectors is charged with %llu us, and a pause has %llu",
				(unsigned long long)law.write,
				(unsigned long long)(d->empty_ns - from_ns) / 1000,
				(unsigned long long)pause_ns / 1000);
	}
	law.pause_ns = d->pause_ns;
	law.empty_ns = d->empty_ns;
	law.write = 0;
}

/* While splitting is in force, no background request larger than split_kib is dispatched, except urgent ones and those that stay whole. */
static void check_size(struct k2_entry *e)
{
	u64 kib = k2->knobs[K2_KNOB_split_kib];

	if (e->list == K2_LIST_BACKGROUND && kib && bounds_are_on() && !k2_io(e)->whole &&
	    k2_sectors(e) > 2 * kib)
		player_fail("a background request of %u sectors went: split_kib is %llu",
			    k2_sectors(e), (unsigned long long)kib);
}

static void k2_picked(struct k2_entry *e)
{
	struct io *io = k2_io(e);
	u64 *first = &law.first_ns[io->queue][e->list];

	check_charge();
	if (e->state != K2_QUEUED && e->list != K2_LIST_BACKGROUND)
		player_fail("a request was chosen that was not queued");
	if (e->list < K2_LIST_BACKGROUND && (k2->levels.filled & ((1U << e->list) - 1)))
		player_fail("a request went before a more urgent one");
	if (!(e->list == K2_LIST_DISCARDS && law.discards_set) && io->inserted_ns < *first)
		player_fail("requests of a level and hardware queue changed their order");
	*first = io->inserted_ns;
	if (list_empty(k2_node(e))) {
		/* the request is taken to be split: it goes on waiting, but cannot be dispatched before its pieces are inserted */
		bool waits;

		see_waiting();
		waits = law.background[FLOOR_REQUESTS].waits;
		law.taken++;
		unqueue(io);
		law.background[FLOOR_REQUESTS].waits = waits;
		law.background[FLOOR_REQUESTS].waits_ns = player_now_ns;
		return;
	}
	if (io->op == IO_WRITE) {
		law.write = k2_sectors(e);
		law.write_most = max_t(u64, law.write_most, law.write);
	}
	check_size(e);
	check_oldest(e);
	see_waiting();
	if (law.requests >= most_requests())
		player_fail("%llu requests are in the drive, and another went",
			    (unsigned long long)law.requests);
	if (e->list >= K2_LIST_BACKGROUND && !floor_owes_now(K2_FLOOR_KIND(e->list)) &&
	    !player_drains)
		check_bounds(e);
	check_went(e);
}

/* --- laws after each event ------------------------------------------------------------------------------------- */

/* Tolerance in comparing the times that the debt names: it rounds to whole sectors. */
static u64 rounding_ns(void)
{
	return k2->debt.rate ? 3 * rate_ns(k2->debt.rate, 1) : 0;
}

/*
 * While the debt's bucket has more than its limit, and more than a window, no write is added. So at most one write and one pause are above.
 */
static void check_bucket(void)
{
	const struct debt *d = &k2->debt;
	u64 most = max_t(u64, law.debt_limit_most, DEBT_WINDOW_SECTORS) + law.write_most;

	check_charge();
	if (d->limit_sectors != BOUND_NONE)
		law.debt_limit_most = max(law.debt_limit_most, d->limit_sectors);
	/* the charges may be from a time with a lower rate */
	if (d->rate)
		law.bucket_most_ns = max(law.bucket_most_ns, rate_ns(d->rate, most));
	if (debt_in_bucket(d, player_now_ns) &&
	    d->empty_ns - player_now_ns > law.bucket_most_ns + law.pause_most_ns)
		player_fail("the debt of writes takes %llu us, more than its bucket may have",
			    (unsigned long long)(d->empty_ns - player_now_ns) / 1000);
}

/*
 * The time that K2 assumes for a request in the idle drive is at most twice the longest time of a request that found the drive empty: its
 * wait may add a third, and K2's step above the longest time a quarter.
 */
static void check_idle_drive(void)
{
	unsigned int class;

	for (class = 0; class < TARGET_CLASSES; class ++)
		if (k2->target.idle[class].count >= TARGET_PROBES_FIRST &&
		    k2->target.idle[class].typical_ns > 2 * law.alone_most_ns[class])
			player_fail(
				"%llu us are taken for the time in the idle drive, where %llu us were the longest",
				(unsigned long long)k2->target.idle[class].typical_ns / 1000,
				(unsigned long long)law.alone_most_ns[class] / 1000);
}

/* A flow that has been absent for longer than it counts as present is not predicted after the next dispatch of a real-time request. */
static void check_gone(const struct k2_entry *e)
{
	unsigned long flows = k2->ahead.predicted;

	for (; flows; flows &= flows - 1) {
		const struct ahead_flow *flow = &k2->ahead.flows[__ffs(flows)];

		if (!atomic_read(&flow->inflight) && flow->present_until_ns < e->since_ns)
			player_fail("a flow is predicted that is gone");
	}
}

/*
 * Limits of docs/k2/bounds.md: predictions (and for discards the grace) end within seconds, a pause of the debt within one, and its bucket
 * drains.
 */
static u64 longest_hold_ns(unsigned int list)
{
	u64 gaps = list == K2_LIST_DISCARDS ? ACTIVITY_GAPS : 2;
	u64 most = 2 * max_t(u64, law.debt_limit_most, DEBT_WINDOW_SECTORS) + law.write_most;

	return gaps * ACTIVITY_PERIOD_NS_MAX + 2 * DEBT_PAUSE_NS_MAX +
	       (k2->debt.rate ? rate_ns(k2->debt.rate, most) : 0);
}

/* The drive is kept free for expected requests for at most twice the longest gap between two of a flow; then a background request goes. */
static void check_kept_free(unsigned int list)
{
	struct bound_request r;

	if (law.requests || !ask_why(list, player_now_ns, &r) || r.why != K2_HOLD_AHEAD || r.met)
		return;
	if (!law.kept_free_ns)
		law.kept_free_ns = player_now_ns;
	if (player_now_ns > law.kept_free_ns + 2 * law.flow_gap_ns + 2)
		player_fail("an idle drive is kept free for %llu us, and the longest gap has %llu",
			    (unsigned long long)(player_now_ns - law.kept_free_ns) / 1000,
			    (unsigned long long)law.flow_gap_ns / 1000);
}

/* Checks a background list that waits although the drive has a slot: K2 has to name a reason, and something has to run the queue later. */
static void check_held(unsigned int list, u64 armed_ns, u64 *wish_ns)
{
	u64 until_ns;

	if (player_drains)
		player_fail("a request is held while the queue is being frozen");
	until_ns = ask_again(list);
	if (!until_ns && !(armed_ns && armed_ns <= player_now_ns + rounding_ns()))
		player_fail(
			"a background request waits that may go, and nothing runs a hardware queue");
	if (until_ns == BOUND_AT_END && !law.requests && !armed_ns)
		player_fail("a background request waits for an end, and nothing is in the drive");
	if (until_ns != BOUND_AT_END && until_ns > player_now_ns + longest_hold_ns(list))
		player_fail("a background request is held for %llu us",
			    (unsigned long long)(until_ns - player_now_ns) / 1000);
	check_kept_free(list);
	/* with requests in the drive, a completion runs the queue; at the time that one bound names, another may hold the request */
	if (until_ns && !law.requests && until_ns != BOUND_AT_END && !ask_at(list, until_ns))
		*wish_ns = min(*wish_ns, until_ns);
}

static u64 queued_rt(void)
{
	u64 rt = 0;
	unsigned int level;

	for (level = 0; level < K2_RT_LEVELS; level++)
		rt += law.queued[level];
	return rt;
}

/* When the grace after the latest real-time arrival is over. */
static u64 quiet_ns(void)
{
	return law.rt_seen_ns + max_t(u64, ACTIVITY_GAPS * law.rt_gap_ns, ACTIVITY_GRACE_NS_MIN) +
	       1000;
}

static bool is_quiet(void)
{
	return !queued_rt() && !law.rt_inflight && player_now_ns > quiet_ns();
}

/*
 * When bounds are in force only during real-time activity, and that is over, the drive has all of the background, except discards. If the
 * drive was full, K2 notices the end of activity as the next request leaves it.
 */
static void check_no_pause(void)
{
	bool when_active = k2->knobs[K2_KNOB_bound_when] == K2_BOUND_ACTIVE ||
			   k2->knobs[K2_KNOB_rt_target_us] == KNOB_AUTO;
	bool was_full = law.requests >= inflight_max() && law.left_ns <= quiet_ns();

	if (when_active && !was_full && is_quiet() && law.background[FLOOR_REQUESTS].queued)
		player_fail("a background request waits after the end of real-time activity");
}

static void check_waiting(u64 armed_ns)
{
	u64 wish_ns = BOUND_AT_END;
	enum floor_kind kind;
	unsigned int lists = levels_queued(&k2->levels), list;

	if (law.requests >= most_requests() || !lists)
		return;
	if (lists & ~K2_MAP_BACKGROUND)
		player_fail(
			"an urgent or real-time request waits, the drive has a slot, and nothing runs a hardware queue");
	/* entries that are not collected come after collected ones, so they need no check */
	lists = k2->levels.filled;
	for (list = K2_LIST_BACKGROUND; list < K2_LISTS; list++)
		if (lists & 1U << list)
			check_held(list, armed_ns, &wish_ns);
	if (!lists)
		player_fail(
			"a background request was not collected, and nothing runs a hardware queue");
	for (kind = 0; kind < FLOOR_KINDS; kind++)
		if (floor_interval_ns() && law.background[kind].waits &&
		    law.background[kind].queued && !discards_wait(kind))
			wish_ns =
				min(wish_ns, max(law.background[kind].owed_ns, player_now_ns + 1));
	/* the end of real-time activity may lift bounds, so the timer is needed for it */
	if (k2->activity.watched && k2->activity.active && !atomic_read(&k2->rt_inflight_all))
		wish_ns = min(wish_ns, max(activity_quiet_ns(&k2->activity), player_now_ns + 1));
	if (wish_ns != BOUND_AT_END && (!armed_ns || armed_ns > wish_ns + rounding_ns()))
		player_fail("the timer is due at %llu, and a wish is for %llu",
			    (unsigned long long)armed_ns, (unsigned long long)wish_ns);
}

static void subject_check(unsigned long runs, u64 armed_ns)
{
	if (inflight_requests(&k2->inflight) != law.requests ||
	    inflight_sectors(&k2->inflight) != law.sectors)
		player_fail(
			"K2 counts %llu requests of %llu sectors in the drive, there are %llu of %llu",
			(unsigned long long)inflight_requests(&k2->inflight),
			(unsigned long long)inflight_sectors(&k2->inflight),
			(unsigned long long)law.requests, (unsigned long long)law.sectors);
	check_knobs();
	check_bucket();
	check_idle_drive();
	if (!runs) {
		check_no_pause();
		check_waiting(armed_ns);
	}
}

/* --- calls of the player --------------------------------------------------------------------------------------- */

static bool subject_set(unsigned int knob, u64 value)
{
	u64 interval_ns = floor_interval_ns();

	if (k2_configure(k2, knob, value))
		player_fail("knob %s refused %llu", k2_knob_infos[knob].name,
			    (unsigned long long)value);
	law.rt_watched &= k2->activity.watched;
	if (knob == K2_KNOB_discard_kib_max)
		law.discards_set = true;
	if (floor_interval_ns() != interval_ns)
		law.background[FLOOR_REQUESTS].waits = law.background[FLOOR_DISCARDS].waits = false;
	return true;
}

static void subject_insert(struct io **ios, unsigned int count, bool urgent)
{
	LIST_HEAD(entries);
	unsigned int i;

	for (i = 0; i < count; i++) {
		struct io *io = ios[i];
		struct k2_entry *e = (struct k2_entry *)io->elv;

		io->urgent = urgent;
		io->queued = true;
		io->inserted_ns = player_now_ns;
		law.inserted[io->level]++;
		if (urgent)
			law.queued_urgent++;
		else
			law.queued[io->level]++;
		k2_prepare(k2, e, io->level, urgent, io->op == IO_DISCARD, player_now_ns);
		list_add_tail(&io->node, &entries);
		if (e->list >= K2_LIST_BACKGROUND)
			law.background[K2_FLOOR_KIND(e->list)].queued++;
	}
	levels_insert(&k2->levels, ctxs[ios[0]->queue], &entries);
}

static bool subject_has_work(u32 queue)
{
	(void)queue;
	return k2_has_work(k2);
}

/* Checks that real-time activity ends when its grace is over, from arrivals alone. */
static void check_activity(void)
{
	if (k2->activity.watched && k2->activity.active && law.rt_seen_ns && is_quiet())
		player_fail("real-time activity has not ended");
}

/* Notes the arrival of real-time requests that are queued. The longest gap counts a 64th less with each later arrival. */
static void see_rt(void)
{
	u64 gap_ns = player_now_ns - law.rt_seen_ns;

	if (!queued_rt()) {
		law.rt_left = false;
		return;
	}
	if (!law.rt_left && law.rt_seen_ns && gap_ns <= ACTIVITY_PERIOD_NS_MAX)
		law.rt_gap_ns =
			max(law.rt_gap_ns - (law.rt_watched ? law.rt_gap_ns / 64 : 0), gap_ns);
	law.rt_watched = k2->activity.watched;
	law.rt_seen_ns = player_now_ns;
	law.rt_left = true;
}

/* Measures the gap between the arrivals of two requests of a flow, unless it is a silence. */
static void note_arrival(const struct io *io)
{
	u64 *arrived_ns = &law.arrived_ns[io->task];

	if (*arrived_ns && io->inserted_ns > *arrived_ns &&
	    io->inserted_ns - *arrived_ns <= ARRIVALS_GAP_NS_MAX)
		law.flow_gap_ns = max(law.flow_gap_ns, io->inserted_ns - *arrived_ns);
	*arrived_ns = io->inserted_ns;
}

/* The most that a request in time raises a bound of the target. A late one lowers it by TARGET_ODDS times as much at most. */
static s64 largest_step(const struct target_point *point)
{
	if (point->seen < TARGET_FIRST / 2)
		return TARGET_STEP * TARGET_FIRST_TIMES;
	/* it is sought again: the aim was raised by a quarter of a doubling, and the bound is below 32 KiB */
	if (point->lift > 1 << (TARGET_LIFT_SHIFT - 2) && point->log < 6 << TARGET_LOG_SHIFT)
		return TARGET_STEP * 4;
	return TARGET_STEP;
}

/*
 * A dispatch moves each bound of the target, which was @before, by no more than the requests that have ended since the latest one allow: up by
 * all of them, with p99.9 by a tenth of that once the steps are small; down by the late ones.
 */
static void check_move(const struct target *before)
{
	unsigned int kind;

	for (kind = 0; kind < TARGET_KINDS; kind++) {
		const struct target_point *point = &before->points[kind];
		s64 rise = k2->target.points[kind].log - point->log;
		s64 down = largest_step(point), up;

		up = before->rare && point->seen >= TARGET_FIRST / 2 ? down / 10 + 1 : down;
		if (rise > (s64)law.rt_ended_lately * up)
			player_fail("%llu real-time requests raised the target's bound by %lld",
				    (unsigned long long)law.rt_ended_lately, (long long)rise);
		if (-rise > (s64)law.rt_late_lately * TARGET_ODDS * down)
			player_fail(
				"%llu late real-time requests lowered the target's bound by %lld",
				(unsigned long long)law.rt_late_lately, (long long)-rise);
	}
}

/*
 * The aim is never lower than what the target asks for. A dispatch raises it only where the bound, which was @before, could fall no further
 * than to its least, and its first steps are over; by no more than the late requests that have ended since the latest one allow.
 */
static void check_aim(const struct target *before)
{
	unsigned int kind;

	for (kind = 0; kind < TARGET_KINDS; kind++) {
		const struct target_point *point = &before->points[kind];
		int least = (kind == TARGET_PREDICTED ? 1 : 3) << TARGET_LOG_SHIFT;
		s64 step = 1 << (TARGET_LIFT_SHIFT - (kind == TARGET_PREDICTED ? 3 : 5));
		s64 lift = k2->target.points[kind].lift, rise = lift - point->lift;

		if (lift < 0)
			player_fail("the aim is lower than what the target asks for");
		if (rise > 0 && point->seen < TARGET_FIRST / 4)
			player_fail("the aim was raised while its bound was sought");
		if (rise > 0 && point->log > least + TARGET_ODDS * largest_step(point))
			player_fail("the aim was raised, and the bound was not at its least");
		if (rise > (s64)law.rt_late_lately * step)
			player_fail("%llu late real-time requests raised the aim by %lld",
				    (unsigned long long)law.rt_late_lately, (long long)rise);
	}
}

static struct io *subject_dispatch(u32 queue, struct list_head *large)
{
	struct target before;
	struct k2_entry *e;
	struct io *io;

	(void)queue;
	see_rt();
	see_all();
	before = k2->target;
	e = k2_dispatch(k2, player_now_ns, large);
	check_move(&before);
	check_aim(&before);
	if (before.on)
		law.rt_ended_lately = law.rt_late_lately = 0;
	check_activity();
	see_waiting();
	if (!e && !bounds_are_on() && list_empty(large) && law.background[FLOOR_REQUESTS].queued)
		player_fail("the background is held although there is no real-time activity");
	if (!e)
		return NULL;
	io = k2_io(e);
	unqueue(io);
	if (io->level != K2_BACKGROUND) {
		law.rt_inflight++;
		law.rt_left = queued_rt();
	}
	law.chosen[io->level]++;
	if (io->level == K2_BACKGROUND)
		law.kept_free_ns = 0;
	else if (e->list != K2_LIST_URGENT)
		note_arrival(io);
	if (k2->ahead.learns && e->list < K2_LIST_BACKGROUND && e->list != K2_LIST_URGENT)
		check_gone(e);
	io->law_alone_ns = 0;
	if (!law.requests && io->level != K2_BACKGROUND && k2_sectors(e)) {
		/* for the first request of its class, the wait in the queue counts too */
		io->law_alone_ns = player_now_ns;
		if (!law.alone_most_ns[target_class(k2_sectors(e), k2_writes(e))])
			io->law_alone_ns = io->inserted_ns;
	}
	law.requests++;
	law.sectors += k2_sectors(e);
	law.discards += e->list == K2_LIST_DISCARDS;
	charge_write(io);
	return io;
}

static void leave(struct io *io)
{
	struct k2_entry *e = (struct k2_entry *)io->elv;

	law.requests--;
	law.left_ns = player_now_ns;
	law.rt_inflight -= io->level != K2_BACKGROUND;
	law.sectors -= k2_sectors(e);
	law.discards -= e->list == K2_LIST_DISCARDS;
	law.written -= io->law_cost;
}

/* Has a request that moves data taken longer than the target asks for? */
static bool is_late(const struct io *io, struct k2_entry *e)
{
	const struct target *t = &k2->target;
	u64 asked_ns = t->target_ns;

	if (!asked_ns || !k2_sectors(e))
		return false;
	if (asked_ns == TARGET_AUTO)
		asked_ns = TARGET_AUTO_TIMES *
			   target_idle_ns(&t->idle[target_class(k2_sectors(e), k2_writes(e))]);
	return player_now_ns - io->inserted_ns > asked_ns;
}

static bool subject_finish(struct io *io)
{
	leave(io);
	if (io->law_alone_ns) {
		u64 *most = &law.alone_most_ns[target_class(k2_sectors((struct k2_entry *)io->elv),
							    io->op == IO_WRITE)];

		*most = max(*most, player_now_ns - io->law_alone_ns);
	}
	if (io->level != K2_BACKGROUND) {
		law.rt_ended++;
		law.rt_ended_lately++;
		law.rt_late_lately += is_late(io, (struct k2_entry *)io->elv);
		law.rt_ns += player_now_ns - io->inserted_ns;
	}
	return k2_finish(k2, (struct k2_entry *)io->elv, false);
}

static bool subject_requeue(struct io *io, bool dispatched_again)
{
	if (!dispatched_again)
		return false;
	leave(io);
	return k2_finish(k2, (struct k2_entry *)io->elv, true);
}

static bool subject_tick(void)
{
	return k2_tick(k2);
}

struct merge {
	struct list_head *merged;
	bool (*chosen)(struct io *io);
};

static void offer(struct k2_entry *e, void *argument)
{
	struct merge *merge = argument;
	struct io *io = k2_io(e);

	if (!merge->chosen(io))
		return;
	k2_remove(k2, e);
	law.removed[io->level]++;
	unqueue(io);
	list_add_tail(&io->node, merge->merged);
}

static bool subject_merge(struct list_head *merged, bool (*chosen)(struct io *io))
{
	struct merge merge = { merged, chosen };
	bool run;

	if (!k2_merge_begin(k2))
		player_fail("the dispatcher's lock is held");
	see_all();
	k2_visit_new(k2, K2_BACKGROUND, offer, &merge);
	run = k2_merge_end(k2);
	/* the merged requests are freed, as requests that were never dispatched */
	return run;
}

static u32 subject_piece(const struct io *io)
{
	return io->op == IO_FLUSH ? 0 : k2_piece(k2, io->level, io->op == IO_DISCARD);
}

static u32 subject_limit(const struct io *io, u32 tags)
{
	bool discards = io->op == IO_DISCARD;

	return io->level == K2_BACKGROUND && k2_limits_tags(k2, discards, tags) ?
		       k2_limit(k2, tags, discards) :
		       tags;
}

/*
 * While requests wait that a dispatcher has seen, tasks outside the real-time class get no tag beyond their share. At other times the limit
 * may be left out.
 */
static void subject_granted(const struct io *io, u32 held, u32 tags)
{
	u32 kept = (tags * k2->knobs[K2_KNOB_rt_tags] + 99) / 100;

	if (io->level == K2_BACKGROUND && law.seen && held > max(tags - kept, 1U))
		player_fail(
			"a hardware queue has %u tags, the background got %u of them, and rt_tags is %u",
			tags, held, k2->knobs[K2_KNOB_rt_tags]);
}

static void subject_destroy(void)
{
	unsigned int level, i;

	for (level = 0; level < K2_LEVELS; level++) {
		u64 inserted = 0, waits = 0;

		for (i = 0; i < k2->levels.ctx_count; i++)
			inserted += ctxs[i]->inserted[level];
		for (i = 0; i < K2_WAIT_BUCKETS; i++)
			waits += k2->wait[level][i];
		if (inserted != law.inserted[level] || k2->dispatched[level] != law.chosen[level] ||
		    k2->removed[level] != law.removed[level] || waits != law.chosen[level])
			player_fail("the counters of level %u do not balance", level);
	}
	if ((u64)atomic64_read(&k2->rt_ended) != law.rt_ended ||
	    (u64)atomic64_read(&k2->rt_ns) != law.rt_ns)
		player_fail("the counters of completed real-time requests do not balance");
	if (k2->taken != law.taken)
		player_fail("%llu requests were taken to be split, K2 has counted %llu",
			    (unsigned long long)law.taken, (unsigned long long)k2->taken);
	if (!k2_deinit(k2))
		player_fail("something is left");
}

const struct subject subject_k2 = {
	.name = "k2",
	.knobs = k2_knob_infos,
	.knob_count = K2_KNOB_COUNT,
	.levels = K2_LEVELS,
	.tasks = 3,
	.create = subject_create,
	.destroy = subject_destroy,
	.set = subject_set,
	.finish = subject_finish,
	.requeue = subject_requeue,
	.tick = subject_tick,
	.merge = subject_merge,
	.insert = subject_insert,
	.has_work = subject_has_work,
	.dispatch = subject_dispatch,
	.piece = subject_piece,
	.limit = subject_limit,
	.granted = subject_granted,
	.check = subject_check,
};
