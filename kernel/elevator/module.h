/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Loading and unloading of a scheduler's module: what the module has once for all disks, in the order in which it depends on
 * each other. Needs a complete this_scheduler and this_type; the module writes
 *
 *	module_init(scheduler_module_init);
 *	module_exit(scheduler_module_exit);
 */
#ifndef TAILGATE_ELEVATOR_MODULE_H
#define TAILGATE_ELEVATOR_MODULE_H

#include <linux/module.h>

#include "instance.h"
#include "split.h"
#include "statistics.h"
#include "tags.h"

static int __init scheduler_module_init(void)
{
	int err = this_scheduler.limits_tags ? tags_module_init() : 0;

	if (!err && this_scheduler.splits)
		err = split_module_init();
	if (err)
		return err;
	err = statistics_module_init();
	if (err)
		goto exit_split;
	err = elv_register(&this_type);
	if (!err)
		return 0;
	statistics_module_exit();
exit_split:
	if (this_scheduler.splits)
		split_module_exit();
	return err;
}

static void __exit scheduler_module_exit(void)
{
	elv_unregister(&this_type);
	statistics_module_exit();
	if (this_scheduler.splits)
		split_module_exit();
}

#endif
