// SPDX-License-Identifier: GPL-2.0-only
/*
 * MQFQ: dispatch, and the end of requests. See mqfq.h. The code that binds it to an environment includes this file, so that the compiler
 * sees both at once.
 */
#include <linux/bitops.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/math64.h>

#include "mqfq.h"

#include "mqfq_accounts.c"
#include "mqfq_time.c"
#include "mqfq_period.c"
#include "mqfq_insert.c"
#include "mqfq_setup.c"

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

	/* in this order: mqfq_give() need not try again and again to give a token to a queue that does not wait */
	waiting_remove(&m->waiting, q->number, level);
	WRITE_ONCE(q->waits, WAITING_NONE);
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
	u64 number = mqfq_number_at(q, shift);

	if (q->waits != WAITING_NONE)
		mqfq_stop_waiting(m, q);
	if (number != q->published)
		mqfq_publish(m, q, number);
	if (mqfq_is_near(m, start))
		return false;
	mqfq_leave_wheel(m, q);
	clear_bit(q->bit, q->runnable);
	smp_mb__after_atomic(); /* the CPU that clears the bit in the wheel then sees that the queue is not runnable, and runs it */
	q->span = span = wheel_span(atomic64_read(&m->vt), start - t, shift);
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
		smp_mb(); /* pairs with mqfq_give() and mqfq_give_to() */
		if (!mqfq_must_yield(m, level) && mqfq_find_token(m, level)) {
			atomic_inc(&q->given);
			mqfq_stop_waiting(m, q); /* there may be more tokens, so check again */
		}
	}
	/* if it found a token but does not have it any more, it does not wait for one: the caller looks again */
	if (q->waits != WAITING_NONE && !atomic_read(&q->given))
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
		level = urgency = __ffs(q->filled);
		if (unlikely(q->leaves)) {
			urgency = MQFQ_URGENT;
			mqfq_break(m); /* its requests do not go by share */
		}
		if (mqfq_idle_is_due(m, q)) {
			level = MQFQ_IDLE;
			urgency = MQFQ_URGENT;
		}
		if (unlikely(q->waits != WAITING_NONE && q->waits != urgency)) {
			mqfq_stop_waiting(m, q);
			/* the queue is no longer blocked; the dispatcher chooses again if a more urgent queue is not either */
			set_bit(q->bit, q->runnable);
			if (mqfq_is_preceded(m, q))
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

/* Must mqfq_tags() be applied now? A limit costs a search for a tag, and prevents the block layer from allocating tags in batches. */
static inline bool mqfq_limits_tags(const struct mqfq *m, unsigned int tags)
{
	return unlikely(mqfq_any_waits(m) || tags - tags / 4 <= READ_ONCE(m->d));
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
