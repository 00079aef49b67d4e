// SPDX-License-Identifier: GPL-2.0-only
/*
 * CPUs as threads of this host: threads COUNT DEPTH BOUND T_KIB ELSEWHERE_NS DRIVE_NS MILLISECONDS
 *
 * A request costs its thread ELSEWHERE_NS beside its scheduler, and is in the drive for DRIVE_NS.
 *
 * Prints the operations per second; per operation, the runs of a queue that were asked for, and how many of these dispatched nothing; and
 * the share of the time in which the threads had a CPU, which is below 1 if the host had other work. Exit status 3: a request was lost.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <linux/cache.h>

#include "cpus.h"

/* Number of runs of a queue that were asked for, and of those that dispatched nothing. */
static struct runs {
	u64 all, in_vain;
} ____cacheline_aligned runs[CPUS_MAX];

static unsigned int count;
static u64 elsewhere_ns, in_drive_ns;
static __thread unsigned int self;
static int stop;
static pthread_barrier_t begin;

bool cpu_goes_on(unsigned int cpu)
{
	(void)cpu;
	return !shared_load(&stop);
}

void cpu_idle(unsigned int tries)
{
	shared_relax(tries);
}

void cpu_other_code(u64 ns)
{
	const u64 until_ns = clock_ns() + ns;

	while (clock_ns() < until_ns)
		;
}

void cpu_elsewhere(void)
{
	if (elsewhere_ns)
		cpu_other_code(elsewhere_ns);
}

void cpu_interrupted(void)
{
}

unsigned int cpu_self(void)
{
	return self;
}

u64 drive_ns(void)
{
	return in_drive_ns;
}

void cpu_ran(unsigned int cpu, bool in_vain)
{
	runs[cpu].all++;
	runs[cpu].in_vain += in_vain;
}

static u64 read_clock(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

u64 clock_ns(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

u64 clock_tick_ns(void)
{
	return read_clock(CLOCK_MONOTONIC_COARSE);
}

u64 clock_timer_ns(void)
{
	return clock_ns();
}

/* Pins the thread to the CPU of this number among those that the process may use. */
static void stay_on(unsigned int number)
{
	cpu_set_t usable, one;
	int cpu;

	if (sched_getaffinity(0, sizeof(usable), &usable))
		return;
	number %= CPU_COUNT(&usable);
	for (cpu = 0; !CPU_ISSET(cpu, &usable) || number--; cpu++)
		;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
}

static void *thread_main(void *argument)
{
	const unsigned int cpu = (size_t)argument;

	self = cpu;
	stay_on(cpu);
	pthread_barrier_wait(&begin);
	cpu_work(cpu);
	return NULL;
}

static u64 cpu_time_ns(void)
{
	return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

static u64 finished(void)
{
	unsigned int i;
	u64 sum = 0;

	for (i = 0; i < count; i++)
		sum += cpu_finished(i);
	return sum;
}

int main(int argc, char **argv)
{
	pthread_t threads[CPUS_MAX];
	unsigned int depth, bound, t_kib, ms, i;
	struct timespec time;
	u64 start_ns, before, had_ns, all = 0, ran = 0, in_vain = 0;
	double seconds;

	count = argc == 8 ? strtoul(argv[1], NULL, 10) : 0;
	if (!count || count > CPUS_MAX) {
		fprintf(stderr,
			"usage: threads COUNT DEPTH BOUND T_KIB ELSEWHERE_NS DRIVE_NS MILLISECONDS\n");
		return 2;
	}
	depth = strtoul(argv[2], NULL, 10);
	bound = strtoul(argv[3], NULL, 10);
	t_kib = strtoul(argv[4], NULL, 10);
	elsewhere_ns = strtoull(argv[5], NULL, 10);
	in_drive_ns = strtoull(argv[6], NULL, 10);
	ms = strtoul(argv[7], NULL, 10);
	cpus_create(count, depth, bound, t_kib);
	pthread_barrier_init(&begin, NULL, count + 1);
	for (i = 0; i < count; i++) {
		if (pthread_create(&threads[i], NULL, thread_main, (void *)(size_t)i)) {
			perror("pthread_create");
			return 1;
		}
	}
	pthread_barrier_wait(&begin);
	/* the first tenth of the time is not counted */
	time = (struct timespec){ .tv_nsec = ms % 10000 * 100000ULL, .tv_sec = ms / 10000 };
	nanosleep(&time, NULL);
	before = finished();
	had_ns = cpu_time_ns();
	start_ns = clock_ns();
	time = (struct timespec){ .tv_nsec = ms % 1000 * 1000000ULL, .tv_sec = ms / 1000 };
	nanosleep(&time, NULL);
	before = finished() - before;
	seconds = (clock_ns() - start_ns) / 1e9;
	had_ns = cpu_time_ns() - had_ns;
	shared_store(&stop, 1);
	for (i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	if (!cpus_conserved()) {
		fprintf(stderr, "threads: a request was lost\n");
		return 3;
	}
	printf("operations_per_s %.0f\n", before / seconds);
	for (i = 0; i < count; i++) {
		all += cpu_finished(i);
		ran += runs[i].all;
		in_vain += runs[i].in_vain;
	}
	printf("runs_per_operation %.4f\n", (double)ran / all);
	printf("vain_runs_per_operation %.4f\n", (double)in_vain / all);
	printf("cpu_share %.3f\n", had_ns / 1e9 / seconds / count);
	return 0;
}
