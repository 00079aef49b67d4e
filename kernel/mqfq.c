// SPDX-License-Identifier: GPL-2.0-only
/*
 * The I/O scheduler "mqfq": fair shares of a drive, and real-time levels above them. This file binds sched/mqfq.c to the block layer. Code
 * that every scheduler needs is in elevator/.
 */
#include <linux/blk-cgroup.h>
#include <linux/cgroup.h>
#include <linux/ioprio.h>
#include <linux/sort.h>

#include "../sched/mqfq.h"
typedef struct mqfq algorithm_t;
#include "compat/topology.h"
#include "elevator/module.h"
#include "mqfq_weights.h"

/* An entry is part of a request: its nodes are queuelist and rb_node, the rest is in the two words that belong to the elevator. */
static inline struct request *mqfq_request(struct mqfq_entry *e)
{
	return container_of((void *)e, struct request, elv.priv);
}

static inline struct mqfq_entry *mqfq_entry(struct request *rq)
{
	BUILD_BUG_ON(sizeof(struct mqfq_entry) > sizeof(rq->elv.priv));
	return (struct mqfq_entry *)rq->elv.priv;
}

static inline struct list_head *mqfq_node(struct mqfq_entry *e)
{
	return &mqfq_request(e)->queuelist;
}

static inline struct mqfq_entry *mqfq_entry_of(struct list_head *node)
{
	return mqfq_entry(list_entry_rq(node));
}

static inline struct rb_node *mqfq_rb_node(struct mqfq_entry *e)
{
	return &mqfq_request(e)->rb_node;
}

static inline struct mqfq_entry *mqfq_entry_of_rb(struct rb_node *node)
{
	return mqfq_entry(rb_entry(node, struct request, rb_node));
}

static void mqfq_run(struct mqfq *m, unsigned int hctx);

static inline unsigned int mqfq_period(const struct mqfq *m)
{
	return jiffies / (HZ / 30);
}

static u64 mqfq_now(const struct mqfq *m)
{
	return ktime_get_ns();
}

/* Sectors that a flow is charged for. Operations other than reads and writes move no data. */
static inline unsigned int mqfq_moves(enum req_op op, unsigned int sectors)
{
	return op == REQ_OP_READ || op == REQ_OP_WRITE ? sectors : 0;
}

static inline unsigned int mqfq_sectors(struct mqfq_entry *e)
{
	struct request *rq = mqfq_request(e);

	return mqfq_moves(req_op(rq), blk_rq_sectors(rq));
}

#include "../sched/mqfq.c"
#include "mqfq_statistics.h"

/**
 * struct mqfq_hw_queue - a hardware queue: what instance->queues points to
 * @hctx: the same hardware queue in struct mqfq
 * @queue_of: number of the queue of each CPU
 */
struct mqfq_hw_queue {
	struct mqfq_hctx *hctx;
	u16 *queue_of;
};

/*
 * Runs a hardware queue. The request queue cannot go away: the caller has a request, is dispatching, or holds instances_lock or the lock of
 * the queue's sysfs files. Any context.
 */
static void mqfq_run(struct mqfq *m, unsigned int number)
{
	struct request_queue *q = instance_with(m)->q;
	struct blk_mq_hw_ctx *hctx;

	rcu_read_lock();
	hctx = xa_load(&q->hctx_table, number);
	if (hctx)
		blk_mq_run_hw_queue(hctx, true);
	rcu_read_unlock();
	if (unlikely(!hctx))
		blk_mq_run_hw_queues(q, true);
}

static inline unsigned int mqfq_level(unsigned int ioprio, bool at_head)
{
	if (unlikely(at_head))
		return MQFQ_URGENT;
	switch (IOPRIO_PRIO_CLASS(ioprio)) {
	case IOPRIO_CLASS_RT: /* newer kernels have hints in the higher bits of the level */
		return MQFQ_RT(ioprio & 7);
	case IOPRIO_CLASS_IDLE:
		return MQFQ_IDLE;
	default:
		return MQFQ_FAIR;
	}
}

/*
 * Does the flow of a new request belong to the current task's process? A request does not name its task. With flow_by process, a request
 * that a task submits itself counts for its process, and so does one that io_uring's threads submit, which are threads of that process. One
 * that a kernel thread submits for it, such as writeback, counts for its cgroup.
 */
static inline bool mqfq_is_own(const struct mqfq *m)
{
	return m->knobs[MQFQ_KNOB_flow_by] == MQFQ_BY_PROCESS && !(current->flags & PF_KTHREAD);
}

static inline struct cgroup_subsys_state *mqfq_css(struct bio *bio)
{
	return bio ? bio_blkcg_css(bio) : NULL;
}

static inline u64 mqfq_key(const struct mqfq *m, struct bio *bio)
{
	struct cgroup_subsys_state *css;

	if (mqfq_is_own(m))
		return BIT_ULL(63) | current->tgid;
	css = mqfq_css(bio);
	return css ? cgroup_id(css->cgroup) : 1;
}

/* The groups of a request's flow: its cgroup and all ancestors except the root. Requests in the root have the root as their only group. */
static void mqfq_where(struct mqfq_entry *e, struct share_path *path)
{
	struct request *rq = mqfq_request(e);
	struct cgroup_subsys_state *css = mqfq_css(rq->bio), *at;
	unsigned int depth = 1, i, place;

	path->depth = 1;
	path->at[0].weight = SHARES_WEIGHT;
	if (!css || mqfq_is_own(&instance_of(rq->q)->algorithm))
		return;
	for (at = css; at->parent && at->parent->parent; at = at->parent)
		depth++;
	path->depth = min(depth, SHARES_DEPTH);
	for (at = css, i = depth; i; i--, at = at->parent) {
		place = shares_place(i, depth);
		if (place == SHARES_DEPTH)
			continue;
		path->at[place].id = cgroup_id(at->cgroup);
		path->at[place].weight = weights_of(at);
	}
}

static inline struct mqfq_queue *mqfq_queue_of(struct mqfq *m, const struct mqfq_hw_queue *h,
					       unsigned int cpu)
{
	return &m->queues[h->queue_of[cpu]];
}

static void mqfq_insert_requests(struct instance *instance, void *queue, struct list_head *requests,
				 bool at_head)
{
	struct request *rq = list_first_entry(requests, struct request, queuelist), *next;
	struct mqfq *m = &instance->algorithm;
	struct mqfq_insertion in;
	struct blk_mq_ctx *ctx;
	struct mqfq_queue *q;

	do {
		ctx = rq->mq_ctx;
		q = mqfq_queue_of(m, queue, blk_mq_rq_cpu(rq));
		mqfq_insert_begin(&in, q);
		do {
			request_is_queued(&q->ends, rq);
			mqfq_prepare(m, mqfq_entry(rq), mqfq_level(req_get_ioprio(rq), at_head),
				     mqfq_key(m, rq->bio), mqfq_where, op_is_write(req_op(rq)));
			next = list_next_entry(rq, queuelist);
			mqfq_insert(&in, mqfq_entry(rq));
			rq = next;
		} while (&rq->queuelist != requests && rq->mq_ctx == ctx);
		mqfq_insert_end(m, &in);
	} while (&rq->queuelist != requests);
	INIT_LIST_HEAD(requests);
}

static bool mqfq_requests_wait(const struct mqfq *m, void *queue)
{
	const struct mqfq_hw_queue *h = queue;

	return mqfq_has_work(h->hctx);
}

static void mqfq_picked(struct mqfq_entry *e)
{
}

static struct request *mqfq_dispatch_request(struct mqfq *m, void *queue)
{
	const struct mqfq_hw_queue *h = queue;
	struct mqfq_entry *e;

	e = mqfq_dispatch(m, h->hctx, h->queue_of[raw_smp_processor_id()], mqfq_picked);
	return e ? mqfq_request(e) : NULL;
}

static bool mqfq_ended(struct mqfq *m, struct request *rq, bool comes_back)
{
	mqfq_finish(m, mqfq_entry(rq), comes_back);
	return false; /* mqfq_kick() has run the hardware queues of waiting queues */
}

/* --- scheduler tags ---------------------------------------------------------------------------------------------- */

/* Identity of the flow of requests that the current task submits itself. */
static inline u64 mqfq_key_of_task(const struct mqfq *m)
{
	u64 key;

	if (mqfq_is_own(m))
		return mqfq_key(m, NULL);
	rcu_read_lock();
	key = cgroup_id(task_css(current, io_cgrp_id)->cgroup);
	rcu_read_unlock();
	return key;
}

static void mqfq_limit_depth(blk_opf_t opf, struct blk_mq_alloc_data *data)
{
	struct instance *instance = instance_of(data->q);
	struct mqfq *m = &instance->algorithm;
	unsigned int level, tags = data->q->nr_requests;

	if (!mqfq_limits_tags(m, tags))
		return;
	level = mqfq_level(get_current_ioprio(), false);
	if (level >= MQFQ_FAIR)
		tags_limit(instance, data, mqfq_tags(m, tags, level, mqfq_key_of_task(m)));
}

/* --- merging --------------------------------------------------------------------------------------------------- */

/* The queue that this bio's request would be inserted into if the task stays on its CPU. */
static inline struct mqfq_queue *mqfq_queue_of_bio(struct instance *instance, struct bio *bio)
{
	const struct blk_mq_queue_map *maps = instance->q->tag_set->map, *map = maps;
	unsigned int cpu = raw_smp_processor_id();

	if (bio_op(bio) == REQ_OP_READ && maps[HCTX_TYPE_READ].nr_queues)
		map = &maps[HCTX_TYPE_READ];
	return mqfq_queue_of(&instance->algorithm, instance_queue_at(instance, map->mq_map[cpu]),
			     cpu);
}

/* Merges the bio into one of the latest fairly shared requests. Each candidate is moved to a list of its own for blk_bio_list_merge(). */
static bool mqfq_join_fair(struct mqfq_queue *q, struct request_queue *rq_queue, struct bio *bio,
			   unsigned int nr_segs)
{
	struct mqfq_entry *latest[MQFQ_LATEST];
	unsigned int count = mqfq_latest(q, latest), i;
	struct list_head place;
	bool is_done = false;
	struct request *rq;
	LIST_HEAD(alone);

	for (i = 0; i < count && !is_done; i++) {
		rq = mqfq_request(latest[i]);
		if (blk_rq_pos(rq) + blk_rq_sectors(rq) != bio->bi_iter.bi_sector)
			continue;
		list_replace(&rq->queuelist, &place);
		list_add(&rq->queuelist, &alone);
		is_done = blk_bio_list_merge(rq_queue, &alone, bio, nr_segs);
		list_del(&rq->queuelist);
		list_replace(&place, &rq->queuelist);
	}
	return is_done;
}

/* bio_merge: true if the bio was merged into a request of its CPU's queue. */
static bool mqfq_bio_merge(struct request_queue *rq_queue, struct bio *bio, unsigned int nr_segs)
{
	struct instance *instance = instance_of(rq_queue);
	struct mqfq_queue *q = mqfq_queue_of_bio(instance, bio);
	unsigned int level = mqfq_level(bio->bi_ioprio, false);
	bool is_done;

	if (!recent_ends_may_be_at(&q->ends, bio->bi_iter.bi_sector))
		return false;
	mqfq_merge_begin(q);
	q->joined = NULL;
	if (level == MQFQ_FAIR)
		is_done = mqfq_join_fair(q, rq_queue, bio, nr_segs);
	else
		is_done = blk_bio_list_merge(rq_queue, &q->lists[level], bio, nr_segs);
	if (is_done && q->joined) { /* allow_merge is not called when a discard joins another */
		mqfq_grow(&instance->algorithm, q->joined,
			  mqfq_moves(bio_op(bio), bio_sectors(bio)), op_is_write(bio_op(bio)));
		merge_note(&q->ends, mqfq_request(q->joined));
	}
	mqfq_merge_end(q);
	return is_done;
}

/* allow_merge: only bios of the request's flow. With flow_by process, requests of one cgroup are of several flows. */
static bool mqfq_allow_merge(struct request_queue *rq_queue, struct request *rq, struct bio *bio)
{
	struct mqfq *m = &instance_of(rq_queue)->algorithm;
	struct mqfq_entry *e = mqfq_entry(rq);

	lockdep_assert_held(&m->queues[e->queue].lock);
	if (e->level == MQFQ_FAIR && READ_ONCE(m->flows.flows[e->flow].key) != mqfq_key(m, bio))
		return false;
	m->queues[e->queue].joined = e;
	return true;
}

/* --- set-up ---------------------------------------------------------------------------------------------------- */

/* The CPUs that submit to a hardware queue. They may be others a moment later, as the block layer maps CPUs to hardware queues anew. */
static const struct cpumask *mqfq_cpus_of(struct request_queue *q, unsigned int number)
{
	struct blk_mq_hw_ctx *hctx = xa_load(&q->hctx_table, number);

	return hctx ? hctx->cpumask : cpu_none_mask;
}

/* A queue for each hardware queue and each CPU that submits to it; at least one for each hardware queue. */
static size_t mqfq_memory_size(struct request_queue *q, unsigned int hctxs, unsigned int *queues)
{
	unsigned int i;

	for (i = 0; i < hctxs; i++)
		*queues += max(cpumask_weight(mqfq_cpus_of(q, i)), 1U);
	return mqfq_size(hctxs, *queues) + hctxs * nr_cpu_ids * sizeof(u16) +
	       *queues * (sizeof(struct mqfq_place) + sizeof(unsigned int));
}

/* Compares the largest groups first, so that places of CPUs in a common group are neighbours. */
static int mqfq_compare_places(const void *a, const void *b)
{
	const struct mqfq_place *l = a, *r = b;
	unsigned int i;

	for (i = MQFQ_GROUPS; i--;)
		if (l->group[i] != r->group[i])
			return l->group[i] < r->group[i] ? -1 : 1;
	if (l->cpu != r->cpu)
		return l->cpu < r->cpu ? -1 : 1;
	return l->hctx < r->hctx ? -1 : l->hctx > r->hctx;
}

/* Finds at most @most places, one or more for each hardware queue; a CPU without a place uses the first one of its hardware queue. */
static unsigned int mqfq_find_places(struct request_queue *q, unsigned int hctxs,
				     struct mqfq_place *places, unsigned int most)
{
	unsigned int count = 0, i, cpu, first;

	for (i = 0; i < hctxs; i++) {
		first = count;
		for_each_cpu(cpu, mqfq_cpus_of(q, i)) {
			if (count == most - (hctxs - i - 1)) /* the others need one each */
				break;
			places[count++] = (struct mqfq_place){
				.hctx = i,
				.cpu = cpu,
				.group = { cpumask_first(topology_sibling_cpumask(cpu)),
					   cpu_to_cache(cpu), cpu_to_node(cpu),
					   topology_physical_package_id(cpu) },
			};
		}
		if (count == first)
			places[count++] = (struct mqfq_place){ .hctx = i };
	}
	sort(places, count, sizeof(*places), mqfq_compare_places, NULL);
	return count;
}

static void mqfq_begin(struct instance *instance)
{
	struct mqfq *m = &instance->algorithm;
	unsigned int hctxs = instance->queue_count, queues = instance->memory_count, i, cpu;
	struct mqfq_place *places = instance->memory + mqfq_size(hctxs, queues);
	unsigned int *scratch = (unsigned int *)(places + queues);
	u16 *queue_of = (u16 *)(scratch + queues);

	queues = mqfq_find_places(instance->q, hctxs, places, queues);
	mqfq_init(m, instance->memory, hctxs, places, queues, scratch);
	for (i = 0; i < hctxs; i++) {
		struct mqfq_hw_queue *h = instance->queues[i];

		h->hctx = &m->hctxs[i];
		h->queue_of = queue_of + i * nr_cpu_ids;
		for (cpu = 0; cpu < nr_cpu_ids; cpu++)
			h->queue_of[cpu] = m->hctxs[i].queues[0];
	}
	for (i = 0; i < queues; i++) {
		struct mqfq_hw_queue *h = instance->queues[places[i].hctx];

		h->queue_of[places[i].cpu] = i;
	}
}

/* Do requests of a CPU go to this hardware queue? Also those of an isolated one, which is not in its cpumask. */
static inline bool mqfq_serves(const struct blk_mq_hw_ctx *hctx, unsigned int cpu)
{
	return hctx->queue->tag_set->map[hctx->type].mq_map[cpu] == hctx->queue_num;
}

/* A CPU goes offline or is back online: tells MQFQ about each hardware queue that has no other online CPU. */
static void mqfq_cpu_changes(struct instance *instance, unsigned int cpu, bool goes)
{
	struct blk_mq_hw_ctx *hctx;
	unsigned long i;
	int other;

	queue_for_each_hw_ctx(instance->q, hctx, i) {
		bool has_others = false;

		if (i >= instance->queue_count) /* added since */
			break;
		if (!mqfq_serves(hctx, cpu))
			continue;
		for_each_online_cpu(other)
			has_others |= other != cpu && mqfq_serves(hctx, other);
		mqfq_leave(&instance->algorithm, i, goes && !has_others);
	}
}

static int mqfq_set_knob(struct instance *instance, unsigned int knob, u64 value)
{
	return mqfq_configure(&instance->algorithm, knob, value);
}

static void mqfq_show(struct seq_file *m, const struct instance *instance)
{
	const struct mqfq *mqfq = &instance->algorithm;
	u64 inserted = 0, dispatched = 0, idle = 0;
	unsigned int i;

	for (i = 0; i < mqfq->queue_count; i++) {
		dispatched += READ_ONCE(mqfq->queues[i].dispatched);
		smp_rmb(); /* what is dispatched was inserted before: the difference is not negative */
		inserted += READ_ONCE(mqfq->queues[i].inserted);
		idle += atomic64_read(&mqfq->queues[i].idle);
	}
	statistics_print(m, instance, "queues %u", mqfq->queue_count);
	statistics_print(m, instance, "inflight %d", mqfq_inflight(mqfq));
	statistics_print(m, instance, "queued %llu", inserted - dispatched);
	statistics_print(m, instance, "inserted %llu", inserted);
	statistics_print(m, instance, "dispatched %llu", dispatched);
	statistics_print(m, instance, "idle_slots %llu", idle);
	statistics_print(m, instance, "d_now %u", mqfq->d);
	statistics_print(m, instance, "t_kib_now %llu", mqfq->t / (2 * SHARES_SECTOR));
	statistics_print(m, instance, "write_cost_pct_now %u", READ_ONCE(mqfq->write_cost.pct));
	statistics_print(m, instance, "vt %llu", atomic64_read(&mqfq->vt) / SHARES_SECTOR);
	mqfq_show_flows(m, instance_with(mqfq));
}

#define MQFQ_KNOB_CALLBACKS(name, ...) SYSFS_KNOB_CALLBACKS(name, MQFQ_KNOB_##name)
MQFQ_KNOBS(MQFQ_KNOB_CALLBACKS)

static elv_attribute_t mqfq_attributes[] = { MQFQ_KNOBS(SYSFS_KNOB_ATTRIBUTE) __ATTR_NULL };

static const struct scheduler this_scheduler = {
	.name = "mqfq",
	.statistics_version = 1,
	.knobs = mqfq_knob_infos,
	.knob_count = MQFQ_KNOB_COUNT,
	.attributes = mqfq_attributes,
	.queue_size = sizeof(struct mqfq_hw_queue),
	.memory_size = mqfq_memory_size,
	.init = mqfq_begin,
	.deinit = mqfq_deinit,
	.configure = mqfq_set_knob,
	.show = mqfq_show,
	.insert = mqfq_insert_requests,
	.has_work = mqfq_requests_wait,
	.dispatch = mqfq_dispatch_request,
	.ended = mqfq_ended,
	.cpu_changes = mqfq_cpu_changes,
	.limit_depth = mqfq_limit_depth,
	.bio_merge = mqfq_bio_merge,
	.allow_merge = mqfq_allow_merge,
};

static int __init mqfq_module_init(void)
{
	int err;

	weights_module_init();
	err = scheduler_module_init();
	if (err)
		weights_module_exit();
	return err;
}

static void __exit mqfq_module_exit(void)
{
	scheduler_module_exit();
	weights_module_exit();
}

module_init(mqfq_module_init);
module_exit(mqfq_module_exit);
MODULE_DESCRIPTION("MQFQ: fair queueing over many queues, with real-time levels above it");
MODULE_LICENSE("GPL");
MODULE_ALIAS("mqfq-iosched");
