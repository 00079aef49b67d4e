/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The scheduler under test, as the player sees it: the calls of blk-mq, and the laws that it is to keep. k2.c is one; another scheduler is
 * another file with these functions.
 */
#ifndef TAILGATE_SWARM_SUBJECT_H
#define TAILGATE_SWARM_SUBJECT_H

#include <linux/list.h>
#include <linux/types.h>

#include "../../sched/knobs.h"

enum io_op { IO_READ, IO_WRITE, IO_DISCARD, IO_FLUSH };

/**
 * struct io - a request
 * @elv: the scheduler's own two words
 * @node: for its lists
 * @queue: hardware queue
 * @level: 0 to 7 real time, 8 all else
 * @op: enum io_op
 * @sectors: of 512 bytes
 * @whole: it cannot be split
 * @task: of the scenario
 * @parent: the request that it is a piece of; NULL: none
 * @parts: pieces that have not ended
 * @inserted_ns: when it was inserted last
 * @urgent: it was inserted before all levels
 * @queued: the scheduler has it, and has not chosen it
 */
struct io {
	u64 elv[2];
	struct list_head node;
	u32 queue;
	u8 level;
	u8 op;
	u32 sectors;
	bool whole;
	u32 task;
	struct io *parent;
	u32 parts;
	u64 inserted_ns;
	bool urgent;
	bool queued;
};

/* What the player gives the scheduler. */
extern u64 player_now_ns;
extern bool player_drains;
void player_arm(u64 at_ns);
/* A law is broken: prints, and ends the play. */
__attribute__((noreturn, format(printf, 1, 2))) void player_fail(const char *format, ...);

extern const struct knob *const subject_knobs;
extern const unsigned int subject_knob_count;

void subject_create(unsigned int queues);
/* At the end, when all requests have ended. */
void subject_destroy(void);
/* Each returns true if a hardware queue should be run. */
bool subject_set(unsigned int knob, u64 value);
bool subject_finish(struct io *io);
bool subject_requeue(struct io *io, bool dispatched_again);
bool subject_tick(void);
/* Removes some that are queued, as if they were merged into others: @merged gets them. */
bool subject_merge(struct list_head *merged, bool (*chosen)(struct io *io));
void subject_insert(struct io **ios, unsigned int count, bool urgent);
bool subject_has_work(void);
/* @large gets requests that are to be split. */
struct io *subject_dispatch(struct list_head *large);
/* Most sectors in a request; 0: any number. */
u32 subject_piece(const struct io *io);
/* Scheduler tags of a hardware queue that such a request may have. */
u32 subject_limit(const struct io *io, u32 tags);

/* The laws that are looked at after each event. @run_pending: a hardware queue is going to be run; @armed_ns: the timer, 0: not armed. */
void subject_check(bool run_pending, u64 armed_ns);

#endif
