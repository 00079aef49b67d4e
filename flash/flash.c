// SPDX-License-Identifier: GPL-2.0-only
/*
 * The drive model: see flash.h. The code that binds it to an environment includes this file, as with sched/k2.c.
 *
 * The state of a die is one number, the end of the last operation that it was given: a die runs operations in the order in
 * which they were given to it. So the end of a read or a program is known when it is given to its dies, and no event is
 * needed in between. Two things are decided later, by events: which read the link sends next (the one whose data are ready
 * first), and when a write that found the buffer full enters it.
 */
#include <linux/bitops.h>
#include <linux/kernel.h>
#include <linux/math64.h>

#include "flash.h"

#define FLASH_NEVER (~0ULL)
#define FLASH_SECTORS_PER_KIB 2

/* A test may define it, to see each operation of a die. */
#ifndef flash_die_traced
#define flash_die_traced(die, op, start_ns, end_ns)
#endif

static const struct flash_parameter_info flash_parameter_infos[] = {
#define FLASH_PARAMETER_INFO(name, unit, least, most, initial, what) \
	{ #name, unit, least, most, initial, offsetof(struct flash_parameters, name), what },
	FLASH_PARAMETERS(FLASH_PARAMETER_INFO)
#undef FLASH_PARAMETER_INFO
};

/* The parameter that @info describes. */
static inline u32 *flash_parameter(struct flash_parameters *p,
				   const struct flash_parameter_info *info)
{
	return (u32 *)((char *)p + info->offset);
}

/**
 * flash_check() - check the parameters of a drive
 * @p: the parameters
 * @expected: set to a text that says what was expected; NULL: a value between the parameter's least and most
 *
 * Return: the parameter that is wrong, NULL if none is.
 */
static const struct flash_parameter_info *flash_check(struct flash_parameters *p,
						      const char **expected)
{
	const struct flash_parameter_info *info;
	const u32 *wrong = NULL;

	*expected = NULL;
	for (info = flash_parameter_infos;
	     info < flash_parameter_infos + ARRAY_SIZE(flash_parameter_infos); info++) {
		u32 value = *flash_parameter(p, info);

		if (value < info->least || value > info->most)
			return info;
	}
	if (p->unit_kib & (p->unit_kib - 1)) {
		wrong = &p->unit_kib;
		*expected = "a power of two";
	} else if (p->fetch_kib & (p->fetch_kib - 1) || p->fetch_kib < p->unit_kib) {
		wrong = &p->fetch_kib;
		*expected = "a power of two, at least unit_kib";
	} else if (p->program_kib % p->unit_kib || !p->program_kib) {
		wrong = &p->program_kib;
		*expected = "a multiple of unit_kib";
	} else if (p->buffer_kib < p->program_kib) {
		wrong = &p->buffer_kib;
		*expected = "at least program_kib";
	} else if (p->stall_kib && p->stall_kib < p->program_kib) {
		wrong = &p->stall_kib;
		*expected = "0, or at least program_kib";
	} else if (p->erase_kib && p->erase_kib < p->program_kib) {
		wrong = &p->erase_kib;
		*expected = "0, or at least program_kib";
	}
	for (info = flash_parameter_infos; wrong; info++)
		if (flash_parameter(p, info) == wrong)
			return info;
	return NULL;
}

static inline u64 flash_unit_count(const struct flash_parameters *p)
{
	return ((u64)p->capacity_mib << 10) >> __ffs(p->unit_kib);
}

/* mixes all 64 bits (the finalizer of splitmix64, S. Vigna) */
static inline u64 flash_mix(u64 x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
	return x ^ x >> 31;
}

static inline u64 flash_random(struct flash *f)
{
	f->random += 0x9e3779b97f4a7c15ULL;
	return flash_mix(f->random);
}

/* A share in parts per million as a share of 2^32. */
static inline u32 flash_share(u32 ppm)
{
	return min_t(u64, div_u64((u64)ppm << 32, 1000000), ~0U);
}

/* Lays out an array of @size bytes behind struct flash, aligned to 8 bytes. Return: its offset in bytes. */
static inline size_t flash_array(size_t *end, u64 size)
{
	size_t at = *end;

	*end += (size + 7) & ~7ULL;
	return at;
}

struct flash_layout {
	size_t waiting, dies, reads, others, programs, places, end;
};

static struct flash_layout flash_layout(const struct flash_parameters *p)
{
	struct flash_layout at = { .end = sizeof(struct flash) };

	at.waiting = flash_array(&at.end, p->queues * sizeof(struct list_head));
	at.dies = flash_array(&at.end, (p->dies + 1) * sizeof(struct flash_die));
	at.reads = flash_array(&at.end, p->slots * sizeof(struct flash_event));
	at.others = flash_array(&at.end, p->slots * sizeof(struct flash_event));
	/* a program has at least one unit of the buffer; a command that is not aligned has one unit more than its size */
	at.programs = flash_array(&at.end, (max(p->buffer_kib, p->max_kib) / p->unit_kib + 2ULL) *
						   sizeof(struct flash_event));
	at.places = flash_array(&at.end, flash_unit_count(p));
	return at;
}

/**
 * flash_size() - memory that flash_init() needs
 * @p: parameters that flash_check() accepted
 *
 * Return: bytes; mostly one for each mapping unit.
 */
static inline size_t flash_size(const struct flash_parameters *p)
{
	return flash_layout(p).end;
}

/* A random die; @random is 32 bits. */
static inline u8 flash_random_die(const struct flash *f, u64 random)
{
	return (random * f->die_count >> 32) + 1;
}

/* The die of the page with this unit: by the page's number if pages are laid out, else by its first unit and the seed. */
static u8 flash_page_die(const struct flash *f, u64 unit)
{
	u64 first = unit & ~f->page_mask;
	u32 die;

	if (f->placement != FLASH_LAID_OUT)
		return flash_random_die(f, flash_mix(f->place_seed + first) >> 32);
	div_u64_rem(div64_u64(first, f->page_mask + 1), f->die_count, &die);
	return die + 1;
}

/* Sets the places of units that were not written yet: a function of address and seed. */
static void flash_place_all(struct flash *f, const struct flash_parameters *p)
{
	u64 trimmed = div_u64((u64)p->trimmed_percent << 32, 100), unit;
	u8 die = 0;

	for (unit = 0; unit < f->unit_count; unit++) {
		if (!(unit & f->page_mask))
			die = flash_page_die(f, unit);
		f->places[unit] = (u32)flash_mix(f->place_seed + unit) < trimmed ? 0 : die;
	}
}

/**
 * flash_init() - a drive at time 0, all its dies idle
 * @f: flash_size() zeroed bytes
 * @p: parameters that flash_check() accepted
 *
 * Nothing has to be released.
 */
static void flash_init(struct flash *f, const struct flash_parameters *p)
{
	struct flash_layout at = flash_layout(p);
	u64 k = p->dilation;
	u32 i;

	f->next_ns = FLASH_NEVER;
	INIT_LIST_HEAD(&f->done);
	INIT_LIST_HEAD(&f->held);
	f->waiting = (void *)f + at.waiting;
	f->dies = (void *)f + at.dies;
	f->reads.heap = (void *)f + at.reads;
	f->others.heap = (void *)f + at.others;
	f->programs.heap = (void *)f + at.programs;
	f->places = (void *)f + at.places;
	f->queue_count = p->queues;
	for (i = 0; i < p->queues; i++)
		INIT_LIST_HEAD(&f->waiting[i]);
	f->slots = p->slots;
	f->transfer_ns = k * p->transfer_ns;
	f->write_transfer_ns = k * (p->write_transfer_ns ? p->write_transfer_ns : p->transfer_ns);
	f->die_count = p->dies;
	f->unit_shift = __ffs(p->unit_kib * FLASH_SECTORS_PER_KIB);
	f->unit_count = flash_unit_count(p);
	f->placement = p->placement;
	f->place_seed = flash_mix(p->seed + 1ULL);
	f->page_mask = p->placement == FLASH_SCATTERED ? 0 : p->fetch_kib / p->unit_kib - 1;

	for (i = 0; i < 3; i++)
		f->read_ns[i] = k * div_u64((u64)p->read_ns * (100 + p->read_spread_percent * i -
							       p->read_spread_percent),
					    100);
	f->read_unit_ns = k * p->read_more_ns * p->unit_kib;
	f->read_varies = p->read_spread_percent || p->read_rare_ppm;
	f->read_rare = flash_share(p->read_rare_ppm);
	f->read_rare_ns = k * p->read_rare_ns;
	f->read_half_fixed_ns = k * p->read_fixed_ns / 2;
	f->random = flash_mix(p->seed);

	f->in_order = p->admission == FLASH_IN_ORDER;
	f->buffer_units = p->buffer_kib / p->unit_kib;
	f->open_die = 1;
	f->program_units = p->program_kib / p->unit_kib;
	f->write_fixed_ns = k * p->write_fixed_ns;
	f->write_rare = flash_share(p->write_rare_ppm);
	f->write_rare_ns = k * p->write_rare_ns;
	f->program_ns = k * p->program_ns;
	f->erase_programs = p->erase_kib / p->program_kib;
	f->erase_ns = k * p->erase_ns;
	/* as on a used drive, dies do not all erase at the same time */
	for (i = 1; i <= f->die_count; i++)
		f->dies[i].programs_left = (flash_random(f) >> 32) * f->erase_programs >> 32;
	f->drain_unit_ns = k * p->drain_kib_ns * p->unit_kib;
	f->stall_programs = p->stall_kib / p->program_kib;
	f->stall_left = f->stall_programs;
	f->stall_ns = k * p->stall_ns;
	f->slc_programs = div_u64((u64)p->slc_mib << 10, p->program_kib);
	f->slc_full_program_ns = k * p->slc_full_program_ns;
	f->slc_drain_ns = k * p->slc_drain_ns;
	f->flush_ns = k * p->flush_ns;
	f->discard_ns = k * p->discard_ns;
	f->discard_kib_ns = k * p->discard_kib_ns;
	flash_place_all(f, p);
}

static inline void flash_push(struct flash_events *events, struct flash_event event)
{
	u32 at = events->count++;

	while (at) {
		u32 parent = (at - 1) / 2;

		if (events->heap[parent].at_ns <= event.at_ns)
			break;
		events->heap[at] = events->heap[parent];
		at = parent;
	}
	events->heap[at] = event;
}

static inline struct flash_event flash_pop(struct flash_events *events)
{
	struct flash_event *heap = events->heap, first = heap[0], last;
	u32 at = 0, child, count = --events->count;

	last = heap[count];
	while ((child = 2 * at + 1) < count) {
		if (child + 1 < count && heap[child + 1].at_ns < heap[child].at_ns)
			child++;
		if (last.at_ns <= heap[child].at_ns)
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = last;
	return first;
}

/* Adds the time from the last operation of any die to @start_ns, when the next one begins, to the idle time. */
static inline void flash_wake(struct flash *f, u64 start_ns)
{
	if (start_ns > f->busy_ns) {
		f->idle_ns += start_ns - f->busy_ns;
		f->busy_ns = start_ns;
	}
}

/* Gives a die an operation of @ns that may start at @start_ns. Return: its end. */
static inline u64 flash_occupy(struct flash *f, u32 die, enum flash_die_op op, u64 start_ns, u64 ns)
{
	struct flash_die *d = &f->dies[die];

	start_ns = max(start_ns, d->free_ns);
	d->free_ns = start_ns + ns;
	f->busy_ns = max(f->busy_ns, d->free_ns);
	flash_die_traced(die, op, start_ns, d->free_ns);
	return d->free_ns;
}

static inline void flash_complete_at(struct flash *f, struct flash_events *events, u64 at_ns,
				     struct flash_command *c)
{
	flash_push(events, (struct flash_event){ .at_ns = at_ns, .command = c });
}

static inline u64 flash_read_ns(struct flash *f)
{
	u64 random, ns;

	if (likely(!f->read_varies))
		return f->read_ns[1];
	random = flash_random(f);
	ns = f->read_ns[(random >> 32) * 3 >> 32];
	return (u32)random < f->read_rare ? ns + f->read_rare_ns : ns;
}

static void flash_read(struct flash *f, struct flash_command *c)
{
	u64 start = max(f->controller_free_ns, f->now_ns) + f->read_half_fixed_ns, end = start;
	u64 unit = c->sector >> f->unit_shift;
	u64 last = (c->sector + c->sectors - 1) >> f->unit_shift;
	u64 ns;
	u8 die;

	flash_wake(f, start);
	while (unit <= last) {
		die = f->places[unit++];
		if (!die) /* trimmed */
			continue;
		ns = flash_read_ns(f);
		/* one read of the die fetches the following units of the same page, too */
		for (; unit <= last && unit & f->page_mask && f->places[unit]; unit++)
			ns += f->read_unit_ns;
		end = max(end, flash_occupy(f, die, FLASH_DIE_READ, start, ns));
		f->statistics.die_reads++;
	}
	flash_complete_at(f, &f->reads, end + f->read_half_fixed_ns, c);
}

/* The time of a program. It goes into the SLC cache if that has room. */
static u64 flash_program_ns(struct flash *f)
{
	if (!f->slc_programs)
		return f->program_ns;
	if (f->slc_drain_ns && f->idle_ns >= f->slc_drain_ns) {
		u64 drained = min(f->slc_used, div64_u64(f->idle_ns, f->slc_drain_ns));

		f->slc_used -= drained;
		/* an empty cache has no use for the rest */
		f->idle_ns = f->slc_used ? f->idle_ns - drained * f->slc_drain_ns : 0;
	}
	if (f->slc_used == f->slc_programs)
		return f->slc_full_program_ns;
	f->slc_used++;
	return f->program_ns;
}

/* The die that will be free first; of equal ones, the next in turn. */
static u32 flash_first_free(const struct flash *f)
{
	u32 i, first = f->open_die, die = first;

	for (i = 1; i < f->die_count; i++) {
		die = die == f->die_count ? 1 : die + 1;
		if (f->dies[die].free_ns < f->dies[first].free_ns)
			first = die;
	}
	return first;
}

/* When the room of the open units is free: once they are programmed, and garbage collection has made room for them elsewhere. */
static u64 flash_drain(struct flash *f, u64 start_ns, u64 programmed_ns)
{
	f->drained_ns = max(f->drained_ns, start_ns) + f->open_units * f->drain_unit_ns;
	if (f->stall_programs && !--f->stall_left) {
		f->drained_ns += f->stall_ns;
		f->stall_left = f->stall_programs;
	}
	return max(f->drained_ns, programmed_ns);
}

/*
 * Gives the open units, full program or not, to the die that will be free first, once the link has brought their data. Return: the time at
 * which they are programmed.
 */
static u64 flash_program(struct flash *f)
{
	u64 start_ns = max(f->now_ns, f->link_in_free_ns), end;
	struct flash_die *d;

	flash_wake(f, start_ns);
	f->open_die = flash_first_free(f);
	d = &f->dies[f->open_die];
	if (f->erase_programs && !d->programs_left--) {
		flash_occupy(f, f->open_die, FLASH_DIE_ERASE, start_ns, f->erase_ns);
		d->programs_left = f->erase_programs - 1;
		f->statistics.erases++;
	}
	end = flash_occupy(f, f->open_die, FLASH_DIE_PROGRAM, start_ns, flash_program_ns(f));
	f->programmed_ns = max(f->programmed_ns, end);
	flash_push(&f->programs, (struct flash_event){ .at_ns = flash_drain(f, start_ns, end),
						       .units = f->open_units });
	f->statistics.programs++;
	f->open_units = 0;
	f->open_die = f->open_die == f->die_count ? 1 : f->open_die + 1;
	return end;
}

/* Frees the room of programs that have ended. Return: true if a write of @units fits into the buffer. */
static bool flash_fits(struct flash *f, u32 units)
{
	while (f->programs.count && f->programs.heap[0].at_ns <= f->now_ns)
		f->buffered_units -= flash_pop(&f->programs).units;
	return f->buffered_units + units <= f->buffer_units || !f->buffered_units;
}

static inline u32 flash_command_units(const struct flash *f, const struct flash_command *c)
{
	return ((c->sector + c->sectors - 1) >> f->unit_shift) - (c->sector >> f->unit_shift) + 1;
}

static inline bool flash_is_write(const struct flash_command *c)
{
	return c->op == FLASH_WRITE || c->op == FLASH_WRITE_THROUGH;
}

/* The die for a unit that is being written. */
static inline u8 flash_place(struct flash *f, u64 unit)
{
	if (f->placement == FLASH_SCATTERED)
		return flash_random_die(f, flash_random(f) >> 32);
	return f->places[unit] ? f->places[unit] : flash_page_die(f, unit);
}

/* Writes a command to the buffer, which has room. Whole programs are given to dies. */
static void flash_write(struct flash *f, struct flash_command *c)
{
	u64 unit = c->sector >> f->unit_shift, end, programmed = 0;
	u32 units = flash_command_units(f, c);

	f->link_in_free_ns = max(f->link_in_free_ns, max(f->controller_free_ns, f->now_ns)) +
			     c->sectors * f->write_transfer_ns / FLASH_SECTORS_PER_KIB;
	end = f->link_in_free_ns + f->write_fixed_ns;
	if (f->write_rare && (u32)flash_random(f) < f->write_rare)
		end += f->write_rare_ns;
	f->buffered_units += units;
	for (; units; units--, unit++) {
		f->places[unit] = flash_place(f, unit);
		if (++f->open_units == f->program_units)
			programmed = max(programmed, flash_program(f));
	}
	if (c->op == FLASH_WRITE_THROUGH) {
		if (f->open_units)
			programmed = max(programmed, flash_program(f));
		end = max(end, programmed);
	}
	flash_complete_at(f, &f->others, end, c);
}

static void flash_discard(struct flash *f, struct flash_command *c)
{
	/* only whole units are trimmed */
	u64 ones = (1ULL << f->unit_shift) - 1;
	u64 unit = (c->sector + ones) >> f->unit_shift;
	u64 end = (c->sector + c->sectors) >> f->unit_shift;

	for (; unit < end; unit++)
		f->places[unit] = 0;
	f->controller_free_ns = max(f->controller_free_ns, f->now_ns) +
				(c->sectors * f->discard_kib_ns / FLASH_SECTORS_PER_KIB);
	flash_complete_at(f, &f->others, f->controller_free_ns + f->discard_ns, c);
}

static void flash_flush(struct flash *f, struct flash_command *c)
{
	if (f->open_units)
		flash_program(f);
	flash_complete_at(f, &f->others, max(f->programmed_ns, f->now_ns) + f->flush_ns, c);
}

/* Begins a fetched command. Return: false if it must wait for room in the buffer. */
static bool flash_begin(struct flash *f, struct flash_command *c)
{
	switch (c->op) {
	case FLASH_READ:
		flash_read(f, c);
		return true;
	case FLASH_WRITE:
	case FLASH_WRITE_THROUGH:
		if (!flash_fits(f, flash_command_units(f, c)))
			return false;
		flash_write(f, c);
		return true;
	case FLASH_FLUSH:
		flash_flush(f, c);
		return true;
	default:
		flash_discard(f, c);
		return true;
	}
}

/* Fetches commands while slots are free, one from each hardware queue in turn. */
static void flash_fetch(struct flash *f)
{
	while (f->queues_waiting && f->slots_used < f->slots) {
		u64 later = f->queues_waiting >> f->queue_next;
		u32 queue = later ? f->queue_next + __ffs64(later) : __ffs64(f->queues_waiting);
		struct flash_command *c =
			list_first_entry(&f->waiting[queue], struct flash_command, node);

		list_del(&c->node);
		if (list_empty(&f->waiting[queue]))
			f->queues_waiting &= ~(1ULL << queue);
		f->queue_next = queue + 1 < f->queue_count ? queue + 1 : 0;
		f->slots_used++;
		f->statistics.slots_used_max =
			max_t(u64, f->statistics.slots_used_max, f->slots_used);
		f->statistics.commands++;

		if (likely(list_empty(&f->held) || !(f->in_order || flash_is_write(c))) &&
		    likely(flash_begin(f, c)))
			continue;
		list_add_tail(&c->node, &f->held);
		f->statistics.held++;
		/* only the end of a program frees room: if none is under way, program the open units now, even if few */
		if (!f->programs.count)
			flash_program(f);
	}
}

/* Begins commands that waited for room in the buffer, after programs have ended. */
static void flash_admit(struct flash *f)
{
	while (!list_empty(&f->held)) {
		struct flash_command *c = list_first_entry(&f->held, struct flash_command, node);

		list_del(&c->node);
		if (flash_begin(f, c))
			continue;
		list_add(&c->node, &f->held);
		if (!f->programs.count)
			flash_program(f);
		return;
	}
}

/* The time at which the link has sent the data of the first read in @reads. */
static inline u64 flash_sent_ns(const struct flash *f)
{
	const struct flash_event *first = f->reads.heap;

	return max(first->at_ns, f->link_out_free_ns) +
	       first->command->sectors * f->transfer_ns / FLASH_SECTORS_PER_KIB;
}

/* The time of the next event. If several are due at that time, flash_run() takes them in the order of this function. */
static inline u64 flash_due_ns(const struct flash *f)
{
	u64 due = FLASH_NEVER;

	if (f->reads.count)
		due = flash_sent_ns(f);
	if (f->others.count)
		due = min(due, f->others.heap->at_ns);
	if (unlikely(!list_empty(&f->held)))
		due = min(due, f->programs.heap->at_ns);
	return due;
}

/* Processes all events that are due until @now_ns, each at its time. */
static void flash_run(struct flash *f, u64 now_ns)
{
	u64 due;

	while ((due = f->next_ns) <= now_ns) {
		struct flash_command *c = NULL;

		f->now_ns = due;
		if (f->reads.count && flash_sent_ns(f) == due) {
			f->link_out_free_ns = due;
			c = flash_pop(&f->reads).command;
		} else if (f->others.count && f->others.heap->at_ns == due) {
			c = flash_pop(&f->others).command;
		} else {
			flash_admit(f);
		}
		if (c) {
			list_add_tail(&c->node, &f->done);
			f->slots_used--;
			flash_fetch(f);
		}
		f->next_ns = flash_due_ns(f);
	}
	f->now_ns = max(f->now_ns, now_ns);
}

/**
 * flash_submit() - a command enters a hardware queue
 * @f: drive
 * @queue: hardware queue, below the parameter "queues"
 * @c: command with sector, sectors and op set, within the drive, not larger than the parameter "max_kib" unless it is a
 *	discard; the drive owns it until flash_advance() returns it
 * @now_ns: the time; an earlier time than in the last call counts as that
 */
static void flash_submit(struct flash *f, u32 queue, struct flash_command *c, u64 now_ns)
{
	flash_run(f, now_ns);
	list_add_tail(&c->node, &f->waiting[queue]);
	f->queues_waiting |= 1ULL << queue;
	flash_fetch(f);
	f->next_ns = flash_due_ns(f);
}

/**
 * flash_advance() - let time pass
 * @f: drive
 * @now_ns: the time
 * @done: completed commands are appended to this list, in the order of their completion
 */
static void flash_advance(struct flash *f, u64 now_ns, struct list_head *done)
{
	flash_run(f, now_ns);
	list_splice_tail_init(&f->done, done);
}

/**
 * flash_next_ns() - time at which flash_advance() must be called
 * @f: drive
 *
 * Return: the time of the earliest event, in the past if commands have completed in flash_submit(); FLASH_NEVER if the drive
 * is idle.
 */
static inline u64 flash_next_ns(const struct flash *f)
{
	return list_empty(&f->done) ? f->next_ns : 0;
}
