/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A target for real-time latency instead of a bound: the bound on background bytes is the one with which 99 of 100 real-time
 * requests are in time.
 *
 * Each real-time request moves the bound: one that was late, down by a step; one that was in time, up by a 99th of that, so that
 * both cancel out when one in a hundred is late (H. Robbins, S. Monro, "A stochastic approximation method", 1951; steps are
 * of the logarithm, as a bound is wrong by factors). The bound does not rise while nothing is held by it. Requests that are in
 * time then become a credit for a few that will be late: the percentile is that of all requests, with and without background.
 *
 * With the bound that looks ahead there are two arms, each with a bound of its own: with looking ahead and without. Both meet the
 * target; the one that lets more of the background through is used, and both are tried again and again.
 *
 * A target that is missed with next to nothing in the drive is given up for a while: then the background is not held for it.
 */
#ifndef TAILGATE_SCHED_TARGET_H
#define TAILGATE_SCHED_TARGET_H

#include <linux/atomic.h>

#include "bound.h"

/* Binary digits after the point of a logarithm to base 2. */
#define TARGET_LOG_SHIFT 16
/* Logarithms of the bound in sectors: 4 KiB to 128 MiB; 16 KiB at first, as requests that are late early on count as well. */
#define TARGET_LOG_MIN (3 << TARGET_LOG_SHIFT)
#define TARGET_LOG_MAX (18 << TARGET_LOG_SHIFT)
#define TARGET_LOG_FIRST (5 << TARGET_LOG_SHIFT)
/* What a request in time moves the bound up; a late one moves it down by TARGET_ODDS times as much. */
#define TARGET_STEP ((3 << TARGET_LOG_SHIFT >> 3) / 100)
#define TARGET_ODDS 99
/* After this many requests in time, none late, the bound grows TARGET_CALM_TIMES faster. */
#define TARGET_CALM 600
#define TARGET_CALM_TIMES 8
/* Requests that one move of the bound takes into account at most: more of them moved it to its end long before. */
#define TARGET_ENDED_MAX 1024
/* Most credit: four late requests. */
#define TARGET_CREDIT (4 * TARGET_ODDS * TARGET_STEP)

/* Requests in a window in which one arm is in force; windows until both arms are tried again. */
#define TARGET_WINDOW_REQUESTS 512
#define TARGET_WINDOWS 8
/* A target is given up at the end of a window if this many were late at the least bound: twice as many as are allowed. */
#define TARGET_MISSED_REQUESTS 10
/* Requests after which it is tried again. */
#define TARGET_AGAIN_REQUESTS 65536

enum target_arm { TARGET_PLAIN, TARGET_AHEAD, TARGET_ARMS };

/**
 * struct target - on one drive
 * @target_ns: real-time latency that is asked for; 0: there is no target
 * @on: the bound is in force
 * @has_arms: looking ahead may be used
 * @arm: the arm that is in force
 * @limit_sectors: the bound; BOUND_NONE while the target is given up
 * @logs: logarithms of the bound, by arm
 * @rates: background sectors a second in the latest window, by arm
 * @window: number of the window, below TARGET_WINDOWS
 * @window_requests: real-time requests in this window
 * @window_ns: when this window began
 * @window_sectors: background sectors that went in this window
 * @window_missed: of these, requests that were late although the bound was at its least
 * @calm: requests in time while something was held, since one was late
 * @credit: what the bound will not fall
 * @given_up: requests until the target is tried again; 0: it is in force
 * @held: the bound has refused something since it moved
 * @ended: real-time requests that have ended since the bound moved
 * @late: late ones among @ended
 */
struct target {
	u64 target_ns;
	bool on;
	bool has_arms;
	u8 arm;
	u64 limit_sectors;
	int logs[TARGET_ARMS];
	u64 rates[TARGET_ARMS];
	unsigned int window, window_requests;
	unsigned int window_missed;
	u64 window_ns, window_sectors;
	int calm, credit;
	unsigned int given_up;
	bool held;
	atomic_t ended, late;
};

#endif
