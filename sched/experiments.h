/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Experimental knobs of the look-ahead bound (bounds/ahead.h), in k2_experiments.ko, the simulator and tests. The product has none of
 * them: there all of their code is empty.
 *
 * - ahead_lo_kib and others: fixed values for parameters that the bound otherwise learns.
 * - bound_mode ahead: the bound is in force without a latency target too.
 * - bound_mode placebo: a control. Predictions are as frequent and as long as otherwise, but at random times. The difference is the
 *   gain from prediction.
 */
#ifndef TAILGATE_SCHED_EXPERIMENTS_H
#define TAILGATE_SCHED_EXPERIMENTS_H

#include <linux/types.h>

/* Statistics can be compiled out, in order to measure their cost. */
#ifndef K2_STATISTICS
#define K2_STATISTICS 1
#endif

struct k2;
struct ahead;
struct arrivals;

#ifdef K2_EXPERIMENTS
static const char *const k2_bound_modes[] = { "fixed", "ahead", "placebo" };

enum k2_bound_mode { K2_BOUND_FIXED, K2_BOUND_AHEAD, K2_BOUND_PLACEBO };

/* clang-format off */
#define K2_EXPERIMENT_KNOBS(knob) \
	knob(bound_mode, "mode", 0, K2_BOUND_PLACEBO, 1, 0, "choice", k2_bound_modes, 0, \
	     "ahead: look ahead, also without a latency target; placebo: the same, with predictions at random times") \
	knob(ahead_lo_kib, "KiB", 0, 1048576, 1, KNOB_AUTO, "log", NULL, KNOB_MAY_BE_AUTO, \
	     "looking ahead: least bound on bytes") \
	knob(ahead_hi_kib, "KiB", 1, 1048576, 1, KNOB_AUTO, "log", NULL, KNOB_MAY_BE_AUTO, \
	     "looking ahead: largest bound on bytes") \
	knob(ahead_lead_us, "us", 0, 1000000, 1, KNOB_AUTO, "log", NULL, KNOB_MAY_BE_AUTO, \
	     "looking ahead: time before an expected request at which the bound reaches its least value") \
	knob(ahead_ramp_pct, "percent", 1, 1000, 1, KNOB_AUTO, "log", NULL, KNOB_MAY_BE_AUTO, \
	     "looking ahead: speed at which the bound falls, in percent of the drive's rate") \
	knob(ahead_fallback_kib, "KiB", 1, 1048576, 1, KNOB_AUTO, "log", NULL, KNOB_MAY_BE_AUTO, \
	     "looking ahead: bound on bytes while no request can be predicted")
/* clang-format on */

static bool experiment_looks_ahead(const struct k2 *k2);
static void experiment_numbers(struct ahead *a);
static void experiment_prediction(const struct ahead *a, const struct arrivals *arrivals,
				  u64 *due_ns, u64 *overdue_ns);
#else
#define K2_EXPERIMENT_KNOBS(knob)

static inline bool experiment_looks_ahead(const struct k2 *k2)
{
	(void)k2;
	return false;
}

static inline void experiment_numbers(struct ahead *a)
{
	(void)a;
}

static inline void experiment_prediction(const struct ahead *a, const struct arrivals *arrivals,
					 u64 *due_ns, u64 *overdue_ns)
{
	(void)a, (void)arrivals, (void)due_ns, (void)overdue_ns;
}
#endif

#endif
