// SPDX-License-Identifier: GPL-2.0-only
/*
 * The I/O scheduler "k2": strict I/O priorities and a bound on the requests in flight. This file binds sched/k2.c to
 * the block layer: which of its calls means what, where a request's level comes from, merging, scheduler tags, sysfs
 * and statistics.
 *
 * What counts as in flight is exact: +1 in dispatch_request, -1 in finish_request or in requeue_request of a request
 * that will be inserted again. Neither prepare_request without insertion (plug merges, unused cached requests) nor a
 * driver that is busy and makes the block layer hold a request back changes it. FUA and flush requests on kernels that
 * keep them from schedulers, and passthrough commands everywhere, are not in the bound.
 */
#include <linux/blk-cgroup.h>
#include <linux/cgroup.h>
#include <linux/hash.h>
#include <linux/ioprio.h>
#include <linux/module.h>
#include <linux/percpu-refcount.h>
#include <linux/proc_fs.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <trace/events/block.h>

#include "compat/elevator.h"
#include "compat/hrtimer.h"
#define K2_OBSERVED
#include "../sched/k2.h"
#include "slow.h"
#include "split.h"

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

static inline bool k2_discards(struct k2_entry *e)
{
	return req_op(k2_request(e)) == REQ_OP_DISCARD;
}

static inline bool k2_may_split(struct k2_entry *e)
{
	return split_may_take(k2_request(e), 0);
}

static bool k2_flushes(const struct k2 *k2);

static inline u64 k2_now(const struct k2 *k2)
{
	return ktime_get_ns();
}

/* Somebody has enabled a tracepoint: one test that costs a nop for all of them. */
static DEFINE_STATIC_KEY_FALSE(k2_traced);
static unsigned int k2_trace_session;

static inline unsigned int k2_observer(void)
{
	return static_branch_unlikely(&k2_traced) ? READ_ONCE(k2_trace_session) : 0;
}

static void k2_observe_hold(const struct k2 *k2, const struct k2_refusal *refusal);
static void k2_observe_release(const struct k2 *k2, enum k2_release why, u64 held_ns);
static void k2_observe_arrival(const struct k2 *k2, unsigned int flow, u64 arrived_ns, s64 error_ns,
			       bool in_time);
static void k2_log_begin(const struct k2 *k2, struct k2_entry *e, unsigned int met_sectors,
			 unsigned int owed_sectors, s64 error_ns);
static void k2_log_slow(const struct k2 *k2, struct k2_entry *e, u64 now_ns);

#include "../sched/k2.c"

/* First line of /proc/tailgate/<disk>; grows when a line changes its meaning. */
#define K2_STATISTICS_VERSION "k2 1"
/* And of /proc/tailgate/<disk>.slow; then a line that names the columns. */
#define K2_SLOW_VERSION "k2 slow 1"
#define K2_SLOW_COLUMNS "end_us level op sectors queue_us device_us met_kib error_us owed_kib"

/*
 * A bio can join a request that ends where it begins. Where the latest requests end is kept in a table of bytes, by hash
 * of the sector: a byte that equals one of the two latest generations means that there may be one. So a bio of a random
 * load costs one look, no lock. A generation lasts K2_GENERATION insertions: the table stays sparse, and older requests
 * than two generations are not joined any more.
 */
#define K2_ENDS_BITS 12
#define K2_GENERATION 128

struct k2_ends {
	u8 generation[1 << K2_ENDS_BITS];
	u8 current_generation;
	unsigned int left; /* insertions in this generation */
};

/* a drive */
struct k2_queue_data {
	struct request_queue *q;
	struct k2_ends ends;
	struct proc_dir_entry *proc, *slow_proc;
	struct slow_log *slow; /* once slow_log_us was set */
	struct split *split;
	struct split *discard_split; /* apart: its worker waits for tags while discards are held */
	struct hrtimer timer;
	unsigned int tag_word_bits; /* scheduler tags in a word of their bitmap */
	struct k2_ctx **ctxs;
	struct k2 k2; /* last: ends in an array */
};

/* a hardware queue */
struct k2_hctx_data {
	struct k2_ctx ctx;
	struct blk_mq_hw_ctx *hctx;
};

/*
 * From the block layer's flush machinery: while its two indices differ, a flush is in flight (block/blk-flush.c,
 * blk_kick_flush()). They are bits of one byte, which is read without the lock that they are changed under.
 */
#if KAPI_FLUSH_INDICES
static bool k2_flushes(const struct k2 *k2)
{
	unsigned int i;

	for (i = 0; i < k2->ctx_count; i++) {
		struct k2_hctx_data *hd = container_of(k2->ctxs[i], struct k2_hctx_data, ctx);
		u8 indices = READ_ONCE(((u8 *)hd->hctx->fq)[KBTF_FLUSH_INDICES_BYTE]);

		if (!!(indices & KBTF_FLUSH_PENDING_MASK) != !!(indices & KBTF_FLUSH_RUNNING_MASK))
			return true;
	}
	return false;
}
#else
static bool k2_flushes(const struct k2 *k2)
{
	return false;
}
#endif

static struct proc_dir_entry *k2_proc;

/*
 * What shallow_depth means to the bitmap of tags: at most so many bits of each word (older kernels), or of the whole
 * map. Stable kernels changed it without a trace in any type, so k2_probe_shallow_depth() tries.
 */
static bool k2_depth_is_per_word;

static inline struct k2_queue_data *k2_data(struct request_queue *q)
{
	return q->elevator->elevator_data;
}

static inline struct k2_ctx *k2_hctx_ctx(struct blk_mq_hw_ctx *hctx)
{
	struct k2_hctx_data *hd = hctx->sched_data;

	return &hd->ctx;
}

static inline bool k2_is_rt(unsigned int ioprio)
{
	return IOPRIO_PRIO_CLASS(ioprio) == IOPRIO_CLASS_RT;
}

/* Newer kernels keep hints in other bits of the priority, and user space chooses them: only three bits are the level. */
static inline unsigned int k2_level(unsigned int ioprio)
{
	return k2_is_rt(ioprio) ? ioprio & (K2_RT_LEVELS - 1) : K2_BACKGROUND;
}

/*
 * Racing writers lose a chance to merge, nothing else: a count that one of them has written back late is wrong by as
 * much, but never out of its range, where a generation would last for ever.
 */
static inline void k2_note_end(struct k2_ends *ends, struct request *rq)
{
	unsigned int left = READ_ONCE(ends->left);

	if (!left) {
		left = K2_GENERATION + 1;
		WRITE_ONCE(ends->current_generation, ends->current_generation + 1);
	}
	WRITE_ONCE(ends->left, left - 1);
	WRITE_ONCE(ends->generation[hash_64(blk_rq_pos(rq) + blk_rq_sectors(rq), K2_ENDS_BITS)],
		   ends->current_generation);
}

static inline bool k2_may_end_at(const struct k2_ends *ends, sector_t sector)
{
	u8 age = READ_ONCE(ends->current_generation) -
		 READ_ONCE(ends->generation[hash_64(sector, K2_ENDS_BITS)]);

	return age <= 1;
}

static void k2_wake(void *argument, struct k2_ctx *ctx)
{
	struct k2_hctx_data *hd = container_of(ctx, struct k2_hctx_data, ctx);

	blk_mq_run_hw_queue(hd->hctx, true);
}

static void k2_arm(void *argument, u64 at_ns)
{
	struct k2_queue_data *d = argument;

	hrtimer_start(&d->timer, ns_to_ktime(at_ns), HRTIMER_MODE_ABS);
}

static enum hrtimer_restart k2_timer(struct hrtimer *timer)
{
	struct k2_queue_data *d = container_of(timer, struct k2_queue_data, timer);

	k2_tick(&d->k2);
	blk_mq_run_hw_queues(d->q, true);
	return HRTIMER_NORESTART;
}

/* Called under the mutex of all tracepoints. */
int k2_trace_begin(void)
{
	if (!static_key_enabled(&k2_traced.key))
		WRITE_ONCE(k2_trace_session, max(k2_trace_session + 1, 1U));
	static_branch_inc(&k2_traced);
	return 0;
}

void k2_trace_end(void)
{
	static_branch_dec(&k2_traced);
}

static dev_t k2_dev(const struct k2 *k2)
{
	const struct k2_queue_data *d = k2->argument;
	struct gendisk *disk = READ_ONCE(d->q->disk);

	return disk ? disk_devt(disk) : 0;
}

static void k2_observe_hold(const struct k2 *k2, const struct k2_refusal *r)
{
	trace_hold(k2_dev(k2), r->why, (u64)r->sectors << SECTOR_SHIFT, r->inflight,
		   (u64)r->inflight_sectors << SECTOR_SHIFT,
		   r->why == K2_HOLD_COUNT ? r->limit : (u64)r->limit << SECTOR_SHIFT);
}

static void k2_observe_release(const struct k2 *k2, enum k2_release why, u64 held_ns)
{
	trace_release(k2_dev(k2), why, held_ns);
}

static void k2_observe_arrival(const struct k2 *k2, unsigned int flow, u64 arrived_ns, s64 error_ns,
			       bool in_time)
{
	const struct arrivals *arrivals = &k2->ahead.flows[flow].arrivals;

	trace_predict(k2_dev(k2), flow, k2->flows[flow].list - 1, k2->flows[flow].key, arrived_ns,
		      error_ns, in_time, k2->ahead.predicted & BIT(flow), arrivals->way,
		      arrivals_gap_ns(arrivals));
}

static void k2_log_begin(const struct k2 *k2, struct k2_entry *e, unsigned int met_sectors,
			 unsigned int owed_sectors, s64 error_ns)
{
	const struct k2_queue_data *d = k2->argument;

	BUILD_BUG_ON(K2_UNPREDICTED != SLOW_UNPREDICTED);
	slow_begin(d->slow, k2_request(e), met_sectors, owed_sectors, error_ns);
}

static void k2_log_slow(const struct k2 *k2, struct k2_entry *e, u64 now_ns)
{
	const struct k2_queue_data *d = k2->argument;

	slow_end(d->slow, k2_request(e), e->level, e->since_ns, now_ns);
}

static void k2_prepare_request(struct request *rq)
{
	k2_entry(rq)->state = K2_NEW;
}

/*
 * Kernels that do not plug a single I/O by themselves hand its request to a worker thread for dispatch: two context
 * switches for each. Then nobody plugs, and we may run the queue here as direct issue does without a scheduler. The
 * worker, should it come, finds nothing to do.
 */
static inline bool k2_may_run_here(struct blk_mq_hw_ctx *hctx)
{
	return !current->plug && task_is_running(current) && !(hctx->flags & BLK_MQ_F_BLOCKING);
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
		    split_may_take(rq, piece))
			list_move_tail(&rq->queuelist, &large);
	if (!list_empty(&large))
		split_take(split, &large, piece);
}

static noinline void k2_split_new(struct k2_queue_data *d, struct list_head *list)
{
	unsigned int piece = k2_piece(&d->k2, K2_BACKGROUND);
	unsigned int discard = k2_discard_piece(&d->k2, K2_BACKGROUND);

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
	struct k2_ctx *ctx = k2_hctx_ctx(hctx);
	bool at_head = elv_insert_at_head(flags);
	struct request *rq, *next;

	/* Once they are visible the requests may complete, and with the last reference the elevator could go. */
	percpu_ref_get(&q->q_usage_counter);
	if (unlikely(READ_ONCE(d->k2.uses) & K2_USES_SPLIT) && !at_head)
		k2_split_new(d, list);
	k2_insert_begin(ctx);
	list_for_each_entry_safe(rq, next, list, queuelist) {
		struct k2_entry *e = k2_entry(rq);

		trace_block_rq_insert(rq);
		k2_note_end(&d->ends, rq);
		/* a request that the driver returned waits from now on, not from its start */
		k2_insert(ctx, e, k2_level(req_get_ioprio(rq)), at_head,
			  e->state == K2_RETURNED ? ktime_get_ns() : rq->start_time_ns);
	}
	INIT_LIST_HEAD(list);
	k2_insert_end(&d->k2, ctx);
	if (k2_may_run_here(hctx))
		blk_mq_run_hw_queue(hctx, false);
	percpu_ref_put(&q->q_usage_counter);
}

static bool k2_has_work_op(struct blk_mq_hw_ctx *hctx)
{
	return k2_has_work(&k2_data(hctx->queue)->k2);
}

/* Takes a staged request out of what merging looks at. */
static inline void k2_unhash(struct request *rq)
{
	if (rq->rq_flags & RQF_HASHED)
		elv_rqhash_del(rq->q, rq);
	if (rq->q->last_merge == rq)
		rq->q->last_merge = NULL;
}

static inline void k2_picked(struct k2_entry *e)
{
	k2_unhash(k2_request(e));
}

/* Real-time activity has begun, or pieces became smaller, since these were inserted. */
static noinline void k2_split_staged(struct k2_queue_data *d)
{
	unsigned int piece = k2_piece(&d->k2, K2_BACKGROUND);
	LIST_HEAD(large);

	if (!k2_take_large(&d->k2, &large))
		return;
	/* with the last of them the elevator could go */
	percpu_ref_get(&d->q->q_usage_counter);
	split_take(d->split, &large, piece ? piece : UINT_MAX); /* may stay as they are by now */
	percpu_ref_put(&d->q->q_usage_counter);
}

/* We are called for one hardware queue and may return a request for another: the block layer sorts them. */
static struct request *k2_dispatch_request(struct blk_mq_hw_ctx *hctx)
{
	struct k2_queue_data *d = k2_data(hctx->queue);
	struct k2 *k2 = &d->k2;
	struct k2_entry *e = k2_dispatch(k2, k2_picked);
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
		k2_finish(k2, k2_hctx_ctx(rq->mq_hctx), e);
	return rq;
}

static void k2_finish_request(struct request *rq)
{
	k2_finish(&k2_data(rq->q)->k2, k2_hctx_ctx(rq->mq_hctx), k2_entry(rq));
}

/* With RQF_DONTPREP a returned request goes back to the driver without us. */
static void k2_requeue_request(struct request *rq)
{
	k2_requeue(&k2_data(rq->q)->k2, k2_hctx_ctx(rq->mq_hctx), k2_entry(rq),
		   !(rq->rq_flags & RQF_DONTPREP));
}

struct k2_merge {
	struct request_queue *q;
	struct list_head free;
};

static void k2_offer(struct k2_entry *e, void *argument)
{
	struct request *rq = k2_request(e);
	struct k2_merge *merge = argument;

	if ((req_op(rq) != REQ_OP_READ && req_op(rq) != REQ_OP_WRITE) ||
	    (rq->cmd_flags & REQ_NOMERGE_FLAGS) || (rq->rq_flags & RQF_NOMERGE_FLAGS))
		return;
	/* whether two requests become too large for a piece, nobody would ask */
	if (k2_piece(&k2_data(merge->q)->k2, k2_entry(rq)->level) ||
	    !blk_mq_sched_try_insert_merge(merge->q, rq, &merge->free))
		elv_rqhash_add(merge->q, rq);
}

static noinline bool k2_split_bio(struct k2_queue_data *d, struct bio *bio)
{
	unsigned int level = k2_level(bio->bi_ioprio);
	bool discards = bio_op(bio) == REQ_OP_DISCARD;
	unsigned int piece = discards ? k2_discard_piece(&d->k2, level) : k2_piece(&d->k2, level);

	return piece && split_bio(discards ? d->discard_split : d->split, bio, piece);
}

/*
 * Requests enter the hash that merging searches only here, when a bio comes that could join one: what is dispatched
 * before the next bio comes never pays for it. Merges stay within a level: the block layer merges only what has the same
 * priority. A contended lock is not worth a merge.
 *
 * Before, what is too large is split.
 */
static bool k2_bio_merge(struct request_queue *q, struct bio *bio, unsigned int nr_segs)
{
	struct k2_queue_data *d = k2_data(q);
	struct k2 *k2 = &d->k2;
	struct k2_merge merge = { .q = q, .free = LIST_HEAD_INIT(merge.free) };
	struct request *freed = NULL, *next;
	bool merged;

	if (unlikely(READ_ONCE(k2->uses) & K2_USES_SPLIT) && k2_split_bio(d, bio))
		return true;
	if (!k2_queued(k2) || !k2_may_end_at(&d->ends, bio->bi_iter.bi_sector) ||
	    !spin_trylock(&k2->lock))
		return false;
	k2_collect(k2);
	k2_visit_new(k2, k2_level(bio->bi_ioprio), k2_offer, &merge);
	merged = blk_mq_sched_try_merge(q, bio, nr_segs, &freed);
	spin_unlock(&k2->lock);

	if (freed)
		blk_mq_free_request(freed);
	list_for_each_entry_safe(freed, next, &merge.free, queuelist) {
		list_del_init(&freed->queuelist);
		blk_mq_free_request(freed);
	}
	return merged;
}

static bool k2_allow_merge(struct request_queue *q, struct request *rq, struct bio *bio)
{
	unsigned int piece = k2_piece(&k2_data(q)->k2, k2_level(req_get_ioprio(rq)));

	return !piece || blk_rq_sectors(rq) + bio_sectors(bio) <= piece;
}

/* A bio became part of @rq. */
static void k2_request_merged(struct request_queue *q, struct request *rq, enum elv_merge type)
{
	k2_note_end(&k2_data(q)->ends, rq);
}

/* @next became part of @rq; both were staged, and the caller is k2_bio_merge(). */
static void k2_requests_merged(struct request_queue *q, struct request *rq, struct request *next)
{
	k2_note_end(&k2_data(q)->ends, rq);
	k2_unhash(next);
	k2_remove(&k2_data(q)->k2, k2_entry(next));
}

/*
 * A task waits for a scheduler tag before its request exists, so the task's own priority decides here, also where the
 * request's will be another (io_uring's and aio's ioprio).
 */
static void k2_limit_depth(blk_opf_t opf, struct blk_mq_alloc_data *data)
{
	struct k2_queue_data *d = k2_data(data->q);
	unsigned int tags = data->q->nr_requests, limit;
	bool discards;

	discards = unlikely(READ_ONCE(d->k2.uses) & K2_USES_DISCARDS) &&
		   (opf & REQ_OP_MASK) == REQ_OP_DISCARD;
	if ((!READ_ONCE(d->k2.knobs[K2_KNOB_rt_tags]) && !discards) ||
	    k2_is_rt(get_current_ioprio()))
		return;
	limit = k2_limit(&d->k2, tags);
	if (unlikely(discards))
		limit = k2_limit_discards(limit);
	/* a word is larger than a map that was made smaller, or that is tiny */
	if (k2_depth_is_per_word)
		limit = max(limit * min(READ_ONCE(d->tag_word_bits), tags) / tags, 1U);
	data->shallow_depth = limit;
}

/* Every depth that limit_depth may set has to be announced, or waiters for a tag are not woken. */
static void k2_announce_depths(struct k2_queue_data *d, struct blk_mq_hw_ctx *hctx)
{
	WRITE_ONCE(d->tag_word_bits, 1U << hctx->sched_tags->bitmap_tags.sb.shift);
	sbitmap_queue_min_shallow_depth(&hctx->sched_tags->bitmap_tags, 1);
}

#if KAPI_DEPTH_UPDATED_TAKES_Q
static void k2_depth_updated(struct request_queue *q)
{
	struct blk_mq_hw_ctx *hctx;
	unsigned long i;

	queue_for_each_hw_ctx(q, hctx, i)
		k2_announce_depths(k2_data(q), hctx);
}
#else
static void k2_depth_updated(struct blk_mq_hw_ctx *hctx)
{
	k2_announce_depths(k2_data(hctx->queue), hctx);
}
#endif

static u64 k2_kib_s(u32 rate)
{
	return mul_u64_u32_shr(NSEC_PER_SEC, rate, 32) / 2;
}

/* What was learned of the debt of writes. */
static void k2_show_debt(struct seq_file *m, const struct k2 *k2)
{
	const struct debt *debt = &k2->debt;

	seq_printf(m, "write_debt_kib %u\n", debt_owed(debt, k2_now(k2)) / 2);
	seq_printf(m, "write_debt_kib_max_now %u\n", READ_ONCE(debt->limit_sectors) / 2);
	seq_printf(m, "write_drain_kib_s %llu\n", k2_kib_s(READ_ONCE(debt->rate)));
	seq_printf(m, "write_drain_seen_kib_s %llu\n", k2_kib_s(READ_ONCE(debt->seen)));
	seq_printf(m, "write_debt_read_us %u\n", READ_ONCE(debt->read_ns) / 1000);
}

/* What the target makes of the bounds. */
static void k2_show_target(struct seq_file *m, const struct k2 *k2)
{
	const struct target *target = &k2->target;
	unsigned int limit = READ_ONCE(target->limit_sectors);

	seq_printf(m, "rt_target_state %s\n",
		   !READ_ONCE(target->target_ns)	  ? "none" :
		   READ_ONCE(target->given_up)		  ? "missed" :
		   READ_ONCE(target->arm) == TARGET_AHEAD ? "ahead" :
							    "fixed");
	seq_printf(m, "rt_target_kib %u\n", limit == UINT_MAX ? 0 : limit / 2);
}

/* What the bound that looks ahead has learned. */
static void k2_show_ahead(struct seq_file *m, const struct k2 *k2)
{
	static const char *const ways[ARRIVALS_WAYS] = { "end", "arrival", "grid" };
	const struct ahead *ahead = &k2->ahead;
	unsigned int i;

	seq_printf(m, "ahead_rate_kib_s %llu\n", k2_kib_s(READ_ONCE(ahead->rate)));
	seq_printf(m, "ahead_lo_now_kib %u\n", READ_ONCE(ahead->lo_sectors) / 2);
	seq_printf(m, "ahead_hi_now_kib %u\n", READ_ONCE(ahead->hi_sectors) / 2);
	seq_printf(m, "ahead_lead_now_us %u\n", READ_ONCE(ahead->lead_ns) / 1000);
	seq_printf(m, "ahead_predicted %lu\n", hweight_long(READ_ONCE(ahead->predicted)));
	seq_printf(m, "ahead_ticks %llu\n", READ_ONCE(k2->ticks));
	for (i = 0; i < AHEAD_FLOWS; i++) {
		const struct arrivals *arrivals = &ahead->flows[i].arrivals;

		if (!READ_ONCE(arrivals->arrived_ns))
			continue;
		seq_printf(m, "flow%u.level %u\n", i, READ_ONCE(k2->flows[i].list) - 1);
		seq_printf(m, "flow%u.cgroup %llu\n", i, READ_ONCE(k2->flows[i].key));
		seq_printf(m, "flow%u.predicted %u\n", i, !!(READ_ONCE(ahead->predicted) & BIT(i)));
		seq_printf(m, "flow%u.from %s\n", i, ways[READ_ONCE(arrivals->way)]);
		seq_printf(m, "flow%u.gap_us %u\n", i, arrivals_gap_ns(arrivals) / 1000);
		seq_printf(m, "flow%u.late_us %u\n", i, arrivals_late_ns(arrivals) / 1000);
	}
}

static int k2_show_statistics(struct seq_file *m, void *unused)
{
	struct k2_queue_data *d = m->private;
	struct k2 *k2 = &d->k2;
	unsigned int level, i;

	seq_puts(m, K2_STATISTICS_VERSION "\n");
	for (i = 0; i < K2_KNOB_COUNT; i++)
		if (k2_words(i))
			seq_printf(m, "%s %s\n", k2_knob_infos[i].name,
				   k2_words(i)[READ_ONCE(k2->knobs[i])]);
		else if (READ_ONCE(k2->knobs[i]) == K2_AUTO)
			seq_printf(m, "%s auto\n", k2_knob_infos[i].name);
		else
			seq_printf(m, "%s %u\n", k2_knob_infos[i].name, READ_ONCE(k2->knobs[i]));
	seq_printf(m, "inflight %d\n", atomic_read(&k2->inflight));
	seq_printf(m, "inflight_kib %d\n", atomic_read(&k2->inflight_sectors) / 2);
	seq_printf(m, "constrains %d\n", READ_ONCE(k2->inflight_limit) != UINT_MAX);
	seq_printf(m, "piece_kib %u\n", READ_ONCE(k2->piece_sectors) / 2);
	seq_printf(m, "rt_activations %llu\n", READ_ONCE(k2->activations));
	seq_printf(m, "rt_period_us %llu\n", div_u64(READ_ONCE(k2->period_ns), 1000));
	k2_show_ahead(m, k2);
	k2_show_debt(m, k2);
	k2_show_target(m, k2);
	seq_printf(m, "discards_inflight %d\n", atomic_read(&k2->discards));
	seq_printf(m, "discards_dispatched %llu\n", READ_ONCE(k2->discarded));
	seq_printf(m, "flush_gated %llu\n", READ_ONCE(k2->gated));
	seq_printf(m, "discard_requests %ld\n", atomic_long_read(&d->discard_split->requests));
	seq_printf(m, "discard_pieces %ld\n", atomic_long_read(&d->discard_split->pieces));
	seq_printf(m, "split_staged %llu\n", READ_ONCE(k2->taken));
	seq_printf(m, "split_requests %ld\n", atomic_long_read(&d->split->requests));
	seq_printf(m, "split_pieces %ld\n", atomic_long_read(&d->split->pieces));
	seq_printf(m, "bound_held %ld\n", atomic_long_read(&k2->bound_held));
	for (level = 0; level < K2_LEVELS; level++) {
		u64 dispatched = READ_ONCE(k2->dispatched[level]),
		    removed = READ_ONCE(k2->removed[level]),
		    taken = level == K2_BACKGROUND ? READ_ONCE(k2->taken) : 0, inserted = 0;

		/* read last: what has left was inserted before */
		for (i = 0; i < k2->ctx_count; i++)
			inserted += READ_ONCE(k2->ctxs[i]->inserted[level]);
		seq_printf(m, "level%u.inflight %d\n", level,
			   atomic_read(&k2->inflight_level[level]));
		seq_printf(m, "level%u.queued %llu\n", level,
			   inserted - dispatched - removed - taken);
		seq_printf(m, "level%u.inserted %llu\n", level, inserted);
		seq_printf(m, "level%u.dispatched %llu\n", level, dispatched);
		seq_printf(m, "level%u.merged %llu\n", level, removed);
		seq_printf(m, "level%u.wait_us", level);
		for (i = 0; i < K2_WAIT_BUCKETS; i++)
			seq_printf(m, " %llu", READ_ONCE(k2->wait[level][i]));
		seq_putc(m, '\n');
	}
	return 0;
}

static int k2_show_slow(struct seq_file *m, void *unused)
{
	struct k2_queue_data *d = m->private;
	struct slow_log *log = smp_load_acquire(&d->slow);

	seq_puts(m, K2_SLOW_VERSION "\n" K2_SLOW_COLUMNS "\n");
	if (log && READ_ONCE(d->k2.knobs[K2_KNOB_slow_log_us]))
		slow_show(m, log);
	return 0;
}

static void k2_create_statistics(struct k2_queue_data *d)
{
	char name[DISK_NAME_LEN + sizeof(".slow")];

	if (!k2_proc || !d->q->disk)
		return;
	strscpy(name, d->q->disk->disk_name, sizeof(name));
	strreplace(name, '/', '!');
	d->proc = proc_create_single_data(name, 0444, k2_proc, k2_show_statistics, d);
	strcat(name, ".slow");
	d->slow_proc = proc_create_single_data(name, 0444, k2_proc, k2_show_slow, d);
}

static int k2_init_hctx(struct blk_mq_hw_ctx *hctx, unsigned int index)
{
	struct k2_queue_data *d = k2_data(hctx->queue);
	struct k2_hctx_data *hd = kzalloc_node(sizeof(*hd), GFP_KERNEL, hctx->numa_node);

	if (!hd)
		return -ENOMEM;
	hd->hctx = hctx;
	k2_init_ctx(&d->k2, &hd->ctx, index);
	hctx->sched_data = hd;
	k2_announce_depths(d, hctx);
	if (index == d->k2.ctx_count - 1) /* the statistics show all hardware queues */
		k2_create_statistics(d);
	return 0;
}

static void k2_exit_hctx(struct blk_mq_hw_ctx *hctx, unsigned int index)
{
	struct k2_queue_data *d = k2_data(hctx->queue);
	struct k2_hctx_data *hd = hctx->sched_data;

	proc_remove(d->proc); /* waits for readers */
	proc_remove(d->slow_proc);
	d->proc = d->slow_proc = NULL;
	WARN_ON_ONCE(hd->ctx.filled);
	d->k2.ctxs[index] = NULL;
	hctx->sched_data = NULL;
	kfree(hd);
}

static void k2_free(struct k2_queue_data *d)
{
	if (d->split)
		split_put(d->split);
	slow_free(d->slow);
	if (d->discard_split)
		split_put(d->discard_split);
	kfree(d->ctxs);
	kfree(d);
}

static int k2_setup(struct request_queue *q, struct elevator_queue *eq)
{
	struct k2_queue_data *d;

	d = kzalloc_node(offsetof(struct k2_queue_data, k2) + k2_size(q->nr_hw_queues), GFP_KERNEL,
			 q->node);
	if (!d)
		return -ENOMEM;
	d->ctxs = kcalloc_node(q->nr_hw_queues, sizeof(*d->ctxs), GFP_KERNEL, q->node);
	d->split = split_new(q->node);
	d->discard_split = split_new(q->node);
	if (!d->ctxs || !d->split || !d->discard_split) {
		k2_free(d);
		return -ENOMEM;
	}
	d->q = q;
	hrtimer_setup(&d->timer, k2_timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
	k2_init(&d->k2, d->ctxs, q->nr_hw_queues, k2_wake, k2_arm, d);
	k2_set_granule(&d->k2, queue_logical_block_size(q) / SECTOR_SIZE);
	eq->elevator_data = d;
	/* any hardware queue dispatches for all: "run all queues" may run one */
	blk_queue_flag_set(QUEUE_FLAG_SQ_SCHED, q);
	q->elevator = eq;
	return 0;
}

static struct elevator_type k2_type;

#if KAPI_INIT_SCHED_TAKES_EQ
static int k2_init_sched(struct request_queue *q, struct elevator_queue *eq)
{
	return eq->type == &k2_type ? k2_setup(q, eq) : -EINVAL;
}
#else
static int k2_init_sched(struct request_queue *q, struct elevator_type *type)
{
	struct elevator_queue *eq;
	int err;

	if (type != &k2_type)
		return -EINVAL;
	eq = elevator_alloc(q, type);
	if (!eq)
		return -ENOMEM;
	err = k2_setup(q, eq);
	if (err)
		kobject_put(&eq->kobj);
	return err;
}
#endif

static void k2_exit_sched(struct elevator_queue *eq)
{
	struct k2_queue_data *d = eq->elevator_data;

	hrtimer_cancel(&d->timer);
	WARN_ON_ONCE(!k2_deinit(&d->k2));
	k2_free(d);
}

static ssize_t k2_show(struct elevator_queue *eq, char *page, enum k2_knob knob)
{
	struct k2_queue_data *d = eq->elevator_data;
	unsigned int value = READ_ONCE(d->k2.knobs[knob]);

	if (k2_words(knob))
		return sysfs_emit(page, "%s\n", k2_words(knob)[value]);
	if (value == K2_AUTO)
		return sysfs_emit(page, "auto\n");
	return sysfs_emit(page, "%u\n", value);
}

static int k2_check_split(struct request_queue *q, u64 kib)
{
	if (kib > queue_max_sectors(q) / 2)
		return -ERANGE;
	return kib << 10 & (queue_logical_block_size(q) - 1) ? -EINVAL : 0;
}

/* Before the first request is noted. */
static int k2_prepare_slow(struct k2_queue_data *d)
{
	if (!d->slow)
		smp_store_release(&d->slow, slow_new(d->k2.ctx_count)); /* for k2_show_slow() */
	else if (!d->k2.knobs[K2_KNOB_slow_log_us])
		slow_clear(d->slow);
	return d->slow ? 0 : -ENOMEM;
}

static int k2_parse(enum k2_knob knob, const char *page, u64 *value)
{
	int word, err;

	if (k2_may_be_auto(knob) && sysfs_streq(page, "auto")) {
		*value = K2_AUTO;
		return 0;
	}
	if (!k2_words(knob)) {
		err = kstrtou64(page, 10, value);
		return !err && *value == K2_AUTO ? -ERANGE : err;
	}
	word = __sysfs_match_string((const char **)k2_words(knob), k2_knob_infos[knob].most + 1,
				    page);
	*value = word;
	return min(word, 0);
}

static ssize_t k2_store(struct elevator_queue *eq, const char *page, size_t length,
			enum k2_knob knob)
{
	struct k2_queue_data *d = eq->elevator_data;
	u64 value;
	int err;

	err = k2_parse(knob, page, &value);
	if (!err && knob == K2_KNOB_split_kib)
		err = k2_check_split(d->q, value);
	if (!err && knob == K2_KNOB_slow_log_us)
		err = k2_prepare_slow(d);
	if (!err && knob == K2_KNOB_flush_gate_us && value && !KAPI_FLUSH_INDICES)
		err = -EOPNOTSUPP;
	if (!err)
		err = k2_configure(&d->k2, knob, value);
	if (err)
		return err;
	blk_mq_run_hw_queues(d->q, true);
	return length;
}

#define K2_ATTRIBUTE(name, knob)                                                                \
	static ssize_t name##_show(struct elevator_queue *eq, char *page)                       \
	{                                                                                       \
		return k2_show(eq, page, K2_KNOB_##knob);                                       \
	}                                                                                       \
	static ssize_t name##_store(struct elevator_queue *eq, const char *page, size_t length) \
	{                                                                                       \
		return k2_store(eq, page, length, K2_KNOB_##knob);                              \
	}
#define K2_KNOB_ATTRIBUTE(name, ...) K2_ATTRIBUTE(name, name)
K2_KNOBS(K2_KNOB_ATTRIBUTE)
K2_ATTRIBUTE(max_inflight, inflight_max) /* as the paper's code calls it */

#if KAPI_ELV_ATTRS_CONST
static const struct elv_fs_entry k2_attributes[] = {
#else
static struct elv_fs_entry k2_attributes[] = {
#endif
#define K2_KNOB_ENTRY(name, ...) __ATTR_RW(name),
	K2_KNOBS(K2_KNOB_ENTRY) __ATTR_RW(max_inflight),
	__ATTR_NULL,
};

static struct elevator_type k2_type = {
	.ops = {
		.init_sched = k2_init_sched,
		.exit_sched = k2_exit_sched,
		.init_hctx = k2_init_hctx,
		.exit_hctx = k2_exit_hctx,
		.depth_updated = k2_depth_updated,
		.limit_depth = k2_limit_depth,
		.allow_merge = k2_allow_merge,
		.bio_merge = k2_bio_merge,
		.request_merged = k2_request_merged,
		.requests_merged = k2_requests_merged,
		.prepare_request = k2_prepare_request,
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

/* sbitmap_queue_get_shallow() with depth 1 finds one free bit in a map of two words, or one in each of them. */
static int __init k2_probe_shallow_depth(void)
{
	struct sbitmap_queue probe;
	int err;

	err = sbitmap_queue_init_node(&probe, 128, 6, false, GFP_KERNEL, NUMA_NO_NODE);
	if (err)
		return err;
	sbitmap_queue_min_shallow_depth(&probe, 1);
	k2_depth_is_per_word = sbitmap_queue_get_shallow(&probe, 1) >= 0 &&
			       sbitmap_queue_get_shallow(&probe, 1) >= 0;
	sbitmap_queue_free(&probe);
	return 0;
}

static int __init k2_module_init(void)
{
	int err;

	err = k2_probe_shallow_depth();
	if (err)
		return err;
	err = split_module_init("k2_split");
	if (err)
		return err;
	k2_proc = proc_mkdir("tailgate", NULL);
	err = elv_register(&k2_type);
	if (err) {
		proc_remove(k2_proc);
		split_module_exit();
	}
	return err;
}

static void __exit k2_module_exit(void)
{
	elv_unregister(&k2_type);
	proc_remove(k2_proc);
	split_module_exit();
}

module_init(k2_module_init);
module_exit(k2_module_exit);
MODULE_DESCRIPTION("K2: strict I/O priorities and a bound on the requests in flight");
MODULE_LICENSE("GPL");
MODULE_ALIAS("k2-iosched");
