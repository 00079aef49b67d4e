/* SPDX-License-Identifier: GPL-2.0-only */
/* Random numbers that are the same for a seed on any host (xorshift64*), and a main() that plays seeds. */
#include <stdbool.h>
#include <stdlib.h>

#include <linux/types.h>

static _Thread_local u64 state;

static void seed_begin(u64 seed)
{
	state = (seed + 1) * 0x9e3779b97f4a7c15ULL;
}

/* 31 bits. */
static unsigned int draw_bits(void)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return state * 0x2545f4914f6cdd1dULL >> 33;
}

/* 0 to @n - 1. */
static unsigned int draw(unsigned int n)
{
	return draw_bits() % n;
}

/* From 0 to below 1. */
static double uniform(void)
{
	return draw_bits() / 2147483648.0;
}

/* PROGRAM FIRST_SEED COUNT: until @check, which prints what is wrong, returns false. Return: exit status. */
static int play_seeds(int argc, char **argv, bool (*check)(unsigned long long seed))
{
	unsigned long long first, count, seed;

	if (argc != 3)
		return 2;
	first = strtoull(argv[1], NULL, 10);
	count = strtoull(argv[2], NULL, 10);
	for (seed = first; seed < first + count; seed++) {
		seed_begin(seed);
		if (!check(seed))
			return 1;
	}
	return 0;
}
