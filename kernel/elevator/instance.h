/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A scheduler as the block layer's elevator. Each module includes the files of this folder, so that the compiler sees a
 * scheduler and this code at once, and two modules share no symbol. Before that, the module names its algorithm's struct for a
 * drive (in sched/). The member knobs of that struct is an array of the knobs' values:
 *
 *	typedef struct fifo algorithm_t;
 *
 * The module describes the scheduler in the constant this_scheduler; the compiler makes calls through it direct calls. The
 * scheduler on one disk is an instance.
 *
 * An instance owns its state of each hardware queue, and keeps no pointer to a hardware queue. The reason is that the block layer
 * replaces hardware queues (blk_mq_update_nr_hw_queues()) between its calls to us: a scheduler that is switched on meanwhile
 * would keep pointers to old ones. So init_hctx, exit_hctx and hctx->sched_data are not used. instance_queue() finds the state of
 * a hardware queue by the queue's number.
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
 * @q: request queue of the disk
 * @queues: the scheduler's state of each hardware queue, by the queue's number: see instance_queue()
 * @queue_count: number of hardware queues when the scheduler was switched on
 * @memory: further memory of the scheduler: memory_size() bytes, zeroed, aligned to a cache line
 * @memory_count: how many parts @memory has room for, as memory_size() counted them
 * @tag_word_bits: see tags.h
 * @split: see split.h; NULL if the scheduler never splits
 * @discard_split: the same for discards; separate, because its worker waits for tags while discards are held
 * @timer: see timer.h
 * @node: in instances
 * @rcu: frees the instance when no requests_insert() uses it any more
 * @disk: name, as in /sys/block
 * @ends: ends of requests that a bio may join: see merge.h; unused by a scheduler that has its own bio_merge
 * @algorithm: the algorithm's struct
 */
struct instance {
	struct request_queue *q;
	void **queues;
	unsigned int queue_count;
	void *memory;
	unsigned int memory_count;
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
 * struct scheduler - description of a scheduler; an operation that is NULL is not called
 * @name: as in queue/scheduler
 * @statistics_version: second word of the statistics; grows when a line changes its meaning
 * @is_device_wide: a dispatch for any hardware queue may return a request of any other
 * @knobs: its knobs
 * @knob_count: number of @knobs
 * @attributes: files of the knobs, see sysfs.h
 *
 * @queue_size: bytes of the scheduler's state of a hardware queue
 * @memory_size: bytes of further memory that the scheduler needs, with this number of hardware queues. Adds to @count, which is 0, how
 *	many parts the memory has room for: instance.memory_count. @init must keep to that number, and not count the CPUs of the
 *	hardware queues again: they may be others by then. NULL: none
 * @init: switches the scheduler on; its memory is zeroed. The queue is frozen; may sleep
 * @deinit: switches the scheduler off. No request exists, and no other operation runs. Returns false if it still holds a request
 * @configure: sets a knob to a value that knob_check() accepts; returns 0, or an error with nothing changed. May sleep. NULL: only
 *	the knob's value is changed
 * @show: prints statistics with statistics_print(). Must neither allocate nor sleep
 * @due: called when the timer expires, see timer.h. Returns true if the hardware queues should be run
 *
 * @insert: takes all of @requests, one or more. A scheduler that merges calls request_is_queued() for each. @queue is the
 *	scheduler's state of the hardware queue
 * @has_work: returns true if @dispatch may return a request. Any context
 * @dispatch: returns the next request for the drive, or NULL
 * @ended: called when a request is freed, or, with @comes_back, when the driver returned it and it will be inserted again. Also
 *	called for requests that were never inserted. Any context. Returns true if a hardware queue should be run
 *
 * @cpu_changes: called before a CPU goes offline, and when it is back online. If it is the last CPU of a hardware queue, it goes
 *	offline only when that has no requests left. Process context. NULL: the scheduler gives each request back in time by itself
 *
 * @limit_depth: as limit_depth of the block layer; uses tags_limit()
 *
 * @merge: calls merge_offer() for each queued request that a bio of this I/O priority may join and that was not offered before,
 *	then merge_join(). No request may be dispatched meanwhile. Does nothing if no request is queued, or if it would have to
 *	wait. Returns true if the hardware queues should be run. NULL: the scheduler never merges
 * @merge_remove: called during merge_join() when a queued request was merged into another one
 * @bio_merge: as bio_merge of the block layer, instead of @merge, never for a polled bio; for a scheduler whose queues have a lock
 *	each, see merge.h
 * @allow_merge: as allow_merge of the block layer, during blk_bio_list_merge() in @bio_merge
 *
 * @splits: returns true if @piece may return other than 0 now. NULL: the scheduler never splits, and @piece and @is_new are unused
 * @piece: returns the most sectors of a request of this I/O priority, for discards or for other requests; 0: no limit
 * @is_new: returns true if this request was never dispatched
 */
struct scheduler {
	const char *name;
	unsigned int statistics_version;
	bool is_device_wide;
	const struct knob *knobs;
	unsigned int knob_count;
	elv_attribute_t *attributes;

	size_t queue_size;
	size_t (*memory_size)(struct request_queue *q, unsigned int hctxs, unsigned int *count);
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
 * All instances of this module. The mutex is taken while queues are frozen. So its holder must not wait for I/O, neither by
 * allocating memory nor by accessing user memory.
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
 * The scheduler's state of a hardware queue, queue_size bytes, by the queue's number. Hardware queues that were added after the
 * scheduler was switched on share the state of the first one.
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

/* Is the queue being frozen, so that the block layer waits until no request is left? Any context. */
static inline bool instance_is_draining(const struct instance *instance)
{
	return percpu_ref_is_dying(&instance->q->q_usage_counter);
}

/* Device number of the disk; 0: the disk was not added yet, or was removed. */
static inline dev_t instance_dev(const struct instance *instance)
{
	struct gendisk *disk = READ_ONCE(instance->q->disk);

	return disk ? disk_devt(disk) : 0;
}

#endif
