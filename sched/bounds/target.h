/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The latency target: adjusts a bound on background bytes so that 99 of 100 real-time requests meet a latency.
 *
 * Each real-time request moves the bound. A late request moves it down by a step; one in time moves it up by 1/99 of a step. So the
 * moves cancel out when one request in a hundred is late (H. Robbins, S. Monro, "A stochastic approximation method", 1951). Steps
 * apply to the logarithm of the bound, because the right bound may differ from the present one by orders of magnitude.
 *
 * The bound does not rise while it holds nothing. Requests in time then earn a credit that cancels the steps of a few late requests:
 * the percentile is that of all real-time requests, with and without background load.
 *
 * With bound_mode ahead there are two arms: with and without the look-ahead bound. Each arm has a bound of its own, and both meet the
 * target. The arm with the higher background rate is used; both are tried again periodically.
 *
 * If the target is missed even at the smallest bound, it is given up for a while, and does not hold the background.
 */
#ifndef TAILGATE_SCHED_TARGET_H
#define TAILGATE_SCHED_TARGET_H

#include <linux/atomic.h>

#include "bound.h"

/* Binary digits after the point of a logarithm to base 2. */
#define TARGET_LOG_SHIFT 16
/* Logarithm of the bound in sectors: 4 KiB to 128 MiB. The low first value, 16 KiB, avoids late requests at the start. */
#define TARGET_LOG_MIN (3 << TARGET_LOG_SHIFT)
#define TARGET_LOG_MAX (18 << TARGET_LOG_SHIFT)
#define TARGET_LOG_FIRST (5 << TARGET_LOG_SHIFT)
/* Step up for a request in time (about 3/800 of a doubling); a late request moves the bound down by TARGET_ODDS times this step. */
#define TARGET_STEP ((3 << TARGET_LOG_SHIFT >> 3) / 100)
#define TARGET_ODDS 99
/* After this many requests in time in a row, six times the expected run, the bound grows TARGET_CALM_TIMES faster. */
#define TARGET_CALM 600
#define TARGET_CALM_TIMES 8
/* Most requests that one move of the bound takes into account: far fewer late ones already move it from its maximum to its minimum. */
#define TARGET_ENDED_MAX 1024
/* Most credit: the steps of four late requests. */
#define TARGET_CREDIT (4 * TARGET_ODDS * TARGET_STEP)

/* Real-time requests in a window, in which one arm is in force. Every TARGET_WINDOWS windows both arms are tried again. */
#define TARGET_WINDOW_REQUESTS 512
#define TARGET_WINDOWS 8
/* The target is given up at the end of a window with this many late requests at the smallest bound: twice the allowed number. */
#define TARGET_MISSED_REQUESTS 10
/* Real-time requests after which a target that was given up is tried again. */
#define TARGET_AGAIN_REQUESTS 65536

enum target_arm { TARGET_PLAIN, TARGET_AHEAD, TARGET_ARMS };

/**
 * struct target - the latency target of one drive
 * @target_ns: target for real-time latency; 0: there is no target
 * @on: the bound is in force
 * @has_arms: the look-ahead bound may be used
 * @arm: the arm in force
 * @limit_sectors: the bound; BOUND_NONE while the target is off or given up
 * @logs: logarithms of the bound, by arm
 * @rates: background sectors per second in the arm's latest window, by arm
 * @window: number of the window, below TARGET_WINDOWS
 * @window_requests: real-time requests in this window
 * @window_missed: late ones among @window_requests, while the bound was at its minimum
 * @window_ns: when this window began
 * @window_sectors: background sectors dispatched in this window
 * @calm: requests in time since the latest late one, while the bound held requests
 * @credit: downward movement of @logs that will be forgiven
 * @given_up: requests until the target is tried again; 0: it is in force
 * @held: a bound has refused a background request since the last move
 * @ended: real-time requests that completed since the last move
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
