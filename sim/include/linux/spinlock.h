/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SIM_LINUX_SPINLOCK_H
#define SIM_LINUX_SPINLOCK_H

#include <assert.h>

#include <linux/types.h>

typedef struct {
	int locked;
} spinlock_t;

#define lockdep_assert_held(lock) assert(shared_load(&(lock)->locked))

static inline void spin_lock_init(spinlock_t *lock)
{
	lock->locked = 0;
}

static inline void spin_lock(spinlock_t *lock)
{
	shared_lock(&lock->locked);
}

static inline int spin_trylock(spinlock_t *lock)
{
	return shared_trylock(&lock->locked);
}

static inline void spin_unlock(spinlock_t *lock)
{
	lockdep_assert_held(lock);
	shared_unlock(&lock->locked);
}

/* There are no interrupts. */
typedef spinlock_t raw_spinlock_t;
#define raw_spin_lock_init(lock) spin_lock_init(lock)
#define raw_spin_lock_irqsave(lock, flags) ((flags) = 0, spin_lock(lock))
#define raw_spin_unlock_irqrestore(lock, flags) ((void)(flags), spin_unlock(lock))

#endif
