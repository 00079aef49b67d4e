/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Weights of cgroups, for all drives that use mqfq. A cgroup (v2) has a file io.mqfq.weight. It takes "<weight>" or "default <weight>", as
 * io.weight does. The kernel has room for six policies with such files. If all are taken, for cgroups of v1, and for the root, weights
 * are set with the module parameter weights, which takes "<id of the cgroup> <weight>". The id is the inode number of the cgroup's
 * directory, and is never reused. A weight set there overrides the file.
 */
#ifndef TAILGATE_MQFQ_WEIGHTS_H
#define TAILGATE_MQFQ_WEIGHTS_H

#include <linux/moduleparam.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/sysfs.h>
#include <linux/xarray.h>

#include "compat/blkcg.h"
#include "../sched/fair/shares.h"

/* Weights set with the module parameter, by cgroup id. */
static DEFINE_XARRAY(weights);

static bool weight_is_valid(unsigned long weight)
{
	return weight >= 1 && weight <= SHARES_WEIGHT_MAX;
}

static int weights_set_parameter(const char *line, const struct kernel_param *parameter)
{
	unsigned long id, weight;
	char more;

	/* so few digits that no number overflows */
	if (sscanf(line, "%19lu %19lu %c", &id, &weight, &more) != 2 || !id)
		return -EINVAL;
	if (!weight_is_valid(weight))
		return -ERANGE;
	return xa_err(xa_store(&weights, id, xa_mk_value(weight), GFP_KERNEL));
}

static int weights_get_parameter(char *page, const struct kernel_param *parameter)
{
	unsigned long id;
	void *entry;
	int length = 0;

	xa_for_each(&weights, id, entry)
		length += sysfs_emit_at(page, length, "%lu %lu\n", id, xa_to_value(entry));
	return length;
}

static const struct kernel_param_ops weights_parameter = {
	.set = weights_set_parameter,
	.get = weights_get_parameter,
};

module_param_cb(weights, &weights_parameter, NULL, 0644);
MODULE_PARM_DESC(weights, "weight of a cgroup, overrides io.mqfq.weight: \"<id> <weight>\"");

#if KAPI_BLKCG
/* The policy's data in each cgroup. */
struct weight {
	struct blkcg_policy_data data;
	unsigned int weight;
};

static struct blkcg_policy weights_policy;
static bool weights_have_files __read_mostly;

static struct weight *weights_in(struct cgroup_subsys_state *css)
{
	struct blkcg_policy_data **all = (void *)css + KAPI_BLKCG_CPD;

	return container_of(all[weights_policy.plid], struct weight, data);
}

/* The weight of a cgroup, which the caller keeps from going away. Any context. */
static unsigned int weights_of(struct cgroup_subsys_state *css)
{
	void *told = xa_load(&weights, cgroup_id(css->cgroup));

	if (told)
		return xa_to_value(told);
	return weights_have_files ? READ_ONCE(weights_in(css)->weight) : SHARES_WEIGHT;
}

static int weights_show(struct seq_file *m, void *v)
{
	seq_printf(m, "%u\n", weights_in(seq_css(m))->weight);
	return 0;
}

static ssize_t weights_write(struct kernfs_open_file *of, char *line, size_t length, loff_t offset)
{
	static const char prefix[] = "default ";
	unsigned int weight;
	int err;

	line = strim(line);
	if (!strncmp(line, prefix, strlen(prefix)))
		line += strlen(prefix);
	err = kstrtouint(line, 10, &weight);
	if (err)
		return err;
	if (!weight_is_valid(weight))
		return -ERANGE;
	WRITE_ONCE(weights_in(of_css(of))->weight, weight);
	return length;
}

/* in mqfq_statistics.h */
static int mqfq_show_cgroup(struct seq_file *m, void *v);

static struct cftype weights_files[] = { {
						 .name = "mqfq.weight",
						 .flags = CFTYPE_NOT_ON_ROOT,
						 .seq_show = weights_show,
						 .write = weights_write,
					 },
					 {
						 .name = "mqfq.stat",
						 .seq_show = mqfq_show_cgroup,
					 },
					 {} };

static struct blkcg_policy_data *weights_alloc(gfp_t gfp)
{
	struct weight *weight = kzalloc(sizeof(*weight), gfp);

	if (!weight)
		return NULL;
	weight->weight = SHARES_WEIGHT;
	return &weight->data;
}

static void weights_free(struct blkcg_policy_data *data)
{
	kfree(container_of(data, struct weight, data));
}

static struct blkcg_policy weights_policy = {
	.dfl_cftypes = weights_files,
	.cpd_alloc_fn = weights_alloc,
	.cpd_free_fn = weights_free,
};

/* Before elv_register(). */
static void __init weights_module_init(void)
{
	int err = blkcg_policy_register(&weights_policy);

	weights_have_files = !err;
	if (err)
		pr_warn("mqfq: cgroups have no files io.mqfq.* (error %d): set weights in /sys/module/mqfq/parameters/weights\n",
			-err);
}

/* After elv_unregister(). */
static void weights_module_exit(void)
{
	if (weights_have_files)
		blkcg_policy_unregister(&weights_policy);
	xa_destroy(&weights);
}
#else
static inline unsigned int weights_of(struct cgroup_subsys_state *css)
{
	void *told = css ? xa_load(&weights, cgroup_id(css->cgroup)) : NULL;

	return told ? xa_to_value(told) : SHARES_WEIGHT;
}

static inline void weights_module_init(void)
{
}

static inline void weights_module_exit(void)
{
	xa_destroy(&weights);
}
#endif

#endif
