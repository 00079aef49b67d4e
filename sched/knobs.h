/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The format in which a scheduler declares its knobs. A scheduler lists them once, as
 *
 *	#define FIFO_KNOBS(knob) \
 *		knob(inflight_max, "requests", 1, 65535, 1, 32, "log", NULL, 0, "most requests in the drive at a time")
 *
 * and generates from that list an enum and, with KNOB_INFO, a table. sysfs, the simulator and the lab read the table.
 */
#ifndef TAILGATE_SCHED_KNOBS_H
#define TAILGATE_SCHED_KNOBS_H

#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/types.h>

/* Value of a knob that is chosen automatically; written and shown as "auto". */
#define KNOB_AUTO UINT_MAX

/* knob->flags */
#define KNOB_MAY_BE_AUTO 1

/**
 * struct knob - description of a knob
 * @name: name in sysfs
 * @unit: unit of the value
 * @least: smallest value accepted
 * @most: largest value accepted
 * @step: values must be multiples of this
 * @initial: default value
 * @scale: how a search steps through the range: "log" or "linear"; "choice" if @words are the values
 * @words: names of the values of a choice, by value; NULL for a number
 * @flags: KNOB_MAY_BE_AUTO: KNOB_AUTO is accepted too
 * @what: description, one sentence
 */
struct knob {
	const char *name;
	const char *unit;
	u64 least, most, step, initial;
	const char *scale;
	const char *const *words;
	unsigned int flags;
	const char *what;
};

/* clang-format off */
#define KNOB_INFO(name, unit, least, most, step, initial, scale, words, flags, what) \
	{ #name, unit, least, most, step, initial, scale, words, flags, what },
/* clang-format on */

/**
 * knob_check() - check whether a knob accepts a value
 * @knob: the knob
 * @value: the value; KNOB_AUTO if the knob may be automatic
 *
 * Return: 0, -ERANGE (out of range) or -EINVAL (not a multiple of the step).
 */
static inline int knob_check(const struct knob *knob, u64 value)
{
	if (value == KNOB_AUTO && knob->flags & KNOB_MAY_BE_AUTO)
		return 0;
	if (value < knob->least || value > knob->most)
		return -ERANGE;
	return knob->step > 1 && (unsigned int)value % (unsigned int)knob->step ? -EINVAL : 0;
}

#endif
