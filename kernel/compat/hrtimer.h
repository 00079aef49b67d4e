/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Differences in the interface of hrtimers between kernels.
 *   KAPI_HRTIMER_SETUP    hrtimer_setup() replaces hrtimer_init() (v6.13)
 */
#ifndef TAILGATE_COMPAT_HRTIMER_H
#define TAILGATE_COMPAT_HRTIMER_H

#include <linux/hrtimer.h>

#include "kbtf_features.h"

#if !KAPI_HRTIMER_SETUP
static inline void hrtimer_setup(struct hrtimer *timer,
				 enum hrtimer_restart (*function)(struct hrtimer *timer),
				 clockid_t clock, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock, mode);
	timer->function = function;
}
#endif

#endif
