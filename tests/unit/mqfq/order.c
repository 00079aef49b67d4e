// SPDX-License-Identifier: GPL-2.0-only
/*
 * The order of dispatch of one queue, with T = 0: order D, with commands on standard input
 *
 *	submit FLOW WEIGHT SECTORS	queues a request
 *	end COUNT			the oldest requests in the drive end; then requests are dispatched
 *
 * Prints for each request that is dispatched its number, in the order of submission, and its start tag.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "environment.h"

#define IOS 16384

static struct mqfq drive;
static struct io ios[IOS], *went[IOS];
static unsigned int submitted, dispatched, ended;

/* The only hardware queue is run after each end. */
static void mqfq_run(struct mqfq *m, unsigned int hctx)
{
	(void)m;
	(void)hctx;
}

static void picked(struct mqfq_entry *e)
{
	(void)e;
}

static void submit(unsigned int flow, unsigned int weight, unsigned int sectors)
{
	struct io *io = &ios[submitted++];

	if (submitted == IOS)
		abort();
	*io = (struct io){ .flow = flow, .weight = weight, .level = MQFQ_FAIR, .sectors = sectors };
	queue_io(&drive, io);
}

static void end(unsigned int count)
{
	struct mqfq_entry *e;

	while (count--)
		mqfq_finish(&drive, &went[ended++]->entry, false);
	while ((e = mqfq_dispatch(&drive, drive.hctxs, 0, picked))) {
		went[dispatched] = container_of(e, struct io, entry);
		printf("%td %llu\n", went[dispatched++] - ios, (unsigned long long)e->start);
	}
}

int main(int argc, char **argv)
{
	unsigned int flow, weight, sectors, count;
	char line[80];

	if (argc != 2)
		return 2;
	create_mqfq(&drive, 1, 1, 0);
	mqfq_configure(&drive, MQFQ_KNOB_d, strtoul(argv[1], NULL, 10));
	mqfq_configure(&drive, MQFQ_KNOB_t_kib, 0);
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "submit %u %u %u", &flow, &weight, &sectors) == 3)
			submit(flow, weight, sectors);
		else if (sscanf(line, "end %u", &count) == 1)
			end(count);
		else
			return 2;
	}
	free(drive.hctxs);
	return 0;
}
