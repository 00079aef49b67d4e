// SPDX-License-Identifier: GPL-2.0-only
/* MQFQ: see mqfq.h. The code that binds it to an environment includes this file, so that the compiler sees both at once. */
#include <linux/bitops.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/math64.h>

#include "mqfq.h"

static const struct knob mqfq_knob_infos[MQFQ_KNOB_COUNT] = { MQFQ_KNOBS(KNOB_INFO) };

/* T is at least 2 to this power spans, unless the span is the shortest possible. */
#define MQFQ_SPANS_SHIFT 3
/* Shortest span: keeps published numbers even, so that none equals MINDICATOR_NONE. */
#define MQFQ_SPAN_SHIFT_MIN (MINDICATOR_VERSION_BITS + 1)
/* Least number of sectors that a request is charged for; applies to one that moves no data. */
#define MQFQ_SECTORS_MIN 1

#include "mqfq_accounts.c"

/* --- virtual time ---------------------------------------------------------------------------------------------- */

/* Rounds a tag down to a span, the resolution of virtual time. */
static inline u64 mqfq_round(const struct mqfq *m, u64 tag)
{
	unsigned int shift = READ_ONCE(m->span_shift); /* read once: it may change */

	return tag >> shift << shift;
}

static void mqfq_kick(struct mqfq *m, unsigned int number)
{
	struct mqfq_queue *q = &m->queues[number];

	if (!test_and_set_bit(q->bit, q->runnable))
		mqfq_run(m, q->hctx);
}

/* For wheel_turn() and wheel_empty(). */
static void mqfq_kick_throttled(void *m, unsigned int number)
{
	mqfq_kick(m, number);
}

/*
 * A queue that waits at the most urgent level, for a token that queue @number frees; WAITING_NONE: none waits any more. Of those with fairly
 * shared requests it is the nearest: none of them gets far ahead of the others. Of those at another level it is the next by number, so that
 * tokens go round: the nearest one might keep them for ever.
 */
static noinline unsigned int mqfq_find_waiter(const struct mqfq *m, unsigned int number)
{
	unsigned int level = waiting_level(&m->waiting, WAITING_LEVELS);

	/* class idle gets no token while fairly shared requests wait */
	if (level == WAITING_LEVELS ||
	    (level == MQFQ_IDLE && mindicator_least(&m->mindicator) != MINDICATOR_NONE))
		return WAITING_NONE;
	if (level != MQFQ_FAIR)
		return waiting_in(waiting_map(&m->waiting, level), 0, m->queue_count,
				  (number + 1) % m->queue_count);
	return waiting_nearest(&m->waiting, &m->tokens, number, level);
}

/* The queue that gets a token which queue @number frees; WAITING_NONE: no queue waits for one. */
static inline unsigned int mqfq_next_waiter(const struct mqfq *m, unsigned int number)
{
	return likely(!waiting_any(&m->waiting)) ? WAITING_NONE : mqfq_find_waiter(m, number);
}

/*
 * Gives a token to a waiting queue. An urgent one needs no more than it has urgent requests. Others must not wait for its CPU to say so, as the
 * drive would run out of work.
 */
static inline void mqfq_give_to(struct mqfq *m, struct mqfq_queue *q)
{
	unsigned int given = atomic_inc_return(&q->given), level = READ_ONCE(q->waits);

	if (unlikely(level < MQFQ_FAIR) && given >= max(READ_ONCE(q->urgent), 1U) &&
	    !READ_ONCE(q->leaves))
		waiting_remove(&m->waiting, q->number, level);
	mqfq_kick(m, q->number);
}

/* Frees a token of queue @number: gives it to a waiting queue, or puts it into the tree. Any context. */
static __always_inline void mqfq_give(struct mqfq *m, unsigned int number)
{
	unsigned int to;

	do {
		if (tokens_drop(&m->tokens))
			return;
		to = mqfq_next_waiter(m, number);
		if (to != WAITING_NONE) {
			mqfq_give_to(m, &m->queues[to]);
			return;
		}
		tokens_put(&m->tokens, number);
		smp_mb(); /* pairs with the barrier after waiting_add() */
	} while (unlikely(mqfq_next_waiter(m, number) != WAITING_NONE) && tokens_steal(&m->tokens));
}

/* Gives tokens in the tree to waiting queues, after what they had to yield to is gone. */
static noinline void mqfq_give_all(struct mqfq *m, unsigned int number)
{
	smp_mb(); /* pairs with the barrier after waiting_add() */
	while (mqfq_next_waiter(m, number) != WAITING_NONE && tokens_steal(&m->tokens))
		mqfq_give(m, number);
}

/* Publishes a queue's first tag, @number, or MINDICATOR_NONE, and advances virtual time to the least of all. */
static noinline void mqfq_publish(struct mqfq *m, struct mqfq_queue *q, u64 number)
{
	s64 vt = atomic64_read(&m->vt);
	u64 least;

	mqfq_account_near(m, q);
	q->published = number;
	least = mindicator_set(&m->mindicator, q->number, number, vt >> MINDICATOR_VERSION_BITS);
	if (least == MINDICATOR_NONE) {
		if (unlikely(waiting_any(&m->waiting))) /* class idle need not yield any more */
			mqfq_give_all(m, q->number);
		return;
	}
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

	m->d = d;
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
 * One search runs at a time, and a search does not start while another one runs. The order is D, then T while D rests, then the cost of
 * a write while both rest. A cost that was not found yet goes first, as it takes only seconds; the others' measurements then start again.
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
	mqfq_search(m);
	spin_unlock(&m->lock);
	WRITE_ONCE(m->accounts_due, true);
}

/* --- insertion ------------------------------------------------------------------------------------------------- */

/*
 * Sets the price that a flow pays for the rest of a period, once, as its weight is then added to those that compete. A CPU with another
 * request of the flow waits for that. @where: returns the groups of this entry's flow. Return: true if its place was another flow's
 */
static noinline bool mqfq_price(struct mqfq *m, struct mqfq_entry *e,
				void (*where)(struct mqfq_entry *e, struct share_path *path))
{
	struct flow *flow = &m->flows.flows[e->flow];
	struct account *a = &m->accounts[e->flow];
	bool competes = tag_after(atomic64_read(&flow->end), atomic64_read(&m->vt)), is_new;
	struct share_path path;
	unsigned int period;
	u64 price, key;

	where(e, &path);
	spin_lock(&m->shares.lock);
	/* under the lock, so that groups never see an earlier one after a later one */
	period = mqfq_period(m);
	key = READ_ONCE(flow->key);
	is_new = key != a->key;
	if (is_new || mqfq_is_later(period, flow->period)) {
		price = shares_price(&m->shares, &path, period, competes);
		if (price != flow->price)
			flow_break(flow);
		WRITE_ONCE(flow->price, price);
		smp_store_release(&flow->period, period); /* a CPU that sees it sees the price */
		WRITE_ONCE(a->key, key);
	}
	spin_unlock(&m->shares.lock);
	return is_new;
}

/* A flow inserts its first request, or the first one of a period. */
static noinline void mqfq_weigh(struct mqfq *m, struct mqfq_entry *e, unsigned int period,
				void (*where)(struct mqfq_entry *e, struct share_path *path))
{
	if (e->flow == FLOWS_SHARED)
		WRITE_ONCE(m->flows.flows[e->flow].period, period);
	else if (mqfq_price(m, e, where))
		mqfq_account_anew(m, e->flow);
	mqfq_tick(m, period);
	set_bit(e->flow, m->active);
}

/* Cost of a number of sectors to a flow, in units of tags. */
static inline u64 mqfq_cost(const struct mqfq *m, const struct flow *flow, u64 sectors, bool writes)
{
	u64 cost = max_t(u64, sectors, MQFQ_SECTORS_MIN) * READ_ONCE(flow->price);

	return writes ? div_u64(cost * READ_ONCE(m->write_cost_pct), 100) : cost;
}

/**
 * mqfq_prepare() - before mqfq_insert(): charge a request to its flow
 * @m: the drive's scheduler
 * @e: the request, in state MQFQ_NEW or MQFQ_RETURNED
 * @level: MQFQ_...; ignored for a returned request, which goes before all others
 * @key: identity of its flow; not 0
 * @where: returns the groups that the flow is in
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
	u64 start;

	/* a returned request was charged before, and may have no start tag */
	e->level = unlikely(e->state == MQFQ_RETURNED) ? MQFQ_URGENT : level;
	e->writes = writes;
	if (likely(e->level == MQFQ_FAIR)) {
		e->flow = flows_find(&m->flows, key, atomic64_read(&m->vt), &is_new);
		flow = &m->flows.flows[e->flow];
		if (unlikely(is_new || smp_load_acquire(&flow->period) != period))
			mqfq_weigh(m, e, period, where);
		sectors = mqfq_sectors(e);
		start = flow_charge(flow, mqfq_cost(m, flow, sectors, writes), &m->vt);
		WRITE_ONCE(e->start, start);
		if (unlikely(sectors - 1 >= READ_ONCE(flow->largest))) /* also if it is 0 */
			mqfq_account_size(flow, sectors);
	} else {
		mqfq_tick(m, period);
		e->flow = FLOWS_NONE;
	}
	e->state = MQFQ_QUEUED;
}

/* list_add_tail() and list_del_init() without the checks of CONFIG_LIST_HARDENED, which take longer than the rest of the operation. */
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

/* Inserts a request that comes after one with a later start tag. */
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
		WRITE_ONCE(q->first, e);
		WRITE_ONCE(q->filled, q->filled | BIT(MQFQ_FAIR));
	} else if (unlikely(tag_after(mqfq_entry_of(list->prev)->start, e->start))) {
		mqfq_add_late(q, e);
		if (tag_after(q->first->start, e->start))
			WRITE_ONCE(q->first, e);
		return;
	}
	mqfq_append(mqfq_node(e), list);
}

/**
 * struct mqfq_insertion - insertion of some requests into a queue
 * @q: the queue; its lock is held
 * @filled: @q->filled before the insertion
 * @first: @q->first before the insertion
 */
struct mqfq_insertion {
	struct mqfq_queue *q;
	unsigned int filled;
	struct mqfq_entry *first;
};

/* Takes the lock of @q, the queue of the hardware queue and CPU that requests were submitted to. Process context. */
static inline void mqfq_insert_begin(struct mqfq_insertion *in, struct mqfq_queue *q)
	__acquires(&q->lock)
{
	spin_lock(&q->lock);
	in->q = q;
	in->filled = q->filled;
	in->first = q->first;
}

/* Queues a request that mqfq_prepare() was called for, and that is in no list. */
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
	if (level < MQFQ_FAIR)
		WRITE_ONCE(q->urgent, q->urgent + 1);
	WRITE_ONCE(q->filled, q->filled | BIT(level));
	mqfq_append(mqfq_node(e), &q->lists[level]);
}

/* Ends an insertion and releases the lock. The caller then runs the hardware queue. */
static inline void mqfq_insert_end(struct mqfq *m, struct mqfq_insertion *in)
	__releases(&in->q->lock)
{
	struct mqfq_queue *q = in->q;

	if (unlikely(q->filled & ~in->filled & BIT(MQFQ_IDLE)))
		mqfq_idle_begins(m, q);
	if (q->published != MINDICATOR_NONE && q->first != in->first &&
	    mqfq_number(m, q) != q->published)
		mqfq_publish(m, q, mqfq_number(m, q));
	/* a blocked queue stays blocked, unless another request is first now */
	if (!in->filled || q->first != in->first || __ffs(q->filled) != __ffs(in->filled))
		set_bit(q->bit, q->runnable);
	spin_unlock(&q->lock);
}

/* --- merging --------------------------------------------------------------------------------------------------- */

/* A bio may join one of this many latest requests. */
#define MQFQ_LATEST 8

/* Begins the search for a queued request that a bio may join. No request leaves the queue until mqfq_merge_end(). Process context. */
static inline void mqfq_merge_begin(struct mqfq_queue *q) __acquires(&q->lock)
{
	spin_lock(&q->lock);
}

static inline void mqfq_merge_end(struct mqfq_queue *q) __releases(&q->lock)
{
	spin_unlock(&q->lock);
}

/* The fairly shared requests with the latest start tags. Return: their number, at most MQFQ_LATEST. */
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
 * @sectors: sectors that the bio moves
 * @writes: it is a write
 *
 * The request and those of the flow queued behind it keep their start tags. Requests inserted later pay for the bio. Until they go, the
 * flow may be ahead by the cost of the bio.
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

/* A queue no longer waits for tokens at its present level. */
static noinline void mqfq_stop_waiting(struct mqfq *m, struct mqfq_queue *q)
{
	unsigned int level = q->waits;

	WRITE_ONCE(q->waits, WAITING_NONE);
	waiting_remove(&m->waiting, q->number, level);
	if (level < MQFQ_FAIR) /* tokens that others left to it are for them now */
		mqfq_give_all(m, q->number);
}

/*
 * The queue's first start tag is more than T ahead of virtual time, which may not know of it yet. Return: true if the queue is blocked
 * until virtual time advances; false: the caller checks again.
 */
static noinline bool mqfq_throttle(struct mqfq *m, struct mqfq_queue *q)
{
	unsigned int shift = READ_ONCE(m->span_shift);
	u64 start = q->first->start, t = READ_ONCE(m->t), span;

	if (q->waits != WAITING_NONE)
		mqfq_stop_waiting(m, q);
	if (mqfq_number(m, q) != q->published)
		mqfq_publish(m, q, mqfq_number(m, q));
	if (mqfq_is_near(m, start))
		return false;
	clear_bit(q->bit, q->runnable);
	smp_mb__after_atomic(); /* the CPU that clears the bit in the wheel then sees that the queue is not runnable, and runs it */
	span = wheel_span(atomic64_read(&m->vt), start - t, shift);
	/* a full barrier, pairs with wheel_turn() and mqfq_set_t() */
	wheel_wait(&m->wheel, q->number, span);
	if (!mqfq_is_near(m, start) && !wheel_has_come(span, atomic64_read(&m->vt), shift) &&
	    shift == READ_ONCE(m->span_shift) && t == READ_ONCE(m->t)) {
		mqfq_account_far(m, q);
		return true;
	}
	wheel_leave(&m->wheel, q->number, span);
	set_bit(q->bit, q->runnable);
	return false;
}

/* Must a level leave free tokens to a more urgent level that waits for one? Class idle leaves them to every waiting request. */
static inline bool mqfq_must_yield(struct mqfq *m, unsigned int level)
{
	if (unlikely(level == MQFQ_IDLE) && mindicator_least(&m->mindicator) != MINDICATOR_NONE)
		return true;
	return unlikely(waiting_rt(&m->waiting) || level > MQFQ_FAIR) &&
	       waiting_level(&m->waiting, level) != level;
}

/* There is no token for the queue's next request. Return: true if it is blocked until it is given one; false: the caller checks again. */
static noinline bool mqfq_wait(struct mqfq *m, struct mqfq_queue *q, unsigned int level)
{
	if (level == MQFQ_FAIR)
		mqfq_account_near(m, q);
	if (mqfq_number(m, q) != q->published)
		mqfq_publish(m, q, mqfq_number(m, q));
	clear_bit(q->bit, q->runnable);
	smp_mb__after_atomic(); /* the CPU that gives a token then sees that the queue is not runnable, and runs it */
	if (q->waits == WAITING_NONE || !waiting_has(&m->waiting, q->number, level)) {
		WRITE_ONCE(q->waits, level);
		waiting_add(&m->waiting, q->number, level);
		smp_mb(); /* pairs with mqfq_give() */
		if (!mqfq_must_yield(m, level) && tokens_steal(&m->tokens)) {
			atomic_inc(&q->given);
			mqfq_stop_waiting(m, q); /* there may be more tokens, so check again */
		}
	}
	if (!atomic_read(&q->given))
		return true;
	set_bit(q->bit, q->runnable);
	return false;
}

/* Frees the tokens that a queue was given and may not or need not use. */
static noinline void mqfq_give_back(struct mqfq *m, struct mqfq_queue *q)
{
	int given;

	/* mqfq_give() may give them to this queue again: do not loop until none is left */
	for (given = atomic_read(&q->given); given-- && tokens_take_one(&q->given);)
		mqfq_give(m, q->number);
}

/* The fairly shared request with the least start tag, the oldest of equal ones; NULL: there is none. */
static inline struct mqfq_entry *mqfq_first(const struct mqfq_queue *q)
{
	const struct list_head *list = &q->lists[MQFQ_FAIR];
	struct mqfq_entry *first = list_empty(list) ? NULL : mqfq_entry_of(list->next), *late;

	if (likely(!q->late.rb_node))
		return first;
	late = mqfq_entry_of_rb(rb_first(&q->late));
	/* the list is not empty: a request with a later start tag than @late is still queued */
	return tag_after(first->start, late->start) ? late : first;
}

/* Takes the first request of a level out of a queue. */
static inline void mqfq_take_out(struct mqfq *m, struct mqfq_queue *q, struct mqfq_entry *e)
{
	struct list_head *list = &q->lists[MQFQ_FAIR], *node = mqfq_node(e);
	unsigned int level = e->level;

	if (level == MQFQ_FAIR) {
		if (likely(list->next == node)) { /* so what is before it is known */
			list->next = node->next;
			node->next->prev = list;
			INIT_LIST_HEAD(node);
		} else {
			rb_erase(mqfq_rb_node(e), &q->late);
		}
		WRITE_ONCE(q->first, mqfq_first(q));
		if (!q->first)
			WRITE_ONCE(q->filled, q->filled & ~BIT(MQFQ_FAIR));
		return;
	}
	mqfq_unlink(mqfq_node(e));
	if (level < MQFQ_FAIR)
		WRITE_ONCE(q->urgent, q->urgent - 1);
	if (level == MQFQ_IDLE)
		mqfq_idle_begins(m, q);
	if (!list_empty(&q->lists[level]))
		return;
	WRITE_ONCE(q->filled, q->filled & ~BIT(level));
	if (level == MQFQ_IDLE)
		WRITE_ONCE(q->idle_due, 0);
}

/* Takes a token for the next request of a queue. Return: false if it must wait for one. */
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

/* How urgent is a queue's next request? Below all levels if there is none. Any context; no lock, so it may change at any time. */
static inline unsigned int mqfq_urgency(const struct mqfq *m, const struct mqfq_queue *q)
{
	unsigned int filled = READ_ONCE(q->filled);

	if (!filled)
		return WAITING_LEVELS;
	return READ_ONCE(q->leaves) || mqfq_idle_is_due(m, q) ? MQFQ_URGENT : __ffs(filled);
}

/* The start tag of a queue's first fairly shared request. No lock: it may just have gone, but its memory stays. */
static inline u64 mqfq_first_start(const struct mqfq *m, const struct mqfq_queue *q)
{
	const struct mqfq_entry *first = READ_ONCE(q->first);

	return first ? READ_ONCE(first->start) : (u64)atomic64_read(&m->vt);
}

/* Does a queue's next request go before that of another one? */
static inline bool mqfq_precedes(const struct mqfq *m, const struct mqfq_queue *q,
				 const struct mqfq_queue *other)
{
	unsigned int level = mqfq_urgency(m, q), others = mqfq_urgency(m, other);

	if (level == MQFQ_FAIR && others == MQFQ_FAIR)
		return tag_after(mqfq_first_start(m, other), mqfq_first_start(m, q));
	return level < others;
}

/* Of the runnable queues with bits from @from to @end - 1 and @best, which may be NULL: the one that precedes the others. */
static inline struct mqfq_queue *mqfq_first_of(const struct mqfq *m, const struct mqfq_hctx *h,
					       unsigned int from, unsigned int end,
					       struct mqfq_queue *best)
{
	struct mqfq_queue *q;

	while ((from = waiting_find(h->runnable, from, end)) < end) {
		q = &m->queues[h->queues[from++]];
		if (!best || mqfq_precedes(m, q, best))
			best = q;
	}
	return best;
}

/* Is a more urgent queue of the same hardware queue runnable? */
static noinline bool mqfq_is_preceded(const struct mqfq *m, const struct mqfq_queue *q)
{
	const struct mqfq_hctx *h = &m->hctxs[q->hctx];
	const struct mqfq_queue *first = mqfq_first_of(m, h, 0, h->count, NULL);

	return first && mqfq_urgency(m, first) < mqfq_urgency(m, q);
}

/* The next request of a queue that may go, with a token taken for it; NULL: the queue is empty or blocked, or another one may go first. */
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
		if (unlikely(q->waits != WAITING_NONE && q->waits != urgency)) {
			mqfq_stop_waiting(m, q);
			/* it is no longer blocked, and nor may a more urgent queue be: the dispatcher chooses again */
			set_bit(q->bit, q->runnable);
			return NULL;
		}
		if (likely(urgency == MQFQ_FAIR) && unlikely(!mqfq_is_near(m, q->first->start))) {
			if (mqfq_throttle(m, q))
				return NULL;
			continue;
		}
		if (mqfq_take_token(m, q, urgency))
			return level == MQFQ_FAIR ? q->first : mqfq_entry_of(q->lists[level].next);
		/* a token that it gave back may have gone to a more urgent queue */
		if (mqfq_wait(m, q, urgency) || mqfq_is_preceded(m, q))
			return NULL;
	}
	clear_bit(q->bit, q->runnable);
	smp_mb__after_atomic(); /* the CPU that gives a token then sees that the queue is not runnable */
	return NULL;
}

/* Dispatches the next request of a queue; NULL: see mqfq_next(). A queue that is empty or blocked is no longer runnable. */
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

/* Has a hardware queue a runnable queue? Any context; no lock. */
static inline bool mqfq_has_work(const struct mqfq_hctx *h)
{
	unsigned int word = 0;

	do {
		if (READ_ONCE(h->runnable[word]))
			return true;
	} while (unlikely(++word < BITS_TO_LONGS(h->count)));
	return false;
}

/*
 * Several queues of a hardware queue are runnable, and the drive may have room for one request at a time. Virtual time and tokens do not choose
 * among them, as none has been blocked. So the most urgent level goes first, in turn; of queues with fairly shared requests, the one with the
 * least start tag, or the nearest if it is at most T ahead of that.
 */
static noinline struct mqfq_queue *mqfq_choose(const struct mqfq *m, struct mqfq_hctx *h,
					       struct mqfq_queue *near)
{
	unsigned int next = READ_ONCE(h->latest) + 1;
	struct mqfq_queue *best;

	best = mqfq_first_of(m, h, next, h->count, NULL);
	best = mqfq_first_of(m, h, 0, next, best);
	if (!best)
		return NULL;
	if (mqfq_urgency(m, best) == MQFQ_FAIR && mqfq_urgency(m, near) == MQFQ_FAIR &&
	    test_bit(near->bit, h->runnable) &&
	    !tag_after(mqfq_first_start(m, near), mqfq_first_start(m, best) + READ_ONCE(m->t)))
		best = near;
	WRITE_ONCE(h->latest, best->bit);
	return best;
}

/* The runnable queue of a hardware queue that is to be dispatched from; NULL: none is runnable. @near: the nearest one */
static inline struct mqfq_queue *mqfq_runnable(const struct mqfq *m, struct mqfq_hctx *h,
					       unsigned int near)
{
	unsigned long queues = READ_ONCE(h->runnable[0]);

	if (likely(h->count == 1))
		return queues ? &m->queues[near] : NULL;
	if (queues & (queues - 1) || h->count > BITS_PER_LONG)
		return mqfq_choose(m, h, &m->queues[near]);
	return queues ? &m->queues[h->queues[__ffs(queues)]] : NULL;
}

/**
 * mqfq_dispatch() - pick the next request of a hardware queue for the drive
 * @m: the drive's scheduler
 * @h: the hardware queue
 * @near: number of the queue of @h for this CPU
 * @picked: called under the queue's lock, before the request leaves the queue
 *
 * Process context. Return: a request, now in flight, or NULL: all queues are empty or blocked.
 */
static inline struct mqfq_entry *mqfq_dispatch(struct mqfq *m, struct mqfq_hctx *h,
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

/* Does any queue wait for virtual time or for a token? Any context. */
static inline bool mqfq_any_waits(const struct mqfq *m)
{
	return waiting_any(&m->waiting) || atomic_read(&m->wheel.waiting);
}

/**
 * mqfq_tags() - number of scheduler tags that may be held by requests that are not real-time
 * @m: the drive's scheduler
 * @tags: scheduler tags of a hardware queue
 * @level: MQFQ_FAIR or MQFQ_IDLE
 * @key: identity of the task's flow
 *
 * A task waits for a tag before its request exists, and no scheduler orders the waiting tasks. So one eighth of the tags is kept for
 * real-time tasks, and another eighth for these and for flows that need not wait for virtual time.
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

/* A request in flight left the drive. Any context. */
static inline void mqfq_end(struct mqfq *m, struct mqfq_entry *e)
{
	if (unlikely(atomic_read(&m->wheel.waiting)) && !waiting_any(&m->waiting))
		atomic64_inc(&m->queues[e->queue].idle);
	mqfq_give(m, e->queue);
}

/* A request is freed, or, with @comes_back, the driver returned it. Ignored unless it is in flight. Any context. */
static inline void mqfq_finish(struct mqfq *m, struct mqfq_entry *e, bool comes_back)
{
	if (e->state != MQFQ_INFLIGHT)
		return;
	e->state = comes_back ? MQFQ_RETURNED : MQFQ_NEW;
	mqfq_end(m, e);
}

/* --- CPU hotplug ------------------------------------------------------------------------------------------------ */

/**
 * mqfq_leave() - the last CPU of a hardware queue goes offline, or one is back online
 * @m: the drive's scheduler
 * @hctx: number of the hardware queue
 * @leaves: the CPU goes offline
 *
 * The CPU goes offline only when its hardware queue has no requests left. So these go before all others, instead of waiting as long as
 * other queues have more urgent ones. Process context.
 */
static void mqfq_leave(struct mqfq *m, unsigned int hctx, bool leaves)
{
	const struct mqfq_hctx *h = &m->hctxs[hctx];
	struct mqfq_queue *q;
	unsigned int i;

	for (i = 0; i < h->count; i++) {
		q = &m->queues[h->queues[i]];
		spin_lock(&q->lock);
		WRITE_ONCE(q->leaves, leaves);
		spin_unlock(&q->lock);
		if (leaves)
			mqfq_kick(m, q->number);
	}
	mqfq_break(m); /* its requests do not go by share */
}

/* --- knobs and set-up ------------------------------------------------------------------------------------------ */

/**
 * mqfq_configure() - set a knob
 * @m: the drive's scheduler
 * @knob: the knob
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

/* Adds a parent above each run of top nodes in the same group; a single node gets none. Return: the new number of top nodes. */
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

/* Lays out the arrays of a drive in @memory. Return: bytes used. */
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

/* Gives each hardware queue its part of the maps, each in cache lines of its own, and of the numbers. */
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
		h->count = 0; /* mqfq_init_queue() counts again */
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

/* Builds the tree of tokens: a node for each group of CPUs that has more than one node below. */
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
 * @hctxs: number of hardware queues
 * @places: places of the queues, sorted by group, the largest group first
 * @queues: number of @places
 * @scratch: room for @queues numbers, used during the call
 */
static void mqfq_init(struct mqfq *m, void *memory, unsigned int hctxs,
		      const struct mqfq_place *places, unsigned int queues, unsigned int *scratch)
{
	unsigned int i;

	for (i = 0; i < MQFQ_KNOB_COUNT; i++)
		m->knobs[i] = mqfq_knob_infos[i].initial;
	m->d = m->knobs[MQFQ_KNOB_d];
	m->period = mqfq_period(m);
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

/* Requests in flight: tokens neither in the tree nor given to a queue. Exact while no other function of MQFQ runs. */
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

/* Return: true if no request is left. No other function of MQFQ runs, or will be called. */
static bool mqfq_deinit(struct mqfq *m)
{
	unsigned int i, filled = 0;

	for (i = 0; i < m->queue_count; i++)
		filled |= m->queues[i].filled;
	return !filled && !waiting_any(&m->waiting) && !mqfq_inflight(m);
}
