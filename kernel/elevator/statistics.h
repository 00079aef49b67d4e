/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Statistics: /proc/tailgate-<scheduler>, readable by everybody. The first line is "<scheduler> <version>". Then there are lines
 * "<disk> <key> <value>" for all disks that use the scheduler.
 *
 * The file exists as long as the module. A file for each disk would be removed when the scheduler is switched off, with the queue
 * frozen. Removal waits for readers, and a reader whose buffer must be paged in from that disk would wait for the queue: a deadlock.
 */
#ifndef TAILGATE_ELEVATOR_STATISTICS_H
#define TAILGATE_ELEVATOR_STATISTICS_H

#include <linux/kcsan-checks.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>

#include "instance.h"

static struct proc_dir_entry *statistics_file;

/**
 * statistics_print() - print one line; for use in this_scheduler.show()
 * @m: as given to show()
 * @instance: as given to show()
 * @format: key and value, without the newline
 */
static __printf(3, 4) void statistics_print(struct seq_file *m, const struct instance *instance,
					    const char *format, ...)
{
	va_list arguments;

	seq_printf(m, "%s ", instance->disk);
	va_start(arguments, format);
	seq_vprintf(m, format, arguments);
	va_end(arguments);
	seq_putc(m, '\n');
}

/* Prints one line with a list of numbers, such as a histogram; @format is for the key. */
static inline __printf(5, 6) void statistics_print_list(struct seq_file *m,
							const struct instance *instance,
							const u64 *values, unsigned int count,
							const char *format, ...)
{
	va_list arguments;
	unsigned int i;

	seq_printf(m, "%s ", instance->disk);
	va_start(arguments, format);
	seq_vprintf(m, format, arguments);
	va_end(arguments);
	for (i = 0; i < count; i++)
		seq_printf(m, " %llu", READ_ONCE(values[i]));
	seq_putc(m, '\n');
}

/* The mutex is held from start to stop: while lines are printed, not while seq_read_iter() allocates or copies. */
static void *statistics_start(struct seq_file *m, loff_t *position)
{
	mutex_lock(&instances_lock);
	return seq_list_start_head(&instances, *position);
}

static void *statistics_next(struct seq_file *m, void *v, loff_t *position)
{
	return seq_list_next(v, &instances, position);
}

static void statistics_stop(struct seq_file *m, void *v)
{
	mutex_unlock(&instances_lock);
}

static void statistics_show_knobs(struct seq_file *m, const struct instance *instance)
{
	unsigned int i;

	for (i = 0; i < this_scheduler.knob_count; i++) {
		const struct knob *knob = &this_scheduler.knobs[i];
		unsigned int value = READ_ONCE(instance->algorithm.knobs[i]);

		if (value == KNOB_AUTO)
			statistics_print(m, instance, "%s auto", knob->name);
		else if (knob->words)
			statistics_print(m, instance, "%s %s", knob->name, knob->words[value]);
		else
			statistics_print(m, instance, "%s %u", knob->name, value);
	}
}

static int statistics_show(struct seq_file *m, void *v)
{
	const struct instance *instance;

	if (v == &instances) {
		seq_printf(m, "%s %u\n", this_scheduler.name, this_scheduler.statistics_version);
		return 0;
	}
	instance = list_entry(v, struct instance, node);
	statistics_show_knobs(m, instance);
	/* schedulers update counters with plain writes while they are read here: marked writes would cost time in each request */
	kcsan_disable_current();
	this_scheduler.show(m, instance);
	kcsan_enable_current();
	return 0;
}

static const struct seq_operations statistics_operations = {
	.start = statistics_start,
	.next = statistics_next,
	.stop = statistics_stop,
	.show = statistics_show,
};

/* After elv_register(), which refuses a second module of this name. */
static void statistics_module_init(void)
{
	char name[sizeof("tailgate-") + ELV_NAME_MAX];

	snprintf(name, sizeof(name), "tailgate-%s", this_scheduler.name);
	statistics_file = proc_create_seq(name, 0444, NULL, &statistics_operations);
	if (!statistics_file)
		pr_warn("%s: no memory for /proc/%s\n", this_scheduler.name, name);
}

/* After elv_unregister(). Waits for readers of the file. */
static void statistics_module_exit(void)
{
	proc_remove(statistics_file);
}

#endif
