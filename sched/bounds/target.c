// SPDX-License-Identifier: GPL-2.0-only
/* The latency target: see target.h. Included by the scheduler. */
#include "estimate.h"
#include "target.h"

/* 2^@log for a fixed-point @log, interpolated linearly between integer powers. */
static u64 target_power(int log)
{
	unsigned int whole = log >> TARGET_LOG_SHIFT, part = log & ((1 << TARGET_LOG_SHIFT) - 1);

	return (1ULL << whole) + ((u64)part << whole >> TARGET_LOG_SHIFT);
}

static void target_apply(struct target *t)
{
	bool bounds = t->on && !t->given_up;

	WRITE_ONCE(t->limit_sectors, bounds ? target_power(t->logs[t->arm]) : BOUND_NONE);
}

/**
 * target_change() - set the parameters from the knobs; a changed target discards what was learned
 * @t: the drive's target
 * @on: the bound is in force
 * @target_ns: target for real-time latency; 0: there is no target
 * @has_arms: the look-ahead bound may be used
 */
static void target_change(struct target *t, bool on, u64 target_ns, bool has_arms)
{
	if (t->target_ns != target_ns || t->has_arms != has_arms) {
		*t = (struct target){
			.has_arms = has_arms,
			.logs = { TARGET_LOG_FIRST, TARGET_LOG_FIRST },
		};
		WRITE_ONCE(t->target_ns, target_ns);
	}
	t->on = on;
	target_apply(t);
}

static inline u64 target_allows(const struct target *t, struct bound_request *r)
{
	return bound_fits(r, t->limit_sectors) ? BOUND_YES : BOUND_AT_END;
}

/* Counts a dispatched background request. */
static inline void target_went(struct target *t, u64 sectors)
{
	t->window_sectors += sectors;
}

/* Counts a real-time request that completed @latency_ns after its arrival; any context. */
static inline void target_ended(struct target *t, u64 latency_ns)
{
	if (latency_ns > READ_ONCE(t->target_ns))
		atomic_inc(&t->late);
	atomic_inc(&t->ended);
}

/* At the end of a window: checks whether the target was missed, records the arm's background rate, and chooses the next arm. */
static void target_end_window(struct target *t, u64 now_ns)
{
	u64 us = div_u64(now_ns - t->window_ns, 1000);

	if (t->window_missed >= TARGET_MISSED_REQUESTS)
		t->given_up = TARGET_AGAIN_REQUESTS;
	if (us && t->window_ns)
		t->rates[t->arm] = div64_u64(t->window_sectors * 1000000, us);
	t->window_ns = now_ns;
	t->window_sectors = 0;
	t->window_requests = t->window_missed = 0;
	t->window = (t->window + 1) % TARGET_WINDOWS;
	if (t->window < TARGET_ARMS)
		t->arm = t->window;
	else
		t->arm = t->rates[TARGET_AHEAD] > t->rates[TARGET_PLAIN];
	if (!t->has_arms)
		t->arm = TARGET_PLAIN;
}

/* Moves the bound after real-time requests of which @in_time met the target and @late did not. */
static void target_step(struct target *t, int in_time, int late)
{
	int up = in_time * TARGET_STEP, down = late * TARGET_ODDS * TARGET_STEP;
	int *log = &t->logs[t->arm], forgiven;

	if (*log == TARGET_LOG_MIN)
		t->window_missed += late;
	if (late)
		t->calm = 0;
	if (t->held) {
		t->calm = min(t->calm + in_time, TARGET_CALM + 1);
		*log += t->calm > TARGET_CALM ? TARGET_CALM_TIMES * up : up;
	} else {
		t->credit = min(t->credit + up, TARGET_CREDIT);
	}
	forgiven = min(down, t->credit);
	t->credit -= forgiven;
	*log = clamp_t(int, *log + forgiven - down, TARGET_LOG_MIN, TARGET_LOG_MAX);
	t->held = false;
}

/**
 * target_learn() - before a dispatch, move the bound according to the real-time requests that completed since the last move
 * @t: the drive's target
 * @now_ns: the time
 *
 * Return: true if the bound or the arm has changed.
 */
static bool target_learn(struct target *t, u64 now_ns)
{
	int late = atomic_xchg(&t->late, 0), ended = atomic_xchg(&t->ended, 0);
	u64 limit = t->limit_sectors;
	u8 arm = t->arm;

	if (!ended)
		return false;
	ended = min(ended, TARGET_ENDED_MAX);
	late = min(late, ended);
	if (t->given_up) {
		t->given_up -= min_t(unsigned int, t->given_up, ended);
	} else {
		target_step(t, ended - late, late);
		t->window_requests += ended;
		if (t->window_requests >= TARGET_WINDOW_REQUESTS)
			target_end_window(t, now_ns);
	}
	target_apply(t);
	return limit != t->limit_sectors || arm != t->arm;
}
