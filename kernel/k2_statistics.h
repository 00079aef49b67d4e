/* SPDX-License-Identifier: GPL-2.0-only */
/* The lines of /proc/tailgate-k2 (elevator/statistics.h); docs/k2/reference.md says what they mean. Included by k2.c. */
#ifndef TAILGATE_K2_STATISTICS_H
#define TAILGATE_K2_STATISTICS_H

#define k2_kib_s(rate) (rate_sectors(READ_ONCE(rate), NSEC_PER_SEC) / 2)

#define k2_print(...) statistics_print(m, instance, __VA_ARGS__)

/* Prints what was learned of a flow. */
static void k2_show_flow(struct seq_file *m, const struct instance *instance, unsigned int i)
{
	const struct ahead *ahead = &instance->algorithm.ahead;
	const struct arrivals *arrivals = &ahead->flows[i].arrivals;

	if (!READ_ONCE(arrivals->origin_ns[ARRIVALS_FROM_ARRIVAL]))
		return;
	k2_print("flow%u.level %u", i, READ_ONCE(ahead->flows[i].level));
	k2_print("flow%u.cgroup %llu", i, READ_ONCE(ahead->flows[i].key));
	k2_print("flow%u.predicted %u", i, !!(READ_ONCE(ahead->predicted) & BIT(i)));
	k2_print("flow%u.from %s", i, k2_ways[READ_ONCE(arrivals->way)]);
	k2_print("flow%u.gap_us %llu", i, div_u64(arrivals_gap_ns(arrivals), 1000));
	k2_print("flow%u.late_us %llu", i, div_u64(arrivals_late_ns(arrivals), 1000));
}

static const char *k2_target_state(const struct target *target)
{
	if (!READ_ONCE(target->target_ns))
		return "none";
	if (target_is_missed(target))
		return "missed";
	return READ_ONCE(target->kind) == TARGET_PREDICTED ? "predicted" : "unpredicted";
}

static void k2_show_level(struct seq_file *m, const struct instance *instance, unsigned int level)
{
	const struct k2 *k2 = &instance->algorithm;
	u64 dispatched = READ_ONCE(k2->dispatched[level]), merged = READ_ONCE(k2->removed[level]);
	u64 taken = level == K2_BACKGROUND ? READ_ONCE(k2->taken) : 0, inserted = 0;
	s64 inflight = level == K2_BACKGROUND ? inflight_requests(&k2->inflight) -
							atomic_read(&k2->rt_inflight_all) :
						atomic_read(&k2->rt_inflight[level]);
	unsigned int i;

	/* read after the other counters, so that queued is not negative: a request is inserted before it leaves */
	for (i = 0; i < k2->levels.ctx_count; i++)
		inserted += READ_ONCE(k2->levels.ctxs[i]->inserted[level]);
	k2_print("level%u.inflight %lld", level, max_t(s64, inflight, 0));
	k2_print("level%u.queued %llu", level, inserted - dispatched - merged - taken);
	k2_print("level%u.inserted %llu", level, inserted);
	k2_print("level%u.dispatched %llu", level, dispatched);
	k2_print("level%u.merged %llu", level, merged);
	statistics_print_list(m, instance, k2->wait[level], K2_WAIT_BUCKETS, "level%u.wait_us",
			      level);
}

static void k2_show(struct seq_file *m, const struct instance *instance)
{
	const struct k2 *k2 = &instance->algorithm;
	u64 target_sectors = READ_ONCE(k2->target.points[READ_ONCE(k2->target.kind)].limit_sectors);
	unsigned int i;

	k2_print("inflight %llu", inflight_requests(&k2->inflight));
	k2_print("inflight_kib %llu", inflight_sectors(&k2->inflight) / 2);
	k2_print("constrains %d",
		 READ_ONCE(k2->inflight.requests_max) != BOUND_NONE || READ_ONCE(k2->target.on));
	k2_print("piece_kib %u", READ_ONCE(k2->piece_sectors) / 2);
	k2_print("rt_completed %llu", (u64)atomic64_read(&k2->rt_ended));
	k2_print("rt_time_us %llu", div_u64(atomic64_read(&k2->rt_ns), 1000));
	k2_print("rt_activations %llu", READ_ONCE(k2->activity.begun));
	k2_print("rt_period_us %llu", div_u64(READ_ONCE(k2->activity.period_ns), 1000));

	k2_print("ahead_rate_kib_s %llu", k2_kib_s(k2->ahead.rate));
	k2_print("ahead_lo_now_kib %llu", READ_ONCE(k2->ahead.lo_sectors) / 2);
	k2_print("ahead_hi_now_kib %llu", READ_ONCE(k2->ahead.hi_sectors) / 2);
	k2_print("ahead_predicted %lu", hweight_long(READ_ONCE(k2->ahead.predicted)));
	k2_print("ahead_ticks %llu", READ_ONCE(k2->ticks));
	for (i = 0; i < AHEAD_FLOWS; i++)
		k2_show_flow(m, instance, i);

	k2_print("write_debt_kib %llu", debt_owed(&k2->debt, k2_now(k2)) / 2);
	k2_print("write_debt_kib_max_now %llu", READ_ONCE(k2->debt.limit_sectors) / 2);
	k2_print("write_drain_kib_s %llu", k2_kib_s(k2->debt.rate));
	k2_print("write_drain_seen_kib_s %llu", k2_kib_s(k2->debt.seen));
	k2_print("write_debt_read_us %llu", div_u64(READ_ONCE(k2->debt.read_ns), 1000));

	k2_print("rt_target_state %s", k2_target_state(&k2->target));
	k2_print("rt_target_kib %llu", target_sectors == BOUND_NONE ? 0 : target_sectors / 2);
	k2_print("rt_target_idle_us %llu",
		 div_u64(READ_ONCE(k2->target.idle[READ_ONCE(k2->target.latest)].typical_ns),
			 1000));
	k2_print("discards_inflight %d", atomic_read(&k2->discard.inflight));
	k2_print("discards_dispatched %llu", READ_ONCE(k2->discard.dispatched));
	split_show(m, instance, instance->discard_split, "discard");
	k2_print("split_staged %llu", READ_ONCE(k2->taken));
	split_show(m, instance, instance->split, "split");
	k2_print("bound_held %ld", atomic_long_read(&k2->bound_held));
	for (i = 0; i < K2_LEVELS; i++)
		k2_show_level(m, instance, i);
}

#undef k2_print

#endif
