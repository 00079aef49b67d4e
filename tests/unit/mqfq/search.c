// SPDX-License-Identifier: GPL-2.0-only
/*
 * Does a search find the bound? search FIRST_SEED COUNT
 *
 * Drives with noise, whose throughput grows with the depth as for a number of independent dies, or up to a knee. The load grows and falls
 * steadily, with a limited number of requests outstanding. The depth that is found must be near the least one that reaches 97 % of the
 * throughput with all requests, after the first search and after two more. If the load does not fill the first depth, moves no data, or
 * pauses so often that no measurement ends, the depth must stay. With longer periods between pauses it is found, and also on a drive so
 * slow that requests are rare. "Near" means within two fifths, because of the noise.
 *
 * In one case of four, T is searched for, on drives where a small T costs throughput. The result must be within a factor of three of the
 * least value whose quadruple gains no more than the search's limit.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../sched/fair/search.h"
#include "seeds.h"

/* As in sched/mqfq_period.c. */
static const struct search_limits d_limits = { 32, 0, 112, 1, 32 },
				  t_limits = { 64, 16, 144, 4, 12 };
#define T_LEAST 4

#define SEARCHES 3
/* Periods of a pause. */
#define PAUSE 30

static struct drive {
	bool has_knee, of_t;
	unsigned int busy; /* ticks from one pause to the next; 0: there is none */
	unsigned int periods; /* from one tick to the next */
	double dies, requests_s, outstanding, sectors;
} drive;

/* Requests a second at a depth. */
static double throughput(double depth)
{
	depth = fmin(depth, drive.outstanding);
	if (drive.has_knee)
		return drive.requests_s * fmin(depth / drive.dies, 1);
	return drive.requests_s * depth / (depth + drive.dies - 1);
}

static double least_depth(void)
{
	double depth = 1;

	while (throughput(depth) < 0.97 * throughput(1e9))
		depth++;
	return depth;
}

static double least_t(void)
{
	double t = T_LEAST;

	while (throughput(4 * t) > (1 + t_limits.gain / 1000.0) * throughput(t))
		t *= 1.05;
	return t;
}

static bool is_near(double depth)
{
	double least = drive.of_t ? least_t() : least_depth();

	if (drive.of_t)
		return depth <= 3 * least && depth >= least / 3;

	return depth <= fmax(1.4 * least, least + 1) && depth >= fmin(0.64 * least, least - 1);
}

/* Can the search learn nothing from the load? */
static bool is_mute(void)
{
	return drive.outstanding < 16 || !drive.sectors || (drive.busy && drive.busy < 20);
}

static bool check(unsigned long long seed)
{
	struct search_sample sample = {};
	unsigned int i, searches = 0;
	double depth, requests = 0;
	bool ok = true, rested;
	struct search s;

	drive.has_knee = uniform() < 0.3;
	drive.dies = drive.has_knee ? 4 + floor(uniform() * 60) : 1 + floor(uniform() * 12);
	drive.outstanding = 256 << (int)(uniform() * 2);
	drive.requests_s = 20000 * pow(30, uniform());
	drive.sectors = uniform() < 0.5 ? 8 : 128;
	if (uniform() < 0.2)
		drive.outstanding = 1 + floor(uniform() * 12); /* fewer than the first depth */
	if (uniform() < 0.1)
		drive.sectors = 0; /* discards */
	drive.busy = uniform() < 0.7 ? 0 : uniform() < 0.5 ? 9 : 3000;
	drive.of_t = seed % 4 == 3;
	if (drive.of_t) {
		drive.has_knee = false;
		drive.dies = 1 + 0.05 * pow(2, 12 * uniform());
		drive.outstanding = INFINITY;
	}
	drive.periods = drive.of_t && drive.busy == 0 && uniform() < 0.1 ? 4 : 1;
	search_begin(&s, drive.of_t ? &t_limits : &d_limits);
	for (i = 0; i < 60000 && searches < SEARCHES && ok; i++) {
		depth = search_value(&s);
		sample.periods = drive.periods;
		requests += throughput(depth) * (1 + 0.001 * fabs(i % 3000 - 1500.0)) *
			    (1 + 0.02 * (uniform() - 0.5)) / 30 * sample.periods;
		if (drive.busy && i % drive.busy == 0)
			sample.periods += PAUSE;
		sample.now_ns += sample.periods * (1000000000ULL / 30);
		sample.requests = requests;
		sample.sectors = requests * drive.sectors;
		sample.depth = drive.of_t ? 64 : depth;
		sample.waits = drive.outstanding > depth && sample.periods < PAUSE;
		rested = s.rest;
		search_tick(&s, &sample);
		if (!s.rest || rested)
			continue;
		searches++;
		ok = is_near(search_value(&s));
	}
	if (is_mute())
		ok = !searches && s.step == s.limits->first;
	else if (searches < SEARCHES)
		ok = false;
	if (!ok)
		printf("seed %llu: %u after %u searches and %u ticks, not %.0f\n", seed,
		       search_value(&s), searches, i, drive.of_t ? least_t() : least_depth());
	return ok;
}

int main(int argc, char **argv)
{
	return play_seeds(argc, argv, check);
}
