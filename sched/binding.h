/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared by K2's bindings to the kernel and to the simulator: maps I/O priorities to levels and says which requests K2's limits
 * apply to. Included after k2.c.
 */
#ifndef TAILGATE_SCHED_BINDING_H
#define TAILGATE_SCHED_BINDING_H

#include "k2.h"

/* An I/O priority is class << 13 | hints | level; class 1 is real time. */
#define K2_IOPRIO_CLASS(ioprio) ((ioprio) >> 13 & 7)
#define K2_IOPRIO_RT 1

static inline bool k2_is_rt(unsigned int ioprio)
{
	return K2_IOPRIO_CLASS(ioprio) == K2_IOPRIO_RT;
}

/* Only the low three bits are the level: newer kernels keep hints, which user space chooses, in other bits of the priority. */
static inline unsigned int k2_level(unsigned int ioprio)
{
	return k2_is_rt(ioprio) ? ioprio & (K2_RT_LEVELS - 1) : K2_BACKGROUND;
}

/* Calls k2_prepare(). The wait of a request that the driver returned begins now, not at @start_ns. */
static inline void k2_prepare_request(struct k2 *k2, struct k2_entry *e, unsigned int ioprio,
				      bool at_head, bool discards, u64 start_ns)
{
	k2_prepare(k2, e, k2_level(ioprio), at_head, discards,
		   e->state == K2_RETURNED ? k2_now(k2) : start_ns);
}

/* Most sectors in a request; 0: any number. A larger request is split before insertion, and merging does not exceed this size. */
static inline unsigned int k2_piece_for(const struct k2 *k2, unsigned int ioprio, bool discards)
{
	return k2_piece(k2, k2_level(ioprio), discards);
}

/*
 * Must k2_limit_for() be applied now? A limit costs a search for a tag, and prevents the block layer from allocating tags in batches. While
 * lists are blocked, requests may be queued that no dispatcher has collected.
 */
static inline bool k2_limits_tags(const struct k2 *k2, bool discards, unsigned int tags)
{
	return tags < READ_ONCE(k2->tags_enough) || READ_ONCE(k2->levels.filled) ||
	       atomic_read(&k2->blocked) || (discards && READ_ONCE(k2->discard_sectors));
}

/* Most scheduler tags of a hardware queue that tasks of this priority may hold together. */
static inline unsigned int k2_limit_for(const struct k2 *k2, unsigned int ioprio, bool discards,
					unsigned int tags)
{
	return k2_is_rt(ioprio) ? tags : k2_limit(k2, tags, discards);
}

#endif
