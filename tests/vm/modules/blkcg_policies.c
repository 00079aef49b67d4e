// SPDX-License-Identifier: GPL-2.0-only
/* Registers all policies of cgroups that the kernel has room for, to test a module that then cannot register its own. */
#include <linux/module.h>

#include "compat/blkcg.h"

#define POLICIES 16

static struct blkcg_policy policies[POLICIES];
static unsigned int count;

static void policies_exit(void)
{
	while (count)
		blkcg_policy_unregister(&policies[--count]);
}

static int __init policies_init(void)
{
	int err = 0;

	while (count < POLICIES && !err) {
		err = blkcg_policy_register(&policies[count]);
		count += !err;
	}
	if (err == -ENOSPC)
		return 0;
	policies_exit();
	return err ? err : -E2BIG;
}

module_init(policies_init);
module_exit(policies_exit);
MODULE_DESCRIPTION("Takes all policies of cgroups, for tests");
MODULE_LICENSE("GPL");
