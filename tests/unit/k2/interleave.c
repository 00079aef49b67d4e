// SPDX-License-Identifier: GPL-2.0-only
/* K2 between threads, one access to shared memory at a time: interleave FIRST_SEED COUNT (../interleave/explore.h) */
#include "explore.h"

#define K2_OBSERVED
#include "machine.h"

static unsigned int machine_random(unsigned int n)
{
	return explore_random(n);
}

/* A coroutine runs alone between accesses to shared memory, so a lock only has to keep its order. */
static void machine_enter(void)
{
}

static void machine_leave(void)
{
	let_all_out(current);
}

static void machine_wait(void)
{
	wait_for_others();
}

static void machine_changed(void)
{
	wake_all();
}

static void freeze_often(void)
{
	freezer(machine.drains_for_good ? 1 : 4);
}

static void merge_often(void)
{
	merger(6);
}

static void configure_often(void)
{
	configurer(3);
}

static void schedule(u64 number)
{
	unsigned int ctx_count;

	seed = number;
	explore_begin(seed);
	ctx_count = 1 + machine_random(3);
	machine_init(ctx_count, 1 + machine_random(8), 1 + machine_random(3));
	add_thread(submitter);
	if (machine_random(2))
		add_thread(submitter);
	add_thread(kblockd);
	add_thread(completer);
	if (machine_random(2))
		add_thread(completer);
	if (machine_random(2))
		add_thread(merge_often);
	if (machine_random(2))
		add_thread(configure_often);
	if (machine.freezes)
		add_thread(freeze_often);
	if (machine_random(2))
		add_thread(timer);
	play();
	if (!all_left())
		printf("seed %llu: nobody goes on, %u queued, %d of %u in flight\n",
		       (unsigned long long)seed, machine.io_count - machine.left,
		       (int)inflight_requests(&k2->inflight), k2->knobs[K2_KNOB_inflight_max]);
	machine_deinit();
}

int main(int argc, char **argv)
{
	return explore_main(argc, argv, schedule);
}
