/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What splitting means for merging: what was split is not joined together again. A piece is the most sectors that a request may
 * have; 0 is any number.
 */
#ifndef TAILGATE_SCHED_PIECES_H
#define TAILGATE_SCHED_PIECES_H

#include <linux/types.h>

/* Must a request of this size be split? */
static inline bool piece_is_exceeded(unsigned int piece, unsigned int sectors)
{
	return piece && sectors > piece;
}

/* May a request grow by a number of sectors? */
static inline bool piece_has_room(unsigned int piece, unsigned int sectors, unsigned int more)
{
	return !piece_is_exceeded(piece, sectors + more);
}

/* Does a bio of this size count as a piece, which nothing joins? Two of its size would be too large for one request. */
static inline bool piece_is_full(unsigned int piece, unsigned int sectors)
{
	return piece_is_exceeded(piece, 2 * sectors);
}

#endif
