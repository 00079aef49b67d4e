/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A model of a flash drive: hardware queues, controller slots, dies that serve one operation at a time, a write buffer
 * that is programmed to the dies, and an SLC cache of limited size. It uses integers and nanoseconds. The same commands at
 * the same times give the same results for the same seed.
 *
 * The drive has its own clock. Each function is passed the current time, and first processes all events that were due until
 * then, each at the time at which it was due. docs/model.md says what is modelled, and what is not.
 *
 * Not thread-safe: the environment (kernel module, simulator, test) serialises the calls. It includes flash.c and provides
 * the <linux/...> headers that this uses.
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
		"hardware queues; the drive fetches one command from each in turn") \
	parameter(slots, "commands", 1, 65535, 256, \
		"most commands fetched and not completed; 1: no command queueing") \
	parameter(capacity_mib, "MiB", 1, 16777216, 4096, "size of the drive") \
	parameter(max_kib, "KiB", 4, 65535, 512, "largest command other than a discard") \
	parameter(unit_kib, "KiB", 1, 64, 4, "mapping unit, a power of two") \
	parameter(dies, "dies", 1, 255, 8, "flash dies; each serves one operation at a time") \
	parameter(placement, "choice", 0, 2, 0, \
		"0 scattered: each mapping unit on a random die, and on a new one each time it is written; " \
		"1 laid out: consecutive pages on consecutive dies; " \
		"2 pages scattered: each page on a random die that does not change") \
	parameter(trimmed_percent, "%", 0, 100, 0, "mapping units that are trimmed at the start") \
	parameter(fetch_kib, "KiB", 1, 1024, 4, \
		"page: neighbouring units that a die reads in one operation, unless they are scattered; " \
		"a power of two") \
	parameter(read_ns, "ns", 0, 1000000000, 56000, "time of a die's read") \
	parameter(read_more_ns, "ns/KiB", 0, 1000000, 0, \
		"added to a die's read for each KiB beyond the first mapping unit") \
	parameter(read_spread_percent, "%", 0, 100, 0, \
		"a third of a die's reads is shorter by this, a third is longer by this") \
	parameter(read_rare_ppm, "ppm", 0, 1000000, 0, \
		"share of a die's reads that take read_rare_ns longer") \
	parameter(read_rare_ns, "ns", 0, 1000000000, 0, "time added to the share read_rare_ppm of a die's reads") \
	parameter(read_fixed_ns, "ns", 0, 1000000000, 20000, \
		"time of a read in the controller: half before the dies, half after") \
	parameter(write_fixed_ns, "ns", 0, 1000000000, 12000, \
		"time from the transfer of a write to its acknowledgement") \
	parameter(write_rare_ppm, "ppm", 0, 1000000, 0, \
		"share of writes that are acknowledged write_rare_ns later") \
	parameter(write_rare_ns, "ns", 0, 1000000000, 0, "time added to the share write_rare_ppm of writes") \
	parameter(transfer_ns, "ns/KiB", 0, 1000000, 0, \
		"transfer time on the link to the host; one command at a time in each direction") \
	parameter(write_transfer_ns, "ns/KiB", 0, 1000000, 0, \
		"transfer time of writes; 0: as transfer_ns") \
	parameter(buffer_kib, "KiB", 1, 1048576, 1024, "size of the write buffer") \
	parameter(admission, "choice", 0, 1, 0, \
		"while a write waits for room in the buffer, a command fetched after it " \
		"0 waits behind it, 1 passes it unless it is a write") \
	parameter(program_kib, "KiB", 1, 1024, 32, "data that a die programs in one operation") \
	parameter(program_ns, "ns", 0, 1000000000, 175000, \
		"time of a die's program; into the SLC cache, if there is one") \
	parameter(erase_kib, "KiB", 0, 1048576, 8192, \
		"a die erases once for this many KiB programmed; 0 never") \
	parameter(erase_ns, "ns", 0, 1000000000, 3000000, "time of a die's erase") \
	parameter(drain_kib_ns, "ns/KiB", 0, 1000000, 0, \
		"the buffer frees room no faster than this: garbage collection makes room for what is programmed; " \
		"0: as soon as it is programmed") \
	parameter(stall_kib, "KiB", 0, 16777216, 0, \
		"each time that programs took this much, full or not, the buffer frees no room for stall_ns; 0 never") \
	parameter(stall_ns, "ns", 0, 1000000000, 0, "time for which the buffer frees no room") \
	parameter(slc_mib, "MiB", 0, 16777216, 0, "size of the SLC cache; 0 none") \
	parameter(slc_full_program_ns, "ns", 0, 1000000000, 0, \
		"time of a die's program while the SLC cache is full") \
	parameter(slc_drain_ns, "ns", 0, 4000000000, 0, \
		"idle time in which the drive empties program_kib of the SLC cache; 0 never") \
	parameter(flush_ns, "ns", 0, 1000000000, 0, "time of a flush after the buffer was programmed") \
	parameter(discard_ns, "ns", 0, 1000000000, 0, "fixed time of a discard") \
	parameter(discard_kib_ns, "ns/KiB", 0, 1000000, 0, \
		"time of a discard by size; the controller begins no other read, write or discard meanwhile") \
	parameter(dilation, "factor", 1, 10000, 1, "multiplies every time above") \
	parameter(seed, "number", 0, 4294967295, 1, "of random places and read times")
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
 * struct flash_parameter_info - description of a parameter
 * @name: as in struct flash_parameters, drive files and the module's parameters
 * @unit: unit of the value
 * @least: smallest value accepted
 * @most: largest value accepted
 * @initial: default
 * @offset: offset of the member in struct flash_parameters
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
	FLASH_FLUSH, /* completes when all writes acknowledged before are programmed */
	FLASH_DISCARD,
};

/**
 * struct flash_command - a command; the drive owns it from flash_submit() until flash_advance() returns it
 * @node: in the list that it is on
 * @sector: first sector, of 512 bytes
 * @sectors: number of sectors; 0 for a flush
 * @op: enum flash_op
 */
struct flash_command {
	struct list_head node;
	u64 sector;
	u32 sectors;
	u8 op;
};

/* operations of a die, for tests: see flash_die_traced() in flash.c */
enum flash_die_op { FLASH_DIE_READ, FLASH_DIE_PROGRAM, FLASH_DIE_ERASE };

struct flash_event {
	u64 at_ns;
	union {
		struct flash_command *command;
		u64 units; /* of a program: mapping units that leave the buffer */
	};
};

/* binary heap, earliest first; has room for the most events that can exist */
struct flash_events {
	u32 count;
	struct flash_event *heap;
};

struct flash_die {
	u64 free_ns; /* end of the last operation that it was given */
	u32 programs_left; /* programs before the next erase */
};

/**
 * struct flash_statistics - counters since the start
 * @commands: commands fetched
 * @slots_used_max: most commands fetched and not completed at a time
 * @die_reads: read operations of dies
 * @programs: program operations of dies
 * @erases: erase operations of dies
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
 * @next_ns: time of the earliest event
 * @done: completed commands that flash_advance() has not returned yet
 *
 * Times below are dilated.
 *
 * @waiting: array of @queue_count lists of commands submitted and not fetched
 * @queues_waiting: bit i: waiting[i] is not empty
 * @queue_next: hardware queue whose turn it is
 * @slots: the parameter "slots"
 * @slots_used: commands fetched and not completed
 * @reads: read commands by the time at which their data are ready for the link
 * @others: other commands by the time of their completion
 * @link_out_free_ns: time at which the link to the host is free
 * @link_in_free_ns: time at which the link from the host is free
 * @dies: array of @die_count + 1 dies; die 0 does not exist
 * @places: array: the die of each mapping unit, 0 if it is trimmed
 * @placement: enum flash_placement
 * @place_seed: seed of the random places
 * @page_mask: a unit whose number has none of these bits begins a page; 0 if units are scattered
 * @read_unit_ns: time of a die's read for each further unit of a page
 * @write_rare: share of writes, times 2^32
 * @write_rare_ns: time after which these are acknowledged later than others
 * @programs: programs that hold room in the buffer, by their end
 * @held: commands that wait for room in the buffer, or behind a command that does
 * @buffer_units: size of the buffer, in mapping units
 * @buffered_units: units in the buffer; more than @buffer_units only during a write that is larger than the buffer
 * @open_units: units in the buffer that were not given to a die yet
 * @open_die: the die that programs @open_units, unless another one is free earlier
 * @programmed_ns: end of the last program
 * @drain_unit_ns: least time between two units that leave the buffer
 * @drained_ns: when garbage collection has made room for all that was programmed
 * @stall_programs: programs from one stall to the next; 0: no stalls
 * @stall_left: programs before the next stall
 * @busy_ns: end of the last operation of any die
 * @idle_ns: time without an operation of any die, not yet used to empty the SLC cache
 * @slc_programs: size of the SLC cache, in programs; 0: no SLC cache
 * @slc_used: used part of the SLC cache, in programs
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
	u64 write_transfer_ns; /* per KiB, from the host */

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
	u32 read_rare; /* share of reads, times 2^32 */
	u64 read_rare_ns;
	u64 read_half_fixed_ns;
	u64 random;

	u32 write_rare;
	u64 write_rare_ns;
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

	u64 drain_unit_ns;
	u64 drained_ns;
	u32 stall_programs;
	u32 stall_left;
	u64 stall_ns;

	u64 busy_ns;
	u64 idle_ns;
	u64 slc_programs;
	u64 slc_used;
	u64 slc_full_program_ns;
	u64 slc_drain_ns;

	u64 flush_ns;
	u64 discard_ns;
	u64 discard_kib_ns;
	u64 controller_free_ns; /* end of the discards that the controller was given */
	struct flash_statistics statistics;
};

#endif
