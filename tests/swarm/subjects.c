// SPDX-License-Identifier: GPL-2.0-only
/* The schedulers under test. */
#include <stddef.h>

#include "subject.h"

/* clang-format off */
#define SUBJECTS(subject) \
	subject(fifo) \
	subject(k2) \
	subject(mqfq)
/* clang-format on */

#define DECLARE(name) extern const struct subject subject_##name;
SUBJECTS(DECLARE)

#define ENTRY(name) &subject_##name,
const struct subject *const subjects[] = { SUBJECTS(ENTRY) NULL };
const struct subject *subject;
