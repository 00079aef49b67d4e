/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A scheduler's module: the operations that the block layer calls, and loading and unloading. A module includes this file, and
 * thereby all files of the folder except observe.h, and ends with
 *
 *	module_init(scheduler_module_init);
 *	module_exit(scheduler_module_exit);
 */
#ifndef TAILGATE_ELEVATOR_MODULE_H
#define TAILGATE_ELEVATOR_MODULE_H

#include <linux/module.h>
#include <linux/rcupdate.h>

#include "hotplug.h"
#include "instance.h"
#include "merge.h"
#include "requests.h"
#include "setup.h"
#include "split.h"
#include "statistics.h"
#include "sysfs.h"
#include "tags.h"
#include "timer.h"

static struct elevator_type this_type = {
	.ops = {
		.init_sched = setup_init_sched,
		.exit_sched = setup_exit_sched,
		.bio_merge = merge_bio,
		.prepare_request = ELV_PRIVATE_IS_SHARED ? requests_prepare : NULL,
		.insert_requests = requests_insert,
		.has_work = requests_wait,
		.dispatch_request = requests_dispatch,
		.requeue_request = requests_requeue,
		.finish_request = requests_finish,
	},
	.elevator_owner = THIS_MODULE,
};

/* Adds operations whose calls cost something even if the scheduler does nothing in them. */
static void __init scheduler_add_optional(struct elevator_mq_ops *ops)
{
	if (this_scheduler.limit_depth) {
		ops->limit_depth = this_scheduler.limit_depth;
		ops->depth_updated = tags_depth_updated;
	}
	if (this_scheduler.merge) {
		ops->allow_merge = merge_is_allowed;
		ops->request_merged = merge_grew;
		ops->requests_merged = merge_joined;
	}
	if (this_scheduler.bio_merge)
		ops->allow_merge = this_scheduler.allow_merge;
}

static int __init scheduler_module_init(void)
{
	int err = this_scheduler.limit_depth ? tags_module_init() : 0;

	if (!err && this_scheduler.splits)
		err = split_module_init();
	if (err)
		return err;
	if (this_scheduler.cpu_changes) {
		err = hotplug_module_init();
		if (err)
			goto exit_split;
	}
	scheduler_add_optional(&this_type.ops);
	this_type.elevator_name = this_scheduler.name;
	this_type.elevator_attrs = this_scheduler.attributes;
	err = elv_register(&this_type);
	if (!err) {
		statistics_module_init();
		return 0;
	}
	if (this_scheduler.cpu_changes)
		hotplug_module_exit();
exit_split:
	if (this_scheduler.splits)
		split_module_exit();
	return err;
}

static void __exit scheduler_module_exit(void)
{
	elv_unregister(&this_type);
	/* a preempted task may still be in requests_insert(); needs CONFIG_TASKS_RCU, which distributions' preemptible kernels have */
	synchronize_rcu_tasks();
	if (this_scheduler.cpu_changes)
		hotplug_module_exit();
	statistics_module_exit();
	if (this_scheduler.splits)
		split_module_exit();
}

#endif
