/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a write costs the drive beside a read of the same size, found while running.
 *
 * The rule. A drive that is busy all the time divides that time between reads and writes: of r sectors read and w written in a second, r / R + w / W
 * = 1, where R and W are the rates of reads alone and of writes alone. So a write costs R / W times as much as a read of its size. At that
 * price, flows of equal weight get equal parts of the drive's time: each is slowed by the same factor against running alone.
 *
 * How it is measured. R / W is the slope of that line, and two points on it tell the slope: two mixes of reads and writes. Where reads and writes
 * compete, the price decides the mix. So a measurement has four windows, in which the price is a fourth of the cost that was found last, four
 * times that, four times, and a fourth. The cost is what was read more at the high price over what was written less. In that order a drive, or
 * load, that becomes faster or slower steadily changes both points alike; and what readers gain in two windows, writers gain in the others.
 * If the price was not the cost, it is measured again at once; otherwise after ten seconds, as the drive may have changed.
 *
 * Why both rates are needed. K2's bound on the debt of writes (bounds/debt.h) learns the rate at which the drive works acknowledged writes off.
 * Beside reads, that is w, what they leave of W, and r does not say what R is. Only a change of the mix tells them apart. With reads alone or
 * writes alone R or W could be seen directly, but a load that always has both would never be measured.
 *
 * Write buffers. A drive acknowledges a write when it is in its buffer. Each window leaves out the first ticks, in which the buffer fills, or
 * is worked off, after the change of price; from then on writes are acknowledged at the rate at which they are worked off. A cache that takes
 * longer to fill than the windows, such as an SLC cache of some GiB, is part of the drive: writes are as cheap as they are while it has room, and the
 * next measurement after that finds them expensive.
 *
 * When nothing is learned. A measurement counts only if something waited all the time, as otherwise the load is the limit, and if the mix has
 * changed with the price. With reads alone, writes alone, or flows that all have the same mix, the price decides nothing, and the cost stays as
 * it is; so it does in bursts of writes shorter than a measurement.
 *
 * What it does not do. There is one cost for all sizes and addresses: that of a sector in the requests that go at the time. Where reads and
 * writes slow each other down beyond sharing the time, or the bound D keeps the drive from doing what it does alone, the line is bent, and the cost
 * is its mean slope between the two points, not R / W.
 */
#ifndef TAILGATE_SCHED_WRITE_COST_H
#define TAILGATE_SCHED_WRITE_COST_H

#include "../bounds/estimate.h"
#include "search.h"

/* Range of the cost, in percent. */
#define WRITE_COST_MIN 1
#define WRITE_COST_MAX 10000
/* The price is lower and higher than the cost by this factor while it is measured. A large one averages over a line that is bent. */
#define WRITE_COST_TIMES 4
/* One measurement changes the cost by this factor at most. */
#define WRITE_COST_STEP 4
/* Windows of a measurement. */
#define WRITE_COST_WINDOWS 4
/* Ticks of a window that are left out: the time that the drive has to fill its buffer, or to work it off. */
#define WRITE_COST_SETTLES 4
/* The rest of a window: ticks at least and at most, least requests, and least requests as a multiple of what may be in the drive. */
#define WRITE_COST_TICKS_MIN 16
#define WRITE_COST_TICKS_MAX 128
#define WRITE_COST_REQUESTS 1024
#define WRITE_COST_ROUNDS 16

/**
 * struct write_cost - what a write costs
 * @pct: the cost, in percent of a read of the same size
 * @is_found: a measurement has not changed it
 * @rest: ticks until it is measured again
 * @window: 1 to WRITE_COST_WINDOWS; 0: none is being measured
 * @ticks: of the window
 * @waited: ticks at which something waited
 * @begin: the sample at which counting began in the window
 * @read: rate of reads at the low price and at the high price, each the sum of two windows
 * @written: rate of writes
 */
struct write_cost {
	unsigned int pct, rest;
	bool is_found;
	unsigned int window, ticks, waited;
	struct search_sample begin;
	u64 read[2], written[2];
};

static inline void write_cost_begin(struct write_cost *c, unsigned int pct)
{
	*c = (struct write_cost){ .pct = pct };
}

/* Is this a window with the high price? */
static inline bool write_cost_is_high(const struct write_cost *c)
{
	return c->window == 2 || c->window == 3;
}

/* The price to charge now, in percent. */
static inline unsigned int write_cost_value(const struct write_cost *c)
{
	if (!c->window)
		return c->pct;
	return write_cost_is_high(c) ?
		       min_t(unsigned int, c->pct *WRITE_COST_TIMES, WRITE_COST_MAX) :
		       max_t(unsigned int, c->pct / WRITE_COST_TIMES, WRITE_COST_MIN);
}

/* The cost that the windows show, in percent; 0: none, as the mix of reads and writes has not changed with the price. */
static inline unsigned int write_cost_measured(const struct write_cost *c)
{
	s64 read = c->read[1] - c->read[0], written = c->written[0] - c->written[1];

	if (4 * c->read[1] * c->written[0] < 5 * c->read[0] * c->written[1])
		return 0;
	/* the kind that has nearly all of the drive at both prices changes little, and noise may hide that */
	if (read <= 0)
		return WRITE_COST_MIN;
	if (written <= 0)
		return WRITE_COST_MAX;
	return clamp_t(u64, div64_u64(100 * read, written), WRITE_COST_MIN, WRITE_COST_MAX);
}

/* A measurement is over. */
static inline void write_cost_decide(struct write_cost *c)
{
	unsigned int measured = write_cost_measured(c), was = c->pct;

	c->window = 0;
	if (measured)
		c->pct = clamp_t(unsigned int, measured, was / WRITE_COST_STEP,
				 was * WRITE_COST_STEP);
	if (8 * c->pct <= 9 * was && 8 * c->pct >= 7 * was) {
		c->is_found = true;
		c->rest = SEARCH_REST;
	}
}

/* Begins a measurement if reads and writes went since the last tick, and something waits. */
static inline void write_cost_look(struct write_cost *c, const struct search_sample *sample)
{
	u64 sectors = sample->sectors - c->begin.sectors;
	u64 written = sample->written - c->begin.written;

	c->window = c->ticks && sample->waits && written && written < sectors;
	c->ticks = !c->window;
	c->begin = *sample;
	c->read[0] = c->read[1] = c->written[0] = c->written[1] = 0;
}

/* A tick, some 30 a second while requests come. Afterwards write_cost_value() may have changed. */
static inline void write_cost_tick(struct write_cost *c, const struct search_sample *sample)
{
	unsigned int ticks;
	u64 requests, written, ns;

	if (c->rest) {
		c->rest--;
		c->ticks = 0;
		return;
	}
	if (!c->window) {
		write_cost_look(c, sample);
		return;
	}
	if (++c->ticks <= WRITE_COST_SETTLES) {
		c->begin = *sample;
		c->waited = 0;
		return;
	}
	c->waited += sample->waits;
	requests = sample->requests - c->begin.requests;
	ticks = c->ticks - WRITE_COST_SETTLES;
	if (ticks < WRITE_COST_TICKS_MIN ||
	    (requests < max_t(u64, WRITE_COST_REQUESTS, WRITE_COST_ROUNDS * sample->depth) &&
	     ticks < WRITE_COST_TICKS_MAX))
		return;
	if (c->waited * 16 < ticks * 15) {
		c->window = c->ticks = 0; /* the load is the limit */
		return;
	}
	ns = sample->now_ns - c->begin.now_ns;
	written = sample->written - c->begin.written;
	c->written[write_cost_is_high(c)] += rate_of(written, ns);
	c->read[write_cost_is_high(c)] += rate_of(sample->sectors - c->begin.sectors - written, ns);
	c->ticks = 0;
	if (c->window++ == WRITE_COST_WINDOWS)
		write_cost_decide(c);
}

#endif
