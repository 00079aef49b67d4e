/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What K2's bindings to the kernel and to the simulator have in common: what a request's I/O priority means, and to whom K2's
 * limits apply. Included after k2.c.
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

/* Newer kernels keep hints in other bits of the priority, and user space chooses them: only three bits are the level. */
static inline unsigned int k2_level(unsigned int ioprio)
{
	return k2_is_rt(ioprio) ? ioprio & (K2_RT_LEVELS - 1) : K2_BACKGROUND;
}

/* As k2_prepare(). A request that the driver returned waits from now on, not from its start. */
static inline void k2_prepare_request(struct k2 *k2, struct k2_entry *e, unsigned int ioprio,
				      bool at_head, bool discards, u64 start_ns)
{
	k2_prepare(k2, e, k2_level(ioprio), at_head, discards,
		   e->state == K2_RETURNED ? k2_now(k2) : start_ns);
}

/* Most sectors in a request: what is larger is split before it is inserted, and by merging none becomes larger. 0: any number. */
static inline unsigned int k2_piece_for(const struct k2 *k2, unsigned int ioprio, bool discards)
{
	return k2_piece(k2, k2_level(ioprio), discards);
}

/* Scheduler tags of a hardware queue that tasks like this one may hold together. */
static inline unsigned int k2_limit_for(const struct k2 *k2, unsigned int ioprio, bool discards,
					unsigned int tags)
{
	return k2_is_rt(ioprio) ? tags : k2_limit(k2, tags, discards);
}

#endif
