/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared memory for ../model.c: the real one, whose accesses the compiler shows to the model (-fsanitize=thread), but for
 * locks: there a CPU that waits must not spin, since nobody else would run.
 */
#define shared_lock shared_lock_spinning
#include "../../include/shared_memory.h"
#undef shared_lock
#undef shared_unlock

void model_lock(int *p);
void model_unlock(int *p);

#define shared_lock(p) model_lock(p)
#define shared_unlock(p) model_unlock(p)
