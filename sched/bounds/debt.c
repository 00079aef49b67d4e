// SPDX-License-Identifier: GPL-2.0-only
/* The bound on the debt of writes: see debt.h. Included by the scheduler that asks it. */
#include "debt.h"
#include "estimate.h"

/* The limit, from what is asked for and what was learned. */
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

	return ns > 0 ? rate_sectors(READ_ONCE(d->rate), ns) : 0;
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
	return now_ns + 1 + rate_ns(d->rate, sectors);
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

/* The rate is too high, so more is owed than was thought: a pause of @least_ns or longer works that off. */
static void debt_fall(struct debt *d, u64 least_ns, u64 now_ns)
{
	u32 floor = (u64)d->seen * DEBT_FLOOR_QUARTERS / 4;
	u64 pause_ns;

	d->high = d->rate;
	debt_set_rate(d, max(d->rate - d->rate / DEBT_FALL, floor));
	/* at the floor the rate is not what makes reads slow */
	WRITE_ONCE(d->settled, d->rate == floor);
	pause_ns = max(rate_ns(d->rate, DEBT_PAUSE * d->limit_sectors),
		       max(2 * d->pause_ns, least_ns));
	d->pause_ns = min_t(u64, pause_ns, DEBT_PAUSE_NS_MAX);
	WRITE_ONCE(d->empty_ns, max(d->empty_ns, now_ns) + d->pause_ns);
}

/* Is the rate surely not too high? */
static inline bool debt_is_low(const struct debt *d)
{
	return d->rate < d->high - d->high / DEBT_CAUTION;
}

/* Some real-time reads have ended: if the background was held meanwhile, they say whether the rate is too high. */
static void debt_judge_reads(struct debt *d, u64 now_ns)
{
	int reads = atomic_xchg(&d->reads, 0), slow = atomic_xchg(&d->slow_reads, 0);
	bool were_slow = d->were_slow, are_slow = 2 * slow >= reads, held = d->held_reads;
	u64 slow_ns = READ_ONCE(d->slow_ns);

	WRITE_ONCE(d->slow_ns, 0);
	d->held_reads = false;
	if (!held)
		return;
	d->were_slow = are_slow && !were_slow;
	if (are_slow && were_slow)
		debt_fall(d, slow_ns, now_ns);
	if (4 * slow > reads)
		return;
	debt_set_rate(d,
		      (u64)d->rate + d->rate / (debt_is_low(d) ? DEBT_RISE : DEBT_RISE_SLOWLY) + 1);
	d->seen = max(d->seen, d->rate);
	d->pause_ns = 0;
	WRITE_ONCE(d->settled, debt_is_low(d));
}

/*
 * A window of acknowledgements ends. Where nothing was held, and several writes were in the drive all the time and took longer than
 * in a drive that has room, it takes them as fast as it works them off.
 */
static void debt_end_window(struct debt *d, u64 now_ns)
{
	u64 sectors = atomic_xchg(&d->acked, 0), took_ns = now_ns - d->window_ns;
	u64 ack_ns = 1000ULL * atomic_xchg(&d->ack_us, 0);
	u64 least_ns = atomic_xchg(&d->acks, 0) * READ_ONCE(d->least_write_ns);
	bool held = d->held, is_first = !d->window_ns;

	d->window_ns = now_ns;
	d->held = false;
	if (is_first || !took_ns)
		return;
	if (held && !READ_ONCE(d->saw_reads))
		debt_set_rate(d, (u64)d->rate + d->rate / DEBT_RISE_BLINDLY + 1);
	WRITE_ONCE(d->saw_reads, false);
	if (!held && 2 * ack_ns >= DEBT_WAITING_HALVES * max(took_ns, least_ns)) {
		d->seen = max(rate_of(sectors, took_ns), 1U);
		WRITE_ONCE(d->read_ns, rate_ns(d->seen, DEBT_SECTORS_FIRST / DEBT_READ_TIMES));
		d->pause_ns = 0;
		d->rate = d->seen;
		debt_fall(d, 0, now_ns);
	}
}

/* A write goes to the drive. */
static void debt_went(struct debt *d, u64 sectors, u64 now_ns)
{
	atomic_add(sectors, &d->written);
	if (atomic_read(&d->reads) >= DEBT_READS || 2 * atomic_read(&d->slow_reads) >= DEBT_READS)
		debt_judge_reads(d, now_ns);
	if (atomic_read(&d->acked) >= DEBT_WINDOW_SECTORS)
		debt_end_window(d, now_ns);
	if (d->rate)
		WRITE_ONCE(d->empty_ns, max(d->empty_ns, now_ns) + rate_ns(d->rate, sectors));
}

/* A write has ended after @took_ns; any context. */
static void debt_ended(struct debt *d, u64 sectors, bool background, u64 took_ns)
{
	atomic_sub(sectors, &d->written);
	if (!background)
		return;
	WRITE_ONCE(d->least_write_ns,
		   recent_min(READ_ONCE(d->least_write_ns), took_ns, DEBT_LEAST_MEMORY));
	atomic_add(min_t(u64, div_u64(took_ns, 1000), 1000000), &d->ack_us);
	atomic_inc(&d->acks);
	atomic_add(sectors, &d->acked);
}

/* A real-time read has ended, @took_ns after it came; any context. */
static void debt_read_ended(struct debt *d, u64 took_ns)
{
	u64 typical_ns = READ_ONCE(d->read_ns), slow_ns = READ_ONCE(d->slow_ns);

	if (!READ_ONCE(d->rate))
		return;
	if (READ_ONCE(d->settled))
		WRITE_ONCE(d->read_ns, running_median(typical_ns, took_ns, DEBT_READ_MEMORY));
	if (took_ns > DEBT_SLOW_TIMES * typical_ns) {
		WRITE_ONCE(d->slow_ns, slow_ns ? min(took_ns, slow_ns) : took_ns);
		atomic_inc(&d->slow_reads);
	}
	atomic_inc(&d->reads);
	WRITE_ONCE(d->saw_reads, true);
}
