/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Every access to memory that threads share without a lock, and every lock. As in the kernel: operations without a
 * result order nothing, those with a result order everything (Documentation/atomic_t.txt), a lock acquires and an
 * unlock releases.
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

/* Waits a little for another thread; @tries says how often it did so already, from 1. */
static inline void shared_relax(unsigned int tries)
{
	/* user space may lose its CPU while it holds a lock: give way instead of spinning for long */
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
