// SPDX-License-Identifier: GPL-2.0-only
/*
 * The I/O scheduler "k2": strict I/O priorities and a bound on the requests in flight. This file binds sched/k2.c to
 * the block layer: it maps K2's entries to requests, and the block layer's calls to K2's functions. Code that every
 * scheduler needs is in elevator/.
 */
#include <linux/blk-cgroup.h>
#include <linux/cgroup.h>

#define K2_OBSERVED
#include "../sched/k2.h"
typedef struct k2 algorithm_t;
#include "elevator/module.h"

/* An entry is part of a request: its list node is queuelist, the rest is in the two words that belong to the elevator. */
static inline struct request *k2_request(struct k2_entry *e)
{
	return container_of((void *)e, struct request, elv.priv);
}

static inline struct list_head *k2_node(struct k2_entry *e)
{
	return &k2_request(e)->queuelist;
}

static inline struct k2_entry *k2_entry(struct request *rq)
{
	BUILD_BUG_ON(sizeof(struct k2_entry) > sizeof(rq->elv.priv));
	return (struct k2_entry *)rq->elv.priv;
}

static inline struct k2_entry *k2_entry_of(struct list_head *node)
{
	return k2_entry(list_entry_rq(node));
}

static inline unsigned int k2_sectors(struct k2_entry *e)
{
	struct request *rq = k2_request(e);

	if (req_op(rq) == REQ_OP_ZONE_APPEND)
		return blk_rq_sectors(rq);
	return req_op(rq) == REQ_OP_READ || req_op(rq) == REQ_OP_WRITE ? blk_rq_sectors(rq) : 0;
}

static inline bool k2_writes(struct k2_entry *e)
{
	return op_is_write(req_op(k2_request(e)));
}

/* The id of the request's cgroup. Ids are never reused. */
static inline u64 k2_key(struct k2_entry *e)
{
	struct bio *bio = k2_request(e)->bio;
	struct cgroup_subsys_state *css = bio ? bio_blkcg_css(bio) : NULL;

	return css ? cgroup_id(css->cgroup) : 0;
}

static inline bool k2_may_split(struct k2_entry *e)
{
	return split_may_take(k2_request(e), 0);
}

static inline void k2_picked(struct k2_entry *e)
{
	merge_unhash(k2_request(e));
}

static inline bool k2_draining(const struct k2 *k2)
{
	return instance_is_draining(instance_with(k2));
}

static inline u64 k2_now(const struct k2 *k2)
{
	return ktime_get_ns();
}

static inline void k2_arm(struct k2 *k2, u64 at_ns)
{
	timer_arm(instance_with(k2), at_ns);
}

#include "k2_observe.h"

#include "../sched/k2.c"

#include "../sched/binding.h"

#define CREATE_TRACE_POINTS
#include "k2_trace.h"

#include "k2_statistics.h"

static void k2_insert_requests(struct instance *instance, void *ctx, struct list_head *requests,
			       bool at_head)
{
	struct k2 *k2 = &instance->algorithm;
	struct request *rq;

	list_for_each_entry(rq, requests, queuelist) {
		request_is_queued(&instance->ends, rq);
		k2_prepare_request(k2, k2_entry(rq), req_get_ioprio(rq), at_head,
				   req_op(rq) == REQ_OP_DISCARD, rq->start_time_ns);
	}
	levels_insert(&k2->levels, ctx, requests);
}

static bool k2_requests_wait(const struct k2 *k2, void *ctx)
{
	return k2_has_work(k2);
}

static struct request *k2_dispatch_request(struct k2 *k2, void *ctx)
{
	LIST_HEAD(large);
	struct k2_entry *e = k2_dispatch(k2, ktime_get_ns(), &large);

	/* waiting background requests became too large: real-time activity began, or pieces became smaller; 0: there is no limit by now */
	if (unlikely(!list_empty(&large)))
		split_take(instance_with(k2)->split, &large,
			   k2_piece(k2, K2_BACKGROUND, false) ?: UINT_MAX);
	return e ? k2_request(e) : NULL;
}

static inline bool k2_ended(struct k2 *k2, struct request *rq, bool comes_back)
{
	return k2_finish(k2, k2_entry(rq), comes_back);
}

static void k2_offer(struct k2_entry *e, void *merge)
{
	merge_offer(merge, k2_request(e));
}

/* Merges stay within a level: the block layer merges only what has the same priority. */
static bool k2_merge(struct k2 *k2, unsigned int ioprio, struct merge *merge)
{
	if (!levels_any(&k2->levels) || !k2_merge_begin(k2))
		return false;
	k2_visit_new(k2, k2_level(ioprio), k2_offer, merge);
	merge_join(merge, instance_with(k2)->q);
	return k2_merge_end(k2);
}

static void k2_merged(struct k2 *k2, struct request *rq)
{
	k2_remove(k2, k2_entry(rq));
}

static inline bool k2_splits(const struct k2 *k2)
{
	return READ_ONCE(k2->piece_sectors) || READ_ONCE(k2->discard_sectors);
}

static bool k2_is_new(struct request *rq)
{
	return k2_entry(rq)->state == K2_NEW;
}

/*
 * A task waits for a scheduler tag before its request exists. So the task's own priority decides here, even if the
 * request will have another one (ioprio of io_uring and aio).
 */
static void k2_limit_depth(blk_opf_t opf, struct blk_mq_alloc_data *data)
{
	struct instance *instance = instance_of(data->q);
	const struct k2 *k2 = &instance->algorithm;
	bool discards = (opf & REQ_OP_MASK) == REQ_OP_DISCARD;
	unsigned int tags = data->q->nr_requests;

	if (k2_limits_tags(k2, discards, tags))
		tags_limit(instance, data, k2_limit_for(k2, get_current_ioprio(), discards, tags));
}

static void k2_begin(struct instance *instance)
{
	k2_init(&instance->algorithm, (struct k2_ctx **)instance->queues, instance->queue_count,
		queue_logical_block_size(instance->q) / SECTOR_SIZE);
}

static int k2_set_knob(struct instance *instance, unsigned int knob, u64 value)
{
	int err = knob == K2_KNOB_split_kib ? split_check_kib(instance, value) : 0;

	return err ? err : k2_configure(&instance->algorithm, knob, value);
}

#define K2_KNOB_CALLBACKS(name, ...) SYSFS_KNOB_CALLBACKS(name, K2_KNOB_##name)
K2_KNOBS(K2_KNOB_CALLBACKS)

static elv_attribute_t k2_attributes[] = { K2_KNOBS(SYSFS_KNOB_ATTRIBUTE) __ATTR_NULL };

static const struct scheduler this_scheduler = {
	.name = "k2",
	.statistics_version = 3,
	.is_device_wide = true,
	.knobs = k2_knob_infos,
	.knob_count = K2_KNOB_COUNT,
	.attributes = k2_attributes,
	.queue_size = sizeof(struct k2_ctx),
	.init = k2_begin,
	.deinit = k2_deinit,
	.configure = k2_set_knob,
	.show = k2_show,
	.due = k2_tick,
	.insert = k2_insert_requests,
	.has_work = k2_requests_wait,
	.dispatch = k2_dispatch_request,
	.ended = k2_ended,
	.limit_depth = k2_limit_depth,
	.merge = k2_merge,
	.merge_remove = k2_merged,
	.splits = k2_splits,
	.piece = k2_piece_for,
	.is_new = k2_is_new,
};

module_init(scheduler_module_init);
module_exit(scheduler_module_exit);
MODULE_DESCRIPTION("K2: strict I/O priorities and a bound on the requests in flight");
MODULE_LICENSE("GPL");
#ifndef K2_EXPERIMENTS
MODULE_ALIAS("k2-iosched");
#endif
