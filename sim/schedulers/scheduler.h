/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the simulator's block layer asks of a scheduler, and what it gives it: the operations of an elevator in the
 * kernel, with requests of the simulator. Each scheduler is C from sched/ behind a table of these functions; adding one
 * is a file beside this one and a line in registry.c.
 *
 * One thread; time comes in as an argument.
 */
#ifndef TAILGATE_SIM_SCHEDULER_H
#define TAILGATE_SIM_SCHEDULER_H

#include <linux/list.h>
#include <linux/types.h>

#include "../../sched/knobs.h"

enum sim_op { SIM_READ, SIM_WRITE, SIM_DISCARD, SIM_FLUSH };

/* I/O priorities as the kernel has them: class << 13 | level; class 0 none, 1 real time, 2 best effort, 3 idle. */
#define SIM_IOPRIO_CLASS(ioprio) ((ioprio) >> 13 & 7)

/**
 * struct sim_cgroup - a cgroup
 * @parent: the one that it is in; NULL: it is the root
 * @number: its own; the root has 0
 * @weight: io.mqfq.weight
 */
struct sim_cgroup {
	const struct sim_cgroup *parent;
	u32 number;
	u32 weight;
};

/**
 * struct sim_request - a request as a scheduler sees it
 * @node: for the scheduler's lists while it holds the request
 * @sector: first, of 512 bytes
 * @sectors: how many
 * @start_ns: when it was made, in ns
 * @issue_ns: when the drive got it, in ns
 * @queue: hardware queue it was submitted to
 * @ioprio: see SIM_IOPRIO_CLASS()
 * @process: number of the process that submitted it
 * @cgroup: of that one
 * @op: enum sim_op
 * @sync: somebody waits for it (reads, direct writes)
 * @elv: the scheduler's own, 8-byte aligned, zeroed when the request is made
 */
struct sim_request {
	struct list_head node;
	u64 sector;
	u64 start_ns;
	u64 issue_ns;
	u32 sectors;
	u16 queue;
	u16 ioprio;
	u32 process;
	const struct sim_cgroup *cgroup;
	u8 op;
	bool sync;
	u64 elv[6];
};

/**
 * struct sim_device - the drive as a scheduler sees it
 * @queues: hardware queues
 * @cpus: processors
 * @tags: scheduler tags of each hardware queue (nr_requests)
 * @max_sectors: most in a request
 * @draining: the queue is being frozen: all that is queued must go
 * @now_ns: the clock
 * @run: asks for an asynchronous run of a hardware queue
 * @arm: a timer: ->tick() is called at this time, in ns; a later call replaces an earlier one
 * @split: takes back a request that the scheduler had queued, and inserts its pieces a little later
 */
struct sim_device {
	u32 queues;
	u32 cpus;
	u32 tags;
	u32 max_sectors;
	bool draining;
	const u64 *now_ns;
	void (*run)(struct sim_device *device, u32 queue);
	void (*arm)(struct sim_device *device, u64 at_ns);
	void (*split)(struct sim_device *device, struct sim_request *rq);
};

/**
 * struct sim_scheduler - a scheduler; @s below is what @create returned
 * @name: as in /sys/block/.../queue/scheduler
 * @runs_itself: it runs the queue after an insertion, where a kernel would leave that to a worker
 * @bounds: it has the knobs of K2, and keeps their promises
 * @knob_count: of @knobs
 * @knobs: its knobs
 * @create: for a device, which outlives it; NULL without memory
 * @destroy: returns false if it still held a request
 * @configure: sets knobs[knob] to a value within its range; a refusal returns a negative error and changes nothing
 * @found: what a knob that is found automatically has been found to be, so far; NULL: it says nothing about this
 * @insert: takes a request; @at_head before all others
 * @dispatch: the next request for the drive, or NULL
 * @has_work: whether a run of the queue is worth while
 * @complete: a request came back from the drive (the kernel's completed_request); NULL: not wanted
 * @finish: a request is freed (finish_request); NULL: not wanted
 * @limit: scheduler tags of a hardware queue that requests of this operation and task priority may hold at a time, 1 to
 *	@tags; NULL: all. The kernel's limit_depth
 * @piece: most sectors in a request of this operation and priority; what is larger is split first, and pieces are not
 *	merged again. 0: any number. NULL: it never splits
 * @tick: the timer that was armed; NULL: not wanted
 * @try_merge: whether bio [sector, sector + sectors) can join a queued request: if so it grew and is returned; NULL: the
 *	scheduler does not merge
 */
struct sim_scheduler {
	const char *name;
	bool runs_itself;
	bool bounds;
	u32 knob_count;
	const struct knob *knobs;
	void *(*create)(struct sim_device *device);
	bool (*destroy)(void *s);
	int (*configure)(void *s, u32 knob, u64 value);
	u64 (*found)(void *s, u32 knob);
	void (*insert)(void *s, struct sim_request *rq, bool at_head, u64 now_ns);
	struct sim_request *(*dispatch)(void *s, u32 queue, u64 now_ns);
	bool (*has_work)(void *s, u32 queue);
	void (*complete)(void *s, struct sim_request *rq, u64 now_ns);
	void (*finish)(void *s, struct sim_request *rq, u64 now_ns);
	u32 (*limit)(void *s, u8 op, bool sync, u16 ioprio, u32 tags);
	u32 (*piece)(void *s, u8 op, u16 ioprio);
	void (*tick)(void *s, u64 now_ns);
	struct sim_request *(*try_merge)(void *s, u64 sector, u32 sectors, u8 op, u16 ioprio,
					 u32 max_sectors);
};

/* All schedulers but "none", ended by NULL. */
extern const struct sim_scheduler *const sim_schedulers[];

#endif
