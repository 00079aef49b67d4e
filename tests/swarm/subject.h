/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The interface between the player and a scheduler under test: the calls that blk-mq makes, and the laws that the scheduler has to keep.
 * Each scheduler has a file, and a line in subjects.c.
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
 * @elv: two words for the scheduler
 * @node: for the scheduler's lists
 * @rb_node: for the scheduler's trees
 * @queue: index of the hardware queue
 * @level: I/O priority: 0 to 7 real time, 8 best effort or no class, 9 class idle
 * @op: enum io_op
 * @sectors: size in sectors of 512 bytes
 * @whole: the request cannot be split
 * @task: index of the task in the scenario
 * @cgroup: cgroup of the task
 * @weight: weight of the cgroup
 * @parent: the request that was split into pieces, of which this is one; NULL: this is no piece
 * @parts: number of pieces of this request that have not ended
 * @inserted_ns: time of the latest insertion
 * @urgent: the request was inserted ahead of all levels
 * @queued: the scheduler has the request, and has not chosen it yet
 * @law_node: for lists in the scheduler's laws
 * @law_line: for the scheduler's laws: index of the list that has the request
 * @law_cost: for the scheduler's laws: cost that the request adds to its flow
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

/* Most hardware queues of a scenario. */
#define QUEUES_MAX 8
/* Most I/O priorities. */
#define LEVELS_MAX 10
/* Most tasks of a scenario. */
#define TASKS_MAX 16

/* Functions and variables of the player that a scheduler uses. */
extern u64 player_now_ns;
extern bool player_drains;
void player_arm(u64 at_ns);
/* Runs a hardware queue after a short random time. */
void player_run(u32 queue);
/* Reports a broken law, and ends the play. */
__attribute__((noreturn, format(printf, 1, 2))) void player_fail(const char *format, ...);

/**
 * struct subject - a scheduler under test
 * @name: name of the scheduler
 * @knobs: table of its knobs
 * @knob_count: number of knobs
 * @levels: number of I/O priorities that the scheduler distinguishes; less urgent ones count as the last
 * @tasks: largest number of tasks that are not real-time in a scenario
 * @create: creates the scheduler for this number of hardware queues
 * @destroy: called after all requests have ended; checks the last laws
 * @set: sets a knob. Every operation that returns bool, except @has_work, returns whether a hardware queue should be run
 * @finish: called when a request has ended
 * @requeue: called when the driver gives a request back; if @dispatched_again, the request will be inserted again, otherwise it stays in
 * flight
 * @tick: called when the timer expires; optional
 * @merge: removes some queued requests into @merged, as if they were merged into others; optional
 * @insert: inserts requests of one hardware queue; @urgent: ahead of all levels
 * @has_work: returns whether the hardware queue should be dispatched
 * @dispatch: returns the next request of a hardware queue, or NULL; requests that have to be split are moved to @large
 * @leave: called when the last CPU of a hardware queue goes offline (@leaves) and when one is back; an offline queue gets no new requests,
 * and the block layer waits until those in it have ended; optional
 * @piece: returns the most sectors that this request may have without being split; 0: any number; optional
 * @limit: returns how many of the hardware queue's @tags scheduler tags requests like this may use; optional
 * @granted: checks laws when a request has got a tag: requests of its priority now hold @held of its hardware queue's @tags; optional
 * @check: checks laws after each event. @runs: bitmap of hardware queues that will be run; @armed_ns: expiry of the timer, 0: not armed
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
	void (*granted)(const struct io *io, u32 held, u32 tags);
	void (*check)(unsigned long runs, u64 armed_ns);
};

/* All schedulers under test; NULL ends the list. */
extern const struct subject *const subjects[];
/* The scheduler that is played. */
extern const struct subject *subject;

#endif
