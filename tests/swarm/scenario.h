/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A scenario: the input of one play of the swarm test. It is a list of lines, each a kind and a few numbers, so that it can be drawn at
 * random, printed, read back, and shortened while it still breaks a law.
 */
#ifndef TAILGATE_SWARM_SCENARIO_H
#define TAILGATE_SWARM_SCENARIO_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define SCENARIO_LINES 64
#define SCENARIO_FIELDS 11

enum scenario_kind {
	SCENARIO_SEED,
	SCENARIO_QUEUES,
	SCENARIO_TAGS,
	SCENARIO_TIME,
	SCENARIO_DRIVE,
	SCENARIO_KNOB,
	SCENARIO_SET,
	SCENARIO_TASK,
	SCENARIO_FREEZE,
	SCENARIO_OFFLINE,
	SCENARIO_FAULTS,
	SCENARIO_KINDS
};

/* The fields of each kind, in order. Times are in us from the start, sizes in KiB. */
enum {
	TASK_LEVEL,
	TASK_OP,
	TASK_KIB,
	TASK_DEPTH,
	TASK_THINK,
	TASK_OPEN,
	TASK_BEGIN,
	TASK_END,
	TASK_WHOLE,
	TASK_CGROUP,
	TASK_WEIGHT
};
enum {
	DRIVE_SLOTS,
	DRIVE_DIES,
	DRIVE_READ,
	DRIVE_PROGRAM,
	DRIVE_BUFFER,
	DRIVE_DISCARD,
	DRIVE_READ_RARE,
	DRIVE_WRITE_RARE,
	DRIVE_DRAIN,
	DRIVE_STALL
};
enum { KNOB_NUMBER, KNOB_VALUE };
enum { SET_AT, SET_NUMBER, SET_VALUE };
enum { FREEZE_AT, FREEZE_FOR };
enum { OFFLINE_AT, OFFLINE_QUEUE, OFFLINE_FOR };
enum { FAULTS_REQUEUE, FAULTS_BUSY, FAULTS_MERGE };

enum task_op { TASK_READS, TASK_WRITES, TASK_MIXES, TASK_DISCARDS, TASK_FLUSHES, TASK_OPS };

struct scenario_line {
	enum scenario_kind kind;
	uint64_t values[SCENARIO_FIELDS];
};

struct scenario {
	unsigned int count;
	struct scenario_line lines[SCENARIO_LINES];
};

/* A generator of random numbers of its own (splitmix64), so that a seed means the same on every machine. */
struct dice {
	uint64_t state;
};

uint64_t dice_next(struct dice *dice);
/* 0 to @n - 1; @n at least 1. */
uint64_t dice_below(struct dice *dice, uint64_t n);
/* True in @percent of a hundred cases. */
bool dice_percent(struct dice *dice, unsigned int percent);
/* @least to @most, small numbers as likely as large ones. */
uint64_t dice_log(struct dice *dice, uint64_t least, uint64_t most);

/* The scenario of a seed. */
void scenario_draw(struct scenario *s, uint64_t seed);
void scenario_print(const struct scenario *s, FILE *out);
/* False: what is not understood is in @wrong. */
bool scenario_read(struct scenario *s, FILE *in, char *wrong, size_t size);
/* Makes a scenario shorter as long as @breaks says that it still breaks the same law. */
void scenario_shrink(struct scenario *s, bool (*breaks)(const struct scenario *s));

#endif
