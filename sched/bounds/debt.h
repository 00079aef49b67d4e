/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The bound on write debt. A drive acknowledges a write when the data is in its buffer, and programs it long after. So an acknowledged
 * write stays charged, in a leaky bucket that drains at the rate at which the drive programs writes. The write debt is the content of
 * the bucket without the writes in the drive.
 *
 * Drives do not report this rate. It is learned from two observations:
 * - Pressure. If background writes are always in the drive, and its buffer is full, it acknowledges them at the rate at which it programs
 *   them. The buffer is full if the bucket runs empty all the same, as the rate is too high then, or if none is held here, and they take
 *   longer than in a buffer with room. The first rate is learned without these signs: it may be too high, which they will show.
 * - Real-time reads. While writes are held here, real-time reads wait for little but the write debt. If most of them are slow, twice in
 *   a row, the debt is larger than computed: the rate is lowered, and writes pause. If few are slow, the rate is raised a little, unless
 *   the bucket runs empty: where other bounds hold writes, too, fast reads do not show that the drive could program more of them.
 */
#ifndef TAILGATE_SCHED_DEBT_H
#define TAILGATE_SCHED_DEBT_H

#include <linux/atomic.h>

#include "bound.h"
#include "estimate.h"

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

/*
 * While no rate is known, the drive is assumed to program for this long after a write: most full buffers take less. It is less than
 * TARGET_PROBE_NS, for which the target holds the background to measure the idle drive.
 */
#define DEBT_UNKNOWN_NS 40000000ULL

/* A held write waits until there is room for it and 1/DEBT_BATCH of the limit, so that one timer releases several writes. */
#define DEBT_BATCH 16

/* Window for the rate of acknowledgements, in sectors. One in which a buffer filled shows a rate that is too high. */
#define DEBT_WINDOW_SECTORS 8192
/* Writes wait for room in the buffer if they take DEBT_WAITING_HALVES / 2 times the least time of a write. */
#define DEBT_WAITING_HALVES 3
/* The bucket runs empty if it is empty for more than 1/DEBT_SPARE of a window. */
#define DEBT_SPARE 8
/* The least time of a write is the minimum of about the latest 2^DEBT_LEAST_MEMORY. */
#define DEBT_LEAST_MEMORY 10

/* The rate changes by 1/n of itself. Values of n: up; up near a rate that was too high; up without reads for DEBT_PAUSE_NS_MAX; down. */
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
 * @set_sectors: limit from the knob, or DEBT_AUTO; 0: nothing is accounted for
 * @limit_sectors: most sectors that may be in the bucket
 * @cap_sectors: upper limit of @limit_sectors
 * @rate: rate at which the bucket drains (RATE_SHIFT); 0: not known, and nothing is held
 * @seen: rate of acknowledgements under pressure, or a higher one at which reads were not slow
 * @high: the latest rate that was too high
 * @empty_ns: when the bucket will be empty; while the rate is unknown, DEBT_UNKNOWN_NS after the latest write
 * @held_until_ns: background writes are held until this time
 * @pause_ns: half of the next pause, at least; 0: reads have not been slow since the latest one
 * @read_ns: typical time of a real-time read: the median while the rate is not too high
 * @least_write_ns: recent minimum of the time of a background write
 * @window_ns: when the present window of acknowledgements began; 0: it says nothing
 * @spare_ns: time in this window in which the bucket was empty
 * @read_ended_ns: when the latest real-time read ended
 * @on: the bound is in force
 * @settled: the rate is safely low, or at its minimum
 * @were_slow: the previous group of reads was slow, and the rate has not been lowered for it
 * @held: background writes were held in this window
 * @held_reads: this bound has refused a write since reads were judged; reads during a pause are not judged
 * @spare: the bucket ran empty in the previous window
 * @written: sectors of writes in the drive
 * @acked: sectors of background writes acknowledged in this window
 * @acks: number of background writes acknowledged in this window
 * @reads: real-time reads not judged yet
 * @slow_reads: slow ones among @reads
 * @ack_ns: total time of the writes in @acks
 */
struct debt {
	u64 set_sectors, limit_sectors, cap_sectors;
	u32 rate, seen, high;
	u64 empty_ns, held_until_ns, pause_ns;
	u64 read_ns, least_write_ns, window_ns, spare_ns, read_ended_ns;
	bool on, settled, were_slow, held, held_reads, spare;
	atomic_t written, acked, acks, reads, slow_reads;
	atomic64_t ack_ns;
};

/* Recomputes the limit from the parameters and the learned rate. */
static void debt_apply(struct debt *d)
{
	u64 limit = d->set_sectors, read_ns = READ_ONCE(d->read_ns);

	if (limit == DEBT_AUTO) {
		limit = d->rate ? rate_sectors(d->rate, DEBT_READ_TIMES * read_ns) :
				  DEBT_SECTORS_FIRST;
		limit = clamp_t(u64, limit, DEBT_SECTORS_MIN, DEBT_SECTORS_MAX);
	}
	WRITE_ONCE(d->limit_sectors, min(limit, d->cap_sectors));
	d->held_until_ns = 0;
}

/**
 * debt_change() - set the parameters from the knobs and the latency target
 * @d: the drive's write debt
 * @on: the bound is in force, if there is one; writes are accounted for in any case
 * @set_sectors: limit from the knob, or DEBT_AUTO; 0: there is no bound
 * @cap_sectors: upper limit from the latency target; values below DEBT_SECTORS_MIN are raised to it
 */
static void debt_change(struct debt *d, bool on, u64 set_sectors, u64 cap_sectors)
{
	on = on && set_sectors;
	/* a window in which the bound was in force for a part of the time would show the rate of neither */
	if (on != d->on || !set_sectors)
		d->window_ns = 0;
	d->on = on;
	d->set_sectors = set_sectors;
	d->cap_sectors = max_t(u64, cap_sectors, DEBT_SECTORS_MIN);
	debt_apply(d);
}

/* Sectors in the bucket: writes in the drive, plus the write debt. */
static inline u64 debt_in_bucket(const struct debt *d, u64 now_ns)
{
	s64 ns = READ_ONCE(d->empty_ns) - now_ns;

	return ns > 0 ? rate_sectors(READ_ONCE(d->rate), ns) : 0;
}

/* Write debt in sectors: acknowledged by the drive and not yet programmed. */
static inline u64 debt_owed(const struct debt *d, u64 now_ns)
{
	u64 all = debt_in_bucket(d, now_ns), written = atomic_read(&d->written);

	return all > written ? all - written : 0;
}

/* Time in ns at which the drive will have programmed @sectors of the write debt. */
static inline u64 debt_until_ns(const struct debt *d, u64 sectors, u64 now_ns)
{
	return now_ns + 1 + rate_ns(d->rate, sectors);
}

static u64 debt_allows(struct debt *d, struct bound_request *r)
{
	u64 limit = d->limit_sectors, bucket, owed;

	if (!d->on || !r->writes || !r->sectors || !d->rate)
		return BOUND_YES;
	r->why = K2_HOLD_DEBT;
	r->limit = limit;
	if (r->now_ns < d->held_until_ns)
		return d->held_until_ns;
	bucket = debt_in_bucket(d, r->now_ns);
	owed = max_t(u64, bucket, atomic_read(&d->written));
	/* a request larger than the limit is allowed while the bucket is empty */
	if (!owed || owed + r->sectors <= limit)
		return BOUND_YES;
	if (!bucket || bucket + r->sectors <= limit)
		return BOUND_AT_END;
	d->held = d->held_reads = true;
	bucket = min(bucket, bucket + r->sectors + limit / DEBT_BATCH - limit);
	d->held_until_ns = debt_until_ns(d, bucket, r->now_ns);
	return d->held_until_ns;
}

static void debt_set_rate(struct debt *d, u64 rate)
{
	WRITE_ONCE(d->rate, min_t(u64, rate, U32_MAX));
	debt_apply(d);
}

/*
 * Puts what takes @ns to program into the bucket. Real-time writes are never held, and pauses may follow each other: so that the background is
 * not held without end, a bucket that has more than the limit and than a window takes nothing.
 */
static void debt_charge(struct debt *d, u64 ns, u64 now_ns)
{
	d->spare_ns += now_ns - min(d->empty_ns, now_ns);
	if (debt_in_bucket(d, now_ns) < max_t(u64, d->limit_sectors, DEBT_WINDOW_SECTORS))
		WRITE_ONCE(d->empty_ns, max(d->empty_ns, now_ns) + ns);
}

/* The rate was too high, so the debt is larger than computed: lowers the rate, and pauses writes to drain it. */
static void debt_fall(struct debt *d, u64 now_ns)
{
	u32 floor = (u64)d->seen * DEBT_FLOOR_QUARTERS / 4;
	u64 pause_ns;

	d->high = d->rate;
	debt_set_rate(d, max(d->rate - d->rate / DEBT_FALL, floor));
	/* at its minimum, the rate cannot be the cause of slow reads */
	WRITE_ONCE(d->settled, d->rate == floor);
	pause_ns = max(rate_ns(d->rate, DEBT_PAUSE * d->limit_sectors), 2 * d->pause_ns);
	d->pause_ns = min_t(u64, pause_ns, DEBT_PAUSE_NS_MAX);
	debt_charge(d, d->pause_ns, now_ns);
	d->window_ns = 0;
}

/* Judges the latest real-time reads: if writes were held meanwhile, slow reads mean that the rate is too high. */
static void debt_judge_reads(struct debt *d, u64 now_ns)
{
	int reads = atomic_xchg(&d->reads, 0), slow = atomic_xchg(&d->slow_reads, 0);
	bool were_slow = d->were_slow, are_slow = 2 * slow >= reads, held = d->held_reads;
	u32 low = d->high - d->high / DEBT_CAUTION;

	d->held_reads = false;
	if (!held)
		return;
	d->were_slow = are_slow && !were_slow;
	if (are_slow && were_slow)
		debt_fall(d, now_ns);
	if (4 * slow > reads || d->spare)
		return;
	debt_set_rate(d,
		      (u64)d->rate + d->rate / (d->rate < low ? DEBT_RISE : DEBT_RISE_SLOWLY) + 1);
	d->seen = max(d->seen, d->rate);
	d->pause_ns = 0;
	WRITE_ONCE(d->settled, d->rate < low);
}

/*
 * At the end of a window of acknowledgements: its rate is learned if several writes were in the drive on average, and the buffer was full,
 * or no rate is known. Of writes that are so large that the limit lets them go one at a time, one must have been in the drive nearly always,
 * and they must have waited for room. If reads are slow next, writes pause twice as long as the window took, at least.
 */
static void debt_end_window(struct debt *d, u64 now_ns)
{
	u64 sectors = atomic_xchg(&d->acked, 0), ack_ns = atomic64_xchg(&d->ack_ns, 0);
	u64 acks = atomic_xchg(&d->acks, 0), took_ns = d->window_ns ? now_ns - d->window_ns : 0;
	bool wait = 2 * ack_ns >= DEBT_WAITING_HALVES * acks * READ_ONCE(d->least_write_ns);
	bool held = d->held, go_alone = d->on && d->rate && 2 * sectors > acks * d->limit_sectors;

	d->spare = took_ns ? DEBT_SPARE * d->spare_ns > took_ns : d->spare;
	d->spare_ns = 0;
	d->window_ns = now_ns;
	d->held = false;
	if (!took_ns)
		return;
	if (held && !d->spare && now_ns > READ_ONCE(d->read_ended_ns) + DEBT_PAUSE_NS_MAX)
		debt_set_rate(d, (u64)d->rate + d->rate / DEBT_RISE_BLINDLY + 1);
	if ((go_alone ? 4 : 2) * ack_ns >= DEBT_WAITING_HALVES * took_ns &&
	    (!d->rate || (d->spare ? wait || !go_alone : wait && !held))) {
		/* what was assumed while no rate was known is over */
		d->empty_ns = d->rate ? d->empty_ns : now_ns;
		d->seen = max(rate_of(sectors, took_ns), 1U);
		WRITE_ONCE(d->read_ns, rate_ns(d->seen, DEBT_SECTORS_FIRST / DEBT_READ_TIMES));
		d->pause_ns = 0;
		d->rate = d->seen;
		debt_fall(d, now_ns);
		d->pause_ns = max(d->pause_ns, took_ns);
	}
}

/* Accounts for a dispatched write. */
static void debt_went(struct debt *d, u64 sectors, u64 now_ns)
{
	atomic_add(sectors, &d->written);
	if (atomic_read(&d->reads) >= DEBT_READS || 2 * atomic_read(&d->slow_reads) >= DEBT_READS)
		debt_judge_reads(d, now_ns);
	if (atomic_read(&d->acked) >= DEBT_WINDOW_SECTORS)
		debt_end_window(d, now_ns);
	if (d->rate)
		debt_charge(d, rate_ns(d->rate, sectors), now_ns);
	else
		WRITE_ONCE(d->empty_ns, now_ns + DEBT_UNKNOWN_NS);
}

/* A write left the drive. @acked: it is a background write, and completed after @took_ns. Any context. */
static void debt_ended(struct debt *d, u64 sectors, bool acked, u64 took_ns)
{
	atomic_sub(sectors, &d->written);
	if (!acked)
		return;
	recent_min(&d->least_write_ns, took_ns, DEBT_LEAST_MEMORY);
	atomic64_add(min_t(u64, took_ns, 1000000000), &d->ack_ns);
	atomic_inc(&d->acks);
	atomic_add(sectors, &d->acked);
}

/* Accounts for a real-time read that completed @took_ns after its arrival; any context. */
static void debt_read_ended(struct debt *d, u64 took_ns, u64 now_ns)
{
	u64 typical_ns = READ_ONCE(d->read_ns);

	/* reads beside which nothing is written are never judged: their count must not overflow */
	if (!READ_ONCE(d->rate) || atomic_read(&d->reads) > INT_MAX / 2)
		return;
	if (READ_ONCE(d->settled))
		WRITE_ONCE(d->read_ns, running_median(typical_ns, took_ns, DEBT_READ_MEMORY));
	if (took_ns > DEBT_SLOW_TIMES * typical_ns)
		atomic_inc(&d->slow_reads);
	atomic_inc(&d->reads);
	WRITE_ONCE(d->read_ended_ns, now_ns);
}

#endif
