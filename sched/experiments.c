// SPDX-License-Identifier: GPL-2.0-only
/* Experimental changes to the look-ahead bound: see experiments.h. Included by k2.c. */
#ifdef K2_EXPERIMENTS

/* Sets @number to the knob's value times @unit, unless the knob is "auto". */
static void experiment_set(const struct ahead *a, enum k2_knob knob, u64 unit, u64 *number)
{
	unsigned int value = container_of(a, struct k2, ahead)->knobs[knob];

	if (value != KNOB_AUTO)
		*number = unit * value;
}

/* Is the look-ahead bound in force without a latency target? */
static bool experiment_looks_ahead(const struct k2 *k2)
{
	return k2->knobs[K2_KNOB_bound_mode] != K2_BOUND_FIXED;
}

/* Overrides the parameters that the bound has just computed. */
static void experiment_numbers(struct ahead *a)
{
	u64 ramp_pct = a->ramp_pct;

	experiment_set(a, K2_KNOB_ahead_lo_kib, 2, &a->lo_sectors);
	experiment_set(a, K2_KNOB_ahead_hi_kib, 2, &a->hi_sectors);
	experiment_set(a, K2_KNOB_ahead_fallback_kib, 2, &a->fallback_sectors);
	experiment_set(a, K2_KNOB_ahead_lead_us, 1000, &a->lead_ns);
	experiment_set(a, K2_KNOB_ahead_ramp_pct, 1, &ramp_pct);
	a->lo_sectors = min(a->lo_sectors, a->hi_sectors);
	a->slope = div_u64(a->rate * ramp_pct, 100);
}

/*
 * With bound_mode placebo, moves the start of a prediction to a random share of the gap after its origin and shifts the end equally. The
 * time of the latest arrival, hashed, is the random number (G. Steele, splitmix64, 2014).
 */
static void experiment_prediction(const struct ahead *a, const struct arrivals *arrivals,
				  u64 *due_ns, u64 *overdue_ns)
{
	u64 random = arrivals->origin_ns[ARRIVALS_FROM_ARRIVAL];
	u64 gap_ns = arrivals_gap_ns(arrivals);

	if (container_of(a, struct k2, ahead)->knobs[K2_KNOB_bound_mode] != K2_BOUND_PLACEBO)
		return;
	random = (random ^ random >> 30) * 0xbf58476d1ce4e5b9ULL;
	random = (random ^ random >> 27) * 0x94d049bb133111ebULL;
	*due_ns -= gap_ns - mul_u64_u32_shr(gap_ns, random >> 32, 32);
	*overdue_ns = *due_ns + arrivals->gaps[arrivals->way].mean - gap_ns + 1;
}

#endif
