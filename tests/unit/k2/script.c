// SPDX-License-Identifier: GPL-2.0-only
/*
 * K2 under a script: reads commands from standard input, a line each, and answers each with a line. One thread, so that
 * a test knows after every step what must hold. Entries are named by numbers.
 *
 * A timer that is armed comes first in an answer: arm:NS. While somebody observes, so does what is seen:
 * hold:REASON:SECTORS:LIMIT, release:REASON:NS, arrival:FLOW:NS:ERROR_NS:IN_TIME (ERROR_NS is - without a prediction);
 * and, with slow_log_us, slow:ID:MET_SECTORS:ERROR_NS.
 *
 *   new CTXS                      a drive with so many hardware queues
 *   insert CTX NOW ID:LEVEL:URGENT:SECTORS ...       one list of insertions -> ok
 *   work [NOW]                    -> 1 or 0, as has_work
 *   dispatch NOW                  -> the entry, or -; then those that are to be split
 *   finish ID CTX [NOW]           -> the ctxs woken
 *   whole ID                      the entry may not be split
 *   writes ID                     the entry is a write
 *   key ID KEY                    whose it is
 *   discards ID                   the entry is a discard
 *   flush 0|1                     whether a flush is in the drive
 *   piece LEVEL                   -> most sectors in an entry of the level
 *   requeue ID CTX AGAIN          -> the ctxs woken
 *   merge LEVEL PERCENT           collect, visit the new entries of a level, remove those for which ID % 100 < PERCENT
 *                                 -> the entries visited
 *   set KNOB VALUE                -> 0 or an error
 *   limit TAGS                    -> tags for others than real-time tasks
 *   counters                      -> inflight, their sectors, bound_held, and for each level in flight, inserted, dispatched, removed
 *   wait LEVEL                    -> histogram
 *   tick NOW                      the timer is due
 *   flows                         -> for each that is known LEVEL:KEY:UNDER_WAY:STATE; p predicted, u unpredicted, - neither
 *   predicted                     -> bitmap of the flows that are predicted
 *   rate                          -> of the drive, as far as it was learned, in KiB/s
 *   target                        -> which arm is used, or that it was given up
 *   owed                          -> sectors in flight, and of writes that have ended and are not worked off
 *   drain                         -> the rate at which the debt of writes drains, as far as it was learned, in KiB/s
 *   observe SESSION               somebody begins to look; 0: nobody does
 *   end                           -> 1 if nothing is left, else 0
 *   knobs                         -> name|unit|least|most|step|initial|scale|what, joined by tabs
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define K2_OBSERVED
#include "../../../sched/k2.h"

struct io {
	struct k2_entry entry;
	struct list_head node;
	unsigned int id;
	unsigned int sectors;
	bool whole;
	bool writes;
	u64 key;
	unsigned int met_sectors;
	s64 error_ns;
	bool discards;
};

#include "io.h"

static bool k2_may_split(struct k2_entry *e)
{
	return !((struct io *)e)->whole;
}

static u64 now_ns;

static bool flush_in_drive;

static bool k2_flushes(const struct k2 *k2)
{
	(void)k2;
	return flush_in_drive;
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

static void k2_observe_hold(const struct k2 *k2, const struct k2_refusal *r)
{
	static const char *const whys[] = { "count", "bytes", "debt", "ahead", "flush", "idle" };

	(void)k2;
	printf("hold:%s:%u:%u ", whys[r->why], r->sectors, r->limit);
}

static void k2_observe_release(const struct k2 *k2, enum k2_release why, u64 held_ns)
{
	static const char *const whys[] = { "completion", "timer", "knob", "run" };

	(void)k2;
	printf("release:%s:%llu ", whys[why], (unsigned long long)held_ns);
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
	printf("arrival:%u:%llu:%s:%d ", flow, (unsigned long long)arrived_ns, error_text(error_ns),
	       in_time);
}

static void k2_log_begin(const struct k2 *k2, struct k2_entry *e, unsigned int met_sectors,
			 unsigned int owed_sectors, s64 error_ns)
{
	(void)k2, (void)owed_sectors;
	((struct io *)e)->met_sectors = met_sectors;
	((struct io *)e)->error_ns = error_ns;
}

static void k2_log_slow(const struct k2 *k2, struct k2_entry *e, u64 now)
{
	const struct io *io = (struct io *)e;

	(void)k2, (void)now;
	printf("slow:%u:%u:%s ", io->id, io->met_sectors, error_text(io->error_ns));
}

#include "../../../sched/k2.c"

#define IOS 4096

static struct io ios[IOS];
static struct k2 *k2;
static struct k2_ctx **ctxs;

static void picked(struct k2_entry *e)
{
	if (e->state != K2_QUEUED)
		abort();
}

static void wake(void *argument, struct k2_ctx *ctx)
{
	fprintf(argument, "%u ", ctx->index);
}

static void arm(void *argument, u64 at_ns)
{
	fprintf(argument, "arm:%llu ", (unsigned long long)at_ns);
}

struct merge {
	unsigned int percent;
};

static void visit(struct k2_entry *e, void *argument)
{
	const struct merge *merge = argument;
	unsigned int id = ((struct io *)e)->id;

	printf("%u ", id);
	if (id % 100 < merge->percent)
		k2_remove(k2, e);
}

static void tear_down(void)
{
	unsigned int i;

	if (!k2)
		return;
	for (i = 0; i < k2->ctx_count; i++)
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
	flush_in_drive = false;
	k2 = aligned_alloc(64, (k2_size(count) + 63) / 64 * 64);
	memset(k2, 0, k2_size(count));
	ctxs = calloc(count, sizeof(*ctxs));
	k2_init(k2, ctxs, count, wake, arm, stdout);
	for (i = 0; i < count; i++) {
		struct k2_ctx *ctx = aligned_alloc(64, sizeof(*ctx));

		memset(ctx, 0, sizeof(*ctx));
		k2_init_ctx(k2, ctx, i);
	}
	for (i = 0; i < IOS; i++) {
		memset(&ios[i], 0, sizeof(ios[i]));
		ios[i].id = i;
		INIT_LIST_HEAD(&ios[i].node);
	}
}

static void insert(char *list)
{
	unsigned int ctx, id, level, urgent, sectors;
	unsigned long long at;
	int used;

	if (sscanf(list, "%u %llu%n", &ctx, &at, &used) < 2)
		abort();
	k2_insert_begin(ctxs[ctx]);
	for (list += used;
	     sscanf(list, " %u:%u:%u:%u%n", &id, &level, &urgent, &sectors, &used) == 4;
	     list += used) {
		ios[id].sectors = sectors;
		k2_insert(ctxs[ctx], &ios[id].entry, level, urgent, at);
	}
	k2_insert_end(k2, ctxs[ctx]);
	printf("ok");
}

static void counters(void)
{
	unsigned int i, level;

	printf("%d %d %ld", atomic_read(&k2->inflight), atomic_read(&k2->inflight_sectors),
	       atomic_long_read(&k2->bound_held));
	for (level = 0; level < K2_LEVELS; level++) {
		u64 inserted = 0;

		for (i = 0; i < k2->ctx_count; i++)
			inserted += ctxs[i]->inserted[level];
		printf(" %d %llu %llu %llu", atomic_read(&k2->inflight_level[level]),
		       (unsigned long long)inserted, (unsigned long long)k2->dispatched[level],
		       (unsigned long long)k2->removed[level]);
	}
}

static void flows(void)
{
	unsigned int i;

	for (i = 0; i < AHEAD_FLOWS; i++) {
		unsigned long bit = 1UL << i;

		if (!k2->flows[i].list)
			continue;
		printf("%u:%llu:%d:%s ", k2->flows[i].list - 1,
		       (unsigned long long)k2->flows[i].key,
		       atomic_read(&k2->ahead.flows[i].under_way),
		       k2->ahead.predicted & bit   ? "p" :
		       k2->ahead.unpredicted & bit ? "u" :
						     "-");
	}
}

static void obey(char *line)
{
	unsigned int a, b, c;
	unsigned long long value = 0;
	char name[32];
	int used = 0;

	if (sscanf(line, "new %u", &a) == 1) {
		set_up(a);
		printf("ok");
	} else if (!strncmp(line, "insert ", 7)) {
		insert(line + 7);
	} else if (!strncmp(line, "work", 4)) {
		if (sscanf(line, "work %llu", &value) == 1)
			now_ns = value;
		printf("%d", k2_has_work(k2));
	} else if (sscanf(line, "tick %llu", &value) == 1) {
		now_ns = value;
		k2_tick(k2);
		printf("ok");
	} else if (sscanf(line, "key %u %llu", &a, &value) == 2) {
		ios[a].key = value;
		printf("ok");
	} else if (!strcmp(line, "flows\n")) {
		flows();
	} else if (!strcmp(line, "predicted\n")) {
		printf("%lu", k2->ahead.predicted);
	} else if (sscanf(line, "observe %u", &session) == 1) {
		printf("ok");
	} else if (!strcmp(line, "rate\n")) {
		printf("%llu", (unsigned long long)mul_u64_u32_shr(500000000, k2->ahead.rate, 32));
	} else if (!strcmp(line, "drain\n")) {
		printf("%llu", (unsigned long long)mul_u64_u32_shr(500000000, k2->debt.rate, 32));
	} else if (!strcmp(line, "target\n")) {
		printf("%s", k2->target.given_up	    ? "given up" :
			     k2->target.arm == TARGET_AHEAD ? "ahead" :
							      "plain");
	} else if (!strcmp(line, "owed\n")) {
		printf("%d",
		       atomic_read(&k2->inflight_sectors) + (int)debt_owed(&k2->debt, now_ns));
	} else if (sscanf(line, "dispatch %llu", &value) == 1) {
		LIST_HEAD(large);
		struct io *io, *next;
		struct k2_entry *e;

		now_ns = value;
		e = k2_dispatch(k2, picked);
		k2_take_large(k2, &large);
		if (e)
			printf("%u", ((struct io *)e)->id);
		else
			printf("-");
		list_for_each_entry_safe(io, next, &large, node) {
			printf(" %u", io->id);
			list_del_init(&io->node);
		}
	} else if (sscanf(line, "finish %u %u %llu", &a, &b, &value) >= 2) {
		now_ns = value;
		k2_finish(k2, ctxs[b], &ios[a].entry);
	} else if (sscanf(line, "whole %u", &a) == 1) {
		ios[a].whole = true;
		printf("ok");
	} else if (sscanf(line, "writes %u", &a) == 1) {
		ios[a].writes = true;
		printf("ok");
	} else if (sscanf(line, "flush %u", &a) == 1) {
		flush_in_drive = a;
		printf("ok");
	} else if (sscanf(line, "discards %u", &a) == 1) {
		ios[a].discards = true;
		printf("ok");
	} else if (sscanf(line, "piece %u", &a) == 1) {
		printf("%u", k2_piece(k2, a));
	} else if (sscanf(line, "requeue %u %u %u", &a, &b, &c) == 3) {
		k2_requeue(k2, ctxs[b], &ios[a].entry, c);
	} else if (sscanf(line, "merge %u %u", &a, &b) == 2) {
		struct merge merge = { .percent = b };

		spin_lock(&k2->lock);
		k2_collect(k2);
		k2_visit_new(k2, a, visit, &merge);
		spin_unlock(&k2->lock);
	} else if (sscanf(line, "set %31s %llu%n", name, &value, &used) == 2 && used) {
		for (a = 0; a < K2_KNOB_COUNT; a++)
			if (!strcmp(k2_knob_infos[a].name, name)) {
				printf("%d ", k2_configure(k2, a, value));
				printf("%u", k2->knobs[a]);
			}
	} else if (sscanf(line, "limit %u", &a) == 1) {
		printf("%u", k2_limit(k2, a));
	} else if (!strcmp(line, "counters\n")) {
		counters();
	} else if (sscanf(line, "wait %u", &a) == 1) {
		for (b = 0; b < K2_WAIT_BUCKETS; b++)
			printf("%llu ", (unsigned long long)k2->wait[a][b]);
	} else if (!strcmp(line, "end\n")) {
		printf("%d", k2_deinit(k2));
	} else if (!strcmp(line, "knobs\n")) {
		for (a = 0; a < K2_KNOB_COUNT; a++) {
			const struct k2_knob_info *i = &k2_knob_infos[a];

			printf("%s%s|%s|%u|%u|%u|%u|%s|%s", a ? "\t" : "", i->name, i->unit,
			       i->least, i->most, i->step, i->initial, i->scale, i->what);
		}
	} else {
		fprintf(stderr, "not a command: %s", line);
		exit(2);
	}
	printf("\n");
	fflush(stdout);
}

int main(void)
{
	static char line[1 << 16];

	while (fgets(line, sizeof(line), stdin))
		obey(line);
	return 0;
}
