/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Merging. A bio can join a request that ends where the bio begins. The block layer finds such requests in a hash table, by
 * their ends. Two ideas keep this cheap for loads that never merge:
 *
 * - A table has the ends of the latest requests (sched/ends.h), so that a bio of a random load costs one lookup and no lock.
 * - A request enters the block layer's hash table only when a bio arrives that could join one (merge_offer()). A request that is
 *   dispatched before that costs nothing.
 *
 * The block layer merges only bios and requests of the same priority and the same cgroup.
 *
 * The hash table and q->last_merge belong to the disk, so one lock must protect them. A scheduler whose queues have a lock each instead
 * lets bios join the latest requests of one list (blk_bio_list_merge(), as kyber does). It never merges two requests.
 *
 * Polled bios also end here. The drive completes a polled request only when its task polls, so a task that does not poll could
 * keep all slots of a scheduler that bounds the requests in the drive. Such a bio is submitted again as one that an interrupt
 * completes: see merge_unpoll().
 */
#ifndef TAILGATE_ELEVATOR_MERGE_H
#define TAILGATE_ELEVATOR_MERGE_H

#include <trace/events/block.h>

#include "../../sched/pieces.h"
#include "instance.h"
#include "split.h"

/**
 * struct merge - one call of bio_merge
 * @bio: the bio
 * @nr_segs: number of its segments
 * @is_done: the bio was merged into a request
 * @piece: most sectors of a request that the bio may join; 0: no limit
 * @freed: the request that merge_join() merged into another one, to be freed, or NULL
 * @free: requests that merge_offer() merged into others, to be freed
 */
struct merge {
	struct bio *bio;
	unsigned int nr_segs;
	bool is_done;
	unsigned int piece;
	struct request *freed;
	struct list_head free;
};

/* Notes the end of a request that was queued, or that grew. */
static inline void merge_note(struct recent_ends *ends, struct request *rq)
{
	recent_ends_note(ends, blk_rq_pos(rq) + blk_rq_sectors(rq));
}

/* Called by this_scheduler.insert(), before other CPUs can see the request. @ends: the table in which a bio looks for this request. */
static inline void request_is_queued(struct recent_ends *ends, struct request *rq)
{
	trace_block_rq_insert(rq);
	merge_note(ends, rq);
}

/* Called by this_scheduler.merge(): makes a queued request visible to merging. */
static inline void merge_offer(struct merge *merge, struct request *rq)
{
	if ((req_op(rq) != REQ_OP_READ && req_op(rq) != REQ_OP_WRITE) ||
	    (rq->cmd_flags & REQ_NOMERGE_FLAGS) || (rq->rq_flags & RQF_NOMERGE_FLAGS))
		return;
	/* the block layer merges two requests without checking whether the result is larger than a piece */
	if (merge->piece || !blk_mq_sched_try_insert_merge(rq->q, rq, &merge->free))
		elv_rqhash_add(rq->q, rq);
}

/* Called by this_scheduler.merge(), after merge_offer(): lets the bio join a queued request. */
static inline void merge_join(struct merge *merge, struct request_queue *q)
{
	merge->is_done = blk_mq_sched_try_merge(q, merge->bio, merge->nr_segs, &merge->freed);
}

/* Hides a queued request from merging, before it is dispatched or taken to be split. */
static inline void merge_unhash(struct request *rq)
{
	if (rq->rq_flags & RQF_HASHED)
		elv_rqhash_del(rq->q, rq);
	if (rq->q->last_merge == rq)
		rq->q->last_merge = NULL;
}

static noinline bool merge_try(struct instance *instance, struct bio *bio, unsigned int nr_segs)
{
	struct merge merge = { .bio = bio, .nr_segs = nr_segs, .free = LIST_HEAD_INIT(merge.free) };
	struct request *rq, *next;
	bool run;

	if (this_scheduler.splits)
		merge.piece = this_scheduler.piece(&instance->algorithm, bio->bi_ioprio, false);
	run = this_scheduler.merge(&instance->algorithm, bio->bi_ioprio, &merge);
	if (merge.freed)
		blk_mq_free_request(merge.freed);
	list_for_each_entry_safe(rq, next, &merge.free, queuelist) {
		list_del_init(&rq->queuelist);
		blk_mq_free_request(rq);
	}
	if (run)
		blk_mq_run_hw_queues(instance->q, true);
	return merge.is_done;
}

/*
 * Submits a polled bio again as one that an interrupt completes. Return: true, the bio was taken.
 *
 * The block layer polls no bio without REQ_POLLED: its bi_cookie remains BLK_QC_T_NONE, and bio_poll() returns 0. A task that polls
 * for it spins until the interrupt has called bi_end_io. The block layer relies on this when it splits a polled bio.
 *
 * Clearing REQ_POLLED is not enough. The block layer may have chosen the hardware queue by this flag before it called us: the queue of
 * the request that a plug has in store, and in 6.1 the queue by cmd_flags. That is a queue for polling, which has no interrupts. So the
 * bio is put at the head of the bios that this task is submitting, and the block layer takes it as a new one. It was throttled and
 * counted already, so it does not go through submit_bio_noacct() again.
 *
 * REQ_NOMERGE keeps other polled bios out of the request. A plug would merge them without calling us, and on 6.1 a bio with
 * REQ_ALLOC_CACHE must not end in an interrupt; bio_clear_polled() clears that flag there.
 */
static noinline bool merge_unpoll(struct bio *bio)
{
	if (WARN_ON_ONCE(!current->bio_list))
		return false;
	bio_clear_polled(bio);
	bio->bi_opf |= REQ_NOMERGE;
	bio_list_add_head(current->bio_list, bio);
	return true;
}

/* bio_merge: true if the bio was merged into a request, is too large and is being split, or is submitted again. */
static bool merge_bio(struct request_queue *q, struct bio *bio, unsigned int nr_segs)
{
	struct instance *instance = instance_of(q);

	if (this_scheduler.splits && unlikely(this_scheduler.splits(&instance->algorithm)) &&
	    split_submitted(instance, bio))
		return true;
	if (unlikely(bio->bi_opf & REQ_POLLED))
		return merge_unpoll(bio);
	if (this_scheduler.bio_merge)
		return this_scheduler.bio_merge(q, bio, nr_segs);
	return this_scheduler.merge &&
	       recent_ends_may_be_at(&instance->ends, bio->bi_iter.bi_sector) &&
	       merge_try(instance, bio, nr_segs);
}

/* allow_merge: may this bio join the request? */
static bool merge_is_allowed(struct request_queue *q, struct request *rq, struct bio *bio)
{
	struct instance *instance = instance_of(q);

	return !this_scheduler.splits ||
	       !piece_is_exceeded(this_scheduler.piece(&instance->algorithm, req_get_ioprio(rq),
						       false),
				  blk_rq_sectors(rq) + bio_sectors(bio));
}

/* request_merged: a bio was merged into @rq. */
static void merge_grew(struct request_queue *q, struct request *rq, enum elv_merge type)
{
	merge_note(&instance_of(q)->ends, rq);
}

/* requests_merged: @next was merged into @rq. Both were queued. Called during merge_bio(). */
static void merge_joined(struct request_queue *q, struct request *rq, struct request *next)
{
	struct instance *instance = instance_of(q);

	merge_note(&instance->ends, rq);
	merge_unhash(next);
	this_scheduler.merge_remove(&instance->algorithm, next);
}

#endif
