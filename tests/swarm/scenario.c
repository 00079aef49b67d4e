// SPDX-License-Identifier: GPL-2.0-only
/* Scenarios: see scenario.h. The knobs are those of the scheduler under test. */
#include <string.h>

#include "scenario.h"
#include "subject.h"

#define CGROUPS 6

struct field {
	const char *name;
	uint64_t least;
};

/* For each kind, its word, and its fields with the least useful values. A knob's number is printed as its name. */
static const struct {
	const char *word;
	struct field fields[SCENARIO_FIELDS];
} kinds[SCENARIO_KINDS] = {
	[SCENARIO_SEED] = { "seed", { { "number", 0 } } },
	[SCENARIO_QUEUES] = { "queues", { { "count", 1 } } },
	[SCENARIO_TAGS] = { "tags", { { "count", 1 } } },
	[SCENARIO_TIME] = { "time", { { "us", 1 } } },
	[SCENARIO_DRIVE] = { "drive",
			     { { "slots", 1 },
			       { "dies", 1 },
			       { "read_us", 1 },
			       { "program_us", 1 },
			       { "buffer_kib", 64 },
			       { "discard_us", 0 },
			       { "read_rare_us", 0 },
			       { "write_rare_us", 0 },
			       { "drain_kib_ns", 0 },
			       { "stall_us", 0 } } },
	[SCENARIO_KNOB] = { "knob", { { "knob", 0 }, { "value", 0 } } },
	[SCENARIO_SET] = { "set", { { "at_us", 0 }, { "knob", 0 }, { "value", 0 } } },
	[SCENARIO_TASK] = { "task",
			    { { "level", 0 },
			      { "op", 0 },
			      { "kib", 4 },
			      { "depth", 1 },
			      { "think_us", 0 },
			      { "open", 0 },
			      { "begin_us", 0 },
			      { "end_us", 0 },
			      { "whole", 0 },
			      { "cgroup", 0 },
			      { "weight", 1 } } },
	[SCENARIO_FREEZE] = { "freeze", { { "at_us", 0 }, { "for_us", 0 } } },
	[SCENARIO_OFFLINE] = { "offline", { { "at_us", 0 }, { "queue", 0 }, { "for_us", 0 } } },
	[SCENARIO_FAULTS] = { "faults",
			      { { "requeue_pct", 0 }, { "busy_pct", 0 }, { "merge_pct", 0 } } },
};

uint64_t dice_next(struct dice *dice)
{
	uint64_t z = dice->state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

uint64_t dice_below(struct dice *dice, uint64_t n)
{
	return dice_next(dice) % n;
}

bool dice_percent(struct dice *dice, unsigned int percent)
{
	return dice_below(dice, 100) < percent;
}

uint64_t dice_log(struct dice *dice, uint64_t least, uint64_t most)
{
	unsigned int bits = 0;
	uint64_t span;

	while (least + (2ULL << bits) <= most)
		bits++;
	span = 2ULL << dice_below(dice, bits + 1);
	span = least + dice_below(dice, span);
	return span < most ? span : most;
}

static uint64_t *add(struct scenario *s, enum scenario_kind kind)
{
	struct scenario_line *line = &s->lines[s->count++];

	memset(line, 0, sizeof(*line));
	line->kind = kind;
	return line->values;
}

static void add_one(struct scenario *s, enum scenario_kind kind, uint64_t value)
{
	*add(s, kind) = value;
}

/* A valid value of a knob: its default, its least or largest, or any other. */
static uint64_t draw_value(struct dice *dice, const struct knob *knob)
{
	uint64_t most = knob->most < 4096 ? knob->most : 4096, value;

	if (knob->words)
		return dice_below(dice, knob->most + 1);
	if (knob->flags & KNOB_MAY_BE_AUTO && dice_percent(dice, 40))
		return KNOB_AUTO;
	if (dice_percent(dice, 2))
		return knob->most;
	if (dice_percent(dice, 10))
		return knob->least;
	value = dice_log(dice, knob->least, most);
	value -= value % knob->step;
	return value < knob->least ? knob->least : value;
}

static void draw_drive(struct scenario *s, struct dice *dice)
{
	uint64_t *drive = add(s, SCENARIO_DRIVE);

	drive[DRIVE_SLOTS] = dice_percent(dice, 20) ? 1 : dice_log(dice, 2, 256);
	drive[DRIVE_DIES] = dice_log(dice, 1, 16);
	drive[DRIVE_READ] = dice_log(dice, 20, 1000);
	drive[DRIVE_PROGRAM] = dice_log(dice, 50, 2000);
	drive[DRIVE_BUFFER] = dice_log(dice, 64, 4096);
	drive[DRIVE_DISCARD] = dice_log(dice, 10, 5000);
	drive[DRIVE_READ_RARE] = dice_percent(dice, 80) ? 0 : dice_log(dice, 100, 20000);
	drive[DRIVE_WRITE_RARE] = dice_percent(dice, 80) ? 0 : dice_log(dice, 100, 20000);
	drive[DRIVE_DRAIN] = dice_percent(dice, 80) ? 0 : dice_log(dice, 1000, 50000);
	drive[DRIVE_STALL] = dice_percent(dice, 80) ? 0 : dice_log(dice, 1000, 20000);
}

static void draw_task(struct scenario *s, struct dice *dice, bool rt, uint64_t time_us)
{
	uint64_t *task = add(s, SCENARIO_TASK);

	task[TASK_LEVEL] = rt ? dice_below(dice, 8) : 8;
	task[TASK_OP] = dice_percent(dice, 70) ? dice_below(dice, TASK_MIXES) :
						 dice_below(dice, TASK_OPS);
	task[TASK_KIB] = 4 * dice_log(dice, 1, rt ? 32 : 256);
	task[TASK_DEPTH] = rt && dice_percent(dice, 60) ? 1 : dice_log(dice, 1, rt ? 16 : 64);
	task[TASK_THINK] = dice_percent(dice, rt ? 30 : 70) ? 0 : dice_log(dice, 100, 20000);
	task[TASK_OPEN] = task[TASK_THINK] && dice_percent(dice, 40);
	task[TASK_BEGIN] = dice_percent(dice, 50) ? 0 : dice_below(dice, time_us);
	task[TASK_END] = dice_percent(dice, 50) ? time_us : dice_below(dice, time_us + 1);
	task[TASK_WHOLE] = dice_percent(dice, 10);
}

/* Draws the cgroups of the tasks, and which tasks are of class idle. */
static void draw_cgroups(struct scenario *s, struct dice *dice)
{
	uint64_t weights[CGROUPS];
	unsigned int i;

	for (i = 0; i < CGROUPS; i++)
		weights[i] = dice_percent(dice, 50) ? 100 : dice_log(dice, 1, 10000);
	for (i = 0; i < s->count; i++) {
		uint64_t *task = s->lines[i].values;

		if (s->lines[i].kind != SCENARIO_TASK)
			continue;
		task[TASK_CGROUP] = dice_below(dice, CGROUPS);
		task[TASK_WEIGHT] = weights[task[TASK_CGROUP]];
		if (task[TASK_LEVEL] == 8 && dice_percent(dice, 15))
			task[TASK_LEVEL] = 9;
	}
}

void scenario_draw(struct scenario *s, uint64_t seed)
{
	struct dice dice = { seed };
	unsigned int i, n;
	uint64_t *values, time_us = 1000 * dice_log(&dice, 20, 1500);

	s->count = 0;
	add_one(s, SCENARIO_SEED, dice_below(&dice, 1000000));
	add_one(s, SCENARIO_QUEUES, dice_log(&dice, 1, 4));
	add_one(s, SCENARIO_TAGS, dice_log(&dice, 4, 256));
	add_one(s, SCENARIO_TIME, time_us);
	draw_drive(s, &dice);
	for (i = 0; i < subject->knob_count; i++) {
		if (dice_percent(&dice, 55))
			continue;
		values = add(s, SCENARIO_KNOB);
		values[KNOB_NUMBER] = i;
		values[KNOB_VALUE] = draw_value(&dice, &subject->knobs[i]);
	}
	for (n = dice_percent(&dice, 40) ? 0 : dice_below(&dice, 6); n; n--) {
		values = add(s, SCENARIO_SET);
		values[SET_AT] = dice_below(&dice, time_us);
		values[SET_NUMBER] = dice_below(&dice, subject->knob_count);
		values[SET_VALUE] = draw_value(&dice, &subject->knobs[values[SET_NUMBER]]);
	}
	for (n = 1 + dice_below(&dice, subject->tasks); n; n--)
		draw_task(s, &dice, false, time_us);
	for (n = dice_below(&dice, 4); n; n--)
		draw_task(s, &dice, true, time_us);
	for (n = dice_percent(&dice, 70) ? 0 : 1 + dice_below(&dice, 2); n; n--) {
		values = add(s, SCENARIO_FREEZE);
		values[FREEZE_AT] = dice_below(&dice, time_us);
		values[FREEZE_FOR] = dice_log(&dice, 1, 20000);
	}
	values = add(s, SCENARIO_FAULTS);
	values[FAULTS_REQUEUE] = dice_percent(&dice, 60) ? 0 : dice_log(&dice, 1, 30);
	values[FAULTS_BUSY] = dice_percent(&dice, 70) ? 0 : dice_log(&dice, 1, 20);
	values[FAULTS_MERGE] = dice_percent(&dice, 60) ? 0 : dice_log(&dice, 1, 30);
	draw_cgroups(s, &dice);
	for (n = dice_percent(&dice, 60) ? 0 : 1 + dice_below(&dice, 3); n; n--) {
		values = add(s, SCENARIO_OFFLINE);
		values[OFFLINE_AT] = dice_below(&dice, time_us);
		values[OFFLINE_QUEUE] = dice_below(&dice, 4);
		values[OFFLINE_FOR] = dice_log(&dice, 1, 200000);
	}
}

static bool names_knob(enum scenario_kind kind, unsigned int field)
{
	return (kind == SCENARIO_KNOB && field == KNOB_NUMBER) ||
	       (kind == SCENARIO_SET && field == SET_NUMBER);
}

void scenario_print(const struct scenario *s, FILE *out)
{
	unsigned int i, j;

	for (i = 0; i < s->count; i++) {
		const struct scenario_line *line = &s->lines[i];

		fprintf(out, "%s", kinds[line->kind].word);
		for (j = 0; j < SCENARIO_FIELDS && kinds[line->kind].fields[j].name; j++)
			if (names_knob(line->kind, j))
				fprintf(out, " knob=%s", subject->knobs[line->values[j]].name);
			else
				fprintf(out, " %s=%llu", kinds[line->kind].fields[j].name,
					(unsigned long long)line->values[j]);
		fprintf(out, "\n");
	}
}

static bool read_field(struct scenario_line *line, unsigned int field, const char *text)
{
	const char *name = kinds[line->kind].fields[field].name;
	size_t length = name ? strlen(name) : 0;
	unsigned long long value;
	unsigned int i;
	char end;

	if (!name || strncmp(text, name, length) || text[length] != '=')
		return false;
	text += length + 1;
	for (i = 0; names_knob(line->kind, field) && i < subject->knob_count; i++)
		if (!strcmp(text, subject->knobs[i].name)) {
			line->values[field] = i;
			return true;
		}
	if (sscanf(text, "%llu%c", &value, &end) != 1)
		return false;
	line->values[field] = value;
	return true;
}

bool scenario_read(struct scenario *s, FILE *in, char *wrong, size_t size)
{
	char text[512];

	s->count = 0;
	while (fgets(text, sizeof(text), in)) {
		char *word = strtok(text, " \n");
		struct scenario_line *line = &s->lines[s->count];
		unsigned int kind, field = 0;

		if (!word || *word == '#')
			continue;
		for (kind = 0; kind < SCENARIO_KINDS && strcmp(word, kinds[kind].word); kind++)
			;
		memset(line, 0, sizeof(*line));
		line->kind = kind;
		if (kind < SCENARIO_KINDS)
			for (word = strtok(NULL, " \n"); word; word = strtok(NULL, " \n"))
				if (field == SCENARIO_FIELDS || !read_field(line, field++, word))
					break;
		if (word || ++s->count == SCENARIO_LINES) {
			snprintf(wrong, size, "%s", word ? word : "too many lines");
			return false;
		}
	}
	return true;
}

static bool is_needed(enum scenario_kind kind)
{
	return kind < SCENARIO_KNOB;
}

static bool shorten(struct scenario *s, bool (*breaks)(const struct scenario *s))
{
	struct scenario candidate;
	bool shorter = false;
	unsigned int i;

	for (i = s->count; i-- > 0;) {
		if (is_needed(s->lines[i].kind))
			continue;
		candidate = *s;
		memmove(&candidate.lines[i], &candidate.lines[i + 1],
			(candidate.count - i - 1) * sizeof(*candidate.lines));
		candidate.count--;
		if (breaks(&candidate)) {
			*s = candidate;
			shorter = true;
		}
	}
	return shorter;
}

/* Tries the least value, then the value half way to it, then one less. */
static bool lessen(struct scenario *s, unsigned int line, unsigned int field, uint64_t least,
		   bool (*breaks)(const struct scenario *s))
{
	uint64_t value = s->lines[line].values[field],
		 tries[] = { least, value - (value - least) / 2, value - 1 };
	struct scenario candidate = *s;
	unsigned int i;

	if (value <= least)
		return false;
	for (i = 0; i < sizeof(tries) / sizeof(*tries); i++) {
		if (tries[i] >= value)
			continue;
		candidate.lines[line].values[field] = tries[i];
		if (breaks(&candidate)) {
			*s = candidate;
			return true;
		}
	}
	return false;
}

void scenario_shrink(struct scenario *s, bool (*breaks)(const struct scenario *s))
{
	bool smaller = true;
	unsigned int rounds = 40, i, j;

	while (smaller && rounds--) {
		smaller = shorten(s, breaks);
		for (i = 0; i < s->count; i++)
			for (j = 0; j < SCENARIO_FIELDS && kinds[s->lines[i].kind].fields[j].name;
			     j++)
				if (!names_knob(s->lines[i].kind, j))
					smaller |= lessen(s, i, j,
							  kinds[s->lines[i].kind].fields[j].least,
							  breaks);
	}
}
