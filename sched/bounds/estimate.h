/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Estimators of the bounds: fixed-point rates, and running statistics that keep one number each. Each update is a few instructions, so it
 * can be done for every request.
 */
#ifndef TAILGATE_SCHED_ESTIMATE_H
#define TAILGATE_SCHED_ESTIMATE_H

#include <linux/kernel.h>
#include <linux/math64.h>

/* Rates are fixed-point numbers: sectors per ns, shifted left by this many bits. */
#define RATE_SHIFT 32

static inline u32 rate_of(u64 sectors, u64 ns)
{
	return min_t(u64, div64_u64(sectors << RATE_SHIFT, max_t(u64, ns, 1)), U32_MAX);
}

/* Sectors served in @ns at a rate. */
static inline u64 rate_sectors(u32 rate, u64 ns)
{
	return mul_u64_u32_shr(ns, rate, RATE_SHIFT);
}

/* Time in ns to serve @sectors at a rate. */
static inline u64 rate_ns(u32 rate, u64 sectors)
{
	return div_u64(sectors << RATE_SHIFT, max(rate, 1U));
}

/*
 * Minimum of about the latest 2^shift samples: it grows by a factor of 1 + 2^-shift per sample, so old samples lapse. 0: none yet. Any
 * context; two CPUs at a time may lose a sample.
 */
static inline void recent_min(u64 *least, u64 sample, unsigned int shift)
{
	u64 was = READ_ONCE(*least);

	WRITE_ONCE(*least, was ? min(sample, was + (was >> shift) + 1) : sample);
}

/* Maximum of about the latest 2^shift samples: it shrinks by a factor of 1 - 2^-shift per sample. */
static inline u64 recent_max(u64 most, u64 sample, unsigned int shift)
{
	return max(sample, most - min((most >> shift) + 1, most));
}

/* Running median: each sample moves it towards itself by a factor of 1 +/- 2^-shift (stochastic approximation). */
static inline u64 running_median(u64 median, u64 sample, unsigned int shift)
{
	return sample > median ? median + (median >> shift) + 1 : median - (median >> shift);
}

#endif
