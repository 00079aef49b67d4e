/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared memory for single-threaded programs: replaces the operations of ../include/shared_memory.h by plain accesses, if it
 * comes first on the include path. Locks still record whether they are held.
 */
#ifndef SIM_SHARED_MEMORY_H
#define SIM_SHARED_MEMORY_H

#include <assert.h>
#include <stdbool.h>

#define shared_load(p) (*(p))
#define shared_load_acquire(p) (*(p))
#define shared_store(p, value) ((void)(*(p) = (value)))
#define shared_store_release(p, value) ((void)(*(p) = (value)))
#define shared_add(p, value) ((void)(*(p) += (value)))
#define shared_or(p, value) ((void)(*(p) |= (value)))
#define shared_and(p, value) ((void)(*(p) &= (value)))
#define shared_fetch_add(p, value) shared_change(p, (value) + shared_was)
#define shared_fetch_or(p, value) shared_change(p, (value) | shared_was)
#define shared_fetch_and(p, value) shared_change(p, (value)&shared_was)
#define shared_exchange(p, value) shared_change(p, value)
#define shared_change(p, changed)                \
	({                                       \
		typeof(+*(p)) shared_was = *(p); \
		*(p) = (changed);                \
		shared_was;                      \
	})
#define shared_compare_exchange(p, expected, value)            \
	({                                                     \
		const bool shared_equal = *(p) == *(expected); \
		if (shared_equal)                              \
			*(p) = (value);                        \
		else                                           \
			*(expected) = *(p);                    \
		shared_equal;                                  \
	})
/* one thread sees its own accesses in order */
#define shared_fence() ((void)0)
#define shared_fence_acquire() ((void)0)
#define shared_fence_release() ((void)0)

#define shared_trylock(p) (*(p) ? false : (*(p) = true))
#define shared_unlock(p) ((void)(*(p) = false))

static inline void shared_lock(int *p)
{
	assert(!*p); /* no other thread exists that could release it */
	*p = true;
}

#endif
