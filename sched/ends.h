/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which queued request may a bio join? One that ends where the bio begins, and that was inserted, or grew, a short time ago.
 * A table of bytes notes where the latest requests end, so that a bio of a random load costs one look and no lock.
 *
 * A byte equals one of the two latest generations if there may be a request that ends at a sector with this hash. A generation
 * lasts 128 insertions: the table stays sparse, and requests older than two generations are not joined any more.
 */
#ifndef TAILGATE_SCHED_ENDS_H
#define TAILGATE_SCHED_ENDS_H

#include <linux/compiler.h>
#include <linux/types.h>

#define RECENT_ENDS_BITS 12
#define RECENT_ENDS_GENERATION_BITS 7

/**
 * struct recent_ends - where the latest requests of a drive end; zeroed it is empty
 * @noted: requests that were noted
 * @generations: when a request was noted last that ends at a sector, by the sector's hash
 */
struct recent_ends {
	unsigned int noted;
	u8 generations[1 << RECENT_ENDS_BITS];
};

static inline unsigned int recent_ends_hash(u64 sector)
{
	return sector * 0x9e3779b97f4a7c15ULL >> (64 - RECENT_ENDS_BITS); /* 2^64 / golden ratio */
}

/* A request that ends at this sector was inserted, or grew. Of racing writers one may lose its chance to merge. */
static inline void recent_ends_note(struct recent_ends *ends, u64 sector)
{
	unsigned int noted = READ_ONCE(ends->noted) + 1;

	WRITE_ONCE(ends->noted, noted);
	WRITE_ONCE(ends->generations[recent_ends_hash(sector)],
		   noted >> RECENT_ENDS_GENERATION_BITS);
}

/* Does a request end at this sector? False is certain, but for old requests. */
static inline bool recent_ends_may_be_at(const struct recent_ends *ends, u64 sector)
{
	u8 age = (READ_ONCE(ends->noted) >> RECENT_ENDS_GENERATION_BITS) -
		 READ_ONCE(ends->generations[recent_ends_hash(sector)]);

	return age <= 1;
}

#endif
