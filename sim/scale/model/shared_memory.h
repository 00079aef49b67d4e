/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared memory for ../model.c. Accesses are real ones, which the compiler reports to the model (-fsanitize=thread). Locks are replaced:
 * a waiting CPU must not spin, because no other CPU of the model would run meanwhile.
 */
#define shared_lock shared_lock_spinning
#include "../../include/shared_memory.h"
#undef shared_lock
#undef shared_unlock

void model_lock(int *p);
void model_unlock(int *p);

#define shared_lock(p) model_lock(p)
#define shared_unlock(p) model_unlock(p)
