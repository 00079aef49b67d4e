// SPDX-License-Identifier: GPL-2.0-only
/*
 * MQFQ: virtual time, which follows the least start tag of all queues, and wakes those that wait for it; the tokens that queues give back,
 * and who gets them. Included by mqfq.c.
 */
#include "mqfq.h"

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

/* Must a level leave free tokens to a more urgent level that waits for one? Class idle leaves them to every waiting request. */
static inline bool mqfq_must_yield(struct mqfq *m, unsigned int level)
{
	if (unlikely(level == MQFQ_IDLE) && mindicator_least(&m->mindicator) != MINDICATOR_NONE)
		return true;
	return unlikely(waiting_rt(&m->waiting) || level > MQFQ_FAIR) &&
	       waiting_level(&m->waiting, level) != level;
}

/*
 * Takes a token that was given to a queue which waits at a less urgent level: its CPU may have no time to use it. That queue's dispatcher then
 * finds none, and the queue waits on.
 */
static noinline bool mqfq_take_given(struct mqfq *m, unsigned int level)
{
	unsigned int i, waits;

	for (i = 0; i < m->queue_count; i++) {
		waits = READ_ONCE(m->queues[i].waits);
		if (waits != WAITING_NONE && waits > level && tokens_take_one(&m->queues[i].given))
			return true;
	}
	return false;
}

/* Finds a token for a queue that waits at a level. The caller has passed a full barrier after waiting_add(). */
static inline bool mqfq_find_token(struct mqfq *m, unsigned int level)
{
	return tokens_steal(&m->tokens) || (level < MQFQ_FAIR && mqfq_take_given(m, level));
}

/* A queue that is not urgent gets at most this part of all tokens, and at most these if they are more, before its CPU uses them. */
#define MQFQ_GIVEN_SHIFT 2
#define MQFQ_GIVEN_MIN 4U

/*
 * Tokens that a queue gets which waits at a level. An urgent one has no use for more than it has urgent requests. Another one gets a part of all
 * tokens: its CPU may have no time to use them, and the next freed token is for other queues then. To count its requests would cost
 * cache lines that its CPU writes to.
 */
static inline unsigned int mqfq_needs(const struct mqfq *m, const struct mqfq_queue *q,
				      unsigned int level)
{
	if (level < MQFQ_FAIR)
		return READ_ONCE(q->leaves) ? UINT_MAX : max(READ_ONCE(q->urgent), 1U);
	return max(READ_ONCE(m->d) >> MQFQ_GIVEN_SHIFT, MQFQ_GIVEN_MIN);
}

/*
 * Gives a token to a waiting queue. One that has all that it may get does not wait for more. Other queues must not wait for its CPU to say so, as
 * the drive would run out of work. Return: false if the token is still the caller's: the queue does not wait any more, or a more urgent queue
 * began to wait, and may have looked here before the token came.
 */
static noinline bool mqfq_give_to(struct mqfq *m, struct mqfq_queue *q)
{
	unsigned int given = atomic_inc_return(&q->given), level = READ_ONCE(q->waits);

	if (level != WAITING_NONE && given >= mqfq_needs(m, q, level))
		waiting_remove(&m->waiting, q->number, level);
	mqfq_kick(m, q->number);
	/* atomic_inc_return() pairs with the barrier after waiting_add() */
	return (level != WAITING_NONE && !mqfq_must_yield(m, level)) || !tokens_take_one(&q->given);
}

/* Puts a token of queue @number into the tree. Return: true if a queue began to wait meanwhile, and the caller has the token again. */
static __always_inline bool mqfq_put(struct mqfq *m, unsigned int number)
{
	tokens_put(&m->tokens, number);
	smp_mb(); /* pairs with the barrier after waiting_add() */
	return unlikely(mqfq_next_waiter(m, number) != WAITING_NONE) && tokens_steal(&m->tokens);
}

/* mqfq_give() if a queue may wait, or tokens are to be destroyed. */
static noinline void mqfq_give_slowly(struct mqfq *m, unsigned int number)
{
	unsigned int to;

	while (!tokens_drop(&m->tokens)) {
		to = mqfq_next_waiter(m, number);
		if (to == WAITING_NONE ? !mqfq_put(m, number) : mqfq_give_to(m, &m->queues[to]))
			return;
	}
}

/* Frees a token of queue @number: gives it to a waiting queue, or puts it into the tree. Any context. */
static __always_inline void mqfq_give(struct mqfq *m, unsigned int number)
{
	if (unlikely(waiting_any(&m->waiting) || atomic_read(&m->tokens.excess) > 0) ||
	    mqfq_put(m, number))
		mqfq_give_slowly(m, number);
}

/* Gives tokens to waiting queues, after what they had to yield to is gone. */
static noinline void mqfq_give_all(struct mqfq *m, unsigned int number)
{
	unsigned int to;

	smp_mb(); /* pairs with the barrier after waiting_add() */
	while ((to = mqfq_next_waiter(m, number)) != WAITING_NONE &&
	       mqfq_find_token(m, READ_ONCE(m->queues[to].waits)))
		mqfq_give(m, number);
}

/* A queue no longer waits for its span, which may not have begun: it is empty, or another request comes first. */
static inline void mqfq_leave_wheel(struct mqfq *m, const struct mqfq_queue *q)
{
	/* usually the span has begun, and nothing that CPUs share is touched */
	if (!wheel_has_come(q->span, atomic64_read(&m->vt), READ_ONCE(m->span_shift)))
		wheel_leave(&m->wheel, q->number, q->span);
}

/* Publishes a queue's first tag, @number, or MINDICATOR_NONE, and advances virtual time to the least of all. */
static noinline void mqfq_publish(struct mqfq *m, struct mqfq_queue *q, u64 number)
{
	s64 vt = atomic64_read(&m->vt);
	u64 least;

	mqfq_account_near(m, q);
	if (number == MINDICATOR_NONE)
		mqfq_leave_wheel(m, q);
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

/* What a queue publishes: its first tag, rounded down to a span of 2^@shift, the resolution of virtual time; MINDICATOR_NONE: it has none. */
static inline u64 mqfq_number_at(const struct mqfq_queue *q, unsigned int shift)
{
	return q->first ? q->first->start >> shift << shift >> MINDICATOR_VERSION_BITS :
			  MINDICATOR_NONE;
}

static inline u64 mqfq_number(const struct mqfq *m, const struct mqfq_queue *q)
{
	return mqfq_number_at(q, READ_ONCE(m->span_shift)); /* read once: it may change */
}
