/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Knobs in queue/iosched/, from the list in which the scheduler declares them (sched/knobs.h). The block layer passes a
 * callback the disk but not the attribute, so each knob has callbacks of its own.
 */
#ifndef TAILGATE_ELEVATOR_SYSFS_H
#define TAILGATE_ELEVATOR_SYSFS_H

#include <linux/sysfs.h>

#include "instance.h"
#include "split.h"

static ssize_t sysfs_show_knob(struct elevator_queue *eq, char *page, unsigned int number)
{
	const struct instance *instance = eq->elevator_data;
	const struct knob *knob = &this_scheduler.knobs[number];
	unsigned int value = READ_ONCE(instance->algorithm.knobs[number]);

	if (value == KNOB_AUTO)
		return sysfs_emit(page, "auto\n");
	if (knob->words)
		return sysfs_emit(page, "%s\n", knob->words[value]);
	return sysfs_emit(page, "%u\n", value);
}

static int sysfs_parse_knob(const struct knob *knob, const char *page, u64 *value)
{
	int word, err;

	if (knob->flags & KNOB_MAY_BE_AUTO && sysfs_streq(page, "auto")) {
		*value = KNOB_AUTO;
		return 0;
	}
	if (!knob->words) {
		err = kstrtou64(page, 10, value);
		return !err && *value == KNOB_AUTO ? -ERANGE : err;
	}
	word = __sysfs_match_string((const char **)knob->words, knob->most + 1, page);
	*value = word;
	return min(word, 0);
}

static int sysfs_configure(struct instance *instance, unsigned int number, u64 value)
{
	int err = knob_check(&this_scheduler.knobs[number], value);

	if (err)
		return err;
	if (this_scheduler.configure)
		return this_scheduler.configure(instance, number, value);
	WRITE_ONCE(instance->algorithm.knobs[number], value);
	return 0;
}

static ssize_t sysfs_store_knob(struct elevator_queue *eq, const char *page, size_t length,
				unsigned int number)
{
	struct instance *instance = eq->elevator_data;
	u64 value;
	int err;

	err = sysfs_parse_knob(&this_scheduler.knobs[number], page, &value);
	if (!err)
		err = sysfs_configure(instance, number, value);
	if (err)
		return err;
	if (this_scheduler.splits)
		split_expect(instance);
	blk_mq_run_hw_queues(instance->q, true); /* a larger bound may let a request go now */
	return length;
}

/*
 * Declarations that a scheduler makes after its list of knobs and the enum of their numbers, for example:
 *
 *	#define FIFO_KNOB_CALLBACKS(name, ...) SYSFS_KNOB_CALLBACKS(name, FIFO_KNOB_##name)
 *	FIFO_KNOBS(FIFO_KNOB_CALLBACKS)
 *	static elv_attribute_t fifo_attributes[] = { FIFO_KNOBS(SYSFS_KNOB_ATTRIBUTE) __ATTR_NULL };
 */
#define SYSFS_KNOB_CALLBACKS(name, number)                                                      \
	static ssize_t name##_show(struct elevator_queue *eq, char *page)                       \
	{                                                                                       \
		return sysfs_show_knob(eq, page, number);                                       \
	}                                                                                       \
	static ssize_t name##_store(struct elevator_queue *eq, const char *page, size_t length) \
	{                                                                                       \
		return sysfs_store_knob(eq, page, length, number);                              \
	}

#define SYSFS_KNOB_ATTRIBUTE(name, ...) __ATTR_RW(name),

#endif
