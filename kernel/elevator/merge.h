/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Merging. A bio can join a request that ends where the bio begins, and the block layer finds such requests in a hash by
 * their ends. Two ideas keep this cheap for loads that never merge:
 *
 * - Where the latest requests end is kept in a table of bytes (struct ends), so that a bio of a random load costs one look
 *   and no lock.
 * - A request enters the block layer's hash only when a bio comes that could join one (merge_offer()). What is dispatched
 *   before the next bio comes never pays for it.
 *
 * The block layer merges only what has the same priority and the same cgroup.
 */
#ifndef TAILGATE_ELEVATOR_MERGE_H
#define TAILGATE_ELEVATOR_MERGE_H

#include <linux/hash.h>

#include "instance.h"

/*
 * A byte of the table equals one of the two latest generations if there may be a request that ends at a sector with this
 * hash. A generation lasts ENDS_GENERATION insertions: the table stays sparse, and requests older than two generations are
 * not joined any more.
 */
#define ENDS_BITS 12
#define ENDS_GENERATION 128

struct ends {
	u8 generation[1 << ENDS_BITS];
	u8 current_generation;
	unsigned int left; /* insertions in this generation */
};

/*
 * A request was inserted, or grew. Racing writers lose a chance to merge, nothing else: a count that one of them has
 * written back late is wrong, but never out of its range, where a generation would last for ever.
 */
static inline void ends_note(struct ends *ends, const struct request *rq)
{
	unsigned int left = READ_ONCE(ends->left);

	if (!left) {
		left = ENDS_GENERATION + 1;
		WRITE_ONCE(ends->current_generation, ends->current_generation + 1);
	}
	WRITE_ONCE(ends->left, left - 1);
	WRITE_ONCE(ends->generation[hash_64(blk_rq_pos(rq) + blk_rq_sectors(rq), ENDS_BITS)],
		   ends->current_generation);
}

/* Does a request end at this sector? False is certain, but for old requests. */
static inline bool ends_may_be_at(const struct ends *ends, sector_t sector)
{
	u8 age = READ_ONCE(ends->current_generation) -
		 READ_ONCE(ends->generation[hash_64(sector, ENDS_BITS)]);

	return age <= 1;
}

/**
 * struct merge - one call of bio_merge, from merge_begin() to merge_end()
 * @q: of the disk
 * @freed: the request that ended because two others were joined, or NULL
 * @free: requests that ended in merge_offer()
 */
struct merge {
	struct request_queue *q;
	struct request *freed;
	struct list_head free;
};

static inline void merge_begin(struct merge *merge, struct request_queue *q)
{
	merge->q = q;
	merge->freed = NULL;
	INIT_LIST_HEAD(&merge->free);
}

/* Under the lock that keeps @rq staged: makes it visible to merges. With @alone it joins no other request. */
static inline void merge_offer(struct merge *merge, struct request *rq, bool alone)
{
	if ((req_op(rq) != REQ_OP_READ && req_op(rq) != REQ_OP_WRITE) ||
	    (rq->cmd_flags & REQ_NOMERGE_FLAGS) || (rq->rq_flags & RQF_NOMERGE_FLAGS))
		return;
	if (alone || !blk_mq_sched_try_insert_merge(merge->q, rq, &merge->free))
		elv_rqhash_add(merge->q, rq);
}

/* Under the same lock: true if the bio became part of a request. */
static inline bool merge_bio(struct merge *merge, struct bio *bio, unsigned int nr_segs)
{
	return blk_mq_sched_try_merge(merge->q, bio, nr_segs, &merge->freed);
}

/* Without the lock: ends what was merged away. */
static inline void merge_end(struct merge *merge)
{
	struct request *rq, *next;

	if (merge->freed)
		blk_mq_free_request(merge->freed);
	list_for_each_entry_safe(rq, next, &merge->free, queuelist) {
		list_del_init(&rq->queuelist);
		blk_mq_free_request(rq);
	}
}

/* Under the same lock, before a request is dispatched or merged away: hides it from merges. */
static inline void merge_unhash(struct request *rq)
{
	if (rq->rq_flags & RQF_HASHED)
		elv_rqhash_del(rq->q, rq);
	if (rq->q->last_merge == rq)
		rq->q->last_merge = NULL;
}

#endif
