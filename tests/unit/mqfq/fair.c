// SPDX-License-Identifier: GPL-2.0-only
/*
 * Is MQFQ fair? fair FIRST_SEED COUNT
 *
 * Flows that always have requests waiting, of one size each, on some of the queues; a drive that ends them in any order. For any two of
 * them, f and m, and any interval, what went to the drive differs by at most 2 T + l_f / r_f + l_m / r_m: T is the knob, l what a request
 * costs, r the weight (M. Hedayati et al., "Multi-Queue Fair Queueing", ATC 2019, theorem 1: dispatched, not completed). And the drive is
 * kept full.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "environment.h"

#define HCTXS 8
#define FLOWS 6
#define DEPTH 64
#define DISPATCHES 4000

static struct mqfq drive;
static unsigned long runs;
static u64 state;

static void mqfq_run(struct mqfq *m, unsigned int hctx)
{
	(void)m;
	runs |= BIT(hctx);
}

static unsigned int draw(unsigned int n)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return (state * 0x2545f4914f6cdd1dULL >> 33) % n;
}

static struct flow_now {
	unsigned int weight, sectors, first, queues;
	u64 served; /* tags */
	struct io ios[DEPTH];
} flows[FLOWS];

static unsigned int flow_count, in_drive, d;
static bool all_wait; /* each flow has requests waiting */
static struct io *drive_ios[FLOWS * DEPTH];
static u64 t;
static s64 least[FLOWS][FLOWS]; /* of what one had more than the other */
static unsigned long long seed;

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

/* A request of a flow goes. */
static void went(unsigned int f)
{
	unsigned int m;
	s64 more;

	if (!all_wait)
		return;
	flows[f].served += cost(&flows[f]);
	for (m = 0; m < flow_count; m++) {
		more = flows[f].served - flows[m].served;
		if (more - least[f][m] > (s64)(2 * t + cost(&flows[f]) + cost(&flows[m])))
			broken("unfair: of what may be",
			       (double)(more - least[f][m]) /
				       (2 * t + cost(&flows[f]) + cost(&flows[m])));
		least[m][f] = min(least[m][f], -more);
	}
}

static void picked(struct mqfq_entry *e)
{
	(void)e;
}

static void submit(struct io *io)
{
	struct flow_now *f = &flows[io->flow - 1];

	io->queue = (f->first + draw(f->queues)) % drive.queue_count;
	queue_io(&drive, io);
	runs |= BIT(drive.queues[io->queue].hctx);
}

static void run(void)
{
	struct mqfq_entry *e;
	struct io *io;
	unsigned int hctx;

	while (runs) {
		hctx = __ffs(runs);
		runs &= runs - 1;
		while ((e = mqfq_dispatch(&drive, hctx, drive.hctxs[hctx].queues[0], picked))) {
			io = container_of(e, struct io, entry);
			drive_ios[in_drive++] = io;
			if (in_drive > d)
				broken("in the drive:", in_drive);
			went(io->flow - 1);
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
	memset(least, 0, sizeof(least));
	in_drive = 0;
	all_wait = false;
	for (i = 0; i < flow_count; i++) {
		flows[i].weight = weights[draw(6)];
		flows[i].sectors = sizes[draw(6)];
		flows[i].first = draw(drive.queue_count);
		flows[i].queues = 1 + draw(drive.queue_count);
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

int main(int argc, char **argv)
{
	unsigned long long first, count;
	unsigned int i, k;
	struct io *io;

	if (argc != 3)
		return 2;
	first = strtoull(argv[1], NULL, 10);
	count = strtoull(argv[2], NULL, 10);
	for (seed = first; seed < first + count; seed++) {
		state = (seed + 1) * 0x9e3779b97f4a7c15ULL;
		create();
		for (i = 0; i < DISPATCHES; i++) {
			k = draw(in_drive);
			io = drive_ios[k];
			drive_ios[k] = drive_ios[--in_drive];
			mqfq_finish(&drive, &io->entry, false);
			submit(io);
			run();
			if (in_drive < d)
				broken("not full:", in_drive);
		}
		free(drive.hctxs);
	}
	return 0;
}
