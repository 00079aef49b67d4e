// SPDX-License-Identifier: GPL-2.0-only
/*
 * Does a search find the bound? search FIRST_SEED COUNT
 *
 * Drives whose throughput grows with the depth as that of so many independent dies does, or up to a knee, with noise, under a load that
 * changes slowly; a limited number of requests is outstanding. The depth that is found must be near the least one that reaches 97 % of
 * what the drive does with all of them, two steps off at most for the noise; and where the load does not fill the first
 * depth, that must stay.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../sched/fair/search.h"

static const struct search_limits limits = { 16, 0, 56, 1, 28 };

static struct drive {
	bool has_knee;
	double dies, requests_s, outstanding, sectors;
} drive;

static u64 state;

static double uniform(void)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return (state * 0x2545f4914f6cdd1dULL >> 33) / 2147483648.0;
}

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

static bool check(unsigned long long seed)
{
	struct search_sample sample = {};
	double depth, found, requests = 0;
	struct search s;
	unsigned int i;

	drive.has_knee = uniform() < 0.3;
	drive.dies = drive.has_knee ? 4 + floor(uniform() * 60) : 1 + floor(uniform() * 12);
	drive.outstanding = 256 << (int)(uniform() * 2);
	drive.requests_s = 20000 * pow(30, uniform());
	drive.sectors = uniform() < 0.5 ? 8 : 128;
	if (uniform() < 0.2)
		drive.outstanding = 1 + floor(uniform() * 12); /* fewer than the first depth */
	search_begin(&s, &limits);
	for (i = 0; i < 20000 && !s.rest; i++) {
		depth = search_value(&s);
		requests += throughput(depth) * (1 + 0.03 * sin(i / 300.0)) *
			    (1 + 0.004 * (uniform() - 0.5)) / 30;
		sample.now_ns += 1000000000 / 30;
		sample.requests = requests;
		sample.sectors = requests * drive.sectors;
		sample.depth = depth;
		sample.waits = drive.outstanding > depth;
		search_tick(&s, &sample);
	}
	found = search_value(&s);
	if (drive.outstanding < 16 ? found != 16 :
				     !s.rest || found > fmax(1.5 * least_depth(), 1) ||
					     found < 0.64 * least_depth()) {
		printf("seed %llu: %.0f after %u ticks, not %.0f\n", seed, found, i, least_depth());
		return false;
	}
	return true;
}

int main(int argc, char **argv)
{
	unsigned long long first, count, seed;

	if (argc != 3)
		return 2;
	first = strtoull(argv[1], NULL, 10);
	count = strtoull(argv[2], NULL, 10);
	for (seed = first; seed < first + count; seed++) {
		state = (seed + 1) * 0x9e3779b97f4a7c15ULL;
		if (!check(seed))
			return 1;
	}
	return 0;
}
