/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SIM_LINUX_KERNEL_H
#define SIM_LINUX_KERNEL_H

#include <limits.h>

#include <linux/types.h>

#define U32_MAX UINT32_MAX
#define U64_MAX UINT64_MAX
#define S64_MAX INT64_MAX

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define ALIGN(n, to) (((n) + (to)-1) / (to) * (to))
#define DIV_ROUND_UP(n, d) (((n) + (d)-1) / (d))
#define container_of(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

#define min_t(type, a, b)                      \
	({                                     \
		type min_a = (a), min_b = (b); \
		min_a < min_b ? min_a : min_b; \
	})
#define max_t(type, a, b)                      \
	({                                     \
		type max_a = (a), max_b = (b); \
		max_a > max_b ? max_a : max_b; \
	})
/* as in the kernel, both of one type */
#define min(a, b)                                                                                  \
	({                                                                                         \
		_Static_assert(__builtin_types_compatible_p(typeof(+(a)), typeof(+(b))), "types"); \
		min_t(typeof(a), a, b);                                                            \
	})
#define max(a, b)                                                                                  \
	({                                                                                         \
		_Static_assert(__builtin_types_compatible_p(typeof(+(a)), typeof(+(b))), "types"); \
		max_t(typeof(a), a, b);                                                            \
	})
#define clamp_t(type, value, least, most) min_t(type, max_t(type, value, least), most)

#define swap(a, b)                      \
	do {                            \
		typeof(a) swap_a = (a); \
		(a) = (b);              \
		(b) = swap_a;           \
	} while (0)

#endif
