/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Scheduler tags. A task waits for a tag before its request exists, and no scheduler orders the waiting tasks. So urgent requests
 * need tags that other requests may not take. limit_depth sets data->shallow_depth, the number of a hardware queue's tags that
 * requests of the same kind may hold together.
 *
 * In older kernels shallow_depth limits the tags taken from each word of the bitmap of tags, in newer ones the tags taken from
 * the whole bitmap. Stable kernels changed that without changing a type, so tags_module_init() finds it out by a test.
 */
#ifndef TAILGATE_ELEVATOR_TAGS_H
#define TAILGATE_ELEVATOR_TAGS_H

#include <linux/sbitmap.h>

#include "instance.h"

static bool tags_depth_is_per_word;

/*
 * Announces the least depth that limit_depth may set; without this, tasks that wait for a tag may not be woken. A hardware queue
 * that was added after the scheduler was switched on may have no tags.
 */
static inline void tags_announce_of(struct instance *instance, struct blk_mq_hw_ctx *hctx)
{
	if (!hctx->sched_tags)
		return;
	WRITE_ONCE(instance->tag_word_bits, 1U << hctx->sched_tags->bitmap_tags.sb.shift);
	sbitmap_queue_min_shallow_depth(&hctx->sched_tags->bitmap_tags, 1);
}

/* Called when a scheduler with limit_depth is switched on. */
static inline void tags_announce(struct instance *instance)
{
	struct blk_mq_hw_ctx *hctx;
	unsigned long i;

	queue_for_each_hw_ctx(instance->q, hctx, i)
		tags_announce_of(instance, hctx);
}

/* depth_updated, in this kernel's form. */
#if KAPI_DEPTH_UPDATED_TAKES_Q
static inline void tags_depth_updated(struct request_queue *q)
{
	tags_announce(instance_of(q));
}
#else
static inline void tags_depth_updated(struct blk_mq_hw_ctx *hctx)
{
	tags_announce_of(instance_of(hctx->queue), hctx);
}
#endif

/**
 * tags_limit() - limit the tags that requests of the same kind hold together; for use in limit_depth
 * @instance: the disk's instance
 * @data: as given to limit_depth
 * @limit: number of tags of a hardware queue, 1 to q->nr_requests
 */
static inline void tags_limit(const struct instance *instance, struct blk_mq_alloc_data *data,
			      unsigned int limit)
{
	unsigned int tags = data->q->nr_requests;

	if (limit >= tags)
		return;
	/* a word may have more bits than the map has tags */
	if (tags_depth_is_per_word)
		limit = max(limit * min(READ_ONCE(instance->tag_word_bits), tags) / tags, 1U);
	data->shallow_depth = limit;
}

/* Tests how shallow depths work: with depth 1, sbitmap_queue_get_shallow() finds one bit in a map of two words, or one in each word. */
static inline int tags_module_init(void)
{
	struct sbitmap_queue probe;
	int err;

	err = sbitmap_queue_init_node(&probe, 128, 6, false, GFP_KERNEL, NUMA_NO_NODE);
	if (err)
		return err;
	sbitmap_queue_min_shallow_depth(&probe, 1);
	tags_depth_is_per_word = sbitmap_queue_get_shallow(&probe, 1) >= 0 &&
				 sbitmap_queue_get_shallow(&probe, 1) >= 0;
	sbitmap_queue_free(&probe);
	return 0;
}

#endif
