/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SIM_LINUX_MATH64_H
#define SIM_LINUX_MATH64_H

#include <linux/types.h>

static inline u64 div_u64(u64 dividend, u32 divisor)
{
	return dividend / divisor;
}

static inline u64 div64_u64(u64 dividend, u64 divisor)
{
	return dividend / divisor;
}

static inline u64 div_u64_rem(u64 dividend, u32 divisor, u32 *remainder)
{
	*remainder = dividend % divisor;
	return dividend / divisor;
}

static inline u64 mul_u64_u32_shr(u64 a, u32 factor, unsigned int shift)
{
	return (unsigned __int128)a * factor >> shift;
}

#endif
