/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How the bounds estimate: rates in fixed point, and statistics that follow what they measure and keep one number each. All are a few
 * instructions, so that they can be brought up to date with every request.
 */
#ifndef TAILGATE_SCHED_ESTIMATE_H
#define TAILGATE_SCHED_ESTIMATE_H

#include <linux/kernel.h>
#include <linux/math64.h>

/* A rate is in sectors a ns, shifted left by this. */
#define RATE_SHIFT 32

static inline u32 rate_of(u64 sectors, u64 ns)
{
	return min_t(u64, div64_u64(sectors << RATE_SHIFT, max_t(u64, ns, 1)), U32_MAX);
}

/* Sectors that a rate makes in some time. */
static inline u64 rate_sectors(u32 rate, u64 ns)
{
	return mul_u64_u32_shr(ns, rate, RATE_SHIFT);
}

/* Time that some sectors take at a rate. */
static inline u64 rate_ns(u32 rate, u64 sectors)
{
	return div_u64(sectors << RATE_SHIFT, max(rate, 1U));
}

/* The least of about the latest 2^shift samples: with each sample it grows by that share, so that an old one is forgotten. 0: none yet. */
static inline u64 recent_min(u64 least, u64 sample, unsigned int shift)
{
	return least ? min(sample, least + (least >> shift) + 1) : sample;
}

/* The largest of about the latest 2^shift samples. */
static inline u64 recent_max(u64 most, u64 sample, unsigned int shift)
{
	return max(sample, most - (most >> shift));
}

/* The median: each sample moves it by one step, a share of 2^-shift, to its own side (stochastic approximation). */
static inline u64 running_median(u64 median, u64 sample, unsigned int shift)
{
	return sample > median ? median + (median >> shift) + 1 : median - (median >> shift);
}

#endif
