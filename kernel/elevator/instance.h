/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A scheduler as the block layer's elevator. The files of this folder are included by each module, so that the compiler sees a
 * scheduler and its glue at once, and two modules share no symbol. Before it includes them the module names the struct that its
 * algorithm in sched/ keeps of a drive, whose member knobs is an array of their values:
 *
 *	typedef struct fifo algorithm_t;
 *
 * It describes the scheduler in the constant this_scheduler: a call through that is a direct one. The scheduler on one disk is an
 * instance.
 *
 * An instance owns all that it needs by hardware queue, and keeps no pointer to a hardware queue: the block layer replaces
 * those (blk_mq_update_nr_hw_queues()) between its calls to us, and a scheduler that is switched on meanwhile would be left
 * with old ones. So init_hctx, exit_hctx and hctx->sched_data are not used. A hardware queue finds what is its own by number
 * (instance_queue()).
 */
#ifndef TAILGATE_ELEVATOR_INSTANCE_H
#define TAILGATE_ELEVATOR_INSTANCE_H

#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/hrtimer.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/percpu-refcount.h>

#include "../compat/elevator.h"
#include "../../sched/ends.h"
#include "../../sched/knobs.h"

struct merge;
struct seq_file;
struct split;

/**
 * struct instance - the scheduler on one disk
 * @q: of the disk
 * @queues: what the scheduler keeps of each hardware queue, by the queue's number: instance_queue()
 * @queue_count: hardware queues when the scheduler was switched on
 * @memory: what the scheduler has beside that, zeroed: memory_size() bytes from a cache line on
 * @tag_word_bits: see tags.h
 * @split: see split.h; NULL if the scheduler never splits
 * @discard_split: apart: its worker waits for tags while discards are held
 * @timer: see timer.h
 * @node: in instances
 * @rcu: to free it once nothing that inserts can see it
 * @disk: name, as in /sys/block
 * @ends: of requests that a bio may join: see merge.h; unused by a scheduler that has its own @bio_merge
 * @algorithm: what the scheduler keeps
 */
struct instance {
	struct request_queue *q;
	void **queues;
	unsigned int queue_count;
	void *memory;
	unsigned int tag_word_bits;
	struct split *split;
	struct split *discard_split;
	struct hrtimer timer;
	struct list_head node;
	struct rcu_head rcu;
	char disk[DISK_NAME_LEN];
	struct recent_ends ends;
	algorithm_t algorithm;
};

/**
 * struct scheduler - what a scheduler is; what may be NULL is not called then
 * @name: as in queue/scheduler
 * @statistics_version: second word of the statistics; grows when a line changes its meaning
 * @is_device_wide: any hardware queue dispatches what was inserted on any other
 * @knobs: its knobs
 * @knob_count: number of @knobs
 * @attributes: files of the knobs, see sysfs.h
 *
 * @queue_size: bytes that it keeps of a hardware queue
 * @memory_size: bytes that it needs beside that; NULL: none
 * @init: the scheduler is switched on: all that it keeps is zeroed. The queue is frozen; may sleep
 * @deinit: it is switched off. No request exists, and nothing else calls. Returns false if it holds one all the same
 * @configure: sets a knob to a value that knob_check() takes; returns 0, or an error with nothing changed. May sleep. NULL: the value
 *	alone changes
 * @show: prints statistics with statistics_print(). Must neither allocate nor sleep
 * @due: the timer is due, see timer.h; true if the hardware queues should be run. May be NULL
 *
 * @insert: takes all of @requests, one or more; if it merges it tells request_is_queued() of each. @queue is what it keeps of the
 *	hardware queue
 * @has_work: is it worth while to call @dispatch? Any context
 * @dispatch: the next request for the drive, or NULL
 * @ended: a request is freed, or with @comes_back the driver returned it, and it will be inserted once more; also one that was
 *	never inserted. Any context. True if a hardware queue should be run
 *
 * @cpu_changes: a CPU goes offline, or comes back; it goes when nothing is left on the hardware queues of which it is the last. Process
 *	context. NULL: nothing is held for long
 *
 * @limit_depth: the block layer's, with tags_limit(); may be NULL
 *
 * @merge: shows merge_offer() what is queued and was not shown before, and may be joined by a bio of this I/O priority, then calls
 *	merge_join(); meanwhile it keeps all that queued. Does nothing if nothing is queued, or it would have to wait. True if the
 *	hardware queues should be run. NULL: the scheduler never merges
 * @merge_remove: during merge_join(): a queued request became part of another
 * @bio_merge: the block layer's, instead of @merge: for a scheduler whose queues have a lock each, see merge.h
 * @allow_merge: the block layer's, during blk_bio_list_merge() in @bio_merge
 *
 * @splits: may @piece be other than 0 now? NULL: it never splits, and the following are not needed
 * @piece: most sectors in a request of this I/O priority, for discards or for all else; 0: any number
 * @is_new: was this request never dispatched?
 */
struct scheduler {
	const char *name;
	unsigned int statistics_version;
	bool is_device_wide;
	const struct knob *knobs;
	unsigned int knob_count;
	elv_attribute_t *attributes;

	size_t queue_size;
	size_t (*memory_size)(struct request_queue *q);
	void (*init)(struct instance *instance);
	bool (*deinit)(algorithm_t *a);
	int (*configure)(struct instance *instance, unsigned int knob, u64 value);
	void (*show)(struct seq_file *m, const struct instance *instance);
	bool (*due)(algorithm_t *a);

	void (*insert)(struct instance *instance, void *queue, struct list_head *requests,
		       bool at_head);
	bool (*has_work)(const algorithm_t *a, void *queue);
	struct request *(*dispatch)(algorithm_t *a, void *queue);
	bool (*ended)(algorithm_t *a, struct request *rq, bool comes_back);

	void (*cpu_changes)(struct instance *instance, unsigned int cpu, bool goes);

	void (*limit_depth)(blk_opf_t opf, struct blk_mq_alloc_data *data);

	bool (*merge)(algorithm_t *a, unsigned int ioprio, struct merge *merge);
	void (*merge_remove)(algorithm_t *a, struct request *rq);
	bool (*bio_merge)(struct request_queue *q, struct bio *bio, unsigned int nr_segs);
	bool (*allow_merge)(struct request_queue *q, struct request *rq, struct bio *bio);

	bool (*splits)(const algorithm_t *a);
	unsigned int (*piece)(const algorithm_t *a, unsigned int ioprio, bool discards);
	bool (*is_new)(struct request *rq);
};

static const struct scheduler this_scheduler;

/*
 * All instances of this module. The mutex is taken with queues frozen: under it nothing may wait for I/O, neither by
 * allocating memory nor by touching that of a process.
 */
static LIST_HEAD(instances);
static DEFINE_MUTEX(instances_lock);

static inline struct instance *instance_of(struct request_queue *q)
{
	return q->elevator->elevator_data;
}

static inline struct instance *instance_with(const algorithm_t *a)
{
	return container_of((void *)a, struct instance, algorithm);
}

/*
 * What the scheduler keeps of a hardware queue, by the queue's number: queue_size bytes. Hardware queues that came after the
 * scheduler was switched on share what belongs to the first.
 */
static inline void *instance_queue_at(const struct instance *instance, unsigned int number)
{
	return instance->queues[likely(number < instance->queue_count) ? number : 0];
}

static inline void *instance_queue(const struct instance *instance,
				   const struct blk_mq_hw_ctx *hctx)
{
	return instance_queue_at(instance, hctx->queue_num);
}

/* The block layer waits until no request is left, to change the queue or the disk. Any context. */
static inline bool instance_is_draining(const struct instance *instance)
{
	return percpu_ref_is_dying(&instance->q->q_usage_counter);
}

/* Number of the disk's device; 0: it has none yet, or none any more. */
static inline dev_t instance_dev(const struct instance *instance)
{
	struct gendisk *disk = READ_ONCE(instance->q->disk);

	return disk ? disk_devt(disk) : 0;
}

#endif
