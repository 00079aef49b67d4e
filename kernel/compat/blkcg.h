/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The part of the block layer's private interface for cgroups (block/blk-cgroup.h) that files io.<name>.* need. As in elevator.h, KAPI_*
 * comes from the target kernel's type information, and the declarations here are checked against it.
 *   KAPI_BLKCG            the kernel has this interface, and a cgroup's css is the first member of struct blkcg
 *   KAPI_BLKCG_CPD        offset in struct blkcg of the array of policies' data, in bytes
 *   KAPI_BLKCG_INIT_BIND  cpd_init_fn and cpd_bind_fn exist (until v6.4)
 */
#ifndef TAILGATE_COMPAT_BLKCG_H
#define TAILGATE_COMPAT_BLKCG_H

#include <linux/cgroup.h>
#include <linux/types.h>

#include "kbtf_features.h"

#if KAPI_BLKCG
struct blkcg;

struct blkcg_policy_data {
	struct blkcg *blkcg;
	int plid;
};

typedef struct blkcg_policy_data *(blkcg_pol_alloc_cpd_fn)(gfp_t gfp);
typedef void(blkcg_pol_free_cpd_fn)(struct blkcg_policy_data *cpd);
/* Callbacks that Tailgate does not use; their arguments are not declared. */
typedef void(blkcg_pol_init_cpd_fn)(void);
typedef void(blkcg_pol_bind_cpd_fn)(void);
typedef void(blkcg_pol_alloc_pd_fn)(void);
typedef void(blkcg_pol_init_pd_fn)(void);
typedef void(blkcg_pol_online_pd_fn)(void);
typedef void(blkcg_pol_offline_pd_fn)(void);
typedef void(blkcg_pol_free_pd_fn)(void);
typedef void(blkcg_pol_reset_pd_stats_fn)(void);
typedef void(blkcg_pol_stat_pd_fn)(void);

struct blkcg_policy {
	int plid;
	struct cftype *dfl_cftypes;
	struct cftype *legacy_cftypes;
	blkcg_pol_alloc_cpd_fn *cpd_alloc_fn;
#if KAPI_BLKCG_INIT_BIND
	blkcg_pol_init_cpd_fn *cpd_init_fn;
#endif
	blkcg_pol_free_cpd_fn *cpd_free_fn;
#if KAPI_BLKCG_INIT_BIND
	blkcg_pol_bind_cpd_fn *cpd_bind_fn;
#endif
	blkcg_pol_alloc_pd_fn *pd_alloc_fn;
	blkcg_pol_init_pd_fn *pd_init_fn;
	blkcg_pol_online_pd_fn *pd_online_fn;
	blkcg_pol_offline_pd_fn *pd_offline_fn;
	blkcg_pol_free_pd_fn *pd_free_fn;
	blkcg_pol_reset_pd_stats_fn *pd_reset_stats_fn;
	blkcg_pol_stat_pd_fn *pd_stat_fn;
};

int blkcg_policy_register(struct blkcg_policy *policy);
void blkcg_policy_unregister(struct blkcg_policy *policy);
#endif

#endif
