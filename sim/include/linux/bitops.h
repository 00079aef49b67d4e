/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SIM_LINUX_BITOPS_H
#define SIM_LINUX_BITOPS_H

#include <linux/types.h>

#define BITS_PER_LONG (8 * (unsigned int)sizeof(long))
#define BITS_TO_LONGS(bits) (((bits) + BITS_PER_LONG - 1) / BITS_PER_LONG)
#define BIT(n) (1UL << (n))
#define BIT_ULL(n) (1ULL << (n))

static inline bool test_bit(unsigned long n, const unsigned long *map)
{
	return shared_load(&map[n / BITS_PER_LONG]) & BIT(n % BITS_PER_LONG);
}

static inline void set_bit(unsigned long n, unsigned long *map)
{
	shared_or(&map[n / BITS_PER_LONG], BIT(n % BITS_PER_LONG));
}

static inline void clear_bit(unsigned long n, unsigned long *map)
{
	shared_and(&map[n / BITS_PER_LONG], ~BIT(n % BITS_PER_LONG));
}

static inline bool test_and_set_bit(unsigned long n, unsigned long *map)
{
	unsigned long bit = BIT(n % BITS_PER_LONG);

	return shared_fetch_or(&map[n / BITS_PER_LONG], bit) & bit;
}

static inline bool test_and_clear_bit(unsigned long n, unsigned long *map)
{
	unsigned long bit = BIT(n % BITS_PER_LONG);

	return shared_fetch_and(&map[n / BITS_PER_LONG], ~bit) & bit;
}

/* the first set bit of [from, end); a result of @end or more means none */
static inline unsigned long find_next_bit(const unsigned long *map, unsigned long end,
					  unsigned long from)
{
	while (from < end) {
		unsigned long word = shared_load(&map[from / BITS_PER_LONG]) >>
				     from % BITS_PER_LONG;

		if (word)
			return from + (unsigned long)__builtin_ctzl(word);
		from += BITS_PER_LONG - from % BITS_PER_LONG;
	}
	return end;
}

static inline unsigned int hweight32(u32 word)
{
	return __builtin_popcount(word);
}

/* lowest set bit; undefined for 0 */
static inline unsigned long __ffs(unsigned long word)
{
	return __builtin_ctzl(word);
}

static inline unsigned int __ffs64(u64 word)
{
	return __builtin_ctzll(word);
}

/* highest set bit, counted from 1; 0 for 0 */
static inline int fls(unsigned int word)
{
	return word ? 32 - __builtin_clz(word) : 0;
}

static inline int fls64(u64 word)
{
	return word ? 64 - __builtin_clzll(word) : 0;
}

#endif
