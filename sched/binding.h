/* SPDX-License-Identifier: GPL-2.0-only */
/* What K2's bindings to the kernel and to the simulator have in common: what a request's I/O priority means. */
#ifndef TAILGATE_SCHED_BINDING_H
#define TAILGATE_SCHED_BINDING_H

#include "levels.h"

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

#endif
