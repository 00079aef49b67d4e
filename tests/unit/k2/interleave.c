// SPDX-License-Identifier: GPL-2.0-only
/*
 * K2 between threads, one access to shared memory at a time: interleave FIRST_SEED COUNT
 *
 * The threads are coroutines. Before every access to shared memory a generator decides who goes on, and which of the
 * stores that wait in the threads' store buffers reach memory. So a seed is a schedule, and the same seed the same
 * schedule, on any machine: what fails once fails again. A machine in which nobody can go on and something has not ended
 * has lost a wake-up.
 */
#include <stdint.h>
#include <ucontext.h>

#define K2_OBSERVED
#include "machine.h"

#define THREADS_MAX 8
#define STORES_MAX 16
#define STACK_BYTES (64 << 10)

struct store {
	int *p;
	enum model_change change;
	int value;
};

static struct thread {
	ucontext_t context;
	void (*body)(void);
	bool ended;
	bool waits; /* in machine_wait() */
	const int *lock; /* waits for this lock */
	unsigned int store_count;
	struct store stores[STORES_MAX];
} threads[THREADS_MAX], *current;

static char stacks[THREADS_MAX][STACK_BYTES] __attribute__((aligned(64)));
static ucontext_t outside;
static unsigned int thread_count;
static u64 state;
static unsigned int switches_percent; /* of the accesses; drawn for each schedule */

static unsigned int machine_random(unsigned int n)
{
	/* xorshift64* */
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return (state * 0x2545f4914f6cdd1dULL >> 33) % n;
}

static void apply(const struct store *s)
{
	*s->p = s->change == MODEL_SET ? s->value : *s->p + s->value;
}

/* Stores to one place keep their order. */
static void let_store_out(struct thread *t)
{
	unsigned int i = machine_random(t->store_count), j;

	for (j = 0; j < i; j++)
		if (t->stores[j].p == t->stores[i].p)
			i = j;
	apply(&t->stores[i]);
	t->store_count--;
	memmove(&t->stores[i], &t->stores[i + 1], (t->store_count - i) * sizeof(*t->stores));
}

static void let_stores_out(struct thread *t)
{
	unsigned int i;

	for (i = 0; i < t->store_count; i++)
		apply(&t->stores[i]);
	t->store_count = 0;
}

static void go_outside(void)
{
	swapcontext(&current->context, &outside);
}

void model_switch(void)
{
	if (current && machine_random(100) < switches_percent)
		go_outside();
}

void model_fence(void)
{
	if (!current)
		return;
	model_switch();
	let_stores_out(current);
}

int model_load_int(const int *p)
{
	unsigned int i;
	int value;

	model_switch();
	value = *p;
	for (i = 0; current && i < current->store_count; i++) {
		const struct store *s = &current->stores[i];

		if (s->p == p)
			value = s->change == MODEL_SET ? s->value : value + s->value;
	}
	return value;
}

void model_change_int(int *p, enum model_change change, int value)
{
	struct store s = { p, change, value };

	model_switch();
	if (!current) {
		apply(&s);
		return;
	}
	if (current->store_count == STORES_MAX)
		let_store_out(current);
	current->stores[current->store_count++] = s;
}

int model_trylock(int *p)
{
	model_switch();
	if (*p)
		return 0;
	*p = 1;
	return 1;
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
	model_fence();
	*p = 0;
}

/* Between accesses to shared memory a coroutine is alone; what remains of a lock is the order. */
static void machine_enter(void)
{
}

static void machine_leave(void)
{
	let_stores_out(current);
}

static void machine_wait(void)
{
	current->waits = true;
	go_outside();
}

static void machine_changed(void)
{
	unsigned int i;

	for (i = 0; i < thread_count; i++)
		threads[i].waits = false;
}

static void flush_often(void)
{
	flusher(1 + machine_random(6));
}

static void merge_often(void)
{
	merger(6);
}

static void configure_often(void)
{
	configurer(3);
}

static void thread_main(unsigned int i)
{
	threads[i].body();
	threads[i].ended = true;
	let_stores_out(&threads[i]);
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
	return !t->ended && !t->waits && !(t->lock && *t->lock);
}

static void play(void)
{
	unsigned int i, ready, stores;
	struct thread *chosen = NULL;

	for (;;) {
		ready = 0;
		stores = 0;
		for (i = 0; i < thread_count; i++) {
			stores += threads[i].store_count;
			if (can_go_on(&threads[i]) && !machine_random(++ready))
				chosen = &threads[i];
		}
		/* every store gets out in the end */
		if (stores && (!ready || machine_random(2))) {
			do
				i = machine_random(thread_count);
			while (!threads[i].store_count);
			let_store_out(&threads[i]);
			continue;
		}
		if (!ready)
			return;
		current = chosen;
		swapcontext(&outside, &chosen->context);
		current = NULL;
	}
}

static void schedule(void)
{
	static const unsigned int percents[] = { 5, 20, 50, 90 };
	unsigned int ctx_count;

	state = (seed + 1) * 0x9e3779b97f4a7c15ULL;
	switches_percent = percents[machine_random(4)];
	ctx_count = 1 + machine_random(3);
	machine_init(ctx_count, 1 + machine_random(8), 1 + machine_random(3));
	thread_count = 0;
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
	if (machine.has_flushes)
		add_thread(flush_often);
	play();
	if (!all_left())
		printf("seed %llu: nobody goes on, %u queued, %d of %u in flight\n",
		       (unsigned long long)seed, machine.io_count - machine.left,
		       k2->inflight.counter, k2->knobs[K2_KNOB_inflight_max]);
	machine_deinit();
}

int main(int argc, char **argv)
{
	unsigned long long first, count;

	if (argc != 3)
		return 2;
	first = strtoull(argv[1], NULL, 10);
	count = strtoull(argv[2], NULL, 10);
	for (seed = first; seed < first + count; seed++)
		schedule();
	return 0;
}
