// SPDX-License-Identifier: GPL-2.0-only
/*
 * Does a search find the bound? search FIRST_SEED COUNT
 *
 * Drives whose throughput grows with the depth as that of so many independent dies does, or up to a knee, with noise, under a load that
 * grows and falls steadily; a limited number of requests is outstanding. The depth that is found must be near the least one that reaches 97 % of
 * what the drive does with all of them, after the first search and after two more; and where the load does not fill the first depth, that
 * must stay. "Near" is within two fifths, because of the noise.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../sched/fair/search.h"
#include "seeds.h"

static const struct search_limits limits = { 32, 0, 112, 1, 32 };

#define SEARCHES 3

static struct drive {
	bool has_knee;
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

static bool is_near(double depth)
{
	double least = least_depth();

	return depth <= fmax(1.4 * least, least + 1) && depth >= fmin(0.64 * least, least - 1);
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
	search_begin(&s, &limits);
	for (i = 0; i < 60000 && searches < SEARCHES && ok; i++) {
		depth = search_value(&s);
		requests += throughput(depth) * (1 + 0.001 * fabs(i % 3000 - 1500.0)) *
			    (1 + 0.02 * (uniform() - 0.5)) / 30;
		sample.now_ns += 1000000000 / 30;
		sample.requests = requests;
		sample.sectors = requests * drive.sectors;
		sample.depth = depth;
		sample.waits = drive.outstanding > depth;
		rested = s.rest;
		search_tick(&s, &sample);
		if (!s.rest || rested)
			continue;
		searches++;
		ok = is_near(search_value(&s));
	}
	if (drive.outstanding < 16)
		ok = !searches && search_value(&s) == 16;
	else if (searches < SEARCHES)
		ok = false;
	if (!ok)
		printf("seed %llu: %u after %u searches and %u ticks, not %.0f\n", seed,
		       search_value(&s), searches, i, least_depth());
	return ok;
}

int main(int argc, char **argv)
{
	return play_seeds(argc, argv, check);
}
