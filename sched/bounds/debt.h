/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The bound on the debt of writes. A drive acknowledges a write when it is in its buffer, and works on it long after. So an
 * acknowledged write stays charged, in a leaky bucket that drains at the rate at which the drive works its writes off.
 *
 * No drive tells a host that rate. Two observations do:
 * - Pressure. While background writes always wait for the drive, nothing here holds them, and they take longer than they would
 *   in a buffer with room, the drive acknowledges writes as fast as it works them off.
 * - Real-time reads. While writes are held here, real-time reads wait for little more than what is owed. Where most of them are
 *   slow, twice in a row, more is owed than was thought: as much as the quickest slow one has waited for. That is
 *   worked off in a pause, and the rate falls. Where few are slow, the rate rises a little.
 */
#ifndef TAILGATE_SCHED_DEBT_H
#define TAILGATE_SCHED_DEBT_H

#include <linux/atomic.h>

#include "bound.h"

/* Value of a limit that is chosen automatically: what the drive works off in DEBT_READ_TIMES times a typical real-time read. */
#define DEBT_AUTO (~0ULL)
#define DEBT_READ_TIMES 2
/* The automatic limit before a rate is known; with a rate, the typical real-time read is first set to what fits to this. */
#define DEBT_SECTORS_FIRST 512
/* Range of the automatic limit: less does not keep a drive busy; more is not worth a window of measurement. */
#define DEBT_SECTORS_MIN 64
#define DEBT_SECTORS_MAX DEBT_WINDOW_SECTORS

/* A read is slow if it takes more than this many times the typical read. */
#define DEBT_SLOW_TIMES 2
/* The typical read is the median of about 2^DEBT_READ_MEMORY. */
#define DEBT_READ_MEMORY 4
/* Real-time reads that are judged together; fewer if half of this many are slow. */
#define DEBT_READS 8

/* A pause works off this many limits; it doubles while reads stay slow, and is never longer than DEBT_PAUSE_NS_MAX. */
#define DEBT_PAUSE 4
#define DEBT_PAUSE_NS_MAX 1000000000ULL

/* A held write is held until there is room for this share of the limit, so that one timer lets several writes go. */
#define DEBT_BATCH 16

/* The rate of acknowledgements is taken over this many sectors: several times what a buffer may hold. */
#define DEBT_WINDOW_SECTORS 8192
/* Writes wait for room in the drive if they take this many halves of the least that one takes. */
#define DEBT_WAITING_HALVES 3
/* The least time of a write is that of about 2^DEBT_LEAST_MEMORY. */
#define DEBT_LEAST_MEMORY 10

/* Shares by which the rate changes: up; up near a rate that was too high; up without reads; down. */
#define DEBT_RISE 256
#define DEBT_RISE_SLOWLY 1024
#define DEBT_RISE_BLINDLY 64
#define DEBT_FALL 32
/* A rate this share below one that was too high is surely not too high. */
#define DEBT_CAUTION 64
/* The rate does not fall below this many quarters of what was seen under pressure. */
#define DEBT_FLOOR_QUARTERS 3

/**
 * struct debt - the bound on one drive's debt of writes
 * @on: it is in force
 * @set_sectors: the limit that is asked for, or DEBT_AUTO
 * @limit_sectors: most sectors that may be owed
 * @cap_sectors: @limit_sectors is not above this
 * @rate: at which the bucket drains; 0: not known, and nothing is held
 * @seen: the rate of acknowledgements under pressure, or a higher one at which reads were not slow
 * @high: the rate when it was too high the last time
 * @empty_ns: when the bucket will be empty
 * @held_until_ns: background writes are held until then
 * @pause_ns: length of the latest pause; 0: reads were not slow since
 * @read_ns: what a real-time read takes, in the median, while the rate is not too high
 * @slow_ns: what the quickest slow read has taken
 * @least_write_ns: the least that a background write takes, of late
 * @window_ns: when the window began over which acknowledgements count
 * @settled: the rate is surely not too high, or is as low as it may be
 * @were_slow: the previous reads that were judged were slow, and the rate has not fallen for it yet
 * @held: the background was held in this window
 * @held_reads: a bound has refused something since reads were judged; in a pause nothing is judged
 * @saw_reads: a real-time read has ended in this window
 * @written: sectors of writes in the drive
 * @acked: sectors of background writes that were acknowledged in the window
 * @acks: number of such writes
 * @ack_us: the time that they took, in all
 * @reads: real-time reads that have not been judged
 * @slow_reads: slow ones among @reads
 */
struct debt {
	bool on;
	u64 set_sectors;
	u64 limit_sectors;
	u64 cap_sectors;
	u32 rate;
	u32 seen, high;
	u64 empty_ns, held_until_ns, pause_ns;
	u64 read_ns, slow_ns;
	u64 least_write_ns;
	u64 window_ns;
	bool settled, were_slow;
	bool held, held_reads, saw_reads;
	atomic_t written;
	atomic_t acked, acks, ack_us;
	atomic_t reads, slow_reads;
};

#endif
