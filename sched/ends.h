/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Finds out without a lock whether a bio may be back-merged: is a queued request likely to end where the bio begins? A table,
 * indexed by a hash of the sector, records where recently inserted or extended requests end. With random I/O most bios cost one
 * look-up and no lock.
 *
 * Each entry is the generation (modulo 256) in which a request that ends at such a sector was recorded. A generation lasts 128
 * insertions. Only entries of the two latest generations count, so the table stays sparse and older requests are not merged into.
 */
#ifndef TAILGATE_SCHED_ENDS_H
#define TAILGATE_SCHED_ENDS_H

#include <linux/compiler.h>
#include <linux/types.h>

#define RECENT_ENDS_BITS 12
#define RECENT_ENDS_GENERATION_BITS 7

/**
 * struct recent_ends - where the latest requests of a drive end. A zeroed one takes any sector for an end at first, which costs a search
 * @noted: number of requests recorded
 * @generations: latest generation in which a request's end was recorded, by the hash of its end sector
 */
struct recent_ends {
	unsigned int noted;
	u8 generations[1 << RECENT_ENDS_BITS];
};

static inline unsigned int recent_ends_hash(u64 sector)
{
	return sector * 0x9e3779b97f4a7c15ULL >> (64 - RECENT_ENDS_BITS); /* 2^64 / golden ratio */
}

/* Records that a request which ends at @sector was inserted or extended. Racing writers may lose a record: that costs a merge. */
static inline void recent_ends_note(struct recent_ends *ends, u64 sector)
{
	unsigned int noted = READ_ONCE(ends->noted) + 1;

	WRITE_ONCE(ends->noted, noted);
	WRITE_ONCE(ends->generations[recent_ends_hash(sector)],
		   noted >> RECENT_ENDS_GENERATION_BITS);
}

/* May a recent request end at @sector? True may be a hash collision; false may be wrong for old requests and lost records. */
static inline bool recent_ends_may_be_at(const struct recent_ends *ends, u64 sector)
{
	u8 age = (READ_ONCE(ends->noted) >> RECENT_ENDS_GENERATION_BITS) -
		 READ_ONCE(ends->generations[recent_ends_hash(sector)]);

	return age <= 1;
}

#endif
