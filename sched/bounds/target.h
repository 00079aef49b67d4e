/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A target for real-time latency. The target finds the bound on background bytes with which 99 of 100 real-time requests meet it, or 999 of
 * 1000 (p99.9).
 *
 * A request that was late moves the bound down by a step, one that was in time up by a 105th of a step, so that both cancel out when one
 * in 106 is late; with one in a hundred, chance would decide whether the percentile meets the target (H. Robbins, S. Monro, "A stochastic
 * approximation method", 1951; steps are of the logarithm, as a bound is wrong by factors). For p99.9, one in time moves it up by a tenth of
 * that. The bound does not rise while it holds nothing. Requests in time are then saved as a credit for a few late ones: the percentile is
 * that of all requests, with and without background. Of a new bound the first steps are larger, and look for p99.
 *
 * There are two operating points, each with its bound: where all real-time requests are predicted, the bound that looks ahead (ahead.h)
 * never falls below it; elsewhere it is the limit. Both are remembered.
 *
 * The target is a latency, or automatic: TARGET_AUTO_TIMES what a request of the same direction and size class takes in the idle drive. To
 * measure that, the background is held until a request meets nothing in the drive and did not wait before, for TARGET_PROBE_NS at most: for
 * the first requests of a class, and after TARGET_PROBE_OFTEN, later TARGET_PROBE_EVERY, that met something.
 *
 * Requests that are late with next to nothing in the drive are late for reasons that no bound mends: rare long reads, erases, other
 * real-time requests, or a target below what the drive can do. The aim is then raised until one in 111 of them is late, for p99.9 one
 * in 1101.
 */
#ifndef TAILGATE_SCHED_TARGET_H
#define TAILGATE_SCHED_TARGET_H

#include <linux/atomic.h>
#include <linux/bitops.h>

#include "bound.h"
#include "estimate.h"

/* Value of the target: automatic. A real-time request may then wait for as long as it takes by itself. */
#define TARGET_AUTO (~0ULL)
#define TARGET_AUTO_TIMES 2

/* Size classes: up to 4 KiB, up to 8 KiB, ... more than 256 KiB; writes have their own. */
#define TARGET_SIZES 8
#define TARGET_CLASSES (2 * TARGET_SIZES)
/*
 * What a request takes in the idle drive is the upper quartile of its class, so that rare long ones and those that a busy processor
 * delayed do not count: a sample above moves it up by TARGET_IDLE_ODDS steps, one below moves it down by one. It begins with the least of
 * TARGET_PROBES_FIRST samples. The n-th step after them is 1/(n * TARGET_IDLE_PART) of it, so that the aim settles. Only
 * TARGET_IDLE_SAMPLES samples are counted, so that the aim follows a drive that changes. Before, and for flows so slow that holding the
 * background shows none, it is the least time of about 2^TARGET_LEAST_MEMORY requests.
 */
#define TARGET_IDLE_ODDS 3
#define TARGET_IDLE_PART 12
#define TARGET_IDLE_SAMPLES 28
#define TARGET_PROBES_FIRST 8
#define TARGET_LEAST_MEMORY 10
/*
 * The background is held again after this many requests that met something, which costs it little; always for this long at most. If that
 * showed no request alone, as real-time requests never leave the drive, it is not held for twenty times as long: that costs it a twentieth.
 * For the first samples, it is held again at once as long as all but one time have shown one. Until TARGET_IDLE_SAMPLES are there it is held
 * more often, so that the aim is right after some 1300 requests, not after 10 000.
 */
#define TARGET_PROBE_EVERY 512
#define TARGET_PROBE_OFTEN 64
#define TARGET_PROBE_NS 50000000ULL

/* Binary digits after the point of a logarithm to base 2. */
#define TARGET_LOG_SHIFT 16
/*
 * Logarithms of the bound in sectors: 4 KiB to 128 MiB; 16 KiB at first, as requests that are late early on count as
 * well. Where requests are predicted, less than 8 KiB means a longer lead (ahead.h).
 */
#define TARGET_LOG_MIN (3 << TARGET_LOG_SHIFT)
#define TARGET_LOG_MIN_PREDICTED (1 << TARGET_LOG_SHIFT)
#define TARGET_LOG_MAX (18 << TARGET_LOG_SHIFT)
#define TARGET_LOG_FIRST (5 << TARGET_LOG_SHIFT)
/* The bound is set anew when it has moved by a hundredth, as that changes the other bounds as well, which takes time. */
#define TARGET_LOG_GRAIN (1 << TARGET_LOG_SHIFT >> 6)
/* What a request in time moves the bound up; a late one moves it down by TARGET_ODDS times as much. */
#define TARGET_STEP ((3 << TARGET_LOG_SHIFT >> 4) / 100)
#define TARGET_ODDS 105
/* For p99.9, one in time moves it up by this many times less, once the steps are small. */
#define TARGET_RARER 10
/*
 * A new operating point does not know its bound: its first step is TARGET_FIRST_TIMES as large. The steps then shrink as one over the
 * number of its requests, in whole numbers of the usual size, which they have after about TARGET_FIRST / 2 requests.
 */
#define TARGET_FIRST 1280
#define TARGET_FIRST_TIMES 14
/* Requests that one move of the bound takes into account at most: more of them moved it to its end long before. */
#define TARGET_ENDED_MAX 256
/* Most credit: four late requests. */
#define TARGET_CREDIT (4 * TARGET_ODDS * TARGET_STEP)
/*
 * Where a late request lowers the bound to the least one, it also raises the aim by a 32nd of a doubling, and one in time lowers it so
 * little that one in 111 may be late: fewer than the target allows, so that the bound can rise, but not so few that rare long reads, which
 * are late at each bound, raise an aim that can be met. This begins when the steps are small: larger ones reach the least bound by chance.
 * Where requests are predicted, a late one raises the aim by an eighth of a doubling. With less the aim comes to rest where the background
 * has hardly anything, though a slightly longer one would leave it much. A reader with hardly any pause is not predicted, and a longer aim
 * makes its requests wait for each other. At larger bounds each of 2^TARGET_LIFT_FORGET requests lowers the aim, as the drive may have
 * become faster; so slowly, since an aim that the drive cannot meet is raised again only when the bound is at the least.
 */
#define TARGET_LIFT_ODDS 110
#define TARGET_LIFT_SHIFT 24
#define TARGET_LIFT_STEP(kind) \
	((1 << TARGET_LIFT_SHIFT >> ((kind) == TARGET_PREDICTED ? 3 : 5)) / (TARGET_LIFT_ODDS + 1))
#define TARGET_LIFT_FORGET 20
#define TARGET_LIFT_MAX (16 << TARGET_LIFT_SHIFT)
/*
 * The bound is at its least while the aim is raised. Once the aim is a fifth longer than asked for, the bound is sought again: up to 32 KiB
 * its steps are four times as large, and where requests are predicted, a late one counts half. Nearly as many requests are then late as the
 * target allows, so with usual steps the bound would take many seconds to rise. An aim raised by less is near to what the drive's long reads
 * take, and larger steps would make more requests late.
 */
#define TARGET_AGAIN_TIMES 4
#define TARGET_AGAIN_LIFT (1 << TARGET_LIFT_SHIFT >> 2)
#define TARGET_AGAIN_LOG (6 << TARGET_LOG_SHIFT)

enum target_kind { TARGET_UNPREDICTED, TARGET_PREDICTED, TARGET_KINDS };

/**
 * struct target_point - an operating point
 * @limit_sectors: the bound; BOUND_NONE: there is none
 * @log: its logarithm
 * @applied: what it was when the bound was set last
 * @seen: requests so far, at most TARGET_FIRST
 * @lift: logarithm of the factor by which the aim is raised, with TARGET_LIFT_SHIFT binary digits after the point
 * @credit: what the bound will not fall
 * @ended: requests that have ended since the bound moved
 * @late: late ones among @ended
 */
struct target_point {
	u64 limit_sectors;
	int log, applied, seen, lift, credit;
	atomic_t ended, late;
};

/**
 * struct target_idle - what requests of one class take in the idle drive
 * @count: samples so far, at most TARGET_IDLE_SAMPLES
 * @tries: times that the background was held, or was to be held, before there were TARGET_PROBES_FIRST samples
 * @typical_ns: their upper quartile
 * @least_ns: the least that one took, of late
 */
struct target_idle {
	unsigned int count, tries;
	u64 typical_ns, least_ns;
};

/**
 * struct target - on one drive
 * @target_ns: latency that is asked for, or TARGET_AUTO; 0: there is no target
 * @probe_until_ns: the background is held until then
 * @since_probe: requests since one met nothing
 * @on: the bound is in force
 * @rare: it is p99.9 that is to meet the target
 * @held: a bound has refused something since it moved
 * @kind: the operating point that is in force
 * @latest: class of the latest request
 * @points: the operating points
 * @idle: by class
 */
struct target {
	u64 target_ns, probe_until_ns;
	unsigned int since_probe;
	bool on, rare, held;
	u8 kind, latest;
	struct target_point points[TARGET_KINDS];
	struct target_idle idle[TARGET_CLASSES];
};

/* 2 to this power, linear between two powers. */
static u64 target_power(int log)
{
	unsigned int whole = log >> TARGET_LOG_SHIFT, part = log & ((1 << TARGET_LOG_SHIFT) - 1);

	return (1ULL << whole) + ((u64)part << whole >> TARGET_LOG_SHIFT);
}

/**
 * target_change() - what knobs ask for, with bounds as they are by now; another target begins anew
 * @t: the drive's target
 * @on: the bound is in force
 * @target_ns: real-time latency, TARGET_AUTO, or 0: there is no target
 * @rare: p99.9 is to meet the target, not p99
 */
static void target_change(struct target *t, bool on, u64 target_ns, bool rare)
{
	const struct target_point first = { .log = TARGET_LOG_FIRST };
	struct target_point *p;

	if (t->target_ns != target_ns || t->rare != rare) {
		*t = (struct target){ .rare = rare, .points = { first, first } };
		WRITE_ONCE(t->target_ns, target_ns);
	}
	t->on = on;
	for (p = t->points; p < t->points + TARGET_KINDS; p++) {
		p->applied = p->log;
		WRITE_ONCE(p->limit_sectors, on ? target_power(p->log) : BOUND_NONE);
	}
}

/* The class of a request that moves data. */
static inline unsigned int target_class(u64 sectors, bool writes)
{
	return min_t(int, fls64((sectors - 1) >> 3), TARGET_SIZES - 1) + writes * TARGET_SIZES;
}

static inline u64 target_allows(const struct target *t, struct bound_request *r)
{
	r->why = K2_HOLD_TARGET;
	r->limit = 0;
	return t->on && r->sectors && r->now_ns < t->probe_until_ns ? t->probe_until_ns : BOUND_YES;
}

/* What a request takes in the idle drive; 0: not known. */
static inline u64 target_idle_ns(const struct target_idle *idle)
{
	return READ_ONCE(idle->count) >= TARGET_PROBES_FIRST ? READ_ONCE(idle->typical_ns) :
							       READ_ONCE(idle->least_ns);
}

/*
 * A real-time request goes to the drive. @alone: it meets nothing there. @waited_ns: since it arrived, which may be
 * negative, as a dispatcher looks at the clock first. Return: it will show what a request takes in the idle drive, as it meets nothing and has
 * hardly waited.
 */
static bool target_rt_went(struct target *t, u64 sectors, bool writes, bool alone, s64 waited_ns,
			   u64 now_ns)
{
	unsigned int class = target_class(sectors, writes);
	struct target_idle *idle = &t->idle[class];
	unsigned int count = READ_ONCE(idle->count);
	unsigned int every = count < TARGET_IDLE_SAMPLES ? TARGET_PROBE_OFTEN : TARGET_PROBE_EVERY;
	bool is_known = count >= TARGET_PROBES_FIRST, rests = is_known || idle->tries > count + 1;

	WRITE_ONCE(t->latest, class);
	alone = alone && (!target_idle_ns(idle) || 4 * waited_ns <= (s64)target_idle_ns(idle));
	if (alone && is_known)
		t->since_probe = t->probe_until_ns = 0;
	if (t->target_ns == TARGET_AUTO &&
	    now_ns >= t->probe_until_ns + (rests ? 20 * TARGET_PROBE_NS : 0) &&
	    ((!is_known && idle->tries++ < TARGET_PROBES_FIRST) || ++t->since_probe % every == 0))
		t->probe_until_ns = now_ns + TARGET_PROBE_NS;
	return alone;
}

/* A request of this class has ended; any context. Two CPUs at a time may lose a sample. */
static void target_learn_idle(struct target_idle *idle, bool alone, u64 took_ns)
{
	unsigned int count = READ_ONCE(idle->count);
	u64 typical_ns = READ_ONCE(idle->typical_ns), step_ns;

	recent_min(&idle->least_ns, took_ns, TARGET_LEAST_MEMORY);
	if (!alone)
		return;
	if (count < TARGET_PROBES_FIRST) {
		typical_ns = typical_ns ? min(typical_ns, took_ns) : took_ns;
	} else {
		step_ns = div_u64(typical_ns, (count - TARGET_PROBES_FIRST + 1) * TARGET_IDLE_PART);
		typical_ns += took_ns > typical_ns ? TARGET_IDLE_ODDS * step_ns : -step_ns;
	}
	WRITE_ONCE(idle->typical_ns, typical_ns);
	if (count < TARGET_IDLE_SAMPLES)
		WRITE_ONCE(idle->count, count + 1);
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
	int lift = READ_ONCE(point->lift) >> (TARGET_LIFT_SHIFT - TARGET_LOG_SHIFT);

	if (limit_ns == TARGET_AUTO)
		limit_ns = TARGET_AUTO_TIMES * idle_ns;
	limit_ns = limit_ns * target_power(lift + (8 << TARGET_LOG_SHIFT)) >> 8;
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
	return READ_ONCE(t->points[t->kind].lift) > TARGET_LIFT_ODDS * TARGET_LIFT_STEP(t->kind);
}

/* Moves a bound by requests of which some were late. */
static void target_step(struct target *t, enum target_kind kind, int in_time, int late)
{
	struct target_point *p = &t->points[kind];
	int log_min = kind == TARGET_PREDICTED ? TARGET_LOG_MIN_PREDICTED : TARGET_LOG_MIN;
	int times = max(TARGET_FIRST / (p->seen + TARGET_FIRST / TARGET_FIRST_TIMES), 1);
	bool again = p->lift > TARGET_AGAIN_LIFT && p->log < TARGET_AGAIN_LOG;
	int step = TARGET_STEP * (again ? TARGET_AGAIN_TIMES : times), lift = p->lift;
	int rarer = t->rare && times == 1 ? TARGET_RARER : 1;
	int raise = TARGET_LIFT_STEP(kind) / rarer, up = in_time * step / rarer, forgiven;
	int fall = TARGET_ODDS * step, down = late * fall >> (again && kind == TARGET_PREDICTED);

	if (t->held && times == 1 && p->log < log_min + fall)
		lift += (late * TARGET_LIFT_ODDS * rarer - in_time) * raise;
	else if (t->held)
		lift -= lift * (s64)(in_time + late) >> TARGET_LIFT_FORGET;
	p->seen = min(p->seen + in_time + late, TARGET_FIRST);
	WRITE_ONCE(p->lift, clamp_t(int, lift, 0, TARGET_LIFT_MAX));
	if (!t->held) {
		p->credit = min(p->credit + up, TARGET_CREDIT);
		up = 0;
	}
	forgiven = min(down, p->credit);
	p->credit -= forgiven;
	p->log = clamp_t(int, p->log + up + forgiven - down, log_min, TARGET_LOG_MAX);
}

/**
 * target_learn() - before a dispatch: move the bounds by the real-time requests that have ended since
 * @t: the drive's target
 * @predicted: all real-time requests are predicted now
 *
 * Return: true if the operating point or a bound has changed: target_change() is to be called.
 */
static bool target_learn(struct target *t, bool predicted)
{
	enum target_kind kind = predicted ? TARGET_PREDICTED : TARGET_UNPREDICTED;
	bool changed = t->kind != kind;

	t->kind = kind;
	for (kind = 0; kind < TARGET_KINDS; kind++) {
		struct target_point *p = &t->points[kind];
		int ended, late;

		if (likely(!atomic_read(&p->ended)))
			continue;
		late = atomic_xchg(&p->late, 0);
		ended = min(atomic_xchg(&p->ended, 0), TARGET_ENDED_MAX);
		target_step(t, kind, max(ended - late, 0), min(late, ended));
		t->held = false;
		changed |= abs(p->log - p->applied) >= TARGET_LOG_GRAIN;
	}
	return changed;
}

#endif
