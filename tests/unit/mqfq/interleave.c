// SPDX-License-Identifier: GPL-2.0-only
/* MQFQ between threads, one access to shared memory at a time: interleave FIRST_SEED COUNT (../interleave/explore.h) */
#include <unistd.h>

#include "explore.h"

/* Short periods, so that many fit into a schedule. */
#define MQFQ_IDLE_PERIODS 3
#include "environment.h"

#define HCTXS 3
#define IOS 16
#define FLOWS_MAX 4

/* Counts in the table of flows: from earlier flows, and of these the part that each queue has still to add. */
#define BEFORE (1ULL << 40)
#define UNTOLD 4

/* Coroutines are alone between two accesses to shared memory, so nothing here needs a lock. */
static struct machine {
	struct io ios[IOS];
	unsigned int count, submitted, ended, in_drive, in_drive_max;
	struct io *drive[IOS];
	struct io *returned[IOS];
	unsigned int returned_count;
	bool run[HCTXS];
	bool configures, merges;
	unsigned int weight_of_children;
	/* The hardware queue whose CPU does nothing after @stalls_at requests, until @awaited real-time requests of others have ended. */
	unsigned int stalled, stalls_at, awaited;
	u64 vt;
} machine;

static struct mqfq *mqfq;
static u64 seed;

#define must(condition)                               \
	do {                                          \
		if (!(condition))                     \
			broken(#condition, __LINE__); \
	} while (0)

static void broken(const char *condition, int line)
{
	printf("seed %llu, line %d: not so: %s\n", (unsigned long long)seed, line, condition);
	fflush(stdout);
	_exit(1);
}

static void mqfq_run(struct mqfq *m, unsigned int hctx)
{
	(void)m;
	machine.run[hctx] = true;
	wake_all();
}

/* Checks that a queue's tree is in order and that its first request is right; under the queue's lock. */
static void check_queue(const struct mqfq_queue *q)
{
	struct mqfq_entry *before = NULL, *e;
	unsigned int count = 0, level;
	struct list_head *in_list;
	struct rb_node *node;

	for (node = rb_first(&q->late); node; node = rb_next(node), count++) {
		e = mqfq_entry_of_rb(node);
		must(e->state == MQFQ_QUEUED && e->level == MQFQ_FAIR);
		must(!tag_after((before ? before : q->first)->start, e->start));
		before = e;
	}
	before = NULL;
	list_for_each(in_list, &q->lists[MQFQ_FAIR]) {
		e = mqfq_entry_of(in_list);
		must(!tag_after((before ? before : q->first)->start, e->start));
		before = e;
	}
	must(!(q->filled & BIT(MQFQ_FAIR)) == !q->first);
	for (level = 0; level < WAITING_LEVELS; level++)
		list_for_each(in_list, &q->lists[level])
			count++;
	must(count == q->inserted - q->dispatched);
}

/* Each child of a group counts once in a period, even if several CPUs queue its requests. */
static void check_weights(void)
{
	unsigned int i;

	for (i = 0; i < SHARES_PLACES; i++)
		must(mqfq->shares.places[i].sum <= machine.weight_of_children);
}

/* Virtual time after all stores have reached memory. */
static void picked(struct mqfq_entry *e)
{
	u64 vt;

	must(e->state == MQFQ_QUEUED);
	check_queue(&mqfq->queues[e->queue]);
	check_weights();
	vt = (u64)mqfq->vt.counter;
	must(!tag_after(machine.vt, vt));
	machine.vt = vt;
	if (e->level == MQFQ_FAIR && !machine.configures && !mqfq->queues[e->queue].leaves)
		must(!tag_after(e->start, vt + mqfq->t));
}

static bool is_stalled(unsigned int hctx)
{
	return hctx == machine.stalled && machine.submitted >= machine.stalls_at && machine.awaited;
}

static bool is_awaited(const struct io *io)
{
	return io->level < MQFQ_FAIR && machine.stalled < HCTXS;
}

static void run_hctx(unsigned int hctx)
{
	struct mqfq_entry *e;

	if (is_stalled(hctx)) {
		smp_mb(); /* as in the block layer, before a later run of a hardware queue */
		mqfq_run(mqfq, hctx);
		return;
	}
	while ((e = mqfq_dispatch(mqfq, &mqfq->hctxs[hctx], mqfq->hctxs[hctx].queues[0], picked))) {
		machine.drive[machine.in_drive++] = container_of(e, struct io, entry);
		must(machine.in_drive <= machine.in_drive_max);
		wake_all();
	}
}

static void insert(struct io *io)
{
	unsigned int hctx = mqfq->queues[io->queue].hctx; /* it may have ended when it is queued */

	period += !explore_random(4);
	queue_io(mqfq, io);
	run_hctx(hctx);
}

static void submitter(void)
{
	struct io *io;

	while (machine.submitted < machine.count) {
		io = &machine.ios[machine.submitted++];
		if (!machine.merges || io->level != MQFQ_FAIR ||
		    !join_io(mqfq, io, explore_random(3)))
			insert(io);
	}
}

static void kblockd(void)
{
	unsigned int i;

	while (machine.ended < machine.count) {
		for (i = 0; i < HCTXS && (!machine.run[i] || is_stalled(i)); i++)
			;
		if (i < HCTXS) {
			machine.run[i] = false;
			run_hctx(i);
		} else if (machine.returned_count) {
			insert(machine.returned[--machine.returned_count]);
		} else {
			wait_for_others();
		}
	}
	wake_all();
}

static void completer(void)
{
	unsigned int i;
	struct io *io;

	while (machine.ended < machine.count) {
		if (!machine.in_drive) {
			wait_for_others();
			continue;
		}
		i = explore_random(machine.in_drive);
		io = machine.drive[i];
		machine.drive[i] = machine.drive[--machine.in_drive];
		if (io->returns) {
			io->returns--;
			mqfq_finish(mqfq, &io->entry, true);
			machine.returned[machine.returned_count++] = io;
		} else {
			mqfq_finish(mqfq, &io->entry, false);
			machine.ended += 1 + io->joined;
			machine.awaited -= is_awaited(io);
		}
		wake_all();
	}
	wake_all();
}

static void configurer(void)
{
	bool automatic;
	unsigned int i;

	for (i = 0; i < 3; i++) {
		automatic = !explore_random(4);
		if (explore_random(2) && !automatic)
			mqfq_configure(mqfq, MQFQ_KNOB_d, 1 + explore_random(machine.in_drive_max));
		else
			mqfq_configure(mqfq, MQFQ_KNOB_t_kib,
				       automatic ? KNOB_AUTO : explore_random(64));
	}
}

/* Takes the last CPU of a hardware queue offline, and brings it back. */
static void leaver(void)
{
	unsigned int i;

	for (i = 0; i < 3; i++)
		mqfq_leave(mqfq, explore_random(mqfq->hctx_count), !explore_random(3));
}

/* Reads the statistics of flows. A flow that gets its place at the same time may be charged for what queues add for an earlier one. */
static void reader(void)
{
	struct mqfq_counts counts;
	unsigned int i, j;

	for (i = 0; i < 8; i++)
		for (j = 1; j <= FLOWS_MAX; j++)
			if (flows_look_up(&mqfq->flows, j) != FLOWS_NONE &&
			    mqfq_count(mqfq, flows_look_up(&mqfq->flows, j), &counts))
				must(counts.requests <= 3 * IOS + UNTOLD * mqfq->queue_count);
}

/* Gives flows places that other flows had before. */
static void create_flows(void)
{
	unsigned int i, place = flows_hash(1 + explore_random(FLOWS_MAX)) % FLOWS_PLACES;

	for (i = 0; i < FLOWS_PLACES; i++)
		mqfq->flows.flows[i].requests.counter = BEFORE;
	for (i = 0; i < mqfq->queue_count; i++) {
		mqfq->queues[i].serving = place;
		mqfq->queues[i].inserted = mqfq->queues[i].dispatched = UNTOLD;
	}
}

static void create_ios(void)
{
	static const unsigned int weights[] = { 1, 100, 300, 10000 };
	unsigned int flows = 1 + explore_random(FLOWS_MAX), i;
	bool fair_only = explore_random(2), in_group = explore_random(2);

	for (i = 1; i <= flows; i++)
		machine.weight_of_children += weights[(i + seed) % 4];
	machine.count = 1 + explore_random(IOS);
	for (i = 0; i < machine.count; i++) {
		struct io *io = &machine.ios[i];

		io->flow = 1 + explore_random(flows);
		io->weight = weights[(io->flow + seed) % 4];
		io->in_group = in_group;
		io->level = fair_only || explore_random(3) ? MQFQ_FAIR :
							     explore_random(WAITING_LEVELS);
		io->sectors = 1 + explore_random(128);
		io->queue = explore_random(mqfq->queue_count);
		io->returns = explore_random(8) ? 0 : 1 + explore_random(2);
	}
}

static void create(void)
{
	u64 begin = explore_random(2) ? -(u64)explore_random(100) << 24 : 0;
	unsigned int hctxs = 1 + explore_random(HCTXS);

	period = explore_random(2) ? -explore_random(10) : explore_random(100000);
	create_mqfq(mqfq, hctxs, 1 + explore_random(2), begin);
	machine.vt = begin;
	machine.in_drive_max = 1 + explore_random(4);
	mqfq_configure(mqfq, MQFQ_KNOB_d, machine.in_drive_max);
	mqfq_configure(mqfq, MQFQ_KNOB_t_kib, explore_random(3) ? explore_random(64) : 0);
	create_ios();
}

/*
 * Lets the CPU of a hardware queue do nothing for a time. The requests that wait there are shared fairly, so real-time requests of others
 * need not wait for it. Requests that the driver returns, or that a bio joins, are not part of this.
 */
static void stall(void)
{
	unsigned int i;

	machine.stalled = explore_random(mqfq->hctx_count);
	machine.stalls_at = explore_random(machine.count + 1);
	for (i = 0; i < machine.count; i++) {
		struct io *io = &machine.ios[i];

		io->returns = 0;
		if (mqfq->queues[io->queue].hctx == machine.stalled)
			io->level = MQFQ_FAIR;
		else if (io->level == MQFQ_IDLE)
			io->level = MQFQ_RT(0);
		machine.awaited += is_awaited(io);
	}
}

/* Reports a failure with its seed, which plays it again, and exits. */
static void failed(const char *what)
{
	printf("seed %llu: %s: %u of %u ended, %u in flight\n", (unsigned long long)seed, what,
	       machine.ended, machine.count, machine.in_drive);
	fflush(stdout);
	_exit(1);
}

static void schedule(u64 number)
{
	static struct mqfq drive;
	unsigned int i, submitters;

	seed = number;
	explore_begin(seed);
	memset(&machine, 0, sizeof(machine));
	mqfq = &drive;
	create();
	submitters = 1 + explore_random(3);
	for (i = 0; i < submitters; i++)
		add_thread(submitter);
	add_thread(kblockd);
	if (explore_random(2))
		add_thread(kblockd);
	add_thread(completer);
	if (explore_random(2))
		add_thread(completer);
	machine.merges = !explore_random(4);
	machine.configures = !explore_random(3);
	if (machine.configures)
		add_thread(configurer);
	machine.stalled = HCTXS;
	if (!explore_random(3))
		add_thread(leaver);
	else if (!explore_random(2))
		stall();
	if (!explore_random(4)) {
		create_flows();
		add_thread(reader);
	}
	play();
	if (machine.ended < machine.count)
		failed("nobody goes on");
	else if (!mqfq_deinit(mqfq) || mindicator_least(&mqfq->mindicator) != MINDICATOR_NONE)
		failed("something is left");
	free(mqfq->hctxs);
}

int main(int argc, char **argv)
{
	return explore_main(argc, argv, schedule);
}
