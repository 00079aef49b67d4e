/* SPDX-License-Identifier: GPL-2.0-only */
/* Switches a scheduler on and off for a disk: init_sched and exit_sched. */
#ifndef TAILGATE_ELEVATOR_SETUP_H
#define TAILGATE_ELEVATOR_SETUP_H

#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "instance.h"
#include "split.h"
#include "tags.h"
#include "timer.h"

static struct elevator_type this_type;

/* Allocates an instance, its array of pointers, the state of each hardware queue and the further memory, zeroed, in one block. */
static struct instance *setup_alloc(struct request_queue *q)
{
	unsigned int count = q->nr_hw_queues, memory_count = 0, i;
	size_t queue_size = ALIGN(this_scheduler.queue_size, SMP_CACHE_BYTES);
	struct instance *instance;
	size_t queues_at, memory_at, memory_size = 0;

	if (this_scheduler.memory_size)
		memory_size = this_scheduler.memory_size(q, count, &memory_count);
	queues_at = ALIGN(sizeof(*instance) + count * sizeof(*instance->queues), SMP_CACHE_BYTES);
	memory_at = queues_at + count * queue_size;
	instance = kvzalloc_node(memory_at + memory_size, GFP_KERNEL, q->node);
	if (!instance)
		return NULL;
	instance->memory = (void *)instance + memory_at;
	instance->memory_count = memory_count;
	instance->queues = (void **)(instance + 1);
	for (i = 0; i < count; i++)
		instance->queues[i] = (void *)instance + queues_at + i * queue_size;
	instance->queue_count = count;
	instance->q = q;
	strscpy(instance->disk, q->disk ? q->disk->disk_name : "-", sizeof(instance->disk));
	strreplace(instance->disk, '/', '!');
	return instance;
}

static void setup_free(struct instance *instance)
{
	if (instance->split)
		split_put(instance->split);
	if (instance->discard_split)
		split_put(instance->discard_split);
	kvfree_rcu(instance, rcu); /* a requests_insert() may still be running */
}

static int setup_begin(struct instance *instance)
{
	if (this_scheduler.splits) {
		instance->split = split_new(instance->q);
		instance->discard_split = split_new(instance->q);
		if (!instance->split || !instance->discard_split)
			return -ENOMEM;
	}
	if (this_scheduler.due)
		timer_init(instance);
	if (this_scheduler.limit_depth)
		tags_announce(instance);
	this_scheduler.init(instance);
	return 0;
}

static int setup_queue(struct request_queue *q, struct elevator_queue *eq)
{
	unsigned int noio = memalloc_noio_save();
	struct instance *instance = setup_alloc(q);
	int err = instance ? setup_begin(instance) : -ENOMEM;

	memalloc_noio_restore(noio);
	if (err) {
		if (instance)
			setup_free(instance);
		return err;
	}
	eq->elevator_data = instance;
	if (this_scheduler.is_device_wide) /* blk_mq_run_hw_queues() need run only one */
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
static int setup_init_sched(struct request_queue *q, struct elevator_queue *eq)
{
	return eq->type == &this_type ? setup_queue(q, eq) : -EINVAL;
}
#else
static int setup_init_sched(struct request_queue *q, struct elevator_type *type)
{
	struct elevator_queue *eq;
	unsigned int noio;
	int err;

	if (type != &this_type)
		return -EINVAL;
	noio = memalloc_noio_save();
	eq = elevator_alloc(q, type);
	memalloc_noio_restore(noio);
	if (!eq)
		return -ENOMEM;
	err = setup_queue(q, eq);
	if (err)
		kobject_put(&eq->kobj);
	return err;
}
#endif

/* exit_sched */
static void setup_exit_sched(struct elevator_queue *eq)
{
	struct instance *instance = eq->elevator_data;

	mutex_lock(&instances_lock);
	list_del(&instance->node);
	mutex_unlock(&instances_lock);
	if (this_scheduler.due)
		timer_cancel(instance);
	WARN_ON_ONCE(!this_scheduler.deinit(&instance->algorithm));
	setup_free(instance);
}

#endif
