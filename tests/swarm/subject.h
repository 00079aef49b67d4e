/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A scheduler under test, as the player sees it: the calls of blk-mq, and the laws that it is to keep. Each has a file, and a line in
 * subjects.c.
 */
#ifndef TAILGATE_SWARM_SUBJECT_H
#define TAILGATE_SWARM_SUBJECT_H

#include <linux/list.h>
#include <linux/rbtree.h>
#include <linux/types.h>

#include "../../sched/knobs.h"

enum io_op { IO_READ, IO_WRITE, IO_DISCARD, IO_FLUSH };

/**
 * struct io - a request
 * @elv: the scheduler's own two words
 * @node: for its lists
 * @rb_node: for its trees
 * @queue: hardware queue
 * @level: I/O priority: 0 to 7 real time, 8 all else, 9 class idle
 * @op: enum io_op
 * @sectors: of 512 bytes
 * @whole: it cannot be split
 * @task: of the scenario
 * @cgroup: of the task
 * @weight: of the cgroup
 * @parent: the request that it is a piece of; NULL: none
 * @parts: pieces that have not ended
 * @inserted_ns: when it was inserted last
 * @urgent: it was inserted before all levels
 * @queued: the scheduler has it, and has not chosen it
 * @law_node: for the lists of its laws
 * @law_line: for its laws: the list that it is in
 * @law_cost: for its laws: what it costs its flow
 */
struct io {
	u64 elv[2];
	struct list_head node;
	struct rb_node rb_node;
	u32 queue;
	u8 level;
	u8 op;
	u32 sectors;
	bool whole;
	u32 task, cgroup, weight;
	struct io *parent;
	u32 parts;
	u64 inserted_ns;
	bool urgent;
	bool queued;
	struct list_head law_node;
	u32 law_line;
	u64 law_cost;
	u64 law_alone_ns;
};

/* Hardware queues at most. */
#define QUEUES_MAX 8

/* What the player gives the scheduler. */
extern u64 player_now_ns;
extern bool player_drains;
void player_arm(u64 at_ns);
/* Runs a hardware queue soon. */
void player_run(u32 queue);
/* A law is broken: prints, and ends the play. */
__attribute__((noreturn, format(printf, 1, 2))) void player_fail(const char *format, ...);

/**
 * struct subject - a scheduler under test
 * @name: of it
 * @knobs: its table
 * @knob_count: of them
 * @levels: of I/O priority that it tells apart; what is less urgent than the last one is of that
 * @tasks: at most, that are not real-time
 * @create: the drive has so many hardware queues
 * @destroy: at the end, when all requests have ended: the last laws
 * @set: a knob. Return, here and in what follows, where that is bool: a hardware queue should be run
 * @finish: a request has ended
 * @requeue: the driver gave a request back; it is inserted again if it is @dispatched_again, or else stays in flight
 * @tick: the timer; optional
 * @merge: some that are queued go, as if they were merged into others: @merged gets them; optional
 * @insert: all are of one hardware queue; @urgent: before all levels
 * @has_work: is a hardware queue worth a dispatch?
 * @dispatch: the next request of a hardware queue, or NULL; @large gets requests that are to be split
 * @leave: the last CPU of a hardware queue goes offline, or is back: the block layer waits until the queue has no requests left; optional
 * @piece: most sectors in a request; 0: any number; optional
 * @limit: scheduler tags of a hardware queue, of @tags, that such a request may have; optional
 * @check: the laws that are looked at after each event. @runs: a bitmap of hardware queues that are going to be run; @armed_ns: the timer,
 * 0: not armed
 */
struct subject {
	const char *name;
	const struct knob *knobs;
	unsigned int knob_count;
	unsigned int levels, tasks;
	void (*create)(unsigned int queues);
	void (*destroy)(void);
	bool (*set)(unsigned int knob, u64 value);
	bool (*finish)(struct io *io);
	bool (*requeue)(struct io *io, bool dispatched_again);
	bool (*tick)(void);
	bool (*merge)(struct list_head *merged, bool (*chosen)(struct io *io));
	void (*insert)(struct io **ios, unsigned int count, bool urgent);
	bool (*has_work)(u32 queue);
	struct io *(*dispatch)(u32 queue, struct list_head *large);
	void (*leave)(u32 queue, bool leaves);
	u32 (*piece)(const struct io *io);
	u32 (*limit)(const struct io *io, u32 tags);
	void (*check)(unsigned long runs, u64 armed_ns);
};

/* All that there are; the end is NULL. */
extern const struct subject *const subjects[];
/* The one that is played. */
extern const struct subject *subject;

#endif
