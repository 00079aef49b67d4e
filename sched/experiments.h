/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Experimental knobs of the look-ahead bound (bounds/ahead.h), in k2_experiments.ko, the simulator and tests. The product has none of
 * them: there all of this is empty.
 *
 * - ahead_lo_kib and others: fixed values for parameters that the bound otherwise learns.
 * - bound_mode placebo: a control. Predictions are as frequent and as long as those of ahead, but at random times. The difference
 *   between ahead and placebo is the gain from prediction.
 */
#ifndef TAILGATE_SCHED_EXPERIMENTS_H
#define TAILGATE_SCHED_EXPERIMENTS_H

#ifdef K2_EXPERIMENTS
/* clang-format off */
#define K2_EXPERIMENT_BOUND_MODES "placebo",

#define K2_EXPERIMENT_KNOBS(knob) \
	knob(ahead_lo_kib, "KiB", 0, 1048576, 1, KNOB_AUTO, "log", NULL, KNOB_MAY_BE_AUTO, \
	     "with bound_mode ahead: least bound on bytes") \
	knob(ahead_hi_kib, "KiB", 1, 1048576, 1, KNOB_AUTO, "log", NULL, KNOB_MAY_BE_AUTO, \
	     "with bound_mode ahead: largest bound on bytes") \
	knob(ahead_lead_us, "us", 0, 1000000, 1, KNOB_AUTO, "log", NULL, KNOB_MAY_BE_AUTO, \
	     "with bound_mode ahead: time before an expected request at which the bound reaches its least value") \
	knob(ahead_ramp_pct, "percent", 1, 1000, 1, KNOB_AUTO, "log", NULL, KNOB_MAY_BE_AUTO, \
	     "with bound_mode ahead: speed at which the bound falls, in percent of the drive's rate") \
	knob(ahead_fallback_kib, "KiB", 1, 1048576, 1, KNOB_AUTO, "log", NULL, KNOB_MAY_BE_AUTO, \
	     "with bound_mode ahead: bound on bytes while no request can be predicted")
/* clang-format on */
#else
#define K2_EXPERIMENT_BOUND_MODES
#define K2_EXPERIMENT_KNOBS(knob)
#endif

#endif
