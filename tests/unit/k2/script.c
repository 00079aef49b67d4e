// SPDX-License-Identifier: GPL-2.0-only
/*
 * K2 under a script: a shared library that obeys commands. It has one thread, so that a test knows what must hold after every step. Entries
 * have numbers.
 *
 * A timer that is armed comes first in an answer: arm:NS. During a session of observation, the observed events follow:
 * hold:REASON:SECTORS:LIMIT, release:REASON:NS, arrival:FLOW:NS:ERROR_NS:IN_TIME (ERROR_NS is - without a prediction),
 * end:ID:MET_SECTORS:ERROR_NS for a real-time entry.
 *
 *   new CTXS                      a drive with CTXS hardware queues
 *   insert CTX NOW ID:LEVEL:URGENT:SECTORS ...       one list of insertions -> ok
 *   work [NOW]                    -> 1 or 0, as has_work
 *   dispatch NOW                  -> the entry, or -; then the entries to be split
 *   finish ID CTX [NOW]           -> CTX if a hardware queue should be run
 *   whole ID                      the entry may not be split
 *   writes ID                     the entry is a write
 *   key ID KEY                    identity of its flow within the level
 *   discards ID                   the entry is a discard
 *   drain 0|1                     whether the queue is being frozen
 *   piece LEVEL                   -> most sectors in an entry of the level
 *   requeue ID CTX AGAIN          -> CTX if a hardware queue should be run
 *   merge LEVEL PERCENT           collect, visit the new entries of a level, remove those for which ID % 100 < PERCENT
 *                                 -> the entries visited, and run if a hardware queue should be run
 *   set KNOB VALUE                -> 0 or an error
 *   limit TAGS                    -> tags for others than real-time tasks
 *   enough                        -> scheduler tags from which on no limit is needed while nothing waits
 *   limits TAGS                   -> 1 if the limit must be applied now, else 0
 *   counters                      -> inflight, their sectors, bound_held, and for each level in flight, inserted, dispatched, removed
 *   wait LEVEL                    -> histogram
 *   tick NOW                      the timer is due -> run if a hardware queue should be run
 *   flows                         -> for each known flow LEVEL:KEY:UNDER_WAY:STATE; p predicted, u unpredicted
 *   least                         -> least time of a request of the first flow, in ns
 *   predicted                     -> bitmap of the flows that are predicted
 *   rate                          -> learned rate of the drive, in KiB/s
 *   target                        -> the operating point in force, or that the target was given up
 *   idle                          -> learned time of the latest real-time request in the idle drive, in ns
 *   owed                          -> sectors in flight, and sectors of ended writes that are not worked off
 *   drain                         -> learned rate at which the debt of writes drains, in KiB/s
 *   observe SESSION               begins a session of observation; 0 ends it
 *   end                           -> 1 if nothing is left, else 0
 *   knobs                         -> name|unit|least|most|step|initial|scale|what, joined by tabs
 */
#include <string.h>

#include "../answer.h"

#define K2_OBSERVED
#ifndef K2_PRODUCT
#define K2_EXPERIMENTS
#endif
#include "../../../sched/k2.h"

struct io {
	struct k2_entry entry;
	struct list_head node;
	unsigned int id;
	unsigned int sectors;
	bool whole;
	bool writes;
	u64 key;
	bool discards;
};

#include "io.h"

static bool k2_may_split(struct k2_entry *e)
{
	return !((struct io *)e)->whole;
}

static u64 now_ns;

static bool drains;

static void k2_picked(struct k2_entry *e)
{
	if (e->state != K2_QUEUED)
		abort();
}

static bool k2_draining(const struct k2 *k2)
{
	(void)k2;
	return drains;
}

static void k2_arm(struct k2 *k2, u64 at_ns)
{
	(void)k2;
	say("arm:%llu ", (unsigned long long)at_ns);
}

static u64 k2_now(const struct k2 *k2)
{
	(void)k2;
	return now_ns;
}

static unsigned int session;

static unsigned int k2_observer(void)
{
	return session;
}

static void k2_observe_hold(const struct k2 *k2, const struct bound_request *r)
{
	static const char *const whys[] = { "count", "bytes", "debt", "ahead", "target", "discard" };

	(void)k2;
	say("hold:%s:%llu:%llu ", whys[r->why], (unsigned long long)r->sectors,
	    (unsigned long long)r->limit);
}

static void k2_observe_release(const struct k2 *k2, enum k2_release why, u64 held_ns)
{
	static const char *const whys[] = { "completion", "timer", "knob", "run" };

	(void)k2;
	say("release:%s:%llu ", whys[why], (unsigned long long)held_ns);
}

static const char *error_text(s64 error_ns)
{
	static char text[32];

	if (error_ns == K2_UNPREDICTED)
		return "-";
	snprintf(text, sizeof(text), "%lld", (long long)error_ns);
	return text;
}

static void k2_observe_arrival(const struct k2 *k2, unsigned int flow, u64 arrived_ns, s64 error_ns,
			       bool in_time)
{
	(void)k2;
	say("arrival:%u:%llu:%s:%d ", flow, (unsigned long long)arrived_ns, error_text(error_ns),
	    in_time);
}

static void k2_observe_rt_end(const struct k2 *k2, struct k2_entry *e, const struct k2_note *note,
			      u64 now)
{
	(void)k2, (void)now;
	say("end:%u:%llu:%s ", ((struct io *)e)->id, (unsigned long long)note->met_sectors,
	    error_text(note->error_ns));
}

#include "../../../sched/k2.c"
#include "../../../sched/binding.h"

#define IOS 4096

static struct io ios[IOS];
static struct k2 *k2;
static struct k2_ctx **ctxs;

struct merge {
	unsigned int percent;
};

static void visit(struct k2_entry *e, void *argument)
{
	const struct merge *merge = argument;
	unsigned int id = ((struct io *)e)->id;

	say("%u ", id);
	if (id % 100 < merge->percent)
		k2_remove(k2, e);
}

static void tear_down(void)
{
	unsigned int i;

	if (!k2)
		return;
	for (i = 0; i < k2->levels.ctx_count; i++)
		free(ctxs[i]);
	free(ctxs);
	free(k2);
	k2 = NULL;
}

static void set_up(unsigned int count)
{
	unsigned int i;

	tear_down();
	session = 0;
	drains = false;
	k2 = aligned_alloc(64, sizeof(*k2));
	memset(k2, 0, sizeof(*k2));
	ctxs = calloc(count, sizeof(*ctxs));
	for (i = 0; i < count; i++) {
		ctxs[i] = aligned_alloc(64, sizeof(**ctxs));
		memset(ctxs[i], 0, sizeof(**ctxs));
	}
	k2_init(k2, ctxs, count, 8);
	for (i = 0; i < IOS; i++) {
		memset(&ios[i], 0, sizeof(ios[i]));
		ios[i].id = i;
		INIT_LIST_HEAD(&ios[i].node);
	}
}

static void insert(const char *list)
{
	unsigned int ctx, id, level, urgent, sectors;
	LIST_HEAD(entries);
	unsigned long long at;
	int used;

	if (sscanf(list, "%u %llu%n", &ctx, &at, &used) < 2)
		abort();
	for (list += used;
	     sscanf(list, " %u:%u:%u:%u%n", &id, &level, &urgent, &sectors, &used) == 4;
	     list += used) {
		ios[id].sectors = sectors;
		k2_prepare(k2, &ios[id].entry, level, urgent, ios[id].discards, at);
		list_add_tail(&ios[id].node, &entries);
	}
	levels_insert(&k2->levels, ctxs[ctx], &entries);
	say("ok");
}

static void counters(void)
{
	unsigned int i, level;

	unsigned int rt = atomic_read(&k2->rt_inflight_all), all = inflight_requests(&k2->inflight);

	say("%u %u %ld", all, (unsigned int)inflight_sectors(&k2->inflight),
	    atomic_long_read(&k2->bound_held));
	for (level = 0; level < K2_LEVELS; level++) {
		u64 inserted = 0;

		for (i = 0; i < k2->levels.ctx_count; i++)
			inserted += ctxs[i]->inserted[level];
		say(" %d %llu %llu %llu",
		    level < K2_RT_LEVELS ? (unsigned int)atomic_read(&k2->rt_inflight[level]) :
					   all - rt,
		    (unsigned long long)inserted, (unsigned long long)k2->dispatched[level],
		    (unsigned long long)k2->removed[level]);
	}
}

static void flows(void)
{
	unsigned int i;

	for (i = 0; i < AHEAD_FLOWS; i++) {
		unsigned long bit = 1UL << i;

		if (!k2->ahead.flows[i].arrivals.origin_ns[ARRIVALS_FROM_ARRIVAL])
			continue;
		say("%u:%llu:%d:%s ", k2->ahead.flows[i].level,
		    (unsigned long long)k2->ahead.flows[i].key,
		    atomic_read(&k2->ahead.flows[i].inflight),
		    k2->ahead.predicted & bit ? "p" : "u");
	}
}

static void obey(const char *line)
{
	unsigned int a, b, c;
	unsigned long long value = 0;
	char name[32];
	int used = 0;

	if (sscanf(line, "new %u", &a) == 1) {
		set_up(a);
		say("ok");
	} else if (!strncmp(line, "insert ", 7)) {
		insert(line + 7);
	} else if (!strncmp(line, "work", 4)) {
		if (sscanf(line, "work %llu", &value) == 1)
			now_ns = value;
		say("%d", k2_has_work(k2));
	} else if (sscanf(line, "tick %llu", &value) == 1) {
		now_ns = value;
		say("%s", k2_tick(k2) ? "run" : "ok");
	} else if (sscanf(line, "key %u %llu", &a, &value) == 2) {
		ios[a].key = value;
		say("ok");
	} else if (!strcmp(line, "flows")) {
		flows();
	} else if (!strcmp(line, "least")) {
		say("%llu", (unsigned long long)k2->ahead.flows[0].least_ns);
	} else if (!strcmp(line, "predicted")) {
		say("%lu", k2->ahead.predicted);
	} else if (sscanf(line, "observe %u", &session) == 1) {
		say("ok");
	} else if (!strcmp(line, "rate")) {
		say("%llu", (unsigned long long)mul_u64_u32_shr(500000000, k2->ahead.rate, 32));
	} else if (!strcmp(line, "drain")) {
		say("%llu", (unsigned long long)mul_u64_u32_shr(500000000, k2->debt.rate, 32));
	} else if (!strcmp(line, "target")) {
		say("%s", target_is_missed(&k2->target)	      ? "missed" :
			  k2->target.kind == TARGET_PREDICTED ? "predicted" :
								"unpredicted");
	} else if (!strcmp(line, "way")) {
		say("%u", k2->ahead.flows[0].arrivals.way);
	} else if (!strcmp(line, "idle")) {
		say("%llu", (unsigned long long)k2->target.idle[k2->target.latest].typical_ns);
	} else if (!strcmp(line, "owed")) {
		say("%llu", (unsigned long long)(inflight_sectors(&k2->inflight) +
						 debt_owed(&k2->debt, now_ns)));
	} else if (sscanf(line, "dispatch %llu", &value) == 1) {
		LIST_HEAD(large);
		struct io *io, *next;
		struct k2_entry *e;

		now_ns = value;
		e = k2_dispatch(k2, now_ns, &large);
		if (e)
			say("%u", ((struct io *)e)->id);
		else
			say("-");
		list_for_each_entry_safe(io, next, &large, node) {
			say(" %u", io->id);
			list_del_init(&io->node);
		}
	} else if (sscanf(line, "finish %u %u %llu", &a, &b, &value) >= 2) {
		now_ns = value;
		if (k2_finish(k2, &ios[a].entry, false))
			say("%u ", b);
	} else if (sscanf(line, "whole %u", &a) == 1) {
		ios[a].whole = true;
		say("ok");
	} else if (sscanf(line, "writes %u", &a) == 1) {
		ios[a].writes = true;
		say("ok");
	} else if (sscanf(line, "drain %u", &a) == 1) {
		drains = a;
		say("ok");
	} else if (sscanf(line, "discards %u", &a) == 1) {
		ios[a].discards = true;
		say("ok");
	} else if (sscanf(line, "piece %u", &a) == 1) {
		say("%u", k2_piece(k2, a, false));
	} else if (sscanf(line, "requeue %u %u %u", &a, &b, &c) == 3) {
		if (c && k2_finish(k2, &ios[a].entry, true))
			say("%u ", b);
	} else if (sscanf(line, "merge %u %u", &a, &b) == 2) {
		struct merge merge = { .percent = b };

		k2_merge_begin(k2);
		k2_visit_new(k2, a, visit, &merge);
		if (k2_merge_end(k2))
			say("run");
	} else if (sscanf(line, "set %31s %llu%n", name, &value, &used) == 2 && used) {
		for (a = 0; a < K2_KNOB_COUNT && strcmp(k2_knob_infos[a].name, name); a++)
			;
		if (a == K2_KNOB_COUNT)
			refuse(line);
		say("%d ", k2_configure(k2, a, value));
		say("%u", k2->knobs[a]);
	} else if (sscanf(line, "limit %u", &a) == 1) {
		say("%u", k2_limit(k2, a, false));
	} else if (!strcmp(line, "enough")) {
		say("%llu", (unsigned long long)k2->tags_enough);
	} else if (sscanf(line, "limits %u", &a) == 1) {
		say("%d", k2_limits_tags(k2, false, a));
	} else if (!strcmp(line, "counters")) {
		counters();
	} else if (sscanf(line, "wait %u", &a) == 1) {
		for (b = 0; b < K2_WAIT_BUCKETS; b++)
			say("%llu ", (unsigned long long)k2->wait[a][b]);
	} else if (!strcmp(line, "end")) {
		say("%d", k2_deinit(k2));
	} else if (!strcmp(line, "knobs")) {
		for (a = 0; a < K2_KNOB_COUNT; a++) {
			const struct knob *i = &k2_knob_infos[a];

			say("%s%s|%s|%llu|%llu|%llu|%llu|%s|%s", a ? "\t" : "", i->name, i->unit,
			    (unsigned long long)i->least, (unsigned long long)i->most,
			    (unsigned long long)i->step, (unsigned long long)i->initial, i->scale,
			    i->what);
		}
	} else {
		refuse(line);
	}
}
