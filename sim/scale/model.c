// SPDX-License-Identifier: GPL-2.0-only
/*
 * A model of CPUs. Arguments:
 *
 *	COUNT DEPTH BOUND T_KIB MICROSECONDS ACCESS_PS ATOMIC_PS CLOCK_PS NEAR_PS FAR_PS ELSEWHERE_PS INTERRUPT_PS DRIVE_NS
 *
 * The scheduler's code is the real one, compiled so that it calls the functions below before every access to memory
 * (-fsanitize=thread, without its library). Each CPU is a coroutine with a clock of its own; the CPU with the earliest clock
 * runs next. An access costs ACCESS_PS, an atomic operation or full barrier ATOMIC_PS, reading the clock CLOCK_PS. Cache lines
 * of 64 bytes are kept coherent as by MESI: a CPU that reads a line modified by another, or modifies a line held by another,
 * waits for its transfer, and a line is transferred to one CPU at a time. A transfer takes NEAR_PS within a group of 8 CPUs,
 * which share a cache, and FAR_PS between groups. A lock goes to the CPU that waits longest; taking it over costs the transfer
 * of its line.
 *
 * ELSEWHERE_PS is the cost of a request outside its scheduler. INTERRUPT_PS is the cost to a CPU when another CPU or a timer asks it to
 * run its queue. DRIVE_NS is the time of a request in the drive. 0: none.
 *
 * Not modelled: limited cache capacity, and overlapping transfers (out-of-order execution).
 *
 * Prints the operations per second and, per operation, the transfers, the runs of a queue that were asked for, and how many of
 * these dispatched nothing. The same arguments give the same digits on any host with the same compiler.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "cpus.h"

#define STACK_BYTES (64 << 10)
#define LINE_SHIFT 6
#define GROUP 8 /* CPUs that share a cache */
#define LINES (1U << 18)
#define IDLE_PS 200000 /* interval of an idle CPU's checks for work */

/* A cache line that a CPU has accessed. */
struct line {
	u64 number; /* 0: the entry is free */
	u64 holders; /* bitmap of CPUs that hold it */
	u64 free_ps; /* earliest time of the next transfer */
};

struct processor {
	ucontext_t context;
	u64 now_ps;
	const int *waits_for; /* the lock that it waits for */
	u64 ticket; /* order of waiting CPUs */
	bool counting, ended;
	u64 first, last; /* operations when counting began and ended */
};

static struct line lines[LINES];
static struct processor processors[CPUS_MAX], *current;
static char stacks[CPUS_MAX][STACK_BYTES] __attribute__((aligned(64)));
static ucontext_t outside;
static unsigned int count;
static u64 access_ps, atomic_ps, clock_ps, near_ps, far_ps, elsewhere_ps, interrupt_ps, in_drive_ns,
	begin_ps, end_ps;
static u64 tickets, transfers, runs, vain_runs;

/* --- scheduling of the CPUs ---------------------------------------------------------------------------------------- */

static struct processor *earliest(void)
{
	struct processor *p, *found = NULL;

	for (p = processors; p < processors + count; p++)
		if (!p->ended && !p->waits_for && (!found || p->now_ps < found->now_ps))
			found = p;
	return found;
}

static void go_on_with(struct processor *next)
{
	struct processor *before = current;

	if (next == current)
		return;
	current = next;
	swapcontext(&before->context, next ? &next->context : &outside);
}

/* Lets other CPUs run up to the time of this one. */
static void let_others_go_first(void)
{
	go_on_with(earliest());
}

/* --- memory ---------------------------------------------------------------------------------------------------------- */

static struct line *line_of(const volatile void *at)
{
	const u64 number = (uintptr_t)at >> LINE_SHIFT;
	u32 i = number * 0x9e3779b97f4a7c15ULL >> 46;

	while (lines[i].number && lines[i].number != number)
		i = (i + 1) % LINES;
	lines[i].number = number;
	return &lines[i];
}

/* Time for @current to get the line, exclusively if it modifies it; 0 if it already holds it. */
static u64 price_ps(const struct line *l, bool change)
{
	const unsigned int self = current - processors;
	const u64 group = ((1ULL << GROUP) - 1) << self / GROUP * GROUP;
	const u64 others = l->holders & ~(1ULL << self);

	if (change)
		return others & ~group ? far_ps : others ? near_ps : 0;
	return !others || l->holders >> self & 1 ? 0 : others & group ? near_ps : far_ps;
}

static void touch(const volatile void *at, bool change)
{
	const u64 self = 1ULL << (current - processors);
	struct line *l = line_of(at);

	current->now_ps += access_ps;
	if (price_ps(l, change)) {
		let_others_go_first();
		if (l->free_ps > current->now_ps)
			current->now_ps = l->free_ps;
		current->now_ps += price_ps(l, change);
		l->free_ps = current->now_ps;
		transfers++;
	}
	l->holders = change ? self : l->holders | self;
}

/* Before an atomic operation: these are executed in the order of the CPUs' clocks. */
static void touch_in_order(const volatile void *at, bool change)
{
	if (change)
		current->now_ps += atomic_ps;
	let_others_go_first();
	touch(at, change);
}

void model_lock(int *p)
{
	touch_in_order(p, true);
	if (*p) {
		current->waits_for = p;
		current->ticket = ++tickets;
		go_on_with(earliest());
		touch(p, true);
	}
	*p = 1;
}

void model_unlock(int *p)
{
	struct processor *next = NULL, *other;

	touch(p, true);
	for (other = processors; other < processors + count; other++)
		if (other->waits_for == p && (!next || other->ticket < next->ticket))
			next = other;
	*p = !!next;
	if (!next)
		return;
	next->waits_for = NULL;
	if (next->now_ps < current->now_ps)
		next->now_ps = current->now_ps;
}

/* --- functions called by code of the compiler ------------------------------------------------------------------------- */

#define PLAIN(bytes)                                  \
	void __tsan_read##bytes(void *at);            \
	void __tsan_write##bytes(void *at);           \
	void __tsan_unaligned_read##bytes(void *at);  \
	void __tsan_unaligned_write##bytes(void *at); \
	void __tsan_read##bytes(void *at)             \
	{                                             \
		touch(at, false);                     \
	}                                             \
	void __tsan_write##bytes(void *at)            \
	{                                             \
		touch(at, true);                      \
	}                                             \
	void __tsan_unaligned_read##bytes(void *at)   \
	{                                             \
		touch(at, false);                     \
	}                                             \
	void __tsan_unaligned_write##bytes(void *at)  \
	{                                             \
		touch(at, true);                      \
	}
PLAIN(1)
PLAIN(2)
PLAIN(4)
PLAIN(8)
PLAIN(16)

/* A copy of a struct: each of its cache lines counts as one access. */
static void touch_range(void *at, unsigned long bytes, bool writes)
{
	unsigned long line = (unsigned long)at >> LINE_SHIFT;

	for (; line <= ((unsigned long)at + bytes - 1) >> LINE_SHIFT; line++)
		touch((void *)(line << LINE_SHIFT), writes);
}

void __tsan_read_range(void *at, unsigned long bytes);
void __tsan_read_range(void *at, unsigned long bytes)
{
	touch_range(at, bytes, false);
}

void __tsan_write_range(void *at, unsigned long bytes);
void __tsan_write_range(void *at, unsigned long bytes)
{
	touch_range(at, bytes, true);
}

#define CHANGE(bits, name, type, operation)                                          \
	type __tsan_atomic##bits##_##name(volatile type *at, type value, int order); \
	type __tsan_atomic##bits##_##name(volatile type *at, type value, int order)  \
	{                                                                            \
		type was;                                                            \
                                                                                     \
		(void)order;                                                         \
		touch_in_order(at, true);                                            \
		was = *at;                                                           \
		*at = operation;                                                     \
		return was;                                                          \
	}
#define COMPARE(bits, form, type)                                                                 \
	int __tsan_atomic##bits##_compare_exchange_##form(volatile type *at, type *expected,      \
							  type value, int order, int order_else); \
	int __tsan_atomic##bits##_compare_exchange_##form(volatile type *at, type *expected,      \
							  type value, int order, int order_else)  \
	{                                                                                         \
		type was;                                                                         \
                                                                                                  \
		(void)order;                                                                      \
		(void)order_else;                                                                 \
		touch_in_order(at, true);                                                         \
		was = *at;                                                                        \
		if (was == *expected) {                                                           \
			*at = value;                                                              \
			return 1;                                                                 \
		}                                                                                 \
		*expected = was;                                                                  \
		return 0;                                                                         \
	}
#define ATOMIC(bits, type)                                                          \
	type __tsan_atomic##bits##_load(const volatile type *at, int order);        \
	void __tsan_atomic##bits##_store(volatile type *at, type value, int order); \
	type __tsan_atomic##bits##_load(const volatile type *at, int order)         \
	{                                                                           \
		(void)order;                                                        \
		touch_in_order(at, false);                                          \
		return *at;                                                         \
	}                                                                           \
	void __tsan_atomic##bits##_store(volatile type *at, type value, int order)  \
	{                                                                           \
		(void)order;                                                        \
		let_others_go_first();                                              \
		touch(at, true);                                                    \
		*at = value;                                                        \
	}                                                                           \
	CHANGE(bits, exchange, type, value)                                         \
	CHANGE(bits, fetch_add, type, was + value)                                  \
	CHANGE(bits, fetch_or, type, was | value)                                   \
	CHANGE(bits, fetch_and, type, was &value)                                   \
	COMPARE(bits, strong, type)                                                 \
	COMPARE(bits, weak, type)
ATOMIC(8, u8)
ATOMIC(32, u32)
ATOMIC(64, u64)

void __tsan_atomic_thread_fence(int order);
void __tsan_atomic_thread_fence(int order)
{
	if (order == __ATOMIC_SEQ_CST)
		current->now_ps += atomic_ps;
}

void __tsan_init(void);
void __tsan_init(void)
{
}

void __tsan_func_entry(void *caller);
void __tsan_func_entry(void *caller)
{
	(void)caller;
}

void __tsan_func_exit(void);
void __tsan_func_exit(void)
{
}

/* --- the CPUs' environment --------------------------------------------------------------------------------------------- */

bool cpu_goes_on(unsigned int cpu)
{
	struct processor *p = &processors[cpu];

	if (!p->counting && p->now_ps >= begin_ps) {
		p->counting = true;
		p->first = cpu_finished(cpu);
	}
	if (p->now_ps < end_ps)
		return true;
	if (!p->last)
		p->last = cpu_finished(cpu);
	return false;
}

void cpu_idle(unsigned int tries)
{
	(void)tries;
	current->now_ps += IDLE_PS;
	if (current->now_ps > 8 * end_ps) {
		fprintf(stderr, "model: CPU %u waits for ever\n",
			(unsigned int)(current - processors));
		exit(3);
	}
}

void cpu_elsewhere(void)
{
	current->now_ps += elsewhere_ps;
}

void cpu_other_code(u64 ns)
{
	current->now_ps += ns * 1000;
}

void cpu_interrupted(void)
{
	current->now_ps += interrupt_ps;
}

unsigned int cpu_self(void)
{
	return current - processors;
}

u64 drive_ns(void)
{
	return in_drive_ns;
}

u64 clock_ns(void)
{
	current->now_ps += clock_ps;
	return current->now_ps / 1000;
}

u64 clock_tick_ns(void)
{
	current->now_ps += access_ps;
	return current->now_ps / 4000000000 * 4000000;
}

u64 clock_timer_ns(void)
{
	return current->now_ps / 1000;
}

void cpu_ran(unsigned int cpu, bool in_vain)
{
	(void)cpu;
	runs++;
	vain_runs += in_vain;
}

static void processor_main(void)
{
	cpu_work(current - processors);
	current->ended = true;
	go_on_with(earliest());
}

static u64 number(const char *text)
{
	char *end;
	u64 value = strtoull(text, &end, 10);

	if (*end || end == text) {
		fprintf(stderr, "model: expected a number, got '%s'\n", text);
		exit(2);
	}
	return value;
}

int main(int argc, char **argv)
{
	static u64 operations;
	static unsigned int cpus, i;

	if (argc != 14) {
		fprintf(stderr,
			"usage: model COUNT DEPTH BOUND T_KIB MICROSECONDS ACCESS_PS ATOMIC_PS "
			"CLOCK_PS NEAR_PS FAR_PS ELSEWHERE_PS INTERRUPT_PS DRIVE_NS\n");
		return 2;
	}
	cpus = number(argv[1]);
	if (!cpus || cpus > CPUS_MAX) {
		fprintf(stderr, "model: COUNT: expected 1 to %u\n", CPUS_MAX);
		return 2;
	}
	/* until all CPUs have begun, the first one runs alone */
	count = 1;
	current = processors;
	cpus_create(cpus, number(argv[2]), number(argv[3]), number(argv[4]));
	memset(lines, 0, sizeof(lines));
	end_ps = number(argv[5]) * 1000000;
	begin_ps = end_ps / 5;
	access_ps = number(argv[6]);
	atomic_ps = number(argv[7]);
	clock_ps = number(argv[8]);
	near_ps = number(argv[9]);
	far_ps = number(argv[10]);
	elsewhere_ps = number(argv[11]);
	interrupt_ps = number(argv[12]);
	in_drive_ns = number(argv[13]);
	count = cpus;
	transfers = 0;
	for (i = 0; i < count; i++) {
		struct processor *p = &processors[i];

		getcontext(&p->context);
		p->context.uc_stack.ss_sp = stacks[i];
		p->context.uc_stack.ss_size = STACK_BYTES;
		makecontext(&p->context, processor_main, 0);
	}
	swapcontext(&outside, &processors[0].context);

	for (i = 0; i < count; i++) {
		if (!processors[i].ended) {
			fprintf(stderr, "model: CPU %u waits for ever\n", i);
			return 3;
		}
		operations += processors[i].last - processors[i].first;
	}
	count = 1;
	current = processors;
	current->ended = false;
	if (!cpus_conserved()) {
		fprintf(stderr, "model: a request was lost\n");
		return 3;
	}
	printf("operations_per_s %.0f\n", operations * 1e12 / (end_ps - begin_ps));
	for (i = 0, operations = 0; i < cpus; i++)
		operations += cpu_finished(i);
	/* as the runs, the transfers are counted from the first operation to the last */
	printf("transfers_per_operation %.2f\n", (double)transfers / operations);
	printf("runs_per_operation %.4f\n", (double)runs / operations);
	printf("vain_runs_per_operation %.4f\n", (double)vain_runs / operations);
	return 0;
}
