// SPDX-License-Identifier: GPL-2.0-only
/* The debt of writes: see debt.h. Included by k2.c. */
#include <linux/kernel.h>
#include <linux/math64.h>

#include "debt.h"

static inline u64 debt_ns(u64 sectors, u32 rate)
{
	return div_u64(sectors << 32, rate);
}

/* What finds itself, from what was learned. */
static void debt_apply(struct debt *d)
{
	u64 limit = d->set_sectors;
	u32 read_ns = READ_ONCE(d->read_ns);

	if (limit == DEBT_AUTO)
		limit = d->rate ? mul_u64_u32_shr((u64)DEBT_READ_TIMES * read_ns, d->rate, 32) :
				  DEBT_SECTORS_FIRST;
	limit = clamp_t(u64, limit, DEBT_SECTORS_MIN, DEBT_WINDOW_SECTORS);
	WRITE_ONCE(d->limit_sectors, limit);
}

/* A number, or DEBT_AUTO. */
static void debt_configure(struct debt *d, u32 sectors)
{
	d->set_sectors = sectors;
	debt_apply(d);
}

/* By the clock alone: what is in the bucket. */
static inline unsigned int debt_in_bucket(const struct debt *d, u64 now_ns)
{
	s64 ns = READ_ONCE(d->empty_ns) - now_ns;

	return ns > 0 ? mul_u64_u32_shr(ns, READ_ONCE(d->rate), 32) : 0;
}

/* Beyond what is in the drive: acknowledged and not yet worked off. */
static inline unsigned int debt_owed(const struct debt *d, u64 now_ns)
{
	unsigned int all = debt_in_bucket(d, now_ns), written = atomic_read(&d->written);

	return all > written ? all - written : 0;
}

/* When so much of what is owed was worked off. */
static inline u64 debt_until_ns(const struct debt *d, unsigned int sectors, u64 now_ns)
{
	return now_ns + 1 + debt_ns(sectors, max(READ_ONCE(d->rate), 1U));
}

/* Is there room for so much more? What is larger than the limit fits where nothing is owed. */
static inline bool debt_fits(const struct debt *d, unsigned int sectors, u64 now_ns)
{
	unsigned int owed =
		max_t(unsigned int, debt_in_bucket(d, now_ns), atomic_read(&d->written));

	return !owed || owed + sectors <= READ_ONCE(d->limit_sectors) || !READ_ONCE(d->rate);
}

/**
 * debt_has_room() - may so much more be written?
 * @d: of the drive
 * @sectors: of the write
 * @now_ns: the time
 * @until_ns: if not: when to ask again; 0: when a write ends
 *
 * Any context, no lock.
 */
static bool debt_has_room(struct debt *d, unsigned int sectors, u64 now_ns, u64 *until_ns)
{
	unsigned int limit = READ_ONCE(d->limit_sectors), owed = debt_in_bucket(d, now_ns);

	*until_ns = 0;
	if (debt_fits(d, sectors, now_ns))
		return true;
	if (!owed || owed + sectors <= limit)
		return false;
	if (!READ_ONCE(d->held) || !READ_ONCE(d->held_reads)) {
		WRITE_ONCE(d->held, true);
		WRITE_ONCE(d->held_reads, true);
	}
	*until_ns =
		debt_until_ns(d, min(owed, owed + sectors + limit / DEBT_BATCH - limit), now_ns);
	return false;
}

/* Is the rate surely not too high? */
static inline bool debt_is_low(const struct debt *d)
{
	u32 high = READ_ONCE(d->high);

	return READ_ONCE(d->rate) < high - high / DEBT_CAUTION;
}

static void debt_set_rate(struct debt *d, u64 rate)
{
	WRITE_ONCE(d->rate, min_t(u64, rate, U32_MAX));
	debt_apply(d);
}

/* A rate was too high, so more is owed than was thought; a pause, so long at least, works that off. */
static void debt_fall(struct debt *d, u32 rate, u32 least_ns, u64 now_ns)
{
	u32 floor = (u64)d->seen * DEBT_FLOOR_QUARTERS / 4;

	WRITE_ONCE(d->high, rate);
	debt_set_rate(d, max(rate - rate / DEBT_FALL, floor));
	/* at the floor the rate is not what makes reads slow */
	WRITE_ONCE(d->settled, d->rate == floor);
	d->pause_ns = max_t(u64, debt_ns((u64)DEBT_PAUSE * d->limit_sectors, d->rate),
			    min_t(u64, max_t(u64, 2 * d->pause_ns, least_ns), DEBT_PAUSE_NS_MAX));
	WRITE_ONCE(d->empty_ns, max(d->empty_ns, now_ns) + d->pause_ns);
}

/*
 * A window of acknowledgements ends. Nothing was held, and several writes were in the drive all the time, longer than they
 * would be in one that has room: it takes them as fast as it works them off.
 */
static void debt_end_window(struct debt *d, u64 now_ns)
{
	u64 sectors = atomic_xchg(&d->acked, 0), took_ns = now_ns - d->window_ns;
	u64 ack_ns = 1000ULL * atomic_xchg(&d->ack_us, 0), acks = atomic_xchg(&d->acks, 0);
	bool held = READ_ONCE(d->held), is_first = !d->window_ns;

	d->window_ns = now_ns;
	WRITE_ONCE(d->held, false);
	if (is_first || !took_ns)
		return;
	if (!held &&
	    2 * ack_ns >= DEBT_WAITING_HALVES * max(took_ns, acks * READ_ONCE(d->least_write_ns))) {
		WRITE_ONCE(d->seen, clamp_t(u64, div64_u64(sectors << 32, took_ns), 1, U32_MAX));
		WRITE_ONCE(d->read_ns,
			   min_t(u64, debt_ns(DEBT_SECTORS_FIRST / DEBT_READ_TIMES, d->seen),
				 U32_MAX / 2));
		d->pause_ns = 0;
		debt_fall(d, d->seen, 0, now_ns);
	} else if (held && !READ_ONCE(d->saw_reads)) {
		debt_set_rate(d, (u64)d->rate + d->rate / DEBT_RISE_BLINDLY + 1);
	}
	WRITE_ONCE(d->saw_reads, false);
}

/* So many real-time reads have ended. */
static void debt_count_reads(struct debt *d, u64 now_ns)
{
	unsigned int reads = atomic_xchg(&d->reads, 0), slow = atomic_xchg(&d->slow_reads, 0);
	u32 slow_ns = READ_ONCE(d->slow_ns);
	bool held = READ_ONCE(d->held_reads), were_slow = d->were_slow;

	WRITE_ONCE(d->held_reads, false);
	WRITE_ONCE(d->slow_ns, 0);
	if (!d->rate || !held)
		return;
	d->were_slow = 2 * slow >= reads && !were_slow;
	if (2 * slow >= reads) {
		if (were_slow)
			debt_fall(d, d->rate, slow_ns, now_ns);
	} else if (4 * slow <= reads) {
		d->pause_ns = 0;
		debt_set_rate(d, (u64)d->rate +
					 d->rate / (debt_is_low(d) ? DEBT_RISE : DEBT_RISE_SLOWLY) +
					 1);
		WRITE_ONCE(d->seen, max(d->seen, d->rate));
		WRITE_ONCE(d->settled, debt_is_low(d));
	}
}

/**
 * debt_charge() - a write goes to the drive
 * @d: of the drive
 * @sectors: of it
 * @now_ns: the time
 *
 * With the caller's lock.
 */
static void debt_charge(struct debt *d, unsigned int sectors, u64 now_ns)
{
	atomic_add(sectors, &d->written);
	if (atomic_read(&d->acked) >= DEBT_WINDOW_SECTORS)
		debt_end_window(d, now_ns);
	if (atomic_read(&d->reads) >= DEBT_READS || 2 * atomic_read(&d->slow_reads) >= DEBT_READS)
		debt_count_reads(d, now_ns);
	if (d->rate)
		WRITE_ONCE(d->empty_ns, max(d->empty_ns, now_ns) + debt_ns(sectors, d->rate));
}

/* The least of late, which is forgotten slowly. */
static inline void debt_note_least(u32 *least_ns, u32 took_ns)
{
	u32 least = READ_ONCE(*least_ns);

	WRITE_ONCE(*least_ns,
		   least ? min(took_ns, least + least / DEBT_LEAST_REQUESTS + 1) : took_ns);
}

/* A write left the drive, after so long; any context. */
static void debt_end_write(struct debt *d, unsigned int sectors, bool background, u64 took_ns)
{
	atomic_sub(sectors, &d->written);
	if (!background)
		return;
	debt_note_least(&d->least_write_ns, min_t(u64, took_ns, U32_MAX / 2));
	atomic_add(min_t(u64, div_u64(took_ns, 1000), 1000000), &d->ack_us);
	atomic_inc(&d->acks);
	atomic_add(sectors, &d->acked);
}

/* A real-time read did; any context. */
static void debt_end_read(struct debt *d, u64 took_ns)
{
	u32 typical_ns = READ_ONCE(d->read_ns), step_ns = typical_ns / DEBT_READ_MEMORY + 1;

	if (!READ_ONCE(d->rate))
		return;
	WRITE_ONCE(d->saw_reads, true);
	if (READ_ONCE(d->settled))
		WRITE_ONCE(d->read_ns,
			   took_ns > typical_ns ? typical_ns + step_ns : typical_ns - step_ns + 1);
	if (took_ns > (u64)DEBT_SLOW_TIMES * typical_ns) {
		if (!READ_ONCE(d->slow_ns) || took_ns < READ_ONCE(d->slow_ns))
			WRITE_ONCE(d->slow_ns, min_t(u64, took_ns, U32_MAX));
		atomic_inc(&d->slow_reads);
	}
	atomic_inc(&d->reads);
}
