/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared memory for the interleaving test: see ../interleave.c. Every access may switch to another thread. A thread's stores reach the
 * others late and in any order, as on real CPUs, unless a barrier prevents it. This holds for all sizes, and for atomics without a return
 * value as for plain stores. Unlocking is a release: other threads see earlier stores first, but later loads do not wait for it.
 */
#ifndef SIM_SHARED_MEMORY_H
#define SIM_SHARED_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

enum model_change { MODEL_SET, MODEL_ADD, MODEL_OR, MODEL_AND };

void model_switch(void);
void model_fence(void);
unsigned long long model_load(const void *p, size_t size);
void model_store(void *p, size_t size, enum model_change change, unsigned long long value);
unsigned long long model_exchange(void *p, size_t size, enum model_change change,
				  unsigned long long value);
bool model_compare_exchange(void *p, size_t size, unsigned long long *expected,
			    unsigned long long value);
void model_lock(int *p);
bool model_trylock(int *p);
void model_unlock(int *p);

#define shared_raw(value) ((unsigned long long)(value))
/* The type of *(p) without const and volatile, which the result of a comma operator does not have. */
#define shared_type(p) typeof(((void)0, *(p)))
#define shared_load(p) ((shared_type(p))model_load(p, sizeof(*(p))))
#define shared_store(p, value) model_store(p, sizeof(*(p)), MODEL_SET, shared_raw(value))
#define shared_add(p, value) model_store(p, sizeof(*(p)), MODEL_ADD, shared_raw(value))
#define shared_or(p, value) model_store(p, sizeof(*(p)), MODEL_OR, shared_raw(value))
#define shared_and(p, value) model_store(p, sizeof(*(p)), MODEL_AND, shared_raw(value))
#define shared_change(p, change, value) \
	((shared_type(p))model_exchange(p, sizeof(*(p)), change, shared_raw(value)))
#define shared_fetch_add(p, value) shared_change(p, MODEL_ADD, value)
#define shared_fetch_or(p, value) shared_change(p, MODEL_OR, value)
#define shared_fetch_and(p, value) shared_change(p, MODEL_AND, value)
#define shared_exchange(p, value) shared_change(p, MODEL_SET, value)
#define shared_compare_exchange(p, expected, value)                                               \
	({                                                                                        \
		unsigned long long shared_seen = shared_raw(*(expected));                         \
		bool shared_equal =                                                               \
			model_compare_exchange(p, sizeof(*(p)), &shared_seen, shared_raw(value)); \
		*(expected) = (shared_type(p))shared_seen;                                        \
		shared_equal;                                                                     \
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
