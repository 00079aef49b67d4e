// SPDX-License-Identifier: GPL-2.0-only
/*
 * K2 between real threads: stress SEED REQUESTS
 *
 * For the thread and address sanitizers; the host decides which schedules occur. interleave.c looks for rare ones.
 */
#include <pthread.h>
#include <time.h>

#include "machine.h"

#define PATIENCE_S 20

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static _Thread_local u64 state;

static unsigned int machine_random(unsigned int n)
{
	/* xorshift64* */
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return (state * 0x2545f4914f6cdd1dULL >> 33) % n;
}

static void machine_enter(void)
{
	pthread_mutex_lock(&lock);
}

static void machine_leave(void)
{
	pthread_mutex_unlock(&lock);
}

static void machine_wait(void)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PATIENCE_S;
	if (pthread_cond_timedwait(&changed, &lock, &until)) {
		printf("nobody goes on, %u queued, %d in flight\n", machine.io_count - machine.left,
		       (int)inflight_requests(&k2->inflight));
		must(all_left());
	}
}

static void machine_changed(void)
{
	pthread_cond_broadcast(&changed);
}

static void merge_often(void)
{
	merger(machine.io_count / 8);
}

static void configure_often(void)
{
	configurer(machine.io_count / 64);
}

static void freeze_often(void)
{
	freezer(machine.freezes * machine.io_count / 64);
}

struct role {
	void (*body)(void);
	unsigned int number;
};

static void *thread_main(void *argument)
{
	const struct role *role = argument;

	state = (seed * 64 + role->number + 1) * 0x9e3779b97f4a7c15ULL;
	role->body();
	return NULL;
}

int main(int argc, char **argv)
{
	static struct role roles[] = {
		{ submitter, 1 },   { submitter, 2 },	    { kblockd, 3 },
		{ kblockd, 4 },	    { completer, 5 },	    { completer, 6 },
		{ merge_often, 7 }, { configure_often, 8 }, { freeze_often, 9 },
	};
	pthread_t threads[ARRAY_SIZE(roles)];
	unsigned int i;

	if (argc != 3)
		return 2;
	seed = strtoull(argv[1], NULL, 10);
	state = (seed * 64 + 1) * 0x9e3779b97f4a7c15ULL;
	machine_init(MACHINE_CTXS, strtoul(argv[2], NULL, 10), 8);
	for (i = 0; i < ARRAY_SIZE(roles); i++)
		must(!pthread_create(&threads[i], NULL, thread_main, &roles[i]));
	for (i = 0; i < ARRAY_SIZE(roles); i++)
		pthread_join(threads[i], NULL);
	machine_deinit();
	return 0;
}
