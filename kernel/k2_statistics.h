/* SPDX-License-Identifier: GPL-2.0-only */
/* The lines of /proc/tailgate-k2 (elevator/statistics.h); docs/k2.md says what they mean. Included by k2.c. */
#ifndef TAILGATE_K2_STATISTICS_H
#define TAILGATE_K2_STATISTICS_H

static u64 k2_kib_s(u32 rate)
{
	return mul_u64_u32_shr(NSEC_PER_SEC, rate, 32) / 2;
}

#define k2_print(...) statistics_print(m, instance, __VA_ARGS__)

/* What was learned of the debt of writes. */
static void k2_show_debt(struct seq_file *m, const struct instance *instance)
{
	const struct k2 *k2 = &k2_of(instance)->k2;
	const struct debt *debt = &k2->debt;

	k2_print("write_debt_kib %llu", debt_owed(debt, k2_now(k2)) / 2);
	k2_print("write_debt_kib_max_now %llu", READ_ONCE(debt->limit_sectors) / 2);
	k2_print("write_drain_kib_s %llu", k2_kib_s(READ_ONCE(debt->rate)));
	k2_print("write_drain_seen_kib_s %llu", k2_kib_s(READ_ONCE(debt->seen)));
	k2_print("write_debt_read_us %llu", div_u64(READ_ONCE(debt->read_ns), 1000));
}

/* What the target makes of the bounds. */
static void k2_show_target(struct seq_file *m, const struct instance *instance)
{
	const struct target *target = &k2_of(instance)->k2.target;
	u64 limit = READ_ONCE(target->limit_sectors);

	k2_print("rt_target_state %s", !READ_ONCE(target->target_ns)	      ? "none" :
				       READ_ONCE(target->given_up)	      ? "missed" :
				       READ_ONCE(target->arm) == TARGET_AHEAD ? "ahead" :
										"fixed");
	k2_print("rt_target_kib %llu", limit == BOUND_NONE ? 0 : limit / 2);
}

/* What the bound that looks ahead has learned. */
static void k2_show_ahead(struct seq_file *m, const struct instance *instance)
{
	static const char *const ways[ARRIVALS_WAYS] = { "end", "arrival", "grid" };
	const struct k2 *k2 = &k2_of(instance)->k2;
	const struct ahead *ahead = &k2->ahead;
	unsigned int i;

	k2_print("ahead_rate_kib_s %llu", k2_kib_s(READ_ONCE(ahead->rate)));
	k2_print("ahead_lo_now_kib %llu", READ_ONCE(ahead->lo_sectors) / 2);
	k2_print("ahead_hi_now_kib %llu", READ_ONCE(ahead->hi_sectors) / 2);
	k2_print("ahead_lead_now_us %llu", div_u64(READ_ONCE(ahead->lead_ns), 1000));
	k2_print("ahead_predicted %lu", hweight_long(READ_ONCE(ahead->predicted)));
	k2_print("ahead_ticks %llu", READ_ONCE(k2->ticks));
	for (i = 0; i < AHEAD_FLOWS; i++) {
		const struct arrivals *arrivals = &ahead->flows[i].arrivals;

		if (!READ_ONCE(arrivals->arrived_ns))
			continue;
		k2_print("flow%u.level %u", i, READ_ONCE(ahead->flows[i].level));
		k2_print("flow%u.cgroup %llu", i, READ_ONCE(ahead->flows[i].key));
		k2_print("flow%u.predicted %u", i, !!(READ_ONCE(ahead->predicted) & BIT(i)));
		k2_print("flow%u.from %s", i, ways[READ_ONCE(arrivals->way)]);
		k2_print("flow%u.gap_us %llu", i, div_u64(arrivals_gap_ns(arrivals), 1000));
		k2_print("flow%u.late_us %llu", i, div_u64(arrivals_late_ns(arrivals), 1000));
	}
}

static void k2_show_split(struct seq_file *m, const struct instance *instance)
{
	const struct k2_queue_data *d = k2_of(instance);

	k2_print("discard_requests %ld", atomic_long_read(&d->discard_split->requests));
	k2_print("discard_pieces %ld", atomic_long_read(&d->discard_split->pieces));
	k2_print("split_staged %llu", READ_ONCE(d->k2.taken));
	k2_print("split_requests %ld", atomic_long_read(&d->split->requests));
	k2_print("split_pieces %ld", atomic_long_read(&d->split->pieces));
}

static unsigned int k2_level_inflight(const struct k2 *k2, unsigned int level)
{
	s64 others = inflight_requests(&k2->inflight) - (u64)k2_rt_inflight(k2);

	return level < K2_RT_LEVELS ? atomic_read(&k2->rt_inflight[level]) : max_t(s64, others, 0);
}

static void k2_show_level(struct seq_file *m, const struct instance *instance, unsigned int level)
{
	const struct k2 *k2 = &k2_of(instance)->k2;
	u64 dispatched = READ_ONCE(k2->dispatched[level]), merged = READ_ONCE(k2->removed[level]);
	u64 taken = level == K2_BACKGROUND ? READ_ONCE(k2->taken) : 0, inserted = 0;
	char key[sizeof("level8.wait_us")];
	unsigned int i;

	/* read last: what has left was inserted before */
	for (i = 0; i < k2->levels.ctx_count; i++)
		inserted += READ_ONCE(k2->levels.ctxs[i]->inserted[level]);
	k2_print("level%u.inflight %u", level, k2_level_inflight(k2, level));
	k2_print("level%u.queued %llu", level, inserted - dispatched - merged - taken);
	k2_print("level%u.inserted %llu", level, inserted);
	k2_print("level%u.dispatched %llu", level, dispatched);
	k2_print("level%u.merged %llu", level, merged);
	snprintf(key, sizeof(key), "level%u.wait_us", level);
	statistics_print_list(m, instance, key, k2->wait[level], K2_WAIT_BUCKETS);
}

static void k2_show(struct seq_file *m, const struct instance *instance)
{
	const struct k2 *k2 = &k2_of(instance)->k2;
	unsigned int level;

	k2_print("inflight %llu", inflight_requests(&k2->inflight));
	k2_print("inflight_kib %llu", inflight_sectors(&k2->inflight) / 2);
	k2_print("constrains %d", READ_ONCE(k2->inflight.requests_max) != BOUND_NONE);
	k2_print("piece_kib %u", READ_ONCE(k2->piece_sectors) / 2);
	k2_print("rt_activations %llu", READ_ONCE(k2->activity.begun));
	k2_print("rt_period_us %llu", div_u64(READ_ONCE(k2->activity.period_ns), 1000));
	k2_show_ahead(m, instance);
	k2_show_debt(m, instance);
	k2_show_target(m, instance);
	k2_print("discards_inflight %d", atomic_read(&k2->discard.inflight));
	k2_print("discards_dispatched %llu", READ_ONCE(k2->discard.dispatched));
	k2_show_split(m, instance);
	k2_print("bound_held %ld", atomic_long_read(&k2->bound_held));
	for (level = 0; level < K2_LEVELS; level++)
		k2_show_level(m, instance, level);
}

#undef k2_print

#endif
