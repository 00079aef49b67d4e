/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Measures, while the drive is in use, the cost of a write relative to a read of the same size.
 *
 * The rule. A drive that is always busy divides its time between reads and writes. If it reads r and writes w sectors a second, then
 * r / R + w / W = 1, where R and W are the rates of reads alone and of writes alone. So a write costs R / W times as much as a read of its
 * size. At that price, flows of equal weight get equal parts of the drive's time: each is slowed by the same factor, compared with running
 * alone.
 *
 * How it is measured. R / W is the slope of that line, so two mixes of reads and writes are enough to compute it. Where reads and writes
 * compete, the price decides the mix. A measurement has four windows, with prices of 1/4, 4, 4 and 1/4 times the cost found last. The new
 * cost is the increase of the read rate from the low to the high price, divided by the decrease of the write rate. In this order of the
 * windows, a drive or a load that steadily becomes faster or slower affects both prices alike, and readers gain in two windows what writers
 * gain in the others. If the new cost differs from the old one, the next measurement begins at once, otherwise after ten seconds.
 *
 * Why the mix must change. K2's bound on the debt of writes (bounds/debt.h) learns the rate at which the drive programs acknowledged
 * writes. While the drive also reads, that rate is w, not W, and r is not R. R and W could be measured with reads alone and writes alone,
 * but a load that always has both would then never be measured.
 *
 * Write buffers. A drive acknowledges a write when it is in its buffer. Each window leaves out its first ticks, in which the buffer fills
 * or drains after the change of price. After that, writes are acknowledged at the rate at which they are programmed. A cache that takes
 * longer to fill than a window, such as an SLC cache of some GiB, counts as part of the drive: writes are found to be cheap while it has
 * room, and expensive by the next measurement after it is full.
 *
 * When a measurement does not count. It counts only if requests waited nearly all the time, without a pause of the load, as otherwise the
 * load limited the rates; if each window had both reads and writes; and if the mix changed with the price. So the cost does not change with
 * reads alone, with writes alone, if all flows have the same mix, or if writes come so seldom that a window has none.
 *
 * Limits. There is one cost for all sizes and addresses: the cost of a sector in the requests of the present load. If reads and writes slow
 * each other down beyond sharing the time, or if the bound D limits the throughput of the drive, the line is bent. The cost is then the
 * mean slope between the two points, not R / W.
 */
#ifndef TAILGATE_SCHED_WRITE_COST_H
#define TAILGATE_SCHED_WRITE_COST_H

#include "../bounds/estimate.h"
#include "search.h"

/* Range of the cost, in percent. */
#define WRITE_COST_MIN 1
#define WRITE_COST_MAX 10000
/* Factor between the cost and the low and high prices of a measurement. A large one averages over a line that is bent. */
#define WRITE_COST_TIMES 4
/* One measurement changes the cost by this factor at most. */
#define WRITE_COST_STEP 4
/* Windows of a measurement. */
#define WRITE_COST_WINDOWS 4
/* Ticks at the begin of a window that are left out, for the write buffer to fill or drain. */
#define WRITE_COST_SETTLES 4
/* The rest of a window: least and most ticks, least requests, and least requests as a multiple of those that may be in the drive. */
#define WRITE_COST_TICKS_MIN 16
#define WRITE_COST_TICKS_MAX 128
#define WRITE_COST_REQUESTS 1024
#define WRITE_COST_ROUNDS 16

/**
 * struct write_cost - what a write costs
 * @pct: the cost, in percent of a read of the same size
 * @is_found: a measurement has confirmed @pct
 * @rest: ticks until the next measurement
 * @window: 1 to WRITE_COST_WINDOWS; 0: no measurement is running
 * @ticks: ticks of the window so far
 * @waited: ticks of the window at which a request waited
 * @begin: the sample at which counting began in the window
 * @read: rate of reads at the low price and at the high price, each the sum of two windows
 * @written: rate of writes at the low price and at the high price, each the sum of two windows
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

/* The cost measured in the windows, in percent; 0: none, as the mix of reads and writes did not change with the price. */
static inline unsigned int write_cost_measured(const struct write_cost *c)
{
	s64 read = c->read[1] - c->read[0], written = c->written[0] - c->written[1];

	if (4 * c->read[1] * c->written[0] < 5 * c->read[0] * c->written[1])
		return 0;
	/* if nearly all requests are of one kind at both prices, its rate changes little, and noise may hide the change */
	if (read <= 0)
		return WRITE_COST_MIN;
	if (written <= 0)
		return WRITE_COST_MAX;
	return clamp_t(u64, div64_u64(100 * read, written), WRITE_COST_MIN, WRITE_COST_MAX);
}

/* Ends a measurement: sets the cost. */
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

/* Begins a measurement if both reads and writes were dispatched since the last tick, and a request waits. */
static inline void write_cost_look(struct write_cost *c, const struct search_sample *sample)
{
	u64 sectors = sample->sectors - c->begin.sectors;
	u64 written = sample->written - c->begin.written;

	c->window = c->ticks && sample->waits && written && written < sectors;
	c->ticks = !c->window;
	c->begin = *sample;
	c->read[0] = c->read[1] = c->written[0] = c->written[1] = 0;
}

/* Call about 30 times a second while requests are inserted. write_cost_value() may have changed afterwards. */
static inline void write_cost_tick(struct write_cost *c, const struct search_sample *sample)
{
	u64 requests, read, written, ns;
	unsigned int ticks;

	if (c->rest) {
		c->rest--;
		c->ticks = 0;
		return;
	}
	if (search_is_after_pause(sample))
		c->window = c->ticks = 0;
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
	written = sample->written - c->begin.written;
	read = sample->sectors - c->begin.sectors - written;
	if (c->waited * 16 < ticks * 15 || !read || !written) {
		c->window = c->ticks = 0; /* the load limited the rates, not the drive */
		return;
	}
	ns = sample->now_ns - c->begin.now_ns;
	c->written[write_cost_is_high(c)] += rate_of(written, ns);
	c->read[write_cost_is_high(c)] += rate_of(read, ns);
	c->ticks = 0;
	if (c->window++ == WRITE_COST_WINDOWS)
		write_cost_decide(c);
}

#endif
