/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A hash table of queued requests by their end, for back merges (the kernel's elv_rqhash). A scheduler embeds a node in its
 * private data of a request.
 */
#ifndef TAILGATE_SIM_ENDS_H
#define TAILGATE_SIM_ENDS_H

#include "scheduler.h"

#define ENDS_BITS 10

struct ends_node {
	struct ends_node *next, **at; /* @at: the pointer to this node; NULL: not in a table */
};

/* Empty when zeroed. */
struct ends {
	struct ends_node *buckets[1 << ENDS_BITS];
};

static inline struct ends_node **ends_at(struct ends *ends, u64 sector)
{
	return &ends->buckets[sector * 0x9e3779b97f4a7c15u >> (64 - ENDS_BITS)];
}

/* The latest node comes first in its bucket. */
static inline void ends_add(struct ends *ends, struct ends_node *node, u64 sector)
{
	struct ends_node **bucket = ends_at(ends, sector);

	node->next = *bucket;
	node->at = bucket;
	if (node->next)
		node->next->at = &node->next;
	*bucket = node;
}

static inline void ends_delete(struct ends_node *node)
{
	if (!node->at)
		return;
	*node->at = node->next;
	if (node->next)
		node->next->at = node->at;
	node->at = NULL;
}

/*
 * May a bio be merged into @rq (blk_rq_merge_ok())? Both must have the same operation, priority and cgroup, neither may be FUA
 * (REQ_NOMERGE_FLAGS), and the result must not exceed @max_sectors.
 */
static inline bool sim_may_grow(const struct sim_request *rq, const struct sim_bio *bio,
				u32 max_sectors)
{
	return (bio->op == SIM_READ || bio->op == SIM_WRITE) && rq->op == bio->op &&
	       rq->ioprio == bio->ioprio && rq->cgroup == bio->cgroup && !rq->through &&
	       !bio->through && rq->sectors + bio->sectors <= max_sectors;
}

#endif
