// SPDX-License-Identifier: GPL-2.0-only
/*
 * A scheduler of the simulator under a script: a shared library that obeys commands. What the scheduler asks of its device comes first in
 * the answer: run:QUEUE, arm:NS, split:REQUEST. Requests have numbers.
 *
 *   new NAME QUEUES TAGS
 *   as PROCESS CGROUP THROUGH    process and cgroup of the following commands; 1: written through the drive's cache
 *   insert NOW ID QUEUE OP SECTOR SECTORS IOPRIO HEAD
 *   dispatch NOW QUEUE           -> the request, or -
 *   work QUEUE                   -> 1 or 0, as has_work
 *   complete NOW ID
 *   finish NOW ID
 *   tick NOW
 *   set KNOB VALUE               -> 0 or an error
 *   limit OP SYNC IOPRIO TAGS    -> tags
 *   merge SECTOR SECTORS OP IOPRIO MAX       -> the request, its sector and sectors, or -
 *   knobs                        -> name:least:most:initial ...
 *   end                          -> 1 if nothing is left, else 0
 */
#include <string.h>

#include "../answer.h"
#include "../../../sim/schedulers/scheduler.h"

#define REQUESTS 4096

static struct sim_request requests[REQUESTS];
static const struct sim_scheduler *scheduler;
static struct sim_device device;
static u64 clock_ns;
static void *s;

/* the root and its children */
static struct sim_cgroup cgroups[4] = { { NULL, 0, 100 },
					{ cgroups, 1, 100 },
					{ cgroups, 2, 100 },
					{ cgroups, 3, 100 } };
static unsigned int process, cgroup, through;

static void run(struct sim_device *d, u32 queue)
{
	(void)d;
	say("run:%u ", queue);
}

static void arm(struct sim_device *d, u64 at_ns)
{
	(void)d;
	say("arm:%llu ", (unsigned long long)at_ns);
}

static void split(struct sim_device *d, struct sim_request *rq)
{
	(void)d;
	say("split:%td ", rq - requests);
}

static void set_up(const char *name, u32 queues, u32 tags)
{
	const struct sim_scheduler *const *each = sim_schedulers;

	while (*each && strcmp((*each)->name, name))
		each++;
	scheduler = *each;
	if (!scheduler)
		abort();
	memset(requests, 0, sizeof(requests));
	process = cgroup = through = 0;
	device = (struct sim_device){
		.queues = queues,
		.cpus = queues,
		.tags = tags,
		.max_sectors = 1024,
		.now_ns = &clock_ns,
		.run = run,
		.arm = arm,
		.split = split,
	};
	s = scheduler->create(&device);
}

static void say_request(const struct sim_request *rq, bool place)
{
	if (!rq)
		say("-");
	else
		say("%td", rq - requests);
	if (rq && place)
		say(" %llu %u", (unsigned long long)rq->sector, rq->sectors);
}

static void insert(u64 now, u32 id, u32 queue, u32 op, u64 sector, u32 sectors, u32 ioprio,
		   bool head)
{
	struct sim_request *rq = &requests[id];

	clock_ns = now;
	rq->start_ns = now;
	rq->queue = queue;
	rq->op = op;
	rq->sector = sector;
	rq->sectors = sectors;
	rq->ioprio = ioprio;
	rq->process = process;
	rq->cgroup = &cgroups[cgroup];
	rq->through = through;
	scheduler->insert(s, rq, head, now);
}

/* A bio for the first hardware queue. */
static struct sim_bio bio_of(u64 sector, u32 sectors, u32 op, u32 ioprio)
{
	return (struct sim_bio){
		.sector = sector,
		.sectors = sectors,
		.ioprio = ioprio,
		.process = process,
		.cgroup = &cgroups[cgroup],
		.op = op,
		.through = through,
	};
}

static void obey(const char *line)
{
	unsigned long long v, w;
	unsigned int a, b, c, d, e, f;
	struct sim_request *rq;
	struct sim_bio bio;
	char name[32];

	if (sscanf(line, "new %31s %u %u", name, &a, &b) == 3) {
		set_up(name, a, b);
	} else if (sscanf(line, "as %u %u %u", &process, &cgroup, &through) == 3) {
	} else if (sscanf(line, "insert %llu %u %u %u %llu %u %u %u", &v, &a, &b, &c, &w, &d, &e,
			  &f) == 8) {
		insert(v, a, b, c, w, d, e, f);
	} else if (sscanf(line, "dispatch %llu %u", &v, &a) == 2) {
		clock_ns = v;
		rq = scheduler->dispatch(s, a, v);
		if (rq)
			rq->issue_ns = v;
		say_request(rq, false);
	} else if (sscanf(line, "work %u", &a) == 1) {
		say("%d", scheduler->has_work(s, a));
	} else if (sscanf(line, "complete %llu %u", &v, &a) == 2) {
		if (scheduler->complete)
			scheduler->complete(s, &requests[a], v);
	} else if (sscanf(line, "finish %llu %u", &v, &a) == 2) {
		clock_ns = v;
		if (scheduler->finish)
			scheduler->finish(s, &requests[a], v);
	} else if (sscanf(line, "tick %llu", &v) == 1) {
		scheduler->tick(s, v);
	} else if (sscanf(line, "set %31s %llu", name, &v) == 2) {
		for (a = 0; a < scheduler->knob_count; a++)
			if (!strcmp(scheduler->knobs[a].name, name))
				say("%d", scheduler->configure(s, a, v));
	} else if (sscanf(line, "limit %u %u %u %u", &a, &b, &c, &d) == 4) {
		bio = bio_of(0, 8, a, c);
		bio.sync = b;
		say("%u", scheduler->limit(s, &bio, d));
	} else if (sscanf(line, "merge %llu %u %u %u %u", &v, &a, &b, &c, &d) == 5) {
		bio = bio_of(v, a, b, c);
		say_request(scheduler->try_merge(s, &bio, d), true);
	} else if (!strcmp(line, "knobs")) {
		for (a = 0; a < scheduler->knob_count; a++)
			say("%s:%llu:%llu:%llu ", scheduler->knobs[a].name,
			    (unsigned long long)scheduler->knobs[a].least,
			    (unsigned long long)scheduler->knobs[a].most,
			    (unsigned long long)scheduler->knobs[a].initial);
	} else if (!strcmp(line, "end")) {
		say("%d", scheduler->destroy(s));
	} else {
		refuse(line);
	}
}
