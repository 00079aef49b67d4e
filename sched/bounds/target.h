/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A target for real-time latency. The target finds the bound on background bytes with which 99 of 100 real-time requests meet it.
 *
 * A request that was late moves the bound down by a step, one that was in time up by a 99th of a step, so that both cancel out when one in
 * a hundred is late (H. Robbins, S. Monro, "A stochastic approximation method", 1951; steps are of the logarithm, as a bound is
 * wrong by factors). The bound does not rise while it holds nothing. Requests in time are then saved as a credit for a few late ones:
 * the percentile is that of all requests, with and without background. A new bound first takes larger steps towards the bound with which
 * nine of ten requests need at most half of the time that the target allows them to wait.
 *
 * There are two operating points, each with its bound: where all real-time requests are predicted, the bound that looks ahead (ahead.h)
 * never falls below it; elsewhere it is the limit. Both are remembered.
 *
 * The target is a latency, or automatic: TARGET_AUTO_TIMES what a request of the same direction and size class takes in the idle drive. To
 * measure that, the background is held until a request meets nothing in the drive, for TARGET_PROBE_NS at most: for the first requests of a
 * class, and after TARGET_PROBE_EVERY that met something.
 *
 * Requests that are late with next to nothing in the drive are late for reasons that no bound mends: rare long reads, erases, other
 * real-time requests, or a target below what the drive can do. The aim is then raised until one in 200 of them is late.
 */
#ifndef TAILGATE_SCHED_TARGET_H
#define TAILGATE_SCHED_TARGET_H

#include <linux/atomic.h>

#include "bound.h"

/* Value of the target: automatic. A real-time request may then wait for as long as it takes by itself. */
#define TARGET_AUTO (~0ULL)
#define TARGET_AUTO_TIMES 2

/* Size classes: up to 4 KiB, up to 8 KiB, ... more than 256 KiB; writes have their own. */
#define TARGET_SIZES 8
#define TARGET_CLASSES (2 * TARGET_SIZES)
/*
 * What a request takes in the idle drive is the upper quartile of its class, so that rare long ones and those that a busy processor
 * delayed do not count: a sample above moves it by TARGET_IDLE_ODDS steps of 2^-TARGET_IDLE_MEMORY, one below by one. It begins with the
 * least of TARGET_PROBES_FIRST samples. Before, and for flows so slow that holding the background shows none, it is the least time of
 * about 2^TARGET_LEAST_MEMORY requests.
 */
#define TARGET_IDLE_MEMORY 5
#define TARGET_IDLE_ODDS 3
#define TARGET_PROBES_FIRST 8
#define TARGET_LEAST_MEMORY 10
/* The background is held again after this many requests that met something, which costs it little; always for this long at most. */
#define TARGET_PROBE_EVERY 512
#define TARGET_PROBE_NS 50000000ULL

/* Binary digits after the point of a logarithm to base 2. */
#define TARGET_LOG_SHIFT 16
/*
 * Logarithms of the bound in sectors: 4 KiB to 128 MiB; 16 KiB at first, as requests that are late early on count as
 * well. Where requests are predicted, less than 4 KiB means an earlier lead (ahead.h).
 */
#define TARGET_LOG_MIN (3 << TARGET_LOG_SHIFT)
#define TARGET_LOG_MIN_PREDICTED 0
#define TARGET_LOG_MAX (18 << TARGET_LOG_SHIFT)
#define TARGET_LOG_FIRST (5 << TARGET_LOG_SHIFT)
/* The bound is set anew when it has moved by a hundredth, as that changes the other bounds as well, which takes time. */
#define TARGET_LOG_GRAIN (1 << TARGET_LOG_SHIFT >> 6)
/* What a request in time moves the bound up; a late one moves it down by TARGET_ODDS times as much. */
#define TARGET_STEP ((3 << TARGET_LOG_SHIFT >> 3) / 100)
#define TARGET_ODDS 99
/* The same for the first TARGET_FIRST requests of an operating point. */
#define TARGET_FIRST 128
#define TARGET_FIRST_STEP ((3 << TARGET_LOG_SHIFT >> 2) / 10)
#define TARGET_FIRST_ODDS 9
/* After this many requests in time, none late, the bound grows TARGET_CALM_TIMES faster. */
#define TARGET_CALM 600
#define TARGET_CALM_TIMES 8
/* Requests that one move of the bound takes into account at most: more of them moved it to its end long before. */
#define TARGET_ENDED_MAX 256
/* Most credit: four late requests. */
#define TARGET_CREDIT (4 * TARGET_ODDS * TARGET_STEP)
/*
 * Where two late requests lower the bound to the least one, a late request raises the aim by a 32nd of a doubling, and one in time lowers it so
 * little that one in 200 may be late. Elsewhere each of 2^TARGET_LIFT_FORGET requests lowers it, as the drive may have become faster.
 */
#define TARGET_LIFT_STEP ((1 << TARGET_LOG_SHIFT >> 5) / 200)
#define TARGET_LIFT_ODDS 199
#define TARGET_LIFT_FORGET 16
#define TARGET_LIFT_MAX (16 << TARGET_LOG_SHIFT)
/* With an aim that is raised by more than a twelfth the target counts as missed. */
#define TARGET_LIFT_MISSED (1 << TARGET_LOG_SHIFT >> 3)

enum target_kind { TARGET_UNPREDICTED, TARGET_PREDICTED, TARGET_KINDS };

/**
 * struct target_point - an operating point
 * @log: logarithm of the bound
 * @applied: what it was when the bound was set last
 * @first: requests until the steps are small
 * @calm: requests in time while something was held, since one was late
 * @credit: what the bound will not fall
 * @lift: logarithm of the factor by which the aim is raised
 * @ended: requests that have ended since the bound moved
 * @late: late ones among @ended
 */
struct target_point {
	int log, applied;
	int first, calm, credit;
	int lift;
	atomic_t ended, late;
};

/**
 * struct target_idle - what requests of one class take in the idle drive
 * @count: samples so far
 * @tries: times that the background was held for the first samples
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
 * @on: the bound is in force
 * @held: a bound has refused something since it moved
 * @kind: the operating point that is in force
 * @limit_sectors: the bound by operating point; BOUND_NONE: there is none
 * @points: the operating points
 * @latest: class of the latest request
 * @since_probe: requests since one met nothing
 * @probe_until_ns: the background is held until then
 * @idle: by class
 */
struct target {
	u64 target_ns;
	bool on, held;
	u8 kind, latest;
	u64 limit_sectors[TARGET_KINDS];
	struct target_point points[TARGET_KINDS];
	unsigned int since_probe;
	u64 probe_until_ns;
	struct target_idle idle[TARGET_CLASSES];
};

#endif
