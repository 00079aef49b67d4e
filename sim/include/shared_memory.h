/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * All accesses to memory that threads share without a lock, and all locks. Ordering is as in the kernel
 * (Documentation/atomic_t.txt): operations without a result are unordered, operations with a result are fully ordered, a lock
 * acquires and an unlock releases.
 */
#ifndef SIM_SHARED_MEMORY_H
#define SIM_SHARED_MEMORY_H

#include <sched.h>

#define shared_load(p) __atomic_load_n(p, __ATOMIC_RELAXED)
#define shared_load_acquire(p) __atomic_load_n(p, __ATOMIC_ACQUIRE)
#define shared_store(p, value) __atomic_store_n(p, value, __ATOMIC_RELAXED)
#define shared_store_release(p, value) __atomic_store_n(p, value, __ATOMIC_RELEASE)
#define shared_add(p, value) ((void)__atomic_fetch_add(p, value, __ATOMIC_RELAXED))
#define shared_or(p, value) ((void)__atomic_fetch_or(p, value, __ATOMIC_RELAXED))
#define shared_and(p, value) ((void)__atomic_fetch_and(p, value, __ATOMIC_RELAXED))
#define shared_fetch_add(p, value) __atomic_fetch_add(p, value, __ATOMIC_SEQ_CST)
#define shared_fetch_or(p, value) __atomic_fetch_or(p, value, __ATOMIC_SEQ_CST)
#define shared_fetch_and(p, value) __atomic_fetch_and(p, value, __ATOMIC_SEQ_CST)
#define shared_exchange(p, value) __atomic_exchange_n(p, value, __ATOMIC_SEQ_CST)
#define shared_compare_exchange(p, expected, value) \
	__atomic_compare_exchange_n(p, expected, value, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)
#define shared_fence() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#define shared_fence_acquire() __atomic_thread_fence(__ATOMIC_ACQUIRE)
#define shared_fence_release() __atomic_thread_fence(__ATOMIC_RELEASE)

#define shared_trylock(p) (!__atomic_exchange_n(p, 1, __ATOMIC_ACQUIRE))
#define shared_unlock(p) __atomic_store_n(p, 0, __ATOMIC_RELEASE)

/* Waits a little for another thread; @tries: number of this attempt, from 1. */
static inline void shared_relax(unsigned int tries)
{
	/* the holder of a lock may have been preempted: yield instead of spinning for long */
	if (!(tries % 256))
		sched_yield();
#ifdef __x86_64__
	__builtin_ia32_pause();
#endif
}

static inline void shared_lock(int *p)
{
	unsigned int tries = 0;

	while (!shared_trylock(p))
		while (shared_load(p))
			shared_relax(++tries);
}

#endif
