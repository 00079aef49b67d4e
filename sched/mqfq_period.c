// SPDX-License-Identifier: GPL-2.0-only
/* MQFQ: what changes from one period to the next: requests of class idle become due, T and D are searched for. Included by mqfq.c. */
#include "mqfq.h"

/* T is at least 2 to this power spans, unless the span is the shortest possible. */
#define MQFQ_SPANS_SHIFT 3
/* Shortest span: keeps published numbers even, so that none equals MINDICATOR_NONE. */
#define MQFQ_SPAN_SHIFT_MIN (MINDICATOR_VERSION_BITS + 1)

/* --- class idle ------------------------------------------------------------------------------------------------ */

/* A queue has a new first request of class idle. */
static inline void mqfq_idle_begins(const struct mqfq *m, struct mqfq_queue *q)
{
	WRITE_ONCE(q->idle_due, (mqfq_period(m) + MQFQ_IDLE_PERIODS) | 1);
}

/* Has the queue's first request of class idle waited so long that it goes before all others? Any context. */
static inline bool mqfq_idle_is_due(const struct mqfq *m, const struct mqfq_queue *q)
{
	unsigned int due = READ_ONCE(q->idle_due);

	return unlikely(due) && (int)(mqfq_period(m) - due) >= 0;
}

/* --- automatic values ------------------------------------------------------------------------------------------ */

static void mqfq_set_t(struct mqfq *m, u64 kib)
{
	u64 t = 2 * SHARES_SECTOR * kib;
	unsigned int i, shift = fls64(t >> MQFQ_SPANS_SHIFT);

	mqfq_break(m);
	/* virtual time is rounded down to a span: with T above that error, the request with the least tag is never too far ahead */
	WRITE_ONCE(m->t, max_t(u64, t, (1ULL << MQFQ_SPAN_SHIFT_MIN) - 1));
	WRITE_ONCE(m->span_shift, max_t(unsigned int, shift, MQFQ_SPAN_SHIFT_MIN + 1) - 1);
	smp_mb(); /* pairs with mqfq_throttle(): it sees the new T and span, or its bit in the wheel is seen here */
	for (i = 0; i < WHEEL_BUCKETS; i++)
		wheel_empty(&m->wheel, i, mqfq_kick_throttled, m);
}

static void mqfq_set_d(struct mqfq *m, unsigned int d)
{
	int more = d - m->d;

	WRITE_ONCE(m->d, d);
	tokens_share(&m->tokens, d);
	tokens_add(&m->tokens, more);
	mqfq_give_all(m, 0);
}

/* D brings about 97 % of the throughput of any D. T, in KiB, may lose less, as the losses of both searches add up. */
static const struct search_limits mqfq_d_limits = { 32, 0, 112, 1, 32 };
static const struct search_limits mqfq_t_limits = { 64, 16, 144, 4, 12 };

static inline bool mqfq_is_auto(const struct mqfq *m, enum mqfq_knob knob)
{
	return m->knobs[knob] == KNOB_AUTO;
}

static struct search_sample mqfq_sample(struct mqfq *m, unsigned int periods)
{
	struct search_sample s = { .now_ns = mqfq_now(m), .depth = m->d, .periods = periods };
	unsigned int i;

	for (i = 0; i < m->queue_count; i++) {
		s.requests += READ_ONCE(m->queues[i].dispatched);
		s.written += READ_ONCE(m->queues[i].sectors[1]);
		s.sectors += READ_ONCE(m->queues[i].sectors[0]);
	}
	s.sectors += s.written;
	s.waits = atomic_read(&m->wheel.waiting) ||
		  waiting_level(&m->waiting, WAITING_LEVELS) != WAITING_LEVELS;
	return s;
}

/*
 * One search runs at a time, and a search does not start while another one runs. The order is D, then T while D rests, then the cost of
 * a write while both rest. A cost that was not found yet goes first, as it takes only seconds; the others' measurements then start again.
 * @periods: periods since the last call
 */
static void mqfq_search(struct mqfq *m, unsigned int periods)
{
	bool d = mqfq_is_auto(m, MQFQ_KNOB_d), t = mqfq_is_auto(m, MQFQ_KNOB_t_kib);
	bool cost = mqfq_is_auto(m, MQFQ_KNOB_write_cost_pct);
	bool d_is_on = d && !m->d_search.rest, t_is_on = t && !m->t_search.rest;
	struct search_sample s = mqfq_sample(m, periods);
	unsigned int kib = t ? search_value(&m->t_search) : 0;

	if (cost && (m->write_cost.window || !m->write_cost.is_found || !(d_is_on || t_is_on)))
		write_cost_tick(&m->write_cost, &s);
	if (cost && m->write_cost.window) {
		search_measure(&m->d_search, m->d_search.step);
		search_measure(&m->t_search, m->t_search.step);
	} else {
		if (d && (d_is_on || !t_is_on))
			search_tick(&m->d_search, &s);
		if (t && !d_is_on)
			search_tick(&m->t_search, &s);
	}
	if (d && search_value(&m->d_search) != m->d)
		mqfq_set_d(m, search_value(&m->d_search));
	if (t && search_value(&m->t_search) != kib)
		mqfq_set_t(m, search_value(&m->t_search));
	if (cost)
		WRITE_ONCE(m->write_cost_pct, write_cost_value(&m->write_cost));
}

/* Is a period later than another? A CPU may have looked at the clock before another one did, and come after it. */
static inline bool mqfq_is_later(unsigned int period, unsigned int than)
{
	return (int)(period - than) > 0;
}

/* Called once a period while requests are inserted. */
static noinline void mqfq_tick(struct mqfq *m, unsigned int period)
{
	unsigned int was = READ_ONCE(m->period), i;

	if (!mqfq_is_later(period, was) || cmpxchg(&m->period, was, period) != was)
		return;
	for (i = 0; i < m->queue_count; i++)
		if (mqfq_idle_is_due(m, &m->queues[i]))
			mqfq_kick(m, i);
	spin_lock(&m->lock);
	mqfq_search(m, period - was);
	spin_unlock(&m->lock);
	WRITE_ONCE(m->accounts_due, true);
}
