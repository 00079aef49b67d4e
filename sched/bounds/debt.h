/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The bound on write debt. A drive acknowledges a write when the data is in its buffer, and programs it long after. So an acknowledged
 * write stays charged, in a leaky bucket that drains at the rate at which the drive programs writes. The write debt is the content of
 * the bucket without the writes in the drive.
 *
 * Drives do not report this rate. It is learned from two observations:
 * - Pressure. If background writes are always in the drive, none is held here, and they take longer than in a buffer with room, the
 *   drive acknowledges writes at the rate at which it programs them.
 * - Real-time reads. While writes are held here, real-time reads wait for little but the write debt. If most of them are slow, twice in
 *   a row, the debt is larger than computed: the rate is lowered, and no write is dispatched for at least as long as the quickest
 *   slow read took. If few are slow, the rate is raised a little.
 */
#ifndef TAILGATE_SCHED_DEBT_H
#define TAILGATE_SCHED_DEBT_H

#include <linux/atomic.h>

#include "bound.h"

/* Limit chosen automatically: the sectors that the drive programs in DEBT_READ_TIMES times the time of a typical real-time read. */
#define DEBT_AUTO (~0ULL)
#define DEBT_READ_TIMES 2
/* The automatic limit in sectors before a rate is known. The first value of the typical read time is chosen to yield the same limit. */
#define DEBT_SECTORS_FIRST 512
/* Range of the automatic limit: a smaller one does not keep a drive busy; a larger one would exceed a window of measurement. */
#define DEBT_SECTORS_MIN 64
#define DEBT_SECTORS_MAX DEBT_WINDOW_SECTORS

/* A read is slow if it takes more than this many times the typical read time. */
#define DEBT_SLOW_TIMES 2
/* The typical read time is the running median of about 2^DEBT_READ_MEMORY real-time reads. */
#define DEBT_READ_MEMORY 4
/* Number of real-time reads that are judged together; earlier if half this number are slow. */
#define DEBT_READS 8

/* A pause is long enough to program this many times the limit; it doubles while reads stay slow, up to DEBT_PAUSE_NS_MAX. */
#define DEBT_PAUSE 4
#define DEBT_PAUSE_NS_MAX 1000000000ULL

/* A held write waits until there is room for it and 1/DEBT_BATCH of the limit, so that one timer releases several writes. */
#define DEBT_BATCH 16

/* Window for the rate of acknowledgements, in sectors: several times the size of a drive's buffer. */
#define DEBT_WINDOW_SECTORS 8192
/* Writes wait for room in the buffer if they take DEBT_WAITING_HALVES / 2 times the least time of a write. */
#define DEBT_WAITING_HALVES 3
/* The least time of a write is the minimum of about the latest 2^DEBT_LEAST_MEMORY. */
#define DEBT_LEAST_MEMORY 10

/* The rate changes by 1/n of itself. Values of n: up; up near a rate that was too high; up without reads; down. */
#define DEBT_RISE 256
#define DEBT_RISE_SLOWLY 1024
#define DEBT_RISE_BLINDLY 64
#define DEBT_FALL 32
/* A rate is safely low if it is below the latest rate that was too high by more than 1/DEBT_CAUTION of it. */
#define DEBT_CAUTION 64
/* The rate does not fall below this many quarters of @seen. */
#define DEBT_FLOOR_QUARTERS 3

/**
 * struct debt - the bound on one drive's write debt
 * @on: the bound is in force
 * @set_sectors: limit from the knob, or DEBT_AUTO
 * @limit_sectors: most sectors that may be in the bucket
 * @cap_sectors: upper limit of @limit_sectors
 * @rate: rate at which the bucket drains (RATE_SHIFT); 0: not known, and nothing is held
 * @seen: rate of acknowledgements under pressure, or a higher one at which reads were not slow
 * @high: the latest rate that was too high
 * @empty_ns: when the bucket will be empty
 * @held_until_ns: background writes are held until this time
 * @pause_ns: length of the latest pause; 0: reads have not been slow since
 * @read_ns: typical time of a real-time read: the median while the rate is not too high
 * @slow_ns: time of the quickest slow read since reads were judged; 0: none was slow
 * @least_write_ns: recent minimum of the time of a background write
 * @window_ns: when the present window of acknowledgements began
 * @settled: the rate is safely low, or at its minimum
 * @were_slow: the previous group of reads was slow, and the rate has not been lowered for it
 * @held: background writes were held in this window
 * @held_reads: this bound has refused a write since reads were judged; reads during a pause are not judged
 * @saw_reads: a real-time read has completed in this window
 * @written: sectors of writes in the drive
 * @acked: sectors of background writes acknowledged in this window
 * @acks: number of background writes acknowledged in this window
 * @ack_us: total time of the writes in @acks
 * @reads: real-time reads not judged yet
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
