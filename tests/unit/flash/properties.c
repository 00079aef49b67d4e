// SPDX-License-Identifier: GPL-2.0-only
/*
 * The drive model keeps its promises: on random drives and loads, and on small ones whose times are known.
 *
 *	properties FIRST_SEED COUNT	exits with 1 and names the seed when something does not hold
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <linux/types.h>

static void die_traced(u32 die, int op, u64 start_ns, u64 end_ns);
#define flash_die_traced(die, op, start_ns, end_ns) die_traced(die, op, start_ns, end_ns)
#include "flash/flash.c"

#define COMMANDS 300
#define DIES_MAX 256

static u64 seed_now;

#define require(condition)                                                           \
	do {                                                                         \
		if (!(condition)) {                                                  \
			fprintf(stderr, "seed %llu: line %d: %s does not hold\n",    \
				(unsigned long long)seed_now, __LINE__, #condition); \
			exit(1);                                                     \
		}                                                                    \
	} while (0)

/* --- randomness --- */

static u64 random_state;

static u64 below(u64 n)
{
	return flash_mix(random_state += 0x9e3779b97f4a7c15ULL) % n;
}

static u64 even_below(u64 n)
{
	return below(n) & ~1ULL;
}

/* --- a load: commands with the times at which they are submitted --- */

struct item {
	struct flash_command command; /* first */
	u64 submit_ns;
	u32 queue;
	unsigned int completed;
};

struct load {
	struct flash_parameters p;
	struct item items[COMMANDS];
};

static void draw_parameters(struct flash_parameters *p)
{
	const char *expected;

	*p = (struct flash_parameters)FLASH_PARAMETERS_DEFAULT;
	p->queues = 1 + below(5);
	p->slots = below(3) ? 1 + below(40) : 1;
	p->capacity_mib = 1 + below(8);
	p->unit_kib = 1 << below(5);
	p->max_kib = 4 + below(below(2) ? 1000 : 60);
	p->dies = 1 + below(below(8) ? 12 : 255);
	p->placement = below(3);
	p->trimmed_percent = below(2) ? below(101) : 0;
	p->fetch_kib = p->unit_kib << below(4);
	p->read_ns = even_below(100000);
	p->read_more_ns = even_below(2000);
	p->read_spread_percent = below(2) ? below(101) : 0;
	p->read_rare_ppm = below(2) ? below(1000001) : 0;
	p->read_rare_ns = even_below(1000000);
	p->read_fixed_ns = even_below(30000);
	p->write_fixed_ns = even_below(30000);
	p->transfer_ns = even_below(500);
	p->write_transfer_ns = below(2) ? even_below(500) : 0;
	p->admission = below(2);
	p->program_kib = p->unit_kib * (1 + below(10));
	p->program_ns = even_below(300000);
	p->buffer_kib = p->program_kib + below(p->program_kib * 20);
	p->erase_kib = below(4) ? p->program_kib * (1 + below(30)) : 0;
	p->erase_ns = even_below(4000000);
	p->write_rare_ppm = below(2) ? below(1000001) : 0;
	p->write_rare_ns = even_below(100000);
	p->drain_kib_ns = below(2) ? even_below(20000) : 0;
	p->stall_kib = below(2) ? p->program_kib * (1 + below(20)) : 0;
	p->stall_ns = even_below(2000000);
	p->slc_mib = below(3);
	p->slc_full_program_ns = even_below(2000000);
	p->slc_drain_ns = even_below(2000000);
	p->flush_ns = even_below(100000);
	p->discard_ns = even_below(100000);
	p->discard_kib_ns = below(2) ? even_below(1000) : 0;
	p->seed = below(1ULL << 32);
	require(!flash_check(p, &expected));
}

static void draw_load(struct load *load)
{
	u64 now = 0, sectors, mean_gap = 1 + below(100000), writes = below(100);
	unsigned int i;

	draw_parameters(&load->p);
	sectors = (u64)load->p.capacity_mib << 11;
	for (i = 0; i < COMMANDS; i++) {
		struct item *item = &load->items[i];
		struct flash_command *c = &item->command;
		u64 most = (u64)load->p.max_kib * 2;

		memset(item, 0, sizeof(*item));
		switch (below(20)) {
		case 0:
			c->op = FLASH_FLUSH;
			break;
		case 1:
			c->op = FLASH_DISCARD;
			most = sectors;
			break;
		case 2:
			c->op = FLASH_WRITE_THROUGH;
			break;
		default:
			c->op = below(100) < writes ? FLASH_WRITE : FLASH_READ;
		}
		if (c->op != FLASH_FLUSH)
			c->sectors = 1 + below(min(most, sectors));
		c->sector = below(sectors - c->sectors + 1);
		now += below(4) ? below(2 * mean_gap) : below(8) ? 0 : 100 * mean_gap;
		item->submit_ns = now;
		item->queue = below(load->p.queues);
	}
}

/* --- one run of it, with what must hold at every step --- */

static u64 die_end_ns[DIES_MAX];
static u64 time_scale; /* divisor of times in the trace */
static u64 trace, completions; /* hashes of the dies' operations, and of completions */
static struct flash *traced;

static void hash(u64 *into, u64 value)
{
	*into = flash_mix(*into ^ value) + 1;
}

static void die_traced(u32 die, int op, u64 start_ns, u64 end_ns)
{
	require(die >= 1 && die <= traced->die_count);
	require(start_ns >= die_end_ns[die]); /* one operation at a time */
	require(start_ns >= traced->now_ns); /* not in the past */
	require(end_ns >= start_ns);
	die_end_ns[die] = end_ns;
	require(start_ns % time_scale == 0 && end_ns % time_scale == 0);
	hash(&trace, die);
	hash(&trace, op);
	hash(&trace, start_ns / time_scale);
	hash(&trace, end_ns / time_scale);
}

static struct flash *make(struct flash_parameters *p)
{
	struct flash *f = calloc(1, flash_size(p));

	require(f);
	memset(die_end_ns, 0, sizeof(die_end_ns));
	trace = completions = 0;
	time_scale = p->dilation;
	traced = f;
	flash_init(f, p);
	return f;
}

static void check_order(const struct flash_events *events)
{
	u32 i;

	for (i = 0; i < events->count; i++)
		require(events->heap[i].at_ns >= events->heap[0].at_ns);
}

static void check(struct flash *f, u64 now)
{
	check_order(&f->reads);
	check_order(&f->others);
	check_order(&f->programs);
	require(f->slots_used <= f->slots);
	require(!f->queues_waiting ||
		f->slots_used == f->slots); /* commands wait only if no slot is free */
	require(f->reads.count + f->others.count <= f->slots_used);
	require(f->now_ns == now);
	require(f->buffered_units >= f->open_units);
	require(f->open_units < f->program_units);
	require(list_empty(&f->held) || f->programs.count); /* a program will free room */
}

static u64 take_done(struct load *load, struct list_head *done)
{
	struct flash_command *c, *next;
	u64 n = 0;

	list_for_each_entry_safe(c, next, done, node) {
		struct item *item = (struct item *)c;

		require(!item->completed++);
		hash(&completions, item - load->items);
		n++;
	}
	INIT_LIST_HEAD(done);
	return n;
}

/*
 * Returns a hash of all operations of the dies and of the order of completions. @late: the drive is asked at random times instead of when
 * something is due. @with_times: exact completion times are part of the hash.
 */
static u64 run(struct load *load, u32 dilation, bool late, bool with_times)
{
	u64 now = 0, completed = 0, result, before;
	unsigned int submitted = 0, i;
	struct flash *f;
	LIST_HEAD(done);

	load->p.dilation = dilation;
	f = make(&load->p);
	for (i = 0; i < COMMANDS; i++)
		load->items[i].completed = 0;
	while (submitted < COMMANDS || completed < COMMANDS) {
		u64 submit_ns = submitted < COMMANDS ? load->items[submitted].submit_ns * dilation :
						       FLASH_NEVER;
		u64 due = flash_next_ns(f);

		if (late && submitted < COMMANDS)
			due = below(2) ? now + below(1000000) : FLASH_NEVER;
		else if (late && due != FLASH_NEVER)
			due += below(1000000);
		require(min(due, submit_ns) != FLASH_NEVER); /* no command is forgotten */
		before = now;
		now = max(now, min(due, submit_ns));
		flash_advance(f, now, &done);
		i = take_done(load, &done);
		completed += i;
		if (i && with_times)
			hash(&completions, now / dilation);
		check(f, now);
		require(flash_next_ns(f) > now);
		require(late || now == before || now == submit_ns || i || !list_empty(&f->held) ||
			f->statistics.held); /* each wake-up has a reason */
		if (now == submit_ns) {
			struct item *item = &load->items[submitted++];

			flash_submit(f, item->queue, &item->command, now);
			check(f, now);
		}
	}
	require(f->slots_used == 0 && !f->queues_waiting && list_empty(&f->held));
	require(f->statistics.commands == COMMANDS);
	require(f->statistics.slots_used_max <= f->slots);
	result = trace ^ completions;
	free(f);
	return result;
}

static void random_load(u64 seed)
{
	static struct load load;
	u64 first;

	seed_now = seed;
	random_state = seed;
	draw_load(&load);
	first = run(&load, 1, false, true);
	require(run(&load, 1, false, true) == first); /* the same input gives the same result */
	require(run(&load, 7, false, true) == first); /* dilation changes only times */
	first = run(&load, 1, false, false);
	require(run(&load, 1, true, false) == first); /* asking late changes nothing */
}

/* --- small drives --- */

static struct flash_parameters small(void)
{
	struct flash_parameters p = FLASH_PARAMETERS_DEFAULT;

	p.capacity_mib = 64;
	p.read_ns = 50000;
	p.read_fixed_ns = 10000;
	p.write_fixed_ns = 8000;
	p.transfer_ns = 100;
	p.program_ns = 200000;
	p.erase_kib = 0;
	return p;
}

static struct flash_command command(u8 op, u64 kib, u32 size_kib)
{
	return (struct flash_command){ .op = op, .sector = kib * 2, .sectors = size_kib * 2 };
}

/* the time at which the next command completes, and that command */
static u64 next_done(struct flash *f, struct flash_command **c)
{
	LIST_HEAD(done);

	while (list_empty(&done)) {
		require(flash_next_ns(f) != FLASH_NEVER);
		flash_advance(f, max(flash_next_ns(f), f->now_ns), &done);
	}
	require(done.next == done.prev); /* one at a time in these tests */
	*c = list_first_entry(&done, struct flash_command, node);
	return f->now_ns;
}

/* the time that one command takes on a drive without another */
static u64 alone(struct flash *f, struct flash_command c)
{
	struct flash_command *done;
	u64 begin = f->now_ns, end;

	flash_submit(f, 0, &c, begin);
	end = next_done(f, &done);
	require(done == &c);
	return end - begin;
}

static void known_times(void)
{
	struct flash_parameters p = small();
	struct flash_command *done, c[4];
	struct flash *f = make(&p);
	u64 start, expected;
	unsigned int i;

	/* a page; a request on one die; neighbours of one page laid out; trimmed */
	require(alone(f, command(FLASH_READ, 40, 4)) == 10000 + 50000 + 4 * 100);
	free(f);
	p.dies = 1;
	f = make(&p);
	require(alone(f, command(FLASH_READ, 64, 64)) == 10000 + 16 * 50000 + 64 * 100);
	free(f);
	p.placement = FLASH_LAID_OUT;
	p.fetch_kib = 16;
	f = make(&p);
	require(alone(f, command(FLASH_READ, 64, 64)) == 10000 + 4 * 50000 + 64 * 100);
	require(alone(f, command(FLASH_READ, 12, 8)) == 10000 + 2 * 50000 + 8 * 100);
	require(alone(f, command(FLASH_DISCARD, 12, 4)) == 0);
	require(alone(f, command(FLASH_READ, 12, 8)) == 10000 + 50000 + 8 * 100);
	require(alone(f, command(FLASH_WRITE, 12, 4)) == 8000 + 4 * 100);
	require(alone(f, command(FLASH_READ, 12, 8)) == 10000 + 2 * 50000 + 8 * 100);
	free(f);
	p.dies = 4; /* consecutive pages on consecutive dies */
	f = make(&p);
	require(alone(f, command(FLASH_READ, 64, 64)) == 10000 + 50000 + 64 * 100);
	free(f);
	p.trimmed_percent = 100;
	f = make(&p);
	require(alone(f, command(FLASH_READ, 64, 64)) == 10000 + 64 * 100);
	require(f->statistics.die_reads == 0);
	free(f);
	/* pages on random dies; what is read beyond a unit takes its time; after a rewrite pages are where they were */
	p.trimmed_percent = 0;
	p.placement = FLASH_PAGES_SCATTERED;
	p.read_more_ns = 1000;
	f = make(&p);
	expected = 10000 + 50000 + 12 * 1000 + 16 * 100;
	for (i = 0; i < 8; i++)
		require(alone(f, command(FLASH_READ, i * 16, 16)) == expected);
	require(f->statistics.die_reads == 8);
	for (i = 4; i < 32 && f->places[i] == f->places[0]; i += 4)
		;
	require(i < 32);
	require(alone(f, command(FLASH_DISCARD, 8, 8)) == 0);
	require(alone(f, command(FLASH_WRITE, 4, 12)) == 8000 + 12 * 100);
	require(alone(f, command(FLASH_READ, 0, 16)) == expected);
	free(f);

	/* the link serves data in the order in which it is ready: two reads at once, then one after the other on the link */
	p = small();
	p.placement = FLASH_LAID_OUT;
	p.fetch_kib = 64;
	f = make(&p);
	c[0] = command(FLASH_READ, 0, 64);
	c[1] = command(FLASH_READ, 64, 64);
	flash_submit(f, 0, &c[0], 0);
	flash_submit(f, 0, &c[1], 0);
	require(next_done(f, &done) == 60000 + 6400);
	require(next_done(f, &done) == 60000 + 12800);
	free(f);

	/* slots: the second command waits for the first */
	p = small();
	p.slots = 1;
	f = make(&p);
	c[0] = command(FLASH_READ, 0, 4);
	c[1] = command(FLASH_READ, 4, 4);
	flash_submit(f, 0, &c[0], 0);
	flash_submit(f, 0, &c[1], 1000);
	require(next_done(f, &done) == 60400 && done == &c[0]);
	require(next_done(f, &done) == 2 * 60400 && done == &c[1]);
	free(f);

	/* one command at a time, writes slower than reads; both wait while the drive is busy */
	p = small();
	p.slots = 1;
	p.write_transfer_ns = 300;
	f = make(&p);
	require(alone(f, command(FLASH_READ, 0, 4)) == 60000 + 4 * 100);
	require(alone(f, command(FLASH_WRITE, 0, 4)) == 8000 + 4 * 300);
	require(alone(f, command(FLASH_WRITE, 64, 16)) == 8000 + 16 * 300);
	require(alone(f, command(FLASH_WRITE_THROUGH, 0, 4)) == 4 * 300 + 200000);
	start = f->now_ns;
	c[0] = command(FLASH_WRITE, 8, 4);
	c[1] = command(FLASH_READ, 128, 4);
	c[2] = command(FLASH_WRITE, 256, 4);
	for (i = 0; i < 3; i++)
		flash_submit(f, 0, &c[i], start);
	require(next_done(f, &done) == start + 9200 && done == &c[0]);
	require(next_done(f, &done) == start + 9200 + 60400 && done == &c[1]);
	require(next_done(f, &done) == start + 2 * 9200 + 60400 && done == &c[2]);
	free(f);

	/* buffered writes, whole program units on dies in turn, a flush that waits for them, and one that need not */
	p = small();
	p.flush_ns = 3000;
	f = make(&p);
	for (i = 0; i < 3;
	     i++) /* 96 KiB: three dies; the last is programmed by the flush if it is not full */
		require(alone(f, command(FLASH_WRITE, i * 32, 32)) == 8000 + 3200);
	require(f->statistics.programs == 3 && f->open_die == 4);
	require(alone(f, command(FLASH_WRITE, 200, 4)) == 8000 + 400);
	require(f->statistics.programs == 3);
	start = f->now_ns;
	require(alone(f, command(FLASH_FLUSH, 0, 0)) == 200000 + 3000);
	require(f->statistics.programs == 4 && f->now_ns == start + 203000);
	require(alone(f, command(FLASH_FLUSH, 0, 0)) == 3000);
	require(alone(f, command(FLASH_WRITE_THROUGH, 0, 4)) == 400 + 200000);
	free(f);

	/* a discard takes its time, and a part by its size, in which the controller begins nothing else */
	p = small();
	p.discard_ns = 5000;
	p.discard_kib_ns = 64;
	p.capacity_mib = 8;
	f = make(&p);
	require(alone(f, command(FLASH_DISCARD, 2048, 1024)) == 65536 + 5000);
	require(alone(f, command(FLASH_DISCARD, 2048, 4096)) == 4 * 65536 + 5000);
	start = f->now_ns;
	c[0] = command(FLASH_DISCARD, 2048, 1024);
	c[1] = command(FLASH_READ, 0, 4);
	c[2] = command(FLASH_WRITE, 64, 4);
	c[3] = command(FLASH_DISCARD, 4096, 512);
	for (i = 0; i < 4; i++)
		flash_submit(f, 0, &c[i], start);
	require(next_done(f, &done) == start + 65536 + 5000 && done == &c[0]);
	require(next_done(f, &done) == start + 65536 + 8400 && done == &c[2]);
	require(next_done(f, &done) == start + 98304 + 5000 && done == &c[3]);
	require(next_done(f, &done) == start + 65536 + 60400 && done == &c[1]);
	free(f);

	/* data does not wait for a die that erases if another die is free earlier */
	p = small();
	p.dies = 2;
	p.buffer_kib = 96;
	p.transfer_ns = 0;
	p.erase_kib = 64;
	p.erase_ns = 1000000;
	f = make(&p);
	f->dies[1].programs_left = 0;
	f->dies[2].programs_left = 2;
	for (i = 0; i < 3; i++)
		require(alone(f, command(FLASH_WRITE, i * 32, 32)) == 8000);
	require(f->programmed_ns == 1200000 && f->dies[2].free_ns <= 8000 + 2 * 200000);
	free(f);

	/* a full buffer: the first program that ends frees room; later commands wait in order, or pass */
	for (i = 0; i < 2; i++) {
		p = small();
		p.admission = i;
		p.dies = 2;
		p.buffer_kib = 32;
		p.transfer_ns = 0;
		p.placement = FLASH_LAID_OUT;
		p.fetch_kib = 4;
		f = make(&p);
		c[0] = command(FLASH_WRITE, 0, 32);
		c[1] = command(FLASH_WRITE, 32, 32);
		c[2] = command(FLASH_READ, 1024 + 4, 4); /* on a die that programs nothing */
		flash_submit(f, 0, &c[0], 0);
		flash_submit(f, 0, &c[1], 0);
		flash_submit(f, 0, &c[2], 0);
		require(next_done(f, &done) == 8000 && done == &c[0]);
		expected = i == FLASH_FREE ? 60000 : 208000;
		require(next_done(f, &done) == expected);
		require(done == (i == FLASH_FREE ? &c[2] : &c[1]));
		/* in order, the read comes behind the program of the write before it */
		expected = i == FLASH_FREE ? 208000 : 200000 + 200000 + 50000 + 5000;
		require(next_done(f, &done) == expected);
		require(f->statistics.held == (i == FLASH_FREE ? 1 : 2));
		free(f);
	}

	/* room comes at the rate of garbage collection, and after each second program a stall later; a flush waits for programs alone */
	p = small();
	p.dies = 4;
	p.buffer_kib = 32;
	p.transfer_ns = 0;
	p.drain_kib_ns = 10000;
	p.stall_kib = 64;
	p.stall_ns = 1000000;
	start = 5000000;
	f = make(&p);
	for (i = 0; i < 4; i++) {
		c[i] = command(FLASH_WRITE, i * 32, 32);
		flash_submit(f, 0, &c[i], start);
	}
	require(next_done(f, &done) == start + 8000 && done == &c[0]);
	require(next_done(f, &done) == start + 328000 && done == &c[1]);
	require(next_done(f, &done) == start + 640000 + 1000000 + 8000 && done == &c[2]);
	require(next_done(f, &done) == start + 640000 + 1000000 + 320000 + 8000 && done == &c[3]);
	require(alone(f, command(FLASH_FLUSH, 0, 0)) == 200000 - 8000);
	free(f);

	/* rare long writes */
	p = small();
	p.write_rare_ppm = 1000000;
	p.write_rare_ns = 5000;
	f = make(&p);
	require(alone(f, command(FLASH_WRITE, 0, 4)) == 8000 + 5000 + 4 * 100);
	free(f);

	/* all of the buffer is used */
	p = small();
	p.buffer_kib = 64;
	f = make(&p);
	for (i = 0; i < 3; i++) {
		c[i] = command(FLASH_WRITE, i * 32, 32);
		flash_submit(f, 0, &c[i], 0);
		require(f->statistics.held == i / 2);
	}
	free(f);

	/* an erase each 64 KiB of a die; a cache of 1 MiB, full, then empty again after a while */
	p = small();
	p.dies = 1;
	p.buffer_kib = 32;
	p.transfer_ns = 0;
	p.erase_kib = 64;
	p.erase_ns = 1000000;
	p.slc_mib = 1;
	p.slc_full_program_ns = 700000;
	p.slc_drain_ns = 100000;
	f = make(&p);
	f->dies[1].programs_left = 2;
	for (i = 0; i < 40;
	     i++) /* each waits for the program of the one before: the die is never idle */
		alone(f, command(FLASH_WRITE, i * 32, 32));
	require(f->statistics.programs == 40 && f->statistics.erases == 19);
	require(die_end_ns[1] == 32 * 200000ULL + 8 * 700000ULL + 19 * 1000000ULL);
	require(f->slc_used == f->slc_programs);
	start = die_end_ns[1] + 10 * p.slc_drain_ns;
	c[0] = command(FLASH_WRITE, 0, 32);
	flash_submit(f, 0, &c[0], start);
	require(f->slc_used == f->slc_programs - 9); /* ten out, one in */
	free(f);
}

/* one slot: commands complete in the order in which they are fetched, one from each queue that has any */
static void round_robin(u64 seed)
{
	struct flash_parameters p = small();
	static struct item items[64 * 8];
	unsigned int left[64] = {}, queue, i, total = 0, turn;
	struct flash_command *done;
	struct flash *f;

	seed_now = seed;
	random_state = seed;
	p.queues = 1 + below(64);
	p.slots = 1;
	f = make(&p);
	/* holds the slot until all is submitted */
	items[0].command = command(FLASH_READ, 0, 64);
	items[0].queue = 0;
	flash_submit(f, 0, &items[0].command, 0);
	for (queue = 0; queue < p.queues; queue++)
		for (i = below(7); i; i--) {
			struct item *item = &items[1 + total++];

			item->command = command(FLASH_READ, below(1000) * 4, 4);
			item->queue = queue;
			flash_submit(f, queue, &item->command, 0);
			left[queue]++;
		}
	next_done(f, &done);
	turn = p.queues > 1;
	for (i = 0; i < total; i++) {
		while (!left[turn])
			turn = (turn + 1) % p.queues;
		next_done(f, &done);
		require(((struct item *)done)->queue == turn);
		left[turn]--;
		turn = (turn + 1) % p.queues;
	}
	free(f);
}

/* scattered: all dies get about the same number; another seed gives other places; a rewrite moves data */
static void places(void)
{
	struct flash_parameters p = small();
	unsigned int counts[9] = {}, same = 0, moved = 0, i;
	struct flash_command c[4];
	struct flash *f, *other;

	f = make(&p);
	for (i = 0; i < f->unit_count; i++)
		counts[f->places[i]]++;
	require(!counts[0]);
	for (i = 1; i <= 8; i++)
		require(counts[i] > f->unit_count / 8 * 9 / 10 &&
			counts[i] < f->unit_count / 8 * 11 / 10);
	p.seed++;
	other = make(&p);
	for (i = 0; i < f->unit_count; i++)
		same += f->places[i] == other->places[i];
	require(same > f->unit_count / 10 && same < f->unit_count / 6);
	for (i = 0; i < 4; i++) {
		c[i] = command(FLASH_WRITE, 0, 512);
		flash_submit(other, 0, &c[i], 0);
	}
	for (i = 0; i < 128; i++)
		moved += f->places[i] != other->places[i];
	require(moved > 64);
	free(f);
	free(other);
}

/* what flash_check() refuses, by name */
static void refusals(void)
{
	static const struct {
		const char *name;
		struct flash_parameters p;
	} wrong[] = {
#define WRONG(member, value)                                                     \
	{                                                                        \
#member,                                                         \
		{                                                                \
			FLASH_PARAMETERS(FLASH_PARAMETER_DEFAULT).member = value \
		}                                                                \
	}
		WRONG(dies, 0),	      WRONG(dies, 256),	       WRONG(queues, 65),
		WRONG(slots, 0),      WRONG(unit_kib, 3),      WRONG(fetch_kib, 2),
		WRONG(fetch_kib, 24), WRONG(program_kib, 30),  WRONG(buffer_kib, 16),
		WRONG(erase_kib, 16), WRONG(dilation, 0),      WRONG(trimmed_percent, 101),
		WRONG(placement, 3),  WRONG(program_kib, ~0U), WRONG(stall_kib, 16),
	};
	const struct flash_parameter_info *info;
	struct flash_parameters p;
	const char *expected;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(wrong); i++) {
		p = wrong[i].p;
		info = flash_check(&p, &expected);
		require(info && !strcmp(info->name, wrong[i].name));
		require(expected || *flash_parameter(&p, info) < info->least ||
			*flash_parameter(&p, info) > info->most);
	}
	p = small();
	require(!flash_check(&p, &expected));
}

int main(int argc, char **argv)
{
	u64 seed, first, count;

	if (argc != 3)
		return 2;
	first = strtoull(argv[1], NULL, 10);
	count = strtoull(argv[2], NULL, 10);
	known_times();
	places();
	refusals();
	for (seed = first; seed < first + count; seed++) {
		random_load(seed);
		round_robin(seed);
	}
	printf("%llu seeds\n", (unsigned long long)count);
	return 0;
}
