/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A target instead of a bound: the bound on the background's bytes is what makes a quantile of real-time latency meet it.
 *
 * Each real-time request moves the bound: one that was late, down by a step; one that was not, up by so much less that both
 * cancel out when as many are late as the quantile allows (H. Robbins, S. Monro, "A stochastic approximation method", 1951;
 * steps are of the logarithm, as a bound is wrong by factors). It does not rise while nothing is held by it, but what was in
 * time then makes up for a few that will be late: the quantile is that of all requests, beside the background and without it.
 *
 * With the bound that looks ahead there are two arms, each with a bound of its own: with looking ahead and without. Both
 * meet the target; the one that lets more of the background through is used, and both are tried again and again.
 *
 * A target that is missed with as good as nothing in the drive is not chased: then the background is not held for it.
 *
 * Ends are noted in any context without a lock, all else is under the caller's.
 */
#ifndef TAILGATE_SCHED_TARGET_H
#define TAILGATE_SCHED_TARGET_H

#include <linux/atomic.h>
#include <linux/types.h>

/* Logarithms to base 2 have so many bits after the point. */
#define TARGET_LOG_SHIFT 16
/* Of sectors: 4 KiB to 128 MiB, and at first 16 KiB: what goes wrong before the bound is found counts as well. */
#define TARGET_LOG_MIN (3 << TARGET_LOG_SHIFT)
#define TARGET_LOG_MAX (18 << TARGET_LOG_SHIFT)
#define TARGET_LOG_FIRST (5 << TARGET_LOG_SHIFT)
/* A late request and a hundred that were in time, at quantile 99, move it by so much. */
#define TARGET_LOG_STEP (3 << TARGET_LOG_SHIFT >> 3)
/* If so many times as many as one that is late should be among were not, it rises so many times as fast. */
#define TARGET_CALM 6
#define TARGET_CALM_TIMES 8
/* While nothing is held, what was in time is put by for what will be late, up to so much. */
#define TARGET_CREDIT (4 * TARGET_LOG_STEP)

/* Requests at the least bound after which a target is given up, if twice as many as allowed were late. */
#define TARGET_FLOOR_REQUESTS 1024
/* And tried again. */
#define TARGET_AGAIN_REQUESTS 65536

/* Requests in a window in which an arm is tried, and windows until both are again. */
#define TARGET_WINDOW_REQUESTS 512
#define TARGET_WINDOWS 8

enum target_arm { TARGET_PLAIN, TARGET_AHEAD, TARGET_ARMS };

/**
 * struct target - of one drive
 * @target_ns: what the quantile of latency is to be; 0: there is none
 * @quantile: in per cent
 * @has_arms: look-ahead may be used
 * @arm: that is in force
 * @logs: of the bound in sectors, by arm
 * @rates: sectors of the background a second, in the arm's latest window
 * @window: number, below TARGET_WINDOWS
 * @window_requests: real-time requests since it began
 * @window_ns: when it began
 * @window_sectors: that the background has sent since
 * @limit_sectors: the bound; UINT_MAX: none
 * @calm: requests that were in time while something was held, since one was late
 * @credit: what late ones will not lower the bound by
 * @floor_requests: at the least bound
 * @floor_late: of which late
 * @given_up: requests until the target is tried again; 0: it is
 * @held: the bound has refused something since it was changed
 * @ended: real-time requests that were not looked at yet
 * @late: of which late
 */
struct target {
	u32 target_ns;
	unsigned int quantile;
	bool has_arms;
	u8 arm;
	int logs[TARGET_ARMS];
	u64 rates[TARGET_ARMS];
	unsigned int window, window_requests;
	u64 window_ns, window_sectors;
	unsigned int limit_sectors;
	unsigned int calm;
	int credit;
	unsigned int floor_requests, floor_late;
	unsigned int given_up;
	bool held;
	atomic_t ended, late;
};

#endif
