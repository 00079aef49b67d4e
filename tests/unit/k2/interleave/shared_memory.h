/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared memory for the interleaving test: see ../interleave.c. Every access may switch to another thread. What an int
 * holds (counters, flags, knobs) reaches other threads late, as on real CPUs, unless a barrier says otherwise; longs (bit
 * maps) change at once, because K2 also reads them plainly, under its lock.
 */
#ifndef SIM_SHARED_MEMORY_H
#define SIM_SHARED_MEMORY_H

enum model_change { MODEL_SET, MODEL_ADD };

void model_switch(void);
int model_load_int(const int *p);
void model_change_int(int *p, enum model_change change, int value);
void model_fence(void);
void model_lock(int *p);
int model_trylock(int *p);
void model_unlock(int *p);

#define shared_load(p)                                                   \
	({                                                               \
		typeof(+*(p)) shared_value;                              \
		if (sizeof(*(p)) == sizeof(int)) {                       \
			shared_value = model_load_int((const int *)(p)); \
		} else {                                                 \
			model_switch();                                  \
			shared_value = *(p);                             \
		}                                                        \
		shared_value;                                            \
	})
#define shared_store(p, value)                                          \
	({                                                              \
		if (sizeof(*(p)) == sizeof(int)) {                      \
			model_change_int((int *)(p), MODEL_SET, value); \
		} else {                                                \
			typeof(*(p)) shared_value = (value);            \
			model_switch();                                 \
			*(p) = shared_value;                            \
		}                                                       \
	})
#define shared_add(p, value)                                            \
	({                                                              \
		if (sizeof(*(p)) == sizeof(int)) {                      \
			model_change_int((int *)(p), MODEL_ADD, value); \
		} else {                                                \
			model_switch();                                 \
			*(p) += (value);                                \
		}                                                       \
	})
#define shared_or(p, value) ((void)shared_fetch_or(p, value))
#define shared_and(p, value) ((void)shared_fetch_and(p, value))
#define shared_fetch_add(p, value) shared_change(p, *(p) + (value))
#define shared_fetch_or(p, value) shared_change(p, *(p) | (value))
#define shared_fetch_and(p, value) shared_change(p, *(p) & (value))
#define shared_exchange(p, value) shared_change(p, value)
#define shared_change(p, changed)                  \
	({                                         \
		model_fence();                     \
		typeof(+*(p)) shared_value = *(p); \
		*(p) = (changed);                  \
		shared_value;                      \
	})
#define shared_compare_exchange(p, expected, value)      \
	({                                               \
		model_fence();                           \
		bool shared_equal = *(p) == *(expected); \
		if (shared_equal)                        \
			*(p) = (value);                  \
		else                                     \
			*(expected) = *(p);              \
		shared_equal;                            \
	})
#define shared_load_acquire(p) shared_load(p)
#define shared_store_release(p, value) (model_fence(), shared_store(p, value))
#define shared_fence() model_fence()
#define shared_fence_acquire() model_switch()
#define shared_fence_release() model_fence()

#define shared_lock(p) model_lock(p)
#define shared_trylock(p) model_trylock(p)
#define shared_unlock(p) model_unlock(p)

#endif
