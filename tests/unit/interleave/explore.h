/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Threads as coroutines, one access to shared memory at a time (shared_memory.h). Before every access a generator decides which thread
 * continues, and which of the stores in the threads' store buffers reach memory. So a seed is a schedule, the same one on any machine, and
 * a failure can be repeated. If no thread can continue and some thread has not ended, a wake-up was lost.
 *
 * A program includes this file, for each schedule calls explore_begin(), add_thread() for each thread, and play().
 */
#ifndef TAILGATE_TESTS_INTERLEAVE_EXPLORE_H
#define TAILGATE_TESTS_INTERLEAVE_EXPLORE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include <linux/types.h>

#define THREADS_MAX 10
#define STORES_MAX 16
#define PLACES_MAX (THREADS_MAX * STORES_MAX)
/* Limit of accesses in a schedule; no schedule needs nearly as many. */
#define ACCESSES_MAX 10000000
#define STACK_BYTES (64 << 10)

/* A memory place with a store that some threads do not see yet. Memory itself has the value after all stores. */
struct place {
	void *p;
	size_t size;
	u64 seen; /* value that all threads see, apart from their own stores */
	unsigned int stores;
};

/* A store that other threads do not see yet. */
struct store {
	void *p;
	size_t size;
	enum model_change change;
	u64 value;
	unsigned int thread;
	bool release; /* earlier stores reach memory first */
};

static struct thread {
	ucontext_t context;
	void (*body)(void);
	bool ended;
	bool waits; /* in machine_wait() */
	int *lock; /* waits for this lock */
} threads[THREADS_MAX], *current;

static struct store stores[PLACES_MAX]; /* the oldest first */
static struct place places[PLACES_MAX];
static unsigned int store_count, place_count;
static char stacks[THREADS_MAX][STACK_BYTES] __attribute__((aligned(64)));
static ucontext_t outside;
static unsigned int thread_count;
static u64 state, explored, accesses;
static unsigned int switches_percent; /* of the accesses; drawn for each schedule */

/* 0 to @n - 1. */
static unsigned int explore_random(unsigned int n)
{
	/* xorshift64* */
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return (state * 0x2545f4914f6cdd1dULL >> 33) % n;
}

static u64 get(const void *p, size_t size)
{
	u64 value = 0;

	memcpy(&value, p, size);
	return value;
}

static u64 changed(u64 old, size_t size, enum model_change change, u64 value)
{
	u64 new = change == MODEL_SET ? value :
		  change == MODEL_ADD ? old + value :
		  change == MODEL_OR  ? old | value :
					old &value;

	return new & ~0ULL >> (64 - 8 * size);
}

static struct place *find_place(const void *p)
{
	unsigned int i;

	for (i = 0; i < place_count; i++)
		if (places[i].p == p)
			return &places[i];
	return NULL;
}

/* The value that a thread sees: the common value, and its own stores. */
static u64 view(const void *p, size_t size, const struct thread *t)
{
	struct place *place = find_place(p);
	unsigned int i;
	u64 value;

	if (!place)
		return get(p, size);
	value = place->seen;
	for (i = 0; t && i < store_count; i++)
		if (stores[i].p == p && &threads[stores[i].thread] == t)
			value = changed(value, size, stores[i].change, stores[i].value);
	return value;
}

/* Recomputes the value after all stores, when the common value has changed. */
static void settle(struct place *place)
{
	u64 value = place->seen;
	unsigned int i;

	for (i = 0; i < store_count; i++)
		if (stores[i].p == place->p)
			value = changed(value, place->size, stores[i].change, stores[i].value);
	memcpy(place->p, &value, place->size);
	if (!place->stores)
		*place = places[--place_count];
}

static void let_out(unsigned int i)
{
	struct store s = stores[i];
	struct place *place = find_place(s.p);

	memmove(&stores[i], &stores[i + 1], (--store_count - i) * sizeof(*stores));
	place->seen = changed(place->seen, s.size, s.change, s.value);
	place->stores--;
	settle(place);
}

/* A thread's stores to one place keep their order, and a release comes after earlier stores. */
static bool may_get_out(unsigned int i)
{
	unsigned int j;

	for (j = 0; j < i; j++)
		if (stores[j].thread == stores[i].thread &&
		    (stores[j].p == stores[i].p || stores[i].release))
			return false;
	return true;
}

static void let_some_out(void)
{
	unsigned int i;

	do
		i = explore_random(store_count);
	while (!may_get_out(i));
	let_out(i);
}

static void let_all_out(const struct thread *t)
{
	unsigned int i = 0;

	while (i < store_count)
		if (&threads[stores[i].thread] == t)
			let_out(i);
		else
			i++;
}

static void go_outside(void)
{
	swapcontext(&current->context, &outside);
}

void model_switch(void)
{
	if (++accesses > ACCESSES_MAX) {
		printf("seed %llu: goes on for ever\n", (unsigned long long)explored);
		fflush(stdout);
		_Exit(1);
	}
	if (current && explore_random(100) < switches_percent)
		go_outside();
}

void model_fence(void)
{
	if (!current)
		return;
	model_switch();
	let_all_out(current);
}

unsigned long long model_load(const void *p, size_t size)
{
	model_switch();
	return view(p, size, current);
}

static void add_store(void *p, size_t size, enum model_change change, u64 value, bool release)
{
	struct place *place = find_place(p);
	unsigned int i, own = 0;
	u64 now;

	for (i = 0; i < store_count; i++)
		own += &threads[stores[i].thread] == current;
	if (own == STORES_MAX) {
		let_all_out(current);
		place = find_place(p);
	}
	if (!place) {
		place = &places[place_count++];
		*place = (struct place){ p, size, get(p, size), 0 };
	}
	place->stores++;
	stores[store_count++] =
		(struct store){ p, size, change, value, current - threads, release };
	now = changed(get(p, size), size, change, value);
	memcpy(p, &now, size);
}

void model_store(void *p, size_t size, enum model_change change, unsigned long long value)
{
	model_switch();
	if (current) {
		add_store(p, size, change, value, false);
		return;
	}
	value = changed(get(p, size), size, change, value);
	memcpy(p, &value, size);
}

/* Changes the common value at once. */
static void change_now(void *p, size_t size, enum model_change change, u64 value)
{
	struct place *place = find_place(p);
	u64 now;

	if (place) {
		place->seen = changed(place->seen, size, change, value);
		settle(place);
		return;
	}
	now = changed(get(p, size), size, change, value);
	memcpy(p, &now, size);
}

unsigned long long model_exchange(void *p, size_t size, enum model_change change,
				  unsigned long long value)
{
	u64 old;

	model_fence();
	old = view(p, size, NULL);
	change_now(p, size, change, value);
	return old;
}

bool model_compare_exchange(void *p, size_t size, unsigned long long *expected,
			    unsigned long long value)
{
	u64 old;

	model_fence();
	old = view(p, size, NULL);
	if (old != changed(0, size, MODEL_SET, *expected)) {
		*expected = old;
		return false;
	}
	change_now(p, size, MODEL_SET, value);
	return true;
}

bool model_trylock(int *p)
{
	unsigned int i;

	model_switch();
	for (i = 0; current && i < store_count; i++)
		if (stores[i].p == p && &threads[stores[i].thread] == current)
			break;
	if (current && i < store_count)
		let_all_out(current); /* this thread's unlock is still buffered */
	if (view(p, sizeof(*p), NULL))
		return false;
	change_now(p, sizeof(*p), MODEL_SET, 1);
	return true;
}

void model_lock(int *p)
{
	while (!model_trylock(p)) {
		current->lock = p;
		go_outside();
		current->lock = NULL;
	}
}

void model_unlock(int *p)
{
	model_switch();
	if (current)
		add_store(p, sizeof(*p), MODEL_SET, 0, true);
	else
		change_now(p, sizeof(*p), MODEL_SET, 0);
}

/* Starts another schedule. */
static void explore_begin(u64 seed)
{
	static const unsigned int percents[] = { 5, 20, 50, 90 };

	explored = seed;
	accesses = 0;
	state = (seed + 1) * 0x9e3779b97f4a7c15ULL;
	switches_percent = percents[explore_random(4)];
	thread_count = 0;
}

/* The thread waits until wake_all(). */
static void wait_for_others(void)
{
	current->waits = true;
	go_outside();
}

static void wake_all(void)
{
	unsigned int i;

	for (i = 0; i < thread_count; i++)
		threads[i].waits = false;
}

static void thread_main(unsigned int i)
{
	threads[i].body();
	threads[i].ended = true;
	let_all_out(&threads[i]);
	go_outside();
}

static void add_thread(void (*body)(void))
{
	struct thread *t = &threads[thread_count];

	memset(t, 0, sizeof(*t));
	t->body = body;
	getcontext(&t->context);
	t->context.uc_stack.ss_sp = stacks[thread_count];
	t->context.uc_stack.ss_size = STACK_BYTES;
	t->context.uc_link = NULL;
	makecontext(&t->context, (void (*)(void))thread_main, 1, thread_count++);
}

static bool can_go_on(const struct thread *t)
{
	return !t->ended && !t->waits && !(t->lock && view(t->lock, sizeof(*t->lock), NULL));
}

static void play(void)
{
	unsigned int i, ready;
	struct thread *chosen = NULL;

	for (;;) {
		ready = 0;
		for (i = 0; i < thread_count; i++) {
			if (can_go_on(&threads[i]) && !explore_random(++ready))
				chosen = &threads[i];
		}
		/* in the end every store reaches memory */
		if (store_count && (!ready || explore_random(2))) {
			let_some_out();
			continue;
		}
		if (!ready)
			return;
		current = chosen;
		swapcontext(&outside, &chosen->context);
		current = NULL;
	}
}

/* Plays the schedules of @argv: FIRST_SEED COUNT. Return: an exit status. */
static int explore_main(int argc, char **argv, void (*schedule)(u64 seed))
{
	u64 first, count, seed;

	if (argc != 3)
		return 2;
	first = strtoull(argv[1], NULL, 10);
	count = strtoull(argv[2], NULL, 10);
	for (seed = first; seed < first + count; seed++)
		schedule(seed);
	return 0;
}

#endif
