// SPDX-License-Identifier: GPL-2.0-only
/*
 * The I/O scheduler "k2": strict I/O priorities and a bound on the requests in flight. This file binds sched/k2.c to
 * the block layer: which of its calls means what, where a request's level comes from, and what is split. What any
 * scheduler needs is in elevator/.
 *
 * What counts as in flight is exact: +1 in dispatch_request, -1 in finish_request or in requeue_request of a request
 * that will be inserted again. Neither prepare_request without insertion (plug merges, unused cached requests) nor a
 * driver that is busy and makes the block layer hold a request back changes it. FUA and flush requests on kernels that
 * keep them from schedulers, and passthrough commands everywhere, are not in the bound.
 */
#include <linux/blk-cgroup.h>
#include <linux/cgroup.h>
#include <linux/ioprio.h>
#include <linux/slab.h>
#include <trace/events/block.h>

#include "elevator/instance.h"
#include "elevator/merge.h"
#include "elevator/module.h"
#include "elevator/observe.h"
#include "elevator/run.h"
#include "elevator/split.h"
#include "elevator/statistics.h"
#include "elevator/sysfs.h"
#include "elevator/tags.h"
#include "elevator/timer.h"
#define K2_OBSERVED
#include "../sched/binding.h"
#include "../sched/k2.h"

#define CREATE_TRACE_POINTS
#include "k2_trace.h"

/* An entry is a request: its list node is queuelist, the rest lies in the two words that are the elevator's. */
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

	return req_op(rq) == REQ_OP_READ || req_op(rq) == REQ_OP_WRITE ? blk_rq_sectors(rq) : 0;
}

static inline bool k2_writes(struct k2_entry *e)
{
	return op_is_write(req_op(k2_request(e)));
}

/* The cgroup's number: it is never used again for another. */
static inline u64 k2_key(struct k2_entry *e)
{
	struct bio *bio = k2_request(e)->bio;
	struct cgroup_subsys_state *css = bio ? bio_blkcg_css(bio) : NULL;

	return css ? cgroup_id(css->cgroup) : 0;
}

static bool k2_may_split_request(struct request *rq);

static inline bool k2_may_split(struct k2_entry *e)
{
	return k2_may_split_request(k2_request(e));
}

static bool k2_draining(const struct k2 *k2);

static inline u64 k2_now(const struct k2 *k2)
{
	return ktime_get_ns();
}

static inline unsigned int k2_observer(void)
{
	return observe_now();
}

static void k2_observe_hold(const struct k2 *k2, const struct k2_refusal *refusal);
static void k2_observe_release(const struct k2 *k2, enum k2_release why, u64 held_ns);
static void k2_observe_arrival(const struct k2 *k2, unsigned int flow, u64 arrived_ns, s64 error_ns,
			       bool in_time);
static void k2_observe_rt_end(const struct k2 *k2, struct k2_entry *e, const struct k2_note *note,
			      u64 now_ns);

#include "../sched/k2.c"

/* a drive */
struct k2_queue_data {
	struct instance instance;
	struct ends ends;
	struct split *split;
	struct split *discard_split; /* apart: its worker waits for tags while discards are held */
	struct run_timer timer;
	struct k2_ctx *ctxs; /* by number of the hardware queue */
	struct k2 k2;
};

static inline struct k2_queue_data *k2_of(const struct instance *instance)
{
	return container_of(instance, struct k2_queue_data, instance);
}

static inline struct k2_queue_data *k2_data(struct request_queue *q)
{
	return k2_of(instance_of(q));
}

#include "k2_observe.h"
#include "k2_statistics.h"

static bool k2_may_split_request(struct request *rq)
{
	return split_may_take(k2_data(rq->q)->split, rq, 0);
}

static bool k2_draining(const struct k2 *k2)
{
	const struct k2_queue_data *d = k2->argument;

	return instance_is_draining(&d->instance);
}

static inline void k2_run(struct request *rq, bool run)
{
	if (run)
		blk_mq_run_hw_queue(rq->mq_hctx, true);
}

static void k2_arm(void *argument, u64 at_ns)
{
	struct k2_queue_data *d = argument;

	run_timer_arm(&d->timer, at_ns);
}

static bool k2_due(struct instance *instance)
{
	return k2_tick(&k2_of(instance)->k2);
}

/* Elsewhere the state is as zeroed memory and k2_finish() leave it. */
static void k2_prepare_request(struct request *rq)
{
	k2_entry(rq)->state = K2_NEW;
}

/* Takes from @list what has to be split: discards, or all else. */
static void k2_split_those(struct list_head *list, bool discards, unsigned int piece,
			   struct split *split)
{
	struct request *rq, *next;
	LIST_HEAD(large);

	list_for_each_entry_safe(rq, next, list, queuelist)
		if (discards == (req_op(rq) == REQ_OP_DISCARD) && blk_rq_sectors(rq) > piece &&
		    !k2_is_rt(req_get_ioprio(rq)) && k2_entry(rq)->state == K2_NEW &&
		    split_may_take(split, rq, piece))
			list_move_tail(&rq->queuelist, &large);
	if (!list_empty(&large))
		split_take(split, &large, piece);
}

static noinline void k2_split_new(struct k2_queue_data *d, struct list_head *list)
{
	unsigned int piece = k2_piece(&d->k2, K2_BACKGROUND, false);
	unsigned int discard = k2_piece(&d->k2, K2_BACKGROUND, true);

	if (piece)
		k2_split_those(list, false, piece, d->split);
	if (discard)
		k2_split_those(list, true, discard, d->discard_split);
}

/* May be called from schedule(): must not sleep. */
static void k2_insert_requests(struct blk_mq_hw_ctx *hctx, struct list_head *list,
			       elv_insert_t flags)
{
	struct request_queue *q = hctx->queue;
	struct k2_queue_data *d = k2_data(q);
	struct k2_ctx *ctx = &d->ctxs[instance_index(&d->instance, hctx)];
	bool at_head = elv_insert_at_head(flags);
	bool splits = unlikely(READ_ONCE(d->k2.uses) & K2_USES_PIECES) && !at_head;
	struct request *rq;

	/*
	 * Once they are visible the requests may complete, and with the last of them the scheduler could go. It is freed by
	 * RCU, which waits for a section without preemption, as under a spinlock; under PREEMPT_RT that is none.
	 */
	if (IS_ENABLED(CONFIG_PREEMPT_RT))
		rcu_read_lock();
	if (splits) {
		percpu_ref_get(&q->q_usage_counter);
		k2_split_new(d, list);
	}
	list_for_each_entry(rq, list, queuelist) {
		struct k2_entry *e = k2_entry(rq);

		trace_block_rq_insert(rq);
		ends_note(&d->ends, rq);
		/* a request that the driver returned waits from now on, not from its start */
		k2_prepare(&d->k2, e, k2_level(req_get_ioprio(rq)), at_head,
			   req_op(rq) == REQ_OP_DISCARD,
			   e->state == K2_RETURNED ? ktime_get_ns() : rq->start_time_ns);
	}
	k2_insert(&d->k2, ctx, list);
	if (splits)
		percpu_ref_put(&q->q_usage_counter);
	if (IS_ENABLED(CONFIG_PREEMPT_RT))
		rcu_read_unlock();
	run_in_submitter(hctx);
}

static bool k2_has_work_op(struct blk_mq_hw_ctx *hctx)
{
	return k2_has_work(&k2_data(hctx->queue)->k2);
}

static inline void k2_picked(struct k2_entry *e)
{
	merge_unhash(k2_request(e));
}

/* Real-time activity has begun, or pieces became smaller, since these were inserted. */
static noinline void k2_split_staged(struct k2_queue_data *d)
{
	unsigned int piece = k2_piece(&d->k2, K2_BACKGROUND, false);
	LIST_HEAD(large);

	if (!k2_take_large(&d->k2, &large))
		return;
	/* with the last of them the elevator could go */
	percpu_ref_get(&d->instance.q->q_usage_counter);
	split_take(d->split, &large, piece ? piece : UINT_MAX); /* may stay as they are by now */
	percpu_ref_put(&d->instance.q->q_usage_counter);
}

/* We are called for one hardware queue and may return a request for another: the block layer sorts them. */
static struct request *k2_dispatch_request(struct blk_mq_hw_ctx *hctx)
{
	struct k2_queue_data *d = k2_data(hctx->queue);
	struct k2 *k2 = &d->k2;
	struct k2_entry *e = k2_dispatch(k2, ktime_get_ns(), k2_picked);
	struct request *rq;

	if (unlikely(READ_ONCE(k2->has_large)))
		k2_split_staged(d);
	if (!e)
		return NULL;
	rq = k2_request(e);
	/*
	 * Where FUA writes are kept from schedulers, one that the driver returns comes to us nevertheless. Nobody tells
	 * us when it ends, so it leaves the bound here.
	 */
	if (unlikely(!(rq->rq_flags & ELV_RQF_PREPARED)))
		k2_run(rq, k2_finish(k2, e));
	return rq;
}

static void k2_finish_request(struct request *rq)
{
	k2_run(rq, k2_finish(&k2_data(rq->q)->k2, k2_entry(rq)));
}

/* With RQF_DONTPREP a returned request goes back to the driver without us. */
static void k2_requeue_request(struct request *rq)
{
	k2_run(rq, k2_requeue(&k2_data(rq->q)->k2, k2_entry(rq), !(rq->rq_flags & RQF_DONTPREP)));
}

struct k2_merge {
	struct merge merge;
	unsigned int piece;
};

static void k2_offer(struct k2_entry *e, void *argument)
{
	struct k2_merge *m = argument;

	/* whether two requests become too large for a piece, nobody would ask */
	merge_offer(&m->merge, k2_request(e), m->piece);
}

static noinline bool k2_split_bio(struct k2_queue_data *d, struct bio *bio)
{
	bool discards = bio_op(bio) == REQ_OP_DISCARD;
	unsigned int piece = k2_piece(&d->k2, k2_level(bio->bi_ioprio), discards);

	return piece && split_bio(discards ? d->discard_split : d->split, bio, piece);
}

/*
 * Merges stay within a level: the block layer merges only what has the same priority. A contended lock is not worth a
 * merge. Before, what is too large is split.
 */
static bool k2_bio_merge(struct request_queue *q, struct bio *bio, unsigned int nr_segs)
{
	struct k2_queue_data *d = k2_data(q);
	struct k2 *k2 = &d->k2;
	struct k2_merge m;
	bool merged, run;

	if (unlikely(READ_ONCE(k2->uses) & K2_USES_PIECES) && k2_split_bio(d, bio))
		return true;
	if (!levels_any(&k2->levels) || !ends_may_be_at(&d->ends, bio->bi_iter.bi_sector) ||
	    !k2_merge_begin(k2))
		return false;
	merge_begin(&m.merge, q);
	m.piece = k2_piece(k2, k2_level(bio->bi_ioprio), false);
	k2_visit_new(k2, k2_level(bio->bi_ioprio), k2_offer, &m);
	merged = merge_bio(&m.merge, bio, nr_segs);
	run = k2_merge_end(k2);
	merge_end(&m.merge);
	if (run)
		blk_mq_run_hw_queues(q, true);
	return merged;
}

static bool k2_allow_merge(struct request_queue *q, struct request *rq, struct bio *bio)
{
	unsigned int piece = k2_piece(&k2_data(q)->k2, k2_level(req_get_ioprio(rq)), false);

	return !piece || blk_rq_sectors(rq) + bio_sectors(bio) <= piece;
}

/* A bio became part of @rq. */
static void k2_request_merged(struct request_queue *q, struct request *rq, enum elv_merge type)
{
	ends_note(&k2_data(q)->ends, rq);
}

/* @next became part of @rq; both were staged, and the caller is k2_bio_merge(). */
static void k2_requests_merged(struct request_queue *q, struct request *rq, struct request *next)
{
	ends_note(&k2_data(q)->ends, rq);
	merge_unhash(next);
	k2_remove(&k2_data(q)->k2, k2_entry(next));
}

/*
 * While nothing waits in K2, scheduler tags are held by what is in the drive, and by the plugs of tasks that run, with
 * up to BLK_MAX_REQUEST_COUNT requests each: two plugs of background at the same time are allowed for. A limit would do
 * nothing then, but cost a search for a shallow tag and the allocation of tags in batches.
 */
#define K2_TAGS_IN_PLUGS (2 * 32)

/*
 * A task waits for a scheduler tag before its request exists, so the task's own priority decides here, also where the
 * request's will be another (io_uring's and aio's ioprio).
 */
static void k2_limit_depth(blk_opf_t opf, struct blk_mq_alloc_data *data)
{
	struct k2_queue_data *d = k2_data(data->q);
	struct k2 *k2 = &d->k2;
	u64 tags = data->q->nr_requests, needed = READ_ONCE(k2->inflight.requests_max);
	unsigned int kept = READ_ONCE(k2->knobs[K2_KNOB_rt_tags]);
	bool discards = (opf & REQ_OP_MASK) == REQ_OP_DISCARD && READ_ONCE(k2->discard_sectors);

	if (!discards && (!kept || (tags * (100 - kept) >= (needed + K2_TAGS_IN_PLUGS) * 100 &&
				    !levels_any(&k2->levels))))
		return;
	if (!k2_is_rt(get_current_ioprio()))
		tags_limit(&d->instance, data, k2_limit(k2, tags, discards));
}

static void k2_free(struct k2_queue_data *d)
{
	if (d->split)
		split_put(d->split);
	if (d->discard_split)
		split_put(d->discard_split);
	kfree_rcu(d, instance.rcu); /* k2_insert_requests() may not have ended */
}

static struct instance *k2_create(struct request_queue *q)
{
	unsigned int count = q->nr_hw_queues, i;
	size_t pointers_at, ctxs_at;
	struct k2_queue_data *d;
	struct k2_ctx **pointers;

	pointers_at = ALIGN(sizeof(*d), sizeof(*pointers));
	ctxs_at = ALIGN(pointers_at + count * sizeof(*pointers), SMP_CACHE_BYTES);
	d = kzalloc_node(ctxs_at + count * sizeof(*d->ctxs), GFP_KERNEL, q->node);
	if (!d)
		return NULL;
	d->ctxs = (void *)d + ctxs_at;
	pointers = (void *)d + pointers_at;
	d->split = split_new(q);
	d->discard_split = split_new(q);
	if (!d->split || !d->discard_split) {
		k2_free(d);
		return NULL;
	}
	run_timer_init(&d->timer, &d->instance, k2_due);
	for (i = 0; i < count; i++)
		pointers[i] = &d->ctxs[i];
	k2_init(&d->k2, pointers, count, queue_logical_block_size(q) / SECTOR_SIZE, k2_arm, d);
	d->instance.values = d->k2.knobs;
	tags_announce(&d->instance, q);
	return &d->instance;
}

static void k2_destroy(struct instance *instance)
{
	struct k2_queue_data *d = k2_of(instance);

	run_timer_cancel(&d->timer);
	WARN_ON_ONCE(!k2_deinit(&d->k2));
	k2_free(d);
}

static int k2_check_split(struct request_queue *q, u64 kib)
{
	if (kib > queue_max_sectors(q) / 2)
		return -ERANGE;
	return kib << 10 & (queue_logical_block_size(q) - 1) ? -EINVAL : 0;
}

static int k2_configure_knob(struct instance *instance, unsigned int knob, u64 value)
{
	int err = knob == K2_KNOB_split_kib ? k2_check_split(instance->q, value) : 0;

	return err ? err : k2_configure(&k2_of(instance)->k2, knob, value);
}

#define K2_KNOB_CALLBACKS(name, ...) SYSFS_KNOB_CALLBACKS(name, K2_KNOB_##name)
K2_KNOBS(K2_KNOB_CALLBACKS)

static SYSFS_ATTRIBUTES k2_attributes[] = {
	K2_KNOBS(SYSFS_KNOB_ATTRIBUTE) __ATTR_NULL,
};

static const struct scheduler this_scheduler = {
	.name = "k2",
	.statistics_version = 2,
	.is_device_wide = true,
	.limits_tags = true,
	.splits = true,
	.knobs = k2_knob_infos,
	.knob_count = K2_KNOB_COUNT,
	.create = k2_create,
	.destroy = k2_destroy,
	.configure = k2_configure_knob,
	.show = k2_show,
};

static struct elevator_type this_type = {
	.ops = {
		.init_sched = instance_init_sched,
		.exit_sched = instance_exit_sched,
		.depth_updated = tags_depth_updated,
		.limit_depth = k2_limit_depth,
		.allow_merge = k2_allow_merge,
		.bio_merge = k2_bio_merge,
		.request_merged = k2_request_merged,
		.requests_merged = k2_requests_merged,
		.prepare_request = ELV_PRIVATE_IS_SHARED ? k2_prepare_request : NULL,
		.finish_request = k2_finish_request,
		.insert_requests = k2_insert_requests,
		.dispatch_request = k2_dispatch_request,
		.has_work = k2_has_work_op,
		.requeue_request = k2_requeue_request,
	},
	.elevator_attrs = k2_attributes,
	.elevator_name = "k2",
	.elevator_owner = THIS_MODULE,
};

module_init(scheduler_module_init);
module_exit(scheduler_module_exit);
MODULE_DESCRIPTION("K2: strict I/O priorities and a bound on the requests in flight");
MODULE_LICENSE("GPL");
#ifndef K2_EXPERIMENTS
MODULE_ALIAS("k2-iosched");
#endif
