// SPDX-License-Identifier: GPL-2.0-only
/*
 * Do flows get the weights of a hierarchy? shares FIRST_SEED COUNT
 *
 * A random tree of groups whose leaves are flows. Some flows compete, for some periods. From the third period with the same competing flows
 * on, each of their prices must be that of its weight, computed here from the whole tree. Flows that asked for no price, or do not compete,
 * take nothing from others. A flow that is too deep for a path is a child of the last group in the path.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../sched/fair/shares.h"
#include "seeds.h"

#define GROUPS 40

static struct group {
	int parent;
	unsigned int depth /* 1: at the top */, weight, children;
	bool is_asked, competes;
} groups[GROUPS];

/* Does any flow in or below a group compete? */
static bool competes(int group)
{
	int i;

	if (!groups[group].children)
		return groups[group].competes;
	for (i = 0; i < GROUPS; i++)
		if (groups[i].parent == group && competes(i))
			return true;
	return false;
}

/* The group of whose share a group gets a part; -1: none. */
static int parent_of(int group)
{
	int parent = groups[group].parent;

	while (parent >= 0 && groups[parent].depth >= SHARES_DEPTH)
		parent = groups[parent].parent;
	return parent;
}

/* Is the group in no path? Then its children, or their children, are in its place. */
static bool is_left_out(int group)
{
	return groups[group].depth >= SHARES_DEPTH && groups[group].children;
}

static double weight_of(int group)
{
	double sum = 0;
	int i;

	if (groups[group].parent < 0)
		return groups[group].weight;
	for (i = 0; i < GROUPS; i++)
		if (parent_of(i) == parent_of(group) && !is_left_out(i) && competes(i))
			sum += groups[i].weight;
	return weight_of(parent_of(group)) * groups[group].weight / sum;
}

static void create(void)
{
	static const unsigned int weights[] = { 1, 50, 100, 100, 300, 10000 };
	bool is_deep = !draw(4);
	int i;

	memset(groups, 0, sizeof(groups));
	for (i = 0; i < GROUPS; i++) {
		groups[i].depth = 1;
		groups[i].parent = i && draw(4) ? (int)draw(i) : -1;
		if (is_deep && draw(8))
			groups[i].parent = i - 1 - (i > 1 && !draw(4));
		if (groups[i].parent >= 0) {
			groups[i].depth = groups[groups[i].parent].depth + 1;
			groups[groups[i].parent].children++;
		}
		groups[i].weight = weights[draw(6)];
	}
}

static u64 price_of(struct shares *s, int group, unsigned int period)
{
	unsigned int depth = groups[group].depth, i, place;
	struct share_path path = { .depth = min(depth, SHARES_DEPTH) };
	int at = group;

	for (i = depth; i; i--, at = groups[at].parent) {
		place = shares_place(i, depth);
		if (place == SHARES_DEPTH)
			continue;
		path.at[place].id = at + 1;
		path.at[place].weight = groups[at].weight;
	}
	return shares_price(s, &path, period, groups[group].competes);
}

static bool check(unsigned long long seed)
{
	unsigned int period = draw(2) ? draw(1000) : -draw(10), same = 0, i;
	static struct shares shares;
	double wanted;
	u64 price;
	int group;

	memset(&shares, 0, sizeof(shares));
	shares_init(&shares);
	create();
	for (i = 0; i < 30; i++, period++, same++) {
		if (!draw(8)) {
			same = 0;
			for (group = 0; group < GROUPS; group++) {
				groups[group].is_asked = draw(3);
				groups[group].competes = groups[group].is_asked && draw(3);
			}
		}
		for (group = 0; group < GROUPS; group++) {
			if (groups[group].children || !groups[group].is_asked)
				continue;
			price = price_of(&shares, group, period);
			if (same < 2 || !groups[group].competes)
				continue;
			wanted = SHARES_SECTOR * SHARES_WEIGHT / weight_of(group);
			wanted = fmin(wanted, SHARES_PRICE_MAX);
			if (fabs(price - wanted) > 2 + wanted * 0.02) {
				printf("seed %llu: group %d costs %llu, not %.0f\n", seed, group,
				       (unsigned long long)price, wanted);
				return false;
			}
		}
	}
	return true;
}

int main(int argc, char **argv)
{
	return play_seeds(argc, argv, check);
}
