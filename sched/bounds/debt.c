// SPDX-License-Identifier: GPL-2.0-only
/* The bound on the debt of writes: see debt.h. Included by the scheduler that asks it. */
#include <linux/kernel.h>
#include <linux/math64.h>

#include "debt.h"

/* Time in which the drive works off some sectors. */
static inline u64 debt_ns(u64 sectors, u32 rate)
{
	return div_u64(sectors << 32, max(rate, 1U));
}

/* The limit, from what is asked for and what was learned. */
static void debt_apply(struct debt *d)
{
	u64 limit = d->set_sectors, read_ns = READ_ONCE(d->read_ns);

	if (limit == DEBT_AUTO) {
		limit = d->rate ? mul_u64_u32_shr(DEBT_READ_TIMES * read_ns, d->rate, 32) :
				  DEBT_SECTORS_FIRST;
		limit = clamp_t(u64, limit, DEBT_SECTORS_MIN, DEBT_SECTORS_MAX);
	}
	WRITE_ONCE(d->limit_sectors, min(limit, d->cap_sectors));
	d->held_until_ns = 0;
}

/**
 * debt_change() - what knobs and the target ask for
 * @d: the drive's debt
 * @on: the bound is in force
 * @set_sectors: most that may be owed, or DEBT_AUTO
 * @cap_sectors: the limit is not above this, or above DEBT_SECTORS_MIN if that is more
 */
static void debt_change(struct debt *d, bool on, u64 set_sectors, u64 cap_sectors)
{
	d->on = on;
	d->set_sectors = set_sectors;
	d->cap_sectors = max_t(u64, cap_sectors, DEBT_SECTORS_MIN);
	debt_apply(d);
}

/* Sectors in the bucket: what is in the drive, and what it has acknowledged and not worked off. */
static inline u64 debt_in_bucket(const struct debt *d, u64 now_ns)
{
	s64 ns = READ_ONCE(d->empty_ns) - now_ns;

	return ns > 0 ? mul_u64_u32_shr(ns, READ_ONCE(d->rate), 32) : 0;
}

/* Sectors that the drive has acknowledged and not worked off. */
static inline u64 debt_owed(const struct debt *d, u64 now_ns)
{
	u64 all = debt_in_bucket(d, now_ns), written = atomic_read(&d->written);

	return all > written ? all - written : 0;
}

/* When some of what is owed will have been worked off. */
static inline u64 debt_until_ns(const struct debt *d, u64 sectors, u64 now_ns)
{
	return now_ns + 1 + debt_ns(sectors, d->rate);
}

static u64 debt_allows(struct debt *d, struct bound_request *r)
{
	u64 limit = d->limit_sectors, bucket, owed;

	if (!d->on || !r->writes || !r->sectors || !d->rate)
		return BOUND_YES;
	r->limit = limit;
	if (r->now_ns < d->held_until_ns)
		return d->held_until_ns;
	bucket = debt_in_bucket(d, r->now_ns);
	owed = max_t(u64, bucket, atomic_read(&d->written));
	/* what is larger than the limit fits where nothing is owed */
	if (!owed || owed + r->sectors <= limit)
		return BOUND_YES;
	if (!bucket || bucket + r->sectors <= limit)
		return BOUND_AT_END;
	d->held = true;
	d->held_reads = true;
	bucket = min(bucket, bucket + r->sectors + limit / DEBT_BATCH - limit);
	d->held_until_ns = debt_until_ns(d, bucket, r->now_ns);
	return d->held_until_ns;
}

/* Is the rate surely not too high? */
static inline bool debt_is_low(const struct debt *d)
{
	return d->rate < d->high - d->high / DEBT_CAUTION;
}

static void debt_set_rate(struct debt *d, u64 rate)
{
	WRITE_ONCE(d->rate, min_t(u64, rate, U32_MAX));
	debt_apply(d);
}

/* The rate was too high, so more is owed than was thought: a pause of @least_ns or longer works that off. */
static void debt_fall(struct debt *d, u32 rate, u64 least_ns, u64 now_ns)
{
	u32 floor = (u64)d->seen * DEBT_FLOOR_QUARTERS / 4;
	u64 pause_ns;

	d->high = rate;
	debt_set_rate(d, max(rate - rate / DEBT_FALL, floor));
	/* at the floor the rate is not what makes reads slow */
	WRITE_ONCE(d->settled, d->rate == floor);
	pause_ns = max(debt_ns(DEBT_PAUSE * d->limit_sectors, d->rate),
		       max(2 * d->pause_ns, least_ns));
	d->pause_ns = min_t(u64, pause_ns, DEBT_PAUSE_NS_MAX);
	WRITE_ONCE(d->empty_ns, max(d->empty_ns, now_ns) + d->pause_ns);
}

/*
 * A window of acknowledgements ends. Where nothing was held, and several writes were in the drive all the time and took longer than
 * in a drive that has room, it takes them as fast as it works them off.
 */
static void debt_end_window(struct debt *d, u64 now_ns)
{
	u64 sectors = atomic_xchg(&d->acked, 0), took_ns = now_ns - d->window_ns;
	u64 ack_ns = 1000ULL * atomic_xchg(&d->ack_us, 0), acks = atomic_xchg(&d->acks, 0);
	u64 least_ns = acks * READ_ONCE(d->least_write_ns);
	bool held = d->held, is_first = !d->window_ns;

	d->window_ns = now_ns;
	d->held = false;
	if (is_first || !took_ns)
		return;
	if (!held && 2 * ack_ns >= DEBT_WAITING_HALVES * max(took_ns, least_ns)) {
		d->seen = clamp_t(u64, div64_u64(sectors << 32, took_ns), 1, U32_MAX);
		WRITE_ONCE(d->read_ns, debt_ns(DEBT_SECTORS_FIRST / DEBT_READ_TIMES, d->seen));
		d->pause_ns = 0;
		debt_fall(d, d->seen, 0, now_ns);
	} else if (held && !READ_ONCE(d->saw_reads)) {
		debt_set_rate(d, (u64)d->rate + d->rate / DEBT_RISE_BLINDLY + 1);
	}
	WRITE_ONCE(d->saw_reads, false);
}

/* DEBT_READS real-time reads have ended, or enough of them were slow. */
static void debt_count_reads(struct debt *d, u64 now_ns)
{
	int reads = atomic_xchg(&d->reads, 0), slow = atomic_xchg(&d->slow_reads, 0);
	u64 slow_ns = READ_ONCE(d->slow_ns);
	bool held = d->held_reads, were_slow = d->were_slow, are_slow = 2 * slow >= reads;

	d->held_reads = false;
	WRITE_ONCE(d->slow_ns, 0);
	if (!d->rate || !held)
		return;
	d->were_slow = are_slow && !were_slow;
	if (are_slow && were_slow) {
		debt_fall(d, d->rate, slow_ns, now_ns);
	} else if (4 * slow <= reads) {
		d->pause_ns = 0;
		debt_set_rate(d, (u64)d->rate +
					 d->rate / (debt_is_low(d) ? DEBT_RISE : DEBT_RISE_SLOWLY) +
					 1);
		d->seen = max(d->seen, d->rate);
		WRITE_ONCE(d->settled, debt_is_low(d));
	}
}

/* A write goes to the drive. */
static void debt_went(struct debt *d, u64 sectors, u64 now_ns)
{
	atomic_add(sectors, &d->written);
	if (atomic_read(&d->acked) >= DEBT_WINDOW_SECTORS)
		debt_end_window(d, now_ns);
	if (atomic_read(&d->reads) >= DEBT_READS || 2 * atomic_read(&d->slow_reads) >= DEBT_READS)
		debt_count_reads(d, now_ns);
	if (d->rate)
		WRITE_ONCE(d->empty_ns, max(d->empty_ns, now_ns) + debt_ns(sectors, d->rate));
}

/* A write has ended after @took_ns; any context. */
static void debt_ended(struct debt *d, u64 sectors, bool background, u64 took_ns)
{
	u64 least_ns = READ_ONCE(d->least_write_ns);

	atomic_sub(sectors, &d->written);
	if (!background)
		return;
	/* the least is forgotten slowly */
	least_ns += least_ns / DEBT_LEAST_REQUESTS + 1;
	WRITE_ONCE(d->least_write_ns, least_ns > 1 ? min(took_ns, least_ns) : took_ns);
	atomic_add(min_t(u64, div_u64(took_ns, 1000), 1000000), &d->ack_us);
	atomic_inc(&d->acks);
	atomic_add(sectors, &d->acked);
}

/* A real-time read has ended, @took_ns after it came; any context. */
static void debt_read_ended(struct debt *d, u64 took_ns)
{
	u64 typical_ns = READ_ONCE(d->read_ns), step_ns = typical_ns / DEBT_READ_MEMORY + 1;
	u64 slow_ns = READ_ONCE(d->slow_ns);

	if (!READ_ONCE(d->rate))
		return;
	WRITE_ONCE(d->saw_reads, true);
	if (READ_ONCE(d->settled))
		WRITE_ONCE(d->read_ns,
			   took_ns > typical_ns ? typical_ns + step_ns : typical_ns - step_ns + 1);
	if (took_ns > DEBT_SLOW_TIMES * typical_ns) {
		if (!slow_ns || took_ns < slow_ns)
			WRITE_ONCE(d->slow_ns, took_ns);
		atomic_inc(&d->slow_reads);
	}
	atomic_inc(&d->reads);
}
