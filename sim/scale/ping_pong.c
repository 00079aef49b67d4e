// SPDX-License-Identifier: GPL-2.0-only
/*
 * Measures the time in ns to transfer a cache line between two CPUs of this host: ping_pong
 *
 * Two threads take turns to modify a word. A turn is two transfers: the line is read, then acquired for writing. The result is
 * the median over short series, so that occasional preemption of a thread does not matter.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <linux/cache.h>
#include <linux/types.h>

#define SERIES 1001
#define TURNS 1000 /* turns in a series */

static u64 turn ____cacheline_aligned;
static u64 series_ns[SERIES] ____cacheline_aligned;

static u64 now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

/* Takes every second turn, pinned to the CPU of this number. */
static void play(unsigned int number, unsigned int cpu)
{
	u64 mine, begin_ns = now_ns();
	unsigned int tries;
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
	for (mine = number; mine < SERIES * TURNS; mine += 2) {
		for (tries = 1; shared_load_acquire(&turn) != mine; tries++)
			shared_relax(tries);
		shared_store_release(&turn, mine + 1);
		if (!number && !((mine + 2) % TURNS)) {
			series_ns[mine / TURNS] = now_ns() - begin_ns;
			begin_ns = now_ns();
		}
	}
}

static void *second(void *cpu)
{
	play(1, (size_t)cpu);
	return NULL;
}

static int compare(const void *a, const void *b)
{
	const u64 *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

int main(void)
{
	unsigned int cpus[2], found = 0, cpu;
	pthread_t thread;
	cpu_set_t usable;

	sched_getaffinity(0, sizeof(usable), &usable);
	for (cpu = 0; cpu < CPU_SETSIZE && found < 2; cpu++)
		if (CPU_ISSET(cpu, &usable))
			cpus[found++] = cpu;
	if (found < 2) {
		fprintf(stderr, "ping_pong: there is one CPU only\n");
		return 2;
	}
	if (pthread_create(&thread, NULL, second, (void *)(size_t)cpus[1])) {
		perror("pthread_create");
		return 1;
	}
	play(0, cpus[0]);
	pthread_join(thread, NULL);
	qsort(series_ns, SERIES, sizeof(*series_ns), compare);
	printf("transfer_ns %.1f\n", series_ns[SERIES / 2] / (2.0 * TURNS));
	return 0;
}
