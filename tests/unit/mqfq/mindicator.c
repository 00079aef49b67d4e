// SPDX-License-Identifier: GPL-2.0-only
/*
 * A mindicator between threads: mindicator FIRST_SEED COUNT (../interleave/explore.h). Each thread changes a leaf of its own, twice. After
 * the last of all calls has returned, the root is the least leaf.
 */
#include <unistd.h>

#include "explore.h"

#include "../../../sched/fair/mindicator.h"

#define LEAVES 9 /* two nodes below the root */

static u64 words[4 * MINDICATOR_FAN] ____cacheline_aligned;
static struct mindicator mindicator;
static unsigned int writers, leaves[3];

static u64 number(void)
{
	return explore_random(4) ? 10 + explore_random(4) : MINDICATOR_NONE;
}

static void writer(void)
{
	unsigned int leaf = leaves[writers++];

	mindicator_set(&mindicator, leaf, number(), 10);
	mindicator_set(&mindicator, leaf, number(), 10);
}

static void schedule(u64 seed)
{
	u64 least = MINDICATOR_NONE;
	unsigned int i;

	explore_begin(seed);
	mindicator_init(&mindicator, LEAVES, words);
	writers = 0;
	leaves[0] = 0;
	leaves[1] = 1;
	leaves[2] = explore_random(2) ? 2 : LEAVES - 1;
	for (i = 0; i < 3; i++)
		add_thread(writer);
	play();
	for (i = 0; i < LEAVES; i++)
		if (words[i] >> MINDICATOR_VERSION_BITS < least)
			least = words[i] >> MINDICATOR_VERSION_BITS;
	if (mindicator_least(&mindicator) == least)
		return;
	printf("seed %llu: the root is %llu, the least leaf %llu\n", (unsigned long long)seed,
	       (unsigned long long)mindicator_least(&mindicator), (unsigned long long)least);
	fflush(stdout);
	_exit(1);
}

int main(int argc, char **argv)
{
	return explore_main(argc, argv, schedule);
}
