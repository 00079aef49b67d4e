// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <linux/cache.h>
#include <linux/list.h>

#include "cpus.h"

/* Memory is at a fixed address, because the shape of a tree depends on addresses (linux/rbtree.h). */
#define MEMORY_AT ((void *)0x200000000000)
#define MEMORY_BYTES (16UL << 20)

/**
 * struct io - a request
 * @entry: the scheduler's entry; first member
 * @node: node for the scheduler's lists
 * @sector: first sector
 * @ends_ns: when the drive completes it
 * @in_drive: it was dispatched
 */
struct io {
	u64 entry[6];
	struct list_head node;
	u64 sector;
	u64 ends_ns;
	int in_drive;
} ____cacheline_aligned;

/* The source of a request to a CPU to run its queue. */
enum cpu_asked { ASKED_BY_NONE, ASKED_BY_ITSELF, ASKED_BY_OTHER };

/**
 * struct cpu - a processor
 * @run: enum cpu_asked: whether the scheduler asked for a run of the queue; written by any CPU
 * @random: state of the random generator
 * @submitted: number of requests submitted
 * @finished: number of requests finished
 * @ios: ring of outstanding requests, from @finished to @submitted
 */
struct cpu {
	int run;
	u64 random;
	u64 submitted, finished;
	struct io *ios;
} ____cacheline_aligned;

static struct cpu cpus[CPUS_MAX];
static unsigned int cpu_count, cpus_done, depth;

/* Allocates zeroed memory on cache lines of its own. */
static void *memory(size_t bytes)
{
	static char *free_at;
	char *at;

	if (!free_at) {
		free_at = mmap(MEMORY_AT, MEMORY_BYTES, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		if (free_at != MEMORY_AT) {
			perror("mmap");
			exit(1);
		}
	}
	at = free_at;
	free_at += (bytes + L1_CACHE_BYTES - 1) / L1_CACHE_BYTES * L1_CACHE_BYTES;
	if (free_at > (char *)MEMORY_AT + MEMORY_BYTES) {
		fprintf(stderr, "depth: too many requests for all CPUs together\n");
		exit(2);
	}
	return at;
}

/*
 * QUEUE binds a scheduler:
 *	static void queue_create(unsigned int bound, unsigned int t_kib);
 *	static void queue_insert(unsigned int cpu, struct io *io);
 *	static bool queue_has_work(unsigned int cpu);
 *	static struct io *queue_dispatch(unsigned int cpu);
 *	static void queue_finish(unsigned int cpu, struct io *io);
 * Any of these may call cpu_run().
 *	static bool queue_conserved(u64 inserted);
 * A scheduler that sets timers also defines queue_timers:
 *	static void queue_timers(unsigned int cpu);	runs the CPU's expired timers
 */
static inline void cpu_run(unsigned int cpu)
{
	shared_store_release(&cpus[cpu].run, cpu == cpu_self() ? ASKED_BY_ITSELF : ASKED_BY_OTHER);
}

#include QUEUE

#ifndef queue_timers
#define queue_timers(cpu)
#endif

void cpus_create(unsigned int count, unsigned int requests, unsigned int bound, unsigned int t_kib)
{
	unsigned int i, j;

	cpu_count = count;
	depth = requests;
	for (i = 0; i < count; i++) {
		cpus[i].random = i + 1;
		cpus[i].ios = memory(requests * sizeof(*cpus[i].ios));
		for (j = 0; j < requests; j++)
			INIT_LIST_HEAD(&cpus[i].ios[j].node);
	}
	queue_create(bound, t_kib);
}

static inline u64 random_sector(struct cpu *c)
{
	/* xorshift64* */
	c->random ^= c->random >> 12;
	c->random ^= c->random << 25;
	c->random ^= c->random >> 27;
	return c->random * 0x2545f4914f6cdd1dULL >> 35 << 3;
}

/* blk_mq_sched_dispatch_requests(). Return: whether a request was dispatched. */
static inline bool run_queue(unsigned int cpu)
{
	bool any = false;
	struct io *io;

	while (queue_has_work(cpu)) {
		io = queue_dispatch(cpu);
		if (!io)
			break;
		if (drive_ns())
			io->ends_ns = clock_timer_ns() + drive_ns();
		shared_store_release(&io->in_drive, 1);
		any = true;
	}
	return any;
}

/* Runs the queue if a CPU or a timer has asked for it. */
static inline void run_if_asked(unsigned int cpu)
{
	int asked;

	queue_timers(cpu);
	if (likely(!shared_load(&cpus[cpu].run)))
		return;
	asked = shared_exchange(&cpus[cpu].run, ASKED_BY_NONE);
	if (asked == ASKED_BY_OTHER)
		cpu_interrupted();
	if (asked)
		cpu_ran(cpu, !run_queue(cpu));
}

/*
 * Finishes the CPU's oldest request, which is dispatched before or with the others. Return: false if it is still in the queue or in the
 * drive.
 */
static inline bool finish_oldest(unsigned int cpu)
{
	struct cpu *c = &cpus[cpu];
	struct io *io = &c->ios[c->finished % depth];

	if (!shared_load_acquire(&io->in_drive) || (drive_ns() && clock_timer_ns() < io->ends_ns))
		return false;
	io->in_drive = 0;
	queue_finish(cpu, io);
	shared_store(&c->finished, c->finished + 1);
	return true;
}

void cpu_work(unsigned int cpu)
{
	struct cpu *c = &cpus[cpu];
	unsigned int tries = 0;
	struct io *io;

	while (c->finished != c->submitted || cpu_goes_on(cpu)) {
		run_if_asked(cpu);
		if (drive_ns() && c->finished != c->submitted && finish_oldest(cpu))
			continue;
		if (c->submitted - c->finished < depth && cpu_goes_on(cpu)) {
			cpu_elsewhere();
			io = &c->ios[c->submitted % depth];
			io->sector = random_sector(c);
			queue_insert(cpu, io);
			shared_store(&c->submitted, c->submitted + 1);
			run_queue(cpu);
			continue;
		}
		if (finish_oldest(cpu))
			tries = 0;
		else
			cpu_idle(++tries);
	}
	shared_fetch_add(&cpus_done, 1);
	/* the queue is empty, but a run that it is still asked for may have to be passed on to another queue */
	for (tries = 0; shared_load(&cpus_done) < cpu_count; cpu_idle(++tries))
		run_if_asked(cpu);
}

u64 cpu_finished(unsigned int cpu)
{
	return shared_load(&cpus[cpu].finished);
}

bool cpus_conserved(void)
{
	u64 submitted = 0;
	unsigned int i;

	for (i = 0; i < cpu_count; i++) {
		submitted += cpus[i].submitted;
		if (cpus[i].finished != cpus[i].submitted)
			return false;
	}
	return queue_conserved(submitted);
}
