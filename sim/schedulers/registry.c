// SPDX-License-Identifier: GPL-2.0-only
/* The schedulers that the simulator offers: a declaration and an entry each. */
#include "scheduler.h"

extern const struct sim_scheduler sim_deadline, sim_fifo, sim_k2, sim_kyber;

const struct sim_scheduler *const sim_schedulers[] = { &sim_deadline, &sim_kyber, &sim_fifo,
						       &sim_k2, NULL };
