// SPDX-License-Identifier: GPL-2.0-only
/* MQFQ, the scheduler: see mqfq.h. This file is included by the code that binds it to an environment, so that the compiler sees both at once. */
#include <linux/bitops.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/math64.h>

#include "mqfq.h"

static const struct knob mqfq_knob_infos[MQFQ_KNOB_COUNT] = { MQFQ_KNOBS(KNOB_INFO) };

/* T has at least this many spans, if a span is not the least that there is. */
#define MQFQ_SPANS_SHIFT 3
/* So that no number is MINDICATOR_NONE, which is odd. */
#define MQFQ_SPAN_SHIFT_MIN (MINDICATOR_VERSION_BITS + 1)
/* Sectors that a request costs at least, and one that moves no data. */
#define MQFQ_SECTORS_MIN 1

#include "mqfq_accounts.c"

/* --- virtual time ---------------------------------------------------------------------------------------------- */

/* A tag as virtual time has it: without what is below the mindicator's numbers. */
static inline u64 mqfq_round(const struct mqfq *m, u64 tag)
{
	unsigned int shift = READ_ONCE(m->span_shift); /* once: it may change */

	return tag >> shift << shift;
}

static void mqfq_kick(struct mqfq *m, unsigned int number)
{
	struct mqfq_queue *q = &m->queues[number];

	if (!test_and_set_bit(q->bit, q->runnable))
		mqfq_run(m, q->hctx);
}

/* A queue waited for virtual time. */
static void mqfq_kick_throttled(void *m, unsigned int number)
{
	mqfq_kick(m, number);
}

/* The nearest queue of the most urgent level that waits; WAITING_NONE: none does, any more. */
static noinline unsigned int mqfq_find_waiter(const struct mqfq *m, unsigned int number)
{
	unsigned int level = waiting_level(&m->waiting, WAITING_LEVELS);

	/* class idle gets the token of what is last in virtual time */
	if (level == WAITING_LEVELS ||
	    (level == MQFQ_IDLE && mindicator_least(&m->mindicator) != MINDICATOR_NONE))
		return WAITING_NONE;
	return waiting_nearest(&m->waiting, &m->tokens, number, level);
}

/* The queue that is to get the token that queue @number has no use for; WAITING_NONE: no queue waits for one. */
static inline unsigned int mqfq_next_waiter(const struct mqfq *m, unsigned int number)
{
	return likely(!waiting_any(&m->waiting)) ? WAITING_NONE : mqfq_find_waiter(m, number);
}

/* A token that a queue does not need: who waits gets it, or it is put into the tree. Any context. */
static __always_inline void mqfq_give(struct mqfq *m, unsigned int number)
{
	unsigned int to;

	do {
		if (tokens_drop(&m->tokens))
			return;
		to = mqfq_next_waiter(m, number);
		if (to != WAITING_NONE) {
			atomic_inc(&m->queues[to].given);
			mqfq_kick(m, to);
			return;
		}
		tokens_put(&m->tokens, number);
		smp_mb(); /* pairs with the barrier after waiting_add() */
	} while (unlikely(mqfq_next_waiter(m, number) != WAITING_NONE) && tokens_steal(&m->tokens));
}

/* Something that others had to wait for is gone: tokens that it left in the tree are for them. */
static noinline void mqfq_give_all(struct mqfq *m, unsigned int number)
{
	smp_mb(); /* pairs with the barrier after waiting_add() */
	while (mqfq_next_waiter(m, number) != WAITING_NONE && tokens_steal(&m->tokens))
		mqfq_give(m, number);
}

/* Tells virtual time what a queue's first tag is, or that it has none. */
static noinline void mqfq_publish(struct mqfq *m, struct mqfq_queue *q, u64 number)
{
	s64 vt = atomic64_read(&m->vt);
	u64 least;

	mqfq_account_near(m, q);
	q->published = number;
	least = mindicator_set(&m->mindicator, q->number, number, vt >> MINDICATOR_VERSION_BITS);
	if (least == MINDICATOR_NONE)
		return;
	least <<= MINDICATOR_VERSION_BITS;
	while (tag_after(least, vt)) {
		if (!atomic64_try_cmpxchg(&m->vt, &vt, least))
			continue;
		wheel_turn(&m->wheel, vt, least, READ_ONCE(m->span_shift), mqfq_kick_throttled, m);
		flows_raise(&m->flows, vt, least);
		return;
	}
}

static inline u64 mqfq_number(const struct mqfq *m, const struct mqfq_queue *q)
{
	return q->first ? mqfq_round(m, q->first->start) >> MINDICATOR_VERSION_BITS :
			  MINDICATOR_NONE;
}

/* --- class idle ------------------------------------------------------------------------------------------------ */

/* The first request of class idle of a queue comes, or the next one is the first. */
static inline void mqfq_idle_begins(const struct mqfq *m, struct mqfq_queue *q)
{
	WRITE_ONCE(q->idle_due, (mqfq_period(m) + MQFQ_IDLE_PERIODS) | 1);
}

/* Does the first request of class idle of a queue go before all others? Any context. */
static inline bool mqfq_idle_is_due(const struct mqfq *m, const struct mqfq_queue *q)
{
	unsigned int due = READ_ONCE(q->idle_due);

	return unlikely(due) && (int)(mqfq_period(m) - due) >= 0;
}

/* --- what is found automatically ------------------------------------------------------------------------------- */

static void mqfq_set_t(struct mqfq *m, u64 kib)
{
	u64 t = 2 * SHARES_SECTOR * kib;
	unsigned int i, shift = fls64(t >> MQFQ_SPANS_SHIFT);

	mqfq_break(m);
	/* virtual time is rounded down to a span: what waits longest is never too far ahead */
	WRITE_ONCE(m->t, max_t(u64, t, (1ULL << MQFQ_SPAN_SHIFT_MIN) - 1));
	WRITE_ONCE(m->span_shift, max_t(unsigned int, shift, MQFQ_SPAN_SHIFT_MIN + 1) - 1);
	smp_mb(); /* pairs with mqfq_throttle(): it sees the new span, or we see that it waits */
	for (i = 0; i < WHEEL_BUCKETS; i++)
		wheel_empty(&m->wheel, i, mqfq_kick_throttled, m);
}

static void mqfq_set_d(struct mqfq *m, unsigned int d)
{
	int more = d - m->d;

	m->d = d;
	tokens_share(&m->tokens, d);
	tokens_add(&m->tokens, more);
	mqfq_give_all(m, 0);
}

/* D: 97 % of what any brings. T, in KiB: almost all of that, as both searches may be on. */
static const struct search_limits mqfq_d_limits = { 32, 0, 112, 1, 28 };
static const struct search_limits mqfq_t_limits = { 64, 16, 144, 4, 12 };

static inline bool mqfq_is_auto(const struct mqfq *m, enum mqfq_knob knob)
{
	return m->knobs[knob] == KNOB_AUTO;
}

static struct search_sample mqfq_sample(struct mqfq *m)
{
	struct search_sample s = { .now_ns = mqfq_now(m), .depth = m->d };
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
 * One search at a time, and no rest ends while another is on: D first, then T while D rests, then what a write costs while both rest. Until that
 * is found it goes first, as it is found in seconds; what the others measure begins again then.
 */
static void mqfq_search(struct mqfq *m)
{
	bool d = mqfq_is_auto(m, MQFQ_KNOB_d), t = mqfq_is_auto(m, MQFQ_KNOB_t_kib);
	bool cost = mqfq_is_auto(m, MQFQ_KNOB_write_cost_pct);
	bool d_is_on = d && !m->d_search.rest, t_is_on = t && !m->t_search.rest;
	struct search_sample s = mqfq_sample(m);
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

/* Once a period, while requests come. */
static noinline void mqfq_tick(struct mqfq *m, unsigned int period)
{
	unsigned int was = READ_ONCE(m->period), i;

	if (was == period || cmpxchg(&m->period, was, period) != was)
		return;
	for (i = 0; i < m->queue_count; i++)
		if (mqfq_idle_is_due(m, &m->queues[i]))
			mqfq_kick(m, i);
	spin_lock(&m->lock);
	mqfq_search(m);
	spin_unlock(&m->lock);
	WRITE_ONCE(m->accounts_due, true);
}

/* --- insertion ------------------------------------------------------------------------------------------------- */

/* Asks what a flow pays, for all of a period. @where: tells the groups of this entry's flow */
static noinline void mqfq_weigh(struct mqfq *m, struct mqfq_entry *e, unsigned int period,
				void (*where)(struct mqfq_entry *e, struct share_path *path))
{
	struct flow *flow = &m->flows.flows[e->flow];
	u64 key = READ_ONCE(flow->key), had = READ_ONCE(m->accounts[e->flow].key);
	bool competes = tag_after(atomic64_read(&flow->end), atomic64_read(&m->vt));
	struct share_path path;

	mqfq_tick(m, period);
	WRITE_ONCE(flow->period, period);
	set_bit(e->flow, m->active);
	if (key != had && cmpxchg(&m->accounts[e->flow].key, had, key) == had)
		mqfq_account_anew(m, e->flow);
	if (e->flow == FLOWS_SHARED)
		return;
	where(e, &path);
	WRITE_ONCE(flow->price, shares_price(&m->shares, &path, period, competes));
}

/* What a number of sectors costs a flow. */
static inline u64 mqfq_cost(const struct mqfq *m, const struct flow *flow, u64 sectors, bool writes)
{
	u64 cost = max_t(u64, sectors, MQFQ_SECTORS_MIN) * READ_ONCE(flow->price);

	return writes ? div_u64(cost * READ_ONCE(m->write_cost_pct), 100) : cost;
}

/**
 * mqfq_prepare() - before mqfq_insert(): what a request costs its flow
 * @m: the drive's scheduler
 * @e: in state MQFQ_NEW or MQFQ_RETURNED
 * @level: MQFQ_...; one that was returned goes before all others
 * @key: of its flow; not 0
 * @where: tells the groups that the flow is in
 * @writes: it is a write
 *
 * Process context.
 */
static inline void mqfq_prepare(struct mqfq *m, struct mqfq_entry *e, unsigned int level, u64 key,
				void (*where)(struct mqfq_entry *e, struct share_path *path),
				bool writes)
{
	unsigned int period = mqfq_period(m), sectors;
	struct flow *flow;
	bool is_new;

	/* what the driver gave back was paid for, and may have no tag */
	e->level = unlikely(e->state == MQFQ_RETURNED) ? MQFQ_URGENT : level;
	e->writes = writes;
	if (likely(e->level == MQFQ_FAIR)) {
		e->flow = flows_find(&m->flows, key, atomic64_read(&m->vt), &is_new);
		flow = &m->flows.flows[e->flow];
		if (unlikely(is_new || READ_ONCE(flow->period) != period))
			mqfq_weigh(m, e, period, where);
		sectors = mqfq_sectors(e);
		e->start = flow_charge(flow, mqfq_cost(m, flow, sectors, writes), &m->vt);
		if (unlikely(sectors - 1 >= READ_ONCE(flow->largest))) /* also if there are none */
			mqfq_account_size(flow, sectors);
	} else {
		mqfq_tick(m, period);
		e->flow = FLOWS_NONE;
	}
	e->state = MQFQ_QUEUED;
}

/* list_add_tail() and list_del_init() without the checks of many kernels, which take longer than all else that is done with a queue here. */
static inline void mqfq_append(struct list_head *node, struct list_head *list)
{
	node->next = list;
	node->prev = list->prev;
	list->prev->next = node;
	list->prev = node;
}

static inline void mqfq_unlink(struct list_head *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	INIT_LIST_HEAD(node);
}

/* A request that came after one with a later tag. */
static noinline void mqfq_add_late(struct mqfq_queue *q, struct mqfq_entry *e)
{
	struct rb_node *parent = NULL, **link = &q->late.rb_node;

	while (*link) {
		parent = *link;
		link = tag_after(mqfq_entry_of_rb(parent)->start, e->start) ? &parent->rb_left :
									      &parent->rb_right;
	}
	rb_link_node(mqfq_rb_node(e), parent, link);
	rb_insert_color(mqfq_rb_node(e), &q->late);
	INIT_LIST_HEAD(mqfq_node(e));
}

static inline void mqfq_add_fair(struct mqfq_queue *q, struct mqfq_entry *e)
{
	struct list_head *list = &q->lists[MQFQ_FAIR];

	if (!q->first) {
		q->first = e;
		q->filled |= BIT(MQFQ_FAIR);
	} else if (unlikely(tag_after(mqfq_entry_of(list->prev)->start, e->start))) {
		mqfq_add_late(q, e);
		if (tag_after(q->first->start, e->start))
			q->first = e;
		return;
	}
	mqfq_append(mqfq_node(e), list);
}

/**
 * struct mqfq_insertion - requests are being queued
 * @q: in this queue, whose lock is held
 * @filled: its own, before
 * @first: its own, before
 */
struct mqfq_insertion {
	struct mqfq_queue *q;
	unsigned int filled;
	struct mqfq_entry *first;
};

/* Process context: takes the lock of the queue of the hardware queue and CPU that requests were submitted to. */
static inline void mqfq_insert_begin(struct mqfq_insertion *in, struct mqfq_queue *q)
	__acquires(&q->lock)
{
	spin_lock(&q->lock);
	in->q = q;
	in->filled = q->filled;
	in->first = q->first;
}

/* Queues a request that is prepared, and in no list. */
static inline void mqfq_insert(struct mqfq_insertion *in, struct mqfq_entry *e)
{
	struct mqfq_queue *q = in->q;
	unsigned int level = e->level;

	e->queue = q->number;
	WRITE_ONCE(q->inserted, q->inserted + 1);
	if (likely(level == MQFQ_FAIR)) {
		mqfq_add_fair(q, e);
		return;
	}
	q->filled |= BIT(level);
	mqfq_append(mqfq_node(e), &q->lists[level]);
}

/* All that there are in a queue. Afterwards the caller runs the hardware queue. */
static inline void mqfq_insert_end(struct mqfq *m, struct mqfq_insertion *in)
	__releases(&in->q->lock)
{
	struct mqfq_queue *q = in->q;

	if (unlikely(q->filled & ~in->filled & BIT(MQFQ_IDLE)))
		mqfq_idle_begins(m, q);
	if (q->published != MINDICATOR_NONE && q->first != in->first &&
	    mqfq_number(m, q) != q->published)
		mqfq_publish(m, q, mqfq_number(m, q));
	/* what was blocked stays so, unless something else is next now */
	if (!in->filled || q->first != in->first || __ffs(q->filled) != __ffs(in->filled))
		set_bit(q->bit, q->runnable);
	spin_unlock(&q->lock);
}

/* --- merging --------------------------------------------------------------------------------------------------- */

/* Of this many requests a bio may join one. */
#define MQFQ_LATEST 8

/* Begins to look for a queued request that a bio may join. Until mqfq_merge_end() none leaves the queue. Process context. */
static inline void mqfq_merge_begin(struct mqfq_queue *q) __acquires(&q->lock)
{
	spin_lock(&q->lock);
}

static inline void mqfq_merge_end(struct mqfq_queue *q) __releases(&q->lock)
{
	spin_unlock(&q->lock);
}

/* The latest requests that are shared fairly, by their tags. Return: their number, at most MQFQ_LATEST. */
static inline unsigned int mqfq_latest(const struct mqfq_queue *q, struct mqfq_entry **latest)
{
	const struct list_head *list = &q->lists[MQFQ_FAIR];
	struct list_head *node = list->prev;
	struct rb_node *late = rb_last(&q->late);
	struct mqfq_entry *e;
	unsigned int count;

	for (count = 0; count < MQFQ_LATEST && (late || node != list); count++) {
		e = late ? mqfq_entry_of_rb(late) : NULL;
		if (node != list && (!e || !tag_after(e->start, mqfq_entry_of(node)->start))) {
			e = mqfq_entry_of(node);
			node = node->prev;
		} else {
			late = rb_prev(late);
		}
		latest[count] = e;
	}
	return count;
}

/**
 * mqfq_grow() - a bio joins a queued request of its flow
 * @m: the drive's scheduler
 * @e: the request, between mqfq_merge_begin() and mqfq_merge_end()
 * @sectors: that the bio moves
 * @writes: it is a write
 *
 * The request keeps its start tag, and so its place. So do those of the flow that are queued already: the flow may be ahead by what
 * has grown until later ones, which pay for it, go.
 */
static inline void mqfq_grow(struct mqfq *m, const struct mqfq_entry *e, u64 sectors, bool writes)
{
	struct flow *flow = &m->flows.flows[e->flow];

	if (e->level == MQFQ_FAIR)
		flow_charge_more(flow, mqfq_cost(m, flow, sectors, writes));
}

/* --- dispatch -------------------------------------------------------------------------------------------------- */

/* May a request with this start tag go? */
static inline bool mqfq_is_near(const struct mqfq *m, u64 start)
{
	return !tag_after(start, atomic64_read(&m->vt) + READ_ONCE(m->t));
}

/* A queue waits for tokens no more, or at another level from now on. */
static noinline void mqfq_stop_waiting(struct mqfq *m, struct mqfq_queue *q)
{
	unsigned int level = q->waits;

	q->waits = WAITING_NONE;
	waiting_remove(&m->waiting, q->number, level);
	if (level < MQFQ_FAIR) /* others may have left tokens to it, and wait for the next end */
		mqfq_give_all(m, q->number);
}

/*
 * The queue is too far ahead of virtual time, as far as that knows of it. Return: true if it is blocked until virtual time has come;
 * false: look again.
 */
static noinline bool mqfq_throttle(struct mqfq *m, struct mqfq_queue *q)
{
	unsigned int shift = READ_ONCE(m->span_shift);
	u64 start = q->first->start, span;

	if (q->waits != WAITING_NONE)
		mqfq_stop_waiting(m, q);
	if (mqfq_number(m, q) != q->published)
		mqfq_publish(m, q, mqfq_number(m, q));
	if (mqfq_is_near(m, start))
		return false;
	clear_bit(q->bit, q->runnable);
	smp_mb__after_atomic(); /* who clears the bit in the wheel then sees that the queue is not runnable, and runs it */
	span = wheel_span(atomic64_read(&m->vt), start - READ_ONCE(m->t), shift);
	/* a full barrier, which pairs with those of wheel_turn() and mqfq_set_t() */
	wheel_wait(&m->wheel, q->number, span);
	if (!mqfq_is_near(m, start) && !wheel_has_come(span, atomic64_read(&m->vt), shift) &&
	    shift == READ_ONCE(m->span_shift)) {
		mqfq_account_far(m, q);
		return true;
	}
	wheel_leave(&m->wheel, q->number, span);
	set_bit(q->bit, q->runnable);
	return false;
}

/* Must a level leave free tokens to others? To a more urgent level that waits for one; class idle to all that waits for anything. */
static inline bool mqfq_must_yield(struct mqfq *m, unsigned int level)
{
	if (unlikely(level == MQFQ_IDLE) && mindicator_least(&m->mindicator) != MINDICATOR_NONE)
		return true;
	return unlikely(waiting_rt(&m->waiting) || level > MQFQ_FAIR) &&
	       waiting_level(&m->waiting, level) != level;
}

/* There is no token for the queue's next request. Return: true if it is blocked until it is given one; false: look again. */
static noinline bool mqfq_wait(struct mqfq *m, struct mqfq_queue *q, unsigned int level)
{
	if (level == MQFQ_FAIR)
		mqfq_account_near(m, q);
	if (mqfq_number(m, q) != q->published)
		mqfq_publish(m, q, mqfq_number(m, q));
	clear_bit(q->bit, q->runnable);
	smp_mb__after_atomic(); /* who gives a token then sees that the queue is not runnable, and runs it */
	if (q->waits == WAITING_NONE) {
		q->waits = level;
		waiting_add(&m->waiting, q->number, level);
		smp_mb(); /* pairs with mqfq_give() */
		if (!mqfq_must_yield(m, level) && tokens_steal(&m->tokens)) {
			atomic_inc(&q->given);
			mqfq_stop_waiting(m, q); /* there may be more, so it is to look again */
		}
	}
	if (!atomic_read(&q->given))
		return true;
	set_bit(q->bit, q->runnable);
	return false;
}

/* Tokens that a queue was given and may not use, or has no use for. */
static noinline void mqfq_give_back(struct mqfq *m, struct mqfq_queue *q)
{
	int given;

	/* it may be given them again */
	for (given = atomic_read(&q->given); given-- && tokens_take_one(&q->given);)
		mqfq_give(m, q->number);
}

/* The request with the least start tag of those that are shared fairly, of equal ones the oldest; NULL: there are none. */
static inline struct mqfq_entry *mqfq_first(const struct mqfq_queue *q)
{
	const struct list_head *list = &q->lists[MQFQ_FAIR];
	struct mqfq_entry *first = list_empty(list) ? NULL : mqfq_entry_of(list->next), *late;

	if (likely(!q->late.rb_node))
		return first;
	late = mqfq_entry_of_rb(rb_first(&q->late));
	/* what it is late to is queued still */
	return tag_after(first->start, late->start) ? late : first;
}

/* Takes the first request of a level out of a queue. */
static inline void mqfq_take_out(struct mqfq *m, struct mqfq_queue *q, struct mqfq_entry *e)
{
	unsigned int level = e->level;

	if (level == MQFQ_FAIR) {
		if (likely(q->lists[MQFQ_FAIR].next == mqfq_node(e)))
			mqfq_unlink(mqfq_node(e));
		else
			rb_erase(mqfq_rb_node(e), &q->late);
		q->first = mqfq_first(q);
		if (!q->first)
			q->filled &= ~BIT(MQFQ_FAIR);
		return;
	}
	mqfq_unlink(mqfq_node(e));
	if (level == MQFQ_IDLE)
		mqfq_idle_begins(m, q);
	if (!list_empty(&q->lists[level]))
		return;
	q->filled &= ~BIT(level);
	if (level == MQFQ_IDLE)
		WRITE_ONCE(q->idle_due, 0);
}

/* A token for the next request of a queue. Return: false: there is none at hand. */
static inline bool mqfq_take_token(struct mqfq *m, struct mqfq_queue *q, unsigned int level)
{
	if (unlikely(mqfq_must_yield(m, level))) {
		mqfq_give_back(m, q);
		return false;
	}
	while (unlikely(atomic_read(&q->given)) && tokens_take_one(&q->given))
		if (!tokens_drop(&m->tokens))
			return true;
	return likely(q->waits == WAITING_NONE) && tokens_take(&m->tokens, q->number);
}

/* Must what is too far ahead go all the same? */
static noinline bool mqfq_goes_far(struct mqfq *m)
{
	if (!mqfq_draining(m))
		return false;
	mqfq_break(m);
	return true;
}

/* The next request of a queue that may go; NULL: none may, and the queue is empty or blocked. */
static inline struct mqfq_entry *mqfq_next(struct mqfq *m, struct mqfq_queue *q)
{
	unsigned int level, urgency;

	while (q->filled) {
		level = __ffs(q->filled);
		urgency = unlikely(q->leaves) ? MQFQ_URGENT : level;
		if (mqfq_idle_is_due(m, q)) {
			level = MQFQ_IDLE;
			urgency = MQFQ_URGENT;
		}
		if (unlikely(q->waits != WAITING_NONE && q->waits != urgency))
			mqfq_stop_waiting(m, q);
		if (likely(urgency == MQFQ_FAIR) && unlikely(!mqfq_is_near(m, q->first->start)) &&
		    !mqfq_goes_far(m)) {
			if (mqfq_throttle(m, q))
				return NULL;
			continue;
		}
		if (mqfq_take_token(m, q, urgency))
			return level == MQFQ_FAIR ? q->first : mqfq_entry_of(q->lists[level].next);
		if (mqfq_wait(m, q, urgency))
			return NULL;
	}
	clear_bit(q->bit, q->runnable);
	smp_mb__after_atomic(); /* as in mqfq_wait() */
	return NULL;
}

/* The next request of a queue, now in flight; NULL: it is empty or blocked, and not runnable any more. */
static inline struct mqfq_entry *mqfq_dispatch_from(struct mqfq *m, struct mqfq_queue *q,
						    void (*picked)(struct mqfq_entry *e))
{
	struct mqfq_entry *e;

	spin_lock(&q->lock);
	e = mqfq_next(m, q);
	if (e) {
		picked(e);
		mqfq_take_out(m, q, e);
		e->state = MQFQ_INFLIGHT;
		if (unlikely(e->flow != q->serving))
			mqfq_tell(m, q, e->flow);
		WRITE_ONCE(q->dispatched, q->dispatched + 1);
		WRITE_ONCE(q->sectors[e->writes], q->sectors[e->writes] + mqfq_sectors(e));
	}
	if (q->published != MINDICATOR_NONE && q->published != mqfq_number(m, q))
		mqfq_publish(m, q, mqfq_number(m, q));
	if (unlikely(q->waits != WAITING_NONE) && !q->filled)
		mqfq_stop_waiting(m, q);
	if (unlikely(atomic_read(&q->given)) && q->waits == WAITING_NONE)
		mqfq_give_back(m, q);
	spin_unlock(&q->lock);
	return e;
}

/* Is a dispatch of a hardware queue worth while? Any context; no lock. */
static inline bool mqfq_has_work(const struct mqfq_hctx *h)
{
	unsigned int word = 0;

	do {
		if (READ_ONCE(h->runnable[word]))
			return true;
	} while (unlikely(++word < BITS_TO_LONGS(h->count)));
	return false;
}

/* A queue of a hardware queue that is worth a dispatch: the first one from @near on, then from the beginning; NULL: none is. */
static inline struct mqfq_queue *mqfq_runnable(const struct mqfq *m, const struct mqfq_hctx *h,
					       unsigned int near)
{
	struct mqfq_queue *q = &m->queues[near];
	unsigned int bit;

	if (likely(test_bit(q->bit, q->runnable)))
		return q;
	bit = waiting_in(h->runnable, 0, h->count, q->bit);
	return bit == WAITING_NONE ? NULL : &m->queues[h->queues[bit]];
}

/**
 * mqfq_dispatch() - pick the next request of a hardware queue for the drive
 * @m: the drive's scheduler
 * @h: the hardware queue
 * @near: number of the queue, of its, to begin with
 * @picked: called with the request under a lock, before it leaves
 *
 * Process context. Return: a request, now in flight, or NULL: all queues are empty or blocked.
 */
static inline struct mqfq_entry *mqfq_dispatch(struct mqfq *m, const struct mqfq_hctx *h,
					       unsigned int near,
					       void (*picked)(struct mqfq_entry *e))
{
	struct mqfq_entry *e;
	struct mqfq_queue *q;

	while ((q = mqfq_runnable(m, h, near))) {
		e = mqfq_dispatch_from(m, q, picked);
		if (e)
			return e;
	}
	if (unlikely(READ_ONCE(m->accounts_due)))
		mqfq_account(m);
	return NULL;
}

/* --- scheduler tags ---------------------------------------------------------------------------------------------- */

/* Does anything wait, for virtual time or for a token? Any context. */
static inline bool mqfq_any_waits(const struct mqfq *m)
{
	return waiting_any(&m->waiting) || atomic_read(&m->wheel.waiting);
}

/**
 * mqfq_tags() - scheduler tags that may be taken when a task without real-time class gets one
 * @m: the drive's scheduler
 * @tags: scheduler tags of a hardware queue
 * @level: MQFQ_FAIR or MQFQ_IDLE
 * @key: of the task's flow
 *
 * A task waits for a tag before its request exists, and no scheduler orders those that wait. So the last eighth of the tags is kept for
 * real-time tasks, and the one before for flows that need not wait for virtual time.
 *
 * Any context. Return: 1 to @tags.
 */
static inline unsigned int mqfq_tags(const struct mqfq *m, unsigned int tags, unsigned int level,
				     u64 key)
{
	unsigned int place = flows_look_up(&m->flows, key);
	bool is_ahead = level == MQFQ_IDLE;

	if (place != FLOWS_NONE)
		is_ahead |= !mqfq_is_near(m, atomic64_read(&m->flows.flows[place].end));
	return max(tags - DIV_ROUND_UP(is_ahead ? tags : tags / 2, 4), 1U);
}

/* --- the end ---------------------------------------------------------------------------------------------------- */

/* A request left the drive. Any context. */
static inline void mqfq_end(struct mqfq *m, struct mqfq_entry *e)
{
	if (unlikely(atomic_read(&m->wheel.waiting)) && !waiting_any(&m->waiting))
		atomic64_inc(&m->queues[e->queue].idle);
	mqfq_give(m, e->queue);
}

/* A request is freed, or the driver returns it and it @comes_back. Any context; only one in flight counts. */
static inline void mqfq_finish(struct mqfq *m, struct mqfq_entry *e, bool comes_back)
{
	if (e->state != MQFQ_INFLIGHT)
		return;
	e->state = comes_back ? MQFQ_RETURNED : MQFQ_NEW;
	mqfq_end(m, e);
}

/* --- CPUs that go ----------------------------------------------------------------------------------------------- */

/**
 * mqfq_leave() - the last CPU of a hardware queue is about to go, or one comes back
 * @m: the drive's scheduler
 * @hctx: number of the hardware queue
 * @leaves: it goes
 *
 * It goes when nothing is left on its hardware queue: what is there must not wait for as long as others have what goes first. Process context.
 */
static void mqfq_leave(struct mqfq *m, unsigned int hctx, bool leaves)
{
	const struct mqfq_hctx *h = &m->hctxs[hctx];
	struct mqfq_queue *q;
	unsigned int i;

	for (i = 0; i < h->count; i++) {
		q = &m->queues[h->queues[i]];
		spin_lock(&q->lock);
		q->leaves = leaves;
		spin_unlock(&q->lock);
		if (leaves)
			mqfq_kick(m, q->number);
	}
}

/* --- knobs and set-up ------------------------------------------------------------------------------------------ */

/**
 * mqfq_configure() - set a knob
 * @m: the drive's scheduler
 * @knob: which
 * @value: new value
 *
 * Process context; one caller at a time. Return: 0, or -ERANGE or -EINVAL with nothing changed.
 */
static int mqfq_configure(struct mqfq *m, enum mqfq_knob knob, u64 value)
{
	int err = knob_check(&mqfq_knob_infos[knob], value);

	if (err)
		return err;
	spin_lock(&m->lock);
	WRITE_ONCE(m->knobs[knob], value);
	if (knob == MQFQ_KNOB_write_cost_pct)
		mqfq_break(m);
	if (knob == MQFQ_KNOB_t_kib && value == KNOB_AUTO) {
		search_begin(&m->t_search, &mqfq_t_limits);
		value = search_value(&m->t_search);
	}
	if (knob == MQFQ_KNOB_d && value == KNOB_AUTO) {
		search_begin(&m->d_search, &mqfq_d_limits);
		value = search_value(&m->d_search);
	}
	if (knob == MQFQ_KNOB_write_cost_pct) {
		write_cost_begin(&m->write_cost, value == KNOB_AUTO ? m->write_cost.pct : value);
		WRITE_ONCE(m->write_cost_pct, m->write_cost.pct);
	}
	if (knob == MQFQ_KNOB_t_kib)
		mqfq_set_t(m, value);
	if (knob == MQFQ_KNOB_d)
		mqfq_set_d(m, value);
	spin_unlock(&m->lock);
	return 0;
}

/* Groups of nodes of one number become a node; a single node stays as it is. Return: the number of nodes that are left on top. */
static inline unsigned int mqfq_group(struct tokens *t, unsigned int *top, unsigned int count,
				      const struct mqfq_place *places, unsigned int group)
{
	unsigned int i, child, groups = 0, begin = 0;
	struct token_node *node;

	for (i = 1; i <= count; i++) {
		if (i < count && (group == MQFQ_GROUPS ||
				  places[t->nodes[top[i]].first].group[group] ==
					  places[t->nodes[top[begin]].first].group[group]))
			continue;
		child = top[begin];
		if (i - begin > 1) {
			node = &t->nodes[t->count];
			node->first = t->nodes[top[begin]].first;
			node->end = t->nodes[top[i - 1]].end;
			for (child = begin; child < i; child++)
				t->nodes[top[child]].parent = t->count;
			child = t->count++;
		}
		top[groups++] = child;
		begin = i;
	}
	return groups;
}

/* Takes whole cache lines from the front of @memory. */
static inline void *mqfq_carve(uintptr_t *memory, size_t bytes)
{
	uintptr_t from = *memory;

	*memory += ALIGN(bytes, SMP_CACHE_BYTES);
	return (void *)from;
}

/* Lays out what a drive has of each kind, in @memory. Return: bytes of it. */
static inline size_t mqfq_lay_out(struct mqfq *m, void *memory)
{
	unsigned int queues = m->queue_count, words = BITS_TO_LONGS(queues);
	uintptr_t at = (uintptr_t)memory;

	m->hctxs = mqfq_carve(&at, m->hctx_count * sizeof(*m->hctxs));
	m->runnable = mqfq_carve(&at, m->hctx_count * SMP_CACHE_BYTES + queues / 8);
	m->numbers = mqfq_carve(&at, queues * sizeof(*m->numbers));
	m->queues = mqfq_carve(&at, queues * sizeof(*m->queues));
	m->tokens.nodes = mqfq_carve(&at, 2 * queues * sizeof(*m->tokens.nodes));
	m->waiting.maps = mqfq_carve(&at, WAITING_LEVELS * words * sizeof(long));
	m->waiting.words = words;
	m->wheel.maps = mqfq_carve(&at, WHEEL_BUCKETS * words * sizeof(long));
	m->wheel.words = words;
	m->mindicator.words[0] = mqfq_carve(&at, mindicator_size(queues) * sizeof(u64));
	m->flows.flows = mqfq_carve(&at, FLOWS_COUNT * sizeof(struct flow));
	m->accounts = mqfq_carve(&at, FLOWS_COUNT * sizeof(struct account));
	return at - (uintptr_t)memory;
}

/* Bytes that mqfq_init() needs behind struct mqfq. */
static inline size_t mqfq_size(unsigned int hctxs, unsigned int queues)
{
	struct mqfq m = { .hctx_count = hctxs, .queue_count = queues };

	return mqfq_lay_out(&m, NULL);
}

/* Each gets its part of the maps, which are cache lines of their own, and of the numbers. */
static inline void mqfq_init_hctxs(struct mqfq *m, const struct mqfq_place *places)
{
	uintptr_t map = (uintptr_t)m->runnable;
	u16 *numbers = m->numbers;
	struct mqfq_hctx *h;
	unsigned int i;

	for (i = 0; i < m->queue_count; i++)
		m->hctxs[places[i].hctx].count++;
	for (i = 0; i < m->hctx_count; i++) {
		h = &m->hctxs[i];
		h->runnable = mqfq_carve(&map, BITS_TO_LONGS(h->count) * sizeof(long));
		h->queues = numbers;
		numbers += h->count;
		h->count = 0; /* as none is there yet */
	}
}

static inline void mqfq_init_queue(struct mqfq *m, unsigned int number, unsigned int hctx)
{
	struct mqfq_queue *q = &m->queues[number];
	struct mqfq_hctx *h = &m->hctxs[hctx];
	unsigned int i;

	spin_lock_init(&q->lock);
	q->number = number;
	q->hctx = hctx;
	q->bit = h->count++;
	h->queues[q->bit] = number;
	q->runnable = h->runnable;
	q->published = MINDICATOR_NONE;
	q->waits = WAITING_NONE;
	q->serving = q->throttled = FLOWS_NONE;
	for (i = 0; i < WAITING_LEVELS; i++)
		INIT_LIST_HEAD(&q->lists[i]);
}

/* The tree of tokens: groups in groups, as far as they differ. */
static inline void mqfq_init_tree(struct mqfq *m, const struct mqfq_place *places,
				  unsigned int *top)
{
	struct tokens *t = &m->tokens;
	unsigned int i, group, count = m->queue_count;

	t->count = count;
	for (i = 0; i < count; i++) {
		t->nodes[i].first = i;
		t->nodes[i].end = i + 1;
		top[i] = i;
	}
	for (group = 0; group <= MQFQ_GROUPS; group++)
		count = mqfq_group(t, top, count, places, group);
	t->nodes[t->count - 1].parent = t->count - 1;
	atomic_set(&t->nodes[t->count - 1].tokens, m->d);
	tokens_share(t, m->d);
}

/**
 * mqfq_init() - prepare a zeroed struct mqfq
 * @m: the drive's scheduler
 * @memory: mqfq_size() bytes, zeroed, aligned to a cache line
 * @hctxs: hardware queues
 * @places: of the queues, sorted by group, the largest group first
 * @queues: number of @places
 * @scratch: @queues numbers, for the time of the call
 */
static void mqfq_init(struct mqfq *m, void *memory, unsigned int hctxs,
		      const struct mqfq_place *places, unsigned int queues, unsigned int *scratch)
{
	unsigned int i;

	for (i = 0; i < MQFQ_KNOB_COUNT; i++)
		m->knobs[i] = mqfq_knob_infos[i].initial;
	m->d = m->knobs[MQFQ_KNOB_d];
	m->write_cost_pct = m->knobs[MQFQ_KNOB_write_cost_pct];
	write_cost_begin(&m->write_cost, m->write_cost_pct);
	spin_lock_init(&m->lock);
	spin_lock_init(&m->accounts_lock);
	m->hctx_count = hctxs;
	m->queue_count = queues;
	mqfq_lay_out(m, memory);
	mindicator_init(&m->mindicator, queues, m->mindicator.words[0]);
	flows_init(&m->flows, m->flows.flows);
	shares_init(&m->shares);
	mqfq_init_hctxs(m, places);
	for (i = 0; i < queues; i++)
		mqfq_init_queue(m, i, places[i].hctx);
	mqfq_init_tree(m, places, scratch);
	mqfq_set_t(m, m->knobs[MQFQ_KNOB_t_kib]);
}

/* Requests in flight: tokens that are not in the tree, nor given to a queue. Exact when nothing else is running. */
static int mqfq_inflight(const struct mqfq *m)
{
	int inflight = m->d + atomic_read(&m->tokens.excess);
	unsigned int i;

	for (i = 0; i < m->tokens.count; i++)
		inflight -= atomic_read(&m->tokens.nodes[i].tokens);
	for (i = 0; i < m->queue_count; i++)
		inflight -= atomic_read(&m->queues[i].given);
	return inflight;
}

/* Is nothing left? No call is running, and none will come. */
static bool mqfq_deinit(struct mqfq *m)
{
	unsigned int i, filled = 0;

	for (i = 0; i < m->queue_count; i++)
		filled |= m->queues[i].filled;
	return !filled && !waiting_any(&m->waiting) && !mqfq_inflight(m);
}
