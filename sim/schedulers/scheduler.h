/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The interface between the simulator's block layer and its schedulers: the operations of a kernel elevator, with the
 * simulator's requests. Each scheduler is C code from sched/ behind a table of these functions. To add a scheduler, add a
 * file to this folder and a line to registry.c.
 *
 * All calls are made by one thread; the time is an argument.
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
 * @parent: parent cgroup; NULL for the root
 * @number: number of this cgroup; the root has 0
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
 * @sector: first sector, of 512 bytes
 * @start_ns: when the request was created
 * @issue_ns: when it was issued to the drive
 * @sectors: number of sectors
 * @queue: hardware queue it was submitted to
 * @ioprio: see SIM_IOPRIO_CLASS()
 * @process: number of the process that submitted it
 * @cgroup: cgroup of that process
 * @op: enum sim_op
 * @sync: synchronous: a read or a direct write
 * @through: a write through the drive's cache (FUA)
 * @elv: the scheduler's private data, 8-byte aligned, zeroed when the request is created
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
	bool through;
	u64 elv[6];
};

/**
 * struct sim_bio - a bio that has no request yet; its members are those of the request that would be made for it
 */
struct sim_bio {
	u64 sector;
	u32 sectors;
	u16 queue;
	u16 ioprio;
	u32 process;
	const struct sim_cgroup *cgroup;
	u8 op;
	bool sync;
	bool through;
};

/**
 * struct sim_device - the drive as a scheduler sees it
 * @queues: number of hardware queues
 * @cpus: number of processors
 * @tags: scheduler tags of each hardware queue (nr_requests)
 * @max_sectors: most sectors in a request
 * @draining: the queue is being frozen: all queued requests must be dispatched
 * @now_ns: the clock
 * @run: asks for an asynchronous run of a hardware queue
 * @arm: sets the timer: ->tick() is called at this time, in ns; a later call replaces an earlier one
 * @split: takes back a request that the scheduler had queued; its pieces are inserted later
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
 * struct sim_promises - what a scheduler with K2's levels promises of each dispatch, with the present values of its knobs
 * @inflight_max: most requests in the drive; 0: no bound
 * @inflight_kib_max: most KiB in the drive when a background request is dispatched, unless it is alone; 0: no bound
 * @grace_ns: the two bounds are in force while a real-time request is queued or in the drive, and this long after the latest
 *	dispatch of one; 0: always
 * @floor_ns: least time between two background requests that are dispatched in spite of a waiting real-time request or of
 *	inflight_kib_max; 0: none is
 */
struct sim_promises {
	u64 inflight_max;
	u64 inflight_kib_max;
	u64 grace_ns;
	u64 floor_ns;
};

/**
 * struct sim_scheduler - a scheduler; the argument s of the functions is the return value of @create
 * @name: name in /sys/block/.../queue/scheduler
 * @runs_itself: it runs the queue after an insertion, even on kernels that leave this to a worker
 * @device_wide: its requests are those of all hardware queues (QUEUE_FLAG_SQ_SCHED)
 * @knob_count: number of @knobs
 * @knobs: its knobs
 * @create: creates a scheduler for a device, which outlives it; returns NULL without memory
 * @destroy: returns false if the scheduler still held a request
 * @configure: sets knobs[knob] to a value within its range; returns a negative error if it refuses the value, which
 *	changes nothing
 * @found: the present value of a knob that is set to "auto"; NULL: not supported
 * @state_names: names of the numbers that @state returns, ended by NULL; NULL: none
 * @state: a number that tells its present state, such as what it has adjusted
 * @insert: inserts a request; at_head: before all others
 * @dispatch: returns the next request for the drive, or NULL
 * @has_work: whether @dispatch may return a request
 * @complete: a request has completed (the kernel's completed_request); NULL: not needed
 * @finish: a request is freed (finish_request); NULL: not needed
 * @limit: scheduler tags of a hardware queue, 1 to tags, that may be in use when a request is made for this bio
 *	(limit_depth); NULL: all
 * @piece: most sectors in a request of this operation and priority; larger requests are split before insertion, and pieces
 *	are not merged again. 0: any number. NULL: it never splits
 * @promises: what is checked of its dispatches; NULL: it has no levels, and nothing is
 * @tick: the timer has expired; NULL: not needed
 * @try_merge: merges a bio into a queued request that then has no more than @max_sectors, and returns the request, or NULL
 *	if there is none; NULL: the scheduler does not merge
 */
struct sim_scheduler {
	const char *name;
	bool runs_itself;
	bool device_wide;
	u32 knob_count;
	const struct knob *knobs;
	void *(*create)(struct sim_device *device);
	bool (*destroy)(void *s);
	int (*configure)(void *s, u32 knob, u64 value);
	u64 (*found)(void *s, u32 knob);
	const char *const *state_names;
	u64 (*state)(void *s, u32 i);
	void (*insert)(void *s, struct sim_request *rq, bool at_head, u64 now_ns);
	struct sim_request *(*dispatch)(void *s, u32 queue, u64 now_ns);
	bool (*has_work)(void *s, u32 queue);
	void (*complete)(void *s, struct sim_request *rq, u64 now_ns);
	void (*finish)(void *s, struct sim_request *rq, u64 now_ns);
	u32 (*limit)(void *s, const struct sim_bio *bio, u32 tags);
	u32 (*piece)(void *s, u8 op, u16 ioprio);
	void (*promises)(void *s, struct sim_promises *promises);
	void (*tick)(void *s, u64 now_ns);
	struct sim_request *(*try_merge)(void *s, const struct sim_bio *bio, u32 max_sectors);
};

/* All schedulers but "none", ended by NULL. */
extern const struct sim_scheduler *const sim_schedulers[];

#endif
