/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Statistics of flows, in /proc/tailgate-mqfq and in a cgroup's io.mqfq.stat. Both are printed under instances_lock, so that no instance is
 * freed meanwhile: a scheduler that is switched off, or whose disk is removed, first leaves the list of instances.
 */
#ifndef TAILGATE_MQFQ_STATISTICS_H
#define TAILGATE_MQFQ_STATISTICS_H

#include <linux/seq_file.h>

#include "elevator/statistics.h"

/* The values shown; docs/mqfq.md says what they mean. */
struct mqfq_flow_statistics {
	u64 key, requests, bytes, throttled_us, idle_slots, unfairness_kib, bound_kib;
	s64 lag_kib;
};

/* A tag, or a difference of two, in KiB of a flow of weight SHARES_WEIGHT. */
static s64 mqfq_kib(s64 tag)
{
	return div_s64(tag, 2 * SHARES_SECTOR);
}

/* The statistics of a place in the table; under accounts_lock, after mqfq_collect(). Return: false if the place is free. */
static bool mqfq_statistics_of(const struct mqfq *m, unsigned int place,
			       struct mqfq_flow_statistics *s)
{
	const struct account *a = &m->accounts[place];
	struct mqfq_counts counts;
	u64 start;

	if (!mqfq_count(m, place, &counts))
		return false;
	s->key = counts.key;
	s->requests = counts.requests;
	s->bytes = counts.sectors << SECTOR_SHIFT;
	s->lag_kib = mqfq_waits(m, place, &start) ? mqfq_kib(atomic64_read(&m->vt) - start) : 0;
	s->throttled_us = div_u64(atomic64_read(&a->throttled_ns), NSEC_PER_USEC);
	s->idle_slots = atomic64_read(&a->idle);
	s->unfairness_kib = a->was.key == s->key ? mqfq_kib(a->unfair) : 0;
	s->bound_kib = a->was.key == s->key ? mqfq_kib(a->bound) : 0;
	return true;
}

static void mqfq_show_flow(struct seq_file *m, const struct instance *instance, unsigned int place,
			   const struct mqfq_flow_statistics *s)
{
	if (place == FLOWS_NONE)
		statistics_print(m, instance, "flow%u.not_fair 1", place);
	else if (place == FLOWS_SHARED)
		statistics_print(m, instance, "flow%u.others 1", place);
	else if (s->key & BIT_ULL(63))
		statistics_print(m, instance, "flow%u.process %llu", place, s->key & ~BIT_ULL(63));
	else
		statistics_print(m, instance, "flow%u.cgroup %llu", place, s->key);
	statistics_print(m, instance, "flow%u.requests %llu", place, s->requests);
	statistics_print(m, instance, "flow%u.bytes %llu", place, s->bytes);
	if (place == FLOWS_NONE)
		return;
	statistics_print(m, instance, "flow%u.lag_kib %lld", place, s->lag_kib);
	statistics_print(m, instance, "flow%u.throttled_us %llu", place, s->throttled_us);
	statistics_print(m, instance, "flow%u.idle_slots %llu", place, s->idle_slots);
	statistics_print(m, instance, "flow%u.unfairness_kib %llu", place, s->unfairness_kib);
	statistics_print(m, instance, "flow%u.bound_kib %llu", place, s->bound_kib);
}

/*
 * Prints the statistics of all flows of a disk. There may be thousands of lines, so none is printed under the lock. If mqfq_account() has
 * collected meanwhile, with fewer looks, they are collected again.
 */
static void mqfq_show_flows(struct seq_file *m, struct instance *instance)
{
	struct mqfq *mqfq = &instance->algorithm;
	struct mqfq_flow_statistics s;
	unsigned int place, collection = 0;
	bool is_flow;

	for (place = 0; place < FLOWS_COUNT; place++) {
		spin_lock(&mqfq->accounts_lock);
		if (!place || mqfq->collection != collection) {
			mqfq_collect(mqfq, MQFQ_LOOKS);
			collection = mqfq->collection;
		}
		is_flow = mqfq_statistics_of(mqfq, place, &s);
		spin_unlock(&mqfq->accounts_lock);
		if (is_flow)
			mqfq_show_flow(m, instance, place, &s);
	}
}

#if KAPI_BLKCG
/* io.mqfq.stat: a line for each disk on which the cgroup is a flow, in the format of io.stat. */
static int mqfq_show_cgroup(struct seq_file *m, void *v)
{
	u64 key = cgroup_id(seq_css(m)->cgroup);
	struct mqfq_flow_statistics s;
	struct instance *instance;
	unsigned int place;
	bool is_flow;

	mutex_lock(&instances_lock);
	kcsan_disable_current(); /* as in statistics_show() */
	list_for_each_entry(instance, &instances, node) {
		struct mqfq *mqfq = &instance->algorithm;
		dev_t dev = instance_dev(instance);

		if (flows_look_up(&mqfq->flows, key) == FLOWS_NONE)
			continue;
		spin_lock(&mqfq->accounts_lock);
		mqfq_collect(mqfq, MQFQ_LOOKS);
		place = flows_look_up(&mqfq->flows, key);
		is_flow = place != FLOWS_NONE && mqfq_statistics_of(mqfq, place, &s) &&
			  s.key == key;
		spin_unlock(&mqfq->accounts_lock);
		if (!is_flow || !dev)
			continue;
		seq_printf(
			m,
			"%u:%u bytes=%llu requests=%llu lag_kib=%lld throttled_us=%llu idle_slots=%llu unfairness_kib=%llu bound_kib=%llu\n",
			MAJOR(dev), MINOR(dev), s.bytes, s.requests, s.lag_kib, s.throttled_us,
			s.idle_slots, s.unfairness_kib, s.bound_kib);
	}
	kcsan_enable_current();
	mutex_unlock(&instances_lock);
	return 0;
}
#endif

#endif
