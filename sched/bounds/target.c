// SPDX-License-Identifier: GPL-2.0-only
/* A target for real-time latency: see target.h. Included by the scheduler that asks it. */
#include <linux/bitops.h>
#include <linux/math64.h>

#include "estimate.h"
#include "target.h"

/* 2 to this power, linear between two powers. */
static u64 target_power(int log)
{
	unsigned int whole = log >> TARGET_LOG_SHIFT, part = log & ((1 << TARGET_LOG_SHIFT) - 1);

	return (1ULL << whole) + ((u64)part << whole >> TARGET_LOG_SHIFT);
}

static void target_apply(struct target *t)
{
	unsigned int kind;

	for (kind = 0; kind < TARGET_KINDS; kind++) {
		struct target_point *p = &t->points[kind];

		p->applied = p->log;
		WRITE_ONCE(t->limit_sectors[kind], t->on ? target_power(p->log) : BOUND_NONE);
	}
}

/**
 * target_change() - what knobs ask for; another target begins anew
 * @t: the drive's target
 * @on: the bound is in force
 * @target_ns: real-time latency, TARGET_AUTO, or 0: there is no target
 */
static void target_change(struct target *t, bool on, u64 target_ns)
{
	const struct target_point first = { .log = TARGET_LOG_FIRST, .first = TARGET_FIRST };

	if (t->target_ns != target_ns) {
		*t = (struct target){ .points = { first, first } };
		WRITE_ONCE(t->target_ns, target_ns);
	}
	t->on = on;
	if (!on)
		t->probe_until_ns = 0;
	target_apply(t);
}

/* The class of a request that moves data. */
static inline unsigned int target_class(u64 sectors, bool writes)
{
	return (writes ? TARGET_SIZES : 0) +
	       min_t(unsigned int, fls64((sectors - 1) >> 3), TARGET_SIZES - 1);
}

static inline u64 target_allows(const struct target *t, struct bound_request *r)
{
	return r->sectors && r->now_ns < t->probe_until_ns ? t->probe_until_ns : BOUND_YES;
}

/* A real-time request goes to the drive. @alone: it meets nothing there. */
static void target_rt_went(struct target *t, u64 sectors, bool writes, bool alone, u64 now_ns)
{
	unsigned int class = target_class(sectors, writes);
	struct target_idle *idle = &t->idle[class];
	bool is_known = READ_ONCE(idle->count) >= TARGET_PROBES_FIRST;

	WRITE_ONCE(t->latest, class);
	if (alone) {
		t->since_probe = 0;
		if (is_known)
			t->probe_until_ns = 0;
	}
	if (now_ns < t->probe_until_ns)
		return;
	if (is_known || idle->tries == TARGET_PROBES_FIRST) {
		if (++t->since_probe < TARGET_PROBE_EVERY)
			return;
		t->since_probe = 0;
	} else {
		idle->tries++;
	}
	t->probe_until_ns = now_ns + TARGET_PROBE_NS;
}

/* A request of this class has ended; any context. Two CPUs at a time may lose a sample. */
static void target_learn_idle(struct target_idle *idle, bool alone, u64 took_ns)
{
	u64 typical_ns = READ_ONCE(idle->typical_ns), step_ns = typical_ns >> TARGET_IDLE_MEMORY;
	unsigned int count = READ_ONCE(idle->count);

	WRITE_ONCE(idle->least_ns,
		   recent_min(READ_ONCE(idle->least_ns), took_ns, TARGET_LEAST_MEMORY));
	if (!alone)
		return;
	if (count < TARGET_PROBES_FIRST)
		typical_ns = typical_ns ? min(typical_ns, took_ns) : took_ns;
	else
		typical_ns += took_ns > typical_ns ? TARGET_IDLE_ODDS * step_ns : -step_ns;
	WRITE_ONCE(idle->typical_ns, typical_ns);
	WRITE_ONCE(idle->count, count + 1);
}

/* What a request takes in the idle drive; 0: not known. */
static inline u64 target_idle_ns(const struct target_idle *idle)
{
	return READ_ONCE(idle->count) >= TARGET_PROBES_FIRST ? READ_ONCE(idle->typical_ns) :
							       READ_ONCE(idle->least_ns);
}

/**
 * target_ended() - a real-time request has ended; any context
 * @t: the drive's target
 * @kind: of the operating point under which it went to the drive
 * @sectors: sectors of it
 * @writes: it is a write
 * @alone: it met nothing in the drive
 * @latency_ns: from its arrival
 */
static void target_ended(struct target *t, enum target_kind kind, u64 sectors, bool writes,
			 bool alone, u64 latency_ns)
{
	struct target_idle *idle = &t->idle[target_class(sectors, writes)];
	u64 idle_ns = target_idle_ns(idle), limit_ns = READ_ONCE(t->target_ns);
	struct target_point *point = &t->points[kind];
	int lift;

	if (limit_ns == TARGET_AUTO)
		limit_ns = TARGET_AUTO_TIMES * idle_ns;
	lift = READ_ONCE(point->lift);
	if (lift)
		limit_ns = limit_ns * target_power(lift + (8 << TARGET_LOG_SHIFT)) >> 8;
	if (READ_ONCE(point->first) && limit_ns > idle_ns)
		limit_ns -= (limit_ns - idle_ns) / 2;
	target_learn_idle(idle, alone, latency_ns);
	if (!idle_ns)
		return;
	if (latency_ns > limit_ns)
		atomic_inc(&point->late);
	atomic_inc(&point->ended);
}

/* Is the aim higher than what is asked for? */
static inline bool target_is_missed(const struct target *t)
{
	return READ_ONCE(t->points[t->kind].lift) > TARGET_LIFT_ODDS * TARGET_LIFT_STEP;
}

/* Moves a bound by requests of which some were late. */
static void target_step(struct target *t, enum target_kind kind, int in_time, int late)
{
	struct target_point *p = &t->points[kind];
	int log_min = kind == TARGET_PREDICTED ? TARGET_LOG_MIN_PREDICTED : TARGET_LOG_MIN;
	int up = in_time * TARGET_STEP, down = late * TARGET_ODDS * TARGET_STEP, forgiven = 0;
	int lift = p->lift;

	if (p->first) {
		up = in_time * TARGET_FIRST_STEP;
		down = late * TARGET_FIRST_ODDS * TARGET_FIRST_STEP;
		WRITE_ONCE(p->first, max(p->first - in_time - late, 0));
	} else if (!t->held) {
		p->credit = min(p->credit + up, TARGET_CREDIT);
	} else if (p->log < log_min + 2 * TARGET_ODDS * TARGET_STEP) {
		lift += (late * TARGET_LIFT_ODDS - in_time) * TARGET_LIFT_STEP;
	} else {
		lift -= lift * (s64)(in_time + late) >> TARGET_LIFT_FORGET;
	}
	WRITE_ONCE(p->lift, clamp_t(int, lift, 0, TARGET_LIFT_MAX));
	if (late)
		p->calm = 0;
	if (t->held) {
		p->calm = min(p->calm + in_time, TARGET_CALM + 1);
		p->log += p->calm > TARGET_CALM ? TARGET_CALM_TIMES * up : up;
	}
	forgiven = min(down, p->credit);
	p->credit -= forgiven;
	p->log = clamp_t(int, p->log + forgiven - down, log_min, TARGET_LOG_MAX);
}

/**
 * target_learn() - before a dispatch: move the bounds by the real-time requests that have ended since
 * @t: the drive's target
 *
 * Return: true if a bound has changed.
 */
static bool target_learn(struct target *t)
{
	bool changed = false;
	unsigned int kind;

	for (kind = 0; kind < TARGET_KINDS; kind++) {
		struct target_point *p = &t->points[kind];
		int ended, late;

		if (likely(!atomic_read(&p->ended)))
			continue;
		late = atomic_xchg(&p->late, 0);
		ended = min(atomic_xchg(&p->ended, 0), TARGET_ENDED_MAX);
		late = min(late, ended);
		target_step(t, kind, ended - late, late);
		t->held = false;
		changed |= abs(p->log - p->applied) >= TARGET_LOG_GRAIN;
	}
	if (changed)
		target_apply(t);
	return changed;
}
