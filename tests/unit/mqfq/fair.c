// SPDX-License-Identifier: GPL-2.0-only
/*
 * Is MQFQ fair? fair FIRST_SEED COUNT [full | dispatched | completed | staleness | statistics]: checks all laws, or one
 *
 * Flows that always have requests waiting, each of one size, use some of the queues. The drive ends requests in any order, or for a while
 * those of one flow first. T and D are the knobs, l is the cost of a request, r the weight. For any two flows, f and m, and any interval:
 *
 * dispatched: the requests dispatched differ by at most 2 T + l_f / r_f + l_m / r_m (M. Hedayati et al., "Multi-Queue Fair Queueing", ATC
 * 2019, theorem 1);
 * completed: the requests completed differ by at most 2 T + (D + 1) (l_f / r_f + l_m / r_m), as D dispatched requests are not completed;
 * full: there are always D requests in the drive.
 *
 * A request that bios join is larger; l is the cost of the largest. Add to both bounds the growth since a request was queued, which only
 * later requests pay for.
 *
 * staleness: virtual time is never later than the least start tag of the waiting requests, and at most a span of T / 8 earlier. Run alone,
 * this law prints the largest distance.
 *
 * statistics: the statistics of a flow agree with what was observed: dispatched requests and sectors; the time for which first requests of
 * queues were too far ahead; and completions of requests from such a queue that left a slot idle. The largest unfairness is no more than
 * was observed in any interval, and no more than its bound. Run alone, this law also changes T, and at times leaves a hardware queue alone,
 * so that virtual time passes its waiting requests. The bound is useful: in at least one of twenty plays the unfairness is above half of it,
 * also of those plays in which a hardware queue that no flow uses has no online CPU.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "environment.h"
#include "seeds.h"

#define HCTXS 8
#define FLOWS 6
#define DEPTH 64
#define DISPATCHES 4000

static struct mqfq drive;
static unsigned long runs;

static void mqfq_run(struct mqfq *m, unsigned int hctx)
{
	(void)m;
	runs |= BIT(hctx);
}

static struct flow_now {
	unsigned int weight, sectors, first, queues;
	u64 grown; /* total growth of its requests by merging, as tags */
	u64 grown_before[DEPTH]; /* @grown when each request was queued */
	u64 unpaid_max; /* largest growth between the queueing and the dispatch of a request */
	u64 requests, service; /* dispatched requests, and their sectors */
	u64 throttled_ns, idle;
	struct io ios[DEPTH];
} flows[FLOWS];

static unsigned int flow_count, in_drive, d;
static bool all_wait; /* each flow has requests waiting */
static bool merges;
static bool changes_t; /* T changes: then waiting requests may be too far ahead */
static unsigned int stalled; /* the hardware queue that is not run; HCTXS: none */
static bool stalls; /* at times a hardware queue is not run */
static struct io *drive_ios[FLOWS * DEPTH];
static u64 t;
static unsigned int favourite; /* the flow whose requests the drive ends first; FLOWS: none */
static unsigned long long seed;

enum law { FULL, DISPATCHED, COMPLETED, STALENESS, STATISTICS, ALL };

static enum law law;

/* Dispatched or completed service, as tags. */
static struct service {
	u64 got[FLOWS];
	s64 least[FLOWS][FLOWS]; /* least difference so far between two flows' service */
	u64 most[FLOWS]; /* largest difference from another flow's service, either way, in any interval */
} dispatched, completed;

/* Plays without and with a hardware queue that has no online CPU. */
static unsigned int plays[2], plays_unfair[2];
static unsigned int used; /* the first queues, which flows use */

/* The largest distance from virtual time to the least start tag of the requests that wait, in units of T. */
static double staleness;

static void broken(const char *what, double by)
{
	printf("seed %llu: %s %.3f\n", seed, what, by);
	fflush(stdout);
	_exit(1);
}

static u64 cost(const struct flow_now *f)
{
	return (u64)f->sectors * div_u64(SHARES_SECTOR * SHARES_WEIGHT, f->weight);
}

static bool looks_at(enum law which)
{
	return law == which || law == ALL;
}

/* Counts the service of a request. For any two flows, a difference of @requests requests of each, and of 2 T, is fair. */
static void serve(struct service *s, const struct io *io, unsigned int requests, const char *what)
{
	unsigned int f = io->flow - 1, m;
	u64 bound;
	s64 more;

	if (!all_wait)
		return;
	if (merges)
		requests *= 1 + JOINED_MAX;
	s->got[f] += (1 + io->joined) * cost(&flows[f]);
	for (m = 0; m < flow_count; m++) {
		more = s->got[f] - s->got[m];
		bound = 2 * t + requests * (cost(&flows[f]) + cost(&flows[m])) +
			flows[f].unpaid_max + flows[m].unpaid_max;
		s->most[f] = max(s->most[f], (u64)(more - s->least[f][m]));
		s->most[m] = max(s->most[m], (u64)(more - s->least[f][m]));
		if (more - s->least[f][m] > (s64)bound &&
		    looks_at(s == &dispatched ? DISPATCHED : COMPLETED))
			broken(what, (double)(more - s->least[f][m]) / bound);
		s->least[m][f] = min(s->least[m][f], -more);
	}
}

static void picked(struct mqfq_entry *e)
{
	u64 least = e->start;
	unsigned int i;
	double stale;

	if (!all_wait || !looks_at(STALENESS))
		return;
	for (i = 0; i < drive.queue_count; i++)
		if (drive.queues[i].first && tag_after(least, drive.queues[i].first->start))
			least = drive.queues[i].first->start;
	stale = (double)(s64)(least - atomic64_read(&drive.vt)) / t;
	/* no span is shorter than the least T */
	if (stale < 0 || (stale > 0.125 && drive.knobs[MQFQ_KNOB_t_kib]) || stale > 1)
		broken("from virtual time to what waits, of T:", stale);
	if (drive.knobs[MQFQ_KNOB_t_kib])
		staleness = max(staleness, stale);
}

/* Queues a request, and before that, if requests merge, a bio of its size that becomes part of a queued one. */
static void submit(struct io *io)
{
	struct flow_now *f = &flows[io->flow - 1];

	io->queue = (f->first + draw(f->queues)) % used;
	if (merges && join_io(&drive, io, draw(3)))
		f->grown += cost(f);
	f->grown_before[io - f->ios] = f->grown;
	io->joined = 0;
	queue_io(&drive, io);
	runs |= BIT(drive.queues[io->queue].hctx);
}

/* Dispatches a request to the drive. */
static void went(const struct io *io)
{
	struct flow_now *f = &flows[io->flow - 1];

	f->unpaid_max = max(f->unpaid_max, f->grown - f->grown_before[io - f->ios]);
	f->requests++;
	f->service += (1 + io->joined) * f->sectors;
}

static void run(void)
{
	struct mqfq_entry *e;
	struct io *io;
	unsigned int hctx;

	while (runs & ~BIT(stalled)) {
		hctx = __ffs(runs & ~BIT(stalled));
		runs &= ~BIT(hctx);
		while ((e = mqfq_dispatch(&drive, &drive.hctxs[hctx], drive.hctxs[hctx].queues[0],
					  picked))) {
			io = container_of(e, struct io, entry);
			drive_ios[in_drive++] = io;
			if (in_drive > d && looks_at(FULL))
				broken("in the drive:", in_drive);
			went(io);
			if (looks_at(DISPATCHED) || looks_at(STATISTICS))
				serve(&dispatched, io, 1, "dispatched, of what is fair:");
		}
	}
}

static void create(void)
{
	static const unsigned int weights[] = { 1, 10, 100, 100, 300, 10000 };
	static const unsigned int sizes[] = { 1, 8, 8, 32, 128, 1024 };
	unsigned int hctxs = 1 + draw(HCTXS), i, j;

	create_mqfq(&drive, hctxs, 1 + draw(2), draw(2) ? -(u64)draw(1000) << 30 : 0);
	d = 1 + draw(48);
	mqfq_configure(&drive, MQFQ_KNOB_d, d);
	mqfq_configure(&drive, MQFQ_KNOB_t_kib, draw(3) ? draw(1024) : 0);
	t = drive.t;
	flow_count = 2 + draw(FLOWS - 1);
	memset(flows, 0, sizeof(flows));
	memset(&dispatched, 0, sizeof(dispatched));
	memset(&completed, 0, sizeof(completed));
	favourite = FLOWS;
	in_drive = 0;
	all_wait = false;
	merges = !draw(3);
	changes_t = law == STATISTICS && !draw(3);
	stalls = law == STATISTICS && !draw(3);
	stalled = HCTXS;
	runs = 0;
	used = drive.queue_count;
	if (law == STATISTICS && hctxs > 1 && draw(2)) {
		used -= drive.hctxs[hctxs - 1].count;
		mqfq_leave(&drive, hctxs - 1, true);
	}
	for (i = 0; i < flow_count; i++) {
		flows[i].weight = weights[draw(6)];
		flows[i].sectors = sizes[draw(6)];
		flows[i].first = draw(used);
		flows[i].queues = 1 + draw(used);
	}
	for (i = 0; i < flow_count; i++) {
		for (j = 0; j < DEPTH; j++) {
			flows[i].ios[j] = (struct io){ .flow = i + 1,
						       .weight = flows[i].weight,
						       .level = MQFQ_FAIR,
						       .sectors = flows[i].sectors };
			submit(&flows[i].ios[j]);
			run();
		}
	}
	all_wait = true;
}

/* The flow whose request is the first of a queue and too far ahead; NULL: there is none. */
static struct flow_now *far_in(unsigned int queue)
{
	const struct mqfq_queue *q = &drive.queues[queue];

	if (!q->first || !tag_after(q->first->start, atomic64_read(&drive.vt) + drive.t))
		return NULL;
	return &flows[container_of(q->first, struct io, entry)->flow - 1];
}

static void let_time_pass(void)
{
	struct flow_now *f;
	unsigned int i;

	for (i = 0; i < drive.queue_count; i++) {
		f = far_in(i);
		if (f)
			f->throttled_ns += 1 << 25;
	}
	if (!draw(8))
		mqfq_collect(&drive, draw(MQFQ_LOOKS));
	period++;
}

static void check_statistics(void)
{
	bool above_half = false, offline = used < drive.queue_count;
	unsigned int i, place;

	mqfq_collect(&drive, 0);
	for (i = 0; i < flow_count; i++) {
		const struct flow_now *f = &flows[i];
		const struct account *a;

		place = flows_look_up(&drive.flows, i + 1);
		a = &drive.accounts[place];
		if (atomic64_read(&drive.flows.flows[place].requests) != (s64)f->requests ||
		    atomic64_read(&drive.flows.flows[place].sectors) != (s64)f->service)
			broken("statistics, requests or sectors of flow", i);
		if (atomic64_read(&a->throttled_ns) != (s64)f->throttled_ns && !changes_t &&
		    !stalls)
			broken("statistics, time throttled, of what was seen:",
			       (double)atomic64_read(&a->throttled_ns) / f->throttled_ns);
		if (atomic64_read(&a->idle) != (s64)f->idle && !changes_t && !stalls)
			broken("statistics, slots idle less those seen:",
			       (double)atomic64_read(&a->idle) - f->idle);
		if (a->unfair > dispatched.most[i])
			broken("statistics, unfairness, of what was seen:",
			       (double)a->unfair / dispatched.most[i]);
		if (a->unfair > a->bound)
			broken("statistics, unfairness, of its bound:",
			       (double)a->unfair / a->bound);
		above_half |= a->bound && a->unfair > a->bound / 2;
	}
	plays[offline]++;
	plays_unfair[offline] += above_half;
}

/* Ends a request in the drive. */
static struct io *end(void)
{
	unsigned int k = draw(in_drive), i;
	struct io *io;

	if (!draw(256))
		favourite = draw(2) ? draw(flow_count) : FLOWS;
	for (i = 0; i < in_drive && drive_ios[k]->flow - 1 != favourite; i++)
		k = (k + 1) % in_drive;
	io = drive_ios[k];
	drive_ios[k] = drive_ios[--in_drive];
	if (far_in(io->queue) && atomic_read(&drive.wheel.waiting) && !waiting_any(&drive.waiting))
		far_in(io->queue)->idle++;
	mqfq_finish(&drive, &io->entry, false);
	if (looks_at(COMPLETED))
		serve(&completed, io, d + 1, "completed, of what is fair:");
	return io;
}

/* A hardware queue that virtual time does not know; HCTXS: there is none. */
static unsigned int empty_hctx(void)
{
	unsigned int first = draw(used), i;
	const struct mqfq_queue *q;

	for (i = 0; i < used; i++) {
		q = &drive.queues[(first + i) % used];
		if (q->published == MINDICATOR_NONE)
			return q->hctx;
	}
	return HCTXS;
}

static void play(void)
{
	unsigned int i;

	create();
	for (i = 0; i < DISPATCHES; i++) {
		submit(end());
		run();
		if (in_drive < d && looks_at(FULL))
			broken("not full:", in_drive);
		if (!draw(64))
			let_time_pass();
		if (changes_t && !draw(512)) {
			mqfq_configure(&drive, MQFQ_KNOB_t_kib, draw(1024));
			run();
		}
		if (stalls && (!in_drive || !draw(stalled == HCTXS ? 64 : 512))) {
			stalled = stalled == HCTXS ? empty_hctx() : HCTXS;
			run();
		}
	}
	if (looks_at(STATISTICS))
		check_statistics();
	free(drive.hctxs);
}

int main(int argc, char **argv)
{
	static const char *const laws[] = { "full", "dispatched", "completed", "staleness",
					    "statistics" };
	static const char *const useless[] = {
		"statistics, plays with unfairness above half of its bound:",
		"statistics, plays with an offline CPU and unfairness above half of its bound:"
	};
	unsigned long long first, count;
	unsigned int offline;

	if (argc < 3)
		return 2;
	first = strtoull(argv[1], NULL, 10);
	count = strtoull(argv[2], NULL, 10);
	for (law = FULL; law < ALL && !(argc > 3 && !strcmp(argv[3], laws[law])); law++)
		;
	for (seed = first; seed < first + count; seed++) {
		seed_begin(seed);
		play();
	}
	for (offline = 0; offline < 2; offline++)
		if (plays_unfair[offline] * 20 < plays[offline])
			broken(useless[offline], (double)plays_unfair[offline] / plays[offline]);
	if (law == STALENESS)
		printf("virtual time is at most %.3f T behind what waits\n", staleness);
	return 0;
}
