/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What experiments change in the bound that looks ahead (bounds/ahead.h): in k2_experiments.ko, the simulator and tests. In the
 * product all of this is empty.
 *
 * - ahead_lo_kib and others: numbers that are learned otherwise.
 * - bound_mode placebo: a control. Predictions come as often and last as long as others, but at random times, so what the bound gains
 *   over it is due to what it knows.
 */
#ifndef TAILGATE_SCHED_EXPERIMENTS_H
#define TAILGATE_SCHED_EXPERIMENTS_H

#ifdef K2_EXPERIMENTS
/* clang-format off */
#define K2_EXPERIMENT_BOUND_MODES "placebo",

#define K2_EXPERIMENT_KNOBS(knob) \
	knob(ahead_lo_kib, "KiB", 0, 1048576, 1, KNOB_AUTO, "log", NULL, KNOB_MAY_BE_AUTO, \
	     "with ahead, least bound on bytes") \
	knob(ahead_hi_kib, "KiB", 1, 1048576, 1, KNOB_AUTO, "log", NULL, KNOB_MAY_BE_AUTO, \
	     "with ahead, largest bound on bytes") \
	knob(ahead_lead_us, "us", 0, 1000000, 1, KNOB_AUTO, "log", NULL, KNOB_MAY_BE_AUTO, \
	     "with ahead, time before an expected request at which the bound is least") \
	knob(ahead_ramp_pct, "percent", 1, 1000, 1, KNOB_AUTO, "log", NULL, KNOB_MAY_BE_AUTO, \
	     "with ahead, share of the drive's rate at which the bound falls") \
	knob(ahead_fallback_kib, "KiB", 1, 1048576, 1, KNOB_AUTO, "log", NULL, KNOB_MAY_BE_AUTO, \
	     "with ahead, bound on bytes where no request can be predicted")
/* clang-format on */
#else
#define K2_EXPERIMENT_BOUND_MODES
#define K2_EXPERIMENT_KNOBS(knob)
#endif

#endif
