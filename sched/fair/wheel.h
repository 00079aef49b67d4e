/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The queues that wait for virtual time: a timing wheel of buckets, each a bitmap of queues for a span of virtual time (G. Varghese, T.
 * Lauck, "Hashed and Hierarchical Timing Wheels", SOSP 1987; M. Hedayati et al., "Multi-Queue Fair Queueing", ATC 2019, section 3.3).
 *
 * Why no wake-up is lost. A queue sets its bit in the bucket of the span that it waits for, passes a full barrier, and reads virtual time
 * again: if the span has begun, it does not wait. A CPU that advances virtual time passes a full barrier, and then empties all buckets
 * whose spans have begun. At least one of the two sees what the other wrote. A queue that would wait for more spans than the wheel has
 * waits in the farthest bucket. A woken queue always checks again whether it may go, as it may have been woken too early.
 */
#ifndef TAILGATE_SCHED_WHEEL_H
#define TAILGATE_SCHED_WHEEL_H

#include <linux/atomic.h>
#include <linux/bitops.h>
#include <linux/compiler.h>
#include <linux/types.h>

#define WHEEL_BUCKETS 64

/**
 * struct wheel - queues that wait for virtual time
 * @waiting: number of bits that are set
 * @words: words in a bitmap of queues
 * @maps: WHEEL_BUCKETS bitmaps, one after the other
 */
struct wheel {
	atomic_t waiting;
	unsigned int words;
	unsigned long *maps;
};

static inline unsigned long *wheel_map(const struct wheel *w, u64 span)
{
	return &w->maps[span % WHEEL_BUCKETS * w->words];
}

/* Spans from one to a later one. Spans wrap around at 64 - @shift bits, as times wrap around at 64. */
static inline u64 wheel_spans(u64 from, u64 to, unsigned int shift)
{
	return (to - from) << shift >> shift;
}

/*
 * The span that a queue must wait for at time @now to wait until time @until; a span is 2^@shift long. The farthest one if that time is past:
 * the caller must check whether the queue still has to wait.
 */
static inline u64 wheel_span(u64 now, u64 until, unsigned int shift)
{
	u64 from = now >> shift, to = (until + (1ULL << shift) - 1) >> shift;

	return wheel_spans(from, to, shift) < WHEEL_BUCKETS ? to : from + WHEEL_BUCKETS - 1;
}

/* Has a span begun? */
static inline bool wheel_has_come(u64 span, u64 now, unsigned int shift)
{
	return (s64)(((now >> shift) - span) << shift) >= 0;
}

/* Notes that a queue waits for a span. The caller must then check wheel_has_come(). A full barrier. */
static inline void wheel_wait(struct wheel *w, unsigned int queue, u64 span)
{
	if (!test_and_set_bit(queue, wheel_map(w, span)))
		atomic_inc(&w->waiting);
}

/* Notes that a queue no longer waits for a span. */
static inline void wheel_leave(struct wheel *w, unsigned int queue, u64 span)
{
	if (test_and_clear_bit(queue, wheel_map(w, span)))
		atomic_dec(&w->waiting);
}

/* Wakes all queues in the bucket of a span. */
static inline void wheel_empty(struct wheel *w, u64 span,
			       void (*wake)(void *argument, unsigned int queue), void *argument)
{
	unsigned long queues, *map = wheel_map(w, span);
	unsigned int word;

	for (word = 0; word < w->words; word++) {
		if (!READ_ONCE(map[word]))
			continue;
		for (queues = xchg(&map[word], 0); queues; queues &= queues - 1) {
			atomic_dec(&w->waiting);
			wake(argument, word * BITS_PER_LONG + __ffs(queues));
		}
	}
}

/**
 * wheel_turn() - wake queues after virtual time has advanced
 * @w: the wheel
 * @from: virtual time before; only the caller has advanced it from there
 * @to: virtual time now
 * @shift: a span is 2 to this power
 * @wake: called for each queue that waited for a span after that of @from, up to that of @to
 * @argument: first argument of @wake
 */
static inline void wheel_turn(struct wheel *w, u64 from, u64 to, unsigned int shift,
			      void (*wake)(void *argument, unsigned int queue), void *argument)
{
	u64 spans = wheel_spans(from >> shift, to >> shift, shift);

	smp_mb(); /* pairs with wheel_wait() */
	if (spans > WHEEL_BUCKETS)
		spans = WHEEL_BUCKETS;
	while (spans--)
		wheel_empty(w, (to >> shift) - spans, wake, argument);
}

#endif
