/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SIM_LINUX_COMPILER_H
#define SIM_LINUX_COMPILER_H

#include <shared_memory.h>

#define READ_ONCE(x) shared_load(&(x))
#define WRITE_ONCE(x, value) shared_store(&(x), value)

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define noinline __attribute__((__noinline__))
#define fallthrough __attribute__((__fallthrough__))

/* For sparse: a function acquires or releases a lock. */
#define __acquires(lock)
#define __releases(lock)

#endif
