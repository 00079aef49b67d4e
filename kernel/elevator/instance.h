/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A scheduler as the block layer's elevator. A module describes its scheduler in the constant this_scheduler and its
 * callbacks in this_type; the scheduler on one disk is an instance. The files of this folder are included by each module,
 * so that the compiler sees a scheduler and its glue at once, and two modules share no symbol.
 *
 * An instance owns all that it needs by hardware queue, and keeps no pointer to a hardware queue: the block layer replaces
 * those (blk_mq_update_nr_hw_queues()) between its calls to us, and a scheduler that is switched on meanwhile would be left
 * with old ones. So init_hctx, exit_hctx and hctx->sched_data are not used. A hardware queue finds what is its own by number
 * (instance_index()).
 */
#ifndef TAILGATE_ELEVATOR_INSTANCE_H
#define TAILGATE_ELEVATOR_INSTANCE_H

#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/percpu-refcount.h>
#include <linux/sched/mm.h>
#include <linux/string.h>

#include "../compat/elevator.h"
#include "../../sched/knobs.h"

struct seq_file;

/**
 * struct instance - the scheduler on one disk; the first member of what the scheduler keeps of a disk
 * @q: of the disk
 * @index_count: hardware queues when the scheduler was switched on
 * @tag_word_bits: see tags.h
 * @values: of the knobs, by number
 * @node: in instances
 * @rcu: to free it once nothing that inserts can see it
 * @disk: name, as in /sys/block
 */
struct instance {
	struct request_queue *q;
	unsigned int index_count;
	unsigned int tag_word_bits;
	const unsigned int *values;
	struct list_head node;
	struct rcu_head rcu;
	char disk[DISK_NAME_LEN];
};

/**
 * struct scheduler - what the shared files need to know of a scheduler
 * @name: as in queue/scheduler
 * @statistics_version: second word of the statistics; grows when a line changes its meaning
 * @is_device_wide: any hardware queue dispatches what was inserted on any other
 * @limits_tags: has a limit_depth, with tags_limit()
 * @splits: uses split.h
 * @knobs: its knobs
 * @knob_count: number of @knobs
 * @create: allocates what the scheduler keeps of a disk, and sets instance->values. The queue is frozen; may sleep, in a
 *	NOIO scope. Returns NULL without memory
 * @destroy: frees what @create allocated. No request exists, and nothing else calls
 * @configure: sets a knob; returns 0, or an error with nothing changed. May sleep
 * @show: prints statistics with statistics_print(). Must neither allocate nor sleep
 */
struct scheduler {
	const char *name;
	unsigned int statistics_version;
	bool is_device_wide;
	bool limits_tags;
	bool splits;
	const struct knob *knobs;
	unsigned int knob_count;
	struct instance *(*create)(struct request_queue *q);
	void (*destroy)(struct instance *instance);
	int (*configure)(struct instance *instance, unsigned int knob, u64 value);
	void (*show)(struct seq_file *m, const struct instance *instance);
};

static const struct scheduler this_scheduler;
static struct elevator_type this_type;

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

/*
 * Number of a hardware queue, below index_count: hardware queues that came after the scheduler was switched on share what
 * belongs to the first.
 */
static inline unsigned int instance_index(const struct instance *instance,
					  const struct blk_mq_hw_ctx *hctx)
{
	return likely(hctx->queue_num < instance->index_count) ? hctx->queue_num : 0;
}

/* The block layer waits until no request is left, to change the queue or the disk. Any context. */
static inline bool instance_is_draining(const struct instance *instance)
{
	return percpu_ref_is_dying(&instance->q->q_usage_counter);
}

static int instance_set_up(struct request_queue *q, struct elevator_queue *eq)
{
	unsigned int noio = memalloc_noio_save();
	struct instance *instance = this_scheduler.create(q);

	memalloc_noio_restore(noio);
	if (!instance)
		return -ENOMEM;
	instance->q = q;
	instance->index_count = q->nr_hw_queues;
	strscpy(instance->disk, q->disk ? q->disk->disk_name : "-", sizeof(instance->disk));
	strreplace(instance->disk, '/', '!');
	eq->elevator_data = instance;
	if (this_scheduler.is_device_wide) /* "run all queues" may run one */
		blk_queue_flag_set(QUEUE_FLAG_SQ_SCHED, q);
	else
		blk_queue_flag_clear(QUEUE_FLAG_SQ_SCHED, q);
	q->elevator = eq;
	mutex_lock(&instances_lock);
	list_add_tail(&instance->node, &instances);
	mutex_unlock(&instances_lock);
	return 0;
}

/* init_sched, in this kernel's form. */
#if KAPI_INIT_SCHED_TAKES_EQ
static int instance_init_sched(struct request_queue *q, struct elevator_queue *eq)
{
	return eq->type == &this_type ? instance_set_up(q, eq) : -EINVAL;
}
#else
static int instance_init_sched(struct request_queue *q, struct elevator_type *type)
{
	struct elevator_queue *eq;
	int err;

	if (type != &this_type)
		return -EINVAL;
	eq = elevator_alloc(q, type);
	if (!eq)
		return -ENOMEM;
	err = instance_set_up(q, eq);
	if (err)
		kobject_put(&eq->kobj);
	return err;
}
#endif

/* exit_sched */
static void instance_exit_sched(struct elevator_queue *eq)
{
	struct instance *instance = eq->elevator_data;

	mutex_lock(&instances_lock);
	list_del(&instance->node);
	mutex_unlock(&instances_lock);
	this_scheduler.destroy(instance);
}

#endif
