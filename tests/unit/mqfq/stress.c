// SPDX-License-Identifier: GPL-2.0-only
/*
 * MQFQ between real threads, for the sanitizers: stress SEED REQUESTS
 *
 * Each of four threads submits that number of requests, a few at a time, to any queue; runs the hardware queues that MQFQ asks for; ends
 * requests of the next thread that are in the drive; and sometimes changes a knob. In the end all requests have ended, all tokens are back,
 * and no request is queued. The host decides which schedules occur; interleave.c looks for rare ones.
 *
 * Only a request's state hands it from one thread to the next. No lock is taken here, because it would order accesses that MQFQ leaves
 * unordered, and hide races. The thread sanitizer ignores the order that barriers give (gcc warns of that: -Wno-tsan). So an access that it
 * does not report is ordered by a lock or by an atomic operation, or is marked as a race (READ_ONCE()); a missing barrier between such
 * accesses it cannot detect.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "environment.h"
#include "seeds.h"

#define THREADS 4
#define HCTXS 2
#define OUTSTANDING 8

enum slot_state { SLOT_FREE, SLOT_QUEUED, SLOT_IN_DRIVE };

static struct slot {
	struct io io;
	int state;
} slots[THREADS][OUTSTANDING];

static struct mqfq drive;
static unsigned int count, ended;
static int runs[HCTXS];
static u64 seed;

static void mqfq_run(struct mqfq *m, unsigned int hctx)
{
	(void)m;
	shared_store(&runs[hctx], 1);
}

static void picked(struct mqfq_entry *e)
{
	(void)e;
}

static void run_hctx(unsigned int hctx)
{
	struct mqfq_entry *e;

	while ((e = mqfq_dispatch(&drive, &drive.hctxs[hctx], drive.hctxs[hctx].queues[0], picked)))
		shared_store_release(&container_of(e, struct slot, io.entry)->state, SLOT_IN_DRIVE);
}

/* Queues a request, and runs the hardware queue, as blk-mq does. */
static void insert(struct slot *slot)
{
	/* once it is queued, it may end and be reused */
	unsigned int hctx = drive.queues[slot->io.queue].hctx;

	shared_store(&slot->state, SLOT_QUEUED);
	queue_io(&drive, &slot->io);
	run_hctx(hctx);
}

static void submit(struct slot *slot)
{
	slot->io.flow = 1 + draw(3);
	slot->io.weight = 100 * slot->io.flow;
	slot->io.level = draw(4) ? MQFQ_FAIR : draw(WAITING_LEVELS);
	slot->io.sectors = 1 + draw(128);
	slot->io.queue = draw(drive.queue_count);
	slot->io.returns = !draw(8);
	insert(slot);
}

static void end(struct slot *slot)
{
	bool comes_back = slot->io.returns;

	mqfq_finish(&drive, &slot->io.entry, comes_back);
	if (comes_back) {
		slot->io.returns--;
		insert(slot);
		return;
	}
	shared_store_release(&slot->state, SLOT_FREE);
	shared_add(&ended, 1);
}

static void configure(void)
{
	if (draw(2))
		mqfq_configure(&drive, MQFQ_KNOB_d, draw(2) ? 1 + draw(8) : KNOB_AUTO);
	else
		mqfq_configure(&drive, MQFQ_KNOB_t_kib, draw(2) ? draw(64) : KNOB_AUTO);
}

static void *thread_main(void *argument)
{
	unsigned int number = (size_t)argument, left = count, i;
	struct slot *own = slots[number], *others = slots[(number + 1) % THREADS];

	seed_begin(seed * THREADS + number);
	while (shared_load(&ended) < THREADS * count) {
		i = draw(OUTSTANDING);
		if (left && shared_load_acquire(&own[i].state) == SLOT_FREE) {
			left--;
			submit(&own[i]);
			if (!draw(8))
				shared_add(&period, 1);
			if (!draw(64))
				configure();
		}
		for (i = 0; i < HCTXS; i++)
			if (shared_load(&runs[i]) && shared_exchange(&runs[i], 0))
				run_hctx(i);
		i = draw(OUTSTANDING);
		if (shared_load_acquire(&others[i].state) == SLOT_IN_DRIVE)
			end(&others[i]);
		else
			sched_yield();
	}
	return NULL;
}

/* Is no request left, and did each queue dispatch every request that was inserted into it? */
static bool is_conserved(void)
{
	unsigned int i;

	for (i = 0; i < drive.queue_count; i++)
		if (drive.queues[i].inserted != drive.queues[i].dispatched)
			return false;
	return mqfq_deinit(&drive) && mindicator_least(&drive.mindicator) == MINDICATOR_NONE;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	size_t i;

	if (argc != 3)
		return 2;
	seed = strtoull(argv[1], NULL, 10);
	count = strtoul(argv[2], NULL, 10);
	create_mqfq(&drive, HCTXS, 2, 0);
	mqfq_configure(&drive, MQFQ_KNOB_d, 4);
	for (i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, thread_main, (void *)i))
			return 2;
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	if (is_conserved())
		return 0;
	printf("seed %llu: something is left\n", (unsigned long long)seed);
	return 1;
}
