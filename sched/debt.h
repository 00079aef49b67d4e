/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The debt of writes: a drive acknowledges a write when it is in its buffer, and works on it long after. So an
 * acknowledged write stays charged, in a leaky bucket that drains at the rate at which the drive does that work.
 *
 * Nothing tells a host that rate. It is learned from two things. While the background always has more writes and nothing
 * here holds them, and they take longer than they would in a buffer with room, they are acknowledged as fast as the drive
 * works them off. And while they are held, real-time reads wait for little more than what is owed: where most of them
 * wait longer, twice in a row, more is owed than was thought: as much as the quickest of them has waited for. So that is
 * worked off, and the rate falls. Where few do, it rises slowly.
 *
 * Charges and what is learned are under a lock of the caller's; ends and questions need none.
 */
#ifndef TAILGATE_SCHED_DEBT_H
#define TAILGATE_SCHED_DEBT_H

#include <linux/atomic.h>
#include <linux/types.h>

/* What finds itself. */
#define DEBT_AUTO U32_MAX
/* Then as much is owed as the drive works off in so many times of a typical real-time read. */
#define DEBT_READ_TIMES 2
/* A read is slow that takes longer than so many of it. */
#define DEBT_SLOW_TIMES 2
/* Which changes with each read by this share. */
#define DEBT_READ_MEMORY 16
/* When the rate was too high, nothing goes until so many limits of it were worked off, at least. */
#define DEBT_PAUSE 4
/* Twice as long the next time, if reads were slow all the while; nor is it longer than this for what they took. */
#define DEBT_PAUSE_NS_MAX 1000000000U
/* Before anything was learned; and a typical real-time read is what fits to that, when a rate is. */
#define DEBT_SECTORS_FIRST 512
/* Nothing smaller keeps a drive busy. */
#define DEBT_SECTORS_MIN 64

/* Who is held is held until there is room for this share of the limit, so that a timer is due for several writes. */
#define DEBT_BATCH 16

/* The rate of acknowledgements is taken over so many sectors: several times what a buffer may hold. */
#define DEBT_WINDOW_SECTORS 8192
/* Writes wait for room in the drive if they take so many halves of what they take at least. */
#define DEBT_WAITING_HALVES 3
/* The least of about so many requests is what one takes at least. */
#define DEBT_LEAST_REQUESTS 1024

/* Real-time reads of which the share of slow ones counts. */
#define DEBT_READS 8
/* By so much the rate rises, and where it was too high the last time, so slowly; so much it falls. */
#define DEBT_RISE 256
#define DEBT_RISE_SLOWLY 1024
/* With each window in which no real-time read has ended, which could tell. */
#define DEBT_RISE_BLINDLY 64
#define DEBT_FALL 32
/* So far below that it begins to rise slowly, and is surely not too high. */
#define DEBT_CAUTION 64
/* It does not fall below so many quarters of what was seen. */
#define DEBT_FLOOR_QUARTERS 3

/**
 * struct debt - of one drive; sectors are of 512 bytes
 * @set_sectors: what @limit_sectors is to be, or DEBT_AUTO
 * @limit_sectors: most that may be owed
 * @rate: at which it drains, sectors a ns, shifted left by 32; 0: not known, and nothing is held
 * @seen: that of acknowledgements that waited, or a higher one at which reads were not slow
 * @high: the rate when it was too high the last time
 * @empty_ns: when nothing will be owed
 * @read_ns: the median of what a real-time read takes while @settled
 * @settled: the rate is not too high, and what was owed when it was has been worked off
 * @least_write_ns: what a write of the background takes at least, as of late
 * @window_ns: begin of the window over which acknowledgements count
 * @held: since then the background had to wait for what is owed; likewise @held_reads, since reads count
 * @saw_reads: since then a real-time read has ended
 * @written: sectors of the background's writes in the drive
 * @acked: sectors that were acknowledged in the window; likewise
 * @acks: how many
 * @ack_us: and what they took together
 * @reads: real-time reads that count
 * @slow_reads: of which slow
 * @slow_ns: and what the quickest of these took
 * @pause_ns: the latest; 0: reads were not slow since
 * @were_slow: those before them were, and the rate has not fallen for it yet
 */
struct debt {
	u32 set_sectors;
	u32 limit_sectors;
	u32 rate;
	u32 seen, high;
	u64 empty_ns, pause_ns;
	u32 read_ns, slow_ns;
	bool settled, were_slow;
	u32 least_write_ns;
	u64 window_ns;
	bool held, held_reads, saw_reads;
	atomic_t written;
	atomic_t acked, acks, ack_us;
	atomic_t reads, slow_reads;
};

#endif
