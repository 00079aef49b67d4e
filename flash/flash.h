/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A model of a flash drive: hardware queues, controller slots, dies that serve one operation at a time, a write buffer
 * that drains to them, an SLC cache that runs out. Integers and nanoseconds; the same commands at the same times give
 * the same results for the same seed.
 *
 * The drive runs on its own clock: every function is told the time, works off what was due until then at the times it
 * was due, and never looks ahead. docs/model.md says what is modelled, and what is not.
 *
 * Not thread-safe: the environment (kernel module, simulator, test) serialises the calls. It provides the <linux/...>
 * headers named in flash.c, which it includes.
 */
#ifndef TAILGATE_FLASH_H
#define TAILGATE_FLASH_H

#include <linux/list.h>
#include <linux/types.h>

/* Values of the parameters "placement" and "admission". */
enum flash_placement { FLASH_SCATTERED, FLASH_LAID_OUT, FLASH_PAGES_SCATTERED };
enum flash_admission { FLASH_IN_ORDER, FLASH_FREE };

/* parameter(name, unit, least, most, default, what it is) */
/* clang-format off */
#define FLASH_PARAMETERS(parameter) \
	parameter(queues, "queues", 1, 64, 1, \
		"hardware queues; fetched from in turn, one command each") \
	parameter(slots, "commands", 1, 65535, 256, \
		"commands fetched and not completed; 1: no command queueing") \
	parameter(capacity_mib, "MiB", 1, 16777216, 4096, "size of the drive") \
	parameter(max_kib, "KiB", 4, 65535, 512, "largest command other than a discard") \
	parameter(unit_kib, "KiB", 1, 64, 4, "mapping unit, a power of two") \
	parameter(dies, "dies", 1, 255, 8, "each serves one operation at a time") \
	parameter(placement, "choice", 0, 2, 0, \
		"0 scattered: each mapping unit on a random die, another one when it is rewritten; " \
		"1 laid out: one page after the other on one die after the other; " \
		"2 pages scattered: each page on a random die, where it stays") \
	parameter(trimmed_percent, "%", 0, 100, 0, "mapping units that are trimmed at first") \
	parameter(fetch_kib, "KiB", 1, 1024, 4, \
		"what a die reads at once of neighbouring units, unless they are scattered: a page; " \
		"a power of two") \
	parameter(read_ns, "ns", 0, 1000000000, 56000, "a die's read") \
	parameter(read_more_ns, "ns/KiB", 0, 1000000, 0, \
		"of a die, for what it reads at once beyond the first mapping unit") \
	parameter(read_spread_percent, "%", 0, 100, 0, \
		"a third of the reads is so much shorter, a third so much longer") \
	parameter(read_rare_ppm, "ppm", 0, 1000000, 0, \
		"share of reads that take read_rare_ns more") \
	parameter(read_rare_ns, "ns", 0, 1000000000, 0, "see read_rare_ppm") \
	parameter(read_fixed_ns, "ns", 0, 1000000000, 20000, \
		"controller's part of a read: half before the dies, half after") \
	parameter(write_fixed_ns, "ns", 0, 1000000000, 12000, \
		"from the transfer of a write to its acknowledgement") \
	parameter(transfer_ns, "ns/KiB", 0, 1000000, 0, \
		"on the link to the host, one command at a time in each direction") \
	parameter(write_transfer_ns, "ns/KiB", 0, 1000000, 0, \
		"the same of what is written; 0: as transfer_ns") \
	parameter(buffer_kib, "KiB", 1, 1048576, 1024, "write buffer") \
	parameter(admission, "choice", 0, 1, 0, \
		"while a write waits for room in the buffer, what is fetched after it " \
		"0 waits behind it, 1 passes unless it is a write") \
	parameter(program_kib, "KiB", 1, 1024, 32, "what a die programs at once") \
	parameter(program_ns, "ns", 0, 1000000000, 175000, \
		"a die's program; into the SLC cache, if there is one") \
	parameter(erase_kib, "KiB", 0, 1048576, 8192, \
		"a die erases before it programs so much; 0 never") \
	parameter(erase_ns, "ns", 0, 1000000000, 3000000, "a die's erase") \
	parameter(slc_mib, "MiB", 0, 16777216, 0, "SLC cache; 0 none") \
	parameter(slc_full_program_ns, "ns", 0, 1000000000, 0, \
		"a die's program while the SLC cache is full") \
	parameter(slc_drain_ns, "ns", 0, 4000000000, 0, \
		"idle time that empties program_kib of the SLC cache; 0 never") \
	parameter(flush_ns, "ns", 0, 1000000000, 0, "a flush, after the buffer was programmed") \
	parameter(discard_ns, "ns", 0, 1000000000, 0, "a discard, beside its size") \
	parameter(discard_kib_ns, "ns/KiB", 0, 1000000, 0, \
		"of a discard; the controller begins no other read, write or discard meanwhile") \
	parameter(dilation, "factor", 1, 10000, 1, "multiplies every time above") \
	parameter(seed, "number", 0, 4294967295, 1, "of places and of read times")
/* clang-format on */

struct flash_parameters {
#define FLASH_PARAMETER_MEMBER(name, ...) u32 name;
	FLASH_PARAMETERS(FLASH_PARAMETER_MEMBER)
#undef FLASH_PARAMETER_MEMBER
};

#define FLASH_PARAMETER_DEFAULT(name, unit, least, most, initial, what) .name = initial,
#define FLASH_PARAMETERS_DEFAULT                          \
	{                                                 \
		FLASH_PARAMETERS(FLASH_PARAMETER_DEFAULT) \
	}

/**
 * struct flash_parameter_info - what a parameter is, for whoever shows, sets or refuses it
 * @name: as in struct flash_parameters, drive files and the module's parameters
 * @unit: of the value
 * @least: smallest value accepted
 * @most: largest value accepted
 * @initial: default
 * @offset: of the member in struct flash_parameters
 * @what: one sentence
 */
struct flash_parameter_info {
	const char *name;
	const char *unit;
	u32 least, most, initial;
	unsigned int offset;
	const char *what;
};

enum flash_op {
	FLASH_READ,
	FLASH_WRITE, /* acknowledged once it is in the buffer */
	FLASH_WRITE_THROUGH, /* acknowledged once it is programmed (FUA) */
	FLASH_FLUSH, /* done when all that was acknowledged before is programmed */
	FLASH_DISCARD,
};

/**
 * struct flash_command - a command; the drive owns it from flash_submit() until flash_advance() returns it
 * @node: of the list that it is on
 * @sector: first, of 512 bytes
 * @sectors: how many; 0 for a flush
 * @op: enum flash_op
 */
struct flash_command {
	struct list_head node;
	u64 sector;
	u32 sectors;
	u8 op;
};

/* what happens on a die, for tests: see flash_die_traced() in flash.c */
enum flash_die_op { FLASH_DIE_READ, FLASH_DIE_PROGRAM, FLASH_DIE_ERASE };

struct flash_event {
	u64 at_ns;
	union {
		struct flash_command *command;
		u64 units; /* a program's, in the buffer until its end */
	};
};

/* binary heap, earliest first; room for as many as there can be */
struct flash_events {
	u32 count;
	struct flash_event *heap;
};

struct flash_die {
	u64 free_ns; /* end of the last operation it was given */
	u32 programs_left; /* before the next erase */
};

/**
 * struct flash_statistics - counters since the start
 * @commands: fetched
 * @slots_used_max: most commands fetched and not completed at a time
 * @die_reads: reads of dies
 * @programs: programs of dies
 * @erases: erases of dies
 * @held: commands that waited for room in the write buffer
 */
struct flash_statistics {
	u64 commands;
	u64 slots_used_max;
	u64 die_reads;
	u64 programs;
	u64 erases;
	u64 held;
};

/**
 * struct flash - a drive
 * @now_ns: its clock
 * @next_ns: earliest time at which something is due
 * @done: completed commands that flash_advance() has not returned yet
 *
 * Times below are dilated.
 *
 * @waiting: array of @queue_count lists: submitted, not fetched
 * @queues_waiting: bit i: waiting[i] is not empty
 * @queue_next: whose turn it is
 * @slots: see the parameter
 * @slots_used: commands fetched and not completed
 * @reads: read commands by the time at which their data are ready for the link
 * @others: other commands by the time of their completion
 * @link_out_free_ns: when the link to the host has sent what was ready
 * @link_in_free_ns: when the link from the host has brought what was fetched
 * @dies: array of as many as the parameter says and one more: die 0 does not exist
 * @places: array: the die of each mapping unit, 0 if it is trimmed
 * @placement: enum flash_placement
 * @place_seed: of the random places
 * @page_mask: a unit with none of these bits begins a page; of scattered units, each is one
 * @read_unit_ns: of each further unit of a page
 * @programs: programs that hold room in the buffer, by their end
 * @held: commands that wait for room in the buffer, or behind one that does
 * @buffer_units: room in the buffer, in mapping units
 * @buffered_units: of which used; more only while a write that is larger than the buffer is in it
 * @open_units: of which not yet given to a die
 * @open_die: the die whose turn it is to program them, unless others are free earlier
 * @programmed_ns: end of the last program
 * @busy_ns: end of the last operation of any die
 * @idle_ns: time without any operation, not yet used to drain the SLC cache
 * @slc_programs: size of the SLC cache, in programs; 0 has no end
 * @slc_used: of which full
 */
struct flash {
	u64 now_ns;
	u64 next_ns;
	struct list_head done;

	struct list_head *waiting;
	u64 queues_waiting;
	u32 queue_count;
	u32 queue_next;
	u32 slots;
	u32 slots_used;

	struct flash_events reads;
	struct flash_events others;
	u64 link_out_free_ns;
	u64 link_in_free_ns;
	u64 transfer_ns; /* per KiB, to the host */
	u64 write_transfer_ns; /* and from it */

	struct flash_die *dies;
	u32 die_count;
	u32 unit_shift; /* sectors to mapping units */
	u64 unit_count;
	u8 *places;
	u8 placement;
	u64 place_seed;
	u64 page_mask;

	u64 read_ns[3]; /* by page type */
	u64 read_unit_ns;
	bool read_varies;
	u32 read_rare; /* of 2^32 */
	u64 read_rare_ns;
	u64 read_half_fixed_ns;
	u64 random;

	struct flash_events programs;
	struct list_head held;
	bool in_order;
	u32 buffer_units;
	u32 buffered_units;
	u32 open_units;
	u32 open_die;
	u32 program_units;
	u64 write_fixed_ns;
	u64 program_ns;
	u64 programmed_ns;
	u32 erase_programs; /* 0: never */
	u64 erase_ns;

	u64 busy_ns;
	u64 idle_ns;
	u64 slc_programs;
	u64 slc_used;
	u64 slc_full_program_ns;
	u64 slc_drain_ns;

	u64 flush_ns;
	u64 discard_ns;
	u64 discard_kib_ns;
	u64 controller_free_ns; /* when it has worked off the discards that it was given */
	struct flash_statistics statistics;
};

#endif
