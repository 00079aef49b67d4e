// SPDX-License-Identifier: GPL-2.0-only
/*
 * The drive model under the load of the K2 paper (section III-A), without a computer around it: background processes that each keep a
 * number of commands in the drive (depth), and one real-time process that sends a command, waits for its end, and pauses. The host takes no
 * time. published.py uses this program, and says what the keys mean.
 *
 *	closed_loop [key=value]...	prints one line of JSON
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flash/flash.c"

#define PROCESSES_MAX 63

/* key(name, default) */
#define LOAD_KEYS(key)                                                                        \
	key(processes, 3) key(depth, 32) key(kib, 64) key(rt_kib, 0) key(sequential, 0)       \
		key(write_percent, 0) key(rate_mib_s, 0) key(rt, 1) key(rt_think_ns, 2000000) \
			key(rt_samples, 4000) key(duration_ms, 0) key(load_seed, 1)

static struct {
#define LOAD_MEMBER(name, initial) u64 name;
	LOAD_KEYS(LOAD_MEMBER)
} load = {
#define LOAD_DEFAULT(name, initial) .name = initial,
	LOAD_KEYS(LOAD_DEFAULT)
};

static struct flash_parameters parameters = FLASH_PARAMETERS_DEFAULT;

struct process {
	struct flash_command *idle; /* list by node.next, ends with NULL */
	u64 next_sector; /* next sector of a sequential load */
	u64 first_sector, end_sector;
	u64 next_ns; /* earliest time of the next command */
	u64 period_ns; /* time between commands; 0: the next begins when one ends */
};

struct tagged {
	struct flash_command command; /* must be first */
	unsigned int process;
	u64 submitted_ns;
};

static struct flash *f;
static struct process processes[PROCESSES_MAX + 1]; /* the last used entry is the real-time process */
static u64 random_state;

static u64 random_number(void)
{
	return flash_mix(random_state += 0x9e3779b97f4a7c15ULL);
}

static int set(const char *argument)
{
	const char *equals = strchr(argument, '=');
	size_t length, i;
	char *end;
	u64 value;

	if (!equals)
		return -1;
	errno = 0;
	value = strtoull(equals + 1, &end, 10);
	if (errno || *end || end == equals + 1 || equals[1] == '-')
		return -1;
	length = equals - argument;
#define LOAD_SET(name, initial)                                             \
	if (length == strlen(#name) && !strncmp(argument, #name, length)) { \
		load.name = value;                                          \
		return 0;                                                   \
	}
	LOAD_KEYS(LOAD_SET)
	for (i = 0; i < ARRAY_SIZE(flash_parameter_infos); i++) {
		const struct flash_parameter_info *info = &flash_parameter_infos[i];

		if (length != strlen(info->name) || strncmp(argument, info->name, length))
			continue;
		*flash_parameter(&parameters, info) = value;
		return value > ~0U ? -1 : 0;
	}
	return -1;
}

static void submit(unsigned int p, u64 now)
{
	struct process *process = &processes[p];
	struct flash_command *c = process->idle;
	struct tagged *t = (struct tagged *)c;
	u64 kib = p < load.processes || !load.rt_kib ? load.kib : load.rt_kib;
	u64 sectors = kib * FLASH_SECTORS_PER_KIB;

	process->idle = (struct flash_command *)c->node.next;
	if (load.sequential) {
		if (process->next_sector + sectors > process->end_sector)
			process->next_sector = process->first_sector;
		c->sector = process->next_sector;
		process->next_sector += sectors;
	} else {
		u64 places = ((u64)parameters.capacity_mib << 10) / kib;

		c->sector = random_number() % places * sectors;
	}
	c->sectors = sectors;
	c->op = random_number() % 100 < load.write_percent ? FLASH_WRITE : FLASH_READ;
	t->submitted_ns = now;
	process->next_ns += process->period_ns;
	flash_submit(f, p, c, now);
}

static int ascending(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return x < y ? -1 : x > y;
}

/* A percentile of @n sorted latencies in ns; the result is in us. */
static double percentile(const u64 *latencies, u64 n, double share)
{
	u64 i = share * n;

	return n ? latencies[i < n ? i : n - 1] / 1e3 : 0;
}

int main(int argc, char **argv)
{
	const struct flash_parameter_info *wrong;
	u64 now = 0, commands = 0, sum = 0, n = 0, warm_ns = 0, limit_ns, *latencies;
	unsigned int p, rt;
	struct tagged *tags;
	const char *expected;
	LIST_HEAD(done);
	int i;

	for (i = 1; i < argc; i++) {
		if (set(argv[i])) {
			fprintf(stderr, "closed_loop: %s: expected key=number with a known key\n",
				argv[i]);
			return 2;
		}
	}
	parameters.queues = load.processes + 1;
	wrong = flash_check(&parameters, &expected);
	if (wrong || load.processes > PROCESSES_MAX || !load.kib || !load.depth ||
	    max(load.kib, load.rt_kib) > (u64)parameters.capacity_mib << 10 ||
	    (!load.rt && !load.duration_ms)) {
		fprintf(stderr, "closed_loop: %s: %s\n", wrong ? wrong->name : "load",
			expected ? expected : "out of range");
		return 2;
	}
	f = calloc(1, flash_size(&parameters));
	tags = calloc(load.processes * load.depth + 1, sizeof(*tags));
	latencies = calloc(load.rt_samples + 1, sizeof(*latencies));
	if (!f || !tags || !latencies) {
		fputs("closed_loop: no memory\n", stderr);
		return 1;
	}
	flash_init(f, &parameters);
	random_state = load.load_seed;
	rt = load.processes;
	for (p = 0; p <= rt; p++) {
		struct process *process = &processes[p];
		u64 part = ((u64)parameters.capacity_mib << 11) / (rt + 1), d;

		process->first_sector = part * p / (2 * load.kib) * (2 * load.kib);
		process->end_sector = process->first_sector + part;
		process->next_sector = process->first_sector;
		if (load.rate_mib_s && p < rt) {
			process->period_ns =
				load.kib * 1000000000 / 1024 * load.processes / load.rate_mib_s;
			/* not in step */
			process->next_ns = process->period_ns * p / load.processes;
		}
		for (d = 0; d < (p < rt ? load.depth : load.rt ? 1 : 0); d++) {
			struct tagged *t = &tags[p * load.depth + d];

			t->process = p;
			t->command.node.next = (struct list_head *)process->idle;
			process->idle = &t->command;
		}
	}
	/* Commands before the end of the first real-time command, or of a tenth of the time, are not counted: the dies fill up. */
	processes[rt].next_ns = load.rt_think_ns;
	limit_ns = load.duration_ms ? load.duration_ms * 1000000 : FLASH_NEVER;
	if (!load.rt)
		warm_ns = limit_ns / 10;
	while (n < load.rt_samples || !load.rt) {
		struct flash_command *c, *next;
		u64 at = flash_next_ns(f);

		for (p = 0; p <= rt; p++)
			if (processes[p].idle)
				at = min(at, max(now, processes[p].next_ns));
		now = max(now, at);
		if (now > limit_ns)
			break;
		flash_advance(f, now, &done);
		list_for_each_entry_safe(c, next, &done, node) {
			struct tagged *t = (struct tagged *)c;

			c->node.next = (struct list_head *)processes[t->process].idle;
			processes[t->process].idle = c;
			if (t->process < rt) {
				if (warm_ns && now > warm_ns)
					commands++;
				continue;
			}
			processes[rt].next_ns = now + load.rt_think_ns;
			if (!warm_ns) {
				warm_ns = now;
			} else if (n < load.rt_samples) {
				latencies[n++] = now - t->submitted_ns;
				sum += now - t->submitted_ns;
			}
		}
		INIT_LIST_HEAD(&done);
		for (p = 0; p <= rt; p++)
			while (processes[p].idle && processes[p].next_ns <= now)
				submit(p, now);
	}
	qsort(latencies, n, sizeof(*latencies), ascending);
	printf("{\"iops\": %.1f, \"mib_s\": %.2f, \"total_mib_s\": %.2f, \"rt\": {\"n\": %llu, \"mean\": %.2f, \"p50\": %.2f, "
	       "\"p90\": %.2f, \"p99\": %.2f, \"p99.9\": %.2f, \"max\": %.2f}, "
	       "\"die_reads\": %llu, \"programs\": %llu, \"erases\": %llu}\n",
	       commands / ((now - warm_ns) / 1e9),
	       commands * load.kib / 1024.0 / ((now - warm_ns) / 1e9),
	       (commands * load.kib + n * (load.rt_kib ? load.rt_kib : load.kib)) / 1024.0 /
		       ((now - warm_ns) / 1e9),
	       (unsigned long long)n, n ? sum / 1e3 / n : 0, percentile(latencies, n, .5),
	       percentile(latencies, n, .9), percentile(latencies, n, .99),
	       percentile(latencies, n, .999), percentile(latencies, n, 1),
	       (unsigned long long)f->statistics.die_reads,
	       (unsigned long long)f->statistics.programs,
	       (unsigned long long)f->statistics.erases);
	free(latencies);
	free(tags);
	free(f);
	return 0;
}
