/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A bound that finds itself: the least with which the drive does nearly all that it can. What it does with a value and with four times that,
 * which stands for any value, is measured in turn, so that a load which changes meanwhile changes both. Values are steps of an eighth
 * of a doubling, or of some of those. The search goes up while a value is not enough, or down while it is, then halves the steps that are
 * left between one that is not and one that is; then it rests.
 *
 * A measurement with a value counts only if something waited all the time: otherwise the load is what limits, and nothing is learned.
 */
#ifndef TAILGATE_SCHED_SEARCH_H
#define TAILGATE_SCHED_SEARCH_H

#include <linux/kernel.h>
#include <linux/math64.h>
#include <linux/types.h>

/* So many strides the search goes up or down at once until it has been on both sides; more if more than this is gained, in a thousand. */
#define SEARCH_STRIDES 2
#define SEARCH_LARGE_STRIDES 6
#define SEARCH_LARGE_GAIN 150
/*
 * Windows of one measurement: one with the value, two with four times that, one with the value, so that a load which grows steadily is no
 * gain.
 */
#define SEARCH_WINDOWS 4
/*
 * A window is as long as it takes for so many requests, and so many times those that are in the drive, as all of these decide how busy it
 * is; in ticks at least and at most.
 */
#define SEARCH_REQUESTS 8192
#define SEARCH_ROUNDS 256
#define SEARCH_TICKS_MIN 4
#define SEARCH_TICKS_MAX 256
/* Ticks from a search that found its value to the next one: ten seconds. */
#define SEARCH_REST 300

/**
 * struct search_limits - what is searched
 * @first: the first value's step; a step is an eighth of a doubling, and step 0 is 1
 * @least: step of the least value
 * @most: step of the greatest
 * @stride: steps between what is too small and what is enough, in the end
 * @gain: in a thousand: a value is enough if four times as much does not bring more
 */
struct search_limits {
	unsigned int first, least, most, stride, gain;
};

/**
 * struct search_sample - what there is to see at a tick
 * @now_ns: time
 * @requests: that went to the drive, since the start
 * @sectors: of these
 * @written: of these sectors, those of writes
 * @depth: requests that may be in the drive
 * @waits: something waits
 */
struct search_sample {
	u64 now_ns, requests, sectors, written;
	unsigned int depth;
	bool waits;
};

/**
 * struct search - one search
 * @limits: of what is searched
 * @step: of the value that is looked at
 * @too_small: the greatest step that was not enough in this search; UINT_MAX: none
 * @enough: the least that was; UINT_MAX: none
 * @rest: ticks until it is looked at again
 * @window: 0 to SEARCH_WINDOWS - 1
 * @ticks: of the window, with one for what was in the drive before
 * @waited: ticks at which something waited
 * @begin: of the window
 * @rate: sectors a second, with the value and with four times that, of all windows
 */
struct search {
	const struct search_limits *limits;
	unsigned int step, too_small, enough, rest;
	unsigned int window, ticks, waited;
	struct search_sample begin;
	u64 rate[2];
};

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

/* What is to be set now. */
static inline unsigned int search_value(const struct search *s)
{
	static const unsigned int eighths[] = { 64, 70, 76, 83, 91, 99, 108, 117 };

	return (eighths[s->step % 8] << s->step / 8) / 64 << 2 * search_is_high(s);
}

/* The next measurement. */
static inline void search_measure(struct search *s, unsigned int step)
{
	s->step = step;
	s->window = s->ticks = 0;
	s->rate[0] = s->rate[1] = 0;
}

/* The step to look at next, at first away from what was looked at, then between the two sides. */
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

/* A measurement is over. */
static inline void search_decide(struct search *s)
{
	u64 gain = div64_u64(s->rate[1] * 1000, max_t(u64, s->rate[0], 1));
	bool is_enough = gain <= 1000 + s->limits->gain;
	unsigned int next;

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

/* A tick, some 30 a second while requests come. Afterwards search_value() may have changed. */
static inline void search_tick(struct search *s, const struct search_sample *sample)
{
	u64 requests, sectors, us;

	if (s->rest) {
		s->rest--;
		return;
	}
	if (++s->ticks == 1) {
		s->begin = *sample;
		s->waited = 0;
		return;
	}
	s->waited += sample->waits;
	requests = sample->requests - s->begin.requests;
	if (s->ticks <= SEARCH_TICKS_MIN ||
	    (requests < max_t(u64, SEARCH_REQUESTS, SEARCH_ROUNDS * s->begin.depth) &&
	     s->ticks <= SEARCH_TICKS_MAX))
		return;
	if (!search_is_high(s) && s->waited * 8 < (s->ticks - 1) * 7) {
		search_measure(s, s->step); /* what the load does was measured, not the drive */
		return;
	}
	sectors = sample->sectors - s->begin.sectors;
	us = div_u64(sample->now_ns - s->begin.now_ns, 1000) | 1;
	s->rate[search_is_high(s)] += div64_u64(sectors * 1000000, us);
	s->ticks = 0;
	if (++s->window == SEARCH_WINDOWS)
		search_decide(s);
}

#endif
