/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Automatic choice of a bound: the least value with which the drive reaches nearly its full throughput. A measurement compares the
 * throughput with a value to that with four times the value, which stands for no bound. The two alternate, so that a change of the load
 * during the measurement affects both. A value that is enough, or too small, by little is measured longer. Values lie on a logarithmic scale
 * of eight steps for each doubling. The search goes up while a value is too small, or down while it is enough. Once it knows one of each it
 * bisects the steps between them, and then rests.
 *
 * A measurement counts only if requests waited nearly all the time, as otherwise the load limited the throughput, not the drive; and if each
 * window moved data, as requests that move none, such as discards, do not say what the throughput is. It begins again after a pause of the
 * load: no tick comes in a pause to see that nothing waits.
 */
#ifndef TAILGATE_SCHED_SEARCH_H
#define TAILGATE_SCHED_SEARCH_H

#include <linux/kernel.h>
#include <linux/math64.h>
#include <linux/types.h>

/* Strides that the search moves at once before it bisects: the larger number if four times the value gains over LARGE_GAIN per mille. */
#define SEARCH_STRIDES 2
#define SEARCH_LARGE_STRIDES 6
#define SEARCH_LARGE_GAIN 150
/*
 * Windows of one measurement: one with the value, two with four times the value, one with the value. In this order a load that grows
 * steadily is not taken for a gain.
 */
#define SEARCH_WINDOWS 4
/*
 * A window lasts until SEARCH_REQUESTS requests, and SEARCH_ROUNDS times the requests that may be in the drive with the value, were
 * dispatched, within SEARCH_TICKS_MIN to SEARCH_TICKS_MAX ticks.
 */
#define SEARCH_REQUESTS 8192
#define SEARCH_ROUNDS 256
#define SEARCH_TICKS_MIN 4
#define SEARCH_TICKS_MAX 256
/*
 * A gain is in doubt if it is off the limit by no more than this many eighths of the limit. It is then measured up to SEARCH_REPEATS times,
 * and all of that counts. A drive's rare long requests move a single measurement by as much, and the value by a quarter.
 */
#define SEARCH_DOUBT_EIGHTHS 3
#define SEARCH_REPEATS 4
/* Ticks from the end of a search to the next one: ten seconds. */
#define SEARCH_REST 300
/* Most periods between two ticks without a pause of the load. One that keeps the drive busy inserts requests more often. */
#define SEARCH_PERIODS_MAX 3

/**
 * struct search_limits - range and accuracy of a search; step n stands for the value 2^(n/8)
 * @first: step to begin with
 * @least: step of the least value
 * @most: step of the greatest value
 * @stride: accuracy: the search ends when a value that is enough is this many steps above one that is too small
 * @gain: a value is enough if four times the value raises the throughput by at most this, per mille
 */
struct search_limits {
	unsigned int first, least, most, stride, gain;
};

/**
 * struct search_sample - state at a tick
 * @now_ns: time
 * @requests: requests dispatched since the start
 * @sectors: sectors of these requests
 * @written: the part of @sectors that was written
 * @depth: most requests in the drive at a time
 * @periods: periods since the tick before
 * @waits: a request waits for virtual time or for a token
 */
struct search_sample {
	u64 now_ns, requests, sectors, written;
	unsigned int depth, periods;
	bool waits;
};

/**
 * struct search - one search
 * @limits: range and accuracy
 * @step: step of the value that is measured
 * @too_small: the greatest step found to be too small in this search; UINT_MAX: none
 * @enough: the least step found to be enough in this search; UINT_MAX: none
 * @rest: ticks until the next search
 * @window: 0 to SEARCH_WINDOWS - 1
 * @ticks: ticks of the window; the first one is left out, for requests dispatched before the window
 * @waited: ticks of the window at which a request waited
 * @begin: sample at the begin of the window
 * @repeats: times that the value was measured before
 * @rate: sectors a second with the value and with four times the value, each the sum of all windows
 */
struct search {
	const struct search_limits *limits;
	unsigned int step, too_small, enough, rest;
	unsigned int window, ticks, waited, repeats;
	struct search_sample begin;
	u64 rate[2];
};

/*
 * Did the load pause before this tick? If a request waits now, it has waited since the tick before, as nothing was inserted meanwhile: then
 * the drive was slow, and that is part of its throughput.
 */
static inline bool search_is_after_pause(const struct search_sample *sample)
{
	return sample->periods > SEARCH_PERIODS_MAX && !sample->waits;
}

static inline void search_begin(struct search *s, const struct search_limits *limits)
{
	*s = (struct search){
		.limits = limits,
		.step = limits->first,
		.too_small = UINT_MAX,
		.enough = UINT_MAX,
	};
}

/* Is this a window with four times the value? */
static inline bool search_is_high(const struct search *s)
{
	return s->window == 1 || s->window == 2;
}

/* The value to use now. */
static inline unsigned int search_value(const struct search *s)
{
	static const unsigned int eighths[] = { 64, 70, 76, 83, 91, 99, 108, 117 };

	return (eighths[s->step % 8] << s->step / 8) / 64 << 2 * search_is_high(s);
}

/* Begins a measurement of a step. */
static inline void search_measure(struct search *s, unsigned int step)
{
	s->step = step;
	s->window = s->ticks = s->repeats = 0;
	s->rate[0] = s->rate[1] = 0;
}

/* The step to measure next: beyond those measured until both sides are known, then between them. */
static inline unsigned int search_next(const struct search *s, bool is_enough, bool gains_much)
{
	const struct search_limits *l = s->limits;
	unsigned int strides = (gains_much ? SEARCH_LARGE_STRIDES : SEARCH_STRIDES) * l->stride;

	if (s->enough != UINT_MAX && s->too_small != UINT_MAX)
		return s->too_small + (s->enough - s->too_small) / 2 / l->stride * l->stride;
	if (is_enough)
		return max(s->step, l->least + strides) - strides;
	return min(s->step + strides, l->most);
}

/* Ends a measurement: the value is enough or too small. */
static inline void search_decide(struct search *s)
{
	u64 gain = div64_u64(s->rate[1] * 1000, max_t(u64, s->rate[0], 1));
	u64 limit = 1000 + s->limits->gain;
	unsigned int doubt = s->limits->gain * SEARCH_DOUBT_EIGHTHS / 8;
	bool is_enough = gain <= limit;
	unsigned int next;

	if (gain + doubt >= limit && gain <= limit + doubt && ++s->repeats < SEARCH_REPEATS) {
		s->window = 0;
		return;
	}
	if (is_enough)
		s->enough = s->step;
	else
		s->too_small = s->step;
	next = search_next(s, is_enough, gain > 1000 + SEARCH_LARGE_GAIN);
	if (next == s->step || next == s->too_small) {
		next = s->enough != UINT_MAX ? s->enough : s->step;
		s->too_small = s->enough = UINT_MAX;
		s->rest = SEARCH_REST;
	}
	search_measure(s, next);
}

/* Call about 30 times a second while requests are inserted. search_value() may have changed afterwards. */
static inline void search_tick(struct search *s, const struct search_sample *sample)
{
	u64 requests, sectors, us;
	unsigned int depth;

	if (s->rest) {
		s->rest--;
		return;
	}
	if (search_is_after_pause(sample))
		search_measure(s, s->step);
	if (++s->ticks == 1) {
		s->begin = *sample;
		s->waited = 0;
		return;
	}
	s->waited += sample->waits;
	requests = sample->requests - s->begin.requests;
	depth = s->begin.depth >> 2 * search_is_high(s);
	if (s->ticks <= SEARCH_TICKS_MIN ||
	    (requests < max_t(u64, SEARCH_REQUESTS, SEARCH_ROUNDS * depth) &&
	     s->ticks <= SEARCH_TICKS_MAX))
		return;
	sectors = sample->sectors - s->begin.sectors;
	if (!sectors || (!search_is_high(s) && s->waited * 8 < (s->ticks - 1) * 7)) {
		search_measure(s, s->step); /* the window does not count */
		return;
	}
	us = div_u64(sample->now_ns - s->begin.now_ns, 1000) | 1;
	s->rate[search_is_high(s)] += div64_u64(sectors * 1000000, us);
	s->ticks = 0;
	if (++s->window == SEARCH_WINDOWS)
		search_decide(s);
}

#endif
