// SPDX-License-Identifier: GPL-2.0-only
/* A target instead of a bound: see target.h. Included by k2.c. */
#include <linux/kernel.h>
#include <linux/math64.h>

#include "target.h"

/* 2 to this power, linear between two powers. */
static unsigned int target_power(int log)
{
	unsigned int whole = log >> TARGET_LOG_SHIFT, part = log & ((1 << TARGET_LOG_SHIFT) - 1);

	return (1U << whole) + (unsigned int)((u64)part << whole >> TARGET_LOG_SHIFT);
}

static void target_apply(struct target *t)
{
	bool bounds = t->target_ns && !t->given_up;

	WRITE_ONCE(t->limit_sectors, bounds ? target_power(t->logs[t->arm]) : UINT_MAX);
}

/* A new target begins anew. @target_ns 0: there is none; @quantile in per cent. */
static void target_configure(struct target *t, u32 target_ns, unsigned int quantile, bool has_arms)
{
	if (t->target_ns != target_ns || t->quantile != quantile || t->has_arms != has_arms) {
		t->logs[TARGET_PLAIN] = t->logs[TARGET_AHEAD] = TARGET_LOG_FIRST;
		t->rates[TARGET_PLAIN] = t->rates[TARGET_AHEAD] = 0;
		t->arm = TARGET_PLAIN;
		t->window = t->window_requests = 0;
		t->calm = t->floor_requests = t->floor_late = t->given_up = 0;
		t->credit = 0;
		WRITE_ONCE(t->target_ns, target_ns);
		t->quantile = quantile;
		t->has_arms = has_arms;
	}
	target_apply(t);
}

/* A real-time request has ended; any context. */
static inline void target_end(struct target *t, u64 latency_ns)
{
	if (latency_ns > READ_ONCE(t->target_ns))
		atomic_inc(&t->late);
	atomic_inc(&t->ended);
}

/* Is even the least bound too much? */
static void target_watch_floor(struct target *t, unsigned int ended, unsigned int late)
{
	if (t->logs[t->arm] > TARGET_LOG_MIN) {
		t->floor_requests = t->floor_late = 0;
		return;
	}
	t->floor_requests += ended;
	t->floor_late += late;
	if (t->floor_requests < TARGET_FLOOR_REQUESTS)
		return;
	if (100 * t->floor_late > 2 * (100 - t->quantile) * t->floor_requests)
		t->given_up = TARGET_AGAIN_REQUESTS;
	t->floor_requests = t->floor_late = 0;
}

/* A window ends: what the arm has let through, and which is next. */
static void target_end_window(struct target *t, u64 now_ns)
{
	u64 us = div_u64(now_ns - t->window_ns, 1000);

	if (us && t->window_ns)
		t->rates[t->arm] = div64_u64(t->window_sectors * 1000000, us);
	t->window_ns = now_ns;
	t->window_sectors = 0;
	t->window_requests = 0;
	t->window = (t->window + 1) % TARGET_WINDOWS;
	if (!t->has_arms)
		t->arm = TARGET_PLAIN;
	else if (t->window < TARGET_ARMS)
		t->arm = t->window;
	else
		t->arm = t->rates[TARGET_AHEAD] > t->rates[TARGET_PLAIN] ? TARGET_AHEAD :
									   TARGET_PLAIN;
}

/**
 * target_learn() - move the bound by what has ended since
 * @t: of the drive
 * @now_ns: the time
 *
 * Return: true if it, or the arm, is another one.
 */
static bool target_learn(struct target *t, u64 now_ns)
{
	unsigned int late = atomic_xchg(&t->late, 0), ended = atomic_xchg(&t->ended, 0);
	unsigned int limit = t->limit_sectors, in_time;
	u8 arm = t->arm;
	int *log = &t->logs[arm], up, down, forgiven;

	if (!ended)
		return false;
	late = min(late, ended);
	in_time = ended - late;
	if (t->given_up) {
		t->given_up -= min(t->given_up, ended);
		target_apply(t);
		return !t->given_up;
	}
	up = TARGET_LOG_STEP / 100 * (100 - t->quantile);
	down = (int)late * (TARGET_LOG_STEP / 100) * (int)t->quantile;
	if (late)
		t->calm = 0;
	if (READ_ONCE(t->held)) {
		t->calm = min(t->calm + in_time, 1U << 20);
		if (t->calm * (100 - t->quantile) > 100 * TARGET_CALM)
			up *= TARGET_CALM_TIMES;
		*log += (int)in_time * up;
	} else {
		t->credit = min(t->credit + (int)in_time * up, TARGET_CREDIT);
	}
	forgiven = min(down, t->credit);
	t->credit -= forgiven;
	*log -= down - forgiven;
	WRITE_ONCE(t->held, false);
	*log = clamp_t(int, *log, TARGET_LOG_MIN, TARGET_LOG_MAX);
	target_watch_floor(t, ended, late);
	t->window_requests += ended;
	if (t->window_requests >= TARGET_WINDOW_REQUESTS)
		target_end_window(t, now_ns);
	target_apply(t);
	return limit != t->limit_sectors || arm != t->arm;
}
