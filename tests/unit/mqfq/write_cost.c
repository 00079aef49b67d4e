// SPDX-License-Identifier: GPL-2.0-only
/*
 * Is the cost of a write found? write_cost FIRST_SEED COUNT
 *
 * Drives whose dies read at most R sectors a second or program at most W, or some of both, behind a buffer for writes, and whose speed changes
 * slowly. Readers and writers get what their shares say, with noise; some of both goes whatever a write costs. The cost that is found must be
 * R / W, also after W has changed for good, as where a cache is full.
 *
 * Where the price hardly changes the mix of reads and writes, little can be learned, and the cost must stay or come nearer to R / W: if there are
 * too few reads or writes to use a share, or if most requests go at any price. If the price does not change the mix at all, if the drive
 * has too little to do, if the load pauses before a measurement ends, or if writes come in short bursts beside reads that always wait, the cost must stay.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../sched/fair/write_cost.h"
#include "seeds.h"

/* Steps of the model in a tick. */
#define STEPS 33
#define STEP_S (1 / 30.0 / STEPS)
/* Ticks in which a cost must be found: a measurement may take most of the time between two pauses, and several may be needed. */
#define TICKS_MAX 6000
/* Periods of a pause. */
#define PAUSE 30

enum kind { BOTH_WAIT, FEW_READS, FEW_WRITES, ALIKE, IDLE, BURSTS, KINDS };

/* Ticks of a burst of writes, and from one burst to the next: longer than a measurement. */
#define BURST 9
#define BURST_EVERY 600

static struct {
	double reads, writes; /* R and W, sectors a second */
	double buffer, filled; /* sectors */
} drive;

static struct {
	enum kind kind;
	double weight; /* weight of the readers; the writers' weight is 1 */
	double fixed; /* share of the drive's time that goes to reads, and to writes, at any cost */
	double few, few_now; /* share of the drive's capacity, if one kind has few requests */
	double size; /* sectors of a request */
	bool pauses; /* the load pauses at times */
	unsigned int
		busy; /* ticks from one pause, in which no tick comes, to the next; 0: there is none */
	bool writes_now; /* there is a burst of writes */
} load;

static double between(double least, double most)
{
	return least * pow(most / least, uniform());
}

static double true_pct(void)
{
	return 100 * drive.reads / drive.writes;
}

/*
 * A step of a drive that is full of work, with @mix reads for a write. While the buffer is being filled or worked off, dies have both reads
 * and programs, and half of their time goes to each; then writes are taken in as fast as they are programmed.
 */
static void buffered(double mix, double *read, double *written)
{
	double programmed;

	*written = 1 / (mix / drive.reads + 1 / drive.writes);
	*read = mix * *written;
	if (*read < drive.reads / 2 ? drive.filled >= 0.999 * drive.buffer :
				      drive.filled <= 0.001 * drive.buffer)
		return;
	*read = drive.reads / 2;
	programmed = fmin(drive.writes / 2, *read / mix + drive.filled / STEP_S);
	*written = fmin(*read / mix, programmed + (drive.buffer - drive.filled) / STEP_S);
	drive.filled += (*written - programmed) * STEP_S;
	drive.filled = fmin(fmax(drive.filled, 0), drive.buffer);
}

/* Sectors a second of reads and writes in a step, at a price. */
static void step(double pct, bool is_idle, double *read, double *written)
{
	double mix = load.weight * pct / 100, own = 1 - 2 * load.fixed;

	buffered(load.kind == ALIKE ? 1.5 : mix, read, written);
	*read = own * *read + load.fixed * drive.reads;
	*written = own * *written + load.fixed * drive.writes;
	if (load.kind == BURSTS && !load.writes_now) {
		*read = drive.reads;
		*written = 0;
	}
	if (is_idle) {
		*read = load.few_now * drive.reads;
		*written = (0.2 - load.few_now) * drive.writes;
	}
	if (load.kind == FEW_READS && *read > load.few * drive.reads) {
		*read = load.few * drive.reads;
		*written = (1 - load.few) * drive.writes;
	}
	if (load.kind == FEW_WRITES && *written > load.few * drive.writes) {
		*written = load.few * drive.writes;
		*read = (1 - load.few) * drive.reads;
	}
}

/* Runs until a cost is found. Return: ticks. */
static unsigned int find(struct write_cost *cost, struct search_sample *sample)
{
	static double all_read, all_written;
	double read, written, speed;
	unsigned int i, j;
	bool is_idle;

	if (!sample->now_ns)
		all_read = all_written = 0;
	for (i = 0; i < TICKS_MAX && (i < 600 || !cost->rest); i++) {
		is_idle = load.kind == IDLE || (load.pauses && i % 701 < 20);
		load.writes_now = i % BURST_EVERY < BURST;
		if (i % 30 == 0)
			load.few_now = 0.1 * uniform() + 0.05;
		for (j = 0; j < STEPS; j++) {
			step(write_cost_value(cost), is_idle, &read, &written);
			speed = STEP_S * (1 + 0.3 * sin(i / 150.0));
			all_read += read * speed * (1 + 0.2 * (uniform() - 0.5));
			all_written += written * speed * (1 + 0.2 * (uniform() - 0.5));
		}
		sample->periods = load.busy && i % load.busy == 0 ? 1 + PAUSE : 1;
		sample->now_ns += sample->periods * (1000000000ULL / 30);
		sample->sectors = (u64)all_read + (u64)all_written;
		sample->written = all_written;
		sample->requests = sample->sectors / load.size;
		sample->depth = 64;
		sample->waits = !is_idle || (load.kind == IDLE && uniform() < 0.6);
		sample->waits &= sample->periods < PAUSE;
		write_cost_tick(cost, sample);
	}
	return i;
}

static bool is_about(double found, double wanted)
{
	return fabs(found - wanted) <= 0.1 * wanted + 1;
}

/* Reads for each write at a price, if both wait and no buffer is being filled. */
static double mix_at(double pct)
{
	double mix = load.weight * pct / 100, own = 1 - 2 * load.fixed;
	double written = own / (mix / drive.reads + 1 / drive.writes);

	return (mix * written + load.fixed * drive.reads) / (written + load.fixed * drive.writes);
}

/* Does the load pause so often that no measurement ends? */
static bool is_short(void)
{
	return load.busy && load.busy < 80;
}

/* Must a cost be found from @was? The mix must change by a fourth between the two prices that are tried; noise may hide a part of that. */
static bool must_find(double was)
{
	return load.kind == BOTH_WAIT && !is_short() && mix_at(was * 4) > 1.3 * mix_at(was / 4);
}

/* Is a cost right that was found, from another? Few requests change little, and tell little. */
static bool is_right(double was, double found)
{
	double wanted = true_pct();

	if (must_find(was))
		return is_about(found, wanted);
	if (is_short())
		return found == was;
	if (load.kind == BOTH_WAIT || load.kind == FEW_READS || load.kind == FEW_WRITES)
		return found >= fmin(was, wanted) / 4 - 1 && found <= fmax(was, wanted) * 4;
	return found == was;
}

static bool check(unsigned long long seed)
{
	struct search_sample sample = {};
	struct write_cost cost;
	unsigned int i, ticks, was;
	double faster;

	drive.writes = between(300000, 3000000);
	drive.reads = drive.writes * between(0.15, 50);
	drive.buffer = uniform() < 0.3 ? 0 : uniform() * 0.01 * drive.writes;
	drive.filled = 0;
	load.kind = uniform() < 0.5 ? BOTH_WAIT : uniform() * KINDS;
	load.weight = between(0.3, 3);
	load.fixed = uniform() < 0.5 ? 0 : 0.1 * uniform();
	load.few = 0.02 + 0.1 * uniform();
	load.pauses = uniform() < 0.3;
	load.size = uniform() < 0.5 ? 8 : 128;
	load.busy = uniform() < 0.8 ? 0 : uniform() < 0.5 ? 9 + uniform() * 60 : 1201;
	write_cost_begin(&cost, 100);
	for (i = 0; i < 3; i++) {
		was = cost.pct;
		ticks = find(&cost, &sample);
		if ((ticks == TICKS_MAX && must_find(was)) || !is_right(was, cost.pct)) {
			printf("seed %llu, kind %d, change %u: %u after %u ticks, not %.0f\n", seed,
			       load.kind, i, cost.pct, ticks, true_pct());
			return false;
		}
		faster = between(fmax(0.2, fmax(drive.reads / 50, 200000) / drive.writes),
				 fmin(5, drive.reads / 0.15 / drive.writes));
		drive.writes *= faster;
		drive.buffer *= faster;
		drive.filled *= faster;
	}
	return true;
}

int main(int argc, char **argv)
{
	return play_seeds(argc, argv, check);
}
