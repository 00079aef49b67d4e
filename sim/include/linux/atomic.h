/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SIM_LINUX_ATOMIC_H
#define SIM_LINUX_ATOMIC_H

#include <linux/types.h>

#define smp_mb() shared_fence()
#define smp_rmb() shared_fence_acquire()
#define smp_wmb() shared_fence_release()
#define smp_mb__before_atomic() shared_fence()
#define smp_mb__after_atomic() shared_fence()
#define smp_load_acquire(p) shared_load_acquire(p)
#define smp_store_release(p, value) shared_store_release(p, value)

#define xchg(p, value) shared_exchange(p, value)
/* returns the old value, as the kernel's function does */
#define cmpxchg(p, expected, value)                               \
	({                                                        \
		typeof(*(p)) cmpxchg_seen = (expected);           \
		shared_compare_exchange(p, &cmpxchg_seen, value); \
		cmpxchg_seen;                                     \
	})

#define SIM_ATOMIC(prefix, type)                                                           \
	static inline type prefix##_read(const prefix##_t *v)                              \
	{                                                                                  \
		return shared_load(&v->counter);                                           \
	}                                                                                  \
	static inline type prefix##_read_acquire(const prefix##_t *v)                      \
	{                                                                                  \
		return shared_load_acquire(&v->counter);                                   \
	}                                                                                  \
	static inline void prefix##_set(prefix##_t *v, type value)                         \
	{                                                                                  \
		shared_store(&v->counter, value);                                          \
	}                                                                                  \
	static inline void prefix##_add(type value, prefix##_t *v)                         \
	{                                                                                  \
		shared_add(&v->counter, value);                                            \
	}                                                                                  \
	static inline void prefix##_sub(type value, prefix##_t *v)                         \
	{                                                                                  \
		shared_add(&v->counter, -value);                                           \
	}                                                                                  \
	static inline void prefix##_inc(prefix##_t *v)                                     \
	{                                                                                  \
		prefix##_add(1, v);                                                        \
	}                                                                                  \
	static inline void prefix##_dec(prefix##_t *v)                                     \
	{                                                                                  \
		prefix##_sub(1, v);                                                        \
	}                                                                                  \
	static inline void prefix##_or(type value, prefix##_t *v)                          \
	{                                                                                  \
		shared_or(&v->counter, value);                                             \
	}                                                                                  \
	static inline type prefix##_add_return(type value, prefix##_t *v)                  \
	{                                                                                  \
		return shared_fetch_add(&v->counter, value) + value;                       \
	}                                                                                  \
	static inline type prefix##_inc_return(prefix##_t *v)                              \
	{                                                                                  \
		return prefix##_add_return(1, v);                                          \
	}                                                                                  \
	static inline type prefix##_dec_return(prefix##_t *v)                              \
	{                                                                                  \
		return prefix##_add_return(-1, v);                                         \
	}                                                                                  \
	static inline type prefix##_dec_return_release(prefix##_t *v)                      \
	{                                                                                  \
		return prefix##_dec_return(v);                                             \
	}                                                                                  \
	static inline type prefix##_xchg(prefix##_t *v, type value)                        \
	{                                                                                  \
		return shared_exchange(&v->counter, value);                                \
	}                                                                                  \
	static inline bool prefix##_try_cmpxchg(prefix##_t *v, type *expected, type value) \
	{                                                                                  \
		return shared_compare_exchange(&v->counter, expected, value);              \
	}
SIM_ATOMIC(atomic, int)
SIM_ATOMIC(atomic_long, long)
SIM_ATOMIC(atomic64, s64)
#undef SIM_ATOMIC

#endif
