/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Keeps merging from undoing splitting. @piece is the most sectors that a request may have; 0: any number.
 */
#ifndef TAILGATE_SCHED_PIECES_H
#define TAILGATE_SCHED_PIECES_H

#include <linux/types.h>

/* Is a request of this size too large? It is split, or does not grow to this size. */
static inline bool piece_is_exceeded(unsigned int piece, unsigned int sectors)
{
	return piece && sectors > piece;
}

/* Is a bio larger than half a piece? It is then not merged: two of this size would exceed the limit of a request. */
static inline bool piece_is_full(unsigned int piece, unsigned int sectors)
{
	return piece_is_exceeded(piece, 2 * sectors);
}

#endif
