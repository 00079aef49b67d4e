/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The least of many numbers that change independently: a mindicator (Y. Liu, V. Luchangco, M. Spear, "Mindicators: A Scalable
 * Approach to Quiescence", ICDCS 2013). Leaves hold the numbers. Each node above holds the least of the eight words below it, which
 * are one cache line.
 *
 * Why it is correct. A CPU that changes a leaf updates each node above it in turn: it reads the node, then the words below, and
 * writes the least of them if the node has not changed meanwhile. If that fails twice, another CPU has read the words after the leaf was
 * written, and has written the node (P. Jayanti, "f-arrays", PODC 2002). So when mindicator_set() returns, the root takes the leaf
 * into account. A node carries a version that changes with each write, even if the number stays the same: a CPU that read the words
 * before that write must fail to write the node. A version is used again after 4096 writes.
 *
 * Numbers wrap around. They are compared by their distance from a base that the caller gives; all are within half of the range of it.
 */
#ifndef TAILGATE_SCHED_MINDICATOR_H
#define TAILGATE_SCHED_MINDICATOR_H

#include <linux/atomic.h>
#include <linux/cache.h>
#include <linux/compiler.h>
#include <linux/types.h>

/* Words below a node. */
#define MINDICATOR_FAN 8
/* Levels of words, from the leaves to the root: 8^5 leaves at most. */
#define MINDICATOR_LEVELS_MAX 6
/* A word has a number in its high bits and a version in the low ones. */
#define MINDICATOR_VERSION_BITS 12
#define MINDICATOR_BITS (64 - MINDICATOR_VERSION_BITS)
/* The number of a leaf that has none, and of a tree of such leaves. */
#define MINDICATOR_NONE ((1ULL << MINDICATOR_BITS) - 1)

/**
 * struct mindicator - the least of the numbers of some leaves
 * @levels: levels of words; the last one is the root
 * @words: words of each level, whole cache lines of them
 */
struct mindicator {
	unsigned int levels;
	u64 *words[MINDICATOR_LEVELS_MAX];
};

/* Distance of a number above @base; a number below @base wraps to a large distance. */
static inline u64 mindicator_above(u64 number, u64 base)
{
	return (number - base) & MINDICATOR_NONE;
}

/* Number of words of all levels. */
static inline unsigned int mindicator_size(unsigned int leaves)
{
	unsigned int words = 0;

	do {
		leaves = (leaves + MINDICATOR_FAN - 1) / MINDICATOR_FAN;
		words += leaves * MINDICATOR_FAN;
	} while (leaves > 1);
	return words + MINDICATOR_FAN;
}

/* @words: mindicator_size() words, aligned to a cache line. */
static inline void mindicator_init(struct mindicator *m, unsigned int leaves, u64 *words)
{
	unsigned int i, count = leaves;

	for (i = 0; i < mindicator_size(leaves); i++)
		words[i] = MINDICATOR_NONE << MINDICATOR_VERSION_BITS;
	for (m->levels = 0;; count = (count + MINDICATOR_FAN - 1) / MINDICATOR_FAN) {
		m->words[m->levels++] = words;
		if (m->levels > 1 && count == 1)
			return;
		words += (count + MINDICATOR_FAN - 1) / MINDICATOR_FAN * MINDICATOR_FAN;
	}
}

/* The least number of all, or MINDICATOR_NONE. */
static inline u64 mindicator_least(const struct mindicator *m)
{
	return READ_ONCE(m->words[m->levels - 1][0]) >> MINDICATOR_VERSION_BITS;
}

/*
 * Orders reads of nodes. What this CPU has read before, a CPU that later writes a node must read after it, too. A read barrier is enough only
 * where a store becomes visible to all other CPUs at once.
 */
static inline void mindicator_rmb(void)
{
#if defined(__x86_64__) || defined(__aarch64__) || defined(__s390x__) || defined(__riscv)
	smp_rmb();
#else
	smp_mb();
#endif
}

/* Updates a node from the words below. Return: false if another CPU has changed it meanwhile. */
static inline bool mindicator_refresh(u64 *node, const u64 *below, u64 base)
{
	u64 was, least = MINDICATOR_NONE, number;
	unsigned int i;

	/* the last write of the words below is seen before the node is read: if cmpxchg() failed there, it was no barrier */
	mindicator_rmb();
	was = READ_ONCE(*node);
	mindicator_rmb(); /* a CPU that changes the node after this has read the words after this */
	for (i = 0; i < MINDICATOR_FAN; i++) {
		number = READ_ONCE(below[i]) >> MINDICATOR_VERSION_BITS;
		if (number != MINDICATOR_NONE &&
		    (least == MINDICATOR_NONE ||
		     mindicator_above(number, base) < mindicator_above(least, base)))
			least = number;
	}
	number = (was + 1) & ((1ULL << MINDICATOR_VERSION_BITS) - 1);
	return cmpxchg(node, was, least << MINDICATOR_VERSION_BITS | number) == was;
}

/**
 * mindicator_set() - change the number of a leaf
 * @m: the mindicator
 * @leaf: number of the leaf; one caller at a time for each leaf
 * @number: its new number, or MINDICATOR_NONE
 * @base: a number; all numbers are within half of the range of it
 *
 * Any context; wait-free. Return: the least number of all at some time during the call, or MINDICATOR_NONE.
 */
static inline u64 mindicator_set(struct mindicator *m, unsigned int leaf, u64 number, u64 base)
{
	unsigned int level, index = leaf;

	WRITE_ONCE(m->words[0][leaf], number << MINDICATOR_VERSION_BITS);
	smp_mb(); /* the words are read after the leaf is written */
	base -= (MINDICATOR_NONE + 1) / 2;
	for (level = 1; level < m->levels; level++) {
		const u64 *below = &m->words[level - 1][index / MINDICATOR_FAN * MINDICATOR_FAN];

		index /= MINDICATOR_FAN;
		if (!mindicator_refresh(&m->words[level][index], below, base))
			mindicator_refresh(&m->words[level][index], below, base);
	}
	return mindicator_least(m);
}

#endif
