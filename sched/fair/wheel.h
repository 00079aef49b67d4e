/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which queues wait for virtual time, and until when: a wheel of buckets, each a bitmap of queues and a span of virtual time (G. Varghese, T.
 * Lauck, "Hashed and Hierarchical Timing Wheels", SOSP 1987; M. Hedayati et al., "Multi-Queue Fair Queueing", ATC 2019, section 3.3).
 *
 * Why no wake-up is lost. A queue sets its bit in the bucket of the time that it waits for, and then, after a full barrier, reads
 * virtual time again: if that has come, it does not wait. Who moves virtual time on empties, after a full barrier, all buckets that it
 * has passed. One of the two sees what the other wrote. A queue that waits for longer than the wheel is round waits in the farthest
 * bucket, and asks again when it is woken; so does one that was woken in vain, as another that comes round to the same bucket is.
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
 * @waiting: bits that are set
 * @words: words of a bitmap of queues
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

/* From a span to a later one; spans wrap around as times do, which have @shift more bits. */
static inline u64 wheel_spans(u64 from, u64 to, unsigned int shift)
{
	return (to - from) << shift >> shift;
}

/* The span in which a queue waits at the time @now for @until; a span is 2^@shift. */
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

/* A queue waits for a span. Then it must look whether that has come. A full barrier. */
static inline void wheel_wait(struct wheel *w, unsigned int queue, u64 span)
{
	if (!test_and_set_bit(queue, wheel_map(w, span)))
		atomic_inc(&w->waiting);
}

/* It waits no more. */
static inline void wheel_leave(struct wheel *w, unsigned int queue, u64 span)
{
	if (test_and_clear_bit(queue, wheel_map(w, span)))
		atomic_dec(&w->waiting);
}

/* Wakes those that wait in the bucket of a span. */
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
 * wheel_turn() - virtual time has moved on
 * @w: the wheel
 * @from: where it was; the caller alone has moved it on from there
 * @to: where it is
 * @shift: a span is 2 to this power
 * @wake: called for each queue that waited for a span in between, or for that of @to
 * @argument: for @wake
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
