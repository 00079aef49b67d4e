/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * CPU hotplug. Before the last CPU of a hardware queue goes offline, the block layer waits until the hardware queue has no requests left
 * (blk_mq_hctx_notify_offline()). A scheduler that may hold requests for long is told before that, and when a CPU is back online.
 */
#ifndef TAILGATE_ELEVATOR_HOTPLUG_H
#define TAILGATE_ELEVATOR_HOTPLUG_H

#include <linux/cpuhotplug.h>

#include "instance.h"

static int hotplug_state;

static void hotplug_tell(unsigned int cpu, bool goes)
{
	struct instance *instance;

	mutex_lock(&instances_lock);
	list_for_each_entry(instance, &instances, node)
		this_scheduler.cpu_changes(instance, cpu, goes);
	mutex_unlock(&instances_lock);
}

static int hotplug_comes(unsigned int cpu)
{
	hotplug_tell(cpu, false);
	return 0;
}

static int hotplug_goes(unsigned int cpu)
{
	hotplug_tell(cpu, true);
	return 0;
}

/* When a CPU goes offline, callbacks of CPUHP_AP_ONLINE_DYN run before that of the block layer. */
static inline int hotplug_module_init(void)
{
	int state = cpuhp_setup_state_nocalls(CPUHP_AP_ONLINE_DYN, this_scheduler.name,
					      hotplug_comes, hotplug_goes);

	hotplug_state = state;
	return state < 0 ? state : 0;
}

static inline void hotplug_module_exit(void)
{
	cpuhp_remove_state_nocalls(hotplug_state);
}

#endif
